"""Departures: pods leave lost nodes, make room for others, and give back nodes to which they cannot be bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from compiler.cluster_state.pods import EVICTION_SLACK
from compiler.kubernetes import bound_node, is_gated, is_terminating, name_of, uid_of
from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedGang
from reconciler.changes.pods import Eviction
from reconciler.changes.results import UNANSWERED, Effects, EvictionResult
from reconciler.cluster.client import ApiError, Client
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.cluster.write_threads import NO_ANSWER
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.observe import Seen
from reconciler.observation.pods import has_ended
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.binding import BindingMemory, GangTrouble, UnboundPod
from reconciler.pods.escaped import GATE_REMOVED, EscapedPods
from reconciler.pods.gates import pods_to_evict
from reconciler.pods.lifts import Orders
from reconciler.pods.node_health import NodeHealth
from reconciler.pods.writes import PodWrites
from reconciler.threads.rest import doubled
from reconciler.timings import PodTimings


@dataclass(slots=True)
class EvictionMemory:
    """refused: uid of a pod -> (refusals, when it may be asked for again, the last answer). unseen: uids of pods whose
    end was granted, until the watch shows it: a plan made before would count them as running. ending: uid of a pod ->
    since when it is seen to end."""

    timings: PodTimings = field(default_factory=PodTimings)
    refused: dict[str, tuple[int, float, str]] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    ending: dict[str, float] = field(default_factory=dict)

    def is_due(self, pod: Object, now: float) -> bool:
        """Return whether to ask for the pod's end: not where that was granted a moment ago and the watch lags
        behind."""
        _, retry_at, _ = self.refused.get(uid_of(pod), (0, now, ""))
        return now >= retry_at and uid_of(pod) not in self.unseen

    def record_refusal(self, pod: Object, message: str, after: float, now: float) -> None:
        """Note that a budget or the server refused the eviction; `after`: the seconds to wait that it asks for."""
        refusals, _, _ = self.refused.get(uid_of(pod), (0, now, ""))
        longest = self.timings.longest_eviction_pause
        pause = max(after, doubled(self.timings.first_eviction_pause, refusals, longest))
        self.refused[uid_of(pod)] = (refusals + 1, now + pause, message)

    def record_grant(self, pod: Object) -> None:
        self.unseen.add(uid_of(pod))

    def observe(self, pods: Iterable[Object], ending: Iterable[Object], now: float) -> None:
        """Keep the refusals of existing pods, and the granted evictions that no watch shows yet. ending: the
        terminating pods."""
        self.ending = {uid: self.ending.get(uid, now) for uid in map(uid_of, ending)}
        if self.refused or self.unseen:
            present = set(map(uid_of, pods))
            self.refused = {uid: known for uid, known in self.refused.items() if uid in present}
            self.unseen &= present - self.ending.keys()

    def leaves_at(self, pod: Object, now: float) -> float:
        """Return when a pod that ends has had its grace period and some more, counted from when it was first seen to
        end: the API server's clock may be hours before or behind ours."""
        since = self.ending.get(uid_of(pod), now)
        return since + (pod["metadata"].get("deletionGracePeriodSeconds") or 0) + EVICTION_SLACK

    def deadlines(self) -> list[float]:
        return [retry_at for _, retry_at, _ in self.refused.values()]


@dataclass(slots=True)
class PodEvictor:
    """broken: uids of jobs that lost pods with a node, or for want of one that binds them, and are not whole again.
    evicted: pods that this pass has evicted so far, as text. bind_timeout, node_timeout: seconds."""

    writes: PodWrites
    client: Client
    bind_timeout: float
    node_timeout: float
    clock: Callable[[], float]
    wake: Callable[[], None]
    timings: PodTimings = field(default_factory=PodTimings)
    node_health: NodeHealth = field(init=False)
    binding: BindingMemory = field(init=False)
    memory: EvictionMemory = field(init=False)
    broken: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.node_health, self.memory = NodeHealth(self.timings), EvictionMemory(self.timings)
        self.binding = BindingMemory(self.timings)

    def begin_pass(self) -> None:
        """Count the evictions of a pass from here on."""
        self.evicted.clear()

    def leave_lost_nodes(self, seen: Seen, snapshot: Snapshot, orders: Orders) -> Effects:
        """Evict the pods of our gangs from nodes that have been lost for too long; they are recreated gated and are
        planned again."""
        effects, lost = Effects(), self.node_health.nodes_to_leave(self.node_timeout, self.clock())
        for key in _keys_in_reach(seen, snapshot, orders) if lost else ():
            for pod in seen.pods.get(key, ()):
                if (node := bound_node(pod)) in lost and not has_ended(pod):
                    message = f"node {node} is lost for {self.node_timeout:g} s, so it is planned again"
                    breaks = uid_of(seen.observation.objects[key])
                    effects += self._evict(Eviction(pod, "NodeLost", message, breaks))
        return effects

    def evict_victims(
        self, seen: Seen, snapshot: Snapshot, nodes: NodeIndex, is_as_planned: Callable[[str, PlannedGang], bool]
    ) -> Effects:
        """Evict what the plan takes away, as long as the preemptors and their nodes are still as planned. Gates hold
        these pods back when they return."""
        effects, gangs = Effects(), snapshot.gangs
        if not any(gang.evicted_for for gang in gangs.values()):
            return effects
        begins = ((key, gang) for key, gang in gangs.items() if gang.decision == "start")
        starting = {gang.name for key, gang in begins if is_as_planned(key, gang)}
        for key, gang in gangs.items():
            if gang.evicted_for and starting.issuperset(gang.evicted_for) and is_as_planned(key, gang):
                for pod in pods_to_evict(gang, seen.pods.get(key, ()), nodes):
                    message = f"evicted to make room for {', '.join(gang.evicted_for)}"
                    effects += self._evict(Eviction(pod, "Preempted", message))
        return effects

    def evict_escaped_pods(self, seen: Seen, target: Target, orders: Orders, escaped: EscapedPods) -> Effects:
        """Evict pods whose gates others removed: they are recreated gated. None that the scheduler binds meanwhile."""
        if target.snapshot is None:
            return Effects()
        now, effects = self.clock(), Effects()
        escaped.observe(seen, target.runs, _keys_in_reach(seen, target.snapshot, orders), now)
        for key, pods in escaped.due_pods(now).items():
            for pod in pods:
                effects += self._evict(Eviction(pod, "GateRemoved", GATE_REMOVED, is_at_version=True))
            if evicted := [pod for pod in pods if str(ref_of(pod)) in self.evicted]:
                escaped.record_round(key, evicted, now)
        return effects

    def evict_unbound_pods(self, seen: Seen, target: Target, snapshot: Snapshot, orders: Orders) -> Effects:
        """Evict pods that the scheduler does not bind to their node in time: each gang has so many rounds, then it is
        held and gives back every node that it was given."""
        now, effects, nodes = self.clock(), Effects(), seen.observation.node_index(snapshot.leaves)
        troubles = self.binding.troubles
        self.binding.forget(troubles.keys() - seen.pods.keys())
        if not troubles and not self.binding.overdue_uids(now, self.bind_timeout):
            return effects
        prints = target.fingerprint.nodes if target.fingerprint else {}
        for key in sorted(_keys_in_reach(seen, snapshot, orders) & seen.pods.keys()):
            pods, run = seen.pods[key], (target.runs.of(key), orders.retries.get(key, 0))
            if key in troubles and self._is_over(troubles[key], run, pods, prints):
                self.binding.forget([key])
            is_held = key in troubles and troubles[key].is_held(now)
            if not is_held and (overdue := self.binding.overdue_pods(pods, nodes, now, self.bind_timeout)):
                trouble = self.binding.trouble_of(key, run)
                trouble.record_round(overdue, now, self.bind_timeout, self.timings, prints)
                effects += self._end_round(seen, key, trouble, overdue)
            if key in troubles and troubles[key].is_held(now):
                for pod in self.binding.waiting_pods(pods):
                    what = f"{nodes.node_of(pod)}, so its gang is held back: {troubles[key].message}"
                    effects += self._evict_unbound(pod, what, uid_of(seen.observation.objects[key]))
        return effects

    def _end_round(self, seen: Seen, key: str, trouble: GangTrouble, overdue: list[UnboundPod]) -> Effects:
        """Evict all pods of the gang that wait for the scheduler in one pass: it cannot run without the others, which
        would keep these nodes."""
        effects, first, job = Effects(), overdue[0], seen.observation.objects[key]
        for each in overdue:
            what = f"{each.node}, so it is planned again: {each.message}"
            effects += self._evict_unbound(each.pod, what, uid_of(job))
        for pod in self.binding.waiting_pods(seen.pods[key]):
            message = f"its gang is planned again: {name_of(first.pod)} was not bound: {first.message}"
            effects += self._evict(Eviction(pod, "NotBound", message, breaks=uid_of(job)))
        if trouble.is_given_up:
            effects += Effects.of_event(job, "BindingHeld", trouble.reason, True)
        return effects

    def _evict_unbound(self, pod: Object, what: str, breaks: str) -> Effects:
        within = "" if uid_of(pod) in self.binding.orphaned_since else f" within {self.bind_timeout:g} s"
        return self._evict(Eviction(pod, "NotBound", f"not bound{within} to {what}", breaks))

    def _is_over(
        self, trouble: GangTrouble, run: tuple[str, int], pods: Iterable[Object], prints: Mapping[str, str]
    ) -> bool:
        """Return whether a gang's trouble is forgotten: another run, all of its pods bound. A changed cause ends only
        its hold."""
        alive = [pod for pod in pods if not has_ended(pod)]
        if trouble.run != run or (alive and all(bound_node(pod) for pod in alive)):
            return True
        now = self.clock()
        if trouble.is_held(now) and now >= trouble.may_retry_at and self._has_cause_changed(trouble, alive, prints):
            trouble.end_hold(now)
        return False

    def _has_cause_changed(self, trouble: GangTrouble, pods: list[Object], prints: Mapping[str, str]) -> bool:
        """Return whether a missing claim is there now, or a node that was to blame has changed."""
        if trouble.missing_claim and pods:
            claim = Ref("v1", "PersistentVolumeClaim", ref_of(pods[0]).namespace, trouble.missing_claim)
            trouble.look_again_at(self.clock() + self.bind_timeout / 4)
            try:
                self.client.get_briefly(claim)
            except ApiError:
                return False
            return True
        return any(prints.get(node) != before for node, before in trouble.cause.items())

    def evict_broken_gangs(self, seen: Seen, target: Target, snapshot: Snapshot, orders: Orders) -> Effects:
        """Evict the remaining pods of a gang that lost pods with a node and that the newest plan cannot complete where
        it runs. The whole gang is then planned again, and holds nothing meanwhile."""
        effects, nodes = Effects(), seen.observation.node_index(snapshot.leaves)
        if not self.broken and not self.node_health.lost_since and not nodes.unready and not nodes.taints_of:
            return effects
        for key in sorted(_keys_in_reach(seen, snapshot, orders) & seen.pods.keys()):
            gang, uid = snapshot.gangs[key], uid_of(seen.observation.objects[key])
            alive = [pod for pod in seen.pods[key] if not has_ended(pod)]
            places = [(node, pod) for pod in alive if (node := bound_node(pod))]
            if any(node in self.node_health.lost_since or not nodes.accepts(node, pod) for node, pod in places):
                self.broken.add(uid)
            elif gang.decision != "wait" and len(places) >= sum(gang.pods_by_place().values()):
                self.broken.discard(uid)
            if uid in self.broken and target.is_fresh and _is_stuck(seen, key, gang, nodes):
                for pod in alive:
                    if not is_gated(pod):
                        message = "its gang cannot be completed next to it, so the whole gang is planned again"
                        effects += self._evict(Eviction(pod, "GangIncomplete", message))
        self.broken &= {uid_of(seen.observation.objects[key]) for key in seen.pods}
        return effects

    def _evict(self, eviction: Eviction) -> Effects:
        """Evict a pod. A refusal, or a missing answer, is reported, and the eviction is tried again later."""
        ref, effects = ref_of(eviction.pod), Effects()
        if str(ref) in self.evicted:
            return effects
        if len(self.evicted) >= self.timings.eviction_batch or self.writes.is_out_of_time():
            self.wake()
        elif self.memory.is_due(eviction.pod, self.clock()) and not self.writes.threads.must_wait(ref):
            effects = self.note_result(self.writes.evict(eviction))
        obstacle = ""
        if self.memory.is_due(eviction.pod, self.clock()) and self.writes.threads.must_wait(ref):
            obstacle = f"it is to be evicted ({eviction.message}): {NO_ANSWER}"
        elif known := self.memory.refused.get(uid_of(eviction.pod)):
            obstacle = f"its eviction was refused {known[0]} times ({eviction.message}): {known[2]}"
        if obstacle and str(ref) not in self.evicted:
            effects += Effects(held=(Change("held", ref, reason=obstacle),))
        return effects

    def note_result(self, result: EvictionResult) -> Effects:
        """Note that a pod was evicted, or why it was not. One that has no answer yet is neither."""
        eviction = result.eviction
        if result.outcome == "done":
            self.evicted.add(str(ref_of(eviction.pod)))
            self.memory.record_grant(eviction.pod)
            if eviction.breaks:
                self.broken.add(eviction.breaks)
            evicted = Effects.of_event(eviction.pod, eviction.reason, eviction.message, True)
            return replace(evicted, evicted=(str(ref_of(eviction.pod)),))
        if result.outcome not in UNANSWERED:
            self.memory.record_refusal(eviction.pod, result.message, result.retry_after, self.clock())
        return Effects()

    def deadlines(self, now: float) -> Iterator[float]:
        """Yield when something is to be done although nothing happens."""
        yield from self.binding.deadlines(self.bind_timeout)
        yield from self.node_health.deadlines(self.node_timeout, now)
        yield from self.memory.deadlines()


def _keys_in_reach(seen: Seen, snapshot: Snapshot, orders: Orders) -> set[str]:
    """Return gangs that are not suspended and whose jobs are known for certain."""
    readable = seen.observation.readable_kinds
    return {key for key, gang in snapshot.gangs.items() if gang.job.group_kind in readable} - set(orders.suspended)


def _is_stuck(seen: Seen, key: str, gang: PlannedGang, nodes: NodeIndex) -> bool:
    """Return whether the gang misses pods, is to wait for room, and none of its own is on its way out of a good
    node."""
    pods = seen.pods[key]
    terminating = (pod for pod in pods if is_terminating(pod))
    is_ending = any(nodes.accepts(bound_node(pod), pod) for pod in terminating)
    misses = any(is_gated(pod) for pod in pods)
    return misses and not is_ending and gang.decision == "wait" and key not in seen.observation.restrictions.held_jobs
