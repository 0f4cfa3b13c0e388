"""The report of a pass, while not all of its parts have their own memory."""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.changes.allowed import Allowed, Changes
from reconciler.changes.effects import Effects
from reconciler.context import Pass, Reconciler, seen_by, target_of
from reconciler.report.outcome import Outcome, report_of
from reconciler.report.status import Report


def build_report(r: Reconciler, p: Pass) -> Report:
    seen, target = seen_by(r, p), target_of(r, p)
    changes = Changes(tuple(p.changes), tuple(p.held_changes), tuple(p.obstructed_changes))
    done = Effects(tuple(p.results), (), p.lifted_gates, tuple(p.evicted_pods), tuple(p.events))
    outcome = Outcome(
        seen,
        r.planning.verdict(target),
        Allowed(changes, p.prune_plan, p.standstill),
        done,
        r.writer.memory.failures,
        tuple(r.pods.unplaced_jobs(p.observation)),
        r.scheduler.stalled(seen, target),
        frozenset(r.requests.current().suspended | p.suspended_keys),
        (*p.problems, *p.observation.partial_problems, *filter(None, [r.requests.problem])),
    )
    conditions = (
        *r.writer.memory.fights.conditions(seen.now),
        *r.scheduler.conditions(seen.now, target),
        *r.pods.conditions(),
    )
    return report_of(outcome, conditions, _deadlines(r), r.publisher.event_object, is_busy=_is_busy(r, p))


def _is_busy(r: Reconciler, p: Pass) -> bool:
    """Whether something goes on, or is still to be done that is not refused again and again."""
    memory = r.writer.memory
    is_writing = r.pods.is_busy() or r.writer.is_any_open()
    changes = (*p.changes, *(result.change for result in p.results))
    return r.planning.is_busy or is_writing or not all(map(memory.is_given_up, changes))


def _deadlines(r: Reconciler) -> Iterator[float]:
    """When something is to be done although nothing happens, on the clock."""
    now = r.clock()
    for part in r.parts:
        yield from part.deadlines(now)
    yield from r.writer.retry_times()
    yield from r.pace.deadlines(now)
