"""The solver's door: what is refused, and which index is blamed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.options import Budget, Options
from solver.problem import MAX_AMOUNT, InvalidProblemError, Problem
from solver.validation.values import validate
from tests.builders.problems import edit, gang, hard_topology, nodes, problem, queue, role, running_pods, subgroup

WORLD = problem(
    nodes(2, leaf="s0", gpu=8, free={"gpu": 6}),
    nodes(1, gpu=8),
    queue("top", capability={"gpu": 24}),
    queue("team", "top", guarantee={"gpu": 8}, used={"gpu": 1}),
    gang(
        "a",
        role(4, minimum=2, gpu=2),
        role(2, gpu=1),
        queue="team",
        topology=hard_topology(2),
        subgroups=(subgroup(2, minimum=1), subgroup(4, tier=2)),
    ),
    gang("b", role(2, minimum=1, gpu=1), queue="top", running=(running_pods(0, 2, 3),)),
    hypernodes={"s0": (1, "spine"), "spine": (2, None)},
)


def test_a_well_formed_problem_passes() -> None:
    validate(WORLD)


def test_an_empty_problem_passes() -> None:
    validate(Problem((), (), (), (), ()))


def test_a_gang_that_cannot_fit_is_well_formed() -> None:
    validate(problem(nodes(1, gpu=8), gang("a", role(1, gpu=9, node_classes=()))))


def test_a_deep_queue_tree_is_no_loop() -> None:
    chain = [queue("q0"), *(queue(f"q{depth}", f"q{depth - 1}") for depth in range(1, 30))]
    validate(problem(*reversed(chain)))


VALUES: dict[str, tuple[tuple[str | int, ...], object, tuple[str | int, ...] | None]] = {
    "a resource twice": (("resources",), ("gpu", "gpu"), ("resources", 1)),
    "a node's name twice": (("nodes", 2, "name"), "n0", None),
    "a hypernode's name twice": (("hypernodes", 1, "name"), "s0", None),
    "a queue's name twice": (("queues", 1, "name"), "top", None),
    "a gang's name twice": (("gangs", 1, "name"), "a", None),
    "a role's name twice": (("gangs", 0, "roles", 1, "name"), "r0", None),
    "a subgroup's name twice": (("gangs", 0, "subgroups", 1, "name"), "parts-of-2-in-1", None),
    "a capacity too short": (("nodes", 1, "capacity"), (), None),
    "a free vector too long": (("nodes", 1, "free"), (1, 1), None),
    "a negative free amount": (("nodes", 1, "free", 0), -1, None),
    "more free than there is": (("nodes", 1, "free", 0), 9, None),
    "an amount that is no number": (("nodes", 1, "capacity", 0), float("nan"), None),
    "a fractional amount": (("nodes", 1, "capacity", 0), 8.0, None),
    "a truth value for an amount": (("nodes", 1, "capacity", 0), True, None),
    "an amount beyond 64 bits": (("nodes", 1, "capacity", 0), MAX_AMOUNT + 1, None),
    "a negative kind": (("nodes", 0, "node_class"), -1, None),
    "a leaf that does not exist": (("nodes", 0, "leaf"), 2, None),
    "a node group that does not exist": (("nodes", 0, "node_group"), 1, None),
    "a closed node group that does not exist": (
        ("queues", 0, "closed_node_groups"),
        (1,),
        ("queues", 0, "closed_node_groups", 0),
    ),
    "ranks of some node groups only": (("queues", 0, "node_group_ranks"), (0,), None),
    "a leaf counted from the end": (("nodes", 0, "leaf"), -1, None),
    "a tier of zero": (("hypernodes", 0, "tier"), 0, None),
    "a parent that does not exist": (("hypernodes", 0, "parent"), 2, None),
    "a parent of the child's tier": (("hypernodes", 0, "tier"), 2, ("hypernodes", 0, "parent")),
    "a hypernode above itself": (("hypernodes", 1, "parent"), 1, None),
    "hypernodes in a loop": (("hypernodes", 1, "parent"), 0, None),
    "a queue's parent that does not exist": (("queues", 1, "parent"), 2, None),
    "a queue above itself": (("queues", 0, "parent"), 0, None),
    "queues in a loop": (("queues", 0, "parent"), 1, None),
    "a weight of zero": (("queues", 0, "weight"), 0, None),
    "a negative guarantee": (("queues", 1, "guarantee", 0), -1, None),
    "a deserved vector too long": (("queues", 1, "deserved"), (None, None), None),
    "a capability that is no number": (("queues", 0, "capability", 0), float("inf"), None),
    "usage that was not said": (("queues", 1, "used", 0), None, None),
    "a gang's queue that does not exist": (("gangs", 0, "queue"), 2, None),
    "a priority that is no number": (("gangs", 0, "priority"), "high", None),
    "an age that is no number": (("gangs", 0, "age"), 0.5, None),
    "a role's minimum above its replicas": (("gangs", 0, "roles", 0, "minimum"), 5, None),
    "negative replicas": (("gangs", 0, "roles", 0, "replicas"), -1, None),
    "a negative request": (("gangs", 0, "roles", 0, "request", 0), -1, None),
    "a request too short": (("gangs", 0, "roles", 0, "request"), (), None),
    "a kind that is no number": (("gangs", 0, "roles", 0, "node_classes"), frozenset({"a100"}), None),
    "a gang's minimum above all replicas": (("gangs", 0, "minimum"), 7, None),
    "a negative minimum": (("gangs", 0, "minimum"), -1, None),
    "a topology of tier zero": (("gangs", 0, "topology", "tier"), 0, None),
    "a subgroup's topology of tier zero": (("gangs", 0, "subgroups", 0, "topology", "tier"), 0, None),
    "a subgroup of no pods": (("gangs", 0, "subgroups", 0, "size"), 0, None),
    "a subgroup of a role that does not exist": (("gangs", 0, "subgroups", 0, "roles"), (2,), None),
    "a subgroup of a role twice": (("gangs", 0, "subgroups", 0, "roles"), (0, 0), None),
    "a subgroup of no role": (("gangs", 0, "subgroups", 0, "roles"), (), None),
    "more parts than replicas": (("gangs", 0, "subgroups", 0, "minimum"), 3, None),
    "subgroups whose sizes never meet": (("gangs", 0, "subgroups", 0, "size"), 3, None),
    "a running pod of a role that does not exist": (("gangs", 1, "running", 0, "role"), 1, None),
    "a running pod on a node that does not exist": (("gangs", 1, "running", 0, "node"), 3, None),
    "running no pods": (("gangs", 1, "running", 0, "pods"), 0, None),
    "more pods than can be counted": (("gangs", 0, "roles", 0, "replicas"), 2**31, None),
    "more running pods than can be counted": (("gangs", 1, "running", 0, "pods"), 2**31, None),
    "a list for a vector": (("nodes", 1, "capacity"), [8], None),
    "a list of gangs": (("gangs",), [], None),
    "a set that may change for kinds": (("gangs", 0, "roles", 0, "node_classes"), {0}, None),
    "a number for a queue": (("queues", 1), 1, None),
    "nothing for a role": (("gangs", 0, "roles", 1), None, None),
    "a placement for a role": (("gangs", 0, "roles", 1), running_pods(0, 0, 1), None),
    "a name that is none": (("nodes", 0, "name"), None, None),
    "a truth value that is a number": (("gangs", 0, "times", "overdue"), 1, None),
    "a topology that is neither hard nor soft": (("gangs", 0, "topology", "mode"), "firm", None),
    "half of a pair": (("nodes", 0, "maintenance_windows"), ((1,),), ("nodes", 0, "maintenance_windows", 0)),
    "a second subgroup's size that is no number": (("gangs", 0, "subgroups", 1, "size"), float("nan"), None),
    "no policy": (("policy",), None, None),
    "nodes that add up beyond 64 bits": (
        ("nodes",),
        tuple(edit(WORLD.nodes[n], ("capacity", 0), MAX_AMOUNT // 2) for n in range(3)),
        ("nodes", 2, "capacity", 0),
    ),
    "gangs that add up beyond 64 bits": (
        ("gangs", 0, "roles", 0, "request", 0),
        MAX_AMOUNT // 2,
        ("gangs", 0, "roles", 0, "request", 0),
    ),
    "queues that add up beyond 64 bits": (
        ("queues",),
        tuple(edit(WORLD.queues[q], ("used", 0), MAX_AMOUNT) for q in range(2)),
        ("queues", 1, "used", 0),
    ),
}


@pytest.mark.parametrize("what", VALUES)
def test_it_refuses(what: str) -> None:
    path, value, blamed = VALUES[what]
    world = edit(WORLD, path, value)
    with pytest.raises(InvalidProblemError) as caught:
        validate(world)
    where = caught.value.where
    assert where == blamed if blamed else where[: len(path)] == path
    assert str(caught.value).startswith(".".join(map(str, where)) + ": ")


def test_nodes_that_were_right_are_looked_at_again_beside_other_hypernodes() -> None:
    world = replace(WORLD, gangs=())
    validate(world)
    validate(world)
    with pytest.raises(InvalidProblemError, match=r"^nodes\.0\.leaf: "):
        validate(replace(world, hypernodes=()))


def test_what_is_no_problem_at_all_is_refused() -> None:
    with pytest.raises(InvalidProblemError, match="is of the type NoneType, not Problem"):
        validate(None)  # type: ignore[arg-type]


def test_the_first_of_two_culprits_is_named() -> None:
    world = edit(edit(WORLD, ("nodes", 2, "free", 0), -1), ("nodes", 1, "free", 0), -1)
    with pytest.raises(InvalidProblemError, match=r"^nodes\.1\.free\.0: "):
        validate(world)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gap": float("nan")}, "gap: nan"),
        ({"gap": -0.1}, "gap: -0.1"),
        ({"time_limit": -1.0}, "time_limit: -1.0"),
        ({"max_nodes": -1}, "max_nodes: -1"),
    ],
)
def test_an_option_that_is_no_limit_is_refused_by_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said} is"):
        Options(**options)


@pytest.mark.parametrize("limit", ["joint_variables", "eviction_nodes"])
def test_a_negative_limit_of_the_budget_is_refused_by_name(limit: str) -> None:
    with pytest.raises(ValueError, match=f"^{limit}: -1 is"):
        Budget(**{limit: (96, -1) if limit == "eviction_nodes" else -1})  # type: ignore[arg-type]
