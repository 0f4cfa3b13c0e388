"""One observation of the cluster, what of it a plan rests on, and what a pass has seen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import inf

from compiler.cluster_state.soundness import Fault
from compiler.kubernetes import is_terminating, name_of, namespace_of
from compiler.specs.cluster_spec import VolcanoVersion
from compiler.volcano.releases import releases_of_pods
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Inventory
from reconciler.observation.memory import ObservationMemory
from reconciler.observation.nodes import NodeIndex


def running_releases(observation: Observation, namespace: str) -> tuple[VolcanoVersion, ...]:
    """Return the releases of Volcano that run, by the images of scheduler pods of this namespace; several while one
    replaces another."""
    return releases_of_pods(_pods_of_namespace(observation.objects_of_kind("Pod"), namespace))


def _pods_of_namespace(pods: list[Object], namespace: str) -> Iterator[Object]:
    """Found by bisection: a pass looks at few of a large cluster's pods. Keys are in the order of NAMESPACE/NAME."""
    start = bisect_left(pods, f"{namespace}/", key=lambda pod: f"{namespace_of(pod)}/")
    return takewhile(lambda pod: namespace_of(pod) == namespace, (pods[at] for at in range(start, len(pods))))


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Limits of a plan in addition to the cluster's objects. quarantined_nodes: they get nothing new. held_jobs:
    Ref.key -> why nothing of the job starts. closed_nodes: Ref.key of a job -> nodes that get no pod of it.
    leaving_pods: uid of an evicted pod, whose room is already assigned -> until when (epoch seconds). crowded_jobs:
    running gangs that lost pods whose nodes have no room for them now."""

    quarantined_nodes: frozenset[str] = frozenset()
    held_jobs: Mapping[str, str] = field(default_factory=dict)
    closed_nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    leaving_pods: Mapping[str, int] = field(default_factory=dict)
    crowded_jobs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Observation:
    """The contents of the caches at one moment. objects: Ref.key -> object, of all watched kinds, as last known; they
    must not be changed. readable_kinds: group kinds whose objects are known for certain. obstacles: group kind -> why
    its objects are uncertain. problems: the obstacles that planning waits for, since a plan depends on the kind.
    partial_problems: the obstacles that block only the objects of their kind. pending_kinds: neither read nor refused
    yet. withdrawn_kinds: once served, but their definition was deleted: their objects are as last known.
    unserved_kinds: unknown to the cluster. by_kind: group kind -> its objects by Ref.key, in the order of the keys;
    built from `objects` if not given. memory: of former observations. faults: Ref.key of malformed objects -> what of
    each cannot be read."""

    objects: Mapping[str, Object]
    readable_kinds: frozenset[str]
    problems: tuple[str, ...] = ()
    restrictions: Restrictions = Restrictions()
    obstacles: Mapping[str, str] = field(default_factory=dict)
    partial_problems: tuple[str, ...] = ()
    pending_kinds: frozenset[str] = frozenset()
    withdrawn_kinds: frozenset[str] = frozenset()
    unserved_kinds: frozenset[str] = frozenset()
    by_kind: Mapping[str, Mapping[str, Object]] | None = None
    memory: ObservationMemory = field(default_factory=ObservationMemory, compare=False)
    faults: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)

    def objects_of_kind(self, kind: str) -> list[Object]:
        """By group kind, e.g. "Pod" or "Job.batch.volcano.sh", in the order of namespace and name."""
        return self._lists_by_kind.get(kind, [])

    def with_restrictions(self, restrictions: Restrictions) -> Observation:
        """Return the same objects under these restrictions, with the values computed from them."""
        made = replace(self, restrictions=restrictions)
        vars(made).update({name: value for name, value in vars(self).items() if name not in vars(made)})
        return made

    @cached_property
    def pods_by_job(self) -> tuple[dict[str, list[Object]], set[str]]:
        """`gates.pods_by_job` for all jobs."""
        return self.memory.owners.pods_by_job(self.objects_of_kind("Pod"), self.jobs)

    @cached_property
    def jobs(self) -> Mapping[str, Object]:
        """Return Ref.key -> object, of everything whose pods are its own."""
        jobs: dict[str, Object] = {}
        for kind, objects in self._objects_by_kind.items():
            jobs |= self.memory.jobs_of_kind(kind, objects)
        return jobs

    @cached_property
    def held_up(self) -> Mapping[str, str]:
        """Return Ref.key -> why it is not processed: objects that are held out, and jobs with pods that are."""
        holding = ((key, next((each for each in found if each.holds_out), None)) for key, found in self.faults.items())
        held_out = {key: fault for key, fault in holding if fault is not None}
        found = {key: f"it cannot be read: {fault}" for key, fault in held_out.items()}
        pods = {key: fault for key, fault in held_out.items() if key.startswith("Pod/")}
        for job, of_job in self.pods_by_job[0].items() if pods else ():
            for pod in of_job:
                if (fault := pods.get(ref_of(pod).key)) is not None:
                    found.setdefault(job, f"its pod {name_of(pod)} cannot be read: {fault}")
        return found

    def node_index(self, leaves: Mapping[str, str]) -> NodeIndex:
        """Return the nodes by name and hostname. leaves: node name -> the hypernode that holds it."""
        return replace(self._node_index, leaf_of=leaves)

    @property
    def nodes_by_name(self) -> Mapping[str, Object]:
        return self.memory.nodes_by_name(self.objects_of_kind("Node"))

    @cached_property
    def pods_by_node(self) -> Mapping[str, list[Object]]:
        """`NodeIndex.pods_by_node` of all pods."""
        return self._node_index.pods_by_node(self.objects_of_kind("Pod"))

    @cached_property
    def terminating_pods(self) -> list[Object]:
        """Return the pods that are on their way out."""
        return list(filter(is_terminating, self.objects_of_kind("Pod")))

    @cached_property
    def _node_index(self) -> NodeIndex:
        return self.memory.index_of(self.objects_of_kind("Node"))

    @cached_property
    def _lists_by_kind(self) -> Mapping[str, list[Object]]:
        return {kind: list(objects.values()) for kind, objects in self._objects_by_kind.items()}

    @cached_property
    def _objects_by_kind(self) -> Mapping[str, Mapping[str, Object]]:
        if self.by_kind is not None:
            return self.by_kind
        groups: dict[str, dict[str, Object]] = {}
        for key, item in sorted(self.objects.items()):
            groups.setdefault(key.partition("/")[0], {})[key] = item
        return groups


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation with its time and inventory. now: on the clock. wall_now: seconds since the epoch. is_leading:
    whether this replica held the lease when the pass began. leads_since: when it last began to lead, on the clock.
    others_led_until: when the last other replica had ceased to lead. doubts: Ref.key of a job -> why it is unknown
    whether the job still exists."""

    now: float
    wall_now: float
    is_leading: bool
    observation: Observation
    inventory: Inventory
    leads_since: float = 0.0
    others_led_until: float = -inf
    doubts: Mapping[str, str] = field(default_factory=dict)

    @property
    def pods(self) -> Mapping[str, list[Object]]:
        """Return Ref.key of a live job -> its pods."""
        return self.observation.pods_by_job[0]
