"""Room on nodes where evicted pods still run: pods that fit beside them need not wait for their end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from compiler.cluster_state.nodes import allocatable_amounts
from compiler.cluster_state.pods import RequestCache, live_pod_spec
from compiler.cluster_state.state import StateError
from compiler.kubernetes import is_finished_pod, name_of
from reconciler.changes.pods import GateLift
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex


class Room:
    """What is free on `nodes`, where every pod counts until it is gone. Of other nodes nothing is asked. On a node of
    which something cannot be read nothing is free. counts_cards: whether pods that are placed in single cards or NUMA
    cells find no room, since which of these are free is not known; else only their requests count."""

    def __init__(
        self, nodes: Sequence[Object], pods: Iterable[Object], index: NodeIndex, *, counts_cards: bool = True
    ) -> None:
        self._requests, self._counts_cards = RequestCache(), counts_cards
        self._free: dict[str, Counter[str]] = {name_of(node): Counter() for node in nodes}
        pods_on: dict[str, list[Object]] = {name: [] for name in self._free}
        for pod in pods:
            if (node_name := index.node_of(pod)) in pods_on and not is_finished_pod(pod):
                pods_on[node_name].append(pod)
        for node in nodes:
            try:
                self._free[name_of(node)] = self._free_amounts(node, pods_on[name_of(node)])
            except StateError:
                continue

    def _free_amounts(self, node: Object, pods: Iterable[Object]) -> Counter[str]:
        free = Counter(allocatable_amounts(node))
        for pod in pods:
            free.subtract(self._requests.requests_of(pod))
        return free

    def take(self, lifts: Sequence[GateLift]) -> bool:
        """Take what these pods request of the nodes, if all of it is free."""
        needed: dict[str, Counter[str]] = {}
        for lift in lifts:
            if lift.node not in self._free:
                continue
            try:
                spec = live_pod_spec(lift.pod)
            except StateError:
                return False
            if self._counts_cards and (spec.vgpu_requests or spec.topology_policy):
                return False
            needed.setdefault(lift.node, Counter()).update(spec.requests)
        for node, amounts in needed.items():
            if any(amount > self._free[node][resource] for resource, amount in amounts.items()):
                return False
        for node, amounts in needed.items():
            self._free[node].subtract(amounts)
        return True
