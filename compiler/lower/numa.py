"""Which NUMA cells the kubelet gives a pod, by the policy of the node's topology manager and by how the node is
divided.

Source: Kubernetes, pkg/kubelet/cm/topologymanager (policy.go, policy_restricted.go) and the hints of the CPU and device
managers. Of each resource those sets of cells are preferred that have as few cells as could hold the request were all
cells empty, and have it free. `restricted` admits a pod only to preferred sets, one of each resource, that have a cell
in common; `single-numa-node` only to sets of one cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.lower.eligibility import (
    NodeMasks,
    NodeRequirement,
    NumaLayout,
    node_requirement,
    numa_layout,
    numa_policy,
    returned_node,
)
from compiler.specs import Amounts, NodeSpec, PodSpec


@dataclass(frozen=True, slots=True, order=True)
class NumaRequest:
    """So many different cells, and the share of each: enough for the kubelet, and where it is one cell no more than it
    asks for."""

    number: int
    share: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class NumaPlan:
    """How a role's cells are planned.

    way: None where they are not. layouts: of the nodes that it is planned on, None for all that are open to it.
    unplanned: nodes that the kubelet may let it have, whose cells are not planned: closed to it where there is a way,
    else open, and the kubelet may refuse it there.
    """

    request: NumaRequest | None = None
    planned_layouts: frozenset[NumaLayout] | None = None
    unplanned_nodes: tuple[str, ...] = ()


NO_NUMA_PLAN = NumaPlan()


def fewest_slots(amount: int, sizes: Iterable[int]) -> int | None:
    """How few cells of these sizes hold the amount; None where all of them do not."""
    number = 0
    for size in sorted(sizes, reverse=True):
        if amount <= 0:
            break
        amount, number = amount - size, number + 1
    return None if amount > 0 else number


def restricted_request(requests: Amounts, layout: NumaLayout) -> NumaRequest | None:
    """What makes the kubelet admit a pod to a node with these cells: one cell, where one empty cell is enough of
    everything; or whole cells, where each resource that takes several takes all of the same number of equal cells, and
    each other one finds room in every one of them.

    None where it asks for something else, which nobody has said in cells. asked: of resources that cells divide; what
    these do not divide is in all of them.
    """
    rows = [dict(cell) for cell in layout]
    divided = {r: a for r, a in requests.items() if any(r in row for row in rows)}
    numbers = {r: fewest_slots(a, (row.get(r, 0) for row in rows)) for r, a in divided.items()}
    several = {r: number for r, number in numbers.items() if number is None or number > 1}
    if not several:
        return NumaRequest(1, tuple(sorted(requests.items())))
    number = next(iter(several.values()))
    if number is None or any(other != number for other in several.values()):
        return None
    if any(
        len({row.get(r, 0) for row in rows}) > 1 or divided[r] % number or divided[r] // number != rows[0].get(r, 0)
        for r in several
    ):
        return None
    if any(row.get(r, 0) < a for r, a in divided.items() if r not in several for row in rows):
        return None
    return NumaRequest(number, tuple(sorted((r, a // number if r in several else a) for r, a in requests.items())))


def fits_empty_slots(requests: Amounts, layout: NumaLayout) -> bool:
    """Whether all cells together, empty, have what a pod asks for."""
    return all(
        fewest_slots(a, sizes) is not None
        for r, a in requests.items()
        if (sizes := [dict(cell)[r] for cell in layout if r in dict(cell)])
    )


class NumaPlanner:
    """How the cells of pods are planned on these nodes. resources: what cells divide on any node."""

    def __init__(self, nodes: Sequence[NodeSpec], resources: Sequence[str]) -> None:
        self.nodes, self.resources = nodes, resources
        self._plans: dict[tuple[tuple[tuple[str, int], ...], NodeRequirement], NumaPlan] = {}

    @cached_property
    def _masks(self) -> NodeMasks:
        """Nodes that are away for now will be back."""
        return NodeMasks([returned_node(node) for node in self.nodes], numa_aware=True)

    def plan_for(self, pod: PodSpec) -> NumaPlan:
        """What is planned for a pod; nothing where no node is open to it, which then is the reason."""
        wanted = numa_policy(pod)
        asked = self.numa_requests(pod)
        if wanted not in ("restricted", "single-numa-node") or not asked:
            return NO_NUMA_PLAN
        key = tuple(sorted(asked.items())), node_requirement(pod)
        if key not in self._plans:
            mask = self._masks.nodes_matching(node_requirement(pod))
            one = NumaPlan(NumaRequest(1, key[0]))
            self._plans[key] = (
                NO_NUMA_PLAN
                if not mask
                else one
                if wanted == "single-numa-node"
                else self._restricted_plan(asked, mask)
            )
        return self._plans[key]

    def request_on(self, pod: PodSpec, node: NodeSpec) -> NumaRequest | None:
        """What a pod that runs on a node holds of its cells, as far as one can tell."""
        wanted, asked = numa_policy(pod), self.numa_requests(pod)
        if node.numa is None or wanted not in ("restricted", "single-numa-node") or not asked:
            return None
        return (
            restricted_request(asked, numa_layout(node.numa))
            if wanted == "restricted"
            else NumaRequest(1, tuple(sorted(asked.items())))
        )

    def numa_requests(self, pod: PodSpec) -> dict[str, int]:
        return {r: pod.requests[r] for r in self.resources if pod.requests.get(r)}

    def _restricted_plan(self, requests: Amounts, mask: int) -> NumaPlan:
        """Of the ways that the nodes' layouts need the one that most nodes share; nodes that need another are closed."""
        ways: dict[NumaRequest | None, dict[NumaLayout, int]] = {}
        for cells, nodes in self._masks.masks_by_layout.items():
            if nodes & mask and fits_empty_slots(requests, cells):
                ways.setdefault(restricted_request(requests, cells), {})[cells] = nodes & mask
        number = {way: sum(nodes.bit_count() for nodes in found.values()) for way, found in ways.items()}
        best = max(
            (way for way in ways if way is not None),
            key=lambda way: (number[way], -way.number, way.share),
            default=None,
        )
        others = 0
        for way, found in ways.items():
            for nodes in found.values() if way is None or way != best else ():
                others |= nodes
        unplanned = tuple(node.name for n, node in enumerate(self.nodes) if others >> n & 1) if others else ()
        return NumaPlan(best, frozenset(ways[best]) if best is not None and others else None, unplanned)
