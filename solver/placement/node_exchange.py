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

from solver.greedy.fragmentation import scarcest
from solver.mip.engine import solve_model
from solver.mip.rows import at_least, linear, scaled
from solver.options import Options
from solver.problem import Ask, Placement, Problem, Vector
from solver.semantics.device_slots import Ints
from solver.semantics.gang_classes import hard_tier, shape_of
from solver.semantics.placements import Placements, fresh
from solver.semantics.priorities import urgency
from solver.semantics.queue_limits import totals
from solver.state.room import Ledger, Room, add, demand

UNITS = 1_000_000
"""A dominant share is counted in this many parts of the cluster."""

NODES = 100
"""Branch-and-bound nodes for one node of the cluster, whose few pods the root mostly settles."""

SOLVES = 1_000
"""Models at most; one takes a hundredth of a second."""

Spot = tuple[int, int]
"""(division, cell of it)."""

Group = tuple[int, int]
"""(queue, urgency)."""

Kindred = tuple[Ask, frozenset[int]]
"""(what the pod asks for, the kinds of node that it may use): gangs of a group that are as good as one another."""


@dataclass(frozen=True, slots=True)
class Choice:
    """For one node: of each kindred those of a group that are there, the oldest first, and those that wait."""

    kindred: Kindred
    here: tuple[int, ...]
    waiting: tuple[int, ...]


def exchange(
    problem: Problem, room: Room, ledger: Ledger, placed: Placements, gangs: Iterable[int], options: Options
) -> tuple[Room, Ledger, Placements]:
    """What is placed of these gangs, better chosen, with the room and the ledger after it. room, ledger: before any of
    them came."""
    by_node = Exchange(problem, room.copy(), ledger.copy(), placed, gangs, options)
    by_node.run()
    stay = {j: pods for j, pods in placed.items() if j not in by_node.movable}
    return by_node.room, by_node.ledger, stay | {j: (Placement(0, node, 1),) for j, node in by_node.at.items()}


class Exchange:
    """A room with what is placed in it, and who waits. movable: the gangs that may make way or come. at: where those of
    them are that are placed."""

    def __init__(
        self, problem: Problem, room: Room, ledger: Ledger, placed: Placements, gangs: Iterable[int], options: Options
    ) -> None:
        self.problem, self.room, self.ledger = problem, room, ledger
        self.options = replace(options, max_nodes=min(options.max_nodes, NODES))
        self.whole = totals(problem)
        for j, pods in placed.items():
            new = fresh(problem.gangs[j], pods)
            self.room.take_all(problem.gangs[j], new)
            self.ledger.charge(problem.gangs[j].queue, demand(problem.gangs[j], new, len(self.whole)))
        self.movable = frozenset(j for j in gangs if _single(problem, j))
        self.at = {j: placed[j][0].node for j in sorted(self.movable & placed.keys())}
        self.waiting: dict[Group, dict[Kindred, list[int]]] = {}
        for j in sorted(self.movable - placed.keys(), key=self._turn):
            self.waiting.setdefault(self._group(j), {}).setdefault(self._kindred(j), []).append(j)
        self.scarce = scarcest(room.free, (problem.gangs[j].roles[0].request for j in sorted(self.movable)))
        self.solves = 0

    def _turn(self, j: int) -> tuple[int, int]:
        return self.problem.gangs[j].age, j

    def _group(self, j: int) -> Group:
        return self.problem.gangs[j].queue, urgency(self.problem.gangs[j])

    def _kindred(self, j: int) -> Kindred:
        role = self.problem.gangs[j].roles[0]
        return role.ask, role.kinds

    def run(self) -> None:
        """Every node with some of the scarcest resource left, those with most of it first; on a node with cells one
        cell after another."""
        for group in sorted(self.waiting, key=lambda group: (-group[1], group[0])):
            if self.problem.queues[group[0]].strict:
                continue
            left = self.room.free.amounts[:, self.scarce]
            here: dict[int, list[int]] = {}
            for j, node in self.at.items():
                if self._group(j) == group:
                    here.setdefault(node, []).append(j)
            for node in np.argsort(-left, kind="stable").tolist():
                if not left[node]:
                    break
                mine = here.setdefault(node, [])
                if not self.problem.nodes[node].cells:
                    self._refill(node, group, mine, None)
                for spot in np.argwhere(self.room.free.cells[node, :, :, self.scarce]).tolist():
                    self._refill(node, group, mine, (spot[0], spot[1]))

    def _refill(self, node: int, group: Group, here: list[int], cell: Spot | None) -> None:
        """Give the node, or one of its cells, the pods of the group that start most there. here: the group's pods on
        the node, kept up to date."""
        choices = self._choices(node, group, here, cell)
        if self.solves == SOLVES or not any(choice.waiting for choice in choices):
            return
        self.solves += 1
        free = self.room.free.amounts[node], self.room.free.cells[node][cell] if cell else None
        counts = best(choices, [self._worth(choice.kindred[0]) for choice in choices], *free, self.scarce, self.options)
        if counts is None:
            return
        come = [
            j for choice, n in zip(choices, counts, strict=True) for j in choice.waiting[: max(0, n - len(choice.here))]
        ]
        go = [j for choice, n in zip(choices, counts, strict=True) for j in choice.here[n:]]
        change = self._sum(come, 1, self._sum(go, -1, (0,) * len(self.whole)))
        if not self.ledger.allows(group[0], change):
            return
        self.ledger.charge(group[0], change)
        for j in go:
            self._move(node, j, -1)
            del self.at[j]
            here.remove(j)
            bisect.insort(self.waiting[group].setdefault(self._kindred(j), []), j, key=self._turn)
        for j in come:
            self._move(node, j, 1)
            self.at[j] = node
            here.append(j)
            self.waiting[group][self._kindred(j)].remove(j)

    def _move(self, node: int, j: int, pods: int) -> None:
        self.room.put(node, self.problem.gangs[j].roles[0], pods)

    def _sum(self, gangs: Iterable[int], times: int, start: Vector) -> Vector:
        for j in gangs:
            start = add(start, self.problem.gangs[j].roles[0].request, times)
        return start

    def _worth(self, ask: Ask) -> int:
        """The dominant share of a pod."""
        return max((UNITS * a // t for a, t in zip(ask.request, self.whole, strict=True) if t), default=0) + 1

    def _choices(self, node: int, group: Group, here: list[int], cell: Spot | None) -> list[Choice]:
        mine: dict[Kindred, list[int]] = {}
        for j in sorted(here if cell is None else self._on(node, here, cell), key=self._turn):
            mine.setdefault(self._kindred(j), []).append(j)
        kind = self.problem.nodes[node].kind
        others = {of: js for of, js in self.waiting[group].items() if js and kind in of[1] and _fits(of[0], cell)}
        return [
            Choice(of, tuple(mine.get(of, ())), tuple(others.get(of, ()))) for of in sorted({*mine, *others}, key=_key)
        ]

    def _on(self, node: int, here: list[int], cell: Spot) -> list[int]:
        """Those of the pods on the node that lie on this cell alone; of pods with equal portions any, so those that ask
        for most."""
        found = []
        for portions, (_, counts) in sorted(self.room.laid.get(node, {}).items()):
            if len(portions) == 1 and portions[0].number == 1 and portions[0].division == cell[0]:
                alike = [j for j in here if self.problem.gangs[j].roles[0].portions == portions]
                found += sorted(alike, key=lambda j: (self.problem.gangs[j].roles[0].request, j), reverse=True)[
                    : counts[0][cell[1]]
                ]
        return found


def _fits(ask: Ask, cell: Spot | None) -> bool:
    """Whether a pod takes from nothing else than one cell of the division; from no cell where there is none."""
    if cell is None:
        return not ask.portions
    return len(ask.portions) == 1 and ask.portions[0].number == 1 and ask.portions[0].division == cell[0]


def _key(of: Kindred) -> tuple[Ask, list[int]]:
    return of[0], sorted(of[1])


def _single(problem: Problem, j: int) -> bool:
    """Whether the gang is one pod for now, that nothing binds to a place."""
    gang, shape = problem.gangs[j], shape_of(j, problem.gangs[j])
    return (
        len(shape.roles) == 1
        and shape.least == 1
        and not (shape.fixed or shape.related or gang.subgroups or hard_tier(gang) is not None)
    )


def best(
    choices: Sequence[Choice], worth: Sequence[int], free: Ints, cell: Ints | None, scarce: int, options: Options
) -> list[int] | None:
    """Pods of each choice that are worth most together, None where those that are here are.

    max sum_c worth_c x_c       0 <= x_c <= those that are here or wait
    sum_c a_c[r] x_c <= free[r] + what is here              on the node
    sum_c share_c[r] x_c <= cell[r] + what is here          on its cell
    sum_c a_c[scarce] x_c >= what is here                   of the scarcest resource no less is used
    """
    model = pulp.LpProblem("exchange", pulp.LpMaximize)
    asks = [choice.kindred[0] for choice in choices]
    here = np.array([len(choice.here) for choice in choices], dtype=np.int64)
    x = [
        model.add_variable(f"x_{c}", 0, len(choice.here) + len(choice.waiting), cat=pulp.LpInteger)
        for c, choice in enumerate(choices)
    ]
    taken = [("free", free, np.array([ask.request for ask in asks], dtype=np.int64))]
    if cell is not None:
        taken.append(("cell", cell, np.array([ask.portions[0].share for ask in asks], dtype=np.int64)))
    for name, left, amounts in taken:
        for r, most in enumerate((left + here @ amounts).tolist()):
            if amounts[:, r].any():
                model.addConstraint(
                    scaled([(v, int(a)) for v, a in zip(x, amounts[:, r], strict=True) if a], most), f"{name}_{r}"
                )
    scarcest = [(v, ask.request[scarce]) for v, ask in zip(x, asks, strict=True) if ask.request[scarce]]
    model.addConstraint(at_least(scarcest, int(here @ taken[0][2][:, scarce])), "scarcest")
    model.setObjective(linear(zip(x, worth, strict=True)))
    answer = solve_model(model, options)
    if not answer.values or answer.value <= int(here @ np.array(worth)) + 0.5:
        return None
    return [round(answer.values[v.name]) for v in x]
