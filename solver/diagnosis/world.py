"""What a gang is asked about: the world as it is, or as it would be with something out of the way; and whether the gang
fits there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from solver.options import Options
from solver.placement.fit import exactly, found, shortage
from solver.problem import Gang, Node, Placement, Problem, Vector
from solver.semantics.device_slots import Free, Ints, Uses, left, positions, whole
from solver.semantics.gang_classes import Shape, shape_of
from solver.semantics.placements import fresh
from solver.semantics.topology import Tree
from solver.state.pod_rules import Neighbours, Standing
from solver.state.room import Ledger, owed_vectors


@dataclass(frozen=True, slots=True)
class Setting:
    """A gang, as written or with something about it relaxed, and who is in its way: gangs that the plan starts, all
    that runs, and what pods say of one another.

    own: the pods of it that run in truth; where `gang.running` is empty they have given their room back. back: nodes
    that are away for now and would be there again.
    """

    gang: Gang
    own: tuple[Placement, ...] = ()
    started: bool = True
    running: bool = True
    back: tuple[int, ...] = ()
    related: bool = True


@dataclass
class World:
    """before: free vectors and holdings with only what runs. after, neighbours: with the plan. started, kept: what the
    plan starts and what it keeps, gang -> placements; uses: on which cells. reserved: nodes that it holds for a gang
    that waits. guarded: a kind of node may also be one that is closed to a gang (`closing.closed`), whatever its
    selectors say. shut: where it is not said by kinds, gang -> nodes that are closed to it, on which no repair may
    count.

    Nothing in it changes but what it remembers, so that it may be sent to another process.
    """

    problem: Problem
    tree: Tree
    free_before: Free
    before: Ledger
    free_after: Free
    after: Ledger
    started: dict[int, tuple[Placement, ...]]
    kept: dict[int, tuple[Placement, ...]]
    options: Options
    neighbours: Neighbours | None = None
    uses: Uses = field(default_factory=dict)
    reserved: tuple[int, ...] = ()
    guarded: bool = False
    shut: Mapping[int, frozenset[int]] = field(default_factory=dict)
    blockers: dict[tuple[int, Setting], tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    """Priority and setting -> (pods that fit, gangs of the plan in the way): the dearest question, and the same for all
    queues."""

    @cached_property
    def closing(self) -> bool:
        """Whether a node closes for a while, now or later."""
        return any(node.closes_in is not None for node in self.problem.nodes)

    @cached_property
    def away(self) -> tuple[int, ...]:
        """Nodes that are away for now."""
        return tuple(n for n, node in enumerate(self.problem.nodes) if node.back is not None)

    def nodes(self, back: tuple[int, ...]) -> tuple[tuple[Node, ...], Tree]:
        """The nodes and their tree, with some that are back."""
        if not back:
            return self.problem.nodes, self.tree
        if back not in self._nodes:
            nodes = list(self.problem.nodes)
            for n in back:
                if (then := nodes[n].back) is not None:
                    nodes[n] = replace(
                        nodes[n], kind=then.kind, capacity=then.capacity, free=then.free, cells=then.cells, back=None
                    )
            self._nodes[back] = tuple(nodes), Tree(replace(self.problem, nodes=tuple(nodes)))
        return self._nodes[back]

    @cached_property
    def _nodes(self) -> dict[tuple[int, ...], tuple[tuple[Node, ...], Tree]]:
        return {}

    @cached_property
    def idle(self) -> Ledger:
        """The queues with nothing held, and the empty cluster with all its nodes."""
        return self.holding(self.away, running=False)

    def holding(self, back: tuple[int, ...], running: bool = True) -> Ledger:
        """What runs, as `before`, or the queues with nothing held, in a cluster with some nodes back."""
        if running and not back:
            return self.before
        if (back, running) not in self._holdings:
            there = replace(self.problem, nodes=self.nodes(back)[0])
            self._holdings[back, running] = Ledger(there if running else _idle(there))
        return self._holdings[back, running]

    @cached_property
    def _holdings(self) -> dict[tuple[tuple[int, ...], bool], Ledger]:
        return {}

    @cached_property
    def capacity(self) -> Free:
        """What is allocatable."""
        return whole(self.problem)

    @cached_property
    def given(self) -> Free:
        """What the plan gives the gangs that it starts, beyond what they run."""
        total = Free(np.zeros_like(self.capacity.amounts), np.zeros_like(self.capacity.cells))
        for i in self.started:
            self.give_back(total, i)
        return total

    def give_back(self, free: Free, i: int) -> None:
        """Add what the plan gives gang i beyond what it runs."""
        nodes, amounts = self._taken_by(i)
        np.add.at(free.amounts, nodes, amounts)
        for use in self.uses.get(i, ()):
            division, position = self._positions[use.node][use.cell]
            (portion,) = (p for p in self.problem.gangs[i].roles[use.role].portions if p.division == division)
            free.cells[use.node, division, position] += np.array(portion.share, dtype=np.int64) * use.pods

    def return_to(self, free: Free, leaving: Iterable[tuple[Gang, Iterable[Placement]]]) -> None:
        """Add what these pods hold; where what runs exceeds a node, what goes pays that first."""
        more = np.zeros_like(free.amounts)
        for gang, pods in leaving:
            for p in pods:
                more[p.node] += np.array(gang.roles[p.role].request, dtype=np.int64) * p.pods
        free.amounts[:] = np.where(more > 0, np.maximum(free.amounts + more - self._owed, 0), free.amounts)

    @cached_property
    def _owed(self) -> Ints:
        return owed_vectors(self.problem)

    @cached_property
    def _positions(self) -> list[list[tuple[int, int]]]:
        return positions(self.problem)

    def _taken_by(self, i: int) -> tuple[Ints, Ints]:
        """(nodes, amounts) that the plan gives gang i beyond what it runs."""
        if i not in self._taken:
            roles = self.problem.gangs[i].roles
            rows = [(p.node, [p.pods * a for a in roles[p.role].request]) for p in self.started[i]]
            rows += [(p.node, [-p.pods * a for a in roles[p.role].request]) for p in self.problem.gangs[i].running]
            self._taken[i] = np.array([n for n, _ in rows], dtype=np.int64), self._vectors([a for _, a in rows])
        return self._taken[i]

    @cached_property
    def _taken(self) -> dict[int, tuple[Ints, Ints]]:
        return {}

    def _apart(self, gang: Gang) -> Neighbours:
        """The empty cluster but for the gang's own pods that run: only what keeps these and its new ones apart, or
        among themselves, is sure never to change; company may come, and make things even."""
        key = gang.running, tuple((role.bears, role.matches) for role in gang.roles) if gang.running else ()
        if key not in self._own:
            sure = frozenset(
                rho for rho, relation in enumerate(self.problem.relations) if relation.kind == "apart" or relation.own
            )
            self._own[key] = Neighbours(self.problem, Standing(self.problem, only=gang), sure)
        return self._own[key]

    @cached_property
    def _own(self) -> dict[object, Neighbours]:
        return {}

    @cached_property
    def _standing(self) -> Neighbours | None:
        return None if self.neighbours is None else Neighbours(self.problem, self.neighbours.standing)

    def beside(self, s: Setting) -> Neighbours | None:
        """Who is where, for the relations that the setting minds; None for none."""
        if not s.related or self.neighbours is None:
            return None
        if not s.running:
            return self._apart(s.gang)
        return self.neighbours if s.started else self._standing

    def without(self, gangs: Iterable[int]) -> Neighbours | None:
        """As it is with the plan, some of the gangs that it starts left out."""
        if self.neighbours is None:
            return None
        left = self.neighbours.copy()
        for i in gangs:
            for p in fresh(self.problem.gangs[i], self.started[i]):
                left.add(self.problem.gangs[i].roles[p.role], p.node, -p.pods, 0)
        return left

    def free(self, s: Setting) -> Free:
        """What is left for the gang. Of its own running pods the cells are not known: they stay as they are."""
        beside = self.free_after if s.started else self.free_before
        free = beside if s.running else self.capacity.less(self.given) if s.started else self.capacity
        if s.own and s.running != bool(s.gang.running):
            free = free.copy()
            for p in s.own:
                free.amounts[p.node] += np.array(s.gang.roles[p.role].request, dtype=np.int64) * (
                    p.pods if s.running else -p.pods
                )
        if s.back:
            free = free.less(self._missing(s.back, s.running))
        return free.clipped()

    def _missing(self, back: tuple[int, ...], running: bool) -> Free:
        """What nodes have less while they are away: of what may be given, or of all that they hold."""
        if (back, running) not in self._gaps:
            then = replace(self.problem, nodes=self.nodes(back)[0])
            self._gaps[back, running] = (
                left(self.problem).less(left(then)) if running else whole(self.problem).less(whole(then))
            )
        return self._gaps[back, running]

    @cached_property
    def _gaps(self) -> dict[tuple[tuple[int, ...], bool], Free]:
        return {}

    def _vectors(self, rows: Iterable[Iterable[int]]) -> Ints:
        return np.array(list(rows), dtype=np.int64).reshape(-1, len(self.problem.resources))


@dataclass(frozen=True)
class Question:
    """One gang alone in one setting."""

    problem: Problem
    tree: Tree
    shape: Shape
    free: Free
    neighbours: Neighbours | None = None


@dataclass
class Case:
    """One gang that waits, and what was found out about it.

    models: how many exact models may still be asked; beyond them an answer that neither counting nor the greedy gives
    stays open. shut: nodes that no repair may count on.
    """

    world: World
    gang: Gang
    models: int
    shut: frozenset[int] = frozenset()
    _answers: dict[Setting, bool | None] = field(default_factory=dict)

    @cached_property
    def now(self) -> Setting:
        """The gang as written, the world as it is."""
        return Setting(plain(self.gang), self.gang.running)

    @cached_property
    def empty(self) -> Setting:
        """The gang as written, with nothing of it running, on the empty cluster with all its nodes."""
        return Setting(replace(plain(self.gang), running=()), (), started=False, running=False, back=self.world.away)

    @cached_property
    def staying(self) -> Setting:
        """The gang as written beside its pods that run, on a cluster that is empty but for them, with all its nodes."""
        return replace(self.now, started=False, running=False, back=self.world.away)

    @cached_property
    def amount(self) -> Vector:
        """What it asks for at least, beside its pods that run."""
        return self.question(self.now).shape.demand(len(self.world.problem.resources))

    @cached_property
    def whole(self) -> Vector:
        """What it asks for at least, with nothing of it running."""
        return self.question(self.empty).shape.demand(len(self.world.problem.resources))

    def question(self, s: Setting) -> Question:
        world = self.world
        nodes, tree = world.nodes(s.back)
        return Question(
            replace(world.problem, nodes=nodes, gangs=(s.gang,)),
            tree,
            shape_of(0, s.gang),
            world.free(s),
            world.beside(s),
        )

    def fits(self, s: Setting) -> bool | None:
        """Whether the gang finds room, queues aside: by counting a no, by the greedy a yes, else by an exact model.
        None: not known."""
        if s not in self._answers:
            self._answers[s] = self._ask(self.question(s))
        return self._answers[s]

    def _ask(self, q: Question) -> bool | None:
        if shortage(q.problem, q.tree, q.shape, q.free) is not None:
            return False
        if found(q.problem, q.tree, 0, q.shape, q.free, q.neighbours) is not None:
            return True
        if not self.models:
            return None
        self.models -= 1
        return exactly(q.problem, q.tree, 0, q.shape, q.free, self.world.options, q.neighbours)


def _idle(problem: Problem) -> Problem:
    """Nothing runs, of no gang and of nobody else."""
    nothing = (0,) * len(problem.resources)
    nodes = tuple(replace(node, free=node.capacity) for node in problem.nodes)
    return replace(problem, nodes=nodes, queues=tuple(replace(q, used=nothing) for q in problem.queues), gangs=())


def plain(gang: Gang) -> Gang:
    """The gang without what does not matter to its reasons, so that gangs of one kind are equal."""
    return replace(gang, name="", queue=0, priority=0, age=0, duration=None, ends=None, overdue=False, affinities=())
