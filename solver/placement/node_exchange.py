"""Node by node, whether it would start more with other pods: some of those that a greedy gave it make way for some that
wait.

Only for gangs of one pod that may go anywhere. A greedy takes them in turn, and cannot know which of them the last of a
node's room will miss.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pulp

from solver.greedy.fragmentation import scarcest_resource
from solver.mip.engine import solve_model
from solver.mip.rows import at_least, linear, normalized_at_most
from solver.options import Options
from solver.problem import Placement, PodRequest, Problem, Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import hard_tier, waiting_class
from solver.semantics.placements import Placements, add_vectors
from solver.semantics.priorities import precedence
from solver.semantics.queue_limits import cluster_totals
from solver.state.state import State

SHARE_UNITS = 1_000_000
"""A dominant share is counted in this many parts of the cluster."""

SlotIndex = tuple[int, int]
"""(division, cell of it)."""

QueuePrecedence = tuple[int, int]
"""(queue, urgency)."""

PodClass = tuple[PodRequest, frozenset[int]]
"""(what the pod asks for, the kinds of node that it may use): gangs of a group that are as good as one another."""


@dataclass(frozen=True, slots=True)
class ClassChoice:
    """For one node: of each kindred those of a group that are there, the oldest first, and those that wait."""

    pod_class: PodClass
    placed: tuple[int, ...]
    waiting: tuple[int, ...]


def exchange_pods(state: State, placed: Placements, gangs: Iterable[int], options: Options) -> tuple[State, Placements]:
    """What is placed of these gangs, better chosen, and the state with it. state: before any of them was placed."""
    by_node = NodeExchange(state.copy(), placed, gangs, options)
    by_node.refill_nodes()
    stay = {j: pods for j, pods in placed.items() if j not in by_node.movable}
    return by_node.state, stay | {j: (Placement(0, node, 1),) for j, node in by_node.node_of.items()}


class NodeExchange:
    """A room with what is placed in it, and who waits. movable: the gangs that may make way or come. at: where those of
    them are that are placed."""

    def __init__(self, state: State, placed: Placements, gangs: Iterable[int], options: Options) -> None:
        self.state, self.problem, problem = state, state.problem, state.problem
        self.free_nodes, self.queue_books = state.free_nodes, state.queue_books
        self.options = replace(options, max_nodes=min(options.max_nodes, options.budget.exchange_nodes))
        self.cluster_totals = cluster_totals(problem)
        for j, pods in placed.items():
            state.start_gang(j, pods)
        self.movable = frozenset(j for j in gangs if _is_single_pod(problem, j))
        self.node_of = {j: placed[j][0].node for j in sorted(self.movable & placed.keys())}
        self.waiting: dict[QueuePrecedence, dict[PodClass, list[int]]] = {}
        for j in sorted(self.movable - placed.keys(), key=self._age_key):
            self.waiting.setdefault(self._queue_precedence(j), {}).setdefault(self._pod_class(j), []).append(j)
        self.scarcest_resource = scarcest_resource(
            state.free, (problem.gangs[j].roles[0].request for j in sorted(self.movable))
        )
        self.models_solved = 0

    def _age_key(self, j: int) -> tuple[int, int]:
        return self.problem.gangs[j].age, j

    def _queue_precedence(self, j: int) -> QueuePrecedence:
        return self.problem.gangs[j].queue, precedence(self.problem.gangs[j])

    def _pod_class(self, j: int) -> PodClass:
        role = self.problem.gangs[j].roles[0]
        return role.pod_request, role.node_classes

    def refill_nodes(self) -> None:
        """Every node with some of the scarcest resource left, those with most of it first; on a node with cells one
        cell after another."""
        for group in sorted(self.waiting, key=lambda group: (-group[1], group[0])):
            if self.problem.queues[group[0]].strict_order:
                continue
            left = self.free_nodes.vectors.amounts[:, self.scarcest_resource]
            here: dict[int, list[int]] = {}
            for j, node in self.node_of.items():
                if self._queue_precedence(j) == group:
                    here.setdefault(node, []).append(j)
            for node in np.argsort(-left, kind="stable").tolist():
                if not left[node]:
                    break
                mine = here.setdefault(node, [])
                if not self.problem.nodes[node].slots:
                    self._refill_node(node, group, mine, None)
                for spot in np.argwhere(self.free_nodes.vectors.slots[node, :, :, self.scarcest_resource]).tolist():
                    self._refill_node(node, group, mine, (spot[0], spot[1]))

    def _refill_node(self, node: int, group: QueuePrecedence, placed_gangs: list[int], slot: SlotIndex | None) -> None:
        """Give the node, or one of its cells, the pods of the group that start most there. here: the group's pods on
        the node, kept up to date."""
        choices = self._choices(node, group, placed_gangs, slot)
        if self.models_solved == self.options.budget.exchange_models or not any(choice.waiting for choice in choices):
            return
        self.models_solved += 1
        free = self.free_nodes.vectors.amounts[node], self.free_nodes.vectors.slots[node][slot] if slot else None
        counts = best_counts(
            choices,
            [self._pod_share(choice.pod_class[0]) for choice in choices],
            *free,
            self.scarcest_resource,
            self.options,
        )
        if counts is None:
            return
        come = [
            j
            for choice, n in zip(choices, counts, strict=True)
            for j in choice.waiting[: max(0, n - len(choice.placed))]
        ]
        go = [j for choice, n in zip(choices, counts, strict=True) for j in choice.placed[n:]]
        change = self._total_request(come, 1, self._total_request(go, -1, (0,) * len(self.cluster_totals)))
        if not self.queue_books.allows_amount(group[0], change):
            return
        self.queue_books.charge_queue(group[0], change)
        for j in go:
            self._add_pods(node, j, -1)
            del self.node_of[j]
            placed_gangs.remove(j)
            bisect.insort(self.waiting[group].setdefault(self._pod_class(j), []), j, key=self._age_key)
        for j in come:
            self._add_pods(node, j, 1)
            self.node_of[j] = node
            placed_gangs.append(j)
            self.waiting[group][self._pod_class(j)].remove(j)

    def _add_pods(self, node: int, j: int, pods: int) -> None:
        self.free_nodes.add_pods(node, self.problem.gangs[j].roles[0], pods)

    def _total_request(self, gangs: Iterable[int], times: int, start: Vector) -> Vector:
        for j in gangs:
            start = add_vectors(start, self.problem.gangs[j].roles[0].request, times)
        return start

    def _pod_share(self, ask: PodRequest) -> int:
        """The dominant share of a pod."""
        return (
            max((SHARE_UNITS * a // t for a, t in zip(ask.amounts, self.cluster_totals, strict=True) if t), default=0)
            + 1
        )

    def _choices(
        self, node: int, group: QueuePrecedence, placed_gangs: list[int], slot: SlotIndex | None
    ) -> list[ClassChoice]:
        mine: dict[PodClass, list[int]] = {}
        for j in sorted(
            placed_gangs if slot is None else self._gangs_on_slot(node, placed_gangs, slot), key=self._age_key
        ):
            mine.setdefault(self._pod_class(j), []).append(j)
        kind = self.problem.nodes[node].node_class
        others = {of: js for of, js in self.waiting[group].items() if js and kind in of[1] and _fits_slot(of[0], slot)}
        return [
            ClassChoice(of, tuple(mine.get(of, ())), tuple(others.get(of, ())))
            for of in sorted({*mine, *others}, key=_sort_key)
        ]

    def _gangs_on_slot(self, node: int, placed_gangs: list[int], slot: SlotIndex) -> list[int]:
        """Those of the pods on the node that lie on this cell alone; of pods with equal portions any, so those that ask
        for most."""
        found = []
        for portions, (_, counts) in sorted(self.free_nodes.slot_layout.get(node, {}).items()):
            if len(portions) == 1 and portions[0].number == 1 and portions[0].slot_group == slot[0]:
                alike = [j for j in placed_gangs if self.problem.gangs[j].roles[0].slot_requests == portions]
                found += sorted(alike, key=lambda j: (self.problem.gangs[j].roles[0].request, j), reverse=True)[
                    : counts[0][slot[1]]
                ]
        return found


def _fits_slot(ask: PodRequest, slot: SlotIndex | None) -> bool:
    """Whether a pod takes from nothing else than one cell of the division; from no cell where there is none."""
    if slot is None:
        return not ask.slot_requests
    return (
        len(ask.slot_requests) == 1 and ask.slot_requests[0].number == 1 and ask.slot_requests[0].slot_group == slot[0]
    )


def _sort_key(pod_class: PodClass) -> tuple[PodRequest, list[int]]:
    return pod_class[0], sorted(pod_class[1])


def _is_single_pod(problem: Problem, j: int) -> bool:
    """Whether the gang is one pod for now, that nothing binds to a place."""
    gang, shape = problem.gangs[j], waiting_class(j, problem.gangs[j])
    return (
        len(shape.roles) == 1
        and shape.min_pods == 1
        and not (shape.running_pods or shape.has_pod_rules or gang.subgroups or hard_tier(gang) is not None)
    )


def best_counts(
    choices: Sequence[ClassChoice],
    shares: Sequence[int],
    free: IntArray,
    slot_free: IntArray | None,
    resource: int,
    options: Options,
) -> list[int] | None:
    """Pods of each choice that are worth most together, None where those that are here are.

    max sum_c worth_c x_c       0 <= x_c <= those that are here or wait
    sum_c a_c[r] x_c <= free[r] + what is here              on the node
    sum_c share_c[r] x_c <= cell[r] + what is here          on its cell
    sum_c a_c[scarce] x_c >= what is here                   of the scarcest resource no less is used
    """
    model = pulp.LpProblem("exchange", pulp.LpMaximize)
    asks = [choice.pod_class[0] for choice in choices]
    here = np.array([len(choice.placed) for choice in choices], dtype=np.int64)
    x = [
        model.add_variable(f"x_{c}", 0, len(choice.placed) + len(choice.waiting), cat=pulp.LpInteger)
        for c, choice in enumerate(choices)
    ]
    taken = [("free", free, np.array([ask.amounts for ask in asks], dtype=np.int64))]
    if slot_free is not None:
        taken.append(("cell", slot_free, np.array([ask.slot_requests[0].share for ask in asks], dtype=np.int64)))
    for name, left, amounts in taken:
        for r, most in enumerate((left + here @ amounts).tolist()):
            if amounts[:, r].any():
                model.addConstraint(
                    normalized_at_most([(v, int(a)) for v, a in zip(x, amounts[:, r], strict=True) if a], most),
                    f"{name}_{r}",
                )
    scarcest = [(v, ask.amounts[resource]) for v, ask in zip(x, asks, strict=True) if ask.amounts[resource]]
    model.addConstraint(at_least(scarcest, int(here @ taken[0][2][:, resource])), "scarcest")
    model.setObjective(linear(zip(x, shares, strict=True)))
    answer = solve_model(model, options)
    if not answer.values or answer.value <= int(here @ np.array(shares)) + 0.5:
        return None
    return [round(answer.values[v.name]) for v in x]
