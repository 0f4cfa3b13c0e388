"""Plans that do not say what they do: actions, sums, batches, reasons, and claims about what they are worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from solver.facts import ResourceShortage, Undecided
from solver.plan import Objective, Plan
from solver.problem import Gang, Placement, Problem, SeparationWish
from solver.repairs import EndOfGangs, EndOfPods, FewerPods, MoreCapability, MoreNodes, OpenQueue, Restart
from tests.property.brute import alone_on_empty_cluster, feasible_sets
from tests.property.mutants.parts import Mutant, Mutators, PodsByGang, new_pods, pick_one, plan_of_pods, replace_at
from tests.property.mutants.pods import _starting_gangs


def waiting_with_new_pods(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    for g, _ in pick_one(random, new_pods(world, placed)):
        yield world, replace(made, decisions=replace_at(made.decisions, g, action="wait", facts=(Undecided(),)))


def fitting_gang_left_out_of_a_proof(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A gang of one role waits where nothing runs, and all is called proven."""
    idle = not any(gang.running for gang in world.gangs)
    for g in pick_one(random, [g for g in sorted(placed) if idle and _has_one_plain_role(world.gangs[g])]):
        made = plan_of_pods(world, {other: pods for other, pods in placed.items() if other != g})
        (batch,) = made.batches
        proven = tuple(replace(objective, verdict="proven") for objective in batch.objectives)
        yield world, replace(made, batches=(replace(batch, verdict="proven", objectives=proven),))


def _has_one_plain_role(gang: Gang) -> bool:
    plain = len(gang.roles) == 1 and not gang.subgroups and gang.minimum <= gang.roles[0].minimum
    role = gang.roles[0]
    return plain and not (role.owned_rules or role.selecting_rules or role.slot_requests)


def kept_and_started_confused(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    for g in pick_one(random, sorted(placed)):
        action = "start" if made.decisions[g].action == "keep" else "keep"
        yield world, replace(made, decisions=replace_at(made.decisions, g, action=action))


def placements_unsorted(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    for g in pick_one(random, [g for g in sorted(placed) if len(made.decisions[g].placements) > 1]):
        yield (
            world,
            replace(made, decisions=replace_at(made.decisions, g, placements=made.decisions[g].placements[::-1])),
        )


def placement_not_merged(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    spots = [(g, k) for g in sorted(placed) for k, place in enumerate(made.decisions[g].placements) if place.pods > 1]
    for g, k in pick_one(random, spots):
        places = made.decisions[g].placements
        halves = (replace(places[k], pods=1), replace(places[k], pods=places[k].pods - 1))
        yield (
            world,
            replace(made, decisions=replace_at(made.decisions, g, placements=(*places[:k], *halves, *places[k + 1 :]))),
        )


def placement_of_no_pods(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    for g in pick_one(random, [g for g in range(len(world.gangs)) if world.gangs[g].roles]):
        places = made.decisions[g].placements
        nowhere = Placement(len(world.gangs[g].roles) - 1, random.choice((-1, len(world.nodes))), 1)
        empty = Placement(len(world.gangs[g].roles), 0, 0)
        yield (
            world,
            replace(
                made, decisions=replace_at(made.decisions, g, placements=(*places, random.choice((nowhere, empty))))
            ),
        )


def decision_lost_or_swapped(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    decisions = list(plan_of_pods(world, placed).decisions)
    if len(decisions) > 1 and random.random() < 0.5:
        decisions.reverse()
    else:
        decisions.pop(random.randrange(len(decisions)))
    yield world, replace(plan_of_pods(world, placed), decisions=tuple(decisions))


def domain_wrong(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    for g in pick_one(random, list(range(len(world.gangs)))):
        here = made.decisions[g].domains
        other = random.choice([(*here, *here), here[1:], here[::-1], (*here, len(world.hypernodes))])
        if other != here:
            yield world, replace(made, decisions=replace_at(made.decisions, g, domains=other))


def gang_in_no_or_two_batches(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    for g in pick_one(random, [decision.gang for decision in made.decisions if decision.action != "keep"]):
        (batch,) = made.batches
        without = tuple(other for other in batch.gangs if other != g)
        gangs = random.choice((without, (*batch.gangs, g)))
        yield world, replace(made, batches=(replace(batch, gangs=gangs),))


def verdict_wrong(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    (batch,) = made.batches
    wrong = (
        Objective("placed", 4.0, 5.0, 0.25, "proven"),
        Objective("placed", 4.0, 5.0, 0.2, "within gap"),
        Objective("placed", 4.0, 5.0, 0.25, "within gap"),
        Objective("placed", float("nan"), 5.0, 0.25, "proven"),
    )
    yield world, replace(made, batches=(replace(batch, verdict="proven", objectives=(random.choice(wrong),)),))


def reason_missing_or_idle(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made = plan_of_pods(world, placed)
    g = random.randrange(len(world.gangs))
    facts = (Undecided(),) if g in placed else ()
    yield world, replace(made, decisions=replace_at(made.decisions, g, facts=facts))


def number_that_keeps_nobody_out(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    made, amount = plan_of_pods(world, placed), random.randint(0, 9)
    for g in pick_one(random, [g for g in range(len(world.gangs)) if g not in placed]):
        fact = ResourceShortage(amount, amount + random.randint(0, 3), 0)
        yield world, replace(made, decisions=replace_at(made.decisions, g, facts=(fact,)))


def repair_that_changes_nothing(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Nothing more of something, an open queue opened, as many pods or more, the end of those who hold nothing."""
    made = plan_of_pods(world, placed)
    waiting = [g for g in range(len(world.gangs)) if g not in placed and not world.gangs[g].running]
    for g in pick_one(random, waiting):
        idle = (
            MoreCapability(queue=0, resource=0, amount=0),
            FewerPods(role=0, amount=3, current_amount=random.randint(1, 3)),
            EndOfGangs(gangs=(g,)),
            EndOfGangs(gangs=tuple(waiting)),
            OpenQueue(queue=random.randrange(len(world.queues))),
            Restart(),
            MoreNodes(node=len(world.nodes), amount=1),
        )
        wrong = random.choice(idle)
        repair = random.choice((wrong, EndOfPods(also=(wrong,))))
        yield world, replace(made, decisions=replace_at(made.decisions, g, repairs=(repair,)))


def never_for_a_gang_that_fits(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A gang of one pod that brute force can place on the empty cluster."""
    made = plan_of_pods(world, placed)
    single = [g for g, gang in enumerate(world.gangs) if gang.minimum == 1 and not gang.subgroups]
    simple = [g for g in single if g not in placed]
    for g in pick_one(random, [g for g in simple if frozenset({0}) in feasible_sets(alone_on_empty_cluster(world, g))]):
        yield world, replace(made, decisions=replace_at(made.decisions, g, facts=(Undecided(never=True),)))


def _with_objective(made: Plan, objective: Objective) -> Plan:
    (batch,) = made.batches
    return replace(made, batches=(replace(batch, objectives=(*batch.objectives, objective)),))


def number_of_gangs_falsified(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    for g in pick_one(random, list(range(len(world.gangs)))):
        priority = world.gangs[g].priority
        number = sum(1 for j in _starting_gangs(world, placed) if world.gangs[j].priority == priority) + random.choice(
            (-1, 1, 2)
        )
        yield (
            world,
            _with_objective(
                plan_of_pods(world, placed), Objective(f"gangs[{priority}]", number, number, 0.0, "proven")
            ),
        )


def loss_falsified(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """Nobody is evicted here."""
    name, value = random.choice((("loss", 3.0), ("whole gangs", 1.0), ("victims", 1.0)))
    yield world, _with_objective(plan_of_pods(world, placed), Objective(name, value, value, 0.0, "proven"))


def company_falsified(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    """A gang would rather not share its hypernode with foreign pods, and does: it costs neither less nor more."""
    for g, (_, node) in pick_one(random, new_pods(world, placed)):
        if (leaf := world.nodes[node].leaf) is not None:
            wish = SeparationWish(world.hypernodes[leaf].tier, frozenset(), frozenset({leaf}), 50)
            gangs = tuple(replace(x, separation_wishes=(wish,)) if k == g else x for k, x in enumerate(world.gangs))
            wishing = replace(world, gangs=gangs)
            made, gang = plan_of_pods(wishing, placed), world.gangs[g]
            least = max(gang.minimum, sum(role.minimum for role in gang.roles))
            is_sure = made.decisions[g].action == "start" and least == sum(role.replicas for role in gang.roles)
            value = random.choice((0.0, 100.0) if is_sure else (100.0,))
            yield wishing, _with_objective(made, Objective("separations", value, value, 0.0, "proven"))


def bound_on_the_wrong_side(world: Problem, placed: PodsByGang, random: Random) -> Iterator[Mutant]:
    name, value, bound = random.choice(
        (("placed[0]", 5.0, 4.0), ("oldest first", 5.0, 4.0), ("spread", 5.0, 6.0), ("nodes", 5.0, 6.0))
    )
    yield world, _with_objective(plan_of_pods(world, placed), Objective(name, value, bound, 0.2, "limit reached"))


MUTATORS: Mutators = {
    waiting_with_new_pods: "actions",
    kept_and_started_confused: "actions",
    placements_unsorted: "decisions",
    placement_not_merged: "decisions",
    placement_of_no_pods: "decisions",
    decision_lost_or_swapped: "decisions",
    domain_wrong: "domains",
    gang_in_no_or_two_batches: "batches",
    verdict_wrong: "batches",
    reason_missing_or_idle: "reasons",
    number_that_keeps_nobody_out: "reasons",
    repair_that_changes_nothing: "reasons",
    never_for_a_gang_that_fits: "reasons",
    fitting_gang_left_out_of_a_proof: "idle_room",
    number_of_gangs_falsified: "objective_values",
    loss_falsified: "objective_values",
    company_falsified: "objective_values",
    bound_on_the_wrong_side: "objective_values",
}
