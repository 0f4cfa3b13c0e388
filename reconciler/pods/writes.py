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
class PodWrites:
    """is_out_of_time: whether the rest is left to the next pass."""

    client: Client
    threads: WriteThreads
    own: OwnWrites
    is_out_of_time: Callable[[], bool]

    def lift_gates(self, gangs: Mapping[str, Sequence[GateLift]]) -> list[GateResult]:
        """Give each pod its node and lift its gate. gangs: by the Ref.key of their job. Raises LostLease."""
        lifts = [(gang, lift) for gang, of_gang in gangs.items() for lift in of_gang]
        lost = {uid for uid, write in self.own.open_lifts().items() if write.is_lost}
        tasks = []
        for gang, lift in lifts:
            was_lost = uid_of(lift.pod) in lost
            send = partial(self._lift_gate, gang, lift, was_lost)
            tasks.append(Task(ref_of(lift.pod), send, partial(self._note_unanswered, gang, lift, was_lost)))
            self.own.begin_lift(lift)
        try:
            results: list[GateResult] = self.threads.run(tasks)
        except BaseException:
            for _, lift in lifts:
                if self.own.is_under_way(lift) and not self.is_open(ref_of(lift.pod)):
                    self.own.lose_answer(lift)
            raise
        return results

    def _lift_gate(self, gang: str, lift: GateLift, was_lost: bool, proceed: Proceed) -> Note:
        """was_lost: an earlier request for it had no answer, so that it may still be made: what the pod is decides."""
        ref = ref_of(lift.pod)
        if self.is_out_of_time():
            return partial(self._note_unanswered, gang, lift, was_lost, "put off", PUT_OFF)
        try:
            written = self.client.patch(ref, lift.json_patch())
        except Retry as error:
            return partial(self._note_unanswered, gang, lift, was_lost, "retry", str(error))
        except ApiError as error:
            if not was_lost:
                return partial(self._note_refused, gang, lift, str(error))
        else:
            return partial(self._note_lifted, gang, lift, written)
        proceed()
        try:
            found = self.client.find(ref)
        except ApiError as error:
            return partial(self._note_unanswered, gang, lift, was_lost, "retry", str(error))
        if found is None or uid_of(found) != uid_of(lift.pod):
            return partial(self._note_refused, gang, lift, "the pod is gone")
        if is_gated(found) and not lift.may_hold_for(found):
            return partial(self._note_refused, gang, lift, "its gates or its selector were changed by others")
        if is_gated(found):
            return partial(self._note_unanswered, gang, lift, was_lost, "retry", STILL_GATED)
        return partial(self._note_lifted, gang, lift, found)

    def _note_lifted(self, gang: str, lift: GateLift, written: Object) -> GateResult:
        self.own.record_write(written)
        return GateResult(gang, lift, "done")

    def _note_refused(self, gang: str, lift: GateLift, message: str) -> GateResult:
        self.own.refuse_lift(lift)
        return GateResult(gang, lift, "refused", message)

    def _note_unanswered(
        self, gang: str, lift: GateLift, was_lost: bool, outcome: Unanswered, message: str
    ) -> GateResult:
        """Note a request that is still under way, was not sent, or ended without an answer."""
        if outcome == "retry" or (outcome == "put off" and was_lost):
            self.own.lose_answer(lift)
        elif outcome == "put off":
            self.own.refuse_lift(lift)
        return GateResult(gang, lift, outcome, message)

    def evict(self, eviction: Eviction) -> EvictionResult:
        """Ask for the pod's end. Raises LostLease."""
        task = Task(ref_of(eviction.pod), partial(self._evict, eviction), partial(EvictionResult, eviction))
        results: list[EvictionResult] = self.threads.run([task])
        return results[0]

    def _evict(self, eviction: Eviction, proceed: Proceed) -> Callable[[], EvictionResult]:
        ref = ref_of(eviction.pod)
        try:
            self.client.evict(ref, uid_of(eviction.pod))
        except NotFound:
            log.info("it was gone already", extra={"object": str(ref)})
        except Conflict as error:
            if (obstacle := self._conflict_obstacle(eviction, error)) is not None:
                return partial(EvictionResult, eviction, "refused", obstacle, 0.0)
            log.info("a namesake was created", extra={"object": str(ref)})
        except ApiError as error:
            after = error.after if isinstance(error, Retry) else 0.0
            return partial(EvictionResult, eviction, "refused", str(error), after)
        return partial(EvictionResult, eviction, "done")

    def _conflict_obstacle(self, eviction: Eviction, error: Conflict) -> str | None:
        """Why a pod whose eviction met a conflict was not evicted; None where it is gone."""
        try:
            found = self.client.find(ref_of(eviction.pod))
        except ApiError as failure:
            return str(failure)
        is_there = found is not None and uid_of(found) == uid_of(eviction.pod)
        return str(error) if is_there else None

    def is_open(self, ref: Ref) -> bool:
        """Whether a write of the object is left, of which nothing is known yet."""
        return self.threads.is_open(ref.key)

    def must_wait(self, ref: Ref) -> bool:
        """Whether a write of the object is left, or so many like it that none is begun."""
        return self.threads.must_wait(ref)
