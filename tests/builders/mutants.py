"""Broken documents of every kind, drawn from a seed: values of the wrong type, fields that are gone, renamed or of
another kind, and text that is hardly YAML."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from compiler.kinds.registry import kinds

POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "x"}, "annotations": {"metax-tech.com/gpu-group-size": "2"}},
    "spec": {
        "schedulerName": "volcano",
        "priorityClassName": "p",
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "containers": [
            {
                "name": "main",
                "image": "i",
                "env": [{"name": "E", "value": "v"}],
                "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": 2}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}],
    },
}
ROLE = {"replicas": 2, "template": POD}
JOB = {
    "queue": "q",
    "minAvailable": 2,
    "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    "policies": [{"event": "PodFailed", "action": "RestartJob"}],
    "tasks": [{"name": "w", **ROLE, "partitionPolicy": {"totalPartitions": 1, "partitionSize": 2}}],
}
BATCH = {"parallelism": 2, "completions": 2, "template": POD}
SERVICE = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": POD}
RAY = {"headGroupSpec": {"template": POD}, "workerGroupSpecs": [{"groupName": "w", **ROLE}]}
SPARK = {"type": "Python", "driver": {"cores": 1, "memory": "1g"}, "executor": {"instances": 2, "gpu": {"quantity": 1}}}
FLOW = {
    "entrypoint": "a",
    "templates": [
        {"name": "a", "steps": [[{"name": "s", "template": "b"}]]},
        {"name": "b", **POD["spec"]["containers"][0]},
    ],
}
SPECS: dict[str, Any] = {
    "Pod.": POD["spec"],
    "ReplicationController.": {"replicas": 2, "selector": {"app": "x"}, "template": POD},
    "Node.": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "Job.batch": BATCH,
    "CronJob.batch": {"schedule": "* * * * *", "jobTemplate": {"spec": BATCH}},
    "Job.batch.volcano.sh": JOB,
    "CronJob.batch.volcano.sh": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}},
    "JobTemplate.flow.volcano.sh": JOB,
    "JobFlow.flow.volcano.sh": {"flows": [{"name": "x", "dependsOn": {"targets": ["y"]}}]},
    "Queue.scheduling.volcano.sh": {"weight": 1, "parent": "r", "capability": {"cpu": 8}, "deserved": {"cpu": 4}},
    "PodGroup.scheduling.volcano.sh": {"minMember": 2, "queue": "q", "networkTopology": {"mode": "soft"}},
    "HyperNode.topology.volcano.sh": {
        "tier": 1,
        "members": [{"type": "Node", "selector": {"regexMatch": {"pattern": "n.*"}}}],
    },
    "Cluster.gangplan.dev": {"services": "devices", "jobs": ["jobs/*"], "patience": "1h"},
    "NodePool.gangplan.dev": {"count": 2, "capacity": {"cpu": 8, "nvidia.com/gpu": 8}, "labels": {"zone": "a"}},
    "SchedulerConfiguration.gangplan.dev": {
        "actions": ["allocate"],
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}],
    },
    "JobSet.jobset.x-k8s.io": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": BATCH}}]},
    "LeaderWorkerSet.leaderworkerset.x-k8s.io": {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 2, "leaderTemplate": POD, "workerTemplate": POD},
    },
    "RayCluster.ray.io": RAY,
    "RayJob.ray.io": {"entrypoint": "x", "rayClusterSpec": RAY},
    "RayService.ray.io": {"rayClusterConfig": RAY},
    "SparkApplication.sparkoperator.k8s.io": SPARK,
    "ScheduledSparkApplication.sparkoperator.k8s.io": {"schedule": "@daily", "template": SPARK},
    "Workflow.argoproj.io": FLOW,
    "CronWorkflow.argoproj.io": {"schedule": "* * * * *", "workflowSpec": FLOW},
    "TrainJob.trainer.kubeflow.org": {"runtimeRef": {"name": "r"}, "trainer": {"numNodes": 2}},
    "MPIJob.kubeflow.org": {"slotsPerWorker": 1, "mpiReplicaSpecs": {"Launcher": ROLE, "Worker": ROLE}},
    "PyTorchJob.kubeflow.org": {
        "runPolicy": {"schedulingPolicy": {"queue": "q", "minAvailable": 2}},
        "pytorchReplicaSpecs": {"Master": ROLE, "Worker": ROLE},
    },
    "AscendJob.mindxdl.gitee.com": {"replicaSpecs": {"Master": ROLE}},
    "ElasticJob.elastic.iml.github.io": {"replicaSpecs": {"worker": ROLE}},
}
WITHOUT_SPEC: dict[str, Any] = {
    "ConfigMap.": {
        "data": {
            "volcano-scheduler.conf": 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n'
        }
    },
    "PriorityClass.scheduling.k8s.io": {"value": 10, "globalDefault": True},
    "Numatopology.nodeinfo.volcano.sh": {"spec": {"policies": {"CPUManagerPolicy": "static"}}},
}
WRONG: tuple[Any, ...] = (
    *(
        None,
        0,
        5,
        -1,
        1.5,
        True,
        "",
        "text",
        "1Gi",
        "-3",
        "a/b",
        "é\n",
        [],
        [1],
        [None],
        [{}],
        {},
        {"a": {}},
        {"": None},
    ),
    *(
        2**31,
        2**63,
        10**40,
        "9" * 300,
        [[[]]],
        {"spec": {"containers": [None]}},
        "2026-01-01",
        "{{ .Values.x }}",
        "x" * 70,
    ),
)
PIECES = [
    b"\xff",
    b"\x00",
    b"\r",
    b"\t",
    b"---\n",
    b"|\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&a ",
    b"*a",
    b"<<: ",
    b"!!x ",
    b"'",
]


def seeds() -> list[dict[str, Any]]:
    """An object of every kind, and one of a kind that is not known."""
    found = [{"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "x"}, "spec": ROLE}]
    for key, kind in kinds().items():
        body = WITHOUT_SPEC.get(key) or {"spec": SPECS.get(key, SERVICE)}
        metadata = {"name": "x", "labels": {"a": "b"}, "annotations": {"gangplan.dev/expected-duration": "1h"}}
        found.append({"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **copy.deepcopy(body)})
    return found


def mutants(seed: int, number: int) -> Iterator[bytes]:
    """So many broken documents. Equal seeds make equal ones."""
    chance, known = Random(seed), seeds()  # noqa: S311  - not a secret
    places = [_places(each) for each in known]
    for _ in range(number):
        at = chance.randrange(len(known))
        changed = copy.deepcopy(known[at])
        changed["metadata"]["name"] = f"x{chance.randrange(40)}"
        for _ in range(chance.randint(1, 3)):
            _change(chance, changed, chance.choice(places[at]), known)
        text = json.dumps(changed, indent=chance.choice((None, 1))).encode()
        yield _broken_text(chance, text) if chance.random() < 0.15 else text


Place = tuple[str | int, ...]


def _places(data: object, path: Place = ()) -> list[Place]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    below = [deeper for key, value in items for deeper in _places(value, (*path, key))]
    return [path, *below] if path else below


def _change(chance: Random, data: Any, place: Place, known: list[dict[str, Any]]) -> None:
    """One change at the place, if it is still there."""
    for step in place[:-1]:
        if not _has(data, step):
            return
        data = data[step]
    key: Any = place[-1]
    if not _has(data, key):
        return
    match chance.randrange(6):
        case 0:
            del data[key]
        case 1 if isinstance(data, dict):
            data[chance.choice(("name", "template", "spec", f"{key}s", str(key)[:-1]))] = data.pop(key)
        case 1 | 2 if isinstance(data, list):
            data.append(copy.deepcopy(data[key]))
        case 3:
            other: Any = chance.choice(known)
            data[key] = copy.deepcopy(other.get(key, other.get("spec")) if isinstance(key, str) else other["metadata"])
        case _:
            data[key] = copy.deepcopy(chance.choice(WRONG))


def _has(data: Any, step: str | int) -> bool:
    return step in data if isinstance(data, dict) else isinstance(data, list) and step in range(len(data))


def _broken_text(chance: Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(chance.randint(1, 3)):
        place = chance.randrange(len(changed) + 1)
        if chance.random() < 0.5:
            changed[place:place] = chance.choice(PIECES)
        else:
            del changed[place : place + chance.randint(1, 30)]
    return bytes(changed)
