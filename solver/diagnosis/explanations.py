"""Facts and repairs of all gangs that a plan leaves waiting: one question for each class, independent of the others.

Gangs that differ only in which rules between pods they own have one explanation. Of many gangs that keep apart each
owns a rule that selects the others. While all of them wait these rules bind only their owners. So an obstacle of one of
them is an obstacle of the others too, with its own rule in place of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from solver.clock import OutOfTimeError
from solver.diagnosis.blocking_facts import gang_facts
from solver.diagnosis.case import GangDiagnosis, diagnosis_class
from solver.diagnosis.delay_changes import delay_repairs
from solver.diagnosis.delays import DelayDiagnosis
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.kept_gangs import equal_priority, eviction_obstacles, eviction_repair
from solver.diagnosis.tried_repairs import gang_repairs
from solver.diagnosis.world import anonymous_gang, has_pod_rules
from solver.facts import DedicatedDomains, Fact, Maintenance, NobodyEvicted, PodRuleConflict, Undecided
from solver.mip.executors import Mapper
from solver.problem import Problem
from solver.repairs import EndOfGangs, EndOfPods, Repair

T = TypeVar("T")
Explanation = tuple[tuple[Fact, ...], tuple[Repair, ...]]
NO_FACTS: tuple[Fact, ...] = ()
UNDECIDED: tuple[Fact, ...] = (Undecided(),)
NOT_KEPT: tuple[NobodyEvicted, ...] = ()
NO_REPAIRS: tuple[Repair, ...] = ()
WORK_PER_QUESTION, WORK_PER_NODE, WORK_PER_QUEUE = 5_000, 7, 800
"""Work of one question, and more for each node and queue (`Mapper`); measured on worlds of 128, 1,000 and 10,000 nodes,
of 20 queues each: other weights are tried, for which all queues' shares are worked out."""


def explain_waiting_gangs(diagnosis: DelayDiagnosis, mapper: Mapper) -> dict[int, Explanation]:
    """Facts and repairs of each waiting gang. When the time is over the rest is undecided, and has no repairs."""
    found = {j: in_time(partial(diagnosis.delay_facts, j), NO_FACTS) for j in diagnosis.waiting_gangs}
    delayed = {j: facts for j, facts in found.items() if facts}
    lacking = _resource_explanations(diagnosis, delayed, mapper)
    why = {j: (_with_order(diagnosis, j, facts), repairs) for j, (facts, repairs) in lacking.items()}
    known: dict[object, tuple[Repair, ...]] = {}
    held = diagnosis.state.reserved_gang
    for j, facts in delayed.items():
        duration, blocked = diagnosis.state.problem.gangs[j].times.duration, j in diagnosis.blocked_gangs
        key = diagnosis_class(diagnosis.state, j), duration, blocked, j == held, facts
        if key not in known:
            repairs = in_time(partial(delay_repairs, diagnosis, j, facts), NO_REPAIRS)
            repairs = tuple(sorted((*repairs, *(why[j][1] if j in why else ())), key=lambda r: (bool(r.also), r.rank)))
            known[key] = repairs[: diagnosis.state.options.budget.repairs]
        why[j] = facts, known[key]
    if held in why:  # the reservation itself lists its awaited gangs
        facts, repairs = why[held]
        why[held] = facts, tuple(repair for repair in repairs if not isinstance(repair, EndOfPods | EndOfGangs))
    return why


def _with_order(diagnosis: DelayDiagnosis, j: int, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """Return the facts, and last the strict order of its queue: with all else out of the way that would still keep
    it."""
    return facts if facts == UNDECIDED else (*facts, *diagnosis.order_facts(j))


def _resource_explanations(
    diagnosis: DelayDiagnosis, delayed: Mapping[int, tuple[Fact, ...]], mapper: Mapper
) -> dict[int, Explanation]:
    """Return explanations of gangs that are not delayed, or only by exclusions: a repair may do without the excluded
    nodes.

    A gang with exclusions is diagnosed on the remaining nodes, unless they do not hold it even next to running pods.
    """
    why: dict[int, Explanation] = {}
    restricted, unrestricted = list[int](), list[int]()
    for j in diagnosis.waiting_gangs:
        if j in delayed and not isinstance(delayed[j][0], DedicatedDomains | Maintenance):
            continue
        has_room = j in diagnosis.exclusions and (
            j in delayed or in_time(partial(diagnosis.fits_beside_running, j), False)
        )
        (restricted if has_room else unrestricted).append(j)
    state = replace(diagnosis.state, exclusions=diagnosis.exclusions)
    why |= _explanations(state, unrestricted, mapper)
    why |= _explanations(diagnosis.restricted_state, restricted, mapper)
    for j in unrestricted:
        if j in diagnosis.exclusions:
            facts, repairs = why[j]
            why[j] = (*facts, *in_time(partial(diagnosis.idle_exclusion_facts, j), NO_FACTS)), repairs
    return why


def _explanations(state: DiagnosisState, gangs: Iterable[int], mapper: Mapper) -> dict[int, Explanation]:
    """Return facts and repairs of each gang, asked once for each class, and for the gang for which nodes are
    reserved."""
    alike = {j: likeness(state, j) for j in gangs}
    classes: dict[object, list[int]] = {}
    for j in alike:
        classes.setdefault((alike[j].key, j == state.reserved_gang), []).append(j)
    if not classes:
        return {}
    # Gangs of one queue ask the same about it, so that those next to one another are best explained by one process.
    specs = state.problem.gangs
    lines = sorted(classes.values(), key=lambda members: (-specs[members[0]].priority, specs[members[0]].queue))
    work = explanation_work(state.problem, len(lines))
    answers = mapper.map(explain, state, [members[0] for members in lines], work, state.options.clock)
    return {
        j: (in_its_words(facts, alike[members[0]], alike[j]), repairs)
        for members, (facts, repairs) in zip(lines, answers, strict=True)
        for j in members
    }


def explanation_work(problem: Problem, questions: int) -> int:
    """Return the work (`Mapper`) of so many questions."""
    nodes, queues = len(problem.nodes), len(problem.queues)
    return questions * (WORK_PER_QUESTION + WORK_PER_NODE * nodes + WORK_PER_QUEUE * queues)


def explain(state: DiagnosisState, j: int) -> Explanation:
    """Facts and repairs of one waiting gang. A pure function of what can be sent to another process."""
    case = GangDiagnosis.of(state, j)
    facts = in_time(partial(gang_facts, case), UNDECIDED)
    repairs = in_time(partial(gang_repairs, case, facts), NO_REPAIRS)
    obstacles = in_time(partial(eviction_obstacles, case, facts), NOT_KEPT)
    more = tuple(eviction_repair(obstacles))
    repairs = tuple(sorted((*repairs, *more), key=lambda repair: (bool(repair.also), repair.rank)))
    return (*facts, *(obstacles or equal_priority(repairs))), repairs


def in_time(compute: Callable[[], T], otherwise: T) -> T:
    """Return the computed value, or `otherwise` if the time is over first."""
    try:
        return compute()
    except OutOfTimeError:
        return otherwise


@dataclass(frozen=True, slots=True)
class Likeness:
    """key: equal for gangs with the same explanation. own_rules: rules that keep pods apart and that no other gang
    owns, in the order in which the roles name them."""

    key: object
    own_rules: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _RuleUse:
    """Rule -> the gangs that own it; those of them, and the (gang, role) that it selects, that run or start."""

    owners: Mapping[int, frozenset[int]]
    placed_owners: Mapping[int, frozenset[int]]
    placed_selected: Mapping[int, frozenset[tuple[int, int]]]


def likeness(state: DiagnosisState, j: int) -> Likeness:
    problem, gang = state.problem, state.problem.gangs[j]
    counts, plain = state.after.rule_counts, diagnosis_class(state, j)
    if counts is None or gang.running or not has_pod_rules(gang):
        return Likeness(plain)
    use = state.memoize("rule use", partial(_rule_use, state))
    owned = dict.fromkeys(rho for role in gang.roles for rho in role.owned_rules)
    alone = (rho for rho in owned if use.owners[rho] == {j})
    own = tuple(rho for rho in alone if _keeps_apart_alone(state, rho))
    names = {rho: name for name, rho in enumerate(own)}

    def binds(rho: int) -> bool:
        """Return whether the rule is not the gang's own, and may keep it from a node."""
        is_met = bool(use.placed_owners.get(rho)) or rho in owned or not _keeps_apart_alone(state, rho)
        return is_met and rho not in names

    roles = tuple(
        replace(
            role,
            owned_rules=tuple(rho for rho in role.owned_rules if rho not in names),
            selecting_rules=tuple(filter(binds, role.selecting_rules)),
        )
        for role in gang.roles
    )
    named = tuple((_named(role.owned_rules, names), _named(role.selecting_rules, names)) for role in gang.roles)
    partitions = counts.existing_pods.partitions
    rules = tuple(
        (replace(problem.pod_rules[rho], domains=()), id(partitions[rho]), use.placed_selected.get(rho)) for rho in own
    )
    kind = replace(anonymous_gang(gang), roles=roles), named, rules
    return Likeness((kind, *plain[1:], state.exclusions.get(j)), own)


def in_its_words(facts: Iterable[Fact], explained: Likeness, other: Likeness) -> tuple[Fact, ...]:
    """Return the facts of a gang, for another one that is explained alike."""
    names = dict(zip(explained.own_rules, other.own_rules, strict=True))
    return tuple(
        replace(fact, pod_rule=names.get(fact.pod_rule, fact.pod_rule)) if isinstance(fact, PodRuleConflict) else fact
        for fact in facts
    )


def _named(rules: Iterable[int], names: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(names[rho] for rho in rules if rho in names)


def _keeps_apart_alone(state: DiagnosisState, rho: int) -> bool:
    """Return whether the rule keeps pods apart, and none of its owners is there that belongs to no gang."""
    rule = state.problem.pod_rules[rho]
    return rule.keeps_apart and not any(rule.owners_present)


def _rule_use(state: DiagnosisState) -> _RuleUse:
    owners, placed_owners = dict[int, set[int]](), dict[int, set[int]]()
    selected = dict[int, set[tuple[int, int]]]()
    for i, gang in enumerate(state.problem.gangs):
        is_placed = bool(gang.running) or i in state.kept_placements or i in state.started_placements
        for t, role in enumerate(gang.roles):
            for rho in role.owned_rules:
                owners.setdefault(rho, set()).add(i)
                if is_placed:
                    placed_owners.setdefault(rho, set()).add(i)
            for rho in role.selecting_rules if is_placed else ():
                selected.setdefault(rho, set()).add((i, t))
    return _RuleUse(
        {rho: frozenset(of) for rho, of in owners.items()},
        {rho: frozenset(of) for rho, of in placed_owners.items()},
        {rho: frozenset(of) for rho, of in selected.items()},
    )
