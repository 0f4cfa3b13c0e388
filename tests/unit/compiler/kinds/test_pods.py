"""Bare pods: alone, in a PodGroup, and how they are emitted and found again."""

from __future__ import annotations

import json

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.waves import manifests
from compiler.kubernetes import SCHEDULING_GATE
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders import declared, repositories
from tests.builders.cluster_objects import node
from tests.builders.declared import Object, pod_spec

QUEUE = "scheduling.volcano.sh/queue-name"

NODE = node("n1", {"cpu": "8"})


def pod(name: str, annotations: dict[str, str] | None = None, *, scheduler: str = "volcano", cpu: int = 2) -> Object:
    scheduled: Object = {"schedulerName": scheduler} if scheduler else {}
    spec = pod_spec(requests={"cpu": str(cpu)}, **scheduled)
    return declared.declared("Pod", name, spec, namespace="ml", annotations=annotations or {})


def repository(*objects: Object, binding: str = "gated") -> Repository:
    queues = declared.queue(), declared.queue("ml")
    return repositories.repository(declared.cluster(binding=binding), *queues, NODE, *objects)


def emitted(outcome: Outcome) -> list[Object]:
    assert [each for each in outcome.diagnostics if each.severity == "error"] == []
    return [manifest.object for manifest in manifests(outcome) if manifest.wave == 5]


def gates(item: Object) -> list[str]:
    return [gate["name"] for gate in item["spec"].get("schedulingGates", ())]


def test_a_lone_pod_of_volcano_is_a_gang_of_one() -> None:
    outcome = compile_repository(repository(pod("a", {QUEUE: "ml"})))
    (gang,) = outcome.specs.gangs
    assert gang.key == ("ml", "a", "Pod")
    assert (gang.queue, gang.minimum, [(role.minimum, role.replicas) for role in gang.roles]) == ("ml", 1, [(1, 1)])
    (item,) = emitted(outcome)
    assert gates(item) == [SCHEDULING_GATE]
    assert json.loads(item["metadata"]["annotations"]["gangplan.dev/placement"]) == {"pod": {"n1": 1}}


def test_static_binding_names_its_node() -> None:
    (item,) = emitted(compile_repository(repository(pod("a"), binding="static")))
    (term,) = item["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"][0]["values"] == ["n1"]


def test_a_lone_pod_of_another_scheduler_has_room_and_is_left_as_it_is() -> None:
    outcome = compile_repository(repository(pod("a", scheduler="")))
    (decided,) = outcome.decisions
    assert (decided.gang.scheduling.is_bound, decided.gang.queue, decided.action) == (False, "", "start")
    assert decided.pods == {"pod": {"n1": 1}}
    assert [each.code for each in outcome.diagnostics if each.code in ("GP213", "GP220", "GP337")] == []
    (item,) = emitted(outcome)
    assert (gates(item), item["metadata"].get("annotations")) == ([], None)


def test_a_lone_pod_that_runs_keeps_its_place_and_one_that_ended_is_done() -> None:
    live = {**pod("a", cpu=2), "status": {"phase": "Running"}}
    live["spec"]["nodeName"] = "n1"
    waiting = pod("b", cpu=8)
    for phase, actions in (("Running", ["keep", "wait"]), ("Succeeded", ["done", "start"])):
        state = ClusterState.from_objects([NODE, {**live, "status": {"phase": phase}}])
        outcome = compile_repository(repository(pod("a"), waiting), state=state)
        assert [decision.action for decision in outcome.decisions] == actions


def test_pods_of_a_pod_group_carry_the_gate_and_the_group_does_not() -> None:
    group = declared.declared("PodGroup", "g", {"minMember": 2}, namespace="ml")
    members = [pod(name, {"scheduling.k8s.io/group-name": "g"}) for name in ("a", "b")]
    found = emitted(compile_repository(repository(group, *members)))
    assert [(item["kind"], gates(item)) for item in found] == [
        ("PodGroup", []),
        ("Pod", [SCHEDULING_GATE]),
        ("Pod", [SCHEDULING_GATE]),
    ]


def test_pod_groups_of_other_api_groups_pass_and_misspelt_ones_do_not() -> None:
    for group, codes in (
        ("scheduling.k8s.io/v1alpha1", []),
        ("scheduling.x-k8s.io/v1alpha1", []),
        ("scheduling.volcano.io/v1beta1", ["GP216"]),
    ):
        specs = read_specs(repository(declared.declared("PodGroup", "g", api=group)))
        assert [each.code for each in specs.diagnostics if each.severity == "error"] == codes
