"""What a session has of the last computation is what would be computed again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState, StateError
from compiler.cluster_state.nodes import observed_nodes, unready_nodes
from compiler.cluster_state.pod_records import read_pods
from compiler.lower.digest import VERSION, _encode, problem_digest
from compiler.session import Session
from tests.builders import cluster_objects, specs
from tests.builders.problems import nodes, problem, single_pod_gang


def node(name: str, ready: str = "True", gpus: str = "8") -> dict[str, Any]:
    return cluster_objects.node(name, {"nvidia.com/gpu": gpus}, ready=ready)


def test_each_result_is_kept_for_the_very_same_objects_and_as_long_as_they_are_asked_for() -> None:
    made: list[Any] = []

    def sum_up(numbers: list[int], more: list[int]) -> int:
        made.append(numbers)
        return sum(numbers) + sum(more)

    session, one, two, more = Session(), [1], [2], [10]
    assert session.each("sum", [(one, more), (two, more)], sum_up) == [11, 12]
    assert session.each("sum", [(two, [10]), ([1], more)], sum_up) == [12, 11]
    assert len(made) == 3, "an equal object is another object, what comes after it is compared by value"
    assert [session.known("sum", two, [n]) for n in (10, 20)] == [12, None]
    assert session.each("sum", [(two, [20])], sum_up) == [22]
    assert session.each("sum", [(one, more), (two, more)], sum_up) == [11, 12]
    assert session.each("other sum", [(one, more)], sum_up) == [11]
    assert len(made) == 7


def test_a_step_is_done_again_for_other_inputs_and_those_of_other_keys_are_forgotten() -> None:
    session, made = Session(), list[str]()

    def step(key: str, value: list[int]) -> None:
        session.last(("step", key), (value,), lambda: made.append(key))

    for key, value in (("a", [1]), ("a", [1]), ("a", [2]), ("b", [1])):
        step(key, value)
    session.keep_only({"b"})
    step("a", [2])
    step("b", [1])
    assert made == ["a", "a", "b", "a"]


def test_nodes_are_read_again_when_the_cluster_or_the_repository_says_something_else() -> None:
    kept, changed, session = node("gpu-10"), node("gpu-2"), Session()
    declared = specs.node("gpu-2")
    before = observed_nodes((declared,), ClusterState.from_objects([kept, changed], session=session))
    assert [(each.name, each.allocatable["nvidia.com/gpu"]) for each in before] == [("gpu-2", 8), ("gpu-10", 8)]
    state = ClusterState.from_objects([kept, node("gpu-2", "False", "4")], session=session)
    after = observed_nodes((replace(declared, maintenance_windows=((1, 2),)),), state)
    assert [(each.name, each.allocatable["nvidia.com/gpu"]) for each in after] == [("gpu-2", 4), ("gpu-10", 8)]
    assert after[0].maintenance_windows == ((1, 2),)
    assert unready_nodes(state) == {"gpu-2"}
    assert after[1] is before[1], "nothing has changed of it"


def test_a_pod_is_read_again_when_its_group_is_another() -> None:
    annotations = {"scheduling.k8s.io/group-name": "g"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": {}}
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u"}
    groups = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g", **owners}}
        for owners in ({"ownerReferences": [owner]}, {})
    ]
    session = Session()
    found = [read_pods([pod], list(of), session) for of in ([groups[0]], [groups[1]], [], [groups[0]])]
    assert [[identity[1] for identity in records[0].owners] for records in found] == [
        ["g", "train", "p"],
        ["g", "p"],
        ["p"],
        ["g", "train", "p"],
    ]
    assert read_pods([pod], [groups[0]], session)[0] is found[3][0]


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"metadata": {"name": "x"}}, "item 1 of the state has no kind or no metadata"),
        ({"kind": "Pod", "metadata": {}}, "item 1 of the state, a Pod, has no metadata.name"),
        ([], "item 1 of the state has no kind or no metadata"),
    ],
)
def test_an_object_that_is_none_is_told_by_its_place(item: Any, said: str) -> None:
    with pytest.raises(StateError, match=said):
        ClusterState.from_objects([node("gpu-1"), item])


def test_a_digest_is_that_of_the_whole_text_whatever_was_digested_before() -> None:
    sizes = ((2, 1), (2, 2), (3, 1))
    session = Session()
    worlds = [problem(nodes(count, gpu=8), single_pod_gang("one", 0, gpu=gpus)) for count, gpus in sizes]
    for world in [*worlds, *worlds]:
        text = json.dumps([VERSION, world], separators=(",", ":"), default=_encode)
        assert problem_digest(world, session) == hashlib.sha256(text.encode()).hexdigest()
    assert problem_digest(None, session) == hashlib.sha256(f"[{VERSION},null]".encode()).hexdigest()
