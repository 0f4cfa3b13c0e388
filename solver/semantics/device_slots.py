"""Device slots: parts of a node (NUMA nodes, devices) from which pods take shares.

A slot request asks for `share` from each of `number` different slots of one group. Three facts carry this module
(docs/develop/model.md, Device slots):

    counting  n pods of one request fit a node's slots  <=>  sum_c min(s_c, n) >= number n   s_c: shares that c holds
    several   counts m[a,c] are an assignment  <=>
              sum_c m[a,c] = number_a n_a,  m[a,c] <= n_a,  sum_a share_a m[a,c] <= free_c
    dealing   such counts can be dealt out to the pods: slot after slot, each unit to the next pod in turn

The known device slots of running pods, and their shares that evictions return (model.md, Evictions).

Of the pods of one role on one node, u_c hold a share of slot c. The plan does not choose which pods go; while n stay,

    held_c(n) = min(u_c, n)

shares of c stay held at most. What pods hold unknown to the problem is off `DeviceSlot.free` and never returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from solver.plan import SlotUse
from solver.problem import Gang, Placement, PodRequest, Problem, SlotRequest, Vector

IntArray = npt.NDArray[np.int64]

NewPods = Mapping[int, Sequence[Placement]]
"""Gang -> its new pods."""

SlotUses = Mapping[int, tuple[SlotUse, ...]]
"""Gang -> the device slots of its new pods."""

PodsPerSlot = tuple[int, ...]
"""Slot of a group -> pods that take a share there."""

UNLIMITED = 1 << 31
"""Pods that fit where they request nothing."""

MAX_SEARCH_STEPS = 20_000
"""Partial assignments that `exact_assignment` examines before it gives up, which proves nothing; one node has a
handful. An impossible request is proved by counting or by a model's own rows (`solver.models.device_slots`)."""


@dataclass(frozen=True, slots=True)
class FreeVectors:
    """Free amounts. amounts: node x resource. slots: node x slot group x slot x resource, 0 where a node has no such
    slot; the slots of a group in the order of `Node.slots`."""

    amounts: IntArray
    slots: IntArray

    def copy(self) -> FreeVectors:
        return FreeVectors(self.amounts.copy(), self.slots.copy())

    def minus(self, other: FreeVectors) -> FreeVectors:
        """Return the difference, maybe below 0."""
        return FreeVectors(self.amounts - other.amounts, self.slots - other.slots)

    def nonnegative(self) -> FreeVectors:
        """Return the same, nothing below 0."""
        return FreeVectors(np.maximum(self.amounts, 0), np.maximum(self.slots, 0))

    def at_nodes(self, nodes: Sequence[int] | npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> FreeVectors:
        """Return the slots of these nodes, in their order."""
        return FreeVectors(self.amounts[nodes], self.slots[nodes])

    def fit_counts(self, request: PodRequest) -> IntArray:
        """Return node -> pods of the request that fit alone: min over r with request_r > 0 of floor(free_r /
        request_r), and what its slots hold."""
        found = times_fitting(self.amounts, request.amounts)
        for a in request.slot_requests:
            held = times_fitting(self.slots[:, a.slot_group], a.share)
            np.minimum(found, pods_per_node(held, a.number), out=found)
        return found


def capacity_vectors(problem: Problem) -> FreeVectors:
    """Return the capacity of the nodes."""
    slots = [[slot.capacity for slot in n.slots] for n in problem.nodes]
    return _free_vectors(problem, [n.capacity for n in problem.nodes], slots)


def vectors_without_foreign(problem: Problem) -> FreeVectors:
    """Return the amounts free next to foreign pods; for slots, next to the gangs' running pods as well."""
    return _free_vectors(problem, [n.free for n in problem.nodes], [[c.free for c in n.slots] for n in problem.nodes])


def _free_vectors(problem: Problem, amounts: Sequence[Vector], slots: Sequence[Sequence[Vector]]) -> FreeVectors:
    nodes, width, positions = len(problem.nodes), len(problem.resources), slot_positions(problem)
    most = max((position + 1 for own in positions for _, position in own), default=0)
    found = np.zeros((nodes, len(problem.slot_groups), most, width), dtype=np.int64)
    for n, own in enumerate(positions if most else ()):
        for (group, position), amount in zip(own, slots[n], strict=True):
            found[n, group, position] = amount
    return FreeVectors(vector_array(amounts, width), found)


def vector_array(vectors: Sequence[Vector], width: int) -> IntArray:
    """Return the vectors as the rows of an array."""
    return np.fromiter(chain.from_iterable(vectors), np.int64, len(vectors) * width).reshape(len(vectors), width)


def slot_positions(problem: Problem) -> list[list[tuple[int, int]]]:
    """Return node -> for each of its slots (slot group, slots of this group before it)."""
    if not problem.slot_groups:
        return [[] for _ in problem.nodes]
    found = []
    for node in problem.nodes:
        seen, own = [0] * len(problem.slot_groups), []
        for slot in node.slots:
            own.append((slot.slot_group, seen[slot.slot_group]))
            seen[slot.slot_group] += 1
        found.append(own)
    return found


# ---- pods of one request


def times_fitting(free: IntArray, amounts: Vector) -> IntArray:
    """Return how many times the amounts fit. free: ... x resource."""
    found = np.full(free.shape[:-1], UNLIMITED, dtype=np.int64)
    for r, amount in enumerate(amounts):
        if amount:
            np.minimum(found, np.ascontiguousarray(free[..., r]) // amount, out=found)  # twice as fast as strided
    return found


def pods_per_node(held: IntArray, number: int) -> IntArray:
    """Return node -> the largest n with sum_c min(s_c, n) >= number n. held: s, node x slot.

    From above: n <- floor(sum_c min(s_c, n) / number) never falls below the answer, and stops there.
    """
    pods: IntArray = held.sum(axis=1) // number
    while number > 1:
        fewer = np.minimum(pods, np.minimum(held, pods[:, None]).sum(axis=1) // number)
        if (fewer == pods).all():
            break
        pods = fewer
    return pods


def best_fit_slots(slots: IntArray, request: SlotRequest, pods: int) -> PodsPerSlot | None:
    """Counts for these pods, fullest slots first, so that whole ones stay free; None where they do not fit.

    slots: slot x resource, of the request's group.
    """
    held = times_fitting(slots, request.share).tolist()
    counts, missing = [0] * len(held), request.number * pods
    for c in sorted((c for c, s in enumerate(held) if s), key=lambda c: (held[c], slots[c].tolist(), c)):
        counts[c] = min(held[c], pods, missing)
        missing -= counts[c]
    return None if missing else tuple(counts)


def counts_after_removal(counts: PodsPerSlot, number: int, pods: int) -> PodsPerSlot:
    """The counts once only so many pods stay, each with `number` slots: the slots with most of them keep theirs."""
    kept, missing = [0] * len(counts), number * pods
    for c in sorted(range(len(counts)), key=lambda c: (-counts[c], c)):
        kept[c] = min(counts[c], pods, missing)
        missing -= kept[c]
    return tuple(kept)


# ---- pods of several requests


def assign_slots(
    slots: IntArray, wanted: Mapping[tuple[SlotRequest, ...], int]
) -> dict[tuple[SlotRequest, ...], tuple[PodsPerSlot, ...]] | None:
    """Counts for all these pods on one node: largest shares first by best fit, else exactly. None where they do not
    fit.

    slots: slot group x slot x resource. wanted: slot requests -> pods.
    """
    pods: dict[SlotRequest, int] = {}
    for requests, number in sorted(wanted.items()):
        for a in requests:
            pods[a] = pods.get(a, 0) + number
    found: dict[SlotRequest, PodsPerSlot] = {}
    for group in sorted({a.slot_group for a in pods}):
        here = {a: number for a, number in pods.items() if a.slot_group == group}
        counts = _greedy_assignment(slots[group], here) or exact_assignment(slots[group], here)
        if counts is None:
            return None
        found |= counts
    return _split_counts(wanted, found)


def _greedy_assignment(slots: IntArray, pods: Mapping[SlotRequest, int]) -> dict[SlotRequest, PodsPerSlot] | None:
    free, found = slots.copy(), {}
    largest = np.maximum(slots.max(axis=0, initial=0), 1)

    def size(a: SlotRequest) -> float:
        return max(x / int(most) for x, most in zip(a.share, largest, strict=True))

    for a in sorted(pods, key=lambda a: (size(a), a), reverse=True):
        counts = best_fit_slots(free, a, pods[a])
        if counts is None:
            return None
        free -= np.outer(counts, a.share)
        found[a] = counts
    return found


def exact_assignment(slots: IntArray, pods: Mapping[SlotRequest, int]) -> dict[SlotRequest, PodsPerSlot] | None:
    """Return counts m[a,c] for all these pods on the slots of one group of one node, exactly; None where there are
    none, or where the search gives up.

    Slot after slot, with every maximal set of shares that fits it, tightest slot first. A slot never holds less for
    holding more of one request, so sets that are not maximal need no try.
    """
    requests = sorted(pods, key=lambda a: (a.share, a.number), reverse=True)
    order = sorted(range(len(slots)), key=lambda c: (slots[c].tolist(), c))
    search = _SlotSearch([a.share for a in requests], [pods[a] for a in requests], [slots[c].tolist() for c in order])
    found = search.counts_from(0, tuple(a.number * pods[a] for a in requests))
    if found is None:
        return None
    counts = dict(zip(order, found, strict=True))
    return {a: tuple(counts[c][k] for c in range(len(slots))) for k, a in enumerate(requests)}


class _SlotSearch:
    """Depth-first search over the slots in order. shares, most: per request, its share and how many pods it has."""

    def __init__(self, shares: Sequence[Vector], most: Sequence[int], free: Sequence[Vector]) -> None:
        self.shares, self.free, self.steps = shares, free, 0
        self.limits = [[min(n, _times(free, share)) for n, share in zip(most, shares, strict=True)] for free in free]
        self.dead_ends: set[tuple[int, PodsPerSlot]] = set()

    def counts_from(self, c: int, missing: PodsPerSlot) -> list[PodsPerSlot] | None:
        """Return the counts of slot c and of each later slot such that no share is missing; None where there are
        none."""
        if c == len(self.free):
            return None if any(missing) else []
        self.steps += 1
        if (c, missing) in self.dead_ends or self.steps > MAX_SEARCH_STEPS or not self._may_suffice(c, missing):
            return None
        for counts in self._maximal_counts(self.free[c], [*map(min, self.limits[c], missing)]):
            rest = self.counts_from(c + 1, tuple(m - n for m, n in zip(missing, counts, strict=True)))
            if rest is not None:
                return [counts, *rest]
        self.dead_ends.add((c, missing))
        return None

    def _may_suffice(self, c: int, missing: PodsPerSlot) -> bool:
        """Return whether the slots from c on may hold the missing shares, by counting alone."""
        if any(sum(column) < m for column, m in zip(zip(*self.limits[c:], strict=True), missing, strict=True)):
            return False
        free = [sum(column) for column in zip(*self.free[c:], strict=True)]
        return all(sum(m * a[r] for m, a in zip(missing, self.shares, strict=True)) <= f for r, f in enumerate(free))

    def _maximal_counts(self, free: Vector, limits: Sequence[int]) -> Iterator[PodsPerSlot]:
        """Yield every set of shares that fits a slot's free amounts and to which none can be added, the largest
        first."""

        def extend(counts: PodsPerSlot, free: Vector) -> Iterator[PodsPerSlot]:
            k = len(counts)
            if k == len(limits):
                if all(
                    n == limit or not _times(free, a) for n, limit, a in zip(counts, limits, self.shares, strict=True)
                ):
                    yield counts
                return
            most = min(limits[k], _times(free, self.shares[k]))
            for n in range(most, -1, -1) if k + 1 < len(limits) else [most]:
                yield from extend((*counts, n), tuple(f - n * x for f, x in zip(free, self.shares[k], strict=True)))

        yield from extend((), free)


def _times(free: Sequence[int], share: Vector) -> int:
    """Return how many times the share fits."""
    return min((f // x for f, x in zip(free, share, strict=True) if x), default=UNLIMITED)


# ---- which pod uses which slot


def slot_uses_of(
    problem: Problem,
    layout: Mapping[int, Mapping[tuple[SlotRequest, ...], tuple[int, tuple[PodsPerSlot, ...]]]],
    new: NewPods,
) -> SlotUses:
    """Return the device slots of each gang's new pods. layout: node -> slot requests -> (pods, counts) in sum; pods
    with the same requests on one node are dealt to their gangs in order."""
    if not layout:
        return {}
    index = [{at: c for c, at in enumerate(own)} for own in slot_positions(problem)]
    takers: dict[tuple[int, tuple[SlotRequest, ...]], list[tuple[int, int]]] = {}
    for j, placements in sorted(new.items()):
        for p in placements:
            if p.pods > 0 and (requests := problem.gangs[j].roles[p.role].slot_requests):
                takers.setdefault((p.node, requests), []).extend([(j, p.role)] * p.pods)
    found: dict[int, dict[tuple[int, int, int], int]] = {}
    for (node, requests), pods in sorted(takers.items()):
        for a, counts in zip(requests, layout[node][requests][1], strict=True):
            for (j, role), slots in zip(pods, deal_slots(counts, len(pods)), strict=True):
                own = found.setdefault(j, {})
                for c in slots:
                    key = role, node, index[node][a.slot_group, c]
                    own[key] = own.get(key, 0) + 1
    return {j: tuple(SlotUse(*key, pods) for key, pods in sorted(own.items())) for j, own in found.items()}


def _split_counts(
    wanted: Mapping[tuple[SlotRequest, ...], int], found: Mapping[SlotRequest, PodsPerSlot]
) -> dict[tuple[SlotRequest, ...], tuple[PodsPerSlot, ...]]:
    """The counts of each request, dealt out to the sets of requests that share it."""
    counts: dict[tuple[tuple[SlotRequest, ...], SlotRequest], PodsPerSlot] = {}
    for a, of_request in found.items():
        keys = [key for key in sorted(wanted) if a in key]
        pods = iter(deal_slots(of_request, sum(wanted[key] for key in keys)))
        for key in keys:
            own = [next(pods) for _ in range(wanted[key])]
            counts[key, a] = tuple(sum(c in slots for slots in own) for c in range(len(of_request)))
    return {key: tuple(counts[key, a] for a in key) for key in sorted(wanted)}


def deal_slots(counts: PodsPerSlot, pods: int) -> list[tuple[int, ...]]:
    """Return for each of the pods its slots, all different: unit u of the slots in a row is assigned to pod u mod pods.

    No slot gives more than `pods` units, so no pod gets two of one slot; and each gets as many as any other.
    """
    units = [c for c, number in enumerate(counts) for _ in range(number)]
    return [tuple(units[pod::pods]) for pod in range(pods)]


PodRows = tuple[IntArray, IntArray]
"""(nodes, the requests of pods on each of them: node x resource). A node may occur several times."""


def pod_rows(gang: Gang, pods: Sequence[Placement]) -> PodRows:
    """Return the requests of these pods of the gang."""
    rows = [[p.pods * amount for amount in gang.roles[p.role].request] for p in pods]
    width = len(gang.roles[0].request) if gang.roles else 0
    return np.array([p.node for p in pods], dtype=np.int64), np.array(rows, dtype=np.int64).reshape(-1, width)


def add_rows(total: IntArray, rows: Iterable[PodRows], times: int = 1) -> None:
    """Add the rows to those of `total` (node x resource), column by column: many times faster than all at once."""
    found = list(rows)
    if found:
        nodes, amounts = (np.concatenate(parts) for parts in zip(*found, strict=True))
        for r in range(total.shape[1]):
            np.add.at(total[:, r], nodes, times * amounts[:, r])


@dataclass(frozen=True, slots=True)
class HeldShare:
    """Of the pods of one role on one node, `pods` hold `share` of one device slot: the one at `position` among the
    node's slots of this slot group."""

    role: int
    node: int
    slot_group: int
    position: int
    share: Vector
    pods: int


@dataclass(frozen=True)
class SlotHoldings:
    """The device slots that the running pods of each gang hold."""

    problem: Problem

    @cached_property
    def _by_gang(self) -> tuple[tuple[HeldShare, ...], ...]:
        if not any(gang.slot_holds for gang in self.problem.gangs):
            return ((),) * len(self.problem.gangs)
        positions, found = slot_positions(self.problem), []
        for gang in self.problem.gangs:
            own = []
            for hold in gang.slot_holds:
                group, position = positions[hold.node][hold.slot]
                requests = gang.roles[hold.role].slot_requests
                (share,) = (request.share for request in requests if request.slot_group == group)
                own.append(HeldShare(hold.role, hold.node, group, position, share, hold.pods))
            found.append(tuple(own))
        return tuple(found)

    def shares_held(self, v: int, running: Iterable[Placement]) -> tuple[HeldShare, ...]:
        """held_c(n) of gang v while these pods run, without slots of which nothing is held."""
        left = {(p.role, p.node): p.pods for p in running}
        every = (replace(h, pods=min(h.pods, left.get((h.role, h.node), 0))) for h in self._by_gang[v])
        return tuple(h for h in every if h.pods)

    def returned_amounts(
        self, v: int, before: Iterable[Placement], after: Iterable[Placement]
    ) -> Mapping[int, IntArray]:
        """Return node -> slot group x slot x resource: the amounts that gang v holds with the pods `before`, less those
        with the pods `after`."""
        found: dict[int, IntArray] = {}
        for pods, times in ((before, 1), (after, -1)):
            for h in self.shares_held(v, pods):
                if h.node not in found:
                    found[h.node] = np.zeros(self._array_shape, dtype=np.int64)
                found[h.node][h.slot_group, h.position] += np.array(h.share, dtype=np.int64) * (times * h.pods)
        return {node: amounts for node, amounts in sorted(found.items()) if amounts.any()}

    @cached_property
    def _array_shape(self) -> tuple[int, int, int]:
        most = max((position + 1 for own in slot_positions(self.problem) for _, position in own), default=0)
        return len(self.problem.slot_groups), most, len(self.problem.resources)


def add_held_shares(slots: IntArray, holdings: Iterable[HeldShare]) -> None:
    """Add held shares to free amounts (node x slot group x slot x resource)."""
    for h in holdings:
        slots[h.node, h.slot_group, h.position] += np.array(h.share, dtype=np.int64) * h.pods
