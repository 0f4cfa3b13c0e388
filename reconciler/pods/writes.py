"""Writes of pods: their gates are lifted, and they are evicted. A lift is in the ledger before it is sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from compiler.kubernetes import is_gated, uid_of
from reconciler.changes.pods import Eviction, GateLift
from reconciler.changes.results import EvictionResult, GateResult
from reconciler.cluster.client import ApiError, Client, Conflict, NotFound, Retry
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.cluster.write_threads import Proceed, Task, Unanswered, WriteThreads
from reconciler.observation.own_writes import OwnWrites

log = logging.getLogger(__name__)

STILL_GATED = "its gate was not lifted, and an earlier request may still lift it"
PUT_OFF = "deferred to the next pass: this one has taken too long"

Note = Callable[[], GateResult]


@dataclass(frozen=True, slots=True)
class _Lift:
    """The lift of one gate. was_lost: an earlier request for it had no answer, so that it may still be made: what the
    pod is decides."""

    gang: str
    lift: GateLift
    was_lost: bool
    own: OwnWrites

    @property
    def ref(self) -> Ref:
        return ref_of(self.lift.pod)

    def lifted(self, written: Object) -> GateResult:
        self.own.record_write(written)
        return GateResult(self.gang, self.lift, "done")

    def refused(self, message: str) -> GateResult:
        self.own.refuse_lift(self.lift)
        return GateResult(self.gang, self.lift, "refused", message)

    def unanswered(self, outcome: Unanswered, message: str) -> GateResult:
        """The request is still under way, was not sent, or ended without an answer."""
        if outcome == "retry" or (outcome == "put off" and self.was_lost):
            self.own.lose_answer(self.lift)
        elif outcome == "put off":
            self.own.refuse_lift(self.lift)
        return GateResult(self.gang, self.lift, outcome, message)


@dataclass(frozen=True, slots=True)
class PodWrites:
    """is_out_of_time: whether the rest is deferred to the next pass."""

    client: Client
    threads: WriteThreads
    own: OwnWrites
    is_out_of_time: Callable[[], bool]

    def lift_gates(self, gangs: Mapping[str, Sequence[GateLift]]) -> list[GateResult]:
        """Give each pod its node and lift its gate. gangs: by the Ref.key of their job. Raises LostLease."""
        lost = {uid for uid, write in self.own.open_lifts().items() if write.is_lost}
        all_lifts = ((gang, lift) for gang, lifts in gangs.items() for lift in lifts)
        asked = [_Lift(gang, lift, uid_of(lift.pod) in lost, self.own) for gang, lift in all_lifts]
        for each in asked:
            self.own.begin_lift(each.lift)
        try:
            tasks = [Task(each.ref, partial(self._lift_gate, each), each.unanswered) for each in asked]
            results: list[GateResult] = self.threads.run(tasks)
        except BaseException:
            for each in asked:
                if self.own.is_under_way(each.lift) and not self.threads.is_open(each.ref.key):
                    self.own.lose_answer(each.lift)
            raise
        return results

    def _lift_gate(self, asked: _Lift, proceed: Proceed) -> Note:
        if self.is_out_of_time():
            return partial(asked.unanswered, "put off", PUT_OFF)
        try:
            return partial(asked.lifted, self.client.patch(asked.ref, asked.lift.json_patch()))
        except Retry as error:
            return partial(asked.unanswered, "retry", str(error))
        except ApiError as error:
            if not asked.was_lost:
                return partial(asked.refused, str(error))
        proceed()
        try:
            found = self.client.find(asked.ref)
        except ApiError as error:
            return partial(asked.unanswered, "retry", str(error))
        if found is None or uid_of(found) != uid_of(asked.lift.pod):
            return partial(asked.refused, "the pod is gone")
        if not is_gated(found):
            return partial(asked.lifted, found)
        if not asked.lift.may_hold_for(found):
            return partial(asked.refused, "its gates or its selector were changed by others")
        return partial(asked.unanswered, "retry", STILL_GATED)

    def evict(self, eviction: Eviction) -> EvictionResult:
        """Ask for the pod's end. Raises LostLease."""
        task = Task(ref_of(eviction.pod), partial(self._evict, eviction), partial(EvictionResult, eviction))
        results: list[EvictionResult] = self.threads.run([task])
        return results[0]

    def _evict(self, eviction: Eviction, proceed: Proceed) -> Callable[[], EvictionResult]:
        ref = ref_of(eviction.pod)
        refused = partial(EvictionResult, eviction, "refused")
        try:
            self.client.evict(ref, eviction.preconditions)
        except NotFound:
            log.info("it was gone already", extra={"object": str(ref)})
        except Conflict as error:
            try:
                found = self.client.find(ref)
            except ApiError as failure:
                return partial(refused, str(failure), 0.0)
            if found is not None and uid_of(found) == uid_of(eviction.pod):
                return partial(refused, str(error), 0.0)
            log.info("a namesake was created", extra={"object": str(ref)})
        except ApiError as error:
            return partial(refused, str(error), error.after if isinstance(error, Retry) else 0.0)
        return partial(EvictionResult, eviction, "done")
