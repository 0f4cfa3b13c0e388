"""What a pass is told to have seen and done, as conditions, events and deadlines."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.changes.results import ChangeOutcome, ChangeResult
from reconciler.context import Pass, Reconciler, Settings, build_reconciler
from reconciler.git.poller import BranchHead
from reconciler.inventory.store import Inventory
from reconciler.objects.memory import GIVEN_UP_AFTER
from reconciler.observation.observe import Observation
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.target import Target
from reconciler.report.build import build_report
from tests.builders.fake_cluster import FakeCluster
from tests.unit.reconciler.ownership.world import COMMIT, creation


@pytest.fixture
def r(tmp_path: Path) -> Reconciler:
    settings = Settings(str(tmp_path), "main", "test", "gangplan-system", tmp_path / "data")
    made = build_reconciler(settings, FakeCluster().client(), "me")
    made.client.fence = lambda: None
    made.poller.head = BranchHead(COMMIT)
    made.clock = made.wall_clock = made.writer.clock = lambda: 1000.0
    made.planning.snapshot = Snapshot(COMMIT, True, plan={"digest": "", "gangs": []})
    return made


def a_pass() -> Pass:
    return Pass(Observation({}, frozenset()), Inventory(), snapshot=Snapshot(COMMIT, True, plan={"gangs": []}))


def test_what_is_refused_again_and_again_keeps_nothing_busy(r: Reconciler) -> None:
    """`--once` waited its whole time limit, ten minutes, for an object of a namespace that is not there."""
    change, memory = creation("refused"), r.writer.memory
    p = a_pass()
    p.changes = [change]
    p.follow(Target(COMMIT, snapshot=p.snapshot, is_fresh=True))

    def is_idle_after(outcome: ChangeOutcome, times: int) -> bool:
        for _ in range(times):
            memory.record_result(ChangeResult(change, outcome, "no such namespace"), r.clock())
        return build_report(r, p).is_idle

    assert not is_idle_after("refused", GIVEN_UP_AFTER - 1)
    assert is_idle_after("refused", 1)
    p.record_results([ChangeResult(change, "refused")])
    assert build_report(r, p).is_idle, "another try that was refused is no progress"
    assert not is_idle_after("retry", 1), "a server that is too busy will answer"
    assert is_idle_after("conflict", GIVEN_UP_AFTER)
    assert is_idle_after("fight", 1)
    p.changes = [change, creation("new")]
    assert not build_report(r, p).is_idle
