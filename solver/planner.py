"""From a problem to a plan: keep what runs, decide batch by batch, grow, and say why the rest waits."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from solver.admission.admit import Admission, admit, everyone
from solver.admission.batches import divided
from solver.admission.greedy_fill import exchanged, filled, greedy_floor, raised, unpacked
from solver.admission.greedy_floor import Floor, better
from solver.admission.greedy_floor import objectives as floor_objectives
from solver.diagnosis import Explanation, World
from solver.diagnosis.delay_repairs import explained
from solver.diagnosis.delays import Waits
from solver.greedy.least_fragmentation import anywhere, sparing
from solver.mip.engine import watching
from solver.mip.executors import HERE, Mapper
from solver.models.lexicographic import judge
from solver.models.sets import Place, Sets, aggregate, refine
from solver.options import Options
from solver.placement.fit import shortage
from solver.placement.growth import grow
from solver.placement.independent_parts import spread
from solver.placement.role_affinity import together
from solver.placement.spread_pods import scatter
from solver.plan import Batch, Decision, Objective, Plan, QueueUse, Reservation, Verdict
from solver.preemption.joint import regrouped, squeezed
from solver.preemption.search import Standing, cheapest_victims, total_loss
from solver.problem import Placement, Problem
from solver.semantics.device_slots import Ints, certificate
from solver.semantics.eviction_rights import anybody
from solver.semantics.exclusions import closed, guarded, kept_nodes, kept_off
from solver.semantics.gang_classes import classes, satisfied, shape_of
from solver.semantics.placement_cost import NAMES, Wholes
from solver.semantics.placements import Placements, fresh, merged
from solver.semantics.priorities import in_turn, turn, urgency
from solver.semantics.queue_limits import totals
from solver.semantics.slot_holdings import Holdings
from solver.semantics.topology import Tree
from solver.state.pod_rules import whoever_minds
from solver.state.room import Ledger, Room, balance, demand
from solver.timeline.lending import lent
from solver.timeline.reservation import shut
from solver.timeline.two_pass import planned
from solver.validation.values import validate

FINEST = 2
"""A model of single nodes for pods that may go anywhere is asked up to this many times a batch's variables; a larger
one would end at its limit."""

REASON_SECONDS = 5.0
"""For one exact model that asks whether a single gang fits; the plan's own time limit is over by then."""

_WORST: tuple[Verdict, ...] = ("proven", "within gap", "limit reached")


def solve(problem: Problem, options: Options | None = None, mapper: Mapper = HERE) -> Plan:
    """Decide every gang of the problem. Same problem and options, same plan (its `seconds` apart), wherever `mapper`
    has its parts worked out.

    Raises InvalidProblemError, naming the index, for a problem that contradicts itself.
    """
    with watching() as watch:
        plan = _solved(problem, options or Options(), mapper)
    return replace(plan, clock_struck=watch.struck)


def _solved(problem: Problem, options: Options, mapper: Mapper) -> Plan:
    """`solve`, without noticing the clock."""
    validate(problem)
    timely = replace(options, deadline=time.monotonic() + options.time_limit)
    tree, before = Tree(problem), Ledger(problem)
    free_before, owed = balance(problem)
    neighbours = whoever_minds(problem)
    running = {j: merged(g.running) for j, g in enumerate(problem.gangs)}
    kept = {j for j, g in enumerate(problem.gangs) if satisfied(g)}
    strict = guarded(problem, lending=False)
    usable = guarded(problem) if kept_nodes(problem) else strict
    strict_tree = tree if strict is problem else Tree(strict)
    usable_tree = strict_tree if usable is strict else Tree(usable)
    room = Room(free_before, neighbours)
    start = Course.start(
        problem, strict, strict_tree, room, owed, before.copy(), {j: running[j] for j in kept}, timely, mapper
    )
    course = lent(planned(start, _decided))
    whole = totals(problem)
    shrunk = course.standing.evicted.keys() & kept
    growing = {j: pods for j, pods in course.placements.items() if j not in shrunk}
    placements = course.placements | grow(
        course.problem, course.tree, course.room, course.ledger, growing, whole, course.later, course.lasting
    )
    if (
        problem.policy.scatter and not course.standing.evicted and course.reservation is None
    ):  # both were proved for the nodes as they are
        placements = scatter(course.problem, course.room, placements)
    if any(gang.affinities for gang in problem.gangs) and not course.standing.evicted and course.reservation is None:
        placements = together(course.problem, course.room, placements, Wholes(problem, tree, free_before.amounts).nodes)
    started = {j: pods for j, pods in placements.items() if j not in kept}
    staying = {j: pods for j, pods in placements.items() if j in kept}
    patience = replace(options, time_limit=min(options.time_limit, REASON_SECONDS))
    new = {j: fresh(problem.gangs[j], pods) for j, pods in placements.items()} if course.room.laid else {}
    uses = certificate(problem, course.room.laid, new)
    held = tuple(sorted({p.node for p in course.reservation.placements})) if course.reservation is not None else ()
    beside = course.room.neighbours
    world = World(
        problem,
        tree,
        free_before,
        before,
        course.room.free,
        course.ledger,
        started,
        staying,
        patience,
        beside,
        uses,
        held,
    )
    final = usable if course.reservation is None else closed(usable, shut(usable, course.reservation))
    final_tree = usable_tree if final is usable else Tree(final)
    waits = Waits(world, usable, usable_tree, final, final_tree, course.reservation, course.barred, course.waiting())
    why = explained(waits, mapper)
    decisions = [
        _decision(problem, j, placements.get(j), running[j], j in kept, course, why.get(j))
        for j in range(len(problem.gangs))
    ]
    for j, cells in uses.items():
        decisions[j] = replace(decisions[j], cells=cells)
    return Plan(
        tuple(decisions), course.plan_batches(), _queues(problem, before, course.ledger, whole), course.reservation
    )


def worst(objectives: Iterable[Objective]) -> Verdict:
    """The least certain of the objectives' verdicts."""
    return max((o.verdict for o in objectives), key=_WORST.index, default="proven")


@dataclass
class Course:
    """What is decided so far. batches: gangs asked, objectives, seconds. winners: gangs that started once room had been
    made -> objectives.

    whole: the problem with nothing closed. borrowed: batches of gangs that start in domains that others keep. With a
    reservation: later, what the queues hold when it falls due; lasting: gangs that would still be there then; barred:
    those of them that may not start for the sake of its queues. `problem` then keeps the lasting ones off its nodes.
    """

    whole: Problem
    problem: Problem
    tree: Tree
    options: Options
    mapper: Mapper
    room: Room
    ledger: Ledger
    placements: dict[int, tuple[Placement, ...]]
    standing: Standing
    batches: list[tuple[tuple[int, ...], tuple[Objective, ...], float]] = field(default_factory=list)
    winners: dict[int, tuple[Objective, ...]] = field(default_factory=dict)
    seconds: float = 0.0
    borrowed: tuple[tuple[tuple[int, ...], tuple[Objective, ...], float], ...] = ()
    reservation: Reservation | None = None
    later: Ledger | None = None
    lasting: frozenset[int] = frozenset()
    barred: frozenset[int] = frozenset()

    @classmethod
    def start(
        cls,
        whole: Problem,
        problem: Problem,
        tree: Tree,
        room: Room,
        owed: Ints,
        ledger: Ledger,
        kept: dict[int, tuple[Placement, ...]],
        options: Options,
        mapper: Mapper,
    ) -> Course:
        running = {j: merged(gang.running) for j, gang in enumerate(problem.gangs) if gang.evictable and gang.running}
        return cls(
            whole,
            problem,
            tree,
            options,
            mapper,
            room,
            ledger,
            kept,
            Standing(problem, tree, room, ledger, running, owed, Holdings(problem)),
        )

    def copy(self) -> Course:
        """The same, to be taken further apart from this one."""
        room, ledger = self.room.copy(), self.ledger.copy()
        return replace(
            self,
            room=room,
            ledger=ledger,
            placements=dict(self.placements),
            standing=self.standing.copy(room, ledger),
            batches=list(self.batches),
            winners=dict(self.winners),
            later=None if self.later is None else self.later.copy(),
        )

    def waiting(self) -> list[int]:
        """Gangs that neither run nor start, those that are evicted apart."""
        return [
            j for j in range(len(self.problem.gangs)) if j not in self.placements and j not in self.standing.evicted
        ]

    def decide_all(self, groups: list[list[int]], whole: Floor | None = None) -> Course:
        """Batch after batch. Where they are several, no level ends below what the greedy alone would start of all their
        gangs (`whole`)."""
        course, clean = self, self.copy() if len(groups) > 1 else None
        every, asked = [j for gangs in groups for j in gangs], list[int]()
        if whole is not None and (easy := whole.uncontested(groups)):
            course.fall_back(whole, urgency(self.problem.gangs[easy[-1][0]]), [j for gangs in easy for j in gangs])
            groups = groups[len(easy) :]
            asked += [j for gangs in easy for j in gangs]
        for urgent, alike in groupby(groups, lambda gangs: urgency(self.problem.gangs[gangs[0]])):
            for gangs in alike:
                course.decide(gangs)
                asked += gangs
            if clean is None or all(j in course.placements for j in asked):
                continue
            whole = whole or clean.whole_floor(every)
            order = whole.compared(course.placements, urgent, self.options)
            if order > 0:
                course = clean.copy()
                course.fall_back(whole, urgent, asked)
            elif order < 0:
                clean = None
        return course

    def asking(self, gangs: Iterable[int]) -> list[int]:
        """Those of the gangs that may start."""
        return in_turn(
            self.problem, self.waiting(), [j for j in gangs if j not in self.standing.evicted and j not in self.barred]
        )

    def whole_floor(self, gangs: Iterable[int]) -> Floor:
        """What the greedy alone starts of all these gangs, and in which order it asks them."""
        asking, line = (
            [j for j in self.asking(sorted(gangs)) if self.ledger.rules.takes[self.problem.gangs[j].queue]],
            list[int](),
        )
        s = _sets(self.problem, self.tree, aggregate(self.problem), self.room.copy(), self.ledger.copy(), asking)
        return Floor(s, greedy_floor(self.problem, self.tree, self.room, self.ledger, asking, line=line), tuple(line))

    def fall_back(self, whole: Floor, urgent: int, gangs: list[int]) -> None:
        """These gangs, the most urgent, are decided by the greedy."""
        clock = time.perf_counter()
        s, floor = whole.upto(urgent)
        placements, objectives = _on_floor(s, floor, None, self.options, self.mapper)
        for j, pods in placements.items():
            self.begin(j, pods)
        self.batches.append((tuple(sorted(gangs)), objectives, time.perf_counter() - clock))

    def decide(self, gangs: list[int]) -> None:
        """One batch. Gangs whose last pods were evicted before it belong to it, and wait."""
        clock = time.perf_counter()
        chosen, objectives = _decide(
            self.problem, self.tree, self.room, self.ledger, self.asking(gangs), self.options, self.mapper
        )
        for j, pods in chosen.items():
            self.begin(j, pods)
        self.batches.append((tuple(gangs), objectives, time.perf_counter() - clock))

    def begin(self, j: int, pods: tuple[Placement, ...], times: int = 1) -> None:
        """Gang j starts with these pods (times -1: it does not after all)."""
        gang = self.problem.gangs[j]
        new = fresh(gang, pods)
        self.room.take_all(gang, (replace(p, pods=times * p.pods) for p in new))
        amount = tuple(times * x for x in demand(gang, new, len(self.problem.resources)))
        self.ledger.charge(gang.queue, amount)
        if self.later is not None and j in self.lasting:
            self.later.charge(gang.queue, amount)
        self.standing.running.pop(j, None)
        self.placements[j] = pods

    def promising(self, j: int) -> bool:
        """Whether, before anything starts, eviction may help gang j: somebody may go for it, and counting does not
        prove that it helps nothing."""
        victims, _ = self.standing.candidates(j)
        return bool(victims) and not self.standing.hopeless(j, victims)

    def alone(self, j: int) -> tuple[tuple[Placement, ...], tuple[Objective, ...]] | None:
        """Gang j in the room that is free now, and how well it is spread. Takes nothing."""
        if shortage(self.problem, self.tree, shape_of(j, self.problem.gangs[j]), self.room.free) is not None:
            return None
        chosen, objectives = _decide(self.problem, self.tree, self.room, self.ledger, [j], self.options, self.mapper)
        return (chosen[j], tuple(o for o in objectives if o.name in NAMES)) if j in chosen else None

    def make_room(self, waiting: Sequence[int], urgent: int) -> None:
        """Evict for the waiting gangs of this urgency, the oldest first. What is left over is for whoever comes later,
        and in the end for all who had their turn when it was not there yet."""
        clock = time.perf_counter()
        hopeless: set[object] = set()
        line, made = sorted(waiting, key=partial(turn, self.problem)), False
        for j in line:
            gang = self.problem.gangs[j]
            if not self._asks(j) or self._take_leftovers(j) or urgency(gang) != urgent:
                continue
            alike = (gang.queue, gang.preempts, shape_of(j, gang))
            if alike not in hopeless and (self.evict_for(j) or self._adopt(squeezed(self, j))):
                hopeless.clear()
                made = True
            else:
                hopeless.add(alike)
        refused: set[object] = set()
        for j in line if made else ():
            kind = (self.problem.gangs[j].queue, shape_of(j, self.problem.gangs[j]))
            if kind not in refused and self._asks(j) and not self._take_leftovers(j):
                refused.add(kind)
        self._adopt(regrouped(self))
        self.seconds += time.perf_counter() - clock

    def _asks(self, j: int) -> bool:
        """Whether gang j waits and may start."""
        return j not in self.placements and bool(self.asking([j]))

    def _take_leftovers(self, j: int) -> bool:
        """Start gang j in what evictions have left over, if it finds room there."""
        found = self.alone(j) if self.standing.evicted else None
        if found is not None:
            self.begin(j, found[0])
            self.winners[j] = found[1]
        return found is not None

    def _adopt(self, other: Course | None) -> bool:
        """Become the other course, if there is one."""
        for name in ("room", "ledger", "placements", "standing", "winners", "later") if other is not None else ():
            setattr(self, name, getattr(other, name))
        return other is not None

    def evict_for(self, j: int) -> bool:
        """Make room for gang j and start it; False, and nothing changed, where that cannot be."""
        taken = cheapest_victims(self.standing, j, self.options)
        if taken is None:
            return False
        for v, pods in taken.pods.items():
            self.evict(v, pods, (j,))
        self.standing.anchor(taken.pods, j, taken.exposures)
        placed, spreading = self.alone(j) or (taken.placed[j], ())
        self.begin(j, placed)
        self.winners[j] = (*taken.objectives, *spreading)
        return True

    def evict(self, v: int, pods: tuple[Placement, ...], winners: Sequence[int]) -> None:
        """Gang v loses these pods for the sake of these gangs."""
        self.standing.take(v, pods, winners)
        if v in self.placements:
            self.placements[v] = self.standing.running[v]
            if not self.placements[v]:
                del self.placements[v]

    def fitted(self, j: int, room: Room, ledger: Ledger, shut: Collection[int] = ()) -> tuple[Placement, ...] | None:
        """The pods of gang j alone in this room, where it fits there and in its queues. shut: nodes without anything
        free, on which it may not be."""
        problem, tree = kept_off(self.problem, self.tree, j, shut)
        if shortage(problem, tree, shape_of(j, problem.gangs[j]), room.free) is not None:
            return None
        return _decide(problem, tree, room, ledger, [j], self.options, self.mapper)[0].get(j)

    def spared(self) -> Course:
        """Nobody goes whom nobody needs: try to do without each victim, the dearest first. The choice for one gang
        alone was proved already."""
        one = len({j for js in self.standing.winners.values() for j in js}) <= 1
        if one and all(
            o.verdict == "proven" for objectives in self.winners.values() for o in objectives if o.name == "loss"
        ):
            return self
        best = self
        for v in sorted(
            self.standing.evicted, key=lambda v: (-total_loss(self.problem, {v: self.standing.evicted[v]}), v)
        ):
            for pods in self._units(v):
                trial = best.copy()
                if trial._without(v, pods):
                    best = trial
        return best

    def _units(self, v: int) -> list[tuple[Placement, ...]]:
        """What a victim may get back: everything when it goes whole, or loses parts of subgroups; else one pod after
        another."""
        evicted = self.standing.evicted[v]
        if v not in self.placements or self.problem.gangs[v].subgroups:
            return [evicted]
        return [(replace(p, pods=1),) for p in evicted for _ in range(p.pods)]

    def _without(self, v: int, pods: tuple[Placement, ...]) -> bool:
        """Leave these pods where they are and place again the gangs that they were to go for; False where one of them
        then finds no room."""
        winners = self.standing.winners[v]
        for j in winners:
            self.begin(j, self.placements[j], -1)
        try:
            self.standing.give_back(v, pods)
        except ValueError:
            return False
        if satisfied(self.problem.gangs[v]):
            self.placements[v] = self.standing.running[v]
        for j in winners:
            found = self.alone(j)
            if found is None:
                return False
            self.begin(j, found[0])
        return not self.room.broken

    def plan_batches(self) -> tuple[Batch, ...]:
        """The batches, and more for those who borrow, and for the gangs that room was made for: each belongs to the one
        that started it."""
        found, late = [], self.winners.keys() | {j for gangs, _, _ in self.borrowed for j in gangs}
        for gangs, objectives, seconds in self.batches:
            if left := tuple(j for j in gangs if j not in late):
                found.append(Batch(left, worst(objectives), objectives, seconds))
        found += [Batch(gangs, worst(objectives), objectives, seconds) for gangs, objectives, seconds in self.borrowed]
        if self.winners:
            objectives = self._evicting()
            found.append(Batch(tuple(sorted(self.winners)), worst(objectives), objectives, self.seconds))
        return tuple(found)

    def _evicting(self) -> tuple[Objective, ...]:
        """Sums over the winners; each was decided given those before it."""
        gone = self.standing.evicted
        values = {
            "loss": total_loss(self.problem, gone),
            "whole gangs": self.standing.gone_whole(gone),
            "victims": len(gone),
        }
        found = []
        for name in (*values, *NAMES):
            every = [o for objectives in self.winners.values() for o in objectives if o.name == name]
            if not every and name not in values:
                continue
            value = values.get(name, sum(o.value for o in every))
            found.append(judge(name, value, sum(o.bound for o in every), self.options.gap, maximise=False))
        return tuple(found)


def _decided(course: Course, waiting: list[int]) -> Course:
    """Batch after batch; where gangs may be evicted, each urgency gets its room before the next one is asked."""
    problem, options = course.problem, course.options
    groups, whole = divided(problem, waiting, options, partial(course.whole_floor, waiting))
    plain = course
    if not anybody(problem):
        return course.decide_all(groups, whole)
    if any(len({urgency(problem.gangs[j]) for j in group}) > 1 for group in groups):
        plain = course.copy().decide_all(groups, whole)
        if not any(course.promising(j) for j in waiting if j not in plain.placements):
            return plain
        groups, _ = divided(problem, waiting, replace(options, joint_variables=0), partial(course.whole_floor, waiting))
    clean = course.copy() if plain is course and len(groups) > 1 else None
    for number, group in enumerate(groups):
        urgent = urgency(problem.gangs[group[0]])
        course.decide(group)
        if number + 1 == len(groups) or urgency(problem.gangs[groups[number + 1][0]]) != urgent:
            course.make_room([j for j in waiting if urgency(problem.gangs[j]) >= urgent], urgent)
    if course.standing.evicted or plain is not course:
        return course.spared() if course.standing.evicted else plain
    if clean is not None and clean.whole_floor(waiting).better(course.placements, options):
        return clean.decide_all(groups, whole)
    return course


def _decide(
    problem: Problem, tree: Tree, room: Room, ledger: Ledger, gangs: list[int], options: Options, mapper: Mapper
) -> tuple[Placements, tuple[Objective, ...]]:
    """Stages A, B and C of one batch, again with finer places as long as a place proves too coarse to be packed; the
    floor, if that is better."""
    gangs = [j for j in gangs if ledger.rules.takes[problem.gangs[j].queue]]  # the others wait, and are in no model
    floor = greedy_floor(problem, tree, room, ledger, gangs)
    loose = len(floor) < len(gangs) and anywhere(problem, gangs)
    if loose:
        floor = raised(
            floor,
            (
                greedy_floor(problem, tree, room, ledger, gangs, greedy)
                for greedy in sparing(problem, tree, room, gangs)
            ),
            problem,
        )
    s = _sets(problem, tree, aggregate(problem), room, ledger, gangs)
    most = FINEST * options.batch_variables
    bound = unpacked(s, floor, options) if loose and s.finest > most else None
    if bound is not None:
        return _on_floor(s, exchanged(s, room, floor, gangs, options), bound, options, mapper)
    while True:
        admission = everyone(s, gangs) if len(floor) == len(gangs) else admit(s, floor, options)
        found = spread(s, admission, floor, options, mapper)
        if not found.coarse:
            placements = filled(s, found.placements, gangs)
            if better(s, floor, placements, options):
                return _on_floor(s, floor, None, options, mapper)
            return placements, _restated(s, admission.objectives, set(placements), options) + found.objectives
        finer = replace(s, places=refine(s.places, found.coarse))
        if loose and finer.size > most:
            return _on_floor(s, exchanged(s, room, floor, gangs, options), admission.objectives[0], options, mapper)
        s = finer


def _on_floor(
    s: Sets, floor: Placements, bound: Objective | None, options: Options, mapper: Mapper
) -> tuple[Placements, tuple[Objective, ...]]:
    """The floor's gangs, and what is known of them. bound: the first goal of a relaxation."""
    tidied = spread(s, Admission(tuple(sorted(floor)), {}, ()), floor, options, mapper)
    return tidied.placements, floor_objectives(s, floor, options, bound) + tidied.objectives


def _sets(
    problem: Problem, tree: Tree, places: tuple[Place, ...], room: Room, ledger: Ledger, gangs: list[int]
) -> Sets:
    waiting = classes(problem, gangs)
    shapes = tuple(dict.fromkeys(shape for _, _, shape in waiting))
    index = {shape: k for k, shape in enumerate(shapes)}
    by_class = {(q, p, index[shape]): js for (q, p, shape), js in waiting.items()}
    return Sets(problem, tree, places, room.free, ledger, shapes, by_class, room.neighbours)


def _restated(s: Sets, objectives: tuple[Objective, ...], started: set[int], options: Options) -> tuple[Objective, ...]:
    """The sums again for the gangs that start in the end, with the bounds that were proved."""
    sums: dict[str, int] = {}
    for (q, p, k), js in s.waiting.items():
        number, label = len(started.intersection(js)), s.label(s.level(q, p))
        sums[f"placed[{label}]"] = sums.get(f"placed[{label}]", 0) + s.worth[k] * number
        sums[f"gangs[{label}]"] = sums.get(f"gangs[{label}]", 0) + number
    return tuple(judge(o.name, sums[o.name], o.bound, options.gap) if o.name in sums else o for o in objectives)


def _decision(
    problem: Problem,
    j: int,
    pods: tuple[Placement, ...] | None,
    running: tuple[Placement, ...],
    kept: bool,
    course: Course,
    why: Explanation | None,
) -> Decision:
    evicted, winners = course.standing.evicted.get(j, ()), course.standing.winners.get(j, ())
    if evicted and pods is None:
        return Decision(j, "evict", (), (), evicted=evicted, evicted_for=winners)
    placed = running if pods is None else pods
    leaves = tuple(sorted({leaf for p in placed if (leaf := problem.nodes[p.node].leaf) is not None}))
    if pods is not None:
        return Decision(j, "keep" if kept else "start", placed, leaves, evicted=evicted, evicted_for=winners)
    held = course.reservation
    facts, repairs = why or ((), ())
    return Decision(
        j,
        "wait",
        placed,
        leaves,
        facts,
        repairs,
        starts_in=held.starts_in if held is not None and held.gang == j else None,
    )


def _queues(problem: Problem, before: Ledger, after: Ledger, whole: tuple[int, ...]) -> tuple[QueueUse, ...]:
    found = []
    for q in range(len(problem.queues)):
        admitted = tuple(b - a for a, b in zip(before.held[q], after.held[q], strict=True))
        found.append(QueueUse(q, before.held[q], admitted, after.share(q, whole)))
    return tuple(found)
