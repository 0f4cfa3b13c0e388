"""A job of each operator, in queue "team"."""

from __future__ import annotations

from typing import Any

from tests.e2e.stories.story import Object

QUEUE = {"scheduling.volcano.sh/queue-name": "team"}


def _template(*, gpus: int = 0, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}, "limits": limits}}
    metadata = {"metadata": {"annotations": annotations}} if annotations else {}
    return {**metadata, "spec": {"schedulerName": "volcano", "containers": [container], **spec}}


def _object(api: str, kind: str, spec: Object, **metadata: Any) -> Object:
    name = {"name": kind.lower(), "namespace": "default", **metadata}
    return {"apiVersion": api, "kind": kind, "metadata": name, "spec": spec}


def batch_job() -> Object:
    template = _template(gpus=1, annotations=QUEUE, restartPolicy="Never")
    return _object(
        "batch/v1",
        "Job",
        {"parallelism": 5, "completions": 5, "completionMode": "Indexed", "template": template},
        annotations={"gangplan.dev/gang": "true"},
    )


def pytorch_job() -> Object:
    def replicas(count: int) -> Object:
        template = _template(gpus=2)
        template["spec"]["containers"][0]["name"] = "pytorch"
        return {"replicas": count, "restartPolicy": "OnFailure", "template": template}

    return _object(
        "kubeflow.org/v1",
        "PyTorchJob",
        {
            "runPolicy": {"schedulingPolicy": {"queue": "team"}},
            "pytorchReplicaSpecs": {"Master": replicas(1), "Worker": replicas(3)},
        },
    )


def tensorflow_job() -> Object:
    def replicas(count: int, gpus: int) -> Object:
        template = _template(gpus=gpus)
        template["spec"]["containers"][0]["name"] = "tensorflow"
        return {"replicas": count, "restartPolicy": "OnFailure", "template": template}

    return _object(
        "kubeflow.org/v1",
        "TFJob",
        {
            "runPolicy": {"schedulingPolicy": {"queue": "team"}},
            "tfReplicaSpecs": {"PS": replicas(2, 0), "Chief": replicas(1, 2), "Worker": replicas(2, 2)},
        },
    )


def job_set() -> Object:
    def replicated(name: str, replicas: int, parallelism: int, gpus: int) -> Object:
        job = {"parallelism": parallelism, "completions": parallelism, "template": _template(gpus=gpus)}
        return {"name": name, "replicas": replicas, "template": {"spec": job}}

    jobs = [replicated("driver", 1, 1, 0), replicated("workers", 2, 2, 2)]
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs}, annotations=QUEUE)


def ray_cluster() -> Object:
    def workers(name: str, replicas: int, gpus: int) -> Object:
        bounds = {"replicas": replicas, "minReplicas": 0, "maxReplicas": 4}
        return {"groupName": name, **bounds, "rayStartParams": {}, "template": _template(gpus=gpus)}

    return _object(
        "ray.io/v1",
        "RayCluster",
        {
            "rayVersion": "2.46.0",
            "headGroupSpec": {"rayStartParams": {}, "template": _template()},
            "workerGroupSpecs": [workers("big", 2, 2), workers("small", 3, 1)],
        },
        labels={"volcano.sh/queue-name": "team"},
    )


def ray_job() -> Object:
    spec = {"entrypoint": "true", "rayClusterSpec": ray_cluster()["spec"]}
    return _object("ray.io/v1", "RayJob", spec, labels={"volcano.sh/queue-name": "team"})


def ray_service() -> Object:
    spec = {"serveConfigV2": "applications: []", "upgradeStrategy": {"type": "None"}}
    spec["rayClusterConfig"] = ray_cluster()["spec"]
    return _object("ray.io/v1", "RayService", spec, labels={"volcano.sh/queue-name": "team"})


def training_runtime() -> Object:
    template = _template()
    template["spec"]["containers"][0]["name"] = "node"
    metadata = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    node = {"name": "node", "template": {"metadata": metadata, "spec": {"template": template}}}
    spec = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}}
    runtime = _object("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", spec)
    return {**runtime, "metadata": {"name": "torch"}}


def train_job() -> Object:
    asks = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 2}}
    trainer = {"numNodes": 3, "resourcesPerNode": asks}
    spec = {"runtimeRef": {"name": "torch"}, "annotations": QUEUE, "trainer": trainer}
    return _object("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)


def leader_worker_set() -> Object:
    group = {"size": 3, "leaderTemplate": _template(gpus=2), "workerTemplate": _template(gpus=1)}
    spec = {"replicas": 2, "leaderWorkerTemplate": group}
    return _object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, annotations=QUEUE)


def mpi_job() -> Object:
    return _object(
        "kubeflow.org/v2beta1",
        "MPIJob",
        {
            "slotsPerWorker": 2,
            "runPolicy": {"schedulingPolicy": {"queue": "team"}},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": _template(restartPolicy="OnFailure")},
                "Worker": {"replicas": 4, "template": _template(gpus=2)},
            },
        },
    )


def kubeflow_job(kind: str, field: str, *roles: str) -> Object:
    replicas = {role: {"replicas": 1, "restartPolicy": "OnFailure", "template": _template()} for role in roles}
    return _object("kubeflow.org/v1", kind, {"runPolicy": {"schedulingPolicy": {"queue": "team"}}, field: replicas})


def ascend_job() -> Object:
    policy = {"schedulingPolicy": {"minAvailable": 1, "queue": "team"}}
    replicas = {"Master": {"replicas": 1, "template": _template()}}
    spec = {"schedulerName": "volcano", "runPolicy": policy, "replicaSpecs": replicas}
    return _object("mindxdl.gitee.com/v1", "AscendJob", spec)


def elastic_job() -> Object:
    replicas = {"worker": {"replicas": 1, "template": _template()}}
    spec = {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": replicas}
    return _object("elastic.iml.github.io/v1alpha1", "ElasticJob", spec)


def model_serving() -> Object:
    role = {"name": "all", "replicas": 1, "entryTemplate": _template(), "workerReplicas": 0}
    return _object("workload.serving.volcano.sh/v1alpha1", "ModelServing", {"template": {"roles": [role]}})
