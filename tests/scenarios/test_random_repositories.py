"""Many small random repositories and clusters: whatever they hold, the outcome keeps its promises."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ruamel.yaml import YAML

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.lock import lock_text
from compiler.emit.texts import manifest_texts
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views import data, machine, text
from compiler.views.explanation import explanation_text

NODES = [*(f"n-{i}" for i in range(8)), *(f"m-{i}" for i in range(3))]
BASE = """\
apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata: {{name: t}}
spec: {{binding: {binding}}}
---
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {{name: n}}
spec:
  count: {nodes}
  labels: {{zone: a}}
  capacity: {{cpu: 16, x.io/gpu: 8}}
  topology: [{{name: sn, size: 2}}, {{name: spine}}]
---
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {{name: m}}
spec: {{count: 3, capacity: {{cpu: 8, x.io/gpu: 4}}, taints: [{{key: k, effect: NoSchedule}}]}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: a}}
spec:
  weight: 2
  capability: {{x.io/gpu: {capability}}}
  guarantee: {{resource: {{x.io/gpu: 4}}}}
  deserved: {{x.io/gpu: 4}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: b}}
spec: {{parent: a, capability: {{x.io/gpu: 4}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: high}}
value: 100
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: low}}
value: 1
"""
TOPOLOGIES = ("{}", "{}", "{mode: hard, highestTierAllowed: 1}", "{mode: hard, highestTierAllowed: 2}", "{mode: soft}")
PLACES = ("", "", "nodeSelector: {zone: a}, ", "tolerations: [{key: k, operator: Exists}], ")


def job(chance: random.Random, name: str) -> str:
    tasks = ""
    for at in range(chance.choice((1, 1, 2))):
        replicas = chance.randint(0, 5)
        container = (
            f"{{name: c, image: a, resources: {{requests: {{cpu: {chance.choice(('1', '500m'))}}}, "
            f"limits: {{x.io/gpu: {chance.choice((0, 1, 2, 4, 8))}}}}}}}"
        )
        tasks += f"  - name: t{at}\n    replicas: {replicas}\n    minAvailable: {chance.randint(0, replicas)}\n"
        tasks += f"    template: {{spec: {{{chance.choice(PLACES)}containers: [{container}]}}}}\n"
    return (
        f"apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: {name}, namespace: x}}\nspec:\n"
        f"  queue: {chance.choice(('b', 'default'))}\n  priorityClassName: {chance.choice(('high', 'low'))}\n"
        f"  networkTopology: {chance.choice(TOPOLOGIES)}\n  tasks:\n{tasks}"
    )


def live_node(chance: random.Random, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": chance.choice("ab")}},
        "spec": {
            "unschedulable": chance.random() < 0.2,
            "taints": [{"key": "q", "effect": "NoExecute"}] if chance.random() < 0.1 else [],
        },
        "status": {
            "allocatable": {"cpu": "16", "x.io/gpu": chance.choice("048"), "pods": "110"},
            "conditions": [{"type": "Ready", "status": chance.choice(("True", "True", "Unknown"))}],
        },
    }


def live_pod(chance: random.Random, name: str) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": f"j{chance.randint(0, 5)}", "volcano.sh/task-spec": f"t{chance.randint(0, 1)}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "x",
            "labels": labels,
            "annotations": {"volcano.sh/queue-name": chance.choice(("b", "unheard-of"))},
        },
        "spec": {
            "nodeName": chance.choice(NODES),
            "containers": [{"resources": {"requests": {"cpu": "1", "x.io/gpu": chance.choice("0148")}}}],
        },
        "status": {"phase": chance.choice(("Running", "Running", "Succeeded", "Pending"))},
    }


def world(seed: int) -> tuple[Repository, ClusterState]:
    chance = random.Random(seed)  # noqa: S311 - a fixed sample, no secret
    base = BASE.format(
        binding=chance.choice(("gated", "static")), nodes=chance.randint(2, 8), capability=chance.choice((4, 16, 64))
    )
    jobs = {f"jobs/j{i}.yaml": job(chance, f"j{i}").encode() for i in range(chance.randint(0, 6))}
    objects = [live_node(chance, name) for name in NODES if chance.random() < 0.85] if chance.random() < 0.4 else []
    objects += [live_pod(chance, f"p{i}") for i in range(chance.choice((0, 4, 12)))]
    return Repository({"cluster-specs/t/base.yaml": base.encode(), **jobs}), ClusterState.from_objects(objects)


@pytest.mark.parametrize("seed", range(40))
def test_every_world_has_a_verified_plan_that_can_be_said_and_emitted(seed: int) -> None:
    tree, state = world(seed)
    outcome = compile_repository(tree, state=state)
    assert [d for d in outcome.diagnostics if d.severity == "error"] == []
    assert outcome.ok  # and so the verifier had nothing to say
    assert len(outcome.decisions) == len(tree.files) - 1
    for decided in outcome.decisions:
        assert decided.reasons or decided.action != "wait"
        assert decided.name in explanation_text(outcome, decided)
        is_named = decided.name in text.plan_text(outcome)
        assert is_named or decided.action == "empty", "those without pods may be one of several: x/j2 to 4"
    for manifest, yaml in manifest_texts(outcome):
        assert YAML(typ="safe").load(yaml) == manifest.object
    again = compile_repository(tree, state=state)
    assert machine.to_json(data.plan_document(again)) == machine.to_json(data.plan_document(outcome))
    assert lock_text(again) == lock_text(outcome)
