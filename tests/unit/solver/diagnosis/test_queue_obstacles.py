"""Repairs by queues: each as small as suffices."""

from __future__ import annotations

import pytest

from solver import solve
from solver.problem import Policy
from solver.repairs import SmallerGuarantee
from solver.verify import verify
from tests.builders.problems import gang, nodes, problem, queue, role


@pytest.mark.parametrize("policy", [Policy(), Policy(proportion=True), Policy(capacity=True, capacity_hierarchy=True)])
@pytest.mark.parametrize(
    ("guarantees", "expected"), [((100, 0), (93,)), ((8, 0), (1,)), ((6, 6), (5,)), ((9, 9), (9, 2))]
)
def test_guarantees_beyond_the_cluster_are_lowered_to_what_lets_the_gang_start(
    policy: Policy, guarantees: tuple[int, int], expected: tuple[int, ...]
) -> None:
    """Each queue at most once, the one that keeps most first, also where they exceed the cluster by far."""
    world = problem(
        nodes(1, gpu=8),
        queue("top"),
        *(queue(f"q{g}", "top", guarantee={"gpu": amount}) for g, amount in enumerate(guarantees)),
        queue("asks", "top"),
        gang("asks", role(1, gpu=1), queue="asks"),
        policy=policy,
    )
    plan = solve(world)
    assert verify(world, plan) == []
    (first,) = (repair for repair in plan.decisions[0].repairs if isinstance(repair, SmallerGuarantee))
    assert [first.amount, *(r.amount for r in first.also if isinstance(r, SmallerGuarantee))] == [*expected]
    changed = {first.queue, *(r.queue for r in first.also if isinstance(r, SmallerGuarantee))}
    assert len(changed) == len(expected)
