"""What became of writes: the same is noted and told of those that a pass waits for and of those that it has left."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from reconciler.changes.results import UNANSWERED, ChangeResult, EvictionResult, GateResult, WriteResult
from reconciler.context import Pass, Reconciler

log = logging.getLogger(__name__)


def note_settled_writes(r: Reconciler, p: Pass, results: Sequence[WriteResult]) -> None:
    """Note the writes that former passes have left and that have ended since."""
    p.record_results(each for each in results if isinstance(each, ChangeResult))
    note_gates(r, p, (each for each in results if isinstance(each, GateResult)))
    for each in results:
        if isinstance(each, EvictionResult):
            note_eviction(r, p, each)


def note_gates(r: Reconciler, p: Pass, results: Iterable[GateResult]) -> None:
    """Note which pods were given their nodes. A gang of which no gate was lifted, and none may still be, has not
    started."""
    by_gang: dict[str, list[GateResult]] = {}
    for result in results:
        by_gang.setdefault(result.gang, []).append(result)
    for gang, of_gang in by_gang.items():
        if any(each.outcome in ("done", "retry") for each in of_gang):
            r.writer.memory.record_start(gang)
        _note_troubles(p, gang, [each for each in of_gang if each.outcome != "done"])
        _tell_nodes(p, gang, [each.lift.node for each in of_gang if each.outcome == "done"])
    for gang in r.writer.memory.take_failed_starts(r.writer.is_open):
        if gang in p.inventory.entries:
            p.inventory.unmark_started(gang)


def _note_troubles(p: Pass, gang: str, troubles: Sequence[GateResult]) -> None:
    if not troubles:
        return
    answered = [each for each in troubles if each.outcome not in UNANSWERED]
    if answered:
        p.record_unlifted(gang, answered[0].message)
    else:
        p.record_unanswered(gang, troubles[0].message)
    log.info("a gate was not lifted", extra={"gang": gang, "reason": p.unlifted_gates[gang]})


def _tell_nodes(p: Pass, gang: str, nodes: Sequence[str]) -> None:
    p.record_lifts(gang, len(nodes))
    if nodes and (job := p.observation.objects.get(gang)) is not None:
        message = f"{len(nodes)} pods were given their nodes: {', '.join(sorted(set(nodes)))}"
        p.tell(job, "Placed", message, False)


def note_eviction(r: Reconciler, p: Pass, result: EvictionResult) -> None:
    """Note that a pod was evicted, or why it was not. One that has no answer yet is neither."""
    eviction, now = result.eviction, r.clock()
    if result.outcome == "done":
        p.record_eviction(eviction)
        r.evictions.record_grant(eviction.pod)
        if eviction.breaks:
            r.mark_broken(eviction.breaks)
    elif result.outcome not in UNANSWERED:
        r.evictions.record_refusal(eviction.pod, result.message, result.retry_after, now)
