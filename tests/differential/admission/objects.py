"""Valid objects of each kind, some of their optional fields drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

Object = dict[str, Any]
HOST = "kubernetes.io/hostname"


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


def _some(rng: Random, fields: Mapping[str, Any]) -> Object:
    """About half of the fields."""
    return {key: value for key, value in fields.items() if rng.random() < 0.5}


def container(rng: Random, name: str = "main") -> Object:
    gpus = rng.choice(("1", 2, "8"))
    return {
        "name": name,
        "image": "registry.example/train:1.2",
        "resources": {
            "requests": {"cpu": rng.choice(("2", "500m", 4)), "memory": "8Gi", "nvidia.com/gpu": gpus},
            "limits": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": gpus},
        },
        **_some(
            rng,
            {
                "command": ["python", "-m", "train"],
                "args": ["--epochs", "3"],
                "workingDir": "/work",
                "env": [
                    {"name": "NCCL_DEBUG", "value": "INFO"},
                    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "settings"}}],
                "ports": [{"name": "rdzv", "containerPort": 29500, "protocol": "TCP"}, {"containerPort": 8080}],
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data", "readOnly": True},
                    {"name": "shm", "mountPath": "/dev/shm"},
                ],
                "imagePullPolicy": "IfNotPresent",
                "securityContext": {"privileged": False, "capabilities": {"add": ["IPC_LOCK"]}, "runAsUser": 1000},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}, "periodSeconds": 5},
                "livenessProbe": {"exec": {"command": ["true"]}, "failureThreshold": 3},
                "lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}},
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "tty": True,
            },
        ),
    }


def pod_spec(rng: Random, restart: str) -> Object:
    near = {"key": "gpu.example/model", "operator": "In", "values": ["h100", "a100"]}
    select = {"matchLabels": {"app": "train"}, "matchExpressions": [{"key": "role", "operator": "Exists"}]}
    term = {"labelSelector": select, "topologyKey": HOST}
    return {
        "containers": [container(rng), *([container(rng, "sidecar")] if rng.random() < 0.3 else [])],
        "restartPolicy": restart,
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": "conf", "configMap": {"name": "conf", "defaultMode": 420, "items": [{"key": "a", "path": "b/a"}]}},
            {"name": "key", "secret": {"secretName": "key"}},
            {"name": "host", "hostPath": {"path": "/var/data", "type": "Directory"}},
        ],
        **_some(
            rng,
            {
                "schedulerName": "volcano",
                "nodeSelector": {"gpu.example/model": "h100"},
                "tolerations": [
                    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "team", "operator": "Equal", "value": "vision"},
                    {"key": "lost", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
                ],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [near]}]
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 10, "preference": {"matchExpressions": [near]}}
                        ],
                    },
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [term],
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": term}],
                    },
                },
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": select}
                ],
                "initContainers": [{"name": "fetch", "image": "registry.example/fetch", "command": ["fetch"]}],
                "terminationGracePeriodSeconds": 30,
                "activeDeadlineSeconds": 3600,
                "hostNetwork": True,
                "dnsPolicy": "ClusterFirstWithHostNet",
                "priorityClassName": "research",
                "serviceAccountName": "default",
                "imagePullSecrets": [{"name": "hub"}],
                "securityContext": {"runAsNonRoot": True, "fsGroup": 2000},
                "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["master.local"]}],
                "schedulingGates": [{"name": "gangplan.dev/gate"}],
                "automountServiceAccountToken": False,
                "shareProcessNamespace": True,
                "enableServiceLinks": False,
            },
        ),
    }


def _without_deadline(spec: Object) -> Object:
    spec.pop("activeDeadlineSeconds", None)  # only of pods that end
    return spec


def template(rng: Random, restart: str) -> Object:
    spec = pod_spec(rng, restart)
    labels = {"app": "train", "example.com/team": "vision"}
    return {"metadata": {"labels": labels, **_some(rng, {"annotations": {"example.com/note": "x"}})}, "spec": spec}


def service_template(rng: Random) -> Object:
    found = template(rng, "Always")
    _without_deadline(found["spec"])
    return found


def volcano_job_spec(rng: Random) -> Object:
    tasks = []
    for name, replicas in (("master", 1), ("worker", 4))[: rng.choice((1, 2, 2))]:
        task = {"name": name, "replicas": replicas, "template": template(rng, rng.choice(("OnFailure", "Never")))}
        policies = [{"event": "TaskCompleted", "action": "CompleteJob"}, {"exitCode": 3, "action": "RestartJob"}]
        more = {"minAvailable": replicas, "policies": policies, "maxRetry": 2}
        tasks.append({**task, **_some(rng, more)})
    if len(tasks) == 2 and rng.random() < 0.4:
        tasks[1]["dependsOn"] = {"name": ["master"], "iteration": "any"}
    if len(tasks) == 2 and rng.random() < 0.3:
        tasks[1]["partitionPolicy"] = {
            "totalPartitions": 2,
            "partitionSize": 2,
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
    return {
        "schedulerName": "volcano",
        "tasks": tasks,
        **_some(
            rng,
            {
                "minAvailable": sum(task["replicas"] for task in tasks),
                "queue": rng.choice(("default", "team")),
                "priorityClassName": "research",
                "plugins": {"env": [], "svc": ["--publish-not-ready-addresses"], "ssh": []},
                "policies": [
                    {"event": "PodEvicted", "action": "RestartJob"},
                    {"events": ["PodFailed", "PodPending"], "action": "AbortJob", "timeout": "1h"},
                ],
                "maxRetry": 3,
                "ttlSecondsAfterFinished": 600,
                "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
                "volumes": [
                    {"mountPath": "/out", "volumeClaimName": "out"},
                    {
                        "mountPath": "/new",
                        "volumeClaim": {
                            "accessModes": ["ReadWriteOnce"],
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    },
                ],
                "minSuccess": 1,
                "runningEstimate": "2h",
            },
        ),
    }


def batch_job_spec(rng: Random) -> Object:
    return {
        "template": template(rng, rng.choice(("OnFailure", "Never"))),
        **_some(
            rng,
            {
                "parallelism": 4,
                "completions": 4,
                "backoffLimit": 2,
                "activeDeadlineSeconds": 3600,
                "completionMode": "Indexed",
                "suspend": False,
                "ttlSecondsAfterFinished": 100,
            },
        )
        | {"completions": 4},
    }


def service_spec(rng: Random) -> Object:
    found = {"selector": {"matchLabels": {"app": "train"}}, "template": service_template(rng)}
    return {**found, **_some(rng, {"replicas": 2, "minReadySeconds": 5})}


def deployment_spec(rng: Random) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": "25%"}}
    return {**service_spec(rng), **_some(rng, {"strategy": strategy, "progressDeadlineSeconds": 600})}


def stateful_spec(rng: Random) -> Object:
    claim = {
        "metadata": {"name": "store"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return {
        **service_spec(rng),
        "serviceName": "train",
        **_some(rng, {"podManagementPolicy": "Parallel", "volumeClaimTemplates": [claim]}),
    }


def daemon_spec(rng: Random) -> Object:
    spec = service_spec(rng)
    spec.pop("replicas", None)
    return {**spec, **_some(rng, {"updateStrategy": {"type": "OnDelete"}})}


def replica_set_spec(rng: Random) -> Object:
    return service_spec(rng)


def cron_spec(rng: Random) -> Object:
    return {
        "schedule": "0 3 * * *",
        "jobTemplate": {"spec": batch_job_spec(rng)},
        **_some(
            rng,
            {
                "concurrencyPolicy": "Forbid",
                "timeZone": "Europe/Berlin",
                "suspend": False,
                "successfulJobsHistoryLimit": 1,
                "startingDeadlineSeconds": 60,
            },
        ),
    }


def volcano_cron_spec(rng: Random) -> Object:
    more = {"concurrencyPolicy": "Forbid", "timeZone": "Asia/Shanghai", "suspend": True, "failedJobsHistoryLimit": 2}
    return {"schedule": "*/5 * * * *", "jobTemplate": {"spec": volcano_job_spec(rng)}, **_some(rng, more)}


def queue_spec(rng: Random) -> Object:
    return _some(
        rng,
        {
            "weight": 2,
            "capability": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": 8},
            "reclaimable": True,
            "parent": rng.choice(("root", "org")),
            "priority": 5,
            "dequeueStrategy": "traverse",
            "affinity": {
                "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["pool"]},
                "nodeGroupAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["old"]},
            },
        },
    ) | {"deserved": {"cpu": 32, "nvidia.com/gpu": "4"}, "guarantee": {"resource": {"cpu": "8", "nvidia.com/gpu": 2}}}


def pod_group_spec(rng: Random) -> Object:
    return {
        "minMember": 2,
        **_some(
            rng,
            {
                "queue": "team",
                "priorityClassName": "research",
                "minResources": {"cpu": "4", "nvidia.com/gpu": 2},
                "minTaskMember": {"worker": 2},
                "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
                "subGroupPolicy": [{"name": "rows", "subGroupSize": 2, "labelSelector": {"matchLabels": {"row": "a"}}}],
            },
        ),
    }


def hypernode_spec(rng: Random) -> Object:
    members: list[Object] = [
        {"type": "Node", "selector": {"exactMatch": {"name": "node-1"}}},
        {"type": "Node", "selector": {"regexMatch": {"pattern": "^node-[0-9]+$"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "a"}}}},
    ]
    return {"tier": 1, "members": rng.sample(members, rng.choice((1, 2))), **_some(rng, {"tierName": "supernode"})}


def quota_spec(rng: Random) -> Object:
    return {
        "hard": {"cpu": "100", "requests.nvidia.com/gpu": "8", "pods": 50},
        **_some(rng, {"scopes": ["NotBestEffort"]}),
    }


def budget_spec(rng: Random) -> Object:
    return {
        "selector": {"matchLabels": {"app": "train"}},
        **rng.choice(({"minAvailable": 1}, {"maxUnavailable": "50%"})),
    }


def pytorch_spec(rng: Random) -> Object:
    def replica(number: int) -> Object:
        found: Object = {"replicas": number, "restartPolicy": "OnFailure", "template": template(rng, "Never")}
        found["template"]["spec"]["containers"][0]["name"] = "pytorch"
        del found["template"]["spec"]["restartPolicy"]
        return found

    policy = {"cleanPodPolicy": "Running", "schedulingPolicy": {"queue": "team", "minAvailable": 5}}
    return {
        "pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(4)},
        **_some(rng, {"runPolicy": policy, "nprocPerNode": "8"}),
    }


def flow_spec(rng: Random) -> Object:
    steps = [{"name": "prepare"}, {"name": "train", "dependsOn": {"targets": ["prepare"]}}]
    return {"flows": steps, **_some(rng, {"jobRetainPolicy": "retain"})}


_SPECS: Mapping[str, tuple[str, Callable[[Random], Object], int]] = {
    "Job.batch.volcano.sh": ("batch.volcano.sh/v1alpha1", volcano_job_spec, 10),
    "Job.batch": ("batch/v1", batch_job_spec, 4),
    "Pod.": ("v1", lambda rng: pod_spec(rng, rng.choice(("Always", "OnFailure", "Never"))), 4),
    "Deployment.apps": ("apps/v1", deployment_spec, 2),
    "StatefulSet.apps": ("apps/v1", stateful_spec, 2),
    "DaemonSet.apps": ("apps/v1", daemon_spec, 1),
    "ReplicaSet.apps": ("apps/v1", replica_set_spec, 1),
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
    metadata: Object = {"name": name, **_some(rng, {"labels": {"app": "train"}, "annotations": {"a.example/b": "c"}})}
    if RESOURCES[kind].namespaced and rng.random() < 0.3:
        metadata["namespace"] = "default"
    return kind, {"apiVersion": api_version, "kind": kind.partition(".")[0], "metadata": metadata, "spec": spec(rng)}
