"""Device slots of the cluster's nodes: the free amount of each, and which running pods certainly hold which
(docs/develop/decisions/0008-cells.md).

Two cases are certain if no annotation names a pod's slot. A pod that fits only one slot holds that one. And where each
unlocated pod fills a slot, and those slots are identical, any assignment is as good: the end of a pod returns one whole
slot.

Volcano's resource exporter looks at a node from time to time, so that the idle CPUs of its
Numatopology may be older than the pods there: exclusive CPUs of pods are compared with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import sub

from compiler.cluster_state.observed import ObservedState
from compiler.cluster_state.pods import live_pod_spec, pod_model
from compiler.kubernetes import VGPU_ASSIGNMENT_ANNOTATION, Object, annotations_of, name_of, namespace_of, status_of
from compiler.lower.resources import vector, vector_sum
from compiler.lower.slot_groups import NUMA, SlotGroups
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import NodeSpec, NumaSpec
from compiler.specs.pod_spec import Amounts
from compiler.volcano.shared_devices import (
    FULL_PERCENTAGE,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_MEMORY_PERCENTAGE,
    assigned_devices,
)
from solver.problem import DeviceSlot, SlotHold, SlotRequest, Vector


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """A running pod and the share that it holds of a slot (an index into its node's)."""

    pod: Object
    slot: int
    slot_group: int
    share: Vector


@dataclass(frozen=True, slots=True)
class _EmptySlot:
    """A slot before pods are deducted. free: its capacity, or the free amount reported by the node itself if that is
    less."""

    slot_group: int
    name: str
    capacity: Vector
    free: Vector


@dataclass(frozen=True, slots=True)
class _UnlocatedHolder:
    """A pod and its request, of unknown slots. reported: resources whose reported free amounts exclude it already."""

    pod: Object
    request: SlotRequest
    reported: frozenset[int]

    @property
    def unreported_share(self) -> Vector:
        """Return the share still to be deducted from each of its slots."""
        return tuple(0 if r in self.reported else amount for r, amount in enumerate(self.request.share))


def node_slots(
    groups: SlotGroups, node: NodeSpec, pods: Sequence[Object], names: Sequence[str]
) -> tuple[tuple[DeviceSlot, ...], tuple[SlotHolder, ...]]:
    """Return the node's slots, less the shares of its pods, and the pods that certainly hold certain slots.

    Pods hold the slots in their annotations, else the certain ones (`certain_slots`), else those of best fit, the
    largest shares first. Free amounts of a Numatopology exclude the pods that it knows. Nothing is certain where a slot
    is overcommitted, where any slot of a group had to be guessed, or where a Numatopology is outdated.
    """
    if not groups.names:
        return (), ()
    slots = _NodeSlots(groups, node, names)
    unreported = {id(pod) for pod in unreported_pods(node, pods)} if NUMA in groups.names else set[int]()
    unlocated = slots.deduct_annotated(pods, unreported)
    is_outdated = NUMA in groups.names and unexplained_idle_cpu(node, pods) != 0
    for group, name in enumerate(groups.names):
        mine = [holder for holder in unlocated if holder.request.slot_group == group]
        slots.deduct_unlocated(group, mine, is_outdated=is_outdated and name == NUMA)
    return slots.result(), slots.consistent_holders()


def is_outdated(groups: SlotGroups, node: NodeSpec, pods: Sequence[Object]) -> bool:
    """Return whether the cluster's report of the node's slots is older than the pods there: the resource exporter looks
    at a node from time to time, and Volcano notes a pod's devices when it binds it."""
    if NUMA in groups.names and unexplained_idle_cpu(node, pods) != 0:
        return True
    if VGPU_MEMORY not in groups.names:
        return False
    vgpu_pods = (pod for pod in pods if live_pod_spec(pod).vgpu_requests)
    return any(not _annotated_devices(pod) for pod in vgpu_pods)


class _NodeSlots:
    """The slots of one node, from which pods are deducted."""

    def __init__(self, groups: SlotGroups, node: NodeSpec, names: Sequence[str]) -> None:
        self.groups, self.node, self.names = groups, node, names
        self.empty = [slot for group in range(len(groups.names)) for slot in _empty_slots(groups, node, group, names)]
        self.free = [slot.free for slot in self.empty]
        self.holders: list[SlotHolder] = []
        free_slots = (node.numa.free_slots if node.numa else None) or ()
        reported = {name for slot in free_slots for name in slot}
        self.reported = frozenset(r for r, name in enumerate(names) if name in reported)

    def deduct_annotated(self, pods: Sequence[Object], unreported: set[int]) -> list[_UnlocatedHolder]:
        """Deduct pods with slots in their annotations, and return the others. unreported: ids of pods that the node's
        report does not know."""
        unlocated = []
        for pod in pods:
            is_reported = id(pod) not in unreported
            for request in self._held_requests(pod, is_reported=is_reported):
                located = self._annotated_slots(pod, request)
                for slot, share in located or ():
                    self._deduct(SlotHolder(pod, slot, request.slot_group, share), share)
                if located is None:
                    numa = self.groups.names[request.slot_group] == NUMA
                    reported = self.reported if numa and is_reported else frozenset[int]()
                    unlocated.append(_UnlocatedHolder(pod, request, reported))
        return unlocated

    def _held_requests(self, pod: Object, *, is_reported: bool) -> Iterator[SlotRequest]:
        """Yield the pod's requests to slots; an unreported pod without a NUMA request still holds CPUs of some NUMA
        node."""
        spec = live_pod_spec(pod)
        requests = self.groups.slot_requests(spec, self.names, self.node)
        if not is_reported and all(self.groups.names[request.slot_group] != NUMA for request in requests):
            yield SlotRequest(self.groups.names.index(NUMA), 1, vector({"cpu": spec.requests["cpu"]}, self.names))
        yield from requests

    def _annotated_slots(self, pod: Object, request: SlotRequest) -> list[tuple[int, Vector]] | None:
        """Return (slot, share that the pod holds) by its annotations; None where they name none of the group."""
        held = _annotated_devices(pod)
        if self.groups.names[request.slot_group] != VGPU_MEMORY or not held:
            return None
        found = []
        for c, slot in enumerate(self.empty):
            if slot.slot_group == request.slot_group and slot.name in held:
                amounts = {**held[slot.name], VGPU_CORES: max(1, held[slot.name][VGPU_CORES])}
                amounts[VGPU_MEMORY_PERCENTAGE] = -(
                    -FULL_PERCENTAGE * amounts[VGPU_MEMORY] // self._device_size(slot.name)
                )
                found.append((c, vector(amounts, self.names)))
        return found

    def _device_size(self, name: str) -> int:
        """Return the memory of a virtual GPU of the node."""
        return next(
            dict((*shared.devices, *shared.unhealthy))[name][VGPU_MEMORY]
            for shared in self.node.shared_devices
            if shared.resource == VGPU_MEMORY
        )

    def _deduct(self, holder: SlotHolder, share: Vector) -> None:
        self.free[holder.slot] = tuple(map(sub, self.free[holder.slot], share))
        self.holders.append(holder)

    def deduct_unlocated(self, group: int, holders: Sequence[_UnlocatedHolder], *, is_outdated: bool) -> None:
        """Deduct the holders of one group; after a guess, or an outdated report, none of the group is certain."""
        ordered = sorted(holders, key=lambda one: (one.request.share, one.request.number), reverse=True)
        own = [c for c, slot in enumerate(self.empty) if slot.slot_group == group]
        reported = self.reported if self.groups.names[group] == NUMA else frozenset[int]()
        states = {c: SlotState(self.empty[c].capacity, _nonnegative(self.free[c]), reported) for c in own}
        certain = certain_slots([one.request for one in ordered], {} if is_outdated else states)
        for k, slots in sorted(certain.items()):
            for c in slots:
                holder = SlotHolder(ordered[k].pod, c, group, ordered[k].request.share)
                self._deduct(holder, ordered[k].unreported_share)
        uncertain = (one for k, one in enumerate(ordered) if k not in certain)
        guessed = [one for one in uncertain if any(one.unreported_share)]
        for one in guessed:
            for c in self._best_fit(own, one.request.number, one.unreported_share):
                self.free[c] = tuple(map(sub, self.free[c], one.unreported_share))
        if guessed or is_outdated:
            self.holders = [holder for holder in self.holders if holder.slot_group != group]

    def _best_fit(self, slots: Sequence[int], number: int, share: Vector) -> Sequence[int]:
        """Return the fullest slots that hold the share; where too few do, the emptiest."""
        free = {c: _nonnegative(self.free[c]) for c in slots}
        counts = {c: _share_count(free[c], share) for c in slots}
        fitting = sorted((c for c in slots if counts[c]), key=lambda c: (counts[c], free[c], c))
        if len(fitting) >= number:
            return fitting[:number]
        return sorted(slots, key=lambda c: (-counts[c], [-amount for amount in free[c]], c))[:number]

    def result(self) -> tuple[DeviceSlot, ...]:
        return tuple(
            DeviceSlot(slot.slot_group, slot.capacity, _nonnegative(free))
            for slot, free in zip(self.empty, self.free, strict=True)
        )

    def consistent_holders(self) -> tuple[SlotHolder, ...]:
        """Return the holders of slots of which no more is held than they have."""
        total = list(map(_nonnegative, self.free))
        for holder in self.holders:
            total[holder.slot] = vector_sum(total[holder.slot], holder.share, 1)
        return tuple(holder for holder in self.holders if self._is_consistent(holder.slot, total[holder.slot]))

    def _is_consistent(self, slot: int, total: Vector) -> bool:
        exceeds = any(amount > most for amount, most in zip(total, self.empty[slot].capacity, strict=True))
        return min(self.free[slot], default=0) >= 0 and not exceeds


def _empty_slots(groups: SlotGroups, node: NodeSpec, group: int, names: Sequence[str]) -> Iterator[_EmptySlot]:
    """Yield the node's slots of one group; resources that its NUMA nodes do not divide are in each of them."""
    if groups.names[group] == NUMA:
        numa = node.numa or NumaSpec("none", False, ())
        undivided = {name: node.allocatable.get(name, 0) for name in groups.numa_resources}
        for c, slot in enumerate(numa.slots):
            capacity = {**undivided, **slot}
            reported = {} if numa.free_slots is None else numa.free_slots[c]
            free = {name: min(amount, slot.get(name, amount)) for name, amount in reported.items()}
            yield _EmptySlot(group, f"numa-{c}", vector(capacity, names), vector({**capacity, **free}, names))
    for shared in node.shared_devices:
        if shared.resource == groups.names[group]:
            for name, of_device in (*shared.devices, *shared.unhealthy):
                offer = vector({**of_device, VGPU_MEMORY_PERCENTAGE: FULL_PERCENTAGE}, names)
                is_healthy = (name, of_device) not in shared.unhealthy
                yield _EmptySlot(group, name, offer, offer if is_healthy else vector({}, names))


def _nonnegative(amounts: Vector) -> Vector:
    return tuple(max(0, amount) for amount in amounts)


def _share_count(free: Vector, share: Vector) -> int:
    """Return how many times a slot holds the share."""
    return min((amount // wanted for amount, wanted in zip(free, share, strict=True) if wanted), default=1)


def _annotated_devices(pod: Object) -> dict[str, Amounts]:
    """Device -> what the pod holds of it, as Volcano noted."""
    return dict(assigned_devices(str(annotations_of(pod).get(VGPU_ASSIGNMENT_ANNOTATION, ""))))


def slot_holds(
    holders: Mapping[int, Sequence[SlotHolder]],
    observed: ObservedState,
    gangs: Sequence[GangSpec],
    groups: SlotGroups,
    names: Sequence[str],
) -> dict[int, tuple[SlotHold, ...]]:
    """Return gang -> slots of its running pods, for pods that certainly hold at least their role's request.

    holders: node -> the pods that certainly hold certain of its slots.
    """
    requested: dict[tuple[int, int], Mapping[int, SlotRequest]] = {}
    found: dict[int, Counter[tuple[int, int, int]]] = {}
    for n, node_holders in sorted(holders.items()):
        slots_held = Counter((id(holder.pod), holder.slot_group) for holder in node_holders)
        for holder in node_holders:
            gang_role = observed.gang_role_by_pod.get((namespace_of(holder.pod), name_of(holder.pod)))
            if gang_role is None:
                continue
            j, t = gang_role
            if gang_role not in requested:
                requests = groups.slot_requests(gangs[j].roles[t].pod, names)
                requested[gang_role] = {request.slot_group: request for request in requests}
            request = requested[gang_role].get(holder.slot_group)
            if request is None or slots_held[id(holder.pod), holder.slot_group] != request.number:
                continue
            if all(held >= share for held, share in zip(holder.share, request.share, strict=True)):
                found.setdefault(j, Counter())[t, n, holder.slot] += 1
    return {j: tuple(SlotHold(*at, pods) for at, pods in sorted(counts.items())) for j, counts in found.items()}


@dataclass(frozen=True, slots=True)
class SlotState:
    """One slot with all located pods deducted. reported: resources whose free amount the node itself reports, with
    every pod deducted."""

    capacity: Vector
    free: Vector
    reported: frozenset[int]

    def may_hold(self, share: Vector) -> bool:
        """Return whether an unlocated pod with this share may be running here."""
        return all(self._max_used(r) >= amount for r, amount in enumerate(share))

    def _max_used(self, r: int) -> int:
        """Return the most that unlocated pods hold of a resource."""
        return self.capacity[r] - self.free[r] if r in self.reported else self.free[r]

    def is_filled_by(self, share: Vector) -> bool:
        """Return whether a pod with this share leaves no room for another one."""
        return any(0 < whole <= amount for whole, amount in zip(self.capacity, share, strict=True))


def certain_slots(slot_requests: Sequence[SlotRequest], slots: Mapping[int, SlotState]) -> dict[int, tuple[int, ...]]:
    """Return index into `slot_requests` -> its slots, for certain ones.

    slot_requests: of the unlocated pods, in one slot group of a node.
    """
    found = {}
    for k, request in enumerate(slot_requests):
        possible = _possible_slots(request, slots)
        if len(possible) == request.number:
            found[k] = tuple(possible)
    return found if len(found) == len(slot_requests) else _interchangeable_slots(slot_requests, slots) or found


def _possible_slots(slot_request: SlotRequest, slots: Mapping[int, SlotState]) -> list[int]:
    return [c for c, slot in sorted(slots.items()) if slot.may_hold(slot_request.share)]


def _interchangeable_slots(
    slot_requests: Sequence[SlotRequest], slots: Mapping[int, SlotState]
) -> dict[int, tuple[int, ...]]:
    """Return the possible slots in turn, if they are identical and each pod fills every slot that it is in; else
    none."""
    choices: Collection[tuple[int, ...]] = {tuple(_possible_slots(request, slots)) for request in slot_requests}
    if len(choices) != 1:
        return {}
    (possible,) = choices
    number, is_reported = sum(request.number for request in slot_requests), any(slots[c].reported for c in possible)
    if number > len(possible) or (is_reported and number < len(possible)) or len({slots[c] for c in possible}) != 1:
        return {}
    if not all(slots[c].is_filled_by(request.share) for request in slot_requests for c in possible):
        return {}
    remaining = iter(possible)
    return {k: tuple(next(remaining) for _ in range(request.number)) for k, request in enumerate(slot_requests)}


def unexplained_idle_cpu(node: NodeSpec, pods: Sequence[Object]) -> int:
    """Millicores reported idle beyond what the node's pods leave; below 0 where CPUs are reported taken that no pod has
    any more; 0 without a report."""
    if node.numa is None or node.numa.free_slots is None or not node.numa.static_cpus:
        return 0
    idle, total = (sum(slot.get("cpu", 0) for slot in slots) for slots in (node.numa.free_slots, node.numa.slots))
    return idle - max(0, total - sum(map(exclusive_millicores, pods)))


def unreported_pods(node: NodeSpec, pods: Sequence[Object]) -> list[Object]:
    """Pods that the report does not know: the youngest with exclusive CPUs, as many as account for the unexplained idle
    CPU; those not yet bound first."""
    unexplained, found = unexplained_idle_cpu(node, pods), []
    for pod in sorted(pods, key=_age_key, reverse=True):
        if unexplained <= 0:
            break
        if own := exclusive_millicores(pod):
            found.append(pod)
            unexplained -= own
    return found


def _age_key(pod: Object) -> tuple[bool, str, str]:
    started = status_of(pod).get("startTime")
    return started is None, started or "", name_of(pod)


def exclusive_millicores(pod: Object) -> int:
    """Millicores that the kubelet's static CPU manager gives the pod for itself: of a Guaranteed pod, what its
    containers request in whole CPUs."""
    if not live_pod_spec(pod).guaranteed_qos:
        return 0
    requested = (container.effective_requests["cpu"] for container in pod_model(pod).containers)
    return sum(int(cpu) * 1000 for cpu in requested if cpu.denominator == 1)
