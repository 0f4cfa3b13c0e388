"""Rules in CEL that the CRDs of operators bring with their schemas: the trainer's, JobSet's and Ray's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.judge import Judge, items, mapping

_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_TRAINER = ("trainer.kubeflow.org/trainjob-controller", _MULTIKUEUE)
_KUBERAY = ("ray.io/kuberay-operator", _MULTIKUEUE)
_DELETION_POLICIES = ("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")
_CLEAN_POD_POLICIES = ("None", "Running", "All")
_NUMBERS_OF_PROCESSES = ("auto", "cpu", "gpu")


def operator_object(judge: Judge, kind_key: str, data: dict[str, Any]) -> None:
    """An object of a kind ("Kind.group")."""
    if (rule := _RULES.get(kind_key)) is not None:
        rule(judge, data)


def _train_job(judge: Judge, data: dict[str, Any]) -> None:
    judge.name(("metadata", "name"), mapping(data, "metadata").get("name"), names.SERVICE_NAME)
    _manager(judge, data, ("spec",), _TRAINER)


def _training_runtime(judge: Judge, data: dict[str, Any]) -> None:
    policy, at = mapping(data, "spec", "mlPolicy"), ("spec", "mlPolicy")
    if policy.get("torch") is not None and policy.get("mpi") is not None:
        judge.contradiction(at, "torch and mpi are both given", "keep one")
    if policy.get("numNodes") is not None and mapping(policy, "torch").get("elasticPolicy") is not None:
        judge.contradiction((*at, "numNodes"), "torch.elasticPolicy says it", "remove one of the two")
    if len(given := [key for key, value in mapping(data, "spec", "podGroupPolicy").items() if value is not None]) > 1:
        what = f"{' and '.join(given)} each make a PodGroup of their own"
        judge.contradiction(("spec", "podGroupPolicy"), what, "keep only one")
    processes = mapping(policy, "torch").get("numProcPerNode")
    is_number = isinstance(processes, int) and not isinstance(processes, bool)
    if processes is not None and processes not in _NUMBERS_OF_PROCESSES and not (is_number and processes > 0):
        what = f"{processes!r} is neither a number above 0 nor one of {', '.join(_NUMBERS_OF_PROCESSES)}"
        judge.contradiction((*at, "torch", "numProcPerNode"), what, "write auto, or a number without quotes")
    _start_order(judge, mapping(data, "spec", "template", "spec"), ("spec", "template", "spec"))


def _job_set(judge: Judge, data: dict[str, Any]) -> None:
    _start_order(judge, mapping(data, "spec"), ("spec",))


def _start_order(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    if mapping(spec, "startupPolicy").get("startupPolicyOrder") != "InOrder":
        return
    if any(job.get("dependsOn") is not None for _, job in items(spec, "replicatedJobs")):
        what = "InOrder and dependsOn of a replicated Job exclude one another"
        judge.contradiction((*path, "startupPolicy", "startupPolicyOrder"), what, "keep one")


def _mpi_job(judge: Judge, data: dict[str, Any]) -> None:
    if str(data.get("apiVersion")).endswith("/v2beta1"):  # the training operator's v1 takes any text
        path = ("spec", "runPolicy", "cleanPodPolicy")
        judge.choice(path, mapping(data, *path[:-1]).get(path[-1]), _CLEAN_POD_POLICIES)


def _ray_groups(judge: Judge, data: dict[str, Any], path: tuple[str, ...]) -> None:
    """Of each worker group the least number of pods is not above the most: KubeRay's validation refuses it."""
    for number, group in items(mapping(data, *path), "workerGroupSpecs"):
        least, most = group.get("minReplicas"), group.get("maxReplicas")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            at: FieldPath = (*path, "workerGroupSpecs", number, "minReplicas")
            judge.contradiction(at, f"{least} is above maxReplicas {most}", "lower it, or raise maxReplicas")


def _ray_cluster(judge: Judge, data: dict[str, Any]) -> None:
    _manager(judge, data, ("spec",), _KUBERAY)
    _ray_groups(judge, data, ("spec",))


def _ray_job(judge: Judge, data: dict[str, Any]) -> None:
    _manager(judge, data, ("spec",), _KUBERAY)
    _manager(judge, data, ("spec", "rayClusterSpec"), _KUBERAY)
    _ray_groups(judge, data, ("spec", "rayClusterSpec"))
    judge.choice(("spec", "deletionPolicy"), mapping(data, "spec").get("deletionPolicy"), _DELETION_POLICIES)


def _ray_service(judge: Judge, data: dict[str, Any]) -> None:
    _manager(judge, data, ("spec", "rayClusterConfig"), _KUBERAY)
    _ray_groups(judge, data, ("spec", "rayClusterConfig"))


def _manager(judge: Judge, data: dict[str, Any], path: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    judge.choice((*path, "managedBy"), mapping(data, *path).get("managedBy"), allowed)


_RULES: Mapping[str, Callable[[Judge, dict[str, Any]], None]] = {
    "ClusterTrainingRuntime.trainer.kubeflow.org": _training_runtime,
    "JobSet.jobset.x-k8s.io": _job_set,
    "MPIJob.kubeflow.org": _mpi_job,
    "RayCluster.ray.io": _ray_cluster,
    "RayJob.ray.io": _ray_job,
    "RayService.ray.io": _ray_service,
    "TrainingRuntime.trainer.kubeflow.org": _training_runtime,
    "TrainJob.trainer.kubeflow.org": _train_job,
}
