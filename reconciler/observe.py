"""One observation of the cluster, and what of it a plan rests on."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from compiler.cluster_state.pods import with_leaving_mark
from compiler.cluster_state.succeeded import ENDED_FOR_GOOD_KINDS
from compiler.kubernetes import (
    CLUSTER_LABEL,
    VGPU_ASSIGNMENT_ANNOTATION,
    annotations_of,
    is_finished_pod,
    is_planned_job,
    is_succeeded_pod,
    labels_of,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)
from compiler.run_kinds import RUN_KINDS, end_of_run
from compiler.syntax.runs import json_digest
from reconciler.cluster.client import ApiError, Client, NotFound
from reconciler.cluster.objects import Object, Ref, group_kind_of, ref_of
from reconciler.cluster.resources import Resource
from reconciler.cluster.watch import Informer
from reconciler.decisions.gates import NodeIndex, has_ended, pods_by_job, role_of
from reconciler.decisions.unlabelled import UnlabelledJobs
from reconciler.observation_memory import ObservationMemory
from reconciler.plan.snapshot import PlannedGang, Snapshot

STATE_KINDS = (
    ("v1", "Node"),
    ("v1", "Pod"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("scheduling.volcano.sh/v1beta1", "Queue"),
    ("topology.volcano.sh/v1alpha1", "HyperNode"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("batch/v1", "Job"),
    ("policy/v1", "PodDisruptionBudget"),
    ("nodeinfo.volcano.sh/v1alpha1", "Numatopology"),
)
"""What a state file holds; watched whole, since pods and jobs that are not ours count as well."""

_FOUNDATIONS = frozenset({"Node", "Pod", "PodGroup.scheduling.volcano.sh", "Queue.scheduling.volcano.sh"})
"""Kinds without which nothing is planned; the definition of any other may be deleted for the cost of its own
objects."""

LIST_WAIT = 10.0
"""Seconds for which a pass waits for the first lists of kinds that a new plan brings."""

_SERVER_FIELDS = frozenset({"managedFields", "generation", "selfLink"})
_STATE_GROUPS = frozenset(group_kind_of(api, kind) for api, kind in STATE_KINDS)


@dataclass(frozen=True, slots=True)
class Restrictions:
    """What a plan is kept from or counts on, beyond what the cluster's objects say.

    quarantined_nodes: take nothing new. held_jobs: Ref.key -> why nothing of the job starts. closed_nodes: Ref.key of a
    job -> nodes that get no pod of it. leaving_pods: uid of an evicted pod, whose room is given away already -> until
    when (epoch seconds). crowded_jobs: running gangs that lost pods whose nodes have no room for them now.
    """

    quarantined_nodes: frozenset[str] = frozenset()
    held_jobs: Mapping[str, str] = field(default_factory=dict)
    closed_nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    leaving_pods: Mapping[str, int] = field(default_factory=dict)
    crowded_jobs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Observation:
    """What the caches held at one moment.

    objects: Ref.key -> object, of all kinds that are watched, as last known; they must not be changed. readable_kinds:
    group kinds of which they are known for certain. obstacles: group kind -> why that is not so of the others.
    problems: those obstacles that planning waits for, since a plan rests on the kind. partial_problems: those that
    hold up only the objects of their kind. pending_kinds: those that were not yet read or refused. withdrawn_kinds:
    that were served and whose definition is gone: their objects are as last known. unserved_kinds: that the cluster
    does not have. by_kind: group kind -> its objects by Ref.key, in the order of the keys; made from `objects` where it
    is not given. memory: of former observations.
    """

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

    def objects_of_kind(self, kind: str) -> list[Object]:
        """By group kind, e.g. "Pod" or "Job.batch.volcano.sh", in the order of namespace and name."""
        return self._lists_by_kind.get(kind, [])

    def with_restrictions(self, restrictions: Restrictions) -> Observation:
        """The same objects under these restrictions; what was worked out of them is kept."""
        made = replace(self, restrictions=restrictions)
        vars(made).update({name: value for name, value in vars(self).items() if name not in vars(made)})
        return made

    @cached_property
    def pods_by_job(self) -> tuple[dict[str, list[Object]], set[str]]:
        """`gates.pods_by_job` for all jobs."""
        return self.memory.owners.pods_by_job(self.objects_of_kind("Pod"), self.jobs)

    @cached_property
    def jobs(self) -> Mapping[str, Object]:
        """Ref.key -> object, of everything whose pods are its own."""
        jobs: dict[str, Object] = {}
        for kind, objects in self._objects_by_kind.items():
            jobs |= self.memory.jobs_of_kind(kind, objects)
        return jobs

    def node_index(self, leaves: Mapping[str, str]) -> NodeIndex:
        """The nodes by name and hostname. leaves: node name -> the hypernode that holds it."""
        return replace(self._node_index, leaf_of=leaves)

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


@dataclass(slots=True)
class InformerSet:
    """An informer for each kind of the state, and one, with our label, for each other kind that a plan holds.

    unknown_kinds: of a plan, by group kind -> why it cannot be watched. deleted_objects: the last state of each, and
    whether the deletion itself was seen; the loop takes them away. updates: the objects that were updated, of
    kinds that no plan rests on; `stir` tells of them, `wake` of everything else. unlabelled: jobs of ours that lack our
    label.
    """

    client: Client
    cluster: str
    wake: Callable[[], None]
    stir: Callable[[], None] = lambda: None
    informers: dict[str, Informer] = field(default_factory=dict)
    unknown_kinds: dict[str, str] = field(default_factory=dict)
    deleted_objects: list[tuple[Object, bool]] = field(default_factory=list)
    updates: deque[Ref] = field(default_factory=deque)
    memory: ObservationMemory = field(default_factory=ObservationMemory)
    unlabelled: UnlabelledJobs = field(default_factory=UnlabelledJobs)

    def start(self) -> None:
        for api, kind in STATE_KINDS:
            self._add_informer(self.client.resource(api, kind), "")

    def watch_kinds(self, kinds: Iterable[tuple[str, str]]) -> bool:
        """Watch these kinds, by (apiVersion, kind), beside those of the state, and no others; whether anything has
        changed."""
        wanted = {group_kind_of(api, kind): (api, kind) for api, kind in sorted(kinds)}
        obsolete = self.informers.keys() - wanted.keys() - _STATE_GROUPS
        for group_kind in obsolete:
            self.informers.pop(group_kind).stop()
        unknown_before, self.unknown_kinds = self.unknown_kinds, {}
        added = []
        failure = ""
        for group_kind, (api, kind) in sorted(wanted.items()):
            if group_kind in self.informers:
                continue
            if failure:
                self.unknown_kinds[group_kind] = failure
                continue
            try:
                resource = self.client.resource(api, kind)
            except ApiError as error:
                failure = failure if isinstance(error, NotFound) else str(error)
                self.unknown_kinds[group_kind] = str(error)
            else:
                added.append(self._add_informer(resource, f"{CLUSTER_LABEL}={self.cluster}"))
        _wait_for_lists(added, LIST_WAIT)
        return bool(obsolete or added or unknown_before != self.unknown_kinds)

    def expect_kinds(self, group_kinds: Iterable[str]) -> None:
        """Say of which kinds there are objects, so that a 404 of one does not mean that there are none."""
        for group_kind in group_kinds:
            if (informer := self.informers.get(group_kind)) is not None:
                informer.expect_kind()

    def _add_informer(self, resource: Resource, selector: str) -> Informer:
        group_kind = group_kind_of(resource.api_version, resource.kind)
        is_plan_input = group_kind in _STATE_GROUPS or group_kind in RUN_KINDS
        on_update = None if is_plan_input else self._record_update
        informer = Informer(self.client, resource, self.wake, selector, self.record_deletion, on_update=on_update)
        self.informers[group_kind] = informer
        informer.start()
        return informer

    def _record_update(self, item: Object) -> None:
        self.updates.append(ref_of(item))
        self.stir()

    def take_updates(self, most: int) -> list[Object]:
        """The first so many of `updates`, each once, as last known; they are no longer in it. `stir` is called again
        where some are left."""
        refs = dict.fromkeys(self.updates.popleft() for _ in range(min(most, len(self.updates))))
        if self.updates:
            self.stir()
        kinds = {kind: self.informers[kind] for kind in {ref.group_kind for ref in refs} & self.informers.keys()}
        found = (kinds[ref.group_kind].item((ref.namespace, ref.name)) for ref in refs if ref.group_kind in kinds)
        return [item for item in found if item is not None]

    def take_deletions(self) -> Iterator[tuple[Object, bool]]:
        """The `deleted_objects`, the last one first; each is no longer among them."""
        while self.deleted_objects:
            yield self.deleted_objects.pop()

    def record_deletion(self, item: Object, witnessed: bool) -> None:
        """Tell the next pass that an object is gone. witnessed: whether the deletion itself was seen."""
        self.deleted_objects.append((item, witnessed))

    def is_labelled_kind(self, group_kind: str) -> bool:
        """Whether the kind is watched by our label."""
        return group_kind in self.informers and bool(self.informers[group_kind].selector)

    def labelled_objects(self) -> dict[str, Mapping[str, Object]]:
        """Group kind -> its objects by Ref.key, of the kinds that are watched by our label and are known for
        certain."""
        kinds = {kind: informer for kind, informer in self.informers.items() if informer.selector}
        return {kind: informer.keyed_items() for kind, informer in kinds.items() if not informer.obstacle()}

    def wait_for_lists(self, seconds: float) -> bool:
        """Wait for the first lists; whether all have come, or turned out to be impossible."""
        return _wait_for_lists(self.informers.values(), seconds)

    def state_problems(self) -> list[str]:
        """Why kinds that a plan rests on cannot be read."""
        found = []
        for kind in sorted((_STATE_GROUPS & self.informers.keys()) - self._withdrawn_kinds()):
            informer = self.informers[kind]
            if informer.health.is_served and (obstacle := informer.obstacle()):
                found.append(obstacle)
        return found

    def _withdrawn_kinds(self) -> frozenset[str]:
        informers = list(self.informers.items())
        return frozenset(kind for kind, informer in informers if informer.health.is_withdrawn).difference(_FOUNDATIONS)

    def observe(self, restrictions: Restrictions) -> Observation:
        objects: dict[str, Object] = {}
        by_kind: dict[str, Mapping[str, Object]] = {}
        obstacles = dict(self.unknown_kinds)
        problems, withdrawn = tuple(self.state_problems()), self._withdrawn_kinds()
        partial = [*self.unknown_kinds.values()]
        for kind, informer in sorted(self.informers.items()):
            if obstacle := informer.obstacle():
                obstacles[kind] = obstacle
                if kind not in _STATE_GROUPS or kind in withdrawn:
                    partial.append(obstacle)
            keyed = self.unlabelled.joined_with(kind, informer.keyed_items())
            objects |= keyed
            by_kind[kind] = keyed
        pending = frozenset(kind for kind, informer in self.informers.items() if not informer.wait_for_list(0))
        readable = frozenset(self.informers.keys() - obstacles.keys())
        unserved = frozenset(kind for kind, informer in self.informers.items() if not informer.health.is_served)
        return Observation(
            objects,
            readable,
            problems,
            restrictions,
            obstacles,
            tuple(partial),
            pending,
            withdrawn,
            unserved,
            by_kind,
            self.memory,
        )

    def stop(self) -> None:
        for informer in self.informers.values():
            informer.stop()


def _wait_for_lists(informers: Iterable[Informer], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    return all(informer.wait_for_list(max(0.0, deadline - time.monotonic())) for informer in informers)


_BUDGET, _HYPERNODE = "PodDisruptionBudget.policy", "HyperNode.topology.volcano.sh"
FINGERPRINT_KINDS = frozenset({"Node", "Pod", "Numatopology.nodeinfo.volcano.sh", _BUDGET, _HYPERNODE})
"""What a fingerprint is made from, beside the jobs of the plan."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a plan rests on, node by node, so that a change tells which gangs it touches. restrictions: a digest of what
    is kept from single jobs, of what budgets let go, and of domains that others declare."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    finished_jobs: frozenset[str] = frozenset()
    restrictions: str = ""


def fingerprint_of(observation: Observation, snapshot: Snapshot, finished_jobs: frozenset[str]) -> Fingerprint:
    """What the plan of `snapshot` rests on in `observation`.

    Evicted pods leave no trace while they end. Pods that are where the plan wants them leave none, unless what the
    cluster reports of a node's device slots was behind its pods: then that counts as well; and unless the node would
    not accept them now (not ready, cordoned): then each that goes needs another place.
    """
    nodes, memory = observation.objects_of_kind("Node"), observation.memory
    memory.keep_gangs(snapshot.gangs)
    known = memory.node_digests(nodes)
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for topology in observation.objects_of_kind("Numatopology.nodeinfo.volcano.sh"):
        if (name := name_of(topology)) in known:
            parts[name].append(_numa_layout(topology))
            if name in snapshot.nodes_behind:
                parts[name].append((topology.get("spec") or {}).get("numares"))
    restrictions = observation.restrictions
    for quarantined in restrictions.quarantined_nodes & known.keys():
        parts[quarantined].append("quarantined")
    pods_of = _pods_of_gangs(observation, snapshot.gangs)
    for node_name, trace in _traces_of_pods(observation, snapshot, pods_of):
        if node_name in known:
            parts[node_name].append(trace)
    closed = {key: sorted(nodes) for key, nodes in restrictions.closed_nodes.items()}
    digests = {**known, **{name: json_digest([known[name], *values]) for name, values in parts.items()}}
    surplus = {key: _surplus(snapshot.gangs[key], pods) for key, pods in pods_of.items()}
    others: list[Any] = [dict(restrictions.held_jobs), closed, {key: more for key, more in surplus.items() if more}]
    others.append(sorted(restrictions.crowded_jobs))
    others += [_budgets(observation, snapshot), _domains_of_others(observation), _ended_steps(observation, snapshot)]
    others.append(_succeeded_pods(snapshot, pods_of))
    return Fingerprint(digests, finished_jobs, json_digest(others))


def _succeeded_pods(snapshot: Snapshot, pods_of: Mapping[str, list[Object]]) -> dict[str, dict[str, int]]:
    """Ref.key -> role -> pods that have ended well, of gangs of which such a pod does not come back; if any gang waits:
    their room may let it start."""
    found: dict[str, dict[str, int]] = {}
    for key, pods in pods_of.items() if _has_waiting_gangs(snapshot) else ():
        gang = snapshot.gangs[key]
        if gang.job.group_kind in ENDED_FOR_GOOD_KINDS and (ended := list(filter(is_succeeded_pod, pods))):
            found[key] = dict(sorted(Counter(role_of(pod, gang) or "" for pod in ended).items()))
    return found


def _has_waiting_gangs(snapshot: Snapshot) -> bool:
    return any(gang.decision == "wait" for gang in snapshot.gangs.values())


def _budgets(observation: Observation, snapshot: Snapshot) -> list[Any]:
    """What disruption budgets let go where the plan's gangs are, if one of these waits: evictions may let it start."""
    if not _has_waiting_gangs(snapshot):
        return []
    namespaces = {key.split("/")[1] for key in snapshot.gangs}
    return [
        [uid_of(budget), (budget.get("spec") or {}).get("selector"), status_of(budget).get("disruptionsAllowed")]
        for budget in observation.objects_of_kind(_BUDGET)
        if namespace_of(budget) in namespaces
    ]


def _domains_of_others(observation: Observation) -> list[Any]:
    """The hypernodes that no plan of ours declares, as where Volcano discovers them."""
    found = (item for item in observation.objects_of_kind(_HYPERNODE) if CLUSTER_LABEL not in labels_of(item))
    return [[name_of(item), item.get("spec")] for item in found]


def _ended_steps(observation: Observation, snapshot: Snapshot) -> list[str]:
    """The gangs that are over of those that others make, as the steps of a JobFlow: the next step waits for them, and
    no run of ours is recorded for them."""
    steps = (snapshot.gangs.keys() - snapshot.jobs.keys()) & observation.objects.keys()
    return sorted(key for key in steps if end_of_run(observation.objects[key]) is not None)


def _traces_of_pods(
    observation: Observation, snapshot: Snapshot, pods_of: Mapping[str, list[Object]]
) -> Iterator[tuple[str, Any]]:
    """The name of a node, and what a pod of it leaves in the node's part of a fingerprint."""
    index, leaving = observation.node_index(snapshot.leaves), observation.restrictions.leaving_pods
    expected = _expected_pods(observation, pods_of, snapshot.gangs, index)
    are_all_open = not index.unready and not index.taints_of and not snapshot.nodes_behind
    for pod in observation.objects_of_kind("Pod"):
        if are_all_open and uid_of(pod) in expected:
            continue
        if (node_name := index.node_of(pod)) is None:
            continue
        devices = annotations_of(pod).get(VGPU_ASSIGNMENT_ANNOTATION)
        if devices and node_name in snapshot.nodes_behind:
            yield node_name, devices
        if is_finished_pod(pod) or uid_of(pod) in leaving:
            continue
        if uid_of(pod) not in expected:
            yield node_name, uid_of(pod)
        elif not index.accepts(node_name, pod):
            yield node_name, ["runs", uid_of(pod)]


def _pods_of_gangs(observation: Observation, gangs: Mapping[str, PlannedGang]) -> Mapping[str, list[Object]]:
    """Ref.key -> its pods, of each gang that counts by them."""
    counted = (key for key, gang in gangs.items() if gang.may_run_pods)
    keys = [key for key in counted if key in observation.objects]
    found, _ = observation.pods_by_job
    if others := {key: observation.objects[key] for key in keys if key not in found}:
        found = {**found, **pods_by_job(observation.objects_of_kind("Pod"), others)[0]}
    return {key: found[key] for key in keys}


def _surplus(gang: PlannedGang, pods: Sequence[Object]) -> dict[str, int]:
    """Role -> pods beyond what is written, of a service: with each the plan is another."""
    counted = pods if gang.written_pods else ()
    alive = Counter(role_of(pod, gang) for pod in counted if not has_ended(pod))
    return {role: alive[role] - number for role, number in gang.written_pods.items() if alive[role] > number}


def _expected_pods(
    observation: Observation,
    pods_of: Mapping[str, list[Object]],
    gangs: Mapping[str, PlannedGang],
    nodes: NodeIndex,
) -> set[str]:
    """uids of pods that stand at a place the plan gave to their role, and not more of them than it gave. Of a gang that
    waits for the rest of its pods none: each that goes may let the whole gang start elsewhere."""
    expected: set[str] = set()
    for key, pods in pods_of.items():
        if gangs[key].decision != "wait":
            expected |= observation.memory.pods_as_planned(key, gangs[key], pods, nodes)
    return expected


def _numa_layout(topology: Object) -> list[Any]:
    """Which CPUs and devices are in which NUMA node. What is idle of them changes with every pod, and pods count by
    themselves."""
    spec = topology.get("spec") or {}
    return [spec.get("policies"), spec.get("cpuDetail"), spec.get("gpuDetail"), spec.get("resReserved")]


def state_objects(observation: Observation, stale_jobs: frozenset[str] = frozenset()) -> list[Object]:
    """The state for the compiler: objects of the state's kinds, and jobs of ours. stale_jobs: finished jobs whose new
    run is to be planned, which are left out."""
    items = []
    for key, item in sorted(observation.objects.items()):
        kind = key.partition("/")[0]
        if (kind not in _STATE_GROUPS and not is_planned_job(item)) or key in stale_jobs:
            continue
        if kind == "Node" and name_of(item) in observation.restrictions.quarantined_nodes:
            item = {**item, "spec": {**(item.get("spec") or {}), "unschedulable": True}}
        if kind == "Pod":
            marked = with_leaving_mark(item, uid_of(item) in observation.restrictions.leaving_pods)
            item = item if marked is item else dict(marked)
        items.append(item)
    return observation.memory.stated.of(((item,) for item in items), without_server_fields)


def without_server_fields(item: Object) -> Object:
    """The object as people expect to see it in a file: without the server's bookkeeping."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _SERVER_FIELDS}
    return {**item, "metadata": metadata}
