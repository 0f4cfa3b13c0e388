"""What `gangplan suspend` and `resume` answer: nobody is told that something is suspended which is not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from click.testing import CliRunner, Result

from compiler.kubernetes import DIGEST_ANNOTATION
from reconciler.cli import connection
from reconciler.cli import requests as commands
from reconciler.cluster.objects import Ref
from reconciler.inventory.store import FinishedRun, Inventory, InventoryEntry
from reconciler.requests.part import RequestStore
from tests.builders.fake_cluster import FakeCluster

TRAIN = Ref("batch.volcano.sh/v1alpha1", "Job", "team", "train")


@dataclass
class Desk:
    """A cluster, what gangplan knows of it, and the commands."""

    store: RequestStore
    inventory: Inventory

    def ask(self, command: str, target: str) -> Result:
        return CliRunner().invoke(getattr(commands, command), [target, "--cluster", "test"])

    def suspended(self) -> frozenset[str]:
        return self.store.read().suspended


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(RequestStore(FakeCluster().client(), "gangplan-system", "test"), Inventory())
    made.inventory.enter(InventoryEntry(TRAIN, "u"))
    monkeypatch.setattr(connection, "open_client", lambda *_: made.store.client)
    monkeypatch.setattr(commands, "_read", lambda *_: (made.store, made.inventory))
    return made


@pytest.mark.parametrize("target", ["train", "", "queue", "team/trian", "a b"])
def test_a_target_that_is_nothing_is_refused(desk: Desk, target: str) -> None:
    """`suspend train` said that train is suspended, as a kind of this name, while the job went on."""
    done = desk.ask("suspend", target)
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert desk.suspended() == frozenset()


def test_a_kind_or_object_that_nothing_was_made_of_is_said_to_be_so(desk: Desk) -> None:
    for target, is_known in (("Job", True), ("Job.batch.volcano.sh", True), (TRAIN.key, True), ("Queue", False)):
        done = desk.ask("suspend", target)
        assert (done.exit_code, "nothing of this name" in done.output) == (0, not is_known)
    assert "nothing" not in desk.ask("suspend", "all").output


@pytest.mark.parametrize(
    ("digest", "phase", "answer"),
    [
        ("sha256:2", "Running", "has not finished"),
        ("sha256:1#2", "Pending", "has not finished"),
        ("sha256:1", "Completed", "runs again"),
        ("sha256:2", "Completed", "runs again"),
    ],
)
def test_a_job_in_another_run_is_not_said_to_run_again(desk: Desk, digest: str, phase: str, answer: str) -> None:
    """`rerun` of a job that ran told of another run of its former specification."""
    desk.inventory.runs[TRAIN.key] = FinishedRun(TRAIN, "sha256:1", "Completed")
    metadata = {"name": "train", "namespace": "team", "annotations": {DIGEST_ANNOTATION: digest}}
    job = {"apiVersion": TRAIN.api_version, "kind": "Job", "metadata": metadata}
    desk.store.client.create({**job, "status": {"state": {"phase": phase}}})
    assert answer in desk.ask("rerun", "team/train").output


def test_what_is_suspended_is_resumed_by_its_short_name_also_when_it_is_gone(desk: Desk) -> None:
    desk.ask("suspend", "Job.batch.volcano.sh/team/later")
    assert "is not suspended; still suspended: Job.batch" in desk.ask("resume", "team/train").output
    assert desk.ask("resume", "team/later").exit_code == 0
    assert desk.suspended() == frozenset()
    assert desk.ask("resume", "all").exit_code == 0


def test_what_has_had_a_run_or_is_one_runs_again_whatever_its_kind(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds of `jobKinds` and others that the inventory has among its runs were refused as no jobs."""
    monkeypatch.setattr(type(desk.store.client), "find", lambda self, ref: None)
    over, held, service = (Ref("example.org/v1", "FooJob", "team", name) for name in ("over", "held", "service"))
    desk.inventory.runs[over.key] = FinishedRun(over, "sha256:1", "Completed")
    desk.inventory.entries[held.key] = InventoryEntry(held, "u", run="sha256:2")
    desk.inventory.entries[service.key] = InventoryEntry(service, "u")
    assert "runs again: run 2 of sha256:1" in desk.ask("rerun", "team/over").output
    assert "if it is held, it is tried again" in desk.ask("rerun", "team/held").output
    refused = desk.ask("rerun", "team/service")
    assert (refused.exit_code, "not a job that gangplan knows" in refused.output) == (1, True)
