"""The solver's door: what is refused, and which index is blamed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solver.options import Budget, Options
from solver.problem import MAX_AMOUNT, InvalidProblemError, Problem
from solver.validation.values import validate
from tests.builders.beside import beside
from tests.builders.described import frozen
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


ROWS: dict[str, dict[str, Any]] = beside(__file__)
VALUES: dict[str, tuple[tuple[str | int, ...], object, tuple[str | int, ...] | None]] = {
    **{what: (tuple(row["at"]), frozen(row["is"]), tuple(row.get("blamed", ())) or None) for what, row in ROWS.items()},
    "a kind that is no number": (("gangs", 0, "roles", 0, "node_classes"), frozenset({"a100"}), None),
    "a list for a vector": (("nodes", 1, "capacity"), [8], None),
    "a list of gangs": (("gangs",), [], None),
    "a set that may change for kinds": (("gangs", 0, "roles", 0, "node_classes"), {0}, None),
    "a placement for a role": (("gangs", 0, "roles", 1), running_pods(0, 0, 1), None),
    "nodes that add up beyond 64 bits": (
        ("nodes",),
        tuple(edit(WORLD.nodes[n], ("capacity", 0), MAX_AMOUNT // 2) for n in range(3)),
        ("nodes", 2, "capacity", 0),
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
