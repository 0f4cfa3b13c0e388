"""Damaged objects: what cannot be read of one is taken out and named, and what is left counts for the least."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.nodes import observed_node
from compiler.cluster_state.pods import RequestCache, live_pod_spec
from compiler.cluster_state.soundness import SoundObjects, held_out
from compiler.kubernetes import is_ready_node, name_of
from tests.builders.cluster_objects import node, pod
from tests.builders.declared import declared

POD = pod("p", "n", job="j", limits={"nvidia.com/gpu": "8"}, labels={"a": "b"}, annotations={"a": "b"})
NODE = node("n", {"nvidia.com/gpu": "8", "cpu": "64"}, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
BUDGET = declared("PodDisruptionBudget", "b", {"selector": {"matchLabels": {"a": "b"}}})
NUMA = declared("Numatopology", "n", {"cpuDetail": {"0": {"numa": 0}}})
Path = Sequence[str | int]


def damaged(item: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    made = at = copy.deepcopy(item)
    for step in path[:-1]:
        at = at[step]  # type: ignore[index]
    at[path[-1]] = value  # type: ignore[index]
    return made


@pytest.mark.parametrize("item", [POD, NODE, BUDGET, NUMA])
def test_a_sound_object_is_itself(item: dict[str, Any]) -> None:
    found, faults = SoundObjects().look_at(item)
    assert found is item
    assert faults == ()


@pytest.mark.parametrize(
    ("item", "path", "value", "fault"),
    [
        (POD, ("metadata", "labels"), "x", "metadata.labels is not a mapping"),
        (POD, ("metadata", "labels", "a"), 5, "metadata.labels.a is not text"),
        (POD, ("metadata", "annotations"), [None], "metadata.annotations is not a mapping"),
        (POD, ("metadata", "ownerReferences", 0), None, "metadata.ownerReferences[0] is null"),
        (POD, ("metadata", "ownerReferences", 0, "uid"), "", "metadata.ownerReferences[0] has no uid"),
        (POD, ("metadata", "deletionGracePeriodSeconds"), True, "deletionGracePeriodSeconds is not a whole number"),
        (POD, ("spec",), "x", "spec is not a mapping"),
        (POD, ("spec", "containers", 0, "resources"), [], "spec.containers[0].resources is not a mapping"),
        (POD, ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"), "9" * 99, "is not a quantity"),
        (POD, ("status", "phase"), {}, "status.phase is not text"),
        (NODE, ("spec", "taints", 0), {"key": "a"}, "spec.taints[0] has no effect"),
        (NODE, ("status", "allocatable", "cpu"), "many", "is not a quantity"),
        (BUDGET, ("spec", "selector", "matchLabels"), [5], "selector"),
        (NUMA, ("spec", "cpuDetail"), {"²": {}}, "Numatopology n"),
    ],
)
def test_what_cannot_be_read_is_taken_out_and_named(item: dict[str, Any], path: Path, value: Any, fault: str) -> None:
    broken = damaged(item, path, value)
    before = copy.deepcopy(broken)
    found, faults = SoundObjects().look_at(broken)
    assert len(faults) == 1
    assert fault in str(faults[0])
    assert broken == before
    assert SoundObjects().look_at(found)[1] == ()


def test_a_node_that_cannot_be_read_keeps_its_readable_amounts_and_takes_nothing_new() -> None:
    found, _ = SoundObjects().look_at(damaged(NODE, ("status", "allocatable", "cpu"), "many"))
    spec = observed_node(found)
    assert spec.unschedulable
    assert spec.allocatable == {"pods": 110, "nvidia.com/gpu": 8}


def test_a_budget_that_cannot_be_read_lets_no_pod_of_its_namespace_go() -> None:
    found, _ = SoundObjects().look_at(damaged(BUDGET, ("spec", "selector", "matchLabels"), [5]))
    assert (found["spec"], found["status"]) == ({"selector": {}}, {"disruptionsAllowed": 0})


def test_a_pod_whose_amounts_cannot_be_read_asks_for_nothing_and_stays_where_it_is() -> None:
    broken = damaged(POD, ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"), "many")
    found, _ = SoundObjects().look_at(broken)
    assert found["spec"]["nodeName"] == "n"
    assert not RequestCache().requests_of(found).get("nvidia.com/gpu")


@pytest.mark.parametrize(
    ("path", "value", "is_hidden"),
    [
        (("metadata", "labels"), "x", False),
        (("status", "phase"), 5, False),
        (("spec", "overhead"), "x", True),
        (("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"), "status.many", True),
    ],
)
def test_a_fault_tells_whether_a_pod_may_ask_for_more(path: Path, value: Any, is_hidden: bool) -> None:
    _, (fault,) = SoundObjects().look_at(damaged(POD, path, value))
    assert fault.hides_amounts == is_hidden


@pytest.mark.parametrize("item", [POD, NODE, BUDGET, NUMA])
@pytest.mark.parametrize("is_bare", [False, True])
def test_what_is_held_out_is_sound_and_stays_who_and_where_it_is(item: dict[str, Any], is_bare: bool) -> None:
    found = held_out(item, is_bare=is_bare)
    assert SoundObjects().look_at(found) == (found, ())
    assert (name_of(found), found["spec"].get("nodeName")) == (name_of(item), item["spec"].get("nodeName"))
    assert found["metadata"].get("ownerReferences") == item["metadata"].get("ownerReferences")


def test_a_node_that_is_held_out_takes_nothing_new_and_is_no_lost_one() -> None:
    found = observed_node(held_out(NODE, is_bare=True))
    assert found.unschedulable
    assert is_ready_node(held_out(NODE, is_bare=True))


def test_of_the_containers_of_a_live_pod_only_what_is_read_must_be_readable() -> None:
    broken = damaged(POD, ("spec", "containers", 0, "ports"), "x")
    assert live_pod_spec(broken).requests["nvidia.com/gpu"] == 8


def test_the_status_of_a_kind_that_only_passes_through_may_be_anything() -> None:
    item = {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "o"}, "spec": [5], "status": "fine"}
    assert SoundObjects().look_at(item) == (item, ())
    assert ClusterState.from_objects([item]).jobs == (item,)


def test_what_was_worked_out_of_pods_that_all_ask_differently_does_not_grow() -> None:
    cache = RequestCache(most_known=3)
    for cpus in range(1, 9):
        assert cache.requests_of(pod("p", limits={"cpu": str(cpus)}))["cpu"] == 1000 * cpus
    assert len(cache._asked_by_containers) <= 3


REGISTER = {"volcano.sh/node-vgpu-register": "GPU-a,10,16384,NVIDIA-A100,true,mig:"}
POOL = {"volcano.sh/vgpu-card": "NVIDIA-H100", "pool": "a"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (REGISTER, {"volcano.sh/vgpu-card": "NVIDIA-A100", "volcano.sh/vgpu-mode": "mig"}),
        ({}, {"volcano.sh/vgpu-card": "NVIDIA-H100"}),
    ],
)
def test_the_cards_of_a_live_node_are_its_labels(annotations: dict[str, str], expected: dict[str, str]) -> None:
    """By its register, else by its pool. Other labels of the pool do not count: the cluster shows those of a node."""
    declared = observed_node(node("n", {}, labels=POOL))
    found = observed_node(node("n", {"cpu": "8"}, annotations=annotations), declared)
    assert found.labels == {"kubernetes.io/hostname": "n", **expected}
