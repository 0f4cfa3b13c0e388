"""Stage A: which gangs of a batch start. Goals in the order of docs/develop/model.md, each proved or honestly not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from solver.admission.fair_shares import share_fairly
from solver.admission.incumbent import incumbent_values
from solver.admission.overtaking import OvertakingCut, add_cuts, find_overtaking
from solver.mip.lexicographic import Goal, LexicographicSolver, verdict_of
from solver.models import constraints, objectives, variables
from solver.models.objectives import ComparedQueues, Counts
from solver.models.sets import AdmissionClass, PrecedenceLevel, Sets, split_promised
from solver.models.variables import Variables
from solver.options import Options
from solver.plan import Objective
from solver.semantics.placements import Placements


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
