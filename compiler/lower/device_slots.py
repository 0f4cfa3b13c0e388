"""NUMA cells and shared devices as the problem's divisions, cells and portions (docs/decisions/0008-cells.md).

A division is "numa" or the resource by which pods ask for parts of one device. Only those that some job asks for are in
the problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pydantic import ValidationError

from compiler.cluster_state.observed import ObservedState
from compiler.cluster_state.state import StateError
from compiler.kinds.common.pods import PodSpecModel, pod_spec
from compiler.kubernetes import (
    NUMA_POLICY_ANNOTATION,
    VGPU_ASSIGNMENT_ANNOTATION,
    Object,
    annotations_of,
    name_of,
    namespace_of,
    status_of,
)
from compiler.lower.eligibility import NodeRequirement, node_requirement
from compiler.lower.numa import NO_NUMA_PLAN, NumaPlan, NumaPlanner
from compiler.lower.resources import vector
from compiler.lower.slot_holders import SlotState, certain_slots
from compiler.specs import Amounts, GangSpec, NodeSpec, NumaSpec, PodSpec, SchedulerSpec
from compiler.volcano.numatopology import is_numa_aware
from compiler.volcano.shared_devices import (
    FULL_DEVICE_CORES,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_NUMBER,
    assigned_devices,
)
from solver.problem import DeviceSlot, SlotHold, SlotRequest, Vector

NUMA = "numa"
"""On a pod: the topologyPolicy of its task."""

NamedSlotRequest = tuple[str, int, Amounts]
"""Division, cells, and the share of each."""


@dataclass(frozen=True)
class SlotHolder:
    """A running pod, one of its node's cells (an index), that cell's division, and what the pod has of it."""

    pod: Object
    slot: int
    slot_group: int
    share: Vector


@dataclass(frozen=True)
class SlotGroups:
    """What nodes are divided into, and what pods take of it. pods: of all jobs. aware: whether NUMA counts at all."""

    nodes: Sequence[NodeSpec]
    pods: Sequence[PodSpec]
    numa_aware: bool

    @cached_property
    def numa_resources(self) -> tuple[str, ...]:
        """What NUMA cells divide, on any node."""
        return tuple(sorted({name for node in self.nodes if node.numa for cell in node.numa.slots for name in cell}))

    @cached_property
    def device_sizes(self) -> Mapping[str, int]:
        """Resource -> what one device offers of it, the largest where devices differ."""
        found: dict[str, int] = {}
        for node in self.nodes:
            for shared in node.shared_devices:
                for _, offer in shared.devices:
                    found[shared.resource] = max(found.get(shared.resource, 0), offer[shared.resource])
        return found

    @cached_property
    def whole_device_resources(self) -> Mapping[str, str]:
        """Resource -> the resource by which whole devices are asked for."""
        return {
            shared.resource: shared.whole_resource
            for node in self.nodes
            for shared in node.shared_devices
            if shared.whole_resource
        }

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The divisions that some pod takes from."""
        return tuple(sorted({division for pod in self.pods for division, _, _ in self.named_slot_requests(pod)}))

    @cached_property
    def slot_resources(self) -> frozenset[str]:
        """What pods take from cells, some of which nobody may ask for by name."""
        return frozenset(name for pod in self.pods for _, _, share in self.named_slot_requests(pod) for name in share)

    @cached_property
    def numa_planner(self) -> NumaPlanner:
        return NumaPlanner(self.nodes, self.numa_resources)

    def numa_plan(self, pod: PodSpec) -> NumaPlan:
        """How the NUMA cells of a pod are planned, if at all."""
        return self.numa_planner.plan_for(pod) if self.numa_aware else NO_NUMA_PLAN

    def unplanned_numa(self, gangs: Sequence[GangSpec]) -> Mapping[tuple[int, int], NumaPlan]:
        """(gang, role) whose NUMA cells are not planned on some nodes."""
        found = {
            (j, t): self.numa_plan(role.pod)
            for j, gang in enumerate(gangs)
            for t, role in enumerate(gang.roles)
            if role.pod.topology_policy
        }
        return {spot: cells for spot, cells in found.items() if cells.unplanned_nodes}

    def is_over_constrained(self, gang: GangSpec) -> bool:
        """Whether the portions ask for more than the kubelet does: nodes are closed that it might let the gang use; or
        a pod of whole cells has room kept for it in each of them that it needs in one, and another role could do with
        that."""
        found = [self.numa_plan(role.pod) for role in gang.roles if role.pod.topology_policy]
        several = [cells.request for cells in found if cells.request is not None]
        return any(cells.planned_layouts is not None for cells in found) or (
            len(several) > 1 and any(way.number > 1 for way in several)
        )

    def node_requirement(self, pod: PodSpec) -> NodeRequirement:
        """What decides which nodes are open to a pod."""
        return node_requirement(pod, self.numa_plan(pod).planned_layouts)

    def named_slot_requests(self, pod: PodSpec, node: NodeSpec | None = None) -> Iterator[NamedSlotRequest]:
        """From which divisions a pod takes what: at most one wish for each. at: the node that it runs on."""
        way = self.numa_planner.plan_for(pod).request if node is None else self.numa_planner.request_on(pod, node)
        if self.numa_aware and way is not None:
            yield NUMA, way.number, dict(way.share)
        for resource, each in sorted(self.device_sizes.items()):
            if resource == VGPU_MEMORY:
                yield from self._vgpu_slot_requests(pod, each)
                continue
            amount, whole = (
                pod.requests.get(resource, 0),
                pod.requests.get(self.whole_device_resources.get(resource, ""), 0),
            )
            if whole or amount > each:
                yield resource, whole or -(-amount // each), {resource: each}
            elif amount:
                yield resource, 1, {resource: amount}

    @staticmethod
    def _vgpu_slot_requests(pod: PodSpec, device_memory: int) -> Iterator[NamedSlotRequest]:
        """All containers together, each with the most that one of them asks for of a device: several that ask are rare,
        and then stand apart."""
        if not pod.vgpu_requests:
            return
        memory = max(asked.memory or device_memory * asked.percentage // 100 for asked in pod.vgpu_requests)
        cores = max(asked.cores for asked in pod.vgpu_requests)
        # A pod that asks for no cores may not join a device that another one has for itself, nor the other way round.
        yield (
            VGPU_MEMORY,
            sum(asked.number for asked in pod.vgpu_requests),
            {VGPU_MEMORY: memory, VGPU_CORES: max(1, min(cores, FULL_DEVICE_CORES)), VGPU_NUMBER: 1},
        )

    def slot_requests(
        self, pod: PodSpec, names: Sequence[str], node: NodeSpec | None = None
    ) -> tuple[SlotRequest, ...]:
        """Of the divisions in the problem. at: the node that the pod runs on."""
        if not self.names:
            return ()
        wishes = (wish for wish in self.named_slot_requests(pod, node) if wish[0] in self.names)
        return tuple(
            SlotRequest(self.names.index(division), number, vector(share, names)) for division, number, share in wishes
        )

    def device_slots(
        self, node: NodeSpec, pods: Sequence[Object], names: Sequence[str]
    ) -> tuple[tuple[DeviceSlot, ...], tuple[SlotHolder, ...]]:
        """The node's cells, less what the pods there hold: as their annotations say, or as is sure (`holders.surely`),
        else by best fit, the largest shares first. What a Numatopology says is left of a cell is less them already, but
        for the pods that it has not heard of.

        And which pods surely hold which of the cells. Where more is held of a cell than it has, where anything of a
        division had to be guessed, and where a Numatopology is late, nothing is sure.
        """
        offers = [
            (d, *offer) for d, division in enumerate(self.names) for offer in self._empty_slots(node, division, names)
        ]
        free = [np.array(left, dtype=np.int64) for _, _, _, left in offers]
        told = frozenset(
            names.index(r)
            for cell in (node.numa.free_slots if node.numa and node.numa.free_slots else ())
            for r in cell
            if r in names
        )
        news = {id(tenant) for tenant in unreported_pods(node, pods)} if NUMA in self.names else set()
        known: list[SlotHolder] = []
        unknown: list[tuple[Object, SlotRequest]] = []
        for tenant in pods:
            for portion in self._held_slot_requests(node, tenant, names, unreported=id(tenant) in news):
                said = self._annotated_slots(tenant, portion, [(d, name) for d, name, _, _ in offers], names)
                known += [SlotHolder(tenant, c, portion.slot_group, amount) for c, amount in said or ()]
                unknown += [(tenant, portion)] if said is None else []
        for holder in known:
            free[holder.slot] -= np.array(holder.share, dtype=np.int64)
        for d, division in enumerate(self.names):
            here = {c: free[c] for c, offer in enumerate(offers) if offer[0] == d}
            gone = told if division == NUMA else frozenset[int]()
            late = division == NUMA and unexplained_idle_cpu(node, pods) != 0
            states = {} if late else {c: SlotState(offers[c][2], _nonnegative(left), gone) for c, left in here.items()}
            mine = [
                UnlocatedHolder(tenant, portion, frozenset() if id(tenant) in news else gone)
                for tenant, portion in unknown
                if portion.slot_group == d
            ]
            sure = _deduct_unlocated(mine, states, here)
            known = [holder for holder in known if holder.slot_group != d] if sure is None or late else [*known, *sure]
        wholes = [whole for _, _, whole, _ in offers]
        cells = tuple(
            DeviceSlot(d, whole, _nonnegative(left)) for (d, _, whole, _), left in zip(offers, free, strict=True)
        )
        return cells, _consistent_holders(wholes, free, known)

    def _empty_slots(
        self, node: NodeSpec, slot_group: str, names: Sequence[str]
    ) -> Iterator[tuple[str, Vector, Vector]]:
        """(id, what the empty cell has, what is left of it as far as the node itself says) for each cell of a division."""
        if slot_group == NUMA:
            numa = node.numa or NumaSpec("none", False, ())
            undivided = {r: node.allocatable.get(r, 0) for r in self.numa_resources}
            for c, cell in enumerate(numa.slots):
                left = (
                    {}
                    if numa.free_slots is None
                    else {r: min(amount, cell.get(r, amount)) for r, amount in numa.free_slots[c].items()}
                )
                yield f"numa-{c}", vector({**undivided, **cell}, names), vector({**undivided, **cell, **left}, names)
        for shared in node.shared_devices:
            for name, offer in shared.devices if shared.resource == slot_group else ():
                yield name, vector(offer, names), vector(offer, names)

    def is_outdated(self, node: NodeSpec, pods: Sequence[Object]) -> bool:
        """Whether what the cluster says of the node's cells is older than the pods there: the resource exporter looks
        at a node again and again, and Volcano notes a pod's devices when it binds it."""
        late = NUMA in self.names and unexplained_idle_cpu(node, pods) != 0
        return late or (
            VGPU_MEMORY in self.names
            and any(_live_pod_spec(tenant).vgpu_requests and not _annotated_devices(tenant) for tenant in pods)
        )

    def _held_slot_requests(
        self, node: NodeSpec, pod: Object, names: Sequence[str], *, unreported: bool
    ) -> Iterator[SlotRequest]:
        """What the pod has of cells. new: its CPUs are some cell's, and the node has not said so yet."""
        spec = _live_pod_spec(pod)
        portions = self.slot_requests(spec, names, node)
        if unreported and all(self.names[portion.slot_group] != NUMA for portion in portions):
            yield SlotRequest(self.names.index(NUMA), 1, vector({"cpu": spec.requests["cpu"]}, names))
        yield from portions

    def _annotated_slots(
        self, pod: Object, slot_request: SlotRequest, offers: Sequence[tuple[int, str]], names: Sequence[str]
    ) -> list[tuple[int, Vector]] | None:
        """(cell, what the pod holds of it) as its annotations say; None where they say nothing of this division."""
        held = _annotated_devices(pod)
        if self.names[slot_request.slot_group] != VGPU_MEMORY or not held:
            return None
        return [
            (c, vector({**held[name], VGPU_CORES: max(1, held[name][VGPU_CORES])}, names))
            for c, (division, name) in enumerate(offers)
            if division == slot_request.slot_group and name in held
        ]


@dataclass(frozen=True)
class UnlocatedHolder:
    """A pod and its portion of one division, of which nobody says in which cells it is. told: resources whose free
    amounts are less it already."""

    pod: Object
    slot_request: SlotRequest
    reported: frozenset[int]

    @property
    def unreported_share(self) -> Vector:
        """Of each cell, what is still to be taken off."""
        return tuple(0 if r in self.reported else amount for r, amount in enumerate(self.slot_request.share))


def _deduct_unlocated(
    unlocated: Sequence[UnlocatedHolder], slot_states: Mapping[int, SlotState], free: Mapping[int, np.ndarray]
) -> list[SlotHolder] | None:
    """Takes off what these pods hold of one division's cells. Who surely holds what; None where a guess had to be made."""
    line = sorted(unlocated, key=lambda one: (one.slot_request.share, one.slot_request.number), reverse=True)
    sure = certain_slots([one.slot_request for one in line], slot_states)
    found, guessed = list[SlotHolder](), False
    for k, cells in sorted(sure.items()):
        for c in cells:
            free[c] -= np.array(line[k].unreported_share, dtype=np.int64)
            found.append(SlotHolder(line[k].pod, c, line[k].slot_request.slot_group, line[k].slot_request.share))
    for k, one in enumerate(line):
        if k not in sure and any(one.unreported_share):
            _deduct_best_fit(list(free.values()), replace(one.slot_request, share=one.unreported_share))
            guessed = True
    return None if guessed else found


def _nonnegative(free: np.ndarray) -> Vector:
    return tuple(max(0, int(x)) for x in free)


def _consistent_holders(
    capacities: Sequence[Vector], free: Sequence[np.ndarray], holders: Sequence[SlotHolder]
) -> tuple[SlotHolder, ...]:
    """Those who hold cells of which no more is held than there is."""
    total = [np.maximum(left, 0) for left in free]
    for holder in holders:
        total[holder.slot] = total[holder.slot] + np.array(holder.share, dtype=np.int64)
    sound = [
        bool((left >= 0).all() and (sum_ <= whole).all())
        for left, sum_, whole in zip(free, total, capacities, strict=True)
    ]
    return tuple(holder for holder in holders if sound[holder.slot])


def _deduct_best_fit(free: Sequence[np.ndarray], slot_request: SlotRequest) -> None:
    """Deduct one pod's request: from the slots that hold its share and are fullest; where too few hold it, from the
    emptiest, whose free amounts become negative."""
    shares = [_share_count(_nonnegative(amounts), slot_request.share) for amounts in free]
    by_fit = sorted(range(len(free)), key=lambda c: (shares[c], _nonnegative(free[c]), c))
    chosen = [c for c in by_fit if shares[c]][: slot_request.number]
    if len(chosen) < slot_request.number:
        emptiest = sorted(range(len(free)), key=lambda c: (-shares[c], [-x for x in _nonnegative(free[c])], c))
        chosen = emptiest[: slot_request.number]
    for c in chosen:
        free[c][:] -= np.array(slot_request.share, dtype=np.int64)


def _share_count(free: Vector, share: Vector) -> int:
    """How many times a slot holds the share."""
    return min((amount // wanted for amount, wanted in zip(free, share, strict=True) if wanted), default=1)


def _annotated_devices(pod: Object) -> dict[str, Amounts]:
    """Device -> what the pod holds of it, as Volcano noted."""
    return dict(assigned_devices(str(annotations_of(pod).get(VGPU_ASSIGNMENT_ANNOTATION, ""))))


def unexplained_idle_cpu(node: NodeSpec, pods: Sequence[Object]) -> int:
    """Millicores that the node's Numatopology says are idle beyond what its pods leave; below 0 where CPUs are still
    said to be taken that no pod has any more. 0 where nobody speaks of idle CPUs."""
    if node.numa is None or node.numa.free_slots is None or not node.numa.static_cpus:
        return 0
    idle, every = (sum(cell.get("cpu", 0) for cell in cells) for cells in (node.numa.free_slots, node.numa.slots))
    return idle - max(0, every - sum(_exclusive_millicores(tenant) for tenant in pods))


def unreported_pods(node: NodeSpec, pods: Sequence[Object]) -> list[Object]:
    """The youngest pods with CPUs of their own, as many as it takes for what is idle beyond what pods leave; those not
    yet bound before all."""
    beyond, found = unexplained_idle_cpu(node, pods), []

    def age(tenant: Object) -> tuple[bool, str, str]:
        started = status_of(tenant).get("startTime")
        return started is None, started or "", name_of(tenant)

    for tenant in sorted(pods, key=age, reverse=True):
        if beyond <= 0:
            break
        if own := _exclusive_millicores(tenant):
            found.append(tenant)
            beyond -= own
    return found


def _exclusive_millicores(pod: Object) -> int:
    """Millicores that the kubelet's static CPU manager gives the pod for itself: of a Guaranteed pod, what its
    containers ask for in whole CPUs."""
    if not _live_pod_spec(pod).guaranteed_qos:
        return 0
    asked = (container.effective_requests["cpu"] for container in _pod_model(pod).containers)
    return sum(int(cpu) * 1000 for cpu in asked if cpu.denominator == 1)


def _pod_model(pod: Object) -> PodSpecModel:
    return PodSpecModel.model_validate(
        {key: pod["spec"].get(key) for key in ("containers", "initContainers", "overhead", "resources")}
    )


def _live_pod_spec(pod: Object) -> PodSpec:
    """A live pod as a specification, with its task's policy."""
    try:
        spec = pod_spec(_pod_model(pod))
    except ValidationError as error:
        metadata = pod["metadata"]
        raise StateError(
            f"Pod {metadata.get('namespace')}/{metadata['name']} of the state: {error.errors()[0]['msg']}"
        ) from error
    said = annotations_of(pod).get(NUMA_POLICY_ANNOTATION, "")
    return PodSpec(
        spec.requests, guaranteed_qos=spec.guaranteed_qos, vgpu_requests=spec.vgpu_requests, topology_policy=str(said)
    )


def slot_holds(
    holders: Mapping[int, Sequence[SlotHolder]],
    observed: ObservedState,
    gangs: Sequence[GangSpec],
    slot_groups: SlotGroups,
    names: Sequence[str],
) -> dict[int, tuple[SlotHold, ...]]:
    """Gang -> which cells its running pods have, for those that surely have at least what their role asks for.

    holders: node -> who has which of its cells.
    """
    asked: dict[tuple[int, int], Mapping[int, SlotRequest]] = {}
    found: dict[int, Counter[tuple[int, int, int]]] = {}
    for n, node in sorted(holders.items()):
        cells = Counter((id(holder.pod), holder.slot_group) for holder in node)
        for holder in node:
            member = observed.gang_role_by_pod.get((namespace_of(holder.pod), name_of(holder.pod)))
            if member is None:
                continue
            j, t = member
            if member not in asked:
                asked[member] = {
                    portion.slot_group: portion for portion in slot_groups.slot_requests(gangs[j].roles[t].pod, names)
                }
            portion = asked[member].get(holder.slot_group)
            if portion is None or cells[id(holder.pod), holder.slot_group] != portion.number:
                continue
            if all(has >= share for has, share in zip(holder.share, portion.share, strict=True)):
                found.setdefault(j, Counter())[t, n, holder.slot] += 1
    return {j: tuple(SlotHold(*at, pods) for at, pods in sorted(counts.items())) for j, counts in found.items()}


def make_slot_groups(observed: ObservedState, pods: Iterable[PodSpec], scheduler: SchedulerSpec | None) -> SlotGroups:
    """Of jobs with these pods, where nodes are divided at all."""
    if not any(node.numa or node.shared_devices for node in observed.nodes):
        return SlotGroups((), (), is_numa_aware(scheduler))
    distinct = {(tuple(sorted(pod.requests.items())), pod.vgpu_requests, node_requirement(pod)): pod for pod in pods}
    return SlotGroups(observed.nodes, tuple(distinct.values()), is_numa_aware(scheduler))
