"""Which plugins decide between queues, and what documents and the cluster say of a queue's place and state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.lower.lowering import lower
from compiler.lower.queues import DEFAULT_POLICY, lower_policy
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec, Specs
from solver.problem import Policy
from tests.builders.specs import document, node, queue, specs


def scheduler(*tiers: tuple[PluginSpec, ...]) -> SchedulerSpec:
    return SchedulerSpec(document("SchedulerConfiguration", "conf"), "conf", "volcano-system", ("allocate",), tiers, {})


def plugin(name: str, **flags: bool) -> PluginSpec:
    return PluginSpec(name, {}, flags)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ((), Policy()),
        (((plugin("gang"),), (plugin("proportion"), plugin("drf"))), Policy(proportion=True, drf=True)),
        (((plugin("capacity"),),), Policy(capacity=True)),
        (((plugin("capacity", enableHierarchy=True),),), Policy(capacity=True, capacity_hierarchy=True)),
        (((plugin("drf", enableHierarchy=True),),), Policy(drf=True, drf_hierarchy=True)),
        (((plugin("drf", enableJobOrder=False),),), Policy()),
        (((plugin("proportion", enabledAllocatable=False),),), Policy()),
        (((plugin("capacity", enabledAllocatable=False, enableHierarchy=True),),), Policy()),
        (((plugin("drf"),), (plugin("drf", enableHierarchy=True),)), Policy(drf=True)),
        (((plugin("overcommit"),),), Policy()),
    ],
)
def test_plugins_decide(tiers: tuple[tuple[PluginSpec, ...], ...], expected: Policy) -> None:
    assert lower_policy(scheduler(*tiers), "queues-first") == expected


@pytest.mark.parametrize("name", ["capacity", "proportion"])
def test_a_plugin_that_limits_nothing_and_reclaims_still_divides(name: str) -> None:
    unlimited = scheduler((plugin(name, enabledAllocatable=False),))
    silent = scheduler((plugin(name, enabledAllocatable=False, enableReclaimable=False),))
    reclaiming = ("allocate", "reclaim")

    assert lower_policy(unlimited, "queues-first") == Policy()
    assert lower_policy(replace(silent, actions=reclaiming), "queues-first") == Policy()
    divided = lower_policy(replace(unlimited, actions=reclaiming), "queues-first")
    assert (divided.capacity, divided.proportion) == (name == "capacity", name == "proportion")


SPREADING = PluginSpec("nodeorder", {"leastrequested.weight": 5, "mostrequested.weight": 1}, {})
LEAST = PluginSpec(
    "resource-strategy-fit", {"resources": {"nvidia.com/gpu": {"type": "LeastAllocated", "weight": 2}}}, {}
)


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ((SPREADING,), True),
        ((LEAST,), True),
        ((PluginSpec("nodeorder", {"leastrequested.weight": "2"}, {}),), True),
        ((PluginSpec("nodeorder", {}, {}),), False),
        ((PluginSpec("nodeorder", {"leastrequested.weight": 1, "mostrequested.weight": 1}, {}),), False),
        ((PluginSpec("nodeorder", SPREADING.arguments, {"enableNodeOrder": False}),), False),
        ((PluginSpec("nodeorder", {"leastrequested.weight": "much"}, {}),), False),
        ((PluginSpec("resource-strategy-fit", {"resources": {"cpu": {"type": "LeastAllocated"}}}, {}),), False),
        ((PluginSpec("resource-strategy-fit", {"resources": "all"}, {}),), False),
        ((SPREADING, PluginSpec("binpack", {}, {})), False),
        ((SPREADING, PluginSpec("binpack", {"binpack.weight": 0}, {})), True),
        ((SPREADING, PluginSpec("gpu-aware", {"weight": 1, "loss.weight": 0.5}, {})), False),
        ((SPREADING, PluginSpec("gpu-aware", {"weight": 1, "loss.weight": 0}, {})), True),
        (
            (
                SPREADING,
                PluginSpec("resource-strategy-fit", {"resources": {"a.b/gpu*": {"type": "MostAllocated"}}}, {}),
            ),
            False,
        ),
    ],
)
def test_nodes_are_filled_evenly_only_where_a_plugin_clearly_asks_for_it(
    plugins: tuple[PluginSpec, ...], expected: bool
) -> None:
    assert lower_policy(scheduler(plugins), "queues-first").spread_pods is expected


def test_without_a_configuration_volcanos_own_default_decides() -> None:
    problem, _ = lower(specs(nodes=(node("n"),)))
    assert problem.policy == DEFAULT_POLICY == Policy(proportion=True, drf=True)


def read(**annotations: str) -> Specs:
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata:\n  name: dev\n  annotations:\n"
    text += "".join(f"    {key}: '{value}'\n" for key, value in annotations.items()) + "spec: {}\n"
    return read_specs(Repository({"cluster-specs/test/queues.yaml": text.encode()}))


@pytest.mark.parametrize(
    ("way", "weights", "expected"),
    [
        ("root/eng/dev", "1/2/8", (("eng", 2.0), ("dev", 8.0))),
        ("eng/dev", "2.5/0.5", (("eng", 2.5), ("dev", 1.0))),
        ("root", "1", ()),
    ],
)
def test_a_way_is_read_without_its_root(way: str, weights: str, expected: tuple[tuple[str, float], ...]) -> None:
    (found,) = read(**{"volcano.sh/hierarchy": way, "volcano.sh/hierarchy-weights": weights}).queues
    assert found.hierarchy == expected


def test_weights_become_thousandths_and_a_queue_without_a_way_stands_below_the_root() -> None:
    problem, _ = lower(specs(queues=(queue("dev", hierarchy=(("eng", 2.5), ("dev", 1.0))), queue("ops", weight=3))))
    assert [spec.hierarchy for spec in problem.queues[:2]] == [(("eng", 2500), ("dev", 1000)), (("ops", 3000),)]


@pytest.mark.parametrize(("said", "expected"), [("true", False), ("false", True)])
def test_a_document_may_close_its_queue(said: str, expected: bool) -> None:
    (found,) = read(**{"gangplan.dev/closed": said}).queues
    assert found.open is expected


@pytest.mark.parametrize(
    ("state", "expected"), [("Open", True), ("Closing", False), ("Closed", False), ("Unknown", False), (None, True)]
)
def test_the_cluster_knows_whether_a_queue_is_closed(state: str | None, expected: bool) -> None:
    live: dict[str, Any] = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "dev"},
        "status": {"state": state},
    }
    default = {**live, "metadata": {"name": "default"}}
    problem, _ = lower(specs(queues=(queue("dev"),)), ClusterState.from_objects([live, default]))
    assert [spec.open for spec in problem.queues] == [expected, True, expected]  # dev, root, default
