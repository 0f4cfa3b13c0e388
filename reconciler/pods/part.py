"""The pods of gangs: which get their nodes, which are evicted, and what plans are kept from because of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from compiler.cluster_state.pods import leaving_until
from compiler.kubernetes import bound_node, is_finished_pod, is_gated, name_of, uid_of
from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedGang
from reconciler.changes.results import Condition, Effects, EvictionResult, GateResult, WriteResult
from reconciler.cluster.objects import Object, Ref, name_of_key, ref_of
from reconciler.observation.observe import Observation, Restrictions, Seen
from reconciler.observation.owners import pods_by_job
from reconciler.observation.pods import POD_GROUP, group_key_of
from reconciler.part import Part
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.departures import PodEvictor
from reconciler.pods.escaped import EscapedPods
from reconciler.pods.lifts import GateLifter, Orders
from reconciler.pods.missing import MissingPods, PodRefusals

_KEPT_PODS = "Kubernetes keeps them until it is back, deleted, or tainted node.kubernetes.io/out-of-service"


@dataclass(slots=True)
class PodsPart(Part):
    """lifter: of gates. evictor: of pods, with what nodes and the scheduler did. clock: seconds, of this process.
    missing: pods that do not exist. escaped: pods whose gates others removed."""

    lifter: GateLifter
    evictor: PodEvictor
    clock: Callable[[], float]
    missing: MissingPods = field(init=False)
    escaped: EscapedPods = field(init=False)

    def __post_init__(self) -> None:
        timings = self.lifter.timings
        self.missing = MissingPods(PodRefusals(self.evictor.client, self.clock, timings), timings)
        self.escaped = EscapedPods(timings)

    def observe(self, observation: Observation) -> None:
        """Record the changes of nodes and pods. A kind that could not be read leaves the memory as it is."""
        now, evictor = self.clock(), self.evictor
        evictor.begin_pass()
        if "Node" in observation.readable_kinds:
            nodes = observation.objects_of_kind("Node")
            evictor.node_health.begin(nodes, now, evictor.node_timeout)
        if observation.readable_kinds >= {"Node", "Pod"}:
            pods = observation.pods_by_node
            evictor.node_health.observe(observation.node_index({}), pods, now)
            placed, open_lifts = chain.from_iterable(pods.values()), evictor.writes.own.open_lifts()
            evictor.binding.observe(placed, now, open_lifts, partial(_has_group, observation))
            evictor.memory.observe(observation.objects_of_kind("Pod"), observation.terminating_pods, now)

    def restrictions(
        self, observation: Observation, snapshot: Snapshot | None, held: Mapping[str, str], wall_now: float
    ) -> Restrictions:
        """Return the limits of plans because of pods and nodes. held: Ref.key of jobs that other parts hold, with the
        reason."""
        now, evictor = self.clock(), self.evictor
        jobs = [gang.job for gang in snapshot.gangs.values()] if snapshot else []
        unreadable = _unreadable_pods(observation)
        self.missing.observe(observation, snapshot, now)
        held = {
            **self.missing.held_jobs(now),
            **evictor.binding.held_jobs(now),
            **dict(_unserved_jobs(observation, jobs)),
            **held,
        }
        held |= _jobs_of_gated(observation, unreadable)
        quarantined = frozenset(evictor.node_health.quarantined_nodes(now)) | _unnamed_nodes(observation, snapshot)
        quarantined |= observation.node_index({}).pods_by_node(unreadable).keys()
        leaving = dict(self._leaving_pods(observation, snapshot, wall_now))
        crowded = self.lifter.still_refused(snapshot)
        return Restrictions(quarantined, held, evictor.binding.closed_nodes(now), leaving, crowded)

    def _leaving_pods(
        self, observation: Observation, snapshot: Snapshot | None, wall_now: float
    ) -> Iterator[tuple[str, int]]:
        """Yield uid of each evicted pod of a planned gang, and until when plans count on its room. Other pods, evicted
        for any cause, hold theirs until they are deleted, in plans as well."""
        now, gangs = self.clock(), snapshot.gangs if snapshot else {}
        evicted = (pod for pod in observation.terminating_pods if leaving_until(pod) is not None)
        ends = ((pod, int(wall_now + self.evictor.memory.leaves_at(pod, now) - now)) for pod in evicted)
        # Whole seconds, as the compile has them.
        leaving = {uid_of(pod): (pod, until) for pod, until in ends if int(wall_now) <= until}
        jobs = {key: observation.objects[key] for key in gangs if key in observation.objects} if leaving else {}
        ours, _ = pods_by_job([pod for pod, _ in leaving.values()], jobs)
        for pods in ours.values():
            for pod in pods:
                yield uid_of(pod), leaving[uid_of(pod)][1]

    def settle(self, results: Sequence[WriteResult], seen: Seen) -> Effects:
        """Note the lifts and evictions that former passes have left and that have ended since."""
        effects = self.lifter.note_results(seen, [each for each in results if isinstance(each, GateResult)])
        evictions = (each for each in results if isinstance(each, EvictionResult))
        return sum(map(self.evictor.note_result, evictions), effects)

    def act(self, seen: Seen, target: Target, orders: Orders) -> Effects:
        """Evict, lift gates, and evict what cannot be bound, in this order; nothing while nodes or pods cannot be
        read. Raises LostLease."""
        snapshot = target.snapshot
        if snapshot is None or not seen.observation.readable_kinds >= {"Node", "Pod"}:
            return Effects()
        nodes = seen.observation.node_index(snapshot.leaves)

        def is_as_planned(key: str, gang: PlannedGang) -> bool:
            return self.lifter.obstacle(seen, target, orders, key, gang) is None

        effects = self.evictor.leave_lost_nodes(seen, snapshot, orders)
        effects += self.evictor.evict_escaped_pods(seen, target, orders, self.escaped)
        if snapshot.commit == target.commit:
            effects += self.evictor.evict_victims(seen, snapshot, nodes, is_as_planned)
        effects += self.lifter.lift(seen, target, snapshot, orders, nodes)
        effects += self.evictor.evict_unbound_pods(seen, target, snapshot, orders)
        return effects + self.evictor.evict_broken_gangs(seen, target, snapshot, orders)

    @property
    def awaits_evictions(self) -> bool:
        """Return whether the end of a pod was granted that the watch does not show: a plan made now would count it as
        running."""
        return bool(self.evictor.memory.unseen)

    def unplaced_jobs(self, observation: Observation) -> Iterator[Change]:
        """Yield the jobs whose pods should have their nodes and do not, or are not bound to them, with why."""
        now, binding = self.clock(), self.evictor.binding
        reasons = {**dict(self._unended_pods(observation, now)), **self.missing.lasting(now)}
        reasons |= {**self.escaped.lasting(), **self.lifter.lasting_troubles(now)}
        reasons = {key: f"its pods are not given their nodes: {reason}" for key, reason in reasons.items()}
        since = now - self.evictor.timings.unbound_reported_after
        unbound = dict(binding.lasting(observation.pods_by_job[0], observation.node_index({}), since))
        for key, reason in sorted({**unbound, **reasons}.items()):
            if (job := observation.objects.get(key)) is not None:
                yield Change("held", ref_of(job), live=job, reason=reason)

    def _unended_pods(self, observation: Observation, now: float) -> Iterator[tuple[str, str]]:
        """Yield Ref.key of jobs with deleted pods whose grace period is over, and on which node these are: no other pod
        takes their place before their objects are gone."""
        leaves_at = self.evictor.memory.leaves_at
        late = {uid_of(pod) for pod in observation.terminating_pods if leaves_at(pod, now) <= now}
        jobs = observation.pods_by_job[0].items() if late else ()
        nodes = observation.node_index({})
        for key, pods in jobs:
            if staying := [pod for pod in pods if uid_of(pod) in late]:
                node = bound_node(staying[0]) or "none"
                state = "not ready" if node in nodes.unready else "" if node in nodes.names else "gone"
                text = f"{len(staying)} of its former pods have not ended, on node {node}"
                yield key, text + (f", which is {state}: {_KEPT_PODS}" if state else "")

    def is_busy(self) -> bool:
        """Return whether gates are not lifted of which it is not reported yet, since that may be over in a moment."""
        return len(self.lifter.lasting_troubles(self.clock())) < len(self.lifter.unlifted)

    def suspects(self) -> int:
        """Return how many nodes are closed to gangs."""
        return sum(map(len, self.evictor.binding.closed_nodes(self.clock()).values()))

    def conditions(self) -> Iterator[Condition]:
        held = sorted(self.evictor.binding.held_jobs(self.clock()).items())
        texts = [f"{name_of_key(key)}: {reason}" for key, reason in held]
        yield Condition.of_texts("GangsHeld", texts, "None", "NotBound")

    def deadlines(self, now: float) -> Iterator[float]:
        yield from self.evictor.deadlines(now)
        yield from self.lifter.deadlines()
        yield from self.missing.deadlines(now)
        yield from self.escaped.deadlines()
        unbound_for = self.evictor.timings.unbound_reported_after
        yield from (since + unbound_for for since in self.evictor.binding.unbound_since.values())


def _has_group(observation: Observation, pod: Object) -> bool:
    """Return whether the PodGroup that the pod names exists; of a pod that names none, and while these cannot be read,
    that is not known to be missing."""
    key = group_key_of(pod) if POD_GROUP in observation.readable_kinds else ""
    return not key or key in observation.objects


def _unnamed_nodes(observation: Observation, snapshot: Snapshot | None) -> frozenset[str]:
    """Return the nodes that no selector can name, where gates are lifted by one: a gang planned there would never
    start."""
    if snapshot is None or not snapshot.gated:
        return frozenset()
    nodes = observation.node_index({})
    are_all_named = len(nodes.names) == len(nodes.hostname_of)
    return frozenset() if are_all_named else nodes.names.difference(nodes.hostname_of)


def _unreadable_pods(observation: Observation) -> list[Object]:
    """Return the pods whose requests are unknown: the free room on their nodes is then unknown too."""
    keys = {key for key, faults in observation.faults.items() if any(fault.hides_amounts for fault in faults)}
    found = (observation.objects[key] for key in sorted(keys & observation.objects.keys()) if key.startswith("Pod/"))
    return [pod for pod in found if not is_finished_pod(pod)]


def _jobs_of_gated(observation: Observation, unreadable: Iterable[Object]) -> Mapping[str, str]:
    """Return Ref.key of each job with a gated pod among these -> why nothing of it starts."""
    gated = {uid_of(pod): name_of(pod) for pod in filter(is_gated, unreadable)}
    held: dict[str, str] = {}
    for key, pods in observation.pods_by_job[0].items() if gated else ():
        for name in filter(None, (gated.get(uid_of(pod)) for pod in pods)):
            held[key] = f"what its pod {name} asks for cannot be read"
    return held


def _unserved_jobs(observation: Observation, jobs: Iterable[Ref]) -> Iterator[tuple[str, str]]:
    """Yield Ref.key of each job whose kind the cluster does not serve, with why it is not planned: it keeps no room."""
    for job in jobs:
        if job.group_kind in observation.unserved_kinds:
            yield job.key, observation.obstacles[job.group_kind]
