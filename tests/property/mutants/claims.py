"""More ways to break a plan: minima missed, running pods moved, winners that win nothing, and claims about what the plan is worth.

As in `mutants`, each is wrong by construction, and names the rule that it breaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from solver.plan import Objective, Plan
from solver.problem import Gang, Problem
from tests.property.brute import is_kept, running
from tests.property.mutants import Mutant, Placed, _edit, _evicting, _lenient, _some, _victims, as_plan


def _starting(world: Problem, placed: Placed) -> list[int]:
    return [g for g in sorted(placed) if not is_kept(world.gangs[g])]


def gang_minimum_missed(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """The gang now needs one pod more than it has, and could have it."""
    for g in _some(random, _starting(world, placed)):
        gang, pods = world.gangs[g], sum(placed[g].values())
        larger = [replace(role, replicas=role.replicas + pods + 1) for role in gang.roles]
        stricter = replace(world, gangs=_edit(world.gangs, g, minimum=pods + 1, roles=tuple(larger)))
        yield stricter, as_plan(stricter, placed)


def part_missing(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """One part more of the subgroup is asked for than there is."""
    for g in _some(random, [g for g in _starting(world, placed) if world.gangs[g].subgroups]):
        gang = world.gangs[g]
        part = gang.subgroups[0]
        pods = sum(n for (role, _), n in placed[g].items() if role in part.roles)
        roles = tuple(replace(role, replicas=role.replicas + part.size) if t in part.roles else role for t, role in enumerate(gang.roles))
        more: Gang = replace(gang, roles=roles, subgroups=(replace(part, minimum=pods // part.size + 1), *gang.subgroups[1:]))
        stricter = replace(world, gangs=(*world.gangs[:g], more, *world.gangs[g + 1 :]))
        yield stricter, as_plan(stricter, placed)


def running_pod_moved(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """To another node; that it has room there does not matter."""
    spots = [(g, place) for g in sorted(placed) for place in world.gangs[g].running if len(world.nodes) > 1]
    for g, place in _some(random, spots):
        changed = Counter(placed[g])
        changed[place.role, place.node] = running(world.gangs[g])[place.role, place.node] - 1
        changed[place.role, (place.node + 1) % len(world.nodes)] += 1
        yield world, as_plan(world, placed | {g: changed})


def evicted_for_a_gang_that_does_not_start(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g, j, pods in _victims(world, placed, random):
        made = _evicting(world, as_plan(world, placed), g, j, pods)
        others = [k for k, decision in enumerate(made.decisions) if decision.action != "start"]
        wrong = random.choice([(j, j), (), *((k,) for k in (*others, len(world.gangs)))])
        yield _lenient(world, g, j), replace(made, decisions=_edit(made.decisions, g, evicted_for=wrong))


def _claiming(made: Plan, objective: Objective) -> Plan:
    (batch,) = made.batches
    return replace(made, batches=(replace(batch, objectives=(*batch.objectives, objective)),))


def number_of_gangs_falsified(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    for g in _some(random, list(range(len(world.gangs)))):
        priority = world.gangs[g].priority
        number = sum(1 for j in _starting(world, placed) if world.gangs[j].priority == priority) + random.choice((-1, 1, 2))
        yield world, _claiming(as_plan(world, placed), Objective(f"gangs[{priority}]", number, number, 0.0, "proven"))


def loss_falsified(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    """Nobody is evicted here."""
    name, value = random.choice((("loss", 3.0), ("victims", 1.0)))
    yield world, _claiming(as_plan(world, placed), Objective(name, value, value, 0.0, "proven"))


def bound_on_the_wrong_side(world: Problem, placed: Placed, random: Random) -> Iterator[Mutant]:
    name, value, bound = random.choice((("placed[0]", 5.0, 4.0), ("oldest first", 5.0, 4.0), ("spread", 5.0, 6.0), ("nodes", 5.0, 6.0)))
    yield world, _claiming(as_plan(world, placed), Objective(name, value, bound, 0.2, "limit reached"))


CLAIMS: dict[Callable[[Problem, Placed, Random], Iterator[Mutant]], str] = {
    gang_minimum_missed: "actions",
    part_missing: "actions",
    running_pod_moved: "running_stay",
    evicted_for_a_gang_that_does_not_start: "evictions",
    number_of_gangs_falsified: "values",
    loss_falsified: "values",
    bound_on_the_wrong_side: "values",
}
"""A way to break a plan -> the rule that it breaks."""
