"""The report of a pass: what it saw, aimed at and did, in the words of the parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reconciler.changes.diff import Change
from reconciler.changes.results import Allowed, ChangeResult, Changes, Condition, Effects, PrunePlan
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.git.mirror import BranchHead
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.observation.observe import Observation, Restrictions, Seen
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.verdict import Verdict
from reconciler.report.outcome import Outcome, report_of
from reconciler.report.status import Report
from reconciler.report.status_text import CONDITION_TYPES
from tests.builders.live import BATCH, live
from tests.builders.pods import entry
from tests.builders.writing import thing

STATUS = thing("ConfigMap", "s", namespace="gangplan-system")
OTHERS = tuple(
    Condition(kind, False, "None")
    for kind in ("GangsHeld", "VolcanoDiffers", "VolcanoVulnerable", "SchedulerBehind", "Fighting")
)
"""What the parts say that hold nothing of a pass."""


def item(name: str) -> Object:
    return thing("ConfigMap", name, namespace="d", uid=name)


def held(name: str, reason: str = "because", *, is_deferred: bool = False) -> Change:
    return Change("held", ref_of(item(name)), live=item(name), reason=reason, is_deferred=is_deferred)


def gang(name: str, decision: str) -> dict[str, Any]:
    reasons = [{"code": "GW101", "message": "no room"}] if decision == "wait" else []
    return entry(live(BATCH, "Job", name, namespace="d"), decision, {}, reasons=reasons)


def outcome(*gangs: dict[str, Any], **others: Any) -> Outcome:
    """Of a pass in which nothing happened."""
    jobs = [{**item(each["name"]), "apiVersion": BATCH, "kind": "Job"} for each in gangs]
    observation = Observation({ref_of(job).key: job for job in jobs}, frozenset())
    seen = Seen(100.0, 5000.0, True, observation, Inventory())
    target = Target("c0ffee", snapshot=Snapshot("c0ffee", True, plan={"gangs": gangs, "digest": "x"}), is_fresh=True)
    verdict = Verdict(BranchHead("beef"), target, {}, "")
    return replace(Outcome(seen, verdict, Allowed(), Effects()), **others)


def report(found: Outcome, *deadlines: float, is_busy: bool = False) -> Report:
    return report_of(found, OTHERS, deadlines, STATUS, is_busy=is_busy)


def condition(found: Outcome, kind: str) -> Condition:
    return next(each for each in report(found).conditions if each.type == kind)


def test_each_condition_is_said_once_and_in_order() -> None:
    said = report(outcome())
    assert tuple(each.type for each in said.conditions) == CONDITION_TYPES
    assert (said.commit, said.head, said.plan.digest, said.is_idle) == ("c0ffee", "beef", "x", True)
    text = "a; a; a; a; a; and 2 more"
    assert condition(outcome(problems=("a",) * 7), "Observed") == Condition("Observed", False, "ReadFailed", text)


def test_conditions_describe_the_state_and_not_the_last_pass() -> None:
    """S12: Applied was False only in the pass that tried."""
    create = Change("create", ref_of(item("refused")))
    failures = {key: ChangeResult(create, "refused", "denied") for key in (create.ref.key, "ConfigMap/d/of-before")}
    applied = condition(outcome(failures=failures, allowed=Allowed(Changes((create,)))), "Applied")
    assert applied == Condition("Applied", False, "Outstanding", "ConfigMap d/refused: denied")
    assert condition(outcome(failures=failures), "Applied").status, "it is not wanted any more"


def test_applied_says_what_else_is_not_done_and_a_standstill_before_all() -> None:
    unplaced, stalled, obstructed = held("job", "no node"), held("first", "stalled"), held("monitor", "no such kind")
    found = outcome(unplaced=(unplaced,), stalled=(stalled,), allowed=Allowed(Changes(obstructed=(obstructed,))))
    text = "ConfigMap d/monitor: no such kind; ConfigMap d/job: no node; ConfigMap d/first: stalled"
    assert condition(found, "Applied") == Condition("Applied", False, "Outstanding", text)
    events = [(each.object["metadata"]["name"], each.reason) for each in report(found).done.events]
    assert events == [("job", "NotPlaced"), ("s", "VolcanoStalled")]
    lost = replace(found, allowed=Allowed(standstill="it is gone"))
    assert condition(lost, "Applied") == Condition("Applied", False, "InventoryLost", "it is gone")


def test_what_is_wrong_is_told_before_what_is_held_as_intended() -> None:
    """With sixty withheld jobs an object that waited for a finalizer, and one that was refused, stood nowhere."""
    failed = ChangeResult(Change("update", ref_of(item("failed"))), "refused", "denied")
    found = outcome(
        done=Effects((failed,), (held("unfixable"),)),
        allowed=Allowed(
            Changes(held=(held("waits", is_deferred=True),)),
            PrunePlan(leaving=(held("leaving"),), held_changes=(held("protected"),)),
        ),
        failures={failed.change.ref.key: failed},
    )
    assert [ref.name for ref, _ in report(found).held] == ["leaving", "unfixable", "failed", "protected", "waits"]


def test_a_gang_that_has_started_is_kept_and_one_that_waits_is_told_of() -> None:
    found = outcome(gang("new", "start"), gang("begun", "start"), gang("waiting", "wait"))
    begun = Ref("batch/v1", "Job", "d", "begun")
    found.seen.inventory.enter(InventoryEntry(begun, "u", started=True))
    said = report(found)
    assert {each.job.name: each.decision for each in said.gangs} == {"new": "start", "begun": "keep", "waiting": "wait"}
    (event,) = said.done.events
    assert (event.object["metadata"]["name"], event.message) == ("waiting", "GW101: no room")


def test_a_pass_is_idle_when_nothing_goes_on() -> None:
    quiet = outcome()
    stale = replace(quiet.verdict, target=replace(quiet.verdict.target, is_fresh=False))
    unread = replace(quiet.seen, observation=Observation({}, frozenset(), pending_kinds=frozenset({"Queue"})))
    for change in ({"done": Effects(lifted={"job": 1})}, {"verdict": stale}, {"seen": unread}):
        assert not report(replace(quiet, **change)).is_idle
    assert not report(quiet, is_busy=True).is_idle


def test_the_next_pass_comes_with_the_first_deadline_that_is_not_over() -> None:
    quiet = outcome()
    assert report(quiet, 99.0).next_wakeup is None
    assert report(quiet, 99.0, 107.0, 103.0).next_wakeup == 3.0
    leaving = Observation({}, frozenset(), restrictions=Restrictions(leaving_pods={"uid": 5001}))
    assert report(replace(quiet, seen=replace(quiet.seen, observation=leaving)), 103.0).next_wakeup == 2.0


def test_while_something_is_held_an_annotation_is_looked_for_soon() -> None:
    quiet = outcome()
    rewritten = replace(quiet.verdict, target=Target(rewrite_message="held"))
    assert report(replace(quiet, verdict=rewritten)).next_wakeup == 5.0
    for allowed in (Allowed(standstill="gone"), Allowed(prune_plan=PrunePlan(excess=("much",)))):
        assert report(outcome(allowed=allowed)).next_wakeup == 5.0
