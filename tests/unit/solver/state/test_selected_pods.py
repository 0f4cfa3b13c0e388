"""Relations between pods in small worlds whose answer is seen at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from solver import solve
from solver.plan import Plan
from solver.problem import GroupQuota, InvalidProblemError, PodRule, Problem
from solver.validation.values import validate
from tests.builders.beside import beside
from tests.builders.plans import verified_plan
from tests.builders.problems import NodeSpec, edit, gang, nodes, pod_rule, problem, role, running_pods
from tests.builders.stories import assert_story
from tests.builders.strategies import with_quota

STORIES = beside(__file__)


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    assert_story(STORIES[story])


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


@pytest.mark.parametrize(("skew", "expected"), [(1, [2, 2, 2]), (4, None)])
def test_spread_pods_differ_by_the_skew_at_most(skew: int, expected: list[int] | None) -> None:
    at = [0, 0, 1, 1, 2, 2]
    world = counted(6, pod_rule("spread", at, max_skew=skew), nodes(6, gpu=8))
    found = by_domain(world, verified_plan(world))
    counts = [found.get(d, 0) for d in range(3)]
    assert max(counts) - min(counts) <= skew
    assert expected is None or counts == expected


def test_too_few_domains_count_from_zero() -> None:
    at = [0, 1]
    least = counted(4, pod_rule("spread", at, min_domains=3), nodes(2, gpu=8))
    assert verified_plan(least).decisions[0].action == "wait"
    enough = counted(4, pod_rule("spread", at, min_domains=2), nodes(2, gpu=8))
    assert by_domain(enough, verified_plan(enough)) == {0: 2, 1: 2}


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
