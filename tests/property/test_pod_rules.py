"""Relations between pods: the solver and the verifier against brute force on tiny problems."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from solver import solve
from solver.plan import Plan
from solver.problem import EvictionTerms, Gang, HyperNode, Node, Placement, PodRule, Problem, Queue, Role, Topology
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.evictions import contested, crowded
from tests.builders.plans import solve_without_repairs
from tests.builders.strategies import (
    RESOURCES,
    contended_problems,
    problems_with_pod_rules,
    problems_with_quotas,
    sampled,
    with_pod_rules,
    with_quotas,
)
from tests.property.brute import FreeCapacity, admission_score, alone_on_empty_cluster, meets_minima_now
from tests.property.brute_evictions import lacking, least_loss, paid
from tests.property.brute_pod_rules import feasible_sets_under_rules, keeps_pod_rules
from tests.property.mutants import MUTATORS, PodsByGang
from tests.property.plan_events import plan_events, rare_events
from tests.property.test_solve import admitted


def assert_best_set(world: Problem) -> Plan:
    """The plan is right, and no set of gangs that fits is better by the objectives. A gang reported as never fitting
    does not fit an empty cluster."""
    made = solve_without_repairs(world)
    assert verify(world, made) == []
    sets = feasible_sets_under_rules(world)
    assert admitted(made) in sets
    assert admission_score(world, admitted(made)) == max(admission_score(world, candidate) for candidate in sets)
    for decision in made.decisions:
        if any(fact.never for fact in decision.facts):
            assert feasible_sets_under_rules(alone(world, decision.gang)) == [frozenset()]
    return made


@settings(max_examples=35)
@given(problems_with_pod_rules())
def test_the_admitted_set_is_feasible_and_the_best_by_the_objectives(world: Problem) -> None:
    assert_best_set(world)


@settings(max_examples=50)
@given(problems_with_pod_rules(running="whole gangs"), st.randoms(use_true_random=True))
def test_beside_running_gangs_too_and_mutants_of_plans_are_caught_each_by_its_rule(
    world: Problem, random: Random
) -> None:
    placed: PodsByGang = {
        decision.gang: Counter({(place.role, place.node): place.pods for place in decision.placements})
        for decision in assert_best_set(world).decisions
        if decision.action != "wait"
    }
    for mutate, rule in MUTATORS.items():
        if rule in ("anti_affinity", "separation", "affinity", "topology_spread", "quota"):
            for problem, broken in mutate(world, placed, random):
                assert rule in {violation.rule for violation in verify(problem, broken)}, mutate.__name__


@settings(max_examples=60)
@given(st.one_of(problems_with_quotas(), problems_with_quotas(related=True)))
def test_limits_of_node_groups_admit_the_best_set(world: Problem) -> None:
    assert_best_set(world)


@settings(max_examples=60)
@given(st.one_of(problems_with_quotas(elastic=True), st.one_of(contested(), crowded()).flatmap(with_quotas)))
def test_growth_and_evictions_keep_limits_of_node_groups(world: Problem) -> None:
    assert verify(world, solve_without_repairs(world)) == []


@settings(max_examples=30)
@given(problems_with_pod_rules(running="anything", elastic=True))
def test_whatever_runs_and_however_gangs_grow_the_plan_keeps_every_relation(world: Problem) -> None:
    made = solve(world)
    assert verify(world, made) == []
    new = Counter(
        {(d.gang, p.role, p.node): p.pods for d in made.decisions for p in d.placements if d.action != "wait"}
    )
    for g, gang in enumerate(world.gangs):
        for p in gang.running:
            new[g, p.role, p.node] -= p.pods
    assert keeps_pod_rules(world, +new)


def test_plans_with_evictions_keep_every_pod_rule() -> None:
    seen = Counter[str]()

    @settings(max_examples=50)
    @given(st.one_of(contested(), contested(), crowded()).flatmap(with_pod_rules))
    def kept(world: Problem) -> None:
        plan = solve_without_repairs(world)
        assert verify(world, plan) == []
        found = plan_events(world, plan)
        seen.update({*found, "evicts for related"} if {"evicts", "related"} <= found else found)

    kept()
    assert rare_events(seen, evicts=14, related=12, evicts_for_related=8) == {}


def test_an_anti_affinity_is_opened_at_the_least_loss_that_any_choice_of_victims_has() -> None:
    seen = Counter[str]()

    @settings(max_examples=95)
    @given(st.one_of(apart(), apart_in_domains()))
    def opened(world: Problem) -> None:
        last = len(world.gangs) - 1
        assume([g for g, gang in enumerate(world.gangs) if not meets_minima_now(gang)] == [last])
        plan, best = solve_without_repairs(world), least_loss(world, last)
        assert verify(world, plan) == []
        assert (plan.decisions[last].action, paid(plan, world)) == (
            ("wait", (0, 0)) if best is None else ("start", best)
        )
        if best not in (None, (0, 0)) and not keeps_pod_rules(world, new_pods(world, plan)):
            seen["opened"] += 1
            seen["room elsewhere"] += not lacking(world, FreeCapacity(world), world.gangs[last])

    opened()
    assert rare_events(seen, opened=9, room_elsewhere=3) == {}


@st.composite
def apart(draw: st.DrawFn) -> Problem:
    """As `crowded`, with room next to the pods that run, an anti-affinity of hosts or of some of them, which most roles
    own or are selected by, and perhaps another rule."""
    world = draw(crowded())
    room = draw(st.sampled_from((4, 8, 8)))
    nodes = tuple(replace(node, capacity=(room, room), free=(room, room)) for node in world.nodes)
    first = draw(st.sampled_from((tuple(range(len(nodes))), (0,) * len(nodes), (0, 1, 1)[: len(nodes)])))
    rules: tuple[PodRule, ...] = (
        PodRule("anti-affinity", first, (0,) * len(set(first))),
        PodRule("spread", first, (0,) * len(set(first))),
    )
    rules = rules[: draw(st.sampled_from((1, 1, 2)))]
    ties, every = st.sampled_from(((), (0,), (0,))), tuple(range(len(rules)))
    gangs = []
    for gang in world.gangs:
        roles = [replace(role, owned_rules=draw(ties), selecting_rules=draw(ties)) for role in gang.roles]
        gangs.append(replace(gang, roles=tuple(roles)))
    last = gangs.pop()
    binding = draw(st.sampled_from((((0,), every), ((0,), ()), ((), (0,)), (every, every))))
    roles = [replace(role, owned_rules=binding[0], selecting_rules=binding[1]) for role in last.roles]
    last = replace(last, roles=tuple(roles), priority=draw(st.sampled_from((last.priority, 9))))
    return replace(world, nodes=nodes, gangs=(*gangs, last), pod_rules=rules)


@st.composite
def apart_in_domains(draw: st.DrawFn) -> Problem:
    """Supernodes with a pod or two on each node that may be evicted, and a gang that must be in one of them. An
    anti-affinity of hosts or supernodes, which most pods own or are selected by."""
    leaves = (0, 1, *draw(sampled(((), (0,), (1,)))))
    sizes = [draw(sampled((4, 8, 8))) for _ in leaves]
    nodes = tuple(Node(f"n{n}", 0, leaves[n], (4, size), (4, size)) for n, size in enumerate(sizes))
    both = frozenset({0})

    gangs = list[Gang]()
    for n, size in enumerate(sizes):
        for gpus in draw(sampled(((4,), (2, 2), (1, 3), (2,), (size,)))):
            ties = draw(sampled((((0,), (0,)), ((0,), ()), ((), (0,)), ((), (0,)), ((), ()))))
            pod, loss = Role("r", 1, 1, (0, gpus), both, *ties), draw(st.integers(1, 5))
            run = (Placement(0, n, 1),)
            terms = EvictionTerms(evictable=True, loss=loss)
            gangs.append(Gang(f"runs{len(gangs)}", 0, 0, 0, 1, (pod,), running=run, eviction=terms))
    pods, ties = draw(sampled((1, 2, 2))), draw(sampled((((0,), ()), ((), (0,)))))
    asks = Role("r", pods, pods, (0, draw(sampled((2, 4, 4)))), both, *ties)
    gangs.append(Gang("asks", 0, 9, 9, pods, (asks,), Topology("hard", 1)))
    domains = draw(sampled((leaves, tuple(range(len(leaves))))))
    rule = PodRule("anti-affinity", domains, (0,) * len(set(domains)))
    tree = tuple(HyperNode(name, 1) for name in ("s0", "s1"))
    queue = Queue("q", None, 1, 0, (None, None), (None, None), (None, None), (0, 0))
    return Problem(RESOURCES, nodes, tree, (queue,), tuple(gangs), preempt_enabled=True, pod_rules=(rule,))


def new_pods(world: Problem, plan: Plan) -> Counter[tuple[int, int, int]]:
    """(gang, role, node) -> pods, of the gang that starts."""
    return Counter(
        {(d.gang, p.role, p.node): p.pods for d in plan.decisions if d.action == "start" for p in d.placements}
    )


@settings(max_examples=30)
@given(problems_with_pod_rules(running="whole gangs", elastic=True))
def test_scattered_pods_keep_every_relation(world: Problem) -> None:
    scattered = replace(world, policy=replace(world.policy, spread_pods=True))
    assert verify(scattered, solve_without_repairs(scattered)) == []


def test_a_gang_blocked_only_by_a_pod_rule_starts_exactly_without_it() -> None:
    """Next to what runs: nobody asks any more who of the gang is where."""
    seen = Counter[str]()

    @settings(max_examples=60)
    @given(
        st.one_of(
            problems_with_pod_rules(running="whole gangs"),
            contended_problems().flatmap(with_pod_rules),
            crowded().flatmap(with_pod_rules),
        )
    )
    def blamed(world: Problem) -> None:
        for decision in solve_without_repairs(world).decisions:
            gang, facts = world.gangs[decision.gang], decision.facts
            if [fact.code for fact in facts] != ["GW117"] or facts[0].never or gang.running:
                continue
            seen["GW117"] += 1
            runs = tuple(other for other in world.gangs if other.running)
            loose = replace(gang, roles=tuple(replace(role, owned_rules=(), selecting_rules=()) for role in gang.roles))
            with_it, without = (feasible_sets_under_rules(replace(world, gangs=(*runs, one))) for one in (gang, loose))
            assert not any(len(runs) in started for started in with_it)
            assert any(len(runs) in started for started in without)

    blamed()
    assert rare_events(seen, GW117=3) == {}


def alone(world: Problem, g: int) -> Problem:
    """Gang g on the empty cluster, among all the company that it may ask for: only what keeps pods apart is left."""
    empty = [replace(r, selected_present=(0,) * len(r.selected_present), owners_present=()) for r in world.pod_rules]
    only_forbid = {rho for rho, relation in enumerate(world.pod_rules) if relation.only_forbids}
    lone = alone_on_empty_cluster(world, g)
    (gang,) = lone.gangs
    roles = tuple(
        replace(
            r,
            owned_rules=tuple(b for b in r.owned_rules if b in only_forbid),
            selecting_rules=tuple(m for m in r.selecting_rules if m in only_forbid),
        )
        for r in gang.roles
    )
    return replace(lone, gangs=(replace(gang, roles=roles),), pod_rules=tuple(empty))
