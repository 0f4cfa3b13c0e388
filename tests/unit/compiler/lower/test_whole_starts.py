"""A job with a hard topology starts whole where Volcano's network-topology-aware decides."""

from __future__ import annotations

import pytest

from compiler.lower import lower
from compiler.specs import PluginSpec, SchedulerSpec, TopologySpec
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
    ("scheduler", "mode", "expected"),
    [(AWARE, "hard", (4, [4])), (AWARE, "soft", (1, [1])), (None, "hard", (1, [1]))],
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
