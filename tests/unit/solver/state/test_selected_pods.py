"""Relations between pods in small worlds whose answer is seen at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from solver import solve
from solver.facts import PodRuleConflict
from solver.plan import Plan
from solver.problem import GroupQuota, InvalidProblemError, PodRule, Problem, RuleKind
from solver.validation.values import validate
from tests.builders.plans import verified_plan
from tests.builders.problems import (
    NodeSpec,
    edit,
    gang,
    hard_topology,
    nodes,
    pod_rule,
    problem,
    role,
    running_pods,
    subgroup,
)
from tests.builders.strategies import with_quota


def by_domain(world: Problem, made: Plan, rho: int = 0) -> Mapping[int | None, int]:
    """New pods of all gangs, by the relation's domain."""
    found: Counter[int | None] = Counter()
    for decision in made.decisions:
        for place in decision.placements if decision.action == "start" else ():
            found[world.pod_rules[rho].domains[place.node]] += place.pods
    return found


def counted(pods: int, rule: PodRule, *machines: list[NodeSpec], gpu: int = 1) -> Problem:
    """One gang, whose pods own the rule and are counted by it."""
    own = gang("a", role(pods, owned_rules=[0], selecting_rules=[0], gpu=gpu))
    return problem(*machines, own, pod_rules=(rule,))


def test_pods_that_keep_their_like_away_take_a_node_each() -> None:
    world = counted(4, pod_rule("anti-affinity", range(4)), nodes(4, gpu=8))
    assert by_domain(world, verified_plan(world)) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_one_pod_more_than_hosts_never_fits_and_its_fact_names_the_pod_rule() -> None:
    world = counted(5, pod_rule("anti-affinity", range(4)), nodes(4, gpu=8))
    (decision,) = verified_plan(world).decisions
    assert decision.facts == (PodRuleConflict(role=0, pod_rule=0, never=True),)


@pytest.mark.parametrize(("pods", "gpus", "codes"), [(3, 9, ["GW103"]), (5, 8, ["GW117", "GW108"])])
def test_a_pod_rule_is_blamed_only_where_it_is_an_obstacle(pods: int, gpus: int, codes: list[str]) -> None:
    """Five pods of eight GPUs are too many for four hosts, and for their GPUs too."""
    world = counted(pods, pod_rule("anti-affinity", range(4)), nodes(4, gpu=8), gpu=gpus)
    (decision,) = verified_plan(world).decisions
    assert [fact.code for fact in decision.facts] == codes


def test_the_pods_of_others_close_their_domains() -> None:
    world = problem(
        nodes(3, gpu=8),
        gang("a", role(1, owned_rules=[0], gpu=1)),
        pod_rules=(pod_rule("anti-affinity", [0, 0, 1], selected_present={0: 1}),),
    )
    assert by_domain(world, verified_plan(world)) == {1: 1}


def test_a_running_pod_that_keeps_others_away_does_so_to_new_ones() -> None:
    world = problem(
        nodes(2, gpu=8),
        gang("there", role(1, owned_rules=[0], gpu=1), running=(running_pods(0, 0, 1),)),
        gang("new", role(2, selecting_rules=[0], gpu=1)),
        pod_rules=(pod_rule("anti-affinity", range(2)),),
    )
    assert [(p.node, p.pods) for p in verified_plan(world).decisions[1].placements] == [(1, 2)]


@pytest.mark.parametrize(("kind", "action"), [("anti-affinity", "wait"), ("separation", "start")])
def test_an_owner_of_a_separation_that_runs_keeps_nobody_away(kind: RuleKind, action: str) -> None:
    world = problem(
        nodes(1, gpu=8),
        gang("there", role(1, owned_rules=[0], gpu=1), running=(running_pods(0, 0, 1),)),
        gang("new", role(1, selecting_rules=[0], gpu=4)),
        pod_rules=(pod_rule(kind, [0]),),
    )
    assert verified_plan(world).decisions[1].action == action


@pytest.mark.parametrize(("limit", "starts"), [(3, 0), (4, 1), (7, 1), (8, 2)])
def test_a_queue_holds_no_more_than_its_quota_of_a_node_group(limit: int, starts: int) -> None:
    world = problem(
        nodes(2, gpu=8),
        gang("a", role(1, gpu=2)),
        gang("b", role(2, gpu=2)),
        gang("there", role(1, gpu=2), running=(running_pods(0, 0, 1),)),
        node_groups=("(none)",),
    )
    world = with_quota(world, GroupQuota(0, 0, world.resources.index("gpu"), limit), (0,))
    assert sum(decision.action == "start" for decision in verified_plan(world).decisions) == starts


def test_nodes_without_the_label_are_free_of_a_rule_that_keeps_apart() -> None:
    world = counted(3, pod_rule("anti-affinity", [0, None]), nodes(2, gpu=8))
    assert by_domain(world, verified_plan(world))[None] >= 2


def test_pods_that_need_their_like_share_the_one_domain_that_holds_them_all() -> None:
    world = counted(8, pod_rule("affinity", [0, 0, 0, 1, 1]), nodes(3, gpu=2), nodes(2, gpu=4))
    assert by_domain(world, verified_plan(world)) == {1: 8}


def test_an_owner_of_an_affinity_goes_where_the_selected_pods_run() -> None:
    world = problem(
        nodes(4, gpu=8),
        gang("cache", role(1, selecting_rules=[0], gpu=1), running=(running_pods(0, 3, 1),)),
        gang("reader", role(2, owned_rules=[0], gpu=1)),
        pod_rules=(pod_rule("affinity", [0, 0, 1, 1]),),
    )
    assert by_domain(world, verified_plan(world)) == {1: 2}


def test_an_owner_of_an_affinity_starts_with_a_selected_gang_that_is_served_later() -> None:
    world = problem(
        nodes(2, gpu=8),
        gang("reader", role(2, owned_rules=[0], gpu=1)),
        gang("cache", role(1, selecting_rules=[0], gpu=1)),
        pod_rules=(pod_rule("affinity", range(2)),),
    )
    made = verified_plan(world)
    assert [decision.action for decision in made.decisions] == ["start", "start"]
    assert len(by_domain(world, made)) == 1


def test_affinity_to_pods_that_do_not_exist_is_no_permanent_fact() -> None:
    world = problem(
        nodes(2, gpu=8), gang("a", role(1, owned_rules=[0], gpu=1)), pod_rules=(pod_rule("affinity", range(2)),)
    )
    (decision,) = verified_plan(world).decisions
    assert [(fact.code, fact.never) for fact in decision.facts] == [("GW117", False)]


@pytest.mark.parametrize(("skew", "expected"), [(1, [2, 2, 2]), (4, None)])
def test_spread_pods_differ_by_the_skew_at_most(skew: int, expected: list[int] | None) -> None:
    at = [0, 0, 1, 1, 2, 2]
    world = counted(6, pod_rule("spread", at, max_skew=skew), nodes(6, gpu=8))
    found = by_domain(world, verified_plan(world))
    counts = [found.get(d, 0) for d in range(3)]
    assert max(counts) - min(counts) <= skew
    assert expected is None or counts == expected


def test_a_full_domain_limits_the_others_of_a_spread() -> None:
    world = counted(3, pod_rule("spread", range(3)), nodes(2, gpu=8), nodes(1, gpu=0))
    (decision,) = verified_plan(world).decisions
    assert [(fact.code, fact.never) for fact in decision.facts] == [("GW117", False)]


def test_too_few_domains_count_from_zero() -> None:
    at = [0, 1]
    least = counted(4, pod_rule("spread", at, min_domains=3), nodes(2, gpu=8))
    assert verified_plan(least).decisions[0].action == "wait"
    enough = counted(4, pod_rule("spread", at, min_domains=2), nodes(2, gpu=8))
    assert by_domain(enough, verified_plan(enough)) == {0: 2, 1: 2}


def test_parts_of_a_subgroup_stay_whole_while_their_pods_keep_apart() -> None:
    tree = {"s0": (1, None), "s1": (1, None)}
    world = problem(
        nodes(3, leaf="s0", gpu=8),
        nodes(3, leaf="s1", gpu=8),
        gang("a", role(4, owned_rules=[0], selecting_rules=[0], gpu=1), subgroups=(subgroup(2),)),
        hypernodes=tree,
        pod_rules=(pod_rule("anti-affinity", range(6)),),
    )
    (decision,) = verified_plan(world).decisions
    assert decision.action == "start"


def test_a_hard_topology_gang_with_hosts_apart_takes_the_supernode_with_enough_hosts() -> None:
    tree = {"s0": (1, None), "s1": (1, None)}
    world = problem(
        nodes(2, leaf="s0", gpu=8),
        nodes(4, leaf="s1", gpu=1),
        gang("a", role(3, owned_rules=[0], selecting_rules=[0], gpu=1), topology=hard_topology(1)),
        hypernodes=tree,
        pod_rules=(pod_rule("anti-affinity", range(6)),),
    )
    assert verified_plan(world).decisions[0].domains == (1,)


def test_two_gangs_that_keep_each_other_away_share_the_hosts_exactly() -> None:
    """The greedy gives the first gang the nodes that only the second can use; the model counts the nodes of a place
    together and must split them."""
    world = problem(
        nodes(4, gpu=8),
        gang("a", role(2, owned_rules=[0], selecting_rules=[0], gpu=1)),
        gang("b", role(2, owned_rules=[0], selecting_rules=[0], gpu=8)),
        pod_rules=(pod_rule("anti-affinity", range(4)),),
    )
    made = verified_plan(world)
    assert [decision.action for decision in made.decisions] == ["start", "start"]
    assert by_domain(world, made) == {0: 1, 1: 1, 2: 1, 3: 1}


def test_an_elastic_gang_grows_no_further_than_its_pod_rule_allows() -> None:
    world = problem(
        nodes(3, gpu=8),
        gang("a", role(8, minimum=1, owned_rules=[0], selecting_rules=[0], gpu=1)),
        pod_rules=(pod_rule("anti-affinity", range(3)),),
    )
    assert by_domain(world, verified_plan(world)) == {0: 1, 1: 1, 2: 1}


WORLD = problem(
    nodes(2, gpu=8),
    gang("a", role(1, owned_rules=[0], selecting_rules=[0], gpu=1)),
    pod_rules=(pod_rule("spread", [0, 1]),),
)


@pytest.mark.parametrize(
    ("path", "value", "blamed"),
    [
        (("pod_rules", 0, "rule_kind"), "near", None),
        (("pod_rules", 0, "domains"), (0,), None),
        (("pod_rules", 0, "domains", 1), 2, None),
        (("pod_rules", 0, "domains"), (0, None), ("pod_rules", 0, "selected_present", 1)),
        (("pod_rules", 0, "selected_present", 1), -1, None),
        (("pod_rules", 0, "owners_present"), (1,), None),
        (("pod_rules", 0, "max_skew"), 0, None),
        (("pod_rules", 0, "min_domains"), 0, None),
        (("gangs", 0, "roles", 0, "owned_rules"), (1,), ("gangs", 0, "roles", 0, "owned_rules", 0)),
        (("gangs", 0, "roles", 0, "selecting_rules"), (0, 0), None),
    ],
)
def test_a_pod_rule_that_contradicts_itself_is_refused(
    path: tuple[str | int, ...], value: object, blamed: tuple[str | int, ...] | None
) -> None:
    validate(WORLD)
    with pytest.raises(InvalidProblemError) as caught:
        validate(edit(WORLD, path, value))
    assert caught.value.where == (blamed or path)


def test_a_pod_rule_without_owners_changes_nothing() -> None:
    plain = problem(nodes(4, gpu=8), gang("a", role(4, gpu=2)))
    idle = problem(
        nodes(4, gpu=8), gang("a", role(4, gpu=2)), pod_rules=(PodRule("anti-affinity", (0, 0, 0, 0), (3,)),)
    )
    assert verified_plan(plain).decisions == verified_plan(idle).decisions


@pytest.mark.parametrize("own", [False, True])
def test_a_rule_that_only_the_gangs_own_pods_could_meet_never_holds(own: bool) -> None:
    """Three pods in one domain of two. Others could come and be company for them in the second one, unless the rule
    counts nobody else."""
    world = counted(3, replace(pod_rule("affinity", range(2)), own_gang_only=own), nodes(2, gpu=2))
    (decision,) = solve(world).decisions
    assert [(fact.code, fact.never) for fact in decision.facts] == [("GW117", own)]


@pytest.mark.parametrize(("present", "pods"), [({0: 1}, 1), ({}, 2)])
def test_a_pod_rule_of_a_gangs_own_pods_counts_no_other_pods(present: dict[int, int], pods: int) -> None:
    """One pod of no gang that is counted, or two gangs that are."""
    gangs = [gang(name, role(1, owned_rules=[0], selecting_rules=[0], gpu=1)) for name in "ab"[:pods]]
    with pytest.raises(InvalidProblemError, match="own"):
        validate(
            problem(
                nodes(2, gpu=2),
                *gangs,
                pod_rules=(replace(pod_rule("affinity", range(2), selected_present=present), own_gang_only=True),),
            )
        )
