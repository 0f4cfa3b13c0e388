"""A job or subgroup with a hard topology starts whole where Volcano's network-topology-aware decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.lower.gangs import subgroup_demand
from compiler.lower.lowering import lower
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.specs.gang_spec import SubgroupSpec, TopologySpec
from tests.builders.specs import document, gang, hypernode, node, queue, role, specs

AWARE = SchedulerSpec(
    document("SchedulerConfiguration", "conf"),
    "conf",
    "volcano-system",
    ("allocate",),
    ((PluginSpec("network-topology-aware", {}, {}),),),
    {},
)


@pytest.mark.parametrize(
    ("scheduler", "mode", "expected"), [(AWARE, "hard", (4, [4])), (AWARE, "soft", (1, [1])), (None, "hard", (1, [1]))]
)
def test_a_hard_topology_asks_for_all_replicas(
    scheduler: SchedulerSpec | None, mode: str, expected: tuple[int, list[int]]
) -> None:
    topology = TopologySpec("hard" if mode == "hard" else "soft", 1)
    elastic = gang("elastic", role("w", 4, minimum=1), topology=topology)
    hypernodes, queues = (hypernode("h0", 1, nodes=("n0",)),), (queue("default"),)
    read = specs(nodes=(node("n0"),), hypernodes=hypernodes, queues=queues, gangs=(elastic,), scheduler=scheduler)
    problem, _ = lower(read)
    assert (problem.gangs[0].minimum, [r.minimum for r in problem.gangs[0].roles]) == expected
    assert problem.gangs[0].over_constrained is (expected[0] == 4), "Volcano compares sums, and may start it with less"


@pytest.mark.parametrize(
    ("scheduler", "running", "expected"), [(AWARE, {}, [1, 3]), (None, {}, [1, 1]), (AWARE, {(1, 0): 1}, [1, 1])]
)
def test_a_subgroup_with_a_hard_topology_starts_whole_unless_it_runs(
    scheduler: SchedulerSpec | None, running: dict[tuple[int, int], int], expected: list[int]
) -> None:
    """Two subgroups of 1 and 3 pods, each ready with one."""
    hard = TopologySpec("hard", 1)
    subgroups = tuple(
        SubgroupSpec(name, (name,), size, 0, hard, ("spec", "subGroupPolicy", 0), 1, 0)
        for name, size in (("a", 1), ("b", 3))
    )
    elastic = replace(gang("g", role("a", 1, minimum=0), role("b", 3, minimum=0)), subgroups=subgroups)
    assert [part.size for part in subgroup_demand(elastic, running, scheduler).subgroups] == expected


@pytest.mark.parametrize("scheduler", [AWARE, None])
def test_a_subgroup_that_volcano_may_start_with_less_never_proves_anything(scheduler: SchedulerSpec | None) -> None:
    part = SubgroupSpec("b", ("b",), 3, 0, TopologySpec("hard", 1), ("spec", "subGroupPolicy", 0), 1, 1)
    elastic = replace(gang("g", role("b", 3, minimum=0)), subgroups=(part,))
    assert subgroup_demand(elastic, {}, scheduler).over_constrained is (scheduler is AWARE)


@pytest.mark.parametrize(
    ("never", "minimum", "expected"), [((), 1, True), (("a",), 1, True), (("a",), 3, False), (("a", "b"), 1, False)]
)
def test_a_gang_evicts_only_if_pods_that_may_preempt_meet_its_minimum(
    never: tuple[str, ...], minimum: int, expected: bool
) -> None:
    roles = (role(name, 2, minimum=0, never_preempts=name in never) for name in ("a", "b"))
    waiting = replace(gang("g", *roles), minimum=minimum)
    problem, _ = lower(specs(nodes=(node("n0"),), queues=(queue("default"),), gangs=(waiting,)))
    assert problem.gangs[0].eviction.may_evict is expected
