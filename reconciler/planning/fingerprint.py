"""Which parts of an observation a plan depends on, and which the compiler gets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

from compiler import kubernetes as k8s
from compiler.cluster_state.observed import unready_queues
from compiler.cluster_state.pods import with_leaving_mark
from compiler.cluster_state.refused_queues import LiveQueues
from compiler.cluster_state.succeeded import ENDED_FOR_GOOD_KINDS
from compiler.run_kinds import end_of_run
from compiler.syntax.runs import json_digest
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Object
from reconciler.observation.informers import _STATE_GROUPS
from reconciler.observation.observe import Observation, running_releases
from reconciler.observation.owners import pods_by_job
from reconciler.observation.pods import has_ended, role_of
from reconciler.planning.snapshot import Snapshot

_SERVER_FIELDS = frozenset({"managedFields", "generation", "selfLink"})
_BUDGET, _HYPERNODE = "PodDisruptionBudget.policy", "HyperNode.topology.volcano.sh"
_QUEUE, _LOCAL_QUEUE = "Queue.scheduling.volcano.sh", "NamespaceQueue.scheduling.volcano.sh"
_GROUP = "PodGroup.scheduling.volcano.sh"
_KINDS = frozenset({"Node", "Pod", "Numatopology.nodeinfo.volcano.sh", _BUDGET, _HYPERNODE, _LOCAL_QUEUE})
"""Kinds of a fingerprint, in addition to the jobs of the plan."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The inputs of a plan, node by node, so that a change shows the affected gangs. restrictions: a digest of nodes
    closed to single jobs, evictions that budgets allow, domains that others declare, NamespaceQueues that are not ready
    or that the server would refuse, jobs that somebody stopped, Volcano's release, and pods with requests that differ
    from the plan's."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    finished_jobs: frozenset[str] = frozenset()
    restrictions: str = ""


def fingerprint_inputs(observation: Observation, snapshot: Snapshot) -> tuple[Sequence[Object], ...]:
    """Return the objects, by kind, that decide the fingerprint with the observation's restrictions."""
    of_local_queues = (_QUEUE, _GROUP) if snapshot.local_queue_parents else ()
    return tuple(map(observation.objects_of_kind, sorted(_KINDS.union(snapshot.job_kinds, of_local_queues))))


def fingerprint_of(observation: Observation, snapshot: Snapshot, finished_jobs: frozenset[str]) -> Fingerprint:
    """Return the inputs of the plan of `snapshot` in `observation`.

    Evicted pods that are terminating leave no trace. Nor do pods where the plan wants them, except on a node that would
    not accept them now (each that is deleted needs another place). The reported device slots of a node count only where
    they were behind its pods.
    """
    nodes, memory = observation.objects_of_kind("Node"), observation.memory
    memory.keep_gangs(snapshot.gangs)
    known = memory.node_digests(nodes)
    parts: defaultdict[str, list[Any]] = defaultdict(list)
    for topology in observation.objects_of_kind("Numatopology.nodeinfo.volcano.sh"):
        if (name := k8s.name_of(topology)) in known:
            parts[name].append(_numa_layout(topology))
            if name in snapshot.nodes_behind:
                parts[name].append((topology.get("spec") or {}).get("numares"))
    restrictions = observation.restrictions
    for quarantined in restrictions.quarantined_nodes & known.keys():
        parts[quarantined].append("quarantined")
    all_pods = _pods_of_gangs(observation, snapshot.gangs)
    plain = (gang for gang in snapshot.gangs.values() if not gang.written_pods)  # a service may have more than written
    waiting = {gang.job.key for gang in plain if gang.decision == "wait"}
    pods_of = {key: pods for key, pods in all_pods.items() if key not in waiting}
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
    jobs = [observation.objects[key] for key in all_pods]
    reasons = memory.session.each("stopped", zip(jobs), k8s.stopped_by)
    others.append({key: why for key, why in zip(all_pods, reasons, strict=True) if why})
    others.append(sorted(unready_queues(observation.objects_of_kind(_LOCAL_QUEUE))))
    others.append(sorted(_refused_queues(observation, snapshot)))
    others.append(_release(observation, snapshot))
    counted = ((key, snapshot.requests[key], pods) for key, pods in all_pods.items() if key in snapshot.requests)
    unlike = {key: memory.pods_unlike_plan(key, requests, pods) for key, requests, pods in counted}
    others.append({key: found for key, found in unlike.items() if found})
    return Fingerprint(digests, finished_jobs, json_digest(others))


def _refused_queues(observation: Observation, snapshot: Snapshot) -> Collection[str]:
    if not snapshot.local_queue_parents:
        return ()
    live = LiveQueues(*map(observation.objects_of_kind, (_QUEUE, _LOCAL_QUEUE, _GROUP)))
    return live.refused(snapshot.local_queue_parents, snapshot.cluster_queues)


def _release(observation: Observation, snapshot: Snapshot) -> str:
    """Return the release of Volcano that runs, where the Cluster names none; that of the plan while none is seen."""
    settings = snapshot.settings
    running = () if settings.names_volcano else running_releases(observation, settings.scheduler_namespace)
    return str(min(running)) if running else settings.volcano


def _succeeded_pods(snapshot: Snapshot, pods_of: Mapping[str, list[Object]]) -> dict[str, dict[str, int]]:
    """Return Ref.key -> role -> pods that have ended well, of gangs of which such a pod does not come back; if any gang
    waits: their room may let it start."""
    found: dict[str, dict[str, int]] = {}
    for key, pods in pods_of.items() if _has_waiting_gangs(snapshot) else ():
        gang = snapshot.gangs[key]
        if gang.job.group_kind in ENDED_FOR_GOOD_KINDS and (ended := list(filter(k8s.is_succeeded_pod, pods))):
            found[key] = dict(sorted(Counter(role_of(pod, gang) or "" for pod in ended).items()))
    return found


def _has_waiting_gangs(snapshot: Snapshot) -> bool:
    return any(gang.decision == "wait" for gang in snapshot.gangs.values())


def _budgets(observation: Observation, snapshot: Snapshot) -> list[Any]:
    """Return the evictions that disruption budgets allow in the plan's namespaces, if a gang waits: they may let it
    start."""
    if not _has_waiting_gangs(snapshot):
        return []
    namespaces = {key.split("/")[1] for key in snapshot.gangs}
    return [
        [
            k8s.uid_of(budget),
            (budget.get("spec") or {}).get("selector"),
            k8s.status_of(budget).get("disruptionsAllowed"),
        ]
        for budget in observation.objects_of_kind(_BUDGET)
        if k8s.namespace_of(budget) in namespaces
    ]


def _domains_of_others(observation: Observation) -> list[Any]:
    """Return the hypernodes that no plan of ours declares, as where Volcano discovers them."""
    found = (item for item in observation.objects_of_kind(_HYPERNODE) if k8s.CLUSTER_LABEL not in k8s.labels_of(item))
    return [[k8s.name_of(item), item.get("spec")] for item in found]


def _ended_steps(observation: Observation, snapshot: Snapshot) -> list[str]:
    """Return the finished gangs that others create, as the steps of a JobFlow: the next step waits for them, and no run
    of ours is recorded for them."""
    steps = (snapshot.gangs.keys() - snapshot.jobs.keys()) & observation.objects.keys()
    return sorted(key for key in steps if end_of_run(observation.objects[key]) is not None)


def _traces_of_pods(
    observation: Observation, snapshot: Snapshot, pods_of: Mapping[str, list[Object]]
) -> Iterator[tuple[str, Any]]:
    """Yield the name of a node, and what a pod of it leaves in the node's part of a fingerprint."""
    index, leaving = observation.node_index(snapshot.leaves), observation.restrictions.leaving_pods
    # None of a gang that waits for the rest of its pods: each deletion may let the whole gang start elsewhere.
    gangs = ((key, snapshot.gangs[key], pods) for key, pods in pods_of.items())
    bound = ((key, gang, pods, index) for key, gang, pods in gangs if gang.decision != "wait")
    expected = set[str]().union(*starmap(observation.memory.pods_as_planned, bound))
    are_all_open = not index.unready and not index.taints_of and not snapshot.nodes_behind
    placed = ((name, pod) for name, pods in observation.pods_by_node.items() for pod in pods)
    for node_name, pod in placed:
        if are_all_open and k8s.uid_of(pod) in expected:
            continue
        devices = k8s.annotations_of(pod).get(k8s.VGPU_ASSIGNMENT_ANNOTATION)
        if devices and node_name in snapshot.nodes_behind:
            yield node_name, devices
        if k8s.is_finished_pod(pod) or k8s.uid_of(pod) in leaving:
            continue
        if k8s.uid_of(pod) not in expected:
            yield node_name, k8s.uid_of(pod)
        elif not index.accepts(node_name, pod):
            yield node_name, ["runs", k8s.uid_of(pod)]


def _pods_of_gangs(observation: Observation, gangs: Mapping[str, PlannedGang]) -> Mapping[str, list[Object]]:
    """Return Ref.key -> its pods, of each gang that the cluster has."""
    keys = [key for key in gangs if key in observation.objects]
    found, _ = observation.pods_by_job
    if others := {key: observation.objects[key] for key in keys if key not in found}:
        found = {**found, **pods_by_job(observation.objects_of_kind("Pod"), others)[0]}
    return {key: found[key] for key in keys}


def _surplus(gang: PlannedGang, pods: Sequence[Object]) -> dict[str, int]:
    """Return role -> pods of a service beyond the written number, each of which changes the plan."""
    if not gang.written_pods:
        return {}
    alive = Counter(role_of(pod, gang) for pod in pods if not has_ended(pod))
    return {role: alive[role] - number for role, number in gang.written_pods.items() if alive[role] > number}


def _numa_layout(topology: Object) -> list[Any]:
    """Return which CPUs and devices are in which NUMA node. Their idle amounts change with every pod, and pods count by
    themselves."""
    spec = topology.get("spec") or {}
    return [spec.get("policies"), spec.get("cpuDetail"), spec.get("gpuDetail"), spec.get("resReserved")]


def state_objects(observation: Observation, stale_jobs: frozenset[str] = frozenset()) -> list[Object]:
    """Return the state for the compiler: objects of the state's kinds, and jobs of ours. stale_jobs: finished jobs
    whose new run is to be planned, which are left out."""
    items = []
    for key, item in sorted(observation.objects.items()):
        kind = key.partition("/")[0]
        is_input = kind in _STATE_GROUPS or kind == _LOCAL_QUEUE or k8s.is_planned_job(item)
        if not is_input or key in stale_jobs:
            continue
        if kind == "Node" and k8s.name_of(item) in observation.restrictions.quarantined_nodes:
            item = {**item, "spec": {**(item.get("spec") or {}), "unschedulable": True}}
        if kind == "Pod":
            marked = with_leaving_mark(item, k8s.uid_of(item) in observation.restrictions.leaving_pods)
            item = item if marked is item else dict(marked)
        items.append(item)
    return observation.memory.session.each("stated", zip(items), without_server_fields)


def without_server_fields(item: Object) -> Object:
    """Return the object as people expect to see it in a file: without the server's bookkeeping."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _SERVER_FIELDS}
    return {**item, "metadata": metadata}
