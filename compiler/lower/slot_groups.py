"""Slot groups: the ways in which nodes are divided into device slots, and what pods request of them.

A group is "numa" or the resource of a shared device (docs/develop/decisions/0008-cells.md). Only groups that some job
requests are in the problem.

The kubelet gives a pod NUMA nodes by the policy of its topology manager and the layout of the machine. Source:
Kubernetes, pkg/kubelet/cm/topologymanager (policy.go, policy_restricted.go) and the hints of the CPU and device
managers. For each resource those sets of NUMA nodes are preferred that are as small as could hold the request on an
empty machine, and have it free. `restricted` admits a pod only to preferred sets, one of each resource, that have a
NUMA node in common; `single-numa-node` only to sets of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.lower.resources import vector
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.eligibility import (
    NodeMasks,
    NodeRequirement,
    NumaLayout,
    node_requirement,
    numa_layout,
    numa_policy,
    returned_node,
)
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Amounts, PodSpec
from compiler.volcano.numatopology import is_numa_aware
from compiler.volcano.shared_devices import (
    FULL_DEVICE_CORES,
    FULL_PERCENTAGE,
    GPU_MEMORY,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_MEMORY_PERCENTAGE,
    VGPU_NUMBER,
    shares_devices,
)
from solver.problem import SlotRequest


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


NUMA = "numa"

NamedSlotRequest = tuple[str, int, Amounts]
"""Slot group, number of slots, and the share of each."""


@dataclass(frozen=True)
class SlotGroups:
    """pods: the distinct pods of all jobs. numa_aware: whether NUMA nodes count at all. summed: the resources of shared
    devices of which Volcano compares only sums over a node."""

    nodes: Sequence[NodeSpec]
    pods: Sequence[PodSpec]
    numa_aware: bool
    summed: frozenset[str] = frozenset()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Return the groups that some pod requests."""
        return tuple(sorted({group for group, _, _ in self._all_requests}))

    @cached_property
    def slot_resources(self) -> frozenset[str]:
        """Resources that pods take from slots, some of which no pod requests by name."""
        return frozenset(name for _, _, share in self._all_requests for name in share)

    @cached_property
    def _all_requests(self) -> list[NamedSlotRequest]:
        return [request for pod in self.pods for request in self.named_slot_requests(pod)]

    @cached_property
    def numa_resources(self) -> tuple[str, ...]:
        """Resources that NUMA nodes divide, on any node."""
        layouts = [node.numa.slots for node in self.nodes if node.numa]
        slots = (slot for layout in layouts for slot in layout)
        return tuple(sorted({name for slot in slots for name in slot}))

    @cached_property
    def device_sizes(self) -> Mapping[str, int]:
        """Resource -> its amount in one device, the largest where devices differ."""
        found: dict[str, int] = {}
        for node in self.nodes:
            for shared in node.shared_devices:
                for _, offer in (*shared.devices, *shared.unhealthy):
                    found[shared.resource] = max(found.get(shared.resource, 0), offer[shared.resource])
        return found

    @cached_property
    def _vgpu_sizes_differ(self) -> bool:
        of_nodes = [shared for node in self.nodes for shared in node.shared_devices]
        devices = [(*shared.devices, *shared.unhealthy) for shared in of_nodes if shared.resource == VGPU_MEMORY]
        return len({offer[VGPU_MEMORY] for of_node in devices for _, offer in of_node}) > 1

    @cached_property
    def divides_by_percentage(self) -> bool:
        """Return whether the memory of virtual GPUs counts in percent: cards differ in size, and every pod asks for a
        part."""
        return self._vgpu_sizes_differ and not any(r.memory for pod in self.pods for r in pod.vgpu_requests)

    @cached_property
    def _whole_device_resources(self) -> Mapping[str, str]:
        """Resource -> the resource by which whole devices are requested."""
        devices = [shared for node in self.nodes for shared in node.shared_devices]
        return {shared.resource: shared.whole_resource for shared in devices if shared.whole_resource}

    @cached_property
    def _numa_planner(self) -> NumaPlanner:
        return NumaPlanner(self.nodes, self.numa_resources)

    def numa_plan(self, pod: PodSpec) -> NumaPlan:
        """Return how the NUMA nodes of a pod are planned, if at all."""
        return self._numa_planner.plan_for(pod) if self.numa_aware else NO_NUMA_PLAN

    def unplanned_numa(self, gangs: Sequence[GangSpec]) -> Mapping[tuple[int, int], NumaPlan]:
        """(gang, role) -> its plan, where its NUMA nodes are not planned on some nodes."""
        found = {}
        for j, gang in enumerate(gangs):
            for t, role in enumerate(gang.roles):
                plan = self.numa_plan(role.pod) if role.pod.topology_policy else NO_NUMA_PLAN
                if plan.unplanned_nodes:
                    found[j, t] = plan
        return found

    def is_over_constrained(self, gang: GangSpec) -> bool:
        """Return whether the slot requests are stricter than kubelet and scheduler: they exclude nodes that the kubelet
        might let the gang use; a pod of whole NUMA nodes reserves room in each of them that it needs in one, and
        another role could use it; several containers of a pod may take from several NUMA nodes, which Volcano and the
        kubelet's container scope give each its own; virtual GPUs are requested in a way that has no exact slot request;
        or Volcano does not look at single devices."""
        pods = [role.pod for role in gang.roles]
        if any(self._has_inexact_vgpus(pod) or self._is_summed(pod) for pod in pods):
            return True
        plans = [self.numa_plan(pod) for pod in pods if pod.topology_policy]
        if any(self.numa_plan(pod).request is not None for pod in pods if pod.several_containers):
            return True
        if any(plan.planned_layouts is not None for plan in plans):
            return True
        requests = [plan.request for plan in plans if plan.request is not None]
        return len(requests) > 1 and any(request.number > 1 for request in requests)

    def _is_summed(self, pod: PodSpec) -> bool:
        """Return whether it requests shared devices of which Volcano compares sums."""
        return not self.summed.isdisjoint(_requested_devices(pod))

    def _has_inexact_vgpus(self, pod: PodSpec) -> bool:
        """Several containers may or may not share cards; of cards that differ a part counts as one of the largest where
        others name MiB; and a pod without cores takes one percent."""
        requests, has_one_unit = pod.vgpu_requests, not self._vgpu_sizes_differ or self.divides_by_percentage
        is_inexact_part = not has_one_unit and any(0 < r.percentage < FULL_PERCENTAGE for r in requests)
        return len(requests) > 1 or is_inexact_part or (bool(requests) and self._mixes_cores)

    @cached_property
    def _mixes_cores(self) -> bool:
        """Return whether some containers request cores of virtual GPUs and others do not."""
        return len({bool(request.cores) for pod in self.pods for request in pod.vgpu_requests}) > 1

    def node_requirement(self, pod: PodSpec) -> NodeRequirement:
        """Return the facts that decide which nodes a pod can use."""
        return node_requirement(pod, self.numa_plan(pod).planned_layouts)

    def slot_requests(
        self, pod: PodSpec, names: Sequence[str], node: NodeSpec | None = None
    ) -> tuple[SlotRequest, ...]:
        """Return the pod's requests of the slot groups in the problem. node: the one that the pod runs on."""
        return tuple(
            SlotRequest(self.names.index(group), number, vector(share, names))
            for group, number, share in (self.named_slot_requests(pod, node) if self.names else ())
            if group in self.names
        )

    def named_slot_requests(self, pod: PodSpec, node: NodeSpec | None = None) -> Iterator[NamedSlotRequest]:
        """At most one request for each group. node: the one that the pod runs on."""
        planner = self._numa_planner
        request = planner.plan_for(pod).request if node is None else planner.request_on(pod, node)
        if self.numa_aware and request is not None:
            yield NUMA, request.number, dict(request.share)
        for resource, size in sorted(self.device_sizes.items()):
            if resource == VGPU_MEMORY:
                yield from self._vgpu_slot_requests(pod, size)
                continue
            amount = pod.requests.get(resource, 0)
            whole = pod.requests.get(self._whole_device_resources.get(resource, ""), 0)
            if amount and resource == GPU_MEMORY:  # Volcano takes all of it from one card
                yield resource, 1, {resource: amount}
            elif whole or amount > size:
                yield resource, whole or -(-amount // size), {resource: size}
            elif amount:
                yield resource, 1, {resource: amount}

    def _vgpu_slot_requests(self, pod: PodSpec, device_memory: int) -> Iterator[NamedSlotRequest]:
        """Yield all containers together: where one card has room for all of them they share cards, else each has its
        own, with the largest request of any of them."""
        requests = pod.vgpu_requests
        if not requests:
            return
        in_percent = self.divides_by_percentage
        unit, size = (VGPU_MEMORY_PERCENTAGE, FULL_PERCENTAGE) if in_percent else (VGPU_MEMORY, device_memory)
        if (
            self._vgpu_sizes_differ
            and not in_percent
            and len(requests) == 1
            and requests[0].percentage == FULL_PERCENTAGE
        ):
            # All of a card, whatever its size: nobody else finds cores there.
            yield VGPU_MEMORY, requests[0].number, {VGPU_CORES: FULL_DEVICE_CORES, VGPU_NUMBER: 1}
            return
        # A pod that requests no cores may not join a device that another pod has for itself, nor the other way round.
        cores = [max(1, min(request.cores, FULL_DEVICE_CORES)) for request in requests]
        memory = [request.memory or size * request.percentage // FULL_PERCENTAGE for request in requests]
        shares = sum(memory) <= size and sum(cores) <= FULL_DEVICE_CORES
        of_all: Callable[[Iterable[int]], int] = sum if shares else max
        number = max(request.number for request in requests) if shares else sum(request.number for request in requests)
        share = {unit: of_all(memory), VGPU_CORES: of_all(cores), VGPU_NUMBER: len(requests) if shares else 1}
        yield VGPU_MEMORY, number, share


def _requested_devices(pod: PodSpec) -> Iterator[str]:
    """Yield the resources of shared devices that it requests; for any request to virtual GPUs their memory."""
    yield from pod.requests
    if pod.vgpu_requests:
        yield VGPU_MEMORY


def slot_groups_of(nodes: Sequence[NodeSpec], pods: Iterable[PodSpec], scheduler: SchedulerSpec | None) -> SlotGroups:
    """Return the groups of these nodes that the pods request; none where no node is divided."""
    if not any(node.numa or node.shared_devices for node in nodes):
        return SlotGroups((), (), is_numa_aware(scheduler))
    distinct = {(tuple(sorted(pod.requests.items())), pod.vgpu_requests, node_requirement(pod)): pod for pod in pods}
    summed = frozenset(name for name in (VGPU_MEMORY, GPU_MEMORY) if not shares_devices(scheduler, name))
    return SlotGroups(nodes, tuple(distinct.values()), is_numa_aware(scheduler), summed)
