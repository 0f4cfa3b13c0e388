"""Repairs of a gang that lacks room: the catalogue of changes that are tried, the cheapest first (`search`).

A new kind of change is one more `Family` here, and its repair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations, product
from typing import Any

from solver.diagnosis.blocking_facts import away_nodes
from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.ends import ends_of_gangs
from solver.diagnosis.gang_changes import (
    families_with_all_pods,
    fewer_pods,
    more_node_kinds,
    more_nodes,
    smaller_request,
    with_fitting_requests,
)
from solver.diagnosis.precedence import evicting_priorities, higher_priorities, larger_entitlement
from solver.diagnosis.queue_obstacles import higher_group_limits, open_node_groups, queue_changes
from solver.diagnosis.rivals import others_may_start_instead
from solver.diagnosis.search import ChangeSet, Section, alone, cheapest_worlds
from solver.diagnosis.world import Family, World
from solver.facts import (
    Borrowing,
    EligibleNodeShortage,
    Fact,
    NoEligibleNode,
    OversizedPod,
    PrecedingGangs,
    ShareLimit,
    Undecided,
    UnmatchedPod,
)
from solver.repairs import Repair, ReturnOfNodes, SmallerPods

PODS_FIT_NOWHERE = OversizedPod, UnmatchedPod, NoEligibleNode, EligibleNodeShortage


def gang_repairs(case: GangDiagnosis, facts: Sequence[Fact]) -> tuple[Repair, ...]:
    """Return a few, the cheapest first; none for a gang of which nothing is proved."""
    if any(isinstance(fact, Undecided) for fact in facts):
        return ()
    budget, start, is_never = case.state.options.budget, case.tried_world, any(fact.never for fact in facts)
    enough = 1 if all(isinstance(fact, PrecedingGangs | Borrowing) for fact in facts) else budget.enough_repairs
    fits_nowhere = any(isinstance(fact, PODS_FIT_NOWHERE) and fact.never for fact in facts)
    changes = cache(lambda: JointChanges.of(case, start))
    sections = [
        Section(budget.repairs, budget.repairs, lambda: alone(_single_changes(case, start, facts))),
        # Where its pods fit on no node, other pods or nodes are needed in any case, and what else is in the way.
        Section(int(fits_nowhere), enough, lambda: changes().together()),
        Section(enough, enough, lambda: alone(more_nodes(case, start))),
        Section(enough, enough + 1, lambda: changes().pairs()),
        Section(enough if is_never else 1, enough, lambda: changes().later_pairs()),
        Section(int(is_never), 1, lambda: changes().together()),
    ]
    found = cheapest_worlds(case, start, sections, lambda w: not others_may_start_instead(case, w))
    return tuple(replace(first, also=tuple(rest)) for first, *rest in (w.changes for w in found))


def _single_changes(case: GangDiagnosis, start: World, facts: Sequence[Fact]) -> Iterator[Family[Any]]:
    """Yield the changes of which one may suffice, the cheapest first, but for the nodes that are the dearest to try."""
    yield from families_with_all_pods(case, start)
    if away := away_nodes(facts):
        yield Family(ReturnOfNodes, [away], _return_nodes)
    if not any(fact.never for fact in facts):
        yield from ends_of_gangs(case)
    yield from fewer_pods(start)
    yield from (higher_priorities(case), evicting_priorities(case))
    yield from (larger_entitlement(case, start, fact) for fact in facts if isinstance(fact, Borrowing))
    yield queue_changes(case, start)
    yield from (larger_entitlement(case, start, fact) for fact in facts if isinstance(fact, ShareLimit))
    yield from open_node_groups(case)
    yield from higher_group_limits(case, start)
    roles = range(len(start.gang.roles))
    yield from (smaller_request(case, role, start) for role in roles)
    for role in roles:
        yield from more_node_kinds(case, role, start)


@dataclass(frozen=True)
class JointChanges:
    """Changes that may be needed with others. They are made in this order: what the owner changes of its pods (kinds:
    for each role the kinds of nodes of which one may be added), where they may be, and how many they are; ends of
    gangs, or priorities; nodes; last what the queues then lack."""

    kinds: Sequence[Sequence[Family[Any]]]
    requests: Sequence[Family[Any]]
    places: Sequence[Family[Any]]
    numbers: Sequence[Family[Any]]
    ends: Sequence[Family[Any]]
    priorities: Sequence[Family[Any]]
    other: Sequence[Family[Any]]

    @classmethod
    def of(cls, case: GangDiagnosis, start: World) -> JointChanges:
        kinds = [more_node_kinds(case, role, start) for role in range(len(start.gang.roles))]
        lists: Sequence[Sequence[Family[Any]]] = (
            [Family(SmallerPods, [()], lambda w, _: with_fitting_requests(case, w))],
            families_with_all_pods(case, start),
            fewer_pods(start),
            ends_of_gangs(case),
            [higher_priorities(case)],
            [*more_nodes(case, start)[:1], queue_changes(case, start)],
        )
        return cls(list(filter(None, kinds)), *([family for family in each if family.steps] for each in lists))

    def together(self) -> Iterator[ChangeSet]:
        """Yield all changes at once: with all pods, or with fewer; after the soonest ends, else the fewest, else all;
        with the nearest kinds of nodes, else the next."""
        choices = range(max(map(len, self.kinds), default=1))
        for sizes, end, choice in product((self.places, self.numbers), self.ends, choices):
            chosen = (kinds[min(choice, len(kinds) - 1)] for kinds in self.kinds)
            yield (*chosen, *self.requests, *sizes, end, *self.other)

    def pairs(self) -> Sequence[ChangeSet]:
        """Return two changes of different kinds, the cheapest first."""
        pairs = combinations([*self._of_owner, *self.priorities, *self.other], 2)
        return sorted(((one, two) for one, two in pairs if one.key != two.key), key=_cost)

    def later_pairs(self) -> Sequence[ChangeSet]:
        """Return changes that help once others have ended, the cheapest first."""
        return sorted([*product(self._of_owner, self.ends), *product(self.ends, self.other)], key=_cost)

    @property
    def _of_owner(self) -> Sequence[Family[Any]]:
        return [*chain(*self.kinds), *self.requests, *self.places, *self.numbers]


def _cost(some: ChangeSet) -> int:
    return sum(family.cost for family in some)


def _return_nodes(w: World, nodes: tuple[int, ...]) -> World:
    return w.with_change(ReturnOfNodes(nodes), returned_nodes=nodes)
