"""How many NUMA nodes the kubelet gives a pod, by the policy of its topology manager and the layout of the machine.

Source: Kubernetes, pkg/kubelet/cm/topologymanager (policy.go, policy_restricted.go) and the hints of the CPU and device
managers. For each resource those sets of NUMA nodes are preferred that are as small as could hold the request on an
empty machine, and have it free. `restricted` admits a pod only to preferred sets, one of each resource, that have a
NUMA node in common; `single-numa-node` only to sets of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.specs.eligibility import (
    NodeMasks,
    NodeRequirement,
    NumaLayout,
    node_requirement,
    numa_layout,
    numa_policy,
    returned_node,
)
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Amounts, PodSpec


@dataclass(frozen=True, slots=True, order=True)
class NumaRequest:
    """So many different NUMA nodes, and the share of each: enough for the kubelet, and for one NUMA node exact."""

    number: int
    share: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NumaPlan:
    """How the NUMA nodes of a role are planned.

    request: None where they are not planned. planned_layouts: of the nodes that the role is planned on, None for all.
    unplanned_nodes: the kubelet may accept the role there, but its NUMA nodes are not planned; excluded for the role
    where there is a request, else usable, and the kubelet may refuse it there.
    """

    request: NumaRequest | None = None
    planned_layouts: frozenset[NumaLayout] | None = None
    unplanned_nodes: tuple[str, ...] = ()


NO_NUMA_PLAN = NumaPlan()


def fewest_slots(amount: int, sizes: Iterable[int]) -> int | None:
    """Return the fewest slots of these sizes that hold the amount; None if all of them do not."""
    number = 0
    for size in sorted(sizes, reverse=True):
        if amount <= 0:
            break
        amount, number = amount - size, number + 1
    return None if amount > 0 else number


def restricted_request(requests: Amounts, layout: NumaLayout) -> NumaRequest | None:
    """Return the request by which the kubelet admits a restricted pod to a node of this layout.

    One NUMA node, if one empty one has enough of everything; or whole ones, if each resource that needs several takes
    all of the same number of equal NUMA nodes, and each other resource fits every one of them. None if it requests
    something else. Resources that the NUMA nodes do not divide are in all of them.
    """
    rows = [dict(slot) for slot in layout]
    divided = {r: amount for r, amount in requests.items() if any(r in row for row in rows)}
    numbers = {r: fewest_slots(amount, (row.get(r, 0) for row in rows)) for r, amount in divided.items()}
    several = {r: number for r, number in numbers.items() if number not in (0, 1)}
    if not several:
        return NumaRequest(1, tuple(sorted(requests.items())))
    number = next(iter(several.values()))
    if number is None or any(other != number for other in several.values()):
        return None
    for r, amount in divided.items():
        sizes = [row.get(r, 0) for row in rows]
        if r in several and (len(set(sizes)) > 1 or amount != number * sizes[0]):
            return None
        if r not in several and min(sizes) < amount:
            return None
    shares = {r: amount // number if r in several else amount for r, amount in requests.items()}
    return NumaRequest(number, tuple(sorted(shares.items())))


def fits_empty_slots(requests: Amounts, layout: NumaLayout) -> bool:
    """Return whether all NUMA nodes together, empty, have what a pod requests."""
    rows = [dict(slot) for slot in layout]
    for r, amount in requests.items():
        sizes = [row[r] for row in rows if r in row]
        if sizes and fewest_slots(amount, sizes) is None:
            return False
    return True


class NumaPlanner:
    """Plans the NUMA nodes of pods on these machines. resources: divided by NUMA nodes on any machine."""

    def __init__(self, nodes: Sequence[NodeSpec], resources: Sequence[str]) -> None:
        self.nodes, self.resources = nodes, resources
        self._plans: dict[tuple[tuple[tuple[str, int], ...], NodeRequirement], NumaPlan] = {}

    @cached_property
    def _masks(self) -> NodeMasks:
        """Unschedulable nodes count as they will be when they are back."""
        return NodeMasks([returned_node(node) for node in self.nodes], numa_aware=True)

    def plan_for(self, pod: PodSpec) -> NumaPlan:
        """Return the plan of a pod; none where it can use no node, which then is the reason."""
        policy, requests = numa_policy(pod), self.numa_requests(pod)
        if policy not in ("restricted", "single-numa-node") or not requests:
            return NO_NUMA_PLAN
        key = tuple(sorted(requests.items())), node_requirement(pod)
        if key not in self._plans:
            mask = self.usable_nodes(pod)
            if not mask:
                self._plans[key] = NO_NUMA_PLAN
            elif policy == "single-numa-node":
                self._plans[key] = NumaPlan(NumaRequest(1, key[0]))
            else:
                self._plans[key] = self._restricted_plan(requests, mask)
        return self._plans[key]

    def usable_nodes(self, pod: PodSpec) -> int:
        """Return the nodes that the pod can use, as a bit mask."""
        return self._masks.nodes_matching(node_requirement(pod))

    def request_on(self, pod: PodSpec, node: NodeSpec) -> NumaRequest | None:
        """Return the request of a running pod to the node's NUMA nodes, if it is known."""
        policy, requests = numa_policy(pod), self.numa_requests(pod)
        if node.numa is None or policy not in ("restricted", "single-numa-node") or not requests:
            return None
        if policy == "restricted":
            return restricted_request(requests, numa_layout(node.numa))
        return NumaRequest(1, tuple(sorted(requests.items())))

    def numa_requests(self, pod: PodSpec) -> dict[str, int]:
        """Return the pod's requests of resources that NUMA nodes divide."""
        return {r: pod.requests[r] for r in self.resources if pod.requests.get(r)}

    def _restricted_plan(self, requests: Amounts, mask: int) -> NumaPlan:
        """Return the request that most nodes share among those that the layouts need; nodes that need another are
        excluded.

        mask: the nodes that the pod can use.
        """
        layouts: dict[NumaRequest | None, dict[NumaLayout, int]] = {}
        for layout, nodes in self._masks.masks_by_layout.items():
            if nodes & mask and fits_empty_slots(requests, layout):
                layouts.setdefault(restricted_request(requests, layout), {})[layout] = nodes & mask
        counts = {request: sum(n.bit_count() for n in found.values()) for request, found in layouts.items()}
        possible = [request for request in layouts if request is not None]
        best = max(possible, key=lambda request: (counts[request], -request.number, request.share), default=None)
        others = 0
        for request, found in layouts.items():
            if request is None or request != best:
                for nodes in found.values():
                    others |= nodes
        unplanned = tuple(node.name for n, node in enumerate(self.nodes) if others >> n & 1) if others else ()
        return NumaPlan(best, frozenset(layouts[best]) if best is not None and others else None, unplanned)
