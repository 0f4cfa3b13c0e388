"""Valid objects of each kind, some of their optional fields drawn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml

Object = dict[str, Any]
_FIELDS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


class Resource(NamedTuple):
    """Where objects of a kind are posted."""

    path: str
    namespaced: bool = True

    def url(self) -> str:
        group, _, plural = self.path.rpartition("/")
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return f"{root}/namespaces/default/{plural}" if self.namespaced else f"{root}/{plural}"


RESOURCES: Mapping[str, Resource] = {
    "ConfigMap.": Resource("v1/configmaps"),
    "CronJob.batch": Resource("batch/v1/cronjobs"),
    "CronJob.batch.volcano.sh": Resource("batch.volcano.sh/v1alpha1/cronjobs"),
    "DaemonSet.apps": Resource("apps/v1/daemonsets"),
    "Deployment.apps": Resource("apps/v1/deployments"),
    "HyperNode.topology.volcano.sh": Resource("topology.volcano.sh/v1alpha1/hypernodes", False),
    "Job.batch": Resource("batch/v1/jobs"),
    "Job.batch.volcano.sh": Resource("batch.volcano.sh/v1alpha1/jobs"),
    "JobFlow.flow.volcano.sh": Resource("flow.volcano.sh/v1alpha1/jobflows"),
    "JobTemplate.flow.volcano.sh": Resource("flow.volcano.sh/v1alpha1/jobtemplates"),
    "Namespace.": Resource("v1/namespaces", False),
    "Pod.": Resource("v1/pods"),
    "PodDisruptionBudget.policy": Resource("policy/v1/poddisruptionbudgets"),
    "PodGroup.scheduling.volcano.sh": Resource("scheduling.volcano.sh/v1beta1/podgroups"),
    "PriorityClass.scheduling.k8s.io": Resource("scheduling.k8s.io/v1/priorityclasses", False),
    "PyTorchJob.kubeflow.org": Resource("kubeflow.org/v1/pytorchjobs"),
    "Queue.scheduling.volcano.sh": Resource("scheduling.volcano.sh/v1beta1/queues", False),
    "ReplicaSet.apps": Resource("apps/v1/replicasets"),
    "ResourceQuota.": Resource("v1/resourcequotas"),
    "StatefulSet.apps": Resource("apps/v1/statefulsets"),
}


def _some(rng: Random, of: str, **values: Any) -> Object:
    """About half of the fields that objects.yaml has of this, with these values."""
    return copy.deepcopy({key: value for key, value in (_FIELDS[of] | values).items() if rng.random() < 0.5})


def _always(of: str) -> Any:
    return copy.deepcopy(_FIELDS[of])


def container(rng: Random, name: str = "main") -> Object:
    gpus = rng.choice(("1", 2, "8"))
    return {
        "name": name,
        "image": "registry.example/train:1.2",
        "resources": {
            "requests": {"cpu": rng.choice(("2", "500m", 4)), "memory": "8Gi", "nvidia.com/gpu": gpus},
            "limits": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": gpus},
        },
        **_some(rng, "container"),
    }


def pod_spec(rng: Random, restart: str) -> Object:
    containers = [container(rng), *([container(rng, "sidecar")] if rng.random() < 0.3 else [])]
    fixed = {"containers": containers, "restartPolicy": restart, "volumes": _always("volumes")}
    return {**fixed, **_some(rng, "pod")}


def template(rng: Random, restart: str) -> Object:
    spec = pod_spec(rng, restart)
    notes = {"annotations": {"example.com/note": "x"}} if rng.random() < 0.5 else {}
    return {"metadata": {"labels": {"app": "train", "example.com/team": "vision"}, **notes}, "spec": spec}


def service_template(rng: Random) -> Object:
    found = template(rng, "Always")
    found["spec"].pop("activeDeadlineSeconds", None)  # only of pods that end
    return found


def volcano_job_spec(rng: Random) -> Object:
    tasks = []
    for name, replicas in (("master", 1), ("worker", 4))[: rng.choice((1, 2, 2))]:
        task = {"name": name, "replicas": replicas, "template": template(rng, rng.choice(("OnFailure", "Never")))}
        tasks.append({**task, **_some(rng, "task", minAvailable=replicas)})
    if len(tasks) == 2 and rng.random() < 0.4:
        tasks[1]["dependsOn"] = {"name": ["master"], "iteration": "any"}
    if len(tasks) == 2 and rng.random() < 0.3:
        tasks[1]["partitionPolicy"] = _always("partitions")
    queue, least = rng.choice(("default", "team")), sum(task["replicas"] for task in tasks)
    return {"schedulerName": "volcano", "tasks": tasks, **_some(rng, "volcano job", minAvailable=least, queue=queue)}


def batch_job_spec(rng: Random) -> Object:
    made = template(rng, rng.choice(("OnFailure", "Never")))
    return {"template": made, **_some(rng, "batch job"), "completions": 4}


def service_spec(rng: Random) -> Object:
    found = {"selector": {"matchLabels": {"app": "train"}}, "template": service_template(rng)}
    return {**found, **_some(rng, "service")}


def deployment_spec(rng: Random) -> Object:
    return {**service_spec(rng), **_some(rng, "deployment")}


def stateful_spec(rng: Random) -> Object:
    return {**service_spec(rng), "serviceName": "train", **_some(rng, "stateful set")}


def daemon_spec(rng: Random) -> Object:
    spec = service_spec(rng)
    spec.pop("replicas", None)
    return {**spec, **_some(rng, "daemon set")}


def cron_spec(rng: Random) -> Object:
    return {"schedule": "0 3 * * *", "jobTemplate": {"spec": batch_job_spec(rng)}, **_some(rng, "cron job")}


def volcano_cron_spec(rng: Random) -> Object:
    job = {"spec": volcano_job_spec(rng)}
    return {"schedule": "*/5 * * * *", "jobTemplate": job, **_some(rng, "volcano cron job")}


def queue_spec(rng: Random) -> Object:
    return {**_some(rng, "queue", parent=rng.choice(("root", "org"))), **_always("queue always")}


def pod_group_spec(rng: Random) -> Object:
    return {"minMember": 2, **_some(rng, "pod group")}


def hypernode_spec(rng: Random) -> Object:
    members = rng.sample(_always("hypernode members"), rng.choice((1, 2)))
    return {"tier": 1, "members": members, **_some(rng, "hypernode")}


def quota_spec(rng: Random) -> Object:
    return {"hard": {"cpu": "100", "requests.nvidia.com/gpu": "8", "pods": 50}, **_some(rng, "quota")}


def budget_spec(rng: Random) -> Object:
    limit: Object = rng.choice(({"minAvailable": 1}, {"maxUnavailable": "50%"}))
    return {"selector": {"matchLabels": {"app": "train"}}, **limit}


def pytorch_spec(rng: Random) -> Object:
    def replica(number: int) -> Object:
        found: Object = {"replicas": number, "restartPolicy": "OnFailure", "template": template(rng, "Never")}
        found["template"]["spec"]["containers"][0]["name"] = "pytorch"
        del found["template"]["spec"]["restartPolicy"]
        return found

    return {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(4)}, **_some(rng, "pytorch job")}


def flow_spec(rng: Random) -> Object:
    steps = [{"name": "prepare"}, {"name": "train", "dependsOn": {"targets": ["prepare"]}}]
    return {"flows": steps, **_some(rng, "flow")}


_SPECS: Mapping[str, tuple[str, Callable[[Random], Object], int]] = {
    "Job.batch.volcano.sh": ("batch.volcano.sh/v1alpha1", volcano_job_spec, 10),
    "Job.batch": ("batch/v1", batch_job_spec, 4),
    "Pod.": ("v1", lambda rng: pod_spec(rng, rng.choice(("Always", "OnFailure", "Never"))), 4),
    "Deployment.apps": ("apps/v1", deployment_spec, 2),
    "StatefulSet.apps": ("apps/v1", stateful_spec, 2),
    "DaemonSet.apps": ("apps/v1", daemon_spec, 1),
    "ReplicaSet.apps": ("apps/v1", service_spec, 1),
    "CronJob.batch": ("batch/v1", cron_spec, 2),
    "CronJob.batch.volcano.sh": ("batch.volcano.sh/v1alpha1", volcano_cron_spec, 2),
    "JobTemplate.flow.volcano.sh": ("flow.volcano.sh/v1alpha1", volcano_job_spec, 1),
    "JobFlow.flow.volcano.sh": ("flow.volcano.sh/v1alpha1", flow_spec, 1),
    "Queue.scheduling.volcano.sh": ("scheduling.volcano.sh/v1beta1", queue_spec, 5),
    "PodGroup.scheduling.volcano.sh": ("scheduling.volcano.sh/v1beta1", pod_group_spec, 3),
    "HyperNode.topology.volcano.sh": ("topology.volcano.sh/v1alpha1", hypernode_spec, 3),
    "ResourceQuota.": ("v1", quota_spec, 1),
    "PodDisruptionBudget.policy": ("policy/v1", budget_spec, 1),
    "PyTorchJob.kubeflow.org": ("kubeflow.org/v1", pytorch_spec, 3),
}
KINDS = tuple(sorted(_SPECS))


def valid_object(rng: Random, name: str) -> tuple[str, Object]:
    """A kind ("Kind.group") by its weight, and an object of it."""
    (kind,) = rng.choices(KINDS, [_SPECS[each][2] for each in KINDS])
    api_version, spec, _ = _SPECS[kind]
    metadata: Object = {"name": name, **_some(rng, "metadata")}
    if RESOURCES[kind].namespaced and rng.random() < 0.3:
        metadata["namespace"] = "default"
    return kind, {"apiVersion": api_version, "kind": kind.partition(".")[0], "metadata": metadata, "spec": spec(rng)}
