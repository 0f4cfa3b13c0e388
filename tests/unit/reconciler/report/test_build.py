"""What a pass is told to have seen and done, as conditions, events and deadlines."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.changes.allowed import PrunePlan
from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeOutcome, ChangeResult
from reconciler.cluster.objects import Ref
from reconciler.context import Pass, Reconciler, Settings, build_reconciler
from reconciler.git.poller import BranchHead
from reconciler.inventory.store import Inventory
from reconciler.objects.memory import GIVEN_UP_AFTER
from reconciler.observation.observe import Observation
from reconciler.planning.snapshot import Snapshot
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


def test_without_an_inventory_nothing_is_applied(r: Reconciler) -> None:
    p = a_pass()
    p.standstill = "the inventory is lost"
    conditions = {each.type: each for each in build_report(r, p).conditions}
    assert (conditions["InventoryLost"].status, conditions["Applied"].status) == (True, False)


def test_conditions_describe_the_state_and_not_the_last_pass(r: Reconciler) -> None:
    """S12: Applied was False only in the pass that tried."""
    p = a_pass()
    p.changes = [creation("refused")]
    result = ChangeResult(p.changes[0], "refused", "admission denied it")
    r.writer.memory.failures[p.changes[0].ref.key] = result
    r.writer.memory.failures["ConfigMap/default/of-before"] = result
    report = build_report(r, p)
    applied = next(each for each in report.conditions if each.type == "Applied")
    assert (applied.status, applied.message) == (False, "ConfigMap default/refused: admission denied it")
    assert report.outstanding == (result,)


def test_what_is_refused_again_and_again_keeps_nothing_busy(r: Reconciler) -> None:
    """`--once` waited its whole time limit, ten minutes, for an object of a namespace that is not there."""
    change, memory = creation("refused"), r.writer.memory
    p = a_pass()
    p.changes = [change]
    p.aim_at(COMMIT)

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


def test_prune_held_says_all_reasons_and_how_many_objects_each_keeps(r: Reconciler) -> None:
    """S14: one protected object hid that 14 others were held."""
    p = a_pass()
    reasons = ["prune: disabled protects it", *["14 objects would be deleted"] * 14]
    held = tuple(Change("held", Ref("v1", "ConfigMap", "d", f"o{at}"), reason=text) for at, text in enumerate(reasons))
    p.prune_plan = PrunePlan(held_changes=held)
    said = next(each for each in build_report(r, p).conditions if each.type == "PruneHeld")
    assert said.message == "14 objects: 14 objects would be deleted; 1 object: prune: disabled protects it"


def test_while_something_is_held_an_annotation_is_looked_for_soon(r: Reconciler) -> None:
    p = a_pass()
    assert build_report(r, p).next_wakeup is None
    p.rewrite_message = "held"
    assert build_report(r, p).next_wakeup == 5.0
