"""A change, or several, tried out: would the gang start beside the plan?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from solver.diagnosis.minimal import first
from solver.diagnosis.world import Case, Question, Setting
from solver.placement.fit import exactly, found, shortage
from solver.plan import Repair
from solver.problem import Gang, Node, Placement, Problem, Role, Vector
from solver.semantics.device_slots import Free
from solver.semantics.exclusions import kept_off, shut_to
from solver.semantics.gang_classes import shape_of
from solver.semantics.placements import merged
from solver.semantics.topology import Tree
from solver.state.pod_rules import Neighbours
from solver.state.room import Ledger, add, demand

SMALL = 2_000
"""Pod variables, were every node a place of its own, up to which an exact model is asked; beyond it what the greedy
does not find is no repair."""


@dataclass(frozen=True)
class Trial:
    """What would be: the gang's setting, the queues' limits, gangs that ended, nodes that were added (`count` like one,
    at a leaf).

    later: seconds until then, by which nodes may have closed. changes: what was done for it.
    """

    setting: Setting
    limits: Problem
    gone: tuple[int, ...] = ()
    added: tuple[int, int | None, int] | None = None
    changes: tuple[Repair, ...] = ()
    later: int = 0


Step = Callable[[Trial], Trial]


@dataclass(frozen=True)
class Steps(Sequence[Step]):
    """One step for each number, made when it is asked for: there may be as many as a role has replicas."""

    numbers: range
    make: Callable[[int], Step]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        return self.make(self.numbers[at])


@dataclass
class Bench:
    """Where trials are made for one case. tries: how many more questions about nodes may be asked; models: how many of
    them by an exact model."""

    case: Case
    tries: int
    models: int
    _answers: dict[object, bool] = field(default_factory=dict)
    _known: dict[tuple[int, bool], tuple[Vector, Vector]] = field(default_factory=dict)

    @property
    def start(self) -> Trial:
        """Nothing changed yet."""
        return Trial(self.case.now, self.case.world.problem)

    def works(self, t: Trial) -> bool:
        """Whether the gang is allowed and finds room; false too where no answer is known."""
        return self.allowed(t) and self.fits(t)

    def allowed(self, t: Trial) -> bool:
        """Whether the queues let it start."""
        return self.ledger(t).allows(self.case.gang.queue, self.amount(t))

    def amount(self, t: Trial) -> Vector:
        """What the gang asks for at least."""
        return shape_of(0, t.setting.gang).demand(len(self.case.world.problem.resources))

    def ledger(self, t: Trial) -> Ledger:
        """What the queues hold then, under the limits of then."""
        world = self.case.world
        held = world.after if t.setting.started else world.before
        ledger = held.copy() if t.limits is world.problem else held.under(t.limits)
        width = len(world.problem.resources)
        gone: dict[int, tuple[Vector, Vector]] = {}
        for i in t.gone:
            q, none = world.problem.gangs[i].queue, ((0,) * width, (0,) * width)
            now, before = gone.get(q, none)
            more, running = self._demands(t, i)
            gone[q] = add(now, more), add(before, running)
        for q, (now, before) in gone.items():
            ledger.release(q, now, before)
        if t.setting.own and not t.setting.gang.running:
            pods = demand(self.case.gang, t.setting.own, width)
            ledger.release(self.case.gang.queue, pods, pods)
        return ledger

    def _demands(self, t: Trial, i: int) -> tuple[Vector, Vector]:
        """What a gang holds, and what of it ran before."""
        if (i, t.setting.started) not in self._known:
            gang, width = self.case.world.problem.gangs[i], len(self.case.world.problem.resources)
            self._known[i, t.setting.started] = demand(gang, self.holds(t, i), width), demand(gang, gang.running, width)
        return self._known[i, t.setting.started]

    def holds(self, t: Trial, i: int) -> tuple[Placement, ...]:
        """The pods of a gang that runs, its growth by the plan included, or that the plan starts."""
        world = self.case.world
        placed = world.kept[i] if i in world.kept else world.started[i]
        return placed if t.setting.started else world.problem.gangs[i].running

    def fits(self, t: Trial) -> bool:
        """Whether it finds room."""
        key = (t.setting, t.gone, t.added, t.later)
        if key not in self._answers:
            if not self.tries:
                return False
            self.tries -= 1
            self._answers[key] = self._ask(self.question(t))
        return self._answers[key]

    def _ask(self, q: Question) -> bool:
        if shortage(q.problem, q.tree, q.shape, q.free) is not None:
            return False
        if found(q.problem, q.tree, 0, q.shape, q.free, q.neighbours) is not None:
            return True
        if not self.models or len(q.problem.nodes) * len(q.shape.roles) > SMALL:
            return False
        self.models -= 1
        return exactly(q.problem, q.tree, 0, q.shape, q.free, self.case.world.options, q.neighbours) is True

    def question(self, t: Trial) -> Question:
        """The same asked of the nodes alone. More nodes are never tried together with relations between pods or cells
        of nodes."""
        q = self.case.question(t.setting)
        free, left = q.free.copy(), None if q.neighbours is None else q.neighbours.copy()
        leaving = [(self.case.world.problem.gangs[i], self.holds(t, i)) for i in t.gone]
        self.case.world.return_to(free, leaving)
        if t.setting.own and not t.setting.gang.running:
            leaving.append((self.case.gang, t.setting.own))
        if left is not None:
            left = _without(left, leaving)
        closed = self._closed(t)
        free.amounts[closed] = 0
        problem, tree = kept_off(q.problem, q.tree, 0, closed)
        q = q if problem is q.problem else Question(problem, tree, shape_of(0, problem.gangs[0]), q.free)
        if t.added is None:
            return replace(q, free=free, neighbours=left)
        like, leaf, count = t.added
        node = q.problem.nodes[like]
        more = tuple(
            Node(f"{node.name} again {n}", node.kind, leaf, node.capacity, node.capacity) for n in range(count)
        )
        problem = replace(q.problem, nodes=(*q.problem.nodes, *more))
        amounts = np.vstack([free.amounts, np.array([node.capacity] * count, dtype=np.int64)])
        cells = np.concatenate([free.cells, np.zeros((count, *free.cells.shape[1:]), dtype=np.int64)])
        return Question(problem, Tree(problem), q.shape, Free(amounts, cells))

    def _closed(self, t: Trial) -> list[int]:
        """The nodes that the gang may not use then: reserved for another, closing before it ends, or closed to it
        anyway."""
        world = self.case.world
        reserved = world.reserved if t.setting.started else ()
        later = shut_to(world.problem, self.case.gang, t.later) if t.later else ()
        return sorted({*reserved, *later, *self.case.shut})

    def placed(self, t: Trial) -> tuple[Placement, ...]:
        """Where the greedy puts it then; nowhere where it finds no place."""
        q = self.question(t)
        return found(q.problem, q.tree, 0, q.shape, q.free, q.neighbours) or ()

    def least(self, t: Trial, steps: Sequence[Step], by: Callable[[Trial], bool] | None = None) -> Trial | None:
        """The trial with the first of the steps that works (or is good `by` another test); none must help less than
        those before it."""
        good = by or self.works
        step = first(steps, lambda step: good(step(t)))
        return None if step is None else step(t)


def _without(there: Neighbours, leaving: Iterable[tuple[Gang, tuple[Placement, ...]]]) -> Neighbours:
    """Who is where once these pods of gangs are gone: those that run already stood there, the others the plan has
    placed."""
    running: list[tuple[Role, int, int]] = []
    placed: list[tuple[Role, int, int]] = []
    for gang, pods in leaving:
        ran = {(p.role, p.node): p.pods for p in merged(gang.running)}
        for p in pods:
            stood = min(p.pods, ran.get((p.role, p.node), 0))
            running.append((gang.roles[p.role], p.node, stood))
            placed.append((gang.roles[p.role], p.node, p.pods - stood))
    left = there.without((role, node, number) for role, node, number in running if number)
    for role, node, number in placed:
        if number:
            left.add(role, node, -number, 0)
    return left
