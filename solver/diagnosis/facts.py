"""The smallest set of facts for which a gang waits: with all of them out of the way it starts, with one of them in its
way it does not.

First what is in its way beside what runs, on the nodes and in the queues, which know nothing of one another. Only where
nothing is, what the plan gives to others: a gang that cannot start anyway is not kept out by those who then got the
room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from solver.diagnosis.families import Family, never, now, of_the_world, others_first
from solver.diagnosis.minimal import smallest
from solver.diagnosis.queues import Asking, queue_facts
from solver.diagnosis.world import Case, Setting
from solver.plan import Fact
from solver.state.room import Ledger


def facts(case: Case) -> tuple[Fact, ...]:
    """Why it waits; first what waiting does not help. Of a gang that is held to more than it has to be nothing is said
    for ever."""
    found, setting = node_facts(case)
    asking = Asking(case.gang.queue, case.amount, case.whole)
    back = tuple(n for fact in found for n in fact.nodes)
    found = [*queue_facts(case.world, case.world.holding(back), asking, _in_cluster(case, setting, back)), *found]
    if case.gang.narrowed:
        found = [replace(fact, never=False) for fact in found]
    return tuple(sorted(found, key=lambda fact: not fact.never)) or _beside_the_plan(case, asking)


def _in_cluster(case: Case, s: Setting, back: tuple[int, ...]) -> Ledger | None:
    """What holds the cluster, seen from a setting, where room for guarantees is kept in all of it; None where nodes are
    too small anyway. back: the nodes that are named as away."""
    if any(role.request != was.request for role, was in zip(s.gang.roles, case.gang.roles, strict=True)):
        return None
    return case.world.holding(back, s.running)


def node_facts(case: Case) -> tuple[list[Fact], Setting]:
    """What is in the way on the nodes beside what runs, and the setting without it. GW110 where no answer was proved."""
    start = replace(case.now, started=False)
    fits = case.fits(start)
    if fits is not False:
        return ([] if fits else [Fact("GW110")]), start
    if case.fits(case.empty) is False and not (case.gang.running and case.fits(case.staying) is not False):
        return _hopeless(case, start)
    return _blamed(case, start, now(case)) or ([Fact("GW110")], start)


def _beside_the_plan(case: Case, asking: Asking) -> tuple[Fact, ...]:
    """What the plan gives to others before it: in its queues, and on the nodes."""
    full = case.fits(case.now) is False
    found = queue_facts(case.world, case.world.after, asking, None if full else case.world.after)
    if full:
        found.append(others_first(case, case.now))
    return tuple(found) or (Fact("GW110"),)


def _hopeless(case: Case, start: Setting) -> tuple[list[Fact], Setting]:
    """What the empty cluster has against it, and then what else is in its way."""
    families = never(case)
    chosen = _smallest(case, case.empty, families)
    if chosen is None:
        return _unmakeable(case, families), start
    found = [replace(family.fact(_relaxed(case.empty, chosen, family)), never=True) for family in chosen]
    start = _relaxed(start, chosen)
    if case.fits(start):
        return found, start
    more, setting = _blamed(case, start, of_the_world(case)) or ([], start)
    return found + more, setting


def _blamed(case: Case, start: Setting, families: Sequence[Family]) -> tuple[list[Fact], Setting] | None:
    """The facts of the smallest set of obstacles, and the setting without them; None where not even all of them are
    known to be enough."""
    chosen = _smallest(case, start, families)
    if chosen is None:
        return None
    return [family.fact(_relaxed(start, chosen, family)) for family in chosen], _relaxed(start, chosen)


def _unmakeable(case: Case, families: Sequence[Family]) -> list[Fact]:
    """Not even on nodes without limits: there are no nodes, or its subgroups never add up to what it asks for."""
    if case.fits(_relaxed(case.empty, families)) is not False:
        return [Fact("GW110")]
    if not case.world.problem.nodes:
        return [
            Fact("GW107", never=True, role=t)
            for t, role in enumerate(case.question(case.empty).shape.roles)
            if role.need
        ] or [Fact("GW110")]
    return [replace(families[-1].fact(case.empty), never=True)]


def _smallest(case: Case, start: Setting, families: Sequence[Family]) -> tuple[Family, ...] | None:
    return smallest(families, lambda some: case.fits(_relaxed(start, some)) is True)


def _relaxed(s: Setting, families: Iterable[Family], spare: Family | None = None) -> Setting:
    """The setting without these obstacles, `spare` left in place."""
    for family in families:
        if family is not spare:
            s = family.relax(s)
    return s
