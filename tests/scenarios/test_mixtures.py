"""Features that once got into each other's way; each world was found by mixing all of them at random."""

from __future__ import annotations

from solver import solve
from solver.plan import Plan
from solver.verify import verify
from tests.builders.plans import actions
from tests.builders.problems import gang, nodes, pod_rule, problem, queue, role, running_pods, subgroup


def test_a_strict_queue_and_whole_supernodes_go_together() -> None:
    """Gang 0 of a strict queue and supernode 0 once had variables of one name."""
    world = problem(
        nodes(1, gpu=8),
        nodes(1, leaf="s0", gpu=8),
        queue("q", strict_order=True),
        gang("a", role(1, gpu=1), queue="q"),
        hypernodes={"s0": (1, None)},
    )
    made = solve(world)
    assert actions(made) == ["start"]
    assert verify(world, made) == []


def test_a_gang_that_needs_no_pod_starts_with_none_even_where_it_may_have_none() -> None:
    world = problem(
        nodes(1, gpu=8),
        gang("none", role(1, minimum=0, node_classes=(7,), gpu=1), minimum=0),
        gang("one", role(1, gpu=1)),
    )
    made = solve(world)
    assert actions(made) == ["start", "start"]
    assert verify(world, made) == []


def test_a_reservation_leaves_a_role_that_runs_beyond_its_replicas_as_it_is() -> None:
    """The verifier once counted its surplus pod against the reservation of the pods that are missing."""
    torn = gang(
        "torn", role(2, gpu=4), role(1), running=(running_pods(0, 0, 1), running_pods(1, 1, 2)), minimum=3, overdue=True
    )
    world = problem(nodes(2, gpu=4), gang("busy", role(1, gpu=4), running=(running_pods(0, 1, 1),)), torn)
    made = solve(world)
    assert made.reservation is not None
    assert made.reservation.placements == (running_pods(0, 1, 1),)
    assert verify(world, made) == []


def test_the_end_of_a_gang_that_an_affinity_needs_is_not_awaited() -> None:
    """Pods that ran and are gone were once counted as placed pods less: an anchor seemed to stay, or a pod to be kept
    away by minus one."""
    friend = gang("friend", role(1, gpu=1, owned_rules=(0,), selecting_rules=(0,)), running=(running_pods(0, 0, 1),))
    fan = gang("fan", role(1, gpu=1, owned_rules=(0,)))
    world = problem(
        nodes(1, gpu=1), nodes(1, gpu=1, node_class=1), friend, fan, pod_rules=(pod_rule("affinity", (0, 1)),)
    )
    made = solve(world)
    assert actions(made) == ["keep", "wait"]
    assert not [repair for repair in made.decisions[1].repairs if repair.code == "GR109"]


def repairs(made: Plan, j: int) -> set[str]:
    return {repair.code for repair in made.decisions[j].repairs}


def test_no_repair_counts_on_a_node_that_closes_too_soon() -> None:
    """A larger capability alone would not let it start: all nodes close first."""
    small = queue("small", capability={"gpu": 1})
    closing = solve(problem(nodes(1, gpu=4, maintenance_in=2), small, gang("a", role(1, gpu=2), queue="small")))
    ready = solve(problem(nodes(1, gpu=4), small, gang("a", role(1, gpu=2), queue="small")))
    assert "GR101" in repairs(ready, 0)
    assert "GR101" not in repairs(closing, 0)


def test_no_nodes_are_to_be_added_where_another_queue_keeps_the_domain() -> None:
    tree: dict[str, tuple[int, str | None]] = {"s": (1, None)}
    wide = gang("wide", role(2, gpu=4), queue="mine")
    kept = solve(
        problem(
            nodes(1, leaf="s", gpu=4), queue("mine"), queue("theirs", dedicated_domains=("s",)), wide, hypernodes=tree
        )
    )
    free = solve(problem(nodes(1, leaf="s", gpu=4), queue("mine"), queue("theirs"), wide, hypernodes=tree))
    assert "GR104" in repairs(free, 0)
    assert "GR104" not in repairs(kept, 0)


def test_fewer_pods_are_fewer_than_what_is_written() -> None:
    """Whole subgroups make it four pods, yet its minimum says one: three would be no fewer."""
    quads = gang("g", role(4, minimum=0, gpu=1), minimum=1, queue="q", subgroups=(subgroup(4, tier=4),))
    world = problem(nodes(1, gpu=8), queue("q", capability={"gpu": 4}, used={"gpu": 1}), quads)
    made = solve(world)
    assert verify(world, made) == []
    assert not [
        change for repair in made.decisions[0].repairs for change in (repair, *repair.also) if change.code == "GR105"
    ]
