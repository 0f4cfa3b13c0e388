"""Writes of pods: their gates are lifted, and they are evicted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from compiler.kubernetes import uid_of
from reconciler.changes.pods import Eviction, GateLift
from reconciler.changes.results import EvictionResult, GateResult
from reconciler.cluster.client import ApiError, Conflict, NotFound, Retry
from reconciler.cluster.objects import Object, ref_of
from reconciler.objects.memory import FIRST_PAUSE
from reconciler.objects.threads import Proceed, Task
from reconciler.objects.writer import PUT_OFF, ClusterWriter

log = logging.getLogger(__name__)


def lift_pod_gates(writer: ClusterWriter, gangs: Mapping[str, Sequence[GateLift]]) -> list[GateResult]:
    """Give each pod its node and lift its gate. gangs: by the key of their job."""
    lifts = [(gang, lift) for gang, of_gang in gangs.items() for lift in of_gang]
    if not lifts:
        return []
    tasks = [
        Task(ref_of(lift.pod), partial(_lift_gate, writer, gang, lift), partial(GateResult, gang, lift))
        for gang, lift in lifts
    ]
    results: list[GateResult] = writer.threads.run(tasks)
    writer.note_busy()
    if any(result.outcome in ("refused", "retry") for result in results):
        writer.memory.pause_gates(writer.clock() + FIRST_PAUSE)
    return results


def _lift_gate(writer: ClusterWriter, gang: str, lift: GateLift, proceed: Proceed) -> Callable[[], GateResult]:
    if writer.is_out_of_time():
        return partial(GateResult, gang, lift, "put off", PUT_OFF)
    try:
        written = writer.client.patch(ref_of(lift.pod), lift.json_patch())
    except Retry as error:
        return partial(GateResult, gang, lift, "retry", str(error))
    except ApiError as error:
        return partial(GateResult, gang, lift, "refused", str(error))
    return partial(_note_lifted, writer, gang, lift, written)


def _note_lifted(writer: ClusterWriter, gang: str, lift: GateLift, written: Object) -> GateResult:
    writer.memory.record_write(ref_of(lift.pod).key, written, writer.clock())
    return GateResult(gang, lift, "done")


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
