"""Kinds of operators that serve models: which pods they run, and that none is bound."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import Specs
from tests.builders.beside import beside
from tests.unit.compiler.kinds.operator_jobs import gang, read

Item = dict[str, Any]
GPU: Item = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 2}}}]}
TEMPLATE: Item = {"spec": GPU}
KINDS: dict[str, tuple[str, str, Item, dict[str, int]]] = beside(__file__)["kinds"]


def codes(specs: Specs) -> list[str]:
    """What is reported, besides that there are no nodes and no permissions."""
    return [each.code for each in specs.diagnostics if each.code not in ("GP355", "GP357")]


@pytest.mark.parametrize("case", KINDS)
def test_room_is_kept_for_the_pods_that_they_run(case: str) -> None:
    api_version, kind, spec, expected = KINDS[case]
    found = gang(api_version, kind, spec)
    assert {role.name: role.replicas for role in found.roles} == expected
    assert {role.pod.requests["nvidia.com/gpu"] for role in found.roles} == {2}
    assert (found.scheduling.is_bound, found.scheduling.schedulable) == (False, False)
    specs = read(api_version, kind, spec)
    assert {pods.role: pods.count for pods in specs.unplanned_pods} == expected
    assert codes(specs) == ["GP222", "GP228"] if "model" in spec.get("predictor", {}) else ["GP222"]


@pytest.mark.parametrize("newer", [False, True])
def test_a_role_based_group_names_its_queue_and_priority_as_rbg_reads_them(newer: bool) -> None:
    spec: Item = {"roles": [{"name": "a", "template": {"spec": {**GPU, "schedulerName": "volcano"}}}]}
    metadata: Item = {}
    if newer:
        prefix = "rbg.workloads.x-k8s.io/group-gang-scheduling-volcano"
        metadata["annotations"] = {f"{prefix}-queue": "ml", f"{prefix}-priority": "system-node-critical"}
    else:
        spec["podGroupPolicy"] = {"volcanoScheduling": {"queue": "ml", "priorityClassName": "system-node-critical"}}
    found = gang("workloads.x-k8s.io/v1alpha1", "RoleBasedGroup", spec, **metadata)
    assert (found.queue, found.priority_class) == ("ml", "system-node-critical")
    assert str(found.field_paths["queue"][-1]).endswith("queue")


def test_what_a_webhook_of_kserve_adds_is_asked_for() -> None:
    resources = {"limits": {"cpu": 8, "memory": "8Gi"}}
    found = gang("serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"sklearn": {"resources": resources}}})
    assert found.roles[0].pod.requests == {"cpu": 1000, "memory": 2 << 30, "pods": 1}
    nodes = {"predictor": {"model": {"modelFormat": {"name": "huggingface"}}, "workerSpec": {"tensorParallelSize": 4}}}
    of_nodes = gang("serving.kserve.io/v1beta1", "InferenceService", nodes)
    assert [role.pod.requests["nvidia.com/gpu"] for role in of_nodes.roles] == [4, 4]


def test_a_set_of_cliques_has_no_replica_unless_it_says_so_and_a_topology_of_its_own_is_reported() -> None:
    clique = {
        "name": "a",
        "spec": {"roleName": "a", "podSpec": GPU},
        "topologyConstraint": {"pack": {"required": "rack"}},
    }
    template = {"cliques": [clique], "priorityClassName": "system-node-critical"}
    found = gang("grove.io/v1alpha1", "PodCliqueSet", {"template": template})
    assert ([role.replicas for role in found.roles], found.priority_class) == ([0], "system-node-critical")
    specs = read("grove.io/v1alpha1", "PodCliqueSet", {"replicas": 1, "template": template})
    assert [each.message for each in specs.diagnostics if each.code == "GP228"] == [
        "topologyConstraint is not applied: the plan may spread its pods"
    ]


def workspace(**more: Item) -> Specs:
    text = {"apiVersion": "kaito.sh/v1beta1", "kind": "Workspace", "metadata": {"name": "w"}, **more}
    return read_specs(Repository({"cluster-specs/c/README": b"", "jobs/w.yaml": json.dumps(text).encode()}))


def test_a_workspace_runs_a_template_or_pods_that_its_text_does_not_tell() -> None:
    resource = {"instanceType": "Standard_NC24ads_A100_v4", "count": 2, "labelSelector": {}}
    tuning = {"preset": {"name": "phi-4"}, "input": {}, "output": {}}
    specs = workspace(resource=resource, inference={"template": TEMPLATE})
    assert [(pods.role, pods.count) for pods in specs.unplanned_pods] == [("inference", 2)]
    assert codes(workspace(resource=resource, inference={"preset": {"name": "phi-4"}})) == ["GP213"]
    assert codes(workspace(resource=resource, tuning=tuning)) == ["GP213"]
