"""The report of a pass, from its observation, target and effects, and the conditions of the parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedGang
from reconciler.changes.results import (
    Allowed,
    ChangeResult,
    Condition,
    Effects,
    ObjectEvent,
    events_of_results,
    summary,
)
from reconciler.cluster.objects import Object, Ref
from reconciler.observation.observe import Seen
from reconciler.planning.verdict import Verdict
from reconciler.report.status import FAILURE_TYPE, PlanSummary, Report
from reconciler.report.status_text import CONDITION_TYPES
from reconciler.timings import TIMINGS, ReportTimings


@dataclass(frozen=True, slots=True)
class Outcome:
    """Observation, target and effects of a pass.

    failures: Ref.key -> how the last write failed. unplaced: jobs whose pods get no nodes. stalled: components of
    Volcano. suspended: suspended objects. problems: failed reads.
    """

    seen: Seen
    verdict: Verdict
    allowed: Allowed
    done: Effects
    failures: Mapping[str, ChangeResult] = field(default_factory=dict)
    unplaced: tuple[Change, ...] = ()
    stalled: tuple[Change, ...] = ()
    suspended: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    timings: ReportTimings = TIMINGS.report

    @property
    def is_open(self) -> bool:
        """Return whether work is in progress that may complete by itself."""
        is_fresh = self.verdict.target.is_fresh
        return any(self.done.lifted.values()) or bool(self.seen.observation.pending_kinds) or not is_fresh

    def gangs(self) -> Iterator[PlannedGang]:
        """Return the gangs of the plan, with "keep" for those that have started since."""
        if (snapshot := self.verdict.target.snapshot) is None:
            return
        started = {key for key, entry in self.seen.inventory.entries.items() if entry.started}
        for key, gang in snapshot.gangs.items():
            yield snapshot.begun_gangs[key] if key in started else gang
        yield from snapshot.unbound_gangs

    @property
    def standing(self) -> tuple[Change, ...]:
        return (*self.allowed.changes.obstructed, *self.unplaced, *self.stalled)

    @property
    def held_changes(self) -> tuple[Change, ...]:
        return (*self.allowed.changes.held, *self.done.held)

    def outstanding(self) -> list[ChangeResult]:
        """Return the last failure of each object that is still to be written, also of former passes."""
        prunes = self.allowed.prune_plan
        wanted = {change.ref.key for change in (*self.allowed.changes.due, *prunes.changes, *prunes.releases)}
        wanted |= {result.change.ref.key for result in self.done.results}
        return [result for key, result in sorted(self.failures.items()) if key in wanted]

    def held(self) -> Iterator[tuple[Ref, str]]:
        """Yield the objects that are not applied, each with its reason: errors first, since the list is cut."""
        prunes, held = self.allowed.prune_plan, self.held_changes
        wrong = (change for change in held if not change.is_deferred)
        rows = (*self.verdict.refusals, *self.standing, *prunes.leaving, *wrong)
        yield from ((change.ref, change.reason) for change in rows)
        yield from ((result.change.ref, result.message) for result in self.outstanding())
        deferred = (change for change in held if change.is_deferred)
        yield from ((change.ref, change.reason) for change in (*prunes.held_changes, *deferred))

    def conditions(self) -> Iterator[Condition]:
        yield Condition.of_texts("Observed", self.problems, "Observed", "ReadFailed", holds=False)
        yield Condition(FAILURE_TYPE, False, "None")
        yield self._applied()
        yield from self.verdict.conditions()
        yield from self.allowed.conditions()

    def _applied(self) -> Condition:
        if standstill := self.allowed.standstill:
            return Condition("Applied", False, "InventoryLost", standstill)
        refused = self.verdict.refusal_message
        failures = [refused] if refused else []
        failures += [f"{each.change.ref}: {each.message}" for each in self.outstanding() if each.outcome != "fight"]
        failures += [f"{change.ref}: {change.reason}" for change in self.standing]
        applied = self.verdict.target.snapshot is not None and not failures
        reason = "CommitRefused" if refused else "Applied" if applied else "Outstanding"
        return Condition("Applied", applied, reason, summary(failures))

    def events(self, status: Object) -> Iterator[ObjectEvent]:
        """Yield the Events about single objects. status: the object that represents the whole."""
        snapshot, objects = self.verdict.target.snapshot, self.seen.observation.objects
        unkept, refused = self.allowed.changes.obstructed, self.verdict.refusals
        for change in (*self.held_changes, *unkept, *refused, *self.allowed.prune_plan.held_changes):
            if change.live is not None and change.desired is not None:
                yield ObjectEvent(change.live, "Held", change.reason, True)
        for change in self.unplaced:
            if change.live is not None:
                yield ObjectEvent(change.live, "NotPlaced", change.reason, True)
        for change in self.stalled:
            yield ObjectEvent(status, "VolcanoStalled", change.reason, True)
        yield from events_of_results(self.done.results)
        for key, gang in snapshot.gangs.items() if snapshot else ():
            if gang.decision == "wait" and gang.reasons and key in objects:
                yield ObjectEvent(objects[key], "Waiting", "; ".join(gang.reasons), False)
        yield from self.verdict.events(status)

    def seconds_to(self, deadlines: Iterable[float]) -> float | None:
        """Return the seconds to the next of these deadlines, or to this pass's own next check."""
        seconds = [at - self.seen.now for at in deadlines]
        plan, held = self.allowed.prune_plan, self.verdict.target.rewrite_message or self.allowed.standstill
        if held or plan.obstacles or plan.excess or plan.waits_for_release:  # an annotation may release it
            seconds.append(self.timings.annotation_look)
        leaving = self.seen.observation.restrictions.leaving_pods.values()
        seconds += [until + 1 - self.seen.wall_now for until in leaving]
        return min((left for left in seconds if left > 0), default=None)


def report_of(
    outcome: Outcome, conditions: Iterable[Condition], deadlines: Iterable[float], status: Object, *, is_busy: bool
) -> Report:
    """Return the report. conditions, deadlines: of the parts. status: the object that represents the whole. is_busy:
    whether a part is."""
    snapshot, done = outcome.verdict.target.snapshot, outcome.done
    plan = snapshot.plan if snapshot else {}
    found = sorted((*outcome.conditions(), *conditions), key=lambda each: CONDITION_TYPES.index(each.type))
    return Report(
        commit=snapshot.commit if snapshot else "",
        head=outcome.verdict.head.commit,
        conditions=tuple(found),
        plan=PlanSummary(plan.get("digest", ""), plan.get("promisedStarts")),
        gangs=tuple(outcome.gangs()),
        diagnostics=outcome.verdict.diagnostics,
        held=tuple(outcome.held()),
        runs=tuple(reversed(outcome.seen.inventory.runs.values())),
        suspended=tuple(sorted(outcome.suspended)),
        done=replace(done, events=(*done.events, *outcome.events(status))),
        is_idle=not (is_busy or outcome.is_open),
        next_wakeup=outcome.seconds_to(deadlines),
    )
