"""Cells: the parts of a node (NUMA cells, devices) that pods take portions from.

A portion asks for `share` from each of `number` different cells of one division. Three facts carry this room
(docs/model.md, Cells):

    alone     n pods of a portion fit a node's cells  <=>  sum_c min(s_c, n) >= number n          s_c: shares that cell c holds
    together  counts m[a,c] are a placement  <=>  sum_c m[a,c] = number_a n_a,  m[a,c] <= n_a,  sum_a share_a m[a,c] <= free_c
    dealing   such counts can be dealt out to the pods: cell after cell, each unit to the next pod in turn
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solver.plan import SlotUse
from solver.problem import Placement, PodRequest, Problem, SlotRequest, Vector

NewPods = Mapping[int, Sequence[Placement]]
"""Gang -> its new pods."""

SlotUses = Mapping[int, tuple[SlotUse, ...]]
"""Gang -> from which cells its new pods take their portions."""

IntArray = npt.NDArray[np.int64]

UNLIMITED = 1 << 31
"""Slots for a pod that asks for nothing."""

PodsPerSlot = tuple[int, ...]
"""Cell of a division -> pods that take a share there."""

MAX_SEARCH_STEPS = 20_000
"""Partial assignments that `exact_assignment` looks at before it takes the pods not to fit; one node has a handful."""


@dataclass(frozen=True, slots=True)
class FreeVectors:
    """What may still be given.

    amounts: node x resource, of the node as a whole. cells: node x division x cell x resource, 0 where a node has no
    such cell; the cells of a division are counted in the order of `Node.cells`.
    """

    amounts: IntArray
    slots: IntArray

    def copy(self) -> FreeVectors:
        return FreeVectors(self.amounts.copy(), self.slots.copy())

    def minus(self, other: FreeVectors) -> FreeVectors:
        """What is left without the other, maybe below 0."""
        return FreeVectors(self.amounts - other.amounts, self.slots - other.slots)

    def nonnegative(self) -> FreeVectors:
        """The same, nothing below 0."""
        return FreeVectors(np.maximum(self.amounts, 0), np.maximum(self.slots, 0))

    def at_nodes(self, nodes: Sequence[int] | npt.NDArray[np.intp] | npt.NDArray[np.bool_]) -> FreeVectors:
        """Of these nodes only, in their order."""
        return FreeVectors(self.amounts[nodes], self.slots[nodes])

    def fit_counts(self, ask: PodRequest) -> IntArray:
        """Pods of `ask` that each node holds alone: min over r with request_r > 0 of floor(free_r / request_r), and
        what its cells hold."""
        found = np.full(len(self.amounts), UNLIMITED, dtype=np.int64)
        for r, amount in enumerate(ask.amounts):
            if amount:
                np.minimum(found, self.amounts[:, r] // amount, out=found)
        for portion in ask.slot_requests:
            np.minimum(
                found,
                pods_per_node(shares_per_slot(self.slots[:, portion.slot_group], portion.share), portion.number),
                out=found,
            )
        return found


def capacity_vectors(problem: Problem) -> FreeVectors:
    """What the empty nodes have."""
    return _free_vectors(
        problem, [n.capacity for n in problem.nodes], [[c.capacity for c in n.slots] for n in problem.nodes]
    )


def vectors_without_foreign(problem: Problem) -> FreeVectors:
    """What is left beside foreign pods; on the cells, beside the pods of the gangs as well."""
    return _free_vectors(problem, [n.free for n in problem.nodes], [[c.free for c in n.slots] for n in problem.nodes])


def _free_vectors(problem: Problem, amounts: Sequence[Vector], cells: Sequence[Sequence[Vector]]) -> FreeVectors:
    width = len(problem.resources)
    at = slot_positions(problem)
    most = max((position + 1 for spots in at for _, position in spots), default=0)
    parts = np.zeros((len(problem.nodes), len(problem.slot_groups), most, width), dtype=np.int64)
    for n, spots in enumerate(at):
        for (division, position), amount in zip(spots, cells[n], strict=True):
            parts[n, division, position] = amount
    return FreeVectors(np.array(amounts, dtype=np.int64).reshape(len(problem.nodes), width), parts)


def slot_positions(problem: Problem) -> list[list[tuple[int, int]]]:
    """Node -> for each of its cells (division, how many cells of this division come before it)."""
    if not problem.slot_groups:
        return [[] for _ in problem.nodes]
    found = []
    for node in problem.nodes:
        seen = [0] * len(problem.slot_groups)
        spots = []
        for cell in node.slots:
            spots.append((cell.slot_group, seen[cell.slot_group]))
            seen[cell.slot_group] += 1
        found.append(spots)
    return found


def shares_per_slot(slots: IntArray, share: Vector) -> IntArray:
    """How many times each cell holds the share. cells: ... x resource."""
    found = np.full(slots.shape[:-1], UNLIMITED, dtype=np.int64)
    for r, amount in enumerate(share):
        if amount:
            np.minimum(found, slots[..., r] // amount, out=found)
    return found


def pods_per_node(held: IntArray, number: int) -> IntArray:
    """Per node the largest n with sum_c min(s_c, n) >= number n. held: s, node x cell.

    From above: n <- floor(sum_c min(s_c, n) / number) never falls below the answer, and stops there.
    """
    pods: IntArray = held.sum(axis=1) // number
    while number > 1:
        fewer = np.minimum(pods, np.minimum(held, pods[:, None]).sum(axis=1) // number)
        if (fewer == pods).all():
            break
        pods = fewer
    return pods


def best_fit_slots(slots: IntArray, slot_request: SlotRequest, pods: int) -> PodsPerSlot | None:
    """Counts for these pods, the fullest cells that still hold a share first, so that whole cells stay free; None where
    they do not fit.

    cells: cell x resource, of the portion's division.
    """
    held = [int(s) for s in shares_per_slot(slots, slot_request.share)]
    counts, missing = [0] * len(held), slot_request.number * pods
    for c in sorted((c for c, s in enumerate(held) if s), key=lambda c: (held[c], slots[c].tolist(), c)):
        counts[c] = min(held[c], pods, missing)
        missing -= counts[c]
    return None if missing else tuple(counts)


def counts_after_removal(counts: PodsPerSlot, number: int, pods: int) -> PodsPerSlot:
    """The counts that stay where so many pods stay, each with `number` cells: the cells with most of them keep theirs."""
    kept, missing = [0] * len(counts), number * pods
    for c in sorted(range(len(counts)), key=lambda c: (-counts[c], c)):
        kept[c] = min(counts[c], pods, missing)
        missing -= kept[c]
    return tuple(kept)


def assign_slots(
    slots: IntArray, wanted: Mapping[tuple[SlotRequest, ...], int]
) -> dict[tuple[SlotRequest, ...], tuple[PodsPerSlot, ...]] | None:
    """Counts for all these pods together on one node: largest shares first by best fit, else exactly. None where they
    provably do not fit.

    cells: division x cell x resource. wanted: portions -> pods.
    """
    pods: dict[SlotRequest, int] = {}
    for portions, number in sorted(wanted.items()):
        for portion in portions:
            pods[portion] = pods.get(portion, 0) + number
    found: dict[SlotRequest, PodsPerSlot] = {}
    for division in sorted({portion.slot_group for portion in pods}):
        here = {portion: number for portion, number in pods.items() if portion.slot_group == division}
        counts = _greedy_assignment(slots[division], here) or exact_assignment(slots[division], here)
        if counts is None:
            return None
        found |= counts
    return _split_counts(wanted, found)


def _greedy_assignment(cells: IntArray, pods: Mapping[SlotRequest, int]) -> dict[SlotRequest, PodsPerSlot] | None:
    room, found = cells.copy(), {}
    top = np.maximum(cells.max(axis=0, initial=0), 1)
    for portion in sorted(
        pods, key=lambda p: (max(a / int(t) for a, t in zip(p.share, top, strict=True)), p), reverse=True
    ):
        counts = best_fit_slots(room, portion, pods[portion])
        if counts is None:
            return None
        room -= np.outer(counts, portion.share)
        found[portion] = counts
    return found


def exact_assignment(slots: IntArray, pods: Mapping[SlotRequest, int]) -> dict[SlotRequest, PodsPerSlot] | None:
    """Counts m[a,c] for all these pods on the slots of one group of one node, exactly; None where there are none.

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
        """For slot c and each after it its counts, so that no share is missing; None where there are none."""
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
        """Whether counting alone leaves it open that the slots from c on hold what is missing."""
        if any(sum(column) < m for column, m in zip(zip(*self.limits[c:], strict=True), missing, strict=True)):
            return False
        free = [sum(column) for column in zip(*self.free[c:], strict=True)]
        return all(sum(m * a[r] for m, a in zip(missing, self.shares, strict=True)) <= f for r, f in enumerate(free))

    def _maximal_counts(self, free: Vector, limits: Sequence[int]) -> Iterator[PodsPerSlot]:
        """Every set of shares that fits what is free of a slot and to which none can be added, the largest first."""

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
    """How many times the share fits."""
    return min((f // x for f, x in zip(free, share, strict=True) if x), default=UNLIMITED)


def slot_uses_of(
    problem: Problem,
    layout: Mapping[int, Mapping[tuple[SlotRequest, ...], tuple[int, tuple[PodsPerSlot, ...]]]],
    new: NewPods,
) -> SlotUses:
    """From which cells each gang's new pods take their portions, as `laid` has them in sum (node -> portions -> (pods,
    counts)).

    Pods with the same portions on one node are dealt to their gangs in order.
    """
    if not layout:
        return {}
    index = [{spot: c for c, spot in enumerate(spots)} for spots in slot_positions(problem)]
    waiting: dict[tuple[int, tuple[SlotRequest, ...]], list[tuple[int, int]]] = {}
    for j, placements in sorted(new.items()):
        for p in placements:
            if p.pods > 0 and (portions := problem.gangs[j].roles[p.role].slot_requests):
                waiting.setdefault((p.node, portions), []).extend([(j, p.role)] * p.pods)
    count: dict[int, dict[tuple[int, int, int], int]] = {}
    for (node, portions), pods in sorted(waiting.items()):
        for portion, counts in zip(portions, layout[node][portions][1], strict=True):
            for (j, role), cells in zip(pods, deal_slots(counts, len(pods)), strict=True):
                for c in cells:
                    key = role, node, index[node][portion.slot_group, c]
                    own = count.setdefault(j, {})
                    own[key] = own.get(key, 0) + 1
    return {j: tuple(SlotUse(*key, pods) for key, pods in sorted(own.items())) for j, own in count.items()}


def _split_counts(
    wanted: Mapping[tuple[SlotRequest, ...], int], found: Mapping[SlotRequest, PodsPerSlot]
) -> dict[tuple[SlotRequest, ...], tuple[PodsPerSlot, ...]]:
    """The counts of a portion that several sets of portions share, dealt out to these sets."""
    users = {portion: [key for key in sorted(wanted) if portion in key] for portion in found}
    counts: dict[tuple[tuple[SlotRequest, ...], SlotRequest], PodsPerSlot] = {}
    for portion, keys in users.items():
        pods = iter(deal_slots(found[portion], sum(wanted[key] for key in keys)))
        for key in keys:
            mine = [next(pods) for _ in range(wanted[key])]
            counts[key, portion] = tuple(sum(c in cells for cells in mine) for c in range(len(found[portion])))
    return {key: tuple(counts[key, portion] for portion in key) for key in sorted(wanted)}


def deal_slots(counts: PodsPerSlot, pods: int) -> list[tuple[int, ...]]:
    """For each of the pods its cells, all different: unit u of the cells in a row goes to pod u mod pods.

    No cell gives more than `pods` units, so no pod gets two of one cell; and each gets as many as any other.
    """
    found: list[list[int]] = [[] for _ in range(pods)]
    turn = 0
    for c, number in enumerate(counts):
        for _ in range(number):
            found[turn % pods].append(c)
            turn += 1
    return [tuple(cells) for cells in found]
