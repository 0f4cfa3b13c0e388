"""Many small random repositories and clusters: whatever they hold, the outcome keeps its promises."""

from __future__ import annotations

import random

import pytest
from ruamel.yaml import YAML

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.lock import lock_text
from compiler.emit.waves import manifest_texts
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.views import data, machine, text
from compiler.views.explanation import explanation_text
from tests.builders import cluster_objects, declared
from tests.builders.declared import Object, pod_spec
from tests.builders.depth import sample

NODES = [*(f"n-{i}" for i in range(8)), *(f"m-{i}" for i in range(3))]
GPU = "x.io/gpu"
TOPOLOGIES: tuple[Object, ...] = (
    *({}, {}, {"mode": "soft"}),
    *({"mode": "hard", "highestTierAllowed": 1}, {"mode": "hard", "highestTierAllowed": 2}),
)
PLACES: tuple[Object, ...] = (
    *({}, {}),
    *({"nodeSelector": {"zone": "a"}}, {"tolerations": [{"key": "k", "operator": "Exists"}]}),
)


def job(chance: random.Random, name: str) -> Object:
    tasks = []
    for at in range(chance.choice((1, 1, 2))):
        replicas = chance.randint(0, 5)
        pod = pod_spec({GPU: chance.choice((0, 1, 2, 4, 8))}, {"cpu": chance.choice(("1", "500m"))})
        template = {"spec": {**pod, **chance.choice(PLACES)}}
        least = chance.randint(0, replicas)
        tasks.append({"name": f"t{at}", "replicas": replicas, "minAvailable": least, "template": template})
    spec: Object = {"queue": chance.choice(("b", "default")), "priorityClassName": chance.choice(("high", "low"))}
    spec |= {"networkTopology": chance.choice(TOPOLOGIES), "tasks": tasks}
    return declared.declared("Job", name, spec, namespace="x")


def live_node(chance: random.Random, name: str) -> Object:
    taints = [{"key": "q", "effect": "NoExecute"}] if chance.random() < 0.1 else []
    return cluster_objects.node(
        name,
        {"cpu": "16", GPU: chance.choice("048")},
        ready=chance.choice(("True", "True", "Unknown")),
        spec={"unschedulable": chance.random() < 0.2, "taints": taints},
        labels={"zone": chance.choice("ab")},
    )


def live_pod(chance: random.Random, name: str) -> Object:
    more: Object = {
        "node": chance.choice(NODES),
        "requests": {"cpu": "1", GPU: chance.choice("0148")},
        "phase": chance.choice(("Running", "Running", "Succeeded", "Pending")),
        "annotations": {"volcano.sh/queue-name": chance.choice(("b", "unheard-of"))},
    }
    job, role = f"j{chance.randint(0, 5)}", f"t{chance.randint(0, 1)}"
    return cluster_objects.volcano_job_pod(name, job, role, namespace="x", **more)


def base(chance: random.Random) -> list[Object]:
    tiers = [{"name": "sn", "size": 2}, {"name": "spine"}]
    large: Object = {"labels": {"zone": "a"}, "capacity": {"cpu": 16, GPU: 8}, "topology": tiers}
    closed: Object = {"capacity": {"cpu": 8, GPU: 4}, "taints": [{"key": "k", "effect": "NoSchedule"}]}
    limits: Object = {"guarantee": {"resource": {GPU: 4}}, "deserved": {GPU: 4}}
    return [
        declared.cluster(binding=chance.choice(("gated", "static"))),
        declared.node_pool(chance.randint(2, 8), **large),
        declared.node_pool(3, name="m", **closed),
        declared.queue("a", weight=2, capability={GPU: chance.choice((4, 16, 64))}, **limits),
        declared.queue("b", parent="a", capability={GPU: 4}),
        declared.priority_class("high", 100),
        declared.priority_class("low", 1),
    ]


def world(seed: int) -> tuple[Repository, ClusterState]:
    chance = random.Random(seed)  # noqa: S311 - a fixed sample, no secret
    files = {"cluster-specs/c/all.yaml": declared.yaml_of(*base(chance)).encode()}
    jobs = [job(chance, f"j{i}") for i in range(chance.randint(0, 6))]
    files |= {f"jobs/j{i}.yaml": declared.yaml_of(each).encode() for i, each in enumerate(jobs)}
    objects = [live_node(chance, name) for name in NODES if chance.random() < 0.85] if chance.random() < 0.4 else []
    objects += [live_pod(chance, f"p{i}") for i in range(chance.choice((0, 4, 12)))]
    return Repository(files), ClusterState.from_objects(objects)


@pytest.mark.parametrize("seed", range(sample(40)))
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
