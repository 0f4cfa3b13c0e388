"""Starts: the gates of a planned gang are lifted, a whole gang at a time, where the last check finds room."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compiler.fields.texts import short_list
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, is_gated, uid_of
from reconciler.changes.planned import PlannedGang
from reconciler.changes.pods import GateLift
from reconciler.changes.results import UNANSWERED, ChangeResult, Effects, GateResult, ObjectEvent
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.cluster.write_threads import NO_ANSWER
from reconciler.inventory.store import Inventory
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.observe import Seen
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.gates import gate_lifts, has_strayed
from reconciler.pods.room import Room
from reconciler.pods.writes import PodWrites
from reconciler.timings import PodTimings

log = logging.getLogger(__name__)

REPLANNED = "it is planned again"


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders of other parts about pods. suspended: Ref.key of suspended jobs. retries: Ref.key of a job -> how often an
    operator asked for another round of binding. is_making_jobs: whether jobs wait to be created."""

    suspended: Collection[str] = frozenset()
    retries: Mapping[str, int] = field(default_factory=dict)
    is_making_jobs: bool = False


@dataclass(frozen=True, slots=True)
class _Round:
    """The inputs for lifting gates in one pass."""

    seen: Seen
    target: Target
    snapshot: Snapshot
    nodes: NodeIndex
    orders: Orders
    room: Room
    now: float


@dataclass(frozen=True, slots=True)
class UnliftedGates:
    """Gates of one gang that cannot be lifted: since when, when they are tried again, and why."""

    since: float
    retry_at: float
    message: str


@dataclass(slots=True)
class GateLifter:
    """save: stores the inventory, and returns the result where that failed. wake: asks for another pass.

    By the Ref.key of a gang's job: unlifted, gates of former passes. troubles: of this pass so far, why, and whether
    the next pass looks again: such gates wait for an answer or another plan. doubtful_starts: the pods whose gates were
    to be lifted, where none is known to be. refused: how the gang was planned when its nodes were closed to it or had
    no room for it: a reason for a new plan. due_at: when gates that the server refused are tried again.
    """

    writes: PodWrites
    save: Callable[[Inventory], ChangeResult | None]
    clock: Callable[[], float]
    wake: Callable[[], None]
    timings: PodTimings = field(default_factory=PodTimings)
    unlifted: dict[str, UnliftedGates] = field(default_factory=dict)
    troubles: dict[str, tuple[str, bool]] = field(default_factory=dict)
    doubtful_starts: dict[str, list[Ref]] = field(default_factory=dict)
    refused: dict[str, PlannedGang] = field(default_factory=dict)
    due_at: float = 0.0

    def lift(self, seen: Seen, target: Target, snapshot: Snapshot, orders: Orders, nodes: NodeIndex) -> Effects:
        """Lift the gates of each gang whose nodes and run are as planned, where the ledger has room on the nodes. Lifts
        without an answer are sent again first: they count already. A gang that others make room for starts with the
        plan made once these are deleted."""
        now, effects = self.clock(), Effects()
        this = _Round(seen, target, snapshot, nodes, orders, self._room(seen, nodes), now)
        preemptors = set().union(*(gang.evicted_for for gang in snapshot.gangs.values()))
        batch = self._lost_lifts(this)
        most = self.timings.batch_beside_jobs if orders.is_making_jobs else self.timings.batch
        for key, gang in snapshot.gangs.items():
            if gang.decision not in ("start", "keep") or gang.name in preemptors or key in batch:
                continue
            if not any(map(is_gated, seen.pods.get(key, ()))):
                self.refused.pop(key, None)
            elif key not in self.troubles and (lifts := self._next_lifts(this, key, gang)):
                batch[key] = lifts
            if sum(map(len, batch.values())) >= most:
                effects += self._lift_batch(seen, batch)
                batch = {}
                if orders.is_making_jobs and self.clock() - now >= self.timings.seconds_beside_jobs:
                    self.wake()
                    break
        effects += self._lift_batch(seen, batch)
        self._end_pass(self.clock())
        return effects

    def _note_trouble(self, key: str, reason: str, *, is_prompt: bool = True) -> None:
        self.troubles[key] = reason, is_prompt

    def _end_pass(self, now: float) -> None:
        """Record the troubles of this pass; all other gates could be lifted, or need not. Their next attempt follows
        after the time that the trouble has lasted, at most `longest_gate_pause`."""
        found = {key: known for key, known in self.unlifted.items() if now < known.retry_at}
        for key, (message, is_prompt) in self.troubles.items():
            since = self.unlifted[key].since if key in self.unlifted else now
            pause = 0.0 if is_prompt else min(now - since, self.timings.longest_gate_pause)
            found[key] = UnliftedGates(since, now + pause, message)
        self.unlifted, self.troubles = found, {}

    def _may_lift(self, key: str, now: float) -> bool:
        """Return whether the gates of this gang are to be tried now."""
        return key not in self.unlifted or now >= self.unlifted[key].retry_at

    def lasting_troubles(self, now: float) -> dict[str, str]:
        """Return Ref.key of a gang -> why gates of it are not lifted, where that is not only so for a moment."""
        after = self.timings.gates_reported_after
        return {key: known.message for key, known in self.unlifted.items() if now - known.since >= after}

    def believe_starts(self) -> None:
        """Count what the inventory has as started as started: another replica may have lifted gates meanwhile."""
        self.doubtful_starts.clear()

    def still_refused(self, snapshot: Snapshot | None) -> frozenset[str]:
        """Return the refused gangs that the plan in force has as they were when they were refused; forgets the
        others."""
        gangs = snapshot.gangs if snapshot else {}
        self.refused = {key: gang for key, gang in self.refused.items() if gangs.get(key) == gang}
        return frozenset(self.refused)

    def deadlines(self) -> list[float]:
        """Return when gates that were not lifted are tried again."""
        return [self.due_at, *(known.retry_at for known in self.unlifted.values())]

    def obstacle(self, seen: Seen, target: Target, orders: Orders, key: str, gang: PlannedGang) -> str | None:
        """Return why no gate of the gang is lifted by this plan; None for no obstacle. Empty if it is reported
        elsewhere: the job does not exist, is suspended, held, unreadable, or of another run."""
        job, restrictions = seen.observation.objects.get(key), seen.observation.restrictions
        if job is None or key in orders.suspended or gang.job.group_kind not in seen.observation.readable_kinds:
            return ""
        is_planned_run = annotations_of(job).get(DIGEST_ANNOTATION, "") == target.runs.of(key)
        if not is_planned_run or key in restrictions.held_jobs:
            return ""
        places = {node for _, node in gang.pods_by_place()}
        if closed := sorted(places & restrictions.closed_nodes.get(key, frozenset())):
            self._refuse(key, gang)
            return f"planned on {_names(closed)}, where its pods were not bound before; {REPLANNED}"
        now = target.fingerprint.nodes if target.fingerprint else {}
        base = target.base.nodes if target.base else {}
        if changed := sorted(node for node in places if now.get(node) != base.get(node)):
            return f"{_names(changed)} changed since it was planned there; {REPLANNED}"
        return None

    def _next_lifts(self, this: _Round, key: str, gang: PlannedGang) -> tuple[GateLift, ...]:
        """Return the gates of the gang to lift now. If there are none, the cause is noted."""
        pods = this.seen.pods[key]
        obstacle = self.obstacle(this.seen, this.target, this.orders, key, gang)
        if obstacle is None and not this.target.is_fresh and has_strayed(gang, pods, this.nodes):
            obstacle = f"pods of it have nodes that the plan does not give them; {REPLANNED}"
        if obstacle is None and self._is_open(pods):
            obstacle = NO_ANSWER
        if obstacle is not None:
            if obstacle:
                self._note_trouble(key, obstacle)
            return ()
        if not self._may_lift(key, this.now):
            return ()
        lifts = gate_lifts(gang, pods, this.nodes)
        if shortage := this.room.take(lifts):
            if not shortage.is_passing:
                self._refuse(key, gang)
                self._note_trouble(key, shortage.message)
            return ()
        self.refused.pop(key, None)
        return lifts

    def _refuse(self, key: str, gang: PlannedGang) -> None:
        """Note that the gang cannot start as it is planned, and let the next plan be made at once."""
        if self.refused.get(key) != gang:
            self.wake()
        self.refused[key] = gang

    def _room(self, seen: Seen, nodes: NodeIndex) -> Room:
        """Return the free amounts of the nodes by the observation, which includes our own writes."""
        observation, leaving = seen.observation, seen.observation.restrictions.leaving_pods
        shared = {nodes.node_of(pod) or "" for pod in observation.terminating_pods if uid_of(pod) in leaving}
        return Room(observation.nodes_by_name, observation.pods_by_node, shared_nodes=shared)

    def _lost_lifts(self, this: _Round) -> dict[str, Sequence[GateLift]]:
        """Return Ref.key of a gang -> its lifts whose answer was lost, to be sent again unchanged. For other gangs with
        open lifts the missing answer is noted."""
        open_lifts = self.writes.own.open_lifts()
        found: dict[str, Sequence[GateLift]] = {}
        for key, pods in sorted(this.seen.pods.items()) if open_lifts else ():
            writes = [open_lifts[uid_of(pod)] for pod in pods if uid_of(pod) in open_lifts]
            if not writes or key in self.troubles:
                continue
            lost = list(filter(None, (write.lift for write in writes if write.is_lost)))
            is_planned = key in this.snapshot.gangs and key not in this.orders.suspended
            if obstacle := next(filter(None, (self._resend_obstacle(this, lift) for lift in lost)), ""):
                self._note_trouble(key, obstacle)
            elif lost and is_planned and self._may_lift(key, this.now) and not self._is_open(this.seen.pods[key]):
                found[key] = lost
            else:
                self._note_trouble(key, NO_ANSWER)
        return found

    def _is_open(self, pods: Iterable[Object]) -> bool:
        """Return whether another write of any of these pods is under way."""
        return any(self.writes.threads.must_wait(ref_of(pod)) for pod in pods)

    def _resend_obstacle(self, this: _Round, lift: GateLift) -> str:
        """Return why a lift whose answer was lost is not asked for again now: what counts already may be too much
        since."""
        if not this.nodes.accepts(lift.node, lift.pod):
            return f"node {lift.node} takes no pods now, and an earlier request may still lift the gate"
        return this.room.excess(lift)

    def _lift_batch(self, seen: Seen, batch: Mapping[str, Sequence[GateLift]]) -> Effects:
        """Lift the gates of these gangs. The start of a gang is stored before; if that fails, only gangs that had
        started continue."""
        if not batch:
            return Effects()
        effects, inventory = Effects(), seen.inventory
        newly_started = {key for key in batch if inventory.mark_started(key)}
        if (failure := self.save(inventory)) is not None:
            for key in newly_started:
                inventory.unmark_started(key)
            effects += Effects(results=(failure,))
            batch = {key: lifts for key, lifts in batch.items() if key not in newly_started}
        for key in newly_started & batch.keys():
            self.doubtful_starts[key] = [ref_of(lift.pod) for lift in batch[key]]
        began_at = self.clock()
        results = self.writes.lift_gates(batch)
        if results:
            log.info("lifting gates", extra={"pods": len(results), "seconds": round(self.clock() - began_at, 3)})
        if any(result.outcome in ("refused", "retry") for result in results):
            self.due_at = self.clock() + self.timings.first_gate_pause
        return effects + self.note_results(seen, results)

    def note_results(self, seen: Seen, results: Iterable[GateResult]) -> Effects:
        """Note which pods were given their nodes. A gang of which no gate was lifted, and none may still be, has not
        started."""
        by_gang: dict[str, list[GateResult]] = {}
        for result in results:
            by_gang.setdefault(result.gang, []).append(result)
        lifted, placed = dict[str, int](), list[ObjectEvent]()
        for gang, of_gang in by_gang.items():
            if any(each.outcome in ("done", "retry") for each in of_gang):
                self.doubtful_starts.pop(gang, None)
            if troubles := [each for each in of_gang if each.outcome != "done"]:
                answered = [each for each in troubles if each.outcome not in UNANSWERED]
                message = (answered or troubles)[0].message
                self._note_trouble(gang, message, is_prompt=not answered)
                log.info("a gate was not lifted", extra={"gang": gang, "reason": message})
            nodes = [each.lift.node for each in of_gang if each.outcome == "done"]
            lifted[gang] = len(nodes)
            if nodes and (job := seen.observation.objects.get(gang)) is not None:
                message = f"{len(nodes)} pods were given their nodes: {', '.join(sorted(set(nodes)))}"
                placed.append(ObjectEvent(job, "Placed", message, False))
        for gang, pods in list(self.doubtful_starts.items()):
            if not any(self.writes.threads.is_open(pod.key) for pod in pods):
                del self.doubtful_starts[gang]
                if gang in seen.inventory.entries:
                    seen.inventory.unmark_started(gang)
        return Effects(lifted=lifted, events=tuple(placed))


def _names(nodes: Sequence[str]) -> str:
    return f"node{'s' if len(nodes) > 1 else ''} {short_list(nodes)}"
