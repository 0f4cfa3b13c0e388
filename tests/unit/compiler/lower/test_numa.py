"""Which NUMA cells a pod is planned on: what the kubelet's topology manager would say, worked by hand."""

from __future__ import annotations

import pytest

from compiler.lower.slot_groups import NumaRequest, restricted_request
from compiler.pipeline import compile_repository
from tests.builders import declared, repositories
from tests.builders.declared import GPU, Object, pod_spec

TWO = ((("cpu", 32), ("gpu", 4)), (("cpu", 32), ("gpu", 4)))
FOUR = ((("cpu", 16), ("gpu", 2)),) * 4


@pytest.mark.parametrize(
    ("asked", "cells", "way"),
    [
        ({"cpu": 8, "gpu": 3}, TWO, (1, {"cpu": 8, "gpu": 3})),
        ({"cpu": 8, "gpu": 8}, TWO, (2, {"cpu": 8, "gpu": 4})),
        ({"cpu": 64, "gpu": 8}, TWO, (2, {"cpu": 32, "gpu": 4})),
        ({"cpu": 40, "gpu": 8}, TWO, None),
        ({"cpu": 8, "gpu": 6}, TWO, None),
        ({"cpu": 40, "gpu": 3}, TWO, None),
        ({"cpu": 8, "gpu": 4}, FOUR, (2, {"cpu": 8, "gpu": 2})),
        ({"cpu": 48, "gpu": 4}, FOUR, None),
        ({"cpu": 8, "gpu": 9}, FOUR, None),
        ({"cpu": 2, "gpu": 4}, ((("cpu", 8), ("gpu", 3)), (("cpu", 8), ("gpu", 1))), None),
        ({"cpu": 4, "gpu": 8}, ((("cpu", 8), ("gpu", 4)), (("cpu", 2), ("gpu", 4))), None),
        ({"cpu": 2, "gpu": 1}, ((("cpu", 8),), (("gpu", 4),)), (1, {"cpu": 2, "gpu": 1})),
        ({"cpu": 16, "nic": 1}, ((("cpu", 8),), (("cpu", 8),)), (2, {"cpu": 8, "nic": 1})),
    ],
)
def test_restricted_is_one_cell_or_whole_cells(
    asked: dict[str, int], cells: tuple[tuple[tuple[str, int], ...], ...], way: object
) -> None:
    """Nothing is said where the least number of cells is not taken whole, differs between resources, or is of unequal
    cells, and where what needs one cell would not find room in each."""
    found = restricted_request(asked, cells)
    assert (found and (found.number, dict(found.share))) == way


def test_ways_that_are_alike_are_equal() -> None:
    assert (
        restricted_request({"gpu": 1, "cpu": 1}, TWO)
        == restricted_request({"cpu": 1, "gpu": 1}, FOUR)
        == NumaRequest(1, (("cpu", 1), ("gpu", 1)))
    )


def pool(name: str, cells: list[Object], policy: str = "restricted", count: int = 1) -> Object:
    numa = {"topologyManagerPolicy": policy, "cells": cells}
    return declared.node_pool(count, name=name, capacity={"cpu": 64, "memory": "64Gi", GPU: 8}, numa=numa)


WIDE, FINE, ODD = ([{"cpu": 64 // count, GPU: 8 // count}] * count for count in (2, 4, 8))


def job(
    name: str, replicas: int, gpus: int, policy: str = "restricted", *, cpu: int = 4, selector: Object | None = None
) -> Object:
    pod = pod_spec({"cpu": cpu, "memory": "1Gi", GPU: gpus}, **({"nodeSelector": selector} if selector else {}))
    return declared.job(name, replicas, pod, namespace="t", task={"topologyPolicy": policy})


class Compiled:
    def __init__(self, *objects: Object) -> None:
        conf = declared.scheduler(("gang", "predicates", "numa-aware"))
        self.outcome = compile_repository(repositories.repository(conf, *objects))

    @property
    def actions(self) -> list[str]:
        return [decided.action for decided in self.outcome.decisions]

    @property
    def said(self) -> list[str]:
        """The messages of GP522."""
        return [diagnostic.message for diagnostic in self.outcome.diagnostics if diagnostic.code == "GP522"]


@pytest.mark.parametrize(("others", "action"), [(2, "start"), (3, "wait")])
def test_a_pod_of_whole_cells_starts_only_where_cells_are_whole(others: int, action: str) -> None:
    """Four cells of 2 GPUs. Others of 12 CPUs and a GPU take a cell of 16 CPUs each; two cells are left next to two of
    them, one next to three."""
    one = job("a", others, 1, cpu=12)
    made = Compiled(pool("n", FINE), one, job("b", 1, 4))
    assert (made.actions, made.said) == (["start", action], [])


def test_a_pod_of_more_than_one_cell_that_takes_them_in_part_is_planned_with_a_warning() -> None:
    made = Compiled(pool("n", WIDE, count=3), job("a", 1, 6))
    assert made.actions == ["start"]
    assert made.said == [
        "role w asks for parts of several NUMA cells on 3 nodes like n-0; "
        "its cells are not planned there, and the kubelet may refuse it"
    ]


def test_an_odd_pool_changes_nothing_for_nodes_of_other_cells() -> None:
    """Two pods of 3 GPUs are one in each cell of 4: next to them is no cell for a pod of 2, though 2 GPUs are free."""
    jobs = job("x", 2, 3), job("z", 1, 2, selector={"kubernetes.io/hostname": "a-0"})
    assert Compiled(pool("a", WIDE), *jobs).actions == ["start", "wait"]
    both = Compiled(pool("a", WIDE), pool("b", ODD), *jobs)
    assert both.actions == ["start", "wait"]
    assert both.said == [
        "role w is not planned on 1 node like b-0, divided into other NUMA cells than the nodes that it is planned on"
    ]
    assert both.outcome.decisions[0].pods == {"w": {"a-0": 2}}


def test_what_closed_nodes_might_hold_is_not_said_to_fit_never() -> None:
    """Three pods of 3 GPUs: two fit the cells of a-0, and the third would need b-0, where it is not planned."""
    (alone,) = Compiled(pool("a", WIDE), job("x", 3, 3)).outcome.decisions
    (both,) = Compiled(pool("a", WIDE), pool("b", ODD), job("x", 3, 3)).outcome.decisions
    assert (alone.action, alone.never) == ("wait", True)
    assert (both.action, both.never) == ("wait", False)


@pytest.mark.parametrize("policy", ["restricted", "single-numa-node"])
def test_a_policy_that_no_node_has_is_the_one_reason_and_is_named(policy: str) -> None:
    (decided,) = Compiled(pool("n", WIDE, "best-effort"), job("a", 1, 6, policy)).outcome.decisions
    (reason,) = decided.reasons
    assert reason.code == "GW107"
    assert reason.message.endswith(f"has its topologyPolicy {policy} and a static CPU manager")
    assert [source.field for source in reason.sources[:1]] == ["topologyPolicy of role w"]


def test_a_selector_that_nothing_matches_is_not_blamed_on_the_policy() -> None:
    (decided,) = Compiled(pool("n", WIDE), job("a", 1, 6, selector={"zone": "x"})).outcome.decisions
    assert [reason.message for reason in decided.reasons] == ["no node has zone=x, as role w demands"]


def test_too_few_nodes_of_the_policy_are_said_to_be_that() -> None:
    made = Compiled(
        pool("a", WIDE, "single-numa-node"), pool("b", WIDE, "best-effort"), job("x", 3, 4, "single-numa-node")
    )
    (reason,) = made.outcome.decisions[0].reasons
    assert (reason.code, reason.facts["policy"]) == ("GW120", "single-numa-node")
    assert reason.message.startswith("the nodes with topologyPolicy single-numa-node and a static CPU manager")


def test_a_share_above_every_cell_is_said_with_its_numbers_and_mended() -> None:
    (decided,) = Compiled(pool("n", WIDE, "single-numa-node"), job("a", 1, 6, "single-numa-node")).outcome.decisions
    assert [reason.message for reason in decided.reasons] == [
        "a pod of role w asks for 6 nvidia.com/gpu of one device or NUMA cell; even empty, the largest has 4"
    ]
    assert decided.repairs[0].message == "4 nvidia.com/gpu for a pod of role w instead of 6"
