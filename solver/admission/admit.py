"""Stage A: which gangs of a batch start. Goals in the order of docs/develop/model.md, each proved or honestly not.

A gang is overtaken if it waits although it could have used the room of gangs of lower precedence in its own queue:
shares and entitlements count resources, so that two small gangs may be worth more to them than a large one ahead of
them. Such a plan is cut off, and the goals are solved again.

The incumbent: the values of the model's variables for gangs that are known to fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pulp

from solver.admission.fair_shares import share_fairly
from solver.mip.engine import solve_model
from solver.mip.lexicographic import Goal, LexicographicSolver, verdict_of
from solver.mip.rows import Terms, at_least, at_most, value_of
from solver.models import constraints, objectives, pod_rule_rows, variables
from solver.models.device_slots import slot_values
from solver.models.objectives import ComparedQueues, Counts
from solver.models.sets import AdmissionClass, PrecedenceLevel, Sets, split_promised
from solver.models.variables import Variables
from solver.options import Options
from solver.plan import Objective
from solver.problem import Placement, SlotRequest
from solver.semantics.device_slots import PodsPerSlot
from solver.semantics.gang_classes import GangClass
from solver.semantics.placements import Placements, add_vectors
from solver.semantics.topology import ROOT


@dataclass(frozen=True, slots=True)
class Admission:
    """admitted: the gangs that start. pods: (k, role, bucket) -> pods of a solution that starts them. excludes_floor:
    gangs were overtaken in the floor, or in a solution that only the objectives prefer."""

    admitted: tuple[int, ...]
    pods: Mapping[tuple[int, int, int], int]
    objectives: tuple[Objective, ...]
    excludes_floor: bool = False


def solve_admission(s: Sets, floor: Placements, options: Options) -> Admission:
    """Maximise goal after goal. floor: what the greedy started, the incumbent."""
    if s.puts_queues_first:
        return _solve_queues_first(s, floor, options)
    x, lex = _admission_model(s, floor, options)
    for level in s.precedence_levels:
        _decide_level(s, x, lex, level, x.y)
    return _finish(s, x, lex)


def _solve_queues_first(s: Sets, floor: Placements, options: Options) -> Admission:
    """Decide queues first: entitlements, then announced starts, then borrowing; repeated while a gang is overtaken by
    one of lower precedence in its own queue."""
    cuts: list[OvertakingCut] = []
    x, lex = _admission_model(s, floor, options)
    while True:
        _add_entitlements(s, x, lex)
        for levels in s.queue_rounds:
            _decide_entitled(s, x, lex, levels)
            promised, others = split_promised(levels)
            _decide_started(s, x, lex, promised)
            _decide_borrowed(s, x, lex, levels)
            _decide_started(s, x, lex, others)
        admission = _finish(s, x, lex)
        small = x.model.numVariables() <= options.budget.joint_variables
        found = find_overtaking(s, x, lex.values, cuts, options) if small else None
        if found is None or len(cuts) >= options.budget.overtaking_cuts:
            return replace(admission, excludes_floor=bool(cuts))
        cut, values = found
        cuts.append(cut)
        x, lex = _admission_model(s, floor, options)
        add_cuts(s, x, cuts)
        lex.set_solution({v.name: values.get(v.name, 0.0) for v in x.model.variables()})


def _admission_model(s: Sets, floor: Placements, options: Options) -> tuple[Variables, LexicographicSolver]:
    x = variables.build_variables(s)
    constraints.add_constraints(s, x)
    return x, LexicographicSolver(x.model, options, incumbent_values(s, x, floor))


def _decide_level(
    s: Sets, x: Variables, lex: LexicographicSolver, level: PrecedenceLevel, counts: Counts, prefix: str = ""
) -> None:
    """Decide one level goal by goal: fair shares, unless all of it can count; resources; gangs."""
    everything = objectives.placed_resources(s, counts, level, f"{prefix}placed")
    bound, is_scarce = _is_scarce(lex, everything)
    if is_scarce:
        of_level = {key: y for key, y in counts.items() if s.level_of[key] >= level}
        names = f"{prefix}share[{s.level_label(level)}]", f"{prefix[:1]}{level[0] + 2**33}_{level[1]}"
        _share_among_siblings(s, x, lex, of_level, s.classes_of_level(level), names)
    lex.maximise_and_hold(replace(everything, upper_bound=bound))
    lex.maximise_and_hold(objectives.started_gangs(s, counts, level, f"{prefix}gangs"))


def _is_scarce(lex: LexicographicSolver, everything: Goal) -> tuple[float, bool]:
    """Return (the bound on the goal, whether only a part of it can be reached).

    Where it is scarce the known solution stays: the greedy's shares, not those that a solution for the sum alone
    happens to have. The relaxation mostly decides, and no solution need be found.
    """
    bound = lex.relaxed_bound(everything)
    if bound < everything.upper_bound and lex.value_of(everything) > 0:
        return bound, True
    known = dict(lex.values)
    value, bound = lex.solve_for(replace(everything, upper_bound=bound))
    is_scarce = bound > 0 and value < everything.upper_bound
    if is_scarce:
        lex.set_solution(known)
    return bound, is_scarce


def _share_among_siblings(
    s: Sets,
    x: Variables,
    lex: LexicographicSolver,
    counts: Counts,
    competing: Sequence[AdmissionClass],
    names: tuple[str, str],
) -> None:
    """Fair shares in each group of siblings in which several queues have competing classes, by what counts. names: of
    the objectives, without the group's, and in those of variables."""
    label, tag = names
    for group in s.queue_books.queue_rules.sibling_groups:
        queues = tuple(s.competing_queues(competing, group))
        if len(queues) > 1:
            share_fairly(s, x, lex, ComparedQueues(group, queues, counts, label + group.name, tag))


def _add_entitlements(s: Sets, x: Variables, lex: LexicographicSolver) -> None:
    """Add e, its rows, and its values in the known solution."""
    constraints.add_constraints(s, x, [constraints.entitlements])
    counts = s.entitled_counts({key: round(lex.values[y.name]) for key, y in x.y.items()})
    lex.set_values({x.e[key].name: float(n) for key, n in counts.items()})


def _decide_entitled(s: Sets, x: Variables, lex: LexicographicSolver, levels: Sequence[PrecedenceLevel]) -> None:
    """Decide the starts within the queues' entitlements, level by level; nothing where no gang is entitled."""
    for level in levels:
        if any(s.entitled_counts({key: 1})[key] for key in s.classes_of_level(level)):
            _decide_level(s, x, lex, level, x.e, "entitled ")


def _decide_borrowed(s: Sets, x: Variables, lex: LexicographicSolver, levels: Sequence[PrecedenceLevel]) -> None:
    """Give the rest to the queues with the lowest shares, whatever the gangs' priorities; queues of higher priority
    first, where a plugin compares it."""
    goals = [objectives.placed_resources(s, x.y, level) for level in levels]
    everything = Goal("placed", [t for goal in goals for t in goal.terms], sum(g.upper_bound for g in goals), 1)
    _, is_scarce = _is_scarce(lex, everything)
    if not is_scarce:
        return
    several = len({level[1] for level in s.precedence_levels}) > 1
    for priority, counted, competing in s.lending_steps(levels):
        names = f"share[queues {priority}]" if several else "share", f"all_{priority}"
        _share_among_siblings(s, x, lex, {key: x.y[key] for key in counted}, competing, names)


def _decide_started(s: Sets, x: Variables, lex: LexicographicSolver, levels: Iterable[PrecedenceLevel]) -> None:
    """Decide the starts beyond any entitlement, level by level."""
    for level in levels:
        lex.maximise_and_hold(objectives.placed_resources(s, x.y, level))
        lex.maximise_and_hold(objectives.started_gangs(s, x.y, level))


def _finish(s: Sets, x: Variables, lex: LexicographicSolver) -> Admission:
    """Return the tie-break, and the gangs of the solution."""
    last = objectives.oldest_first(s, x)
    lex.set_values(_oldest_values(s, x, lex.values))
    lex.maximise_and_hold(last, lex.options.budget.refining_nodes)
    return Admission(_oldest_gangs(s, x, lex.values), pods_per_bucket(x, lex.values), tuple(lex.objectives))


def solve_first_goal(s: Sets, floor: Placements, options: Options) -> Admission:
    """Solve for the first goal only: the resources placed of the highest level."""
    x, lex = _admission_model(s, floor, options)
    lex.maximise_and_hold(objectives.placed_resources(s, x.y, s.precedence_levels[0]))
    return Admission(_oldest_gangs(s, x, lex.values), pods_per_bucket(x, lex.values), tuple(lex.objectives))


def _oldest_values(s: Sets, x: Variables, values: dict[str, float]) -> dict[str, float]:
    """z for the known solution: the oldest of each class."""
    return {
        f"z_{j}": float(n < round(values[x.y[key].name]))
        for key, js in s.waiting_gangs.items()
        for n, j in enumerate(js)
    }


def _oldest_gangs(s: Sets, x: Variables, values: dict[str, float]) -> tuple[int, ...]:
    """Return the gangs behind the counts: the oldest of each class."""
    return tuple(sorted(j for key, js in s.waiting_gangs.items() for j in js[: round(values[x.y[key].name])]))


def pods_per_bucket(x: Variables, values: Mapping[str, float]) -> dict[tuple[int, int, int], int]:
    """(k, role, bucket) -> pods of a solution."""
    found = {}
    for (k, t), buckets in x.n.items():
        for i, terms in buckets.items():
            pods = round(sum(values.get(v.name, 0.0) * c for v, c in terms))
            if pods:
                found[k, t, i] = pods
    return found


def admit_all(s: Sets, gangs: list[int]) -> Admission:
    """Admit every gang: each goal is at its bound, and no model need be asked."""
    objectives = []
    for level in s.precedence_levels:
        here = [(key[2], len(s.waiting_gangs[key])) for key in s.classes_of_level(level)]
        worth, number = sum(s.dominant_units[k] * count for k, count in here), sum(count for _, count in here)
        objectives += [
            verdict_of(f"placed[{s.level_label(level)}]", worth, worth, 0),
            verdict_of(f"gangs[{s.level_label(level)}]", number, number, 0),
        ]
    return Admission(tuple(gangs), {}, tuple(objectives))


@dataclass(frozen=True, slots=True)
class OvertakingCut:
    """More than `started` gangs of the class start, or those of lower precedence in its queue take no more than
    `lower_units`: what fits next to one more, and less than they took when they overtook it. Or all others take more
    than the `other_units` that they had then: next to more of them there may be no room for one more."""

    key: AdmissionClass
    started: int
    lower_units: int
    other_units: int


def find_overtaking(
    s: Sets, x: Variables, values: Mapping[str, float], cuts: Sequence[OvertakingCut], options: Options
) -> tuple[OvertakingCut, dict[str, float]] | None:
    """(a cut that the solution breaks, a solution that keeps it); None where no gang is overtaken. The first in the
    order of precedence. Limits count as "not overtaken"."""
    started = {key: round(values[y.name]) for key, y in x.y.items()}
    starting = {key: n for key, n in started.items() if n}
    for key in sorted(started, key=lambda key: (-key[1], key)):
        lower = {of: n for of, n in starting.items() if _yields_to(of, key)}
        if lower and started[key] < len(s.waiting_gangs[key]) and _may_fit(s, started, key, lower):
            found = _solution_with_one_more(s, started, key, cuts, options)
            if found is not None:
                taken = sum(s.dominant_units[of[2]] * n for of, n in lower.items())
                rest = sum(s.dominant_units[of[2]] * round(found[x.y[of].name]) for of in lower)
                others = sum(s.dominant_units[of[2]] * starting.get(of, 0) for of in x.y if _is_other(of, key))
                return OvertakingCut(key, started[key], min(rest, taken - 1), others), found
    return None


def _may_fit(
    s: Sets, started: Mapping[AdmissionClass, int], key: AdmissionClass, lower: Mapping[AdmissionClass, int]
) -> bool:
    """Return whether one more gang of the class fits by number without the lower ones."""
    left = s.free.amounts.sum(axis=0).tolist()
    for of, n in started.items():
        if of not in lower:
            left = [have - n * amount for have, amount in zip(left, s.min_demands[of[2]], strict=True)]
    return all(amount <= have for amount, have in zip(s.min_demands[key[2]], left, strict=True) if amount)


def _solution_with_one_more(
    s: Sets, started: Mapping[AdmissionClass, int], key: AdmissionClass, cuts: Sequence[OvertakingCut], options: Options
) -> dict[str, float] | None:
    """Return values with one more gang of the class, most of the gangs of lower precedence, and all others unchanged;
    None where there are none."""
    x = variables.build_variables(s)
    constraints.add_constraints(s, x)
    add_cuts(s, x, cuts)
    for of, y in x.y.items():
        low, high = started[of], started[of]
        if of == key:
            low, high = low + 1, high + 1
        elif _yields_to(of, key):
            low = 0
        y.lowBound, y.upBound = low, high
    x.model.sense = pulp.LpMaximize
    x.model.setObjective(pulp.LpAffineExpression(_lower_terms(s, x, key)))
    answer = solve_model(x.model, options)
    choice = {f"first_{len(cuts)}": 1.0, f"others_{len(cuts)}": 0.0}
    return {**answer.values, **choice} if answer.values else None


def _lower_terms(s: Sets, x: Variables, key: AdmissionClass) -> Terms:
    """Return the dominant units of the gangs of lower precedence in the class's queue."""
    return [(y, s.dominant_units[of[2]]) for of, y in x.y.items() if _yields_to(of, key)]


def _yields_to(lower: AdmissionClass, key: AdmissionClass) -> bool:
    """Return whether it is a class of lower precedence in the same queue."""
    return lower[0] == key[0] and lower[1] < key[1]


def _is_other(of: AdmissionClass, key: AdmissionClass) -> bool:
    """Return whether it is neither the class nor one that yields to it."""
    return of != key and not _yields_to(of, key)


def add_cuts(s: Sets, x: Variables, cuts: Iterable[OvertakingCut]) -> None:
    """Add each cut with its choices b and c:

    y[key]  >=  (started + 1) b
    sum_{all others} units_k y  >=  (other_units + 1) c
    sum_{lower precedence in its queue} units_k y  <=  lower_units + (most - lower_units) (b + c)
    """
    for index, cut in enumerate(cuts):
        terms = _lower_terms(s, x, cut.key)
        most = sum(y.upBound * c for y, c in terms)
        b = x.model.add_variable(f"first_{index}", cat=pulp.LpBinary)
        c = x.model.add_variable(f"others_{index}", cat=pulp.LpBinary)
        others = [(y, s.dominant_units[of[2]]) for of, y in x.y.items() if _is_other(of, cut.key)]
        x.model.addConstraint(at_least([(x.y[cut.key], 1), (b, -cut.started - 1)], 0), f"first_{index}_starts")
        x.model.addConstraint(at_least([*others, (c, -cut.other_units - 1)], 0), f"others_{index}_take")
        row = at_most([*terms, (b, cut.lower_units - most), (c, cut.lower_units - most)], cut.lower_units)
        x.model.addConstraint(row, f"first_{index}_lower")


def incumbent_values(s: Sets, x: Variables, placements: Placements) -> dict[str, float]:
    """Return the values of all variables for these placements, of gangs of the batch."""
    values = {v.name: 0.0 for v in x.model.variables()}
    for key, gangs in s.waiting_gangs.items():
        values[x.y[key].name] = float(sum(1 for j in gangs if j in placements))
        k, gang_class = key[2], s.gang_classes[key[2]]
        for j in gangs:
            if j in placements:
                _add_gang_values(s, x, values, k, gang_class, _new_pods(placements[j], gang_class))
    for (k, index, h), u in x.u.items():
        values[u.name] = float(_subgroup_count(s, x, values, k, index, h))
    pod_rule_rows.set_rule_values(s, x, values)
    _set_need_values(s, x, values)
    if x.m:
        values |= slot_values(s, x, _slot_layout_of(s, placements))
    return values | {o.name: float(j in placements) for j, o in x.o.items()}


def _slot_layout_of(s: Sets, placements: Placements) -> dict[int, dict[SlotRequest, PodsPerSlot]]:
    """Return node -> slot request -> device slot -> pods of these placements that use it."""
    taken: dict[int, dict[SlotRequest, PodsPerSlot]] = {}
    for node, laid in s.state_after(placements).free_nodes.slot_layout.items():
        for requests, (_, counts) in laid.items():
            for request, of in zip(requests, counts, strict=True):
                taken.setdefault(node, {})[request] = add_vectors(taken.get(node, {}).get(request, (0,) * len(of)), of)
    return taken


def _new_pods(placements: tuple[Placement, ...], gang_class: GangClass) -> dict[tuple[int, int], int]:
    """(role, node) -> pods that do not run yet."""
    fresh: dict[tuple[int, int], int] = {}
    for p in placements:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) + p.pods
    for p in gang_class.running_pods:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) - p.pods
    return {key: pods for key, pods in fresh.items() if pods}


def _add_gang_values(
    s: Sets, x: Variables, values: dict[str, float], k: int, gang_class: GangClass, new_pods: dict[tuple[int, int], int]
) -> None:
    home = None
    for (t, node), pods in new_pods.items():
        i = int(s.bucket_of[node])
        home = s.domains_by_tier[gang_class.hard_tier][i] if gang_class.hard_tier is not None else ROOT
        terms = x.n[k, t].get(i, [])
        if terms and (
            home is None or terms[0][0] is not x.g.get((k, home))
        ):  # a domain of one place counts gangs, below
            values[terms[0][0].name] += pods
    if home is None and gang_class.running_pods and gang_class.hard_tier is not None:
        home = s.domains[k][0] if s.domains[k] else None
    if home is not None and (k, home) in x.g:
        values[x.g[k, home].name] += 1


def _subgroup_count(s: Sets, x: Variables, values: dict[str, float], k: int, index: int, h: int) -> int:
    subgroup, gang_class = s.gang_classes[k].subgroups[index], s.gang_classes[k]
    hard = s.tree.confines(subgroup.topology)

    def at(i: int) -> int:
        found = s.domains_by_tier[subgroup.topology.tier][i] if hard else ROOT
        return ROOT if found is None else found

    counts = (pair for t in subgroup.roles for pair in x.n[k, t].items())
    pods = sum(value_of(terms, values) for i, terms in counts if at(i) == h)
    if any(values[y.name] for (_, _, of), y in x.y.items() if of == k):
        running = (p for p in gang_class.running_pods if p.role in subgroup.roles)
        pods += sum(p.pods for p in running if at(int(s.bucket_of[p.node])) == h)
    return round(pods) // subgroup.size


def _set_need_values(s: Sets, x: Variables, values: dict[str, float]) -> None:
    """w = max(guarantee, direct + batch + children's w), children first."""
    for r in sorted({r for _, r in x.w}):
        unit = s.guarantee_unit(r)
        for q in s.queue_books.bottom_up:
            own = value_of(constraints.usage_terms(s, x, r, {q}), values)
            below = sum(values[x.w[c, r].name] for c in s.queue_books.children[q])
            values[x.w[q, r].name] = max(
                (s.problem.queues[q].guarantee[r] or 0) / unit, (s.queue_books.direct[q][r] + own) / unit + below
            )
