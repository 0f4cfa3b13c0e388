"""subGroupPolicy of bare PodGroups: when Volcano would start what, worked by hand, and what the plan does."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.outcome import Outcome
from tests.builders.cluster_objects import node, pod
from tests.builders.declared import declared
from tests.builders.repositories import compile_pod_group, group_pods, pod_group, subgroup_policy


def by_domain(outcome: Outcome) -> dict[str, list[int]]:
    """Role -> its pods on each node, most first."""
    (decided,) = outcome.decisions
    return {role: sorted(nodes.values(), reverse=True) for role, nodes in decided.pods.items() if nodes}


def test_each_subgroup_starts_with_the_pods_that_make_it_ready() -> None:
    """Two subgroups of 4, ready with 2 each, in two supernodes of 2: Volcano starts 2 + 2."""
    outcome = compile_pod_group(2, 2, pod_group(4, subgroup_policy(2, 2)), *group_pods("a", 4), *group_pods("b", 4))
    assert by_domain(outcome) == {"pods": [2], "pods-1": [2]}


def test_a_subgroup_that_may_grow_stays_in_one_domain() -> None:
    """One subgroup of 4, ready with 2, in supernodes of 3: it starts, and grows to 3; the fourth GPU would be in
    another supernode."""
    assert by_domain(compile_pod_group(2, 3, pod_group(2, subgroup_policy(2, 1)), *group_pods("a", 4))) == {"pods": [3]}
    soft = compile_pod_group(2, 3, pod_group(2, subgroup_policy(2, 1, "soft")), *group_pods("a", 4))
    assert by_domain(soft) == {"pods": [3, 1]}, "a wish does not bind"


def test_two_subgroups_in_the_room_for_one_wait_and_say_why() -> None:
    """A subgroup is ready with 2 pods of 2 GPUs: no supernode of 3 GPUs holds that, though 12 GPUs are free."""
    (decided,) = compile_pod_group(
        4, 3, pod_group(4, subgroup_policy(2, 2)), *group_pods("a", 3, gpus=2), *group_pods("b", 3, gpus=2)
    ).decisions
    assert (decided.action, decided.never) == ("wait", True)
    assert [(reason.code, reason.facts["subgroup"]) for reason in decided.reasons][:1] == [("GW117", "s/a")]
    assert decided.reasons[0].message.startswith("subgroup s/a must sit inside one tier-1 domain, and none has room")
    assert decided.reasons[0].sources[0].field == "subgroup s/a"


@pytest.mark.parametrize(("least", "action"), [(4, "start"), (5, "wait")])
def test_the_gangs_own_minimum_counts_beside_its_subgroups(least: int, action: str) -> None:
    """Two supernodes of 2 hold 2 + 2 and no more."""
    (decided,) = compile_pod_group(
        2, 2, pod_group(least, subgroup_policy(2, 2)), *group_pods("a", 4), *group_pods("b", 4)
    ).decisions
    assert (decided.action, decided.never) == (action, action == "wait")


def test_any_of_the_subgroups_may_be_the_needed_ones_where_all_are_whole() -> None:
    """One subgroup of 2 must be ready: a's pods fit no node, b's do. That a comes first by its label does not
    matter."""
    outcome = compile_pod_group(
        1, 4, pod_group(2, subgroup_policy(2, 1)), *group_pods("a", 2, gpus=3), *group_pods("b", 2, gpus=2)
    )
    assert by_domain(outcome) == {"pods-1": [2]}
    (decided,) = compile_pod_group(
        1, 4, pod_group(2, subgroup_policy(2, 2)), *group_pods("a", 2, gpus=3), *group_pods("b", 2, gpus=2)
    ).decisions
    assert (decided.action, decided.never) == ("wait", True), "and both together never fit"


def test_unequal_growing_subgroups_are_chosen_from_and_the_gang_has_no_permanent_fact() -> None:
    """One of two subgroups must be ready with 2 of 3 pods; a's are too large for any node. The plan asks for a, and
    does not say never."""
    (decided,) = compile_pod_group(
        1, 4, pod_group(2, subgroup_policy(2, 1)), *group_pods("a", 3, gpus=5), *group_pods("b", 3, gpus=2)
    ).decisions
    assert (decided.action, decided.never) == ("wait", False)


def test_equal_subgroups_leave_no_choice() -> None:
    (decided,) = compile_pod_group(
        1, 4, pod_group(2, subgroup_policy(2, 1)), *group_pods("a", 3, gpus=5), *group_pods("b", 3, gpus=5)
    ).decisions
    assert (decided.action, decided.never) == ("wait", True)


def test_a_subgroup_that_is_not_needed_has_none_of_its_pods_or_is_ready() -> None:
    """5 GPUs: a is needed with 2 and grows to 4; of b one pod more would fit, and Volcano starts no subgroup with less
    than what makes it ready."""
    outcome = compile_pod_group(1, 5, pod_group(2, subgroup_policy(2, 1)), *group_pods("a", 4), *group_pods("b", 4))
    assert by_domain(outcome) == {"pods": [4]}
    assert by_domain(
        compile_pod_group(1, 6, pod_group(2, subgroup_policy(2, 1)), *group_pods("a", 4), *group_pods("b", 4))
    ) == {"pods": [4], "pods-1": [2]}


def test_both_roles_of_a_needed_subgroup_start() -> None:
    """Each subgroup is a leader and a worker, and both are needed whole, though the gang's own minimum is 2 pods."""
    documents = [
        *group_pods("a", 1, role="l"),
        *group_pods("a", 1, role="w"),
        *group_pods("b", 1, role="l"),
        *group_pods("b", 1, role="w"),
    ]
    (decided,) = compile_pod_group(2, 2, pod_group(2, subgroup_policy(2, 2)), *documents).decisions
    assert (decided.action, decided.pod_count) == ("start", 4)
    assert [len(set(decided.pods[a]) | set(decided.pods[b])) for a, b in (("l", "w"), ("l-1", "w-1"))] == [1, 1]


def test_subgroups_that_run_are_the_needed_ones() -> None:
    """One of two must be ready; b runs with its two pods, and the node is full. a, the first by its label, is not asked
    for."""
    more: dict[str, Any] = {"labels": {"s": "b"}, "annotations": {"scheduling.k8s.io/group-name": "ring"}}
    limits = {"nvidia.com/gpu": "1"}
    live = [pod(f"b{i}", "g-0", namespace="t", limits=limits, **more) for i in range(2)]
    full = node("g-0", {"cpu": "64", "nvidia.com/gpu": "2"})
    known = declared("PodGroup", "ring", namespace="t")
    documents = pod_group(2, subgroup_policy(2, 1)), *group_pods("a", 3), *group_pods("b", 3)
    (decided,) = compile_pod_group(1, 2, *documents, live=[full, known, *live]).decisions
    assert (decided.action, decided.running_count) == ("keep", 2)


def test_a_subgroup_that_may_start_with_fewer_pods_than_it_has_is_never_said_to_fit_nowhere() -> None:
    """Four pods of two GPUs, ready with three, on three nodes of two: Volcano starts three of them, the plan all four
    or none. Found by scripts/hunt."""
    soft = subgroup_policy(3, 0, "soft")
    outcome = compile_pod_group(3, 2, pod_group(0, soft), *group_pods("a", 4, gpus=2))
    (decided,) = outcome.decisions
    assert (decided.action, decided.never) == ("wait", False)
    assert outcome.problem is not None
    assert outcome.problem.gangs[0].over_constrained
