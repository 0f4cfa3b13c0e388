"""Waiting gangs that differ only in which rules between pods they own: one explanation serves all.

Of many gangs that keep apart each owns a rule that selects the others. While all of them wait these rules bind only
their owners. So an obstacle of one of them is an obstacle of the others too, with its own rule in place of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from solver.diagnosis.case import diagnosis_class
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.world import anonymous_gang, has_pod_rules
from solver.facts import Fact, PodRuleConflict


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
