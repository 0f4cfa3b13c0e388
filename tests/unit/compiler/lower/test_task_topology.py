"""Volcano's plugin task-topology: annotations on a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.lower.lowering import lower
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from tests.builders.specs import document, gang, node, role, specs


def scheduler(*names: str, **flags: bool) -> SchedulerSpec:
    made = document("SchedulerConfiguration", "s")
    return SchedulerSpec(
        made, "s", "volcano-system", ("allocate",), (tuple(PluginSpec(name, {}, flags) for name in names),), {}
    )


def affinities(
    near: str = "", far: str = "", made: SchedulerSpec | None = None, order: str = "ps,worker"
) -> tuple[tuple[int, int, int], ...]:
    notes = {
        "volcano.sh/task-topology-affinity": near,
        "volcano.sh/task-topology-anti-affinity": far,
        "volcano.sh/task-topology-task-order": order,
    }
    job = gang("a", role("ps", 1), role("worker", 2), role("chief", 1))
    data: dict[str, Any] = {**job.document.data, "metadata": {**job.document.data["metadata"], "annotations": notes}}
    job = replace(job, document=replace(job.document, data=data))
    problem, _ = lower(
        specs(nodes=(node("n0"),), gangs=(job,), scheduler=made or scheduler("predicates", "task-topology"))
    )
    return problem.gangs[0].role_affinities


@pytest.mark.parametrize(
    ("near", "far", "expected"),
    [
        ("", "", ()),
        ("ps,worker", "", ((0, 1, 1),)),
        ("ps,worker;ps,chief", "ps;worker,chief", ((0, 0, -1), (0, 1, 1), (0, 2, 1), (1, 2, -1))),
        ("ps,worker,chief", "", ((0, 1, 1), (0, 2, 1), (1, 2, 1))),
        ("ps, worker", "", ()),
        ("ps,worker;worker,,chief,;", "", ((0, 1, 1), (1, 2, 1))),
        ("ps,;", "", ()),
        ("worker", "", ((1, 1, 1),)),
        ("worker", "worker", ((1, 1, -1),)),
        ("ps,worker", "worker,ps", ((0, 1, 1),)),
        ("ps,evaluator", "worker", ()),
        ("ps,ps", "worker", ()),
    ],
)
def test_groups_of_roles(near: str, far: str, expected: tuple[tuple[int, int, int], ...]) -> None:
    assert affinities(near, far) == expected


def test_an_order_with_an_unknown_role_voids_the_groups_too() -> None:
    assert affinities("ps,worker", order="worker,,ps") == ((0, 1, 1),)
    assert affinities("ps,worker", order="ps,evaluator") == ()


def test_only_where_the_plugin_is_on() -> None:
    assert affinities("ps,worker", made=scheduler("predicates")) == ()
    assert affinities("ps,worker", made=scheduler("task-topology", enableNodeOrder=False)) == ()
