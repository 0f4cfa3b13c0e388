"""Room kept for declared pods that the plan binds to no node: of jobs and services that are planned so, and
(`Cluster.spec.unplanned: reserve`) of objects that are not planned.

A DaemonSet takes its part of each node that its pods match. Other pods may be placed on any node that matches. They are
put, in the order of the objects, where they leave the plan the most: on nodes with the fewest unused devices, and there
side by side. Running ones are counted where they run.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from compiler import kubernetes as k8s
from compiler.cluster_state.observed import ObservedState
from compiler.cluster_state.pods import RequestCache
from compiler.fields.quantity import amounts_sum
from compiler.run_kinds import RUN_KINDS
from compiler.specs.cluster_spec import Specs
from compiler.specs.eligibility import (
    NodeMasks,
    classify_nodes,
    edits_for,
    is_away,
    node_kinds,
    node_requirement,
    returned_node,
)
from compiler.specs.gang_spec import GangSpec, UnplannedPods
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Amounts, PodSpec, Toleration

_DAEMON_TOLERATIONS = tuple(
    Toleration(key, "Exists", effect=effect)
    for key, effect in (
        (k8s.NOT_READY_TAINT, "NoExecute"),
        (k8s.UNREACHABLE_TAINT, "NoExecute"),
        *((key, "NoSchedule") for key in (*k8s.PRESSURE_TAINTS, k8s.UNSCHEDULABLE_TAINT)),
    )
)
"""Tolerations that the DaemonSet controller adds to its pods."""


@dataclass(slots=True)
class ReservedRoom:
    """The room kept for one kind of pods: node -> their number.

    running_by_node: existing pods, which count where they are. homeless: pods for which no node has room now; none is
    kept for them. smaller: (resource, amount) of a pod with which these find room, where no node ever has more of it.
    other_node: where labels and taints close all nodes to the pods, one of a kind on which these find room.
    """

    pods: UnplannedPods
    running_by_node: Counter[int] = field(default_factory=Counter)
    by_node: Counter[int] = field(default_factory=Counter)
    homeless: int = 0
    smaller: tuple[str, int] | None = None
    other_node: int | None = None

    @property
    def running(self) -> int:
        return sum(self.running_by_node.values())

    @property
    def amounts_by_node(self) -> Mapping[int, Amounts]:
        """Return the amounts kept on each node."""
        request = self.pods.pod.requests.items()
        return {n: {name: amount * count for name, amount in request} for n, count in self.by_node.items()}

    def keep_on(self, nodes: Iterable[int]) -> None:
        """Keep room for one pod on each of these nodes."""
        self.by_node.update(nodes)

    def fill(self, places: _Places, count: int, nodes: Collection[int]) -> None:
        """Put `count` pods on these nodes, side by side: first where the fewest devices are free that they do not ask
        for, there where the fewest of them have room."""
        request = self.pods.pod.requests
        candidates = []
        for n in nodes if count > 0 else ():
            free = places.free(n)
            if fitting := min(free.get(name, 0) // amount for name, amount in request.items() if amount):
                spared = sum(max(0, free[name]) for name in free.keys() - request.keys() if "/" in name)
                candidates.append((spared, fitting, n))
        for _, fitting, n in sorted(candidates):
            if count <= 0:
                break
            if fitting > 0:
                self.by_node[n] = min(fitting, count)
                count -= self.by_node[n]
        self.homeless = max(0, count)

    def try_smaller_pods(self, places: _Places, empty: EmptyNodes) -> None:
        """See whether those without room find some once their pods ask for no more than the largest node has."""
        pod = self.pods.pod
        largest = empty.largest_amounts(pod)
        short = [name for name, most in largest.items() if pod.requests[name] > most]
        if len(short) != 1 or not largest[short[0]]:
            return
        smaller = replace(pod, requests={**pod.requests, short[0]: largest[short[0]]})
        tried = ReservedRoom(replace(self.pods, pod=smaller))
        tried.fill(places, self.homeless, places.matching(smaller))
        if not tried.homeless:
            self.smaller = short[0], largest[short[0]]
            places.hold(tried)

    def try_other_nodes(self, places: _Places, empty: EmptyNodes) -> None:
        """See on which kind of nodes, all closed to the pods so far, those without room find some. No label or
        toleration opens a node that is away."""
        pod = self.pods.pod
        for kind in empty.kinds(pod) if not empty.largest_amounts(pod) else ():
            nodes = [n for n in kind if not places.is_away(n)]
            tried = ReservedRoom(self.pods)
            tried.fill(places, self.homeless, nodes)
            large = next((n for n in nodes if empty.has_room(pod, n)), None)
            if large is not None and not tried.homeless:
                self.other_node = large
                places.hold(tried)
                return


def reserve_room(specs: Specs, observed: ObservedState) -> tuple[ReservedRoom, ...]:
    """Count the declared pods that the plan binds to no node as pods that hold their room, in `observed`."""
    left_out = {specs.gangs[j].key for j in observed.jobs.finished | observed.jobs.held.keys()}
    over = left_out | observed.jobs.finished_keys
    steady = (pods for pods in specs.unplanned_pods if not pods.is_recurring)
    wanted = [pods for pods in steady if pods.key not in over]
    if specs.cluster.unplanned != "reserve":
        wanted = [pods for pods in wanted if pods.role]
    if not wanted:
        return ()
    running = _running_pods(wanted, observed)
    rooms = [ReservedRoom(pods, Counter(running.get(id(pods), ()))) for pods in sorted(wanted, key=_freedom)]
    places, empty = _Places(specs.gangs, observed), EmptyNodes(observed.nodes)
    changed: dict[int, _Places] = {}  # changes of a job's roles are reported together, so they must fit together
    for room in rooms:
        if room.pods.on_each_node:
            room.keep_on(places.matching(_daemon(room.pods.pod)) - room.running_by_node.keys())
        else:
            room.fill(places, room.pods.count - room.running, places.matching(room.pods.pod))
        if room.pods.role and (room.homeless or empty.never_take(room.pods.pod)):
            tried = changed.setdefault(id(room.pods.document), places.copy())
            room.try_smaller_pods(tried, empty)
            room.try_other_nodes(tried, empty)
        for n, amounts in sorted(room.amounts_by_node.items()):
            observed.foreign.charge(n, room.pods.queue, amounts)
    return tuple(rooms)


def unfit_pods(specs: Specs, nodes: Sequence[NodeSpec]) -> Iterator[UnplannedPods]:
    """Yield pods of recurring runs and of unbound jobs that no node would accept even if it were empty; none without
    nodes."""
    empty = EmptyNodes(nodes)
    for pods in specs.unplanned_pods:
        if (pods.is_recurring or _is_of_run(pods)) and empty.never_take(pods.pod):
            yield pods


class EmptyNodes:
    """The nodes as they are once all are back and nothing runs."""

    def __init__(self, nodes: Sequence[NodeSpec]) -> None:
        self.nodes = [returned_node(node) for node in nodes]
        self._masks = NodeMasks(self.nodes)

    def never_take(self, pod: PodSpec) -> bool:
        """Return whether there are nodes, and none of them takes the pod."""
        return bool(self.nodes) and not any(_fits(pod, node) for node in self._open_to(pod))

    def largest_amounts(self, pod: PodSpec) -> Amounts:
        """Return for each resource that the pod requests the most that one of its open nodes (by labels and taints)
        has; nothing without such nodes."""
        offered = [_offered_amounts(node) for node in self._open_to(pod)]
        return {name: max(amounts.get(name, 0) for amounts in offered) for name in pod.requests if offered}

    def has_room(self, pod: PodSpec, n: int) -> bool:
        """Return whether node n is large enough for the pod."""
        return _fits(pod, self.nodes[n])

    def kinds(self, pod: PodSpec) -> list[list[int]]:
        """Return the nodes by what may close them to the pod, ascending by the edits that they ask for."""
        classes = classify_nodes(self.nodes, [node_requirement(pod)])
        kinds: dict[object, list[int]] = {}
        for n, kind in enumerate(zip(classes.class_by_node, node_kinds(self.nodes, classes), strict=True)):
            kinds.setdefault(kind, []).append(n)
        return sorted(kinds.values(), key=lambda kind: edits_for(self.nodes[kind[0]], pod))

    def _open_to(self, pod: PodSpec) -> Iterator[NodeSpec]:
        mask = self._masks.nodes_matching(node_requirement(pod))
        return (node for n, node in enumerate(self.nodes) if mask >> n & 1)


def _is_of_run(pods: UnplannedPods) -> bool:
    return bool(pods.role) and f"{pods.document.kind}.{pods.document.group}" in RUN_KINDS


def _fits(pod: PodSpec, node: NodeSpec) -> bool:
    offered = _offered_amounts(node)
    return all(offered.get(name, 0) >= amount for name, amount in pod.requests.items())


def _offered_amounts(node: NodeSpec) -> Amounts:
    return {"pods": k8s.DEFAULT_PODS_PER_NODE, **node.allocatable}


def _freedom(pods: UnplannedPods) -> int:
    """Return the order of placing: pods without a choice are first."""
    return 0 if pods.on_each_node else 1 if pods.pod.node_name else 2


def _daemon(pod: PodSpec) -> PodSpec:
    return PodSpec(
        pod.requests,
        pod.node_selector,
        pod.node_affinity,
        (*pod.tolerations, *_DAEMON_TOLERATIONS),
        node_name=pod.node_name,
    )


class _Places:
    """The nodes, and what the pods that run leave free on each."""

    def __init__(self, gangs: Sequence[GangSpec], observed: ObservedState) -> None:
        self.observed, self._masks = observed, NodeMasks(observed.nodes)
        self._held: MutableMapping[int, Amounts] = {}
        for j, places in observed.running_pods.items():
            for (t, n), count in places.items():
                request = gangs[j].roles[t].pod.requests
                asked = {name: amount * count for name, amount in request.items()}
                self._held[n] = amounts_sum(self._held.get(n, {}), asked)

    def copy(self) -> _Places:
        """Return the same, to hold room in for an attempt."""
        made = copy(self)
        made._held = ChainMap({}, self._held)
        return made

    def hold(self, room: ReservedRoom) -> None:
        """Count the kept room as taken."""
        for n, amounts in room.amounts_by_node.items():
            self._held[n] = amounts_sum(self._held.get(n, {}), amounts)

    def is_away(self, n: int) -> bool:
        """Return whether the node takes no pods for now."""
        return is_away(self.observed.nodes[n])

    def matching(self, pod: PodSpec) -> set[int]:
        """Return the nodes whose labels and taints let the pod in."""
        mask = self._masks.nodes_matching(node_requirement(pod))
        return {n for n in range(len(self.observed.nodes)) if mask >> n & 1}

    def free(self, n: int) -> Amounts:
        node = self.observed.nodes[n]
        if node.name in self.observed.unready_nodes:
            return {}
        total = {"pods": k8s.DEFAULT_PODS_PER_NODE, **node.allocatable}
        for taken in (self.observed.foreign.amounts.get(n, {}), self._held.get(n, {})):
            total = {name: amount - taken.get(name, 0) for name, amount in total.items()}
        return total


def _running_pods(wanted: Iterable[UnplannedPods], observed: ObservedState) -> Mapping[int, list[int]]:
    """id of `UnplannedPods` -> the node of each of its pods that runs: those of its namespace whose name begins with
    the object's and which carry the template's labels, equal requests first."""
    by_namespace: dict[str, list[UnplannedPods]] = {}
    for pods in sorted(wanted, key=lambda pods: -len(pods.document.name)):
        by_namespace.setdefault(pods.key[0], []).append(pods)
    found: dict[int, list[int]] = {}
    requests = RequestCache()
    for n, on_node in sorted(observed.pods_by_node.items()) if by_namespace else ():
        for pod in on_node:
            if (k8s.namespace_of(pod), k8s.name_of(pod)) in observed.gang_role_by_pod:
                continue
            possible = [each for each in by_namespace.get(k8s.namespace_of(pod), ()) if _is_one_of(pod, each)]
            amounts = requests.requests_of(pod) if possible else {}
            left = [each for each in possible if each.has_more_than(len(found.get(id(each), ())))]
            if left:
                best = min(left, key=lambda each: each.pod.requests != amounts)
                found.setdefault(id(best), []).append(n)
    return found


def _is_one_of(pod: k8s.Object, pods: UnplannedPods) -> bool:
    name, owner = k8s.name_of(pod), pods.document.name
    labels = k8s.labels_of(pod)
    return (name == owner or name.startswith(f"{owner}-")) and all(
        labels.get(key) == value for key, value in pods.labels.items()
    )
