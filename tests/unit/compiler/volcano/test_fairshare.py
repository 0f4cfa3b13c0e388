"""The order of namespaces by decayed use, with numbers worked out by hand; and the order of jobs that comes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.lower.inputs import age_ranks
from compiler.specs.cluster_spec import ClusterSpec, PluginSpec, SchedulerSpec, VolcanoVersion
from compiler.volcano.fairshare import FairShare, NamespaceAmounts, Turn, fair_share, namespace_turns
from tests.builders.specs import document, gang, role

HOUR = 3600
NOON = "2026-11-26T12:00:00Z"
AT_NOON = 1795694400
PLUGIN = FairShare((), {}, "nvidia.com/gpu", 240, ("volcano-system", "fairshare-usage-state"))


def config_map(queues: dict[str, dict[str, float]], last: str = NOON) -> dict[str, Any]:
    metadata = {"name": "fairshare-usage-state", "namespace": "volcano-system"}
    text = json.dumps({"lastCycle": last, "queues": queues})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state.json": text}}


def places(said: list[dict[str, Any]], amounts: NamespaceAmounts, now: int = AT_NOON) -> dict[str, int]:
    return {namespace: turn.place for (_, namespace), turn in namespace_turns(PLUGIN, said, amounts, now).items()}


def running(**gpus: int) -> NamespaceAmounts:
    return {("q", namespace): {"nvidia.com/gpu": amount} for namespace, amount in gpus.items()}


def test_less_use_goes_first() -> None:
    said = [config_map({"q": {"a": 310.0, "b": 12.0}})]
    assert places(said, running(a=0, b=0, c=0)) == {"c": 0, "b": 1, "a": 2}


def test_use_halves_with_each_half_life_and_what_runs_is_charged_since() -> None:
    """a: 1,000,000 halves to 500,000 in 4 h. b: 490,000 halves to 245,000, and 1 GPU for 14,400 s adds 14,400,000."""
    said = [config_map({"q": {"a": 1_000_000.0, "b": 490_000.0}})]
    assert places(said, running(a=0, b=0), AT_NOON + 4 * HOUR) == {"b": 0, "a": 1}
    assert places(said, running(a=0, b=1), AT_NOON + 4 * HOUR) == {"a": 0, "b": 1}


def test_equal_use_is_decided_by_what_runs_and_then_shared() -> None:
    said = [config_map({"q": {"a": 100.0, "b": 101.0, "c": 100.5}})]
    assert places(said, running(a=4, b=2, c=2)) == {"b": 0, "c": 0, "a": 1}


@pytest.mark.parametrize(
    "data", [{}, {"state.json": "{"}, {"state.json": "[]"}, {"state.json": '{"queues": {"q": 1}}'}]
)
def test_a_state_that_cannot_be_read_says_nothing(data: dict[str, str]) -> None:
    said = [config_map({}) | {"data": data}]
    assert places(said, running(a=1, b=0)) == {"b": 0, "a": 1}


def scheduler(*plugins: str, **arguments: str) -> SchedulerSpec:
    made = [PluginSpec(name, arguments if name == "fairshare" else {}, {}) for name in plugins]
    return SchedulerSpec(document("ConfigMap", "c"), "c", "volcano-system", ("allocate",), (tuple(made),), {})


def cluster(minor: int) -> ClusterSpec:
    return ClusterSpec(document("Cluster", "c"), "c", volcano=VolcanoVersion(minor))


def test_the_plugin_counts_where_its_answer_decides() -> None:
    assert fair_share(cluster(15), scheduler("priority", "fairshare")) is None
    assert fair_share(cluster(16), scheduler("priority", "gang")) is None
    assert fair_share(cluster(16), scheduler("drf", "fairshare")) is None
    found = fair_share(cluster(16), scheduler("priority", "fairshare", "drf", **{"fairshare.targetQueues": "a, b"}))
    assert found is not None
    assert (found.targets, found.half_life, found.orders("c")) == (("a", "b"), 240, False)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 9)), min_size=1, max_size=8),
    st.permutations(("x", "y")),
)
def test_jobs_go_by_turn_and_then_by_age(written: list[tuple[str, str, int]], order: list[str]) -> None:
    """The gangs of a queue with turns share their ranks by turn, then age; those of other queues keep theirs."""
    gangs = [
        replace(gang(f"j{number}", role("w", 1), queue=queue), document=document("Job", f"j{number}", namespace))
        for number, (queue, namespace, _) in enumerate(written)
    ]
    times = {j: at for j, (_, _, at) in enumerate(written)}
    by_age = age_ranks(gangs, times, {})
    ranks = age_ranks(gangs, times, {("a", name): Turn(place, 0.0) for place, name in enumerate(order)})
    for j, spec in enumerate(gangs):
        if spec.queue == "b":
            assert ranks[j] == by_age[j]
    members = sorted((j for j, spec in enumerate(gangs) if spec.queue == "a"), key=lambda j: ranks[j])
    assert sorted(ranks[j] for j in members) == sorted(by_age[j] for j in members)
    expected = sorted(members, key=lambda j: (order.index(gangs[j].namespace), by_age[j]))
    assert members == expected
