"""Slot groups: the ways in which nodes are divided into device slots, and what pods request of them.

A group is "numa" or the resource of a shared device (docs/develop/decisions/0008-cells.md). Only groups that some job
requests are in the problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from compiler.lower.numa import NO_NUMA_PLAN, NumaPlan, NumaPlanner
from compiler.lower.resources import vector
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.eligibility import NodeRequirement, node_requirement
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
