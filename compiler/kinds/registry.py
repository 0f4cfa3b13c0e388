"""All kinds by name; a module is imported when one of its kinds is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache

from compiler.kinds.kind import Kind

MODULES: Mapping[str, tuple[str, ...]] = {
    "argo_workflow": ("CronWorkflow.argoproj.io", "Workflow.argoproj.io"),
    "batch_job": ("Job.batch",),
    "cluster": ("Cluster.gangplan.dev",),
    "config_map": ("ConfigMap.",),
    "elastic_job": ("ElasticJob.elastic.iml.github.io",),
    "hyper_job": ("HyperJob.training.volcano.sh",),
    "hypernode": ("HyperNode.topology.volcano.sh",),
    "job_flow": ("JobFlow.flow.volcano.sh", "JobTemplate.flow.volcano.sh"),
    "job_set": ("JobSet.jobset.x-k8s.io",),
    "kubeflow_jobs": tuple(
        f"{name}.kubeflow.org"
        for name in ("JAXJob", "MPIJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
    ),
    "leader_worker_set": ("LeaderWorkerSet.leaderworkerset.x-k8s.io",),
    "model_serving": ("ModelServing.workload.serving.volcano.sh",),
    "namespace_queue": ("NamespaceQueue.scheduling.volcano.sh",),
    "node": ("Node.",),
    "node_pool": ("NodePool.gangplan.dev",),
    "numatopology": ("Numatopology.nodeinfo.volcano.sh",),
    "plain_jobs": (
        "AscendJob.mindxdl.gitee.com",
        "CronJob.batch",
        "CronJob.batch.volcano.sh",
        "RayClusterFleet.orchestration.aibrix.ai",
        "StormService.orchestration.aibrix.ai",
        "Workspace.kaito.sh",
    ),
    "pod": ("Pod.",),
    "pod_group": ("PodGroup.scheduling.volcano.sh",),
    "priority_class": ("PriorityClass.scheduling.k8s.io",),
    "queue": ("Queue.scheduling.volcano.sh",),
    "ray": ("RayCluster.ray.io", "RayJob.ray.io", "RayService.ray.io"),
    "scheduler_configuration": ("SchedulerConfiguration.gangplan.dev",),
    "scheduler_file": ("SchedulerFile.gangplan.dev",),
    "serving": (
        "InferenceService.serving.kserve.io",
        "LLMInferenceService.serving.kserve.io",
        "PodCliqueSet.grove.io",
        "RoleBasedGroup.workloads.x-k8s.io",
    ),
    "services": (
        "ReplicationController.",
        *(f"{name}.apps" for name in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")),
    ),
    "spark": tuple(
        f"{name}.sparkoperator.k8s.io" for name in ("ScheduledSparkApplication", "SparkApplication", "SparkConnect")
    ),
    "train_job": tuple(
        f"{name}.trainer.kubeflow.org" for name in ("ClusterTrainingRuntime", "TrainJob", "TrainingRuntime")
    ),
    "volcano_job": ("Job.batch.volcano.sh",),
}
"""Module -> the kinds in it ("Kind.group"): what a repository does not hold is not imported."""


class _Kinds(Mapping[str, Kind]):
    """Kinds by "Kind.group", sorted by group and name; each is imported when it is asked for."""

    def __init__(self) -> None:
        modules = {key: module for module, keys in MODULES.items() for key in keys}
        self._modules = dict(sorted(modules.items(), key=lambda item: item[0].partition(".")[::-1]))
        self._known: dict[str, Kind] = {}

    def __getitem__(self, key: str) -> Kind:
        if key not in self._known:
            module = importlib.import_module(f"compiler.kinds.{self._modules[key]}")
            found: tuple[Kind, ...] = module.KINDS if hasattr(module, "KINDS") else (module.KIND,)
            self._known |= {kind.key: kind for kind in found}
        return self._known[key]

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


@cache
def kinds() -> Mapping[str, Kind]:
    """Return every kind, by "Kind.group" ("Node." for the core group)."""
    return _Kinds()
