"""Free amounts of the nodes and of their device slots: exact integers, with undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solver.problem import Gang, Placement, PodRequest, Problem, SlotRequest
from solver.semantics.device_slots import (
    FreeVectors,
    IntArray,
    PodsPerSlot,
    assign_slots,
    best_fit_slots,
    counts_after_removal,
    vector_array,
    vectors_without_foreign,
)
from solver.semantics.placements import add_vectors
from solver.state.selected_pods import AnyRole, PodRuleCounts

SlotLayout = tuple[int, tuple[PodsPerSlot, ...]]
"""(pods that use a node's device slots, for each of their slot requests the pods per slot)."""


def free_and_overcommitted(problem: Problem) -> tuple[FreeVectors, IntArray]:
    """(free amounts next to foreign and running pods, never below 0; node x resource: by how much these exceed the
    node, which shrank or got foreign pods)."""
    free = vectors_without_foreign(problem)
    running = [(p.node, p.pods, gang.roles[p.role].request) for gang in problem.gangs for p in gang.running]
    if running:
        nodes, pods, requests = zip(*running, strict=True)
        held = vector_array(requests, free.amounts.shape[1]) * np.array(pods)[:, None]
        np.subtract.at(free.amounts, np.array(nodes), held)
    return FreeVectors(np.maximum(free.amounts, 0), free.slots), np.maximum(-free.amounts, 0)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The state of different nodes before a change. slots: layout and free amounts of the device slots of a single
    node, where they changed."""

    nodes: IntArray
    amounts: IntArray
    overcommitted: IntArray
    slots: tuple[dict[tuple[SlotRequest, ...], SlotLayout], IntArray] | None


class FreeNodes:
    """Free amounts per node with undo. Fit counts per pod request are cached and refreshed for changed nodes only.

    The device slots of pods added here stay open: they are assigned again where another pod fits only so.
    rule_counts: pods per pod rule and domain, changed and undone with the nodes; None without pod rules.
    overcommitted: node x resource, amounts that pods which go pay before anything gets free.
    """

    def __init__(
        self, free: FreeVectors, rule_counts: PodRuleCounts | None = None, overcommitted: IntArray | None = None
    ) -> None:
        self.vectors = free.copy()
        self.rule_counts = None if rule_counts is None else rule_counts.copy()
        self.overcommitted = np.zeros_like(free.amounts) if overcommitted is None else overcommitted.copy()
        self.slot_layout: dict[int, dict[tuple[SlotRequest, ...], SlotLayout]] = {}
        self._log: list[LogEntry] = []
        self._fit_counts: dict[PodRequest, tuple[IntArray, int]] = {}

    def copy(self) -> FreeNodes:
        """Return an independent copy, which cannot undo what happened before."""
        other = FreeNodes(self.vectors, self.rule_counts, self.overcommitted)
        other.slot_layout = {node: dict(layout) for node, layout in self.slot_layout.items()}
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: another process needs no log and no cache."""
        return {**vars(self), "_log": [], "_fit_counts": {}}

    @property
    def net_vectors(self) -> FreeVectors:
        """Free amounts, below 0 where a node is overcommitted."""
        return FreeVectors(self.vectors.amounts - self.overcommitted, self.vectors.slots.copy())

    def fit_counts(self, request: PodRequest) -> IntArray:
        """Return node -> pods of the request that fit next to the others' device slots. Do not write to the result."""
        if request not in self._fit_counts:
            self._fit_counts[request] = self.vectors.fit_counts(request), len(self._log)
        counts, seen = self._fit_counts[request]
        if seen < len(self._log):
            changed = self.changed_nodes(seen)
            counts[changed] = self.vectors.at_nodes(changed).fit_counts(request)
            self._fit_counts[request] = counts, len(self._log)
        return counts

    # ---- pods come and go

    def take_pods(self, node: int, request: PodRequest, pods: int) -> None:
        """Take the room of these pods, or give it back (pods < 0). Raises ValueError where they do not fit."""
        self._log_nodes(_array(node), bool(request.slot_requests))
        self.vectors.amounts[node] -= np.array(request.amounts, dtype=np.int64) * pods
        fits = not request.slot_requests or self._place_on_slots(node, request.slot_requests, pods)
        if not fits or (self.vectors.amounts[node] < 0).any():
            raise ValueError(f"node {node} cannot hold {pods} more pods of {request}")

    def add_pods(self, node: int, role: AnyRole, pods: int) -> None:
        """`take_pods`, counted by pod rules as well; whether these allow it is the caller's matter."""
        stamp = len(self._log)
        self.take_pods(node, role.pod_request, pods)
        if self.rule_counts is not None:
            self.rule_counts.add_pods(role, node, pods, stamp)

    def add_gang_pods(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """Call `add_pods` for all of these pods."""
        if self.rule_counts is not None or any(role.slot_requests for role in gang.roles):
            for p in placements:
                self.add_pods(p.node, gang.roles[p.role], p.pods)
            return
        by_role: dict[int, Counter[int]] = {}
        for p in placements:
            by_role.setdefault(p.role, Counter())[p.node] += p.pods
        for t, here in by_role.items():
            nodes, pods = np.array([*here], dtype=np.int64), np.array([*here.values()], dtype=np.int64)
            self._take_on_nodes(gang.roles[t].pod_request, nodes, pods)

    def fill_nodes(self, nodes: IntArray, fits: IntArray, request: PodRequest, pods: int) -> IntArray:
        """Take the room of these pods from different nodes in turn, on each for as many as fit; return how many each
        took."""
        taken: IntArray = np.clip(pods - (np.cumsum(fits) - fits), 0, fits)
        used = np.flatnonzero(taken)
        if request.slot_requests:
            for at in used:
                self.take_pods(int(nodes[at]), request, int(taken[at]))
        elif len(used):
            self._take_on_nodes(request, nodes[used], taken[used])
        return taken

    def _take_on_nodes(self, request: PodRequest, nodes: IntArray, pods: IntArray) -> None:
        """`take_pods` on different nodes at once, for a request without slot requests."""
        self._log_nodes(nodes)
        self.vectors.amounts[nodes] -= np.outer(pods, request.amounts)
        if (self.vectors.amounts[nodes] < 0).any():
            raise ValueError(f"not all of the nodes {nodes.tolist()} can hold {pods.tolist()} more pods of {request}")

    def release_running_pods(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """Give back the room of running pods, overcommitted amounts first, without their device slots
        (`adjust_slots`)."""
        for p in placements:
            self._count_evicted(gang.roles[p.role], p.node, p.pods)
            self._log_nodes(_array(p.node))
            back = np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
            paid = np.minimum(self.overcommitted[p.node], back)
            self.overcommitted[p.node] -= paid
            self.vectors.amounts[p.node] += back - paid

    def restore_running_pods(self, gang: Gang, placements: Iterable[Placement]) -> None:
        """Take the room of running pods again. Raises ValueError where it is taken."""
        for p in placements:
            self._count_evicted(gang.roles[p.role], p.node, -p.pods)
            self.take_pods(p.node, PodRequest(gang.roles[p.role].request), p.pods)

    def _count_evicted(self, role: AnyRole, node: int, pods: int) -> None:
        if self.rule_counts is not None:
            self.rule_counts.evict_pods(role, node, pods, len(self._log))

    # ---- device slots

    def adjust_slots(self, node: int, change: IntArray) -> None:
        """Add `change` (slot group x slot x resource) to the free device slots of a node; pods added here are assigned
        again where needed. Raises ValueError where they do not fit any more."""
        self._log_nodes(_array(node), with_slots=True)
        self.vectors.slots[node] += change
        wanted = {key: pods for key, (pods, _) in self.slot_layout.get(node, {}).items()}
        if (self.vectors.slots[node] < 0).any() and not self._reassign_slots(node, wanted):
            raise ValueError(f"the device slots of node {node} cannot spare {(-change).tolist()}")

    def _place_on_slots(self, node: int, requests: tuple[SlotRequest, ...], pods: int) -> bool:
        """Put the pods on the node's device slots, or take them off; False, and no change, where they do not fit."""
        layout = dict(self.slot_layout.get(node, {}))
        there, counts = layout.pop(requests, (0, tuple((0,) * self.vectors.slots.shape[2] for _ in requests)))
        slots = self.vectors.slots[node]
        if pods < 0:
            numbers = [(a.number, of) for a, of in zip(requests, counts, strict=True)]
            new = tuple(counts_after_removal(of, number, there + pods) for number, of in numbers)
        else:
            more = [best_fit_slots(slots[a.slot_group], a, pods) for a in requests]
            if any(found is None for found in more):
                wanted = {key: number for key, (number, _) in layout.items()}
                return self._reassign_slots(node, {**wanted, requests: there + pods})
            new = tuple(add_vectors(of, found) for of, found in zip(counts, more, strict=True) if found is not None)
        _add_shares(slots, requests, counts)
        _add_shares(slots, requests, new, -1)
        self.slot_layout[node] = {**layout, requests: (there + pods, new)} if there + pods else layout
        return True

    def _reassign_slots(self, node: int, wanted: dict[tuple[SlotRequest, ...], int]) -> bool:
        """Assign the device slots of all pods added to this node again: slot requests -> pods."""
        empty = self.vectors.slots[node].copy()
        for requests, (_, counts) in self.slot_layout.get(node, {}).items():
            _add_shares(empty, requests, counts)
        found = None if (empty < 0).any() else assign_slots(empty, wanted)
        if found is None:
            return False
        for requests, new in found.items():
            _add_shares(empty, requests, new, -1)
        self.vectors.slots[node] = empty
        self.slot_layout[node] = {requests: (wanted[requests], counts) for requests, counts in found.items()}
        return True

    # ---- undo

    @property
    def breaks_pod_rules(self) -> bool:
        """Return whether pods added here break a pod rule."""
        return self.rule_counts is not None and bool(self.rule_counts.violations())

    def mark(self) -> int:
        """Return a point to which `undo` returns."""
        return len(self._log)

    def _log_nodes(self, nodes: IntArray, with_slots: bool = False) -> None:
        """Note what these nodes have before they change; with_slots: of a single one."""
        slots = None
        if with_slots:
            (node,) = nodes.tolist()
            slots = self.slot_layout.get(node, {}), self.vectors.slots[node].copy()
        self._log.append(LogEntry(nodes, self.vectors.amounts[nodes], self.overcommitted[nodes], slots))

    def changed_nodes(self, mark: int) -> IntArray:
        """Return the nodes that changed since `mark`, ascending."""
        return np.unique(np.concatenate([np.array([], dtype=np.int64), *(entry.nodes for entry in self._log[mark:])]))

    def undo(self, mark: int) -> None:
        """Take back every change since `mark`."""
        for entry in reversed(self._log[mark:]):
            self._log_nodes(entry.nodes, entry.slots is not None)
            self.vectors.amounts[entry.nodes], self.overcommitted[entry.nodes] = entry.amounts, entry.overcommitted
            if entry.slots is not None:
                (node,) = entry.nodes.tolist()
                self.slot_layout[node], self.vectors.slots[node] = entry.slots
        if self.rule_counts is not None:
            self.rule_counts.undo(mark)


def _add_shares(
    slots: IntArray, requests: Sequence[SlotRequest], counts: Sequence[PodsPerSlot], times: int = 1
) -> None:
    """Add the shares of these pods to the slots of one node, or subtract them (times = -1)."""
    for request, pods in zip(requests, counts, strict=True):
        slots[request.slot_group] += times * np.outer(pods, request.share)


def _array(number: int) -> IntArray:
    return np.array((number,), dtype=np.int64)
