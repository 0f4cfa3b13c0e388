"""What `gangplan suspend` and `resume` answer: nobody is told that something is suspended which is not."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result

from compiler.kubernetes import DIGEST_ANNOTATION
from reconciler.cli import connection
from reconciler.cli import requests as commands
from reconciler.cluster.objects import Ref
from reconciler.inventory.store import FinishedRun, Inventory, InventoryEntry
from reconciler.requests.store import RequestStore
from tests.builders.fake_cluster import FakeCluster

TRAIN = Ref("batch.volcano.sh/v1alpha1", "Job", "team", "train")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> RequestStore:
    made, inventory = RequestStore(FakeCluster().client(), "gangplan-system", "test"), Inventory()
    inventory.entries[TRAIN.key] = InventoryEntry(TRAIN, "u")
    monkeypatch.setattr(connection, "check_kubeconfig", lambda *_: None)
    monkeypatch.setattr(commands, "_stores", lambda *_: (made, inventory))
    return made


def ask(command: str, target: str) -> Result:
    return CliRunner().invoke(getattr(commands, command), [target, "--cluster", "test"])


@pytest.mark.parametrize("target", ["train", "", "queue", "team/trian", "a b"])
def test_a_target_that_is_nothing_is_refused(store: RequestStore, target: str) -> None:
    """`suspend train` said that train is suspended, as a kind of this name, while the job went on."""
    done = ask("suspend", target)
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert store.read().suspended == frozenset()


def test_a_kind_or_object_that_nothing_was_made_of_is_said_to_be_so(store: RequestStore) -> None:
    for target, is_known in (("Job", True), ("Job.batch.volcano.sh", True), (TRAIN.key, True), ("Queue", False)):
        done = ask("suspend", target)
        assert (done.exit_code, "nothing of this name" in done.output) == (0, not is_known)
    assert "nothing" not in ask("suspend", "all").output


@pytest.mark.parametrize(
    ("digest", "phase", "answer"),
    [
        ("sha256:2", "Running", "has not finished"),
        ("sha256:1#2", "Pending", "has not finished"),
        ("sha256:1", "Completed", "runs again"),
        ("sha256:2", "Completed", "runs again"),
    ],
)
def test_a_job_that_has_begun_another_run_is_not_said_to_run_again(
    store: RequestStore, digest: str, phase: str, answer: str
) -> None:
    """`rerun` of a job that ran told of another run of its former specification."""
    _, inventory = commands._stores("test", None, None, "gangplan-system")
    inventory.runs[TRAIN.key] = FinishedRun(TRAIN, "sha256:1", "Completed")
    metadata = {"name": "train", "namespace": "team", "annotations": {DIGEST_ANNOTATION: digest}}
    job = {"apiVersion": TRAIN.api_version, "kind": "Job", "metadata": metadata}
    store.client.create({**job, "status": {"state": {"phase": phase}}})
    assert answer in ask("rerun", "team/train").output


def test_what_is_suspended_is_resumed_by_its_short_name_also_when_it_is_gone(store: RequestStore) -> None:
    ask("suspend", "Job.batch.volcano.sh/team/later")
    assert "is not suspended; still suspended: Job.batch" in ask("resume", "team/train").output
    assert ask("resume", "team/later").exit_code == 0
    assert store.read().suspended == frozenset()
    assert ask("resume", "all").exit_code == 0


def test_whatever_has_had_a_run_or_is_one_runs_again_whatever_its_kind(
    store: RequestStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds of `jobKinds` and others that the inventory has among its runs were refused as no jobs."""
    _, inventory = commands._stores("test", None, None, "gangplan-system")
    monkeypatch.setattr(type(store.client), "find", lambda self, ref: None)
    over, held, service = (Ref("example.org/v1", "FooJob", "team", name) for name in ("over", "held", "service"))
    inventory.runs[over.key] = FinishedRun(over, "sha256:1", "Completed")
    inventory.entries[held.key] = InventoryEntry(held, "u", run="sha256:2")
    inventory.entries[service.key] = InventoryEntry(service, "u")
    assert "runs again: run 2 of sha256:1" in ask("rerun", "team/over").output
    assert "if it is held, it is tried again" in ask("rerun", "team/held").output
    refused = ask("rerun", "team/service")
    assert (refused.exit_code, "no job that gangplan knows" in refused.output) == (1, True)
