"""From a problem to a plan: keep what runs, decide batch by batch, grow, and say why the rest waits."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from solver.greedy import Greedy
from solver.model.sets import Place, Sets, aggregate, refine
from solver.options import Options
from solver.plan import Batch, Decision, Objective, Plan, QueueUse, Verdict
from solver.problem import Placement, Problem
from solver.quotas import rank
from solver.reasons import Reasons
from solver.room import Ledger, Room, demand, free_vectors
from solver.shapes import Shape, classes, satisfied, shape_of
from solver.stages.admit import Admission, Placements, admit
from solver.stages.grow import grow
from solver.stages.lexicographic import judge
from solver.stages.pack import merged
from solver.stages.spread import spread
from solver.tree import Tree
from solver.validate import validate

REASON_SECONDS = 5.0
"""For one exact model that asks whether a single gang fits; the plan's own time limit is over by then."""

_WORST: tuple[Verdict, ...] = ("proven", "within gap", "limit reached")


def solve(problem: Problem, options: Options | None = None) -> Plan:
    """Decide every gang of the problem. Same problem and options, same plan (its `seconds` apart).

    Raises InvalidProblemError, naming the index, for a problem that contradicts itself.
    """
    options = options or Options()
    validate(problem)
    timed = replace(options, deadline=time.monotonic() + options.time_limit)
    tree, ledger = Tree(problem), Ledger(problem)
    room = Room(free_vectors(problem))
    before, free_before = ledger.copy(), room.free.copy()
    running = {j: merged(g.running) for j, g in enumerate(problem.gangs)}
    placements: dict[int, tuple[Placement, ...]] = {j: running[j] for j, g in enumerate(problem.gangs) if satisfied(g)}
    kept = set(placements)
    batches: list[Batch] = []
    for gangs in _batches(problem, [j for j in range(len(problem.gangs)) if j not in kept], options):
        clock = time.perf_counter()
        chosen, objectives = _decide(problem, tree, room, ledger, gangs, timed)
        for j, pods in chosen.items():
            fresh = _fresh(problem, j, pods)
            room.take_all(problem.gangs[j], fresh)
            ledger.charge(problem.gangs[j].queue, demand(problem.gangs[j], fresh, len(problem.resources)))
        placements |= chosen
        batches.append(Batch(tuple(gangs), worst(objectives), objectives, time.perf_counter() - clock))
    totals = tuple(sum(n.capacity[r] for n in problem.nodes) for r in range(len(problem.resources)))
    placements = grow(problem, tree, room, ledger, placements, totals)
    started = {j: pods for j, pods in placements.items() if j not in kept}
    reasons = Reasons(
        problem, tree, free_before, before, room.free, ledger, started, replace(options, time_limit=min(options.time_limit, REASON_SECONDS))
    )
    decisions = tuple(_decision(problem, j, placements.get(j), running[j], j in kept, reasons) for j in range(len(problem.gangs)))
    return Plan(decisions, tuple(batches), _queues(problem, before, ledger, totals))


def worst(objectives: Iterable[Objective]) -> Verdict:
    """The least certain of the objectives' verdicts."""
    return max((o.verdict for o in objectives), key=_WORST.index, default="proven")


def _batches(problem: Problem, waiting: list[int], options: Options) -> list[list[int]]:
    """All gangs in one model where it is small; else one for each priority, and as many of it as one model holds, the oldest first."""
    places = len({(n.leaf, n.kind) for n in problem.nodes})
    shapes = {j: shape_of(j, problem.gangs[j]) for j in waiting}
    size = {shape: places * max(1, len(shape.roles)) for shape in shapes.values()}
    if sum(size.values()) <= options.joint_variables:
        return [sorted(waiting)] if waiting else []
    batches: list[list[int]] = []
    known: set[Shape] = set()
    for j in sorted(waiting, key=lambda j: (-problem.gangs[j].priority, -rank(problem, problem.gangs[j].queue), problem.gangs[j].age, j)):
        another = not batches or problem.gangs[batches[-1][0]].priority != problem.gangs[j].priority
        if another or sum(size[shape] for shape in known | {shapes[j]}) > options.batch_variables:
            batches.append([])
            known = set()
        batches[-1].append(j)
        known.add(shapes[j])
    return [sorted(batch) for batch in batches]


def _decide(problem: Problem, tree: Tree, room: Room, ledger: Ledger, gangs: list[int], options: Options) -> tuple[Placements, tuple[Objective, ...]]:
    """Stages A, B and C of one batch, again with finer places as long as a place proves too coarse to be packed."""
    gangs = [j for j in gangs if ledger.rules.takes[problem.gangs[j].queue]]  # the others wait, and are in no model
    waiting = classes(problem, gangs)
    shapes = tuple(dict.fromkeys(shape for _, _, shape in waiting))
    index = {shape: k for k, shape in enumerate(shapes)}
    by_class = {(q, p, index[shape]): js for (q, p, shape), js in waiting.items()}
    floor = _floor(problem, tree, room, ledger, gangs)
    places: tuple[Place, ...] = aggregate(problem)
    while True:
        s = Sets(problem, tree, places, room.free, ledger, shapes, by_class)
        admission = _everyone(s, gangs) if len(floor) == len(gangs) else admit(s, floor, options)
        found = spread(s, admission, floor, options)
        if not found.coarse:
            placements = _filled(s, found.placements, gangs)
            spreading = (found.objective,) if found.objective is not None else ()
            return placements, _restated(s, admission.objectives, set(placements), options) + spreading
        places = refine(places, found.coarse)


def _filled(s: Sets, placements: Placements, gangs: list[int]) -> Placements:
    """The gangs that a struck limit left out although they still fit. Where the goals are proved there are none."""
    room, ledger = Room(s.free), s.ledger.copy()
    for j, pods in placements.items():
        fresh = _fresh(s.problem, j, pods)
        room.take_all(s.problem.gangs[j], fresh)
        ledger.charge(s.problem.gangs[j].queue, demand(s.problem.gangs[j], fresh, s.width))
    more = _floor(s.problem, s.tree, room, ledger, [j for j in gangs if j not in placements])
    return {**placements, **more}


def _restated(s: Sets, objectives: tuple[Objective, ...], started: set[int], options: Options) -> tuple[Objective, ...]:
    """The sums again for the gangs that start in the end, with the bounds that were proved."""
    sums: dict[str, int] = {}
    for (q, p, k), js in s.waiting.items():
        number, label = len(started.intersection(js)), s.label(s.level(q, p))
        sums[f"placed[{label}]"] = sums.get(f"placed[{label}]", 0) + s.worth[k] * number
        sums[f"gangs[{label}]"] = sums.get(f"gangs[{label}]", 0) + number
    return tuple(judge(o.name, sums[o.name], o.bound, options.gap) if o.name in sums else o for o in objectives)


def _floor(problem: Problem, tree: Tree, room: Room, ledger: Ledger, gangs: list[int]) -> Placements:
    """What the greedy admits, gang by gang: the incumbent of the model, and the plan that no plan may be worse than."""
    ledger, totals = ledger.copy(), tuple(sum(n.capacity[r] for n in problem.nodes) for r in range(len(problem.resources)))
    greedy = Greedy(problem, tree, Room(room.free))
    found: dict[int, tuple[Placement, ...]] = {}
    for j in greedy.order(gangs, ledger, totals):
        shape = shape_of(j, problem.gangs[j])
        if not ledger.allows(problem.gangs[j].queue, shape.demand(len(problem.resources))):
            continue
        mark = greedy.room.mark()
        placed = greedy.place(j, shape)
        if placed is None:
            continue
        amount = demand(problem.gangs[j], placed, len(problem.resources))
        if not ledger.allows(problem.gangs[j].queue, amount):  # a mix of roles dearer than the cheapest
            greedy.room.undo(mark)
            continue
        ledger.charge(problem.gangs[j].queue, amount)
        found[j] = merged([*shape.fixed, *placed])
    return found


def _everyone(s: Sets, gangs: list[int]) -> Admission:
    """Every gang starts: each goal is at its bound, and no model need be asked."""
    objectives = []
    for level in s.levels:
        here = [(k, len(js)) for (q, p, k), js in s.waiting.items() if s.level(q, p) == level]
        worth, number = sum(s.worth[k] * count for k, count in here), sum(count for _, count in here)
        objectives += [judge(f"placed[{s.label(level)}]", worth, worth, 0), judge(f"gangs[{s.label(level)}]", number, number, 0)]
    return Admission(tuple(gangs), {}, tuple(objectives))


def _fresh(problem: Problem, j: int, pods: tuple[Placement, ...]) -> tuple[Placement, ...]:
    """The pods that do not run yet."""
    return merged([*pods, *(Placement(p.role, p.node, -p.pods) for p in problem.gangs[j].running)])


def _decision(problem: Problem, j: int, pods: tuple[Placement, ...] | None, running: tuple[Placement, ...], kept: bool, reasons: Reasons) -> Decision:
    placed = running if pods is None else pods
    leaves = tuple(sorted({leaf for p in placed if (leaf := problem.nodes[p.node].leaf) is not None}))
    if pods is not None:
        return Decision(j, "keep" if kept else "start", placed, leaves)
    return Decision(j, "wait", placed, leaves, *reasons.explain(j))


def _queues(problem: Problem, before: Ledger, after: Ledger, totals: tuple[int, ...]) -> tuple[QueueUse, ...]:
    found = []
    for q in range(len(problem.queues)):
        admitted = tuple(b - a for a, b in zip(before.held[q], after.held[q], strict=True))
        found.append(QueueUse(q, before.held[q], admitted, after.share(q, totals)))
    return tuple(found)
