"""Neighbourhood: on one node, pods that a greedy placed make way for waiting ones if these are worth more.

Only for gangs of one pod that may go anywhere. A greedy serves them in order, and cannot know which of them leave the
rest of a node unused.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pulp

from solver.greedy.fragmentation import PodClass, scarcest_resource
from solver.mip.engine import solve_model
from solver.mip.rows import Terms, at_least, linear, normalized_at_most
from solver.options import Options
from solver.problem import Placement, PodRequest, Problem, Vector
from solver.search import Incumbent, Limits, Moves, improve
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import hard_tier, waiting_class
from solver.semantics.order import precedence
from solver.semantics.placements import Placements, add_vectors
from solver.state.state import State

SHARE_UNITS = 1_000_000
"""A dominant share is counted in this many parts of the cluster."""

SlotIndex = tuple[int, int]
"""(slot group, device slot)."""

QueuePrecedence = tuple[int, int]
"""(queue, precedence): gangs that may make way for one another."""


@dataclass(frozen=True, slots=True)
class ClassChoice:
    """One pod class on one node: gangs that are there, and gangs that wait, the oldest first."""

    pod_class: PodClass
    placed: tuple[int, ...]
    waiting: tuple[int, ...]


def exchange_pods(state: State, placed: Placements, gangs: Iterable[int], options: Options) -> tuple[State, Placements]:
    """(the state with the exchanged gangs, their placements). state: before any of them was placed; it stays."""
    exchange = NodeExchange(state.copy(), placed, gangs, options)
    limits = Limits(options.clock, tries=options.budget.exchange_models, passes=1)
    improve(exchange, lambda solution: -solution.worth, exchange.moves, limits)
    stay = {j: pods for j, pods in placed.items() if j not in exchange.movable}
    return exchange.state, stay | {j: (Placement(0, node, 1),) for j, node in exchange.node_of.items()}


class NodeExchange:
    """The placed and the waiting gangs; a solution that its own moves change in place, to one worth more.

    movable: gangs that may make way or come. node_of: the placed ones of them. worth: sum of their dominant shares.
    """

    def __init__(self, state: State, placed: Placements, gangs: Iterable[int], options: Options) -> None:
        self.state, self.problem, self.worth = state, state.problem, 0
        self.options = replace(options, max_nodes=min(options.max_nodes, options.budget.exchange_nodes))
        self.cluster_totals = self.problem.totals
        for j, pods in placed.items():
            state.start_gang(j, pods)
        self.movable = frozenset(j for j in gangs if _is_single_pod(self.problem, j))
        self.node_of = {j: placed[j][0].node for j in sorted(self.movable & placed.keys())}
        self.waiting: dict[QueuePrecedence, dict[PodClass, list[int]]] = {}
        for j in sorted(self.movable - placed.keys(), key=self._age_key):
            self.waiting.setdefault(self._queue_precedence(j), {}).setdefault(self._pod_class(j), []).append(j)
        self.scarcest_resource = scarcest_resource(state.free, ((self._pod_class(j), 1) for j in sorted(self.movable)))

    def _age_key(self, j: int) -> tuple[int, int]:
        return self.problem.gangs[j].age, j

    def _queue_precedence(self, j: int) -> QueuePrecedence:
        return self.problem.gangs[j].queue, precedence(self.problem.gangs[j])

    def _pod_class(self, j: int) -> PodClass:
        role = self.problem.gangs[j].roles[0]
        return role.pod_request, role.node_classes

    def moves(self, incumbent: Incumbent[NodeExchange]) -> Moves[NodeExchange]:
        """Return every node with some of the scarcest resource left, most first; its device slots one by one. The
        highest precedence first."""
        free, scarce = self.state.free, self.scarcest_resource
        for group in sorted(self.waiting, key=lambda group: (-group[1], group[0])):
            if self.problem.queues[group[0]].strict_order:
                continue
            placed: dict[int, list[int]] = {}
            for j, node in self.node_of.items():
                if self._queue_precedence(j) == group:
                    placed.setdefault(node, []).append(j)
            for node in np.argsort(-free.amounts[:, scarce], kind="stable").tolist():
                if not free.amounts[node, scarce]:
                    break
                slots: list[SlotIndex | None] = [] if self.problem.nodes[node].slots else [None]
                slots += ((of, slot) for of, slot in np.argwhere(free.slots[node, :, :, scarce]).tolist())
                for spot in slots:
                    here = placed.setdefault(node, [])
                    choices = self._choices(node, group, here, spot)
                    if any(choice.waiting for choice in choices):
                        yield partial(self._refill_node, node, group, here, (choices, spot))

    def _refill_node(
        self,
        node: int,
        group: QueuePrecedence,
        placed_gangs: list[int],
        subject: tuple[list[ClassChoice], SlotIndex | None],
    ) -> NodeExchange | None:
        """Give the node, or one of its device slots, the pods of the group that are worth most there. placed_gangs: of
        the group on the node, changed with it."""
        choices, slot = subject
        free = self.state.free.amounts[node], None if slot is None else self.state.free.slots[node][slot]
        shares = [self._pod_share(choice.pod_class[0]) for choice in choices]
        counts = best_counts(choices, shares, free, self.scarcest_resource, self.options)
        if counts is None:
            return None
        come, go = list[int](), list[int]()
        for choice, number in zip(choices, counts, strict=True):
            come += choice.waiting[: max(0, number - len(choice.placed))]
            go += choice.placed[number:]
        change: Vector = (0,) * len(self.cluster_totals)
        for choice, number in zip(choices, counts, strict=True):
            change = add_vectors(change, choice.pod_class[0].amounts, number - len(choice.placed))
        if not self.state.queue_books.allows_amount(group[0], change):
            return None
        for j in go:
            self.state.stop_gang(j, (Placement(0, self.node_of.pop(j), 1),))
            placed_gangs.remove(j)
            bisect.insort(self.waiting[group].setdefault(self._pod_class(j), []), j, key=self._age_key)
        for j in come:
            self.state.start_gang(j, (Placement(0, node, 1),))
            self.node_of[j] = node
            placed_gangs.append(j)
            self.waiting[group][self._pod_class(j)].remove(j)
        for choice, number, share in zip(choices, counts, shares, strict=True):
            self.worth += share * (number - len(choice.placed))
        return self

    def _pod_share(self, request: PodRequest) -> int:
        """Return the dominant share of a pod."""
        pairs = zip(request.amounts, self.cluster_totals, strict=True)
        return max((SHARE_UNITS * a // t for a, t in pairs if t), default=0) + 1

    def _choices(
        self, node: int, group: QueuePrecedence, placed_gangs: list[int], slot: SlotIndex | None
    ) -> list[ClassChoice]:
        here = placed_gangs if slot is None else self._gangs_on_slot(node, placed_gangs, slot)
        found: dict[PodClass, tuple[list[int], list[int]]] = {}
        for j in sorted(here, key=self._age_key):
            found.setdefault(self._pod_class(j), ([], []))[0].append(j)
        for pod_class, gangs in self.waiting[group].items():
            open_here = self.problem.nodes[node].node_class in pod_class[1] and _fits_slot(pod_class[0], slot)
            if gangs and open_here:
                found.setdefault(pod_class, ([], []))[1].extend(gangs)
        in_order = sorted(found, key=lambda pod_class: (pod_class[0], sorted(pod_class[1])))
        return [ClassChoice(pod_class, *map(tuple, found[pod_class])) for pod_class in in_order]

    def _gangs_on_slot(self, node: int, placed_gangs: list[int], slot: SlotIndex) -> list[int]:
        """Return gangs whose pod on the node uses this device slot alone; of pods with equal slot requests the
        largest."""
        found, gangs = list[int](), self.problem.gangs
        for requests, (_, counts) in sorted(self.state.free_nodes.slot_layout.get(node, {}).items()):
            if len(requests) == 1 and requests[0].number == 1 and requests[0].slot_group == slot[0]:
                alike = [j for j in placed_gangs if gangs[j].roles[0].slot_requests == requests]
                alike.sort(key=lambda j: (gangs[j].roles[0].request, j), reverse=True)
                found += alike[: counts[0][slot[1]]]
        return found


def _fits_slot(request: PodRequest, slot: SlotIndex | None) -> bool:
    """Return whether a pod uses one slot of the slot group and nothing else; for no slot, whether it requests none."""
    if slot is None:
        return not request.slot_requests
    (first, *others) = request.slot_requests or (None,)
    return first is not None and not others and first.number == 1 and first.slot_group == slot[0]


def _is_single_pod(problem: Problem, j: int) -> bool:
    """Return whether the gang is one pod for now, bound to no domain and no other pod."""
    gang, gang_class = problem.gangs[j], waiting_class(j, problem.gangs[j])
    is_one = len(gang_class.roles) == 1 and gang_class.min_pods == 1 and not gang_class.running_pods
    return is_one and not (gang_class.has_pod_rules or gang.subgroups or hard_tier(gang) is not None)


def best_counts(
    choices: Sequence[ClassChoice],
    shares: Sequence[int],
    free: tuple[IntArray, IntArray | None],
    resource: int,
    options: Options,
) -> list[int] | None:
    """Return the pods of each choice that are worth most together; None where the present ones are. free: on the node,
    and on its device slot, if only that is refilled.

    max sum_c share_c x_c       0 <= x_c <= placed_c + waiting_c
    sum_c a_c[r] x_c <= free[r] + what is placed            on the node
    sum_c share_c[r] x_c <= slot[r] + what is placed        on its device slot
    sum_c a_c[scarcest] x_c >= what is placed               no less of the scarcest resource is used
    """
    model, x = pulp.LpProblem("exchange", pulp.LpMaximize), list[pulp.LpVariable]()
    requests = [choice.pod_class[0] for choice in choices]
    placed = np.array([len(choice.placed) for choice in choices], dtype=np.int64)
    for c, choice in enumerate(choices):
        x.append(model.add_variable(f"x_{c}", 0, len(choice.placed) + len(choice.waiting), cat=pulp.LpInteger))
    on_node = np.array([request.amounts for request in requests], dtype=np.int64)
    limits: dict[str, tuple[IntArray, IntArray]] = {"free": (free[0], on_node)}
    if free[1] is not None:
        on_slot = np.array([request.slot_requests[0].share for request in requests], dtype=np.int64)
        limits["cell"] = free[1], on_slot

    def terms(amounts: IntArray) -> Terms:
        return [(v, a) for v, a in zip(x, amounts.tolist(), strict=True) if a]

    for name, (left, amounts) in limits.items():
        for r, most in enumerate((left + placed @ amounts).tolist()):
            if amounts[:, r].any():
                model.addConstraint(normalized_at_most(terms(amounts[:, r]), most), f"{name}_{r}")
    model.addConstraint(at_least(terms(on_node[:, resource]), int(placed @ on_node[:, resource])), "scarcest")
    model.setObjective(linear(zip(x, shares, strict=True)))
    answer = solve_model(model, options)
    if not answer.values or answer.value <= int(placed @ np.array(shares)) + 0.5:
        return None
    return [round(answer.values[v.name]) for v in x]
