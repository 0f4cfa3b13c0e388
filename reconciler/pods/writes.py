"""Writes of pods: their gates are lifted, and they are evicted. A lift is in the ledger before it is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from compiler.kubernetes import is_gated, uid_of
from reconciler.changes.pods import Eviction, GateLift
from reconciler.changes.results import EvictionResult, GateResult
from reconciler.cluster.client import ApiError, Conflict, NotFound, Retry
from reconciler.cluster.objects import Object, ref_of
from reconciler.objects.memory import FIRST_PAUSE
from reconciler.objects.threads import Proceed, Task, Unanswered
from reconciler.objects.writer import PUT_OFF, ClusterWriter
from reconciler.observation.own_writes import OwnWrites

log = logging.getLogger(__name__)

STILL_GATED = "its gate was not lifted, and an earlier request may still lift it"

Note = Callable[[], GateResult]


def lift_pod_gates(writer: ClusterWriter, gangs: Mapping[str, Sequence[GateLift]]) -> list[GateResult]:
    """Give each pod its node and lift its gate. gangs: by the key of their job."""
    lifts = [(gang, lift) for gang, of_gang in gangs.items() for lift in of_gang]
    if not lifts:
        return []
    own = writer.own
    lost = {uid for uid, write in own.open_lifts().items() if write.is_lost}
    tasks = []
    for gang, lift in lifts:
        was_lost = uid_of(lift.pod) in lost
        send = partial(_lift_gate, writer, gang, lift, was_lost)
        tasks.append(Task(ref_of(lift.pod), send, partial(_note_unanswered, own, gang, lift, was_lost)))
        own.begin_lift(lift)
    try:
        results: list[GateResult] = writer.threads.run(tasks)
    except BaseException:
        for _, lift in lifts:
            if own.is_under_way(lift) and not writer.is_open(ref_of(lift.pod)):
                own.lose_answer(lift)
        raise
    writer.note_busy()
    if any(result.outcome in ("refused", "retry") for result in results):
        writer.memory.pause_gates(writer.clock() + FIRST_PAUSE)
    return results


def _note_unanswered(
    own: OwnWrites, gang: str, lift: GateLift, was_lost: bool, outcome: Unanswered, message: str
) -> GateResult:
    """Note a request that is still under way, was not sent, or ended without an answer."""
    if outcome == "retry" or (outcome == "put off" and was_lost):
        own.lose_answer(lift)
    elif outcome == "put off":
        own.drop(ref_of(lift.pod).key)
    return GateResult(gang, lift, outcome, message)


def _lift_gate(writer: ClusterWriter, gang: str, lift: GateLift, was_lost: bool, proceed: Proceed) -> Note:
    """was_lost: an earlier request for it had no answer, so that it may still be made; what the pod is then decides."""
    own, ref = writer.own, ref_of(lift.pod)
    if writer.is_out_of_time():
        return partial(_note_unanswered, own, gang, lift, was_lost, "put off", PUT_OFF)
    try:
        written = writer.client.patch(ref, lift.json_patch())
    except Retry as error:
        return partial(_note_unanswered, own, gang, lift, was_lost, "retry", str(error))
    except ApiError as error:
        if not was_lost:
            return partial(_note_refused, own, gang, lift, str(error))
    else:
        return partial(_note_lifted, own, gang, lift, written)
    proceed()
    try:
        found = writer.client.find(ref)
    except ApiError as error:
        return partial(_note_unanswered, own, gang, lift, was_lost, "retry", str(error))
    if found is None or uid_of(found) != uid_of(lift.pod):
        return partial(_note_refused, own, gang, lift, "the pod is gone")
    if is_gated(found):
        return partial(_note_unanswered, own, gang, lift, was_lost, "retry", STILL_GATED)
    return partial(_note_lifted, own, gang, lift, found)


def _note_lifted(own: OwnWrites, gang: str, lift: GateLift, written: Object) -> GateResult:
    own.record_write(written)
    return GateResult(gang, lift, "done")


def _note_refused(own: OwnWrites, gang: str, lift: GateLift, message: str) -> GateResult:
    own.drop(ref_of(lift.pod).key)
    return GateResult(gang, lift, "refused", message)


def evict_pod(writer: ClusterWriter, eviction: Eviction) -> EvictionResult:
    """Ask for the pod's end."""
    task = Task(ref_of(eviction.pod), partial(_evict_pod, writer, eviction), partial(EvictionResult, eviction))
    results: list[EvictionResult] = writer.threads.run([task])
    return results[0]


def _evict_pod(writer: ClusterWriter, eviction: Eviction, proceed: Proceed) -> Callable[[], EvictionResult]:
    ref = ref_of(eviction.pod)
    try:
        writer.client.evict(ref, uid_of(eviction.pod))
    except (NotFound, Conflict):
        log.info("it was gone already, or a namesake has come", extra={"object": str(ref)})
    except ApiError as error:
        after = error.after if isinstance(error, Retry) else 0.0
        return partial(EvictionResult, eviction, "refused", str(error), after)
    return partial(EvictionResult, eviction, "done")
