"""What would let a gang start: each change was tried, and is the least of its kind. One change where one is enough,
else two.

Order: what its owner can change without giving up pods; waiting; fewer pods or a higher priority; the queues; the
cluster. One change before two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from solver.diagnosis.limits import mended
from solver.diagnosis.machines import more_nodes
from solver.diagnosis.minimal import first
from solver.diagnosis.queue_waits import after_others
from solver.diagnosis.spec import every, fewer, fewer_in_all, openings, smaller
from solver.diagnosis.trial import Bench, Step, Steps, Trial
from solver.diagnosis.world import Case
from solver.plan import Fact, Repair
from solver.semantics.eviction_rights import lendable

MOST = 4
"""Repairs that are said."""
ENOUGH = 2
"""With fewer repairs of one change more nodes are tried, then two changes, until there is one more. One repair is
enough where others go first."""
TRIES = 60
"""Questions about nodes for the repairs of one kind of gang, and how many of them may be put to an exact model."""
MODELS = 6


def repairs(case: Case, facts: Sequence[Fact]) -> tuple[Repair, ...]:
    """At most a few, the cheapest first; none for a gang of which nothing is proved."""
    if any(fact.code == "GW110" for fact in facts):
        return ()
    bench = Bench(case, TRIES, MODELS)
    found = [trial.changes for trial in islice(_single(bench, facts), MOST)]
    enough = 1 if all(fact.code == "GW105" for fact in facts) else ENOUGH
    for trials in (_nodes(bench), _double(bench)):
        for trial in trials if len(found) < enough else ():
            # Nothing that holds a repair which is enough without the rest.
            if len(found) <= enough and not any(set(known) <= set(trial.changes) for known in found):
                found.append(trial.changes)
    return tuple(replace(first, also=tuple(rest)) for first, *rest in found)


def _single(bench: Bench, facts: Sequence[Fact]) -> Iterator[Trial]:
    """Trials of one kind of change that work, the cheapest first."""
    start = bench.start
    roles = range(len(start.setting.gang.roles))
    allowed = bench.allowed(start)
    if allowed:
        yield from _least(bench, start, every(bench, start))
    yield from _waiting(bench, start, facts)
    yield from _least(bench, start, _fewer(bench, start))
    yield from _if_works(bench, raised(bench, start))
    if not allowed:
        yield from _if_works(bench, mended(bench, start))
        return
    yield from _least(bench, start, [smaller(bench, role, start) for role in roles])
    for role in roles:
        yield from islice(_least(bench, start, openings(bench, role, start)), 1)


def _nodes(bench: Bench) -> Iterator[Trial]:
    """More nodes, the dearest to try and to have."""
    if bench.allowed(bench.start):
        yield from islice(_least(bench, bench.start, more_nodes(bench, bench.start)), 1)


def _waiting(bench: Bench, t: Trial, facts: Sequence[Fact]) -> Iterator[Trial]:
    """GR116: nodes that come back. GR109: running gangs that end; GR103: other pods that do, where no gang is known to
    help."""
    away = tuple(n for fact in facts if fact.code == "GW122" for n in fact.nodes)
    if away:
        yield from _if_works(
            bench, replace(t, setting=replace(t.setting, back=away), changes=(*t.changes, Repair("GR116", nodes=away)))
        )
    if not any(fact.never for fact in facts):
        after = after_others(bench, t)
        freed = replace(t, setting=replace(t.setting, running=False), changes=(*t.changes, Repair("GR103")))
        yield from _if_works(bench, freed if after is None else after)


def _fewer(bench: Bench, t: Trial) -> list[Sequence[Step]]:
    """Fewer pods: of one role, or of all of them; the change that keeps most of them first."""
    gang = t.setting.gang
    return [*(fewer(role, t) for role in range(len(gang.roles))), fewer_in_all(t)]


def _least(bench: Bench, t: Trial, kinds: Sequence[Sequence[Step]]) -> Iterator[Trial]:
    for steps in kinds:
        trial = bench.least(t, steps)
        if trial is not None:
            yield trial


def _if_works(bench: Bench, trial: Trial | None) -> Iterator[Trial]:
    if trial is not None and trial.changes and bench.works(trial):
        yield trial


def raised(bench: Bench, t: Trial) -> Trial | None:
    """GR114: a priority above that of all that the plan starts; then it is decided first, and alone it finds room
    beside what runs. Not of one that may borrow a domain that a queue keeps: that is lent last of all, whatever the
    priority."""
    world = bench.case.world
    top = max((world.problem.gangs[i].priority for i in world.started), default=None)
    lent = any(queue.kept for queue in world.problem.queues) and lendable(world.problem, bench.case.gang)
    if top is None or lent:
        return None
    return replace(t, setting=replace(t.setting, started=False), changes=(*t.changes, Repair("GR114", amount=top)))


def _double(bench: Bench) -> Iterator[Trial]:
    """Trials of two kinds of change: of the gang or the nodes and of the queues, of the gang twice, of the gang and its
    priority."""
    start = bench.start
    kinds = [*every(bench, start), *_fewer(bench, start)]
    if not bench.allowed(start) and not bench.fits(start):
        for steps in kinds:
            yield from _then_mended(bench, start, steps)
        for steps in more_nodes(bench, start)[:1]:
            yield from _then_mended(bench, start, steps)
    for a, one in enumerate(kinds):
        for two in kinds[a + 1 :]:
            yield from _both(bench, start, one, two)
    for steps in kinds:
        above = raised(bench, start)
        for trial in _least(bench, above, [steps]) if above is not None else ():
            priority, *others = trial.changes
            yield replace(trial, changes=(*others, priority))


def _then_mended(bench: Bench, start: Trial, steps: Sequence[Step]) -> Iterator[Trial]:
    """The least step with which it finds room, and what the queues then lack."""
    least = bench.least(start, steps, bench.fits)
    if least is not None:
        yield from _if_works(bench, mended(bench, least))


def _both(bench: Bench, start: Trial, one: Sequence[Step], two: Sequence[Step]) -> Iterator[Trial]:
    """The least second step beside the greatest first one, then the least first step beside that."""
    least = first(two, lambda step: bench.works(step(one[-1](start)))) if one else None
    if least is not None:
        yield from islice(_least(bench, start, [Steps(range(len(one)), lambda at: _joined(one[at], least))]), 1)


def _joined(one: Step, two: Step) -> Step:
    return lambda t: two(one(t))
