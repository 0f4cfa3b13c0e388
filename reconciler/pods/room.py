"""The last check before gates are lifted: the pods on each node, with the new ones, fit its capacity. It trusts no
plan. Decisions on data, no IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import filterfalse
from typing import NamedTuple

from pydantic import ValidationError

from compiler.cluster_state.cluster_state import StateError
from compiler.cluster_state.nodes import observed_node, offered_amounts
from compiler.cluster_state.pods import RequestCache, live_pod_spec
from compiler.kinds.common.pods import PodSpecModel, pod_spec
from compiler.kubernetes import ALWAYS_COMPARED, annotations_of, is_finished_pod, labels_of, status_of
from compiler.specs.eligibility import NodeMasks
from compiler.specs.pod_spec import TOLERATE_ALL, Amounts, VgpuRequest
from compiler.volcano.shared_devices import VGPU_CORES, VGPU_MEMORY, VGPU_NUMBER, shared_devices_of
from reconciler.changes.pods import GateLift
from reconciler.cluster.objects import Object

_VGPU_AMOUNTS = frozenset((VGPU_NUMBER, VGPU_MEMORY, VGPU_CORES))


class Shortage(NamedTuple):
    """A node without room for a gang, and the resource it lacks. is_passing: evicted pods that plans ignore are still
    there."""

    node: str
    message: str
    is_passing: bool = False


@dataclass
class Room:
    """nodes: by name. pods: by node, with our own writes; each counts until it is deleted, by any creator.
    shared_nodes: with evicted pods still running that plans ignore. Their free cards and NUMA cells are unknown, so
    pods that are placed in single ones find no room. free: node -> its remaining amounts in this pass."""

    nodes: Mapping[str, Object]
    pods: Mapping[str, list[Object]]
    requests: RequestCache = field(default_factory=RequestCache)
    shared_nodes: Collection[str] = ()
    free: dict[str, Counter[str]] = field(default_factory=dict)

    def take(self, lifts: Sequence[GateLift]) -> Shortage | None:
        """Take the requests of these pods from the nodes and return None, if all fit; else take nothing and return the
        shortage."""
        needed: dict[str, Counter[str]] = {}
        for lift in lifts:
            try:
                if lift.node in self.shared_nodes and _needs_single_devices(lift.pod):
                    return Shortage(lift.node, f"node {lift.node}: evicted pods still hold devices", is_passing=True)
                if not self._is_selected(lift):
                    message = "its labels are not those that the pod's nodeSelector or affinity asks for"
                    return Shortage(lift.node, f"node {lift.node}: {message}")
                needed.setdefault(lift.node, Counter()).update(self._amounts_of(lift.pod, lift.node))
            except StateError as error:
                return Shortage(lift.node, str(error))
        texts = ((node, self._shortage(node, amounts)) for node, amounts in needed.items())
        if found := next(((node, text) for node, text in texts if text), None):
            return Shortage(*found, is_passing=found[0] in self.shared_nodes)
        for node, amounts in needed.items():
            self._free_amounts(node).subtract(amounts)
        return None

    def _is_selected(self, lift: GateLift) -> bool:
        """Return whether the pod's selector and required affinity match the node as it is now. A plan keeps the place
        of a running pod whose node has other labels since; the pod that replaces it would not be bound there."""
        spec, node = lift.pod["spec"], self.nodes.get(lift.node, {})
        labels = labels_of(node)
        if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
            return False
        affinity = (spec.get("affinity") or {}).get("nodeAffinity")
        if not affinity or not node:
            return True
        try:
            asked = pod_spec(PodSpecModel.model_validate({"containers": [], "affinity": {"nodeAffinity": affinity}}))
        except ValidationError:  # of a newer API server: the scheduler decides
            return True
        requirement = frozenset[tuple[str, str]](), asked.node_affinity, TOLERATE_ALL, "", "", None
        return bool(NodeMasks([observed_node(node)]).nodes_matching(requirement))

    def excess(self, lift: GateLift) -> str:
        """Return the first resource requested by a counted pod that is overcommitted on the node."""
        try:
            needed = dict.fromkeys(self._amounts_of(lift.pod, lift.node), 0)
        except StateError as error:
            return str(error)
        return self._shortage(lift.node, needed)

    def _shortage(self, node: str, needed: Mapping[str, int]) -> str:
        """Return the first resource of which the node has less free than is needed, or less than nothing where Volcano
        compares it for each pod; empty where it has enough of each."""
        if node not in self.nodes:
            return f"node {node} does not exist"
        try:
            free = self._free_amounts(node)
        except StateError as error:
            return str(error)
        for resource in ALWAYS_COMPARED:
            if free[resource] < 0:
                return f"node {node}: its pods request more {resource} than it has, so Volcano binds no pod there"
        for resource, amount in sorted(needed.items()):
            if amount > free[resource]:
                return f"node {node}: {max(free[resource], 0)} {resource} free, {amount} needed"
        return ""

    def _free_amounts(self, node: str) -> Counter[str]:
        """Return the remaining amounts of the node, computed once a pass. Raises StateError."""
        if node not in self.free:
            self.free[node] = self._unused_amounts(node)
        return self.free[node]

    def _unused_amounts(self, node: str) -> Counter[str]:
        cards = self._cards_of(node)
        if not status_of(self.nodes[node]).get("allocatable"):
            raise StateError(f"node {node} does not say what it has")
        free = Counter(offered_amounts(self.nodes[node]))
        free.update({name: sum(card[name] for card in cards) - free[name] for name in _VGPU_AMOUNTS if cards})
        for pod in filterfalse(is_finished_pod, self.pods.get(node, ())):
            free.subtract(self._amounts_of(pod, node))
        return free

    def _amounts_of(self, pod: Object, node: str) -> Amounts:
        """Return the pod's requests on this node. The device plugin reports no sums of virtual GPUs: the sum over the
        node's cards counts, where they are known."""
        amounts = self.requests.requests_of(pod)
        if not amounts.keys() & _VGPU_AMOUNTS:
            return amounts
        others = {name: amount for name, amount in amounts.items() if name not in _VGPU_AMOUNTS}
        cards = self._cards_of(node)
        return {**others, **_card_amounts(live_pod_spec(pod).vgpu_requests, cards)} if cards else others

    def _cards_of(self, node: str) -> Sequence[Amounts]:
        """Return the amounts of each card of a node with virtual GPUs."""
        found = self.nodes.get(node)
        devices = shared_devices_of(annotations_of(found), {}) if found is not None else ()
        return [amounts for device in devices for _, amounts in device.devices]


def _card_amounts(requests: Iterable[VgpuRequest], cards: Sequence[Amounts]) -> Amounts:
    """Return the amounts that virtual GPUs take of all cards together. A percentage is of the smallest card, a lower
    bound."""
    smallest = min(card[VGPU_MEMORY] for card in cards)
    total: Counter[str] = Counter()
    for request in requests:
        memory = request.memory or smallest * request.percentage // 100
        total[VGPU_NUMBER] += request.number
        total[VGPU_MEMORY] += request.number * memory
        total[VGPU_CORES] += request.number * request.cores
    return total


def _needs_single_devices(pod: Object) -> bool:
    spec = live_pod_spec(pod)
    return bool(spec.vgpu_requests or spec.topology_policy)
