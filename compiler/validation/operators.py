"""Rules on values that operators bring, in CEL with their CRDs or in webhooks: most are rows of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.containers import resources
from compiler.validation.judge import Judge, items, mapping

_MULTIKUEUE = "kueue.x-k8s.io/multikueue"
_TRAINER = ("trainer.kubeflow.org/trainjob-controller", _MULTIKUEUE)
_KUBERAY = ("ray.io/kuberay-operator", _MULTIKUEUE)
_DELETION_POLICIES = ("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")
_BATCH_SCHEDULERS = ("volcano", "yunikorn", "kube-scheduler")
_UPGRADES = ("None", "NewCluster", "NewClusterWithIncrementalUpgrade")
_CHOICES: Mapping[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]] = {
    "RayJob.ray.io": ((("spec", "deletionPolicy"), _DELETION_POLICIES),),
    "RayService.ray.io": ((("spec", "upgradeStrategy", "type"), _UPGRADES),),
    "ScheduledSparkApplication.sparkoperator.k8s.io": ((("spec", "template", "batchScheduler"), _BATCH_SCHEDULERS),),
    "SparkApplication.sparkoperator.k8s.io": ((("spec", "batchScheduler"), _BATCH_SCHEDULERS),),
}
"""Kind -> the values that a field may have."""
_REQUIRED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "StormService.orchestration.aibrix.ai": (("spec", "selector"), ("spec", "template")),
}
"""Kind without a schema here -> the fields that its CRD requires."""
_CLEAN_POD_POLICIES = ("None", "Running", "All")
_NUMBERS_OF_PROCESSES = ("auto", "cpu", "gpu")


_SERVICES_NAMED = """
    InferenceService.serving.kserve.io JobSet.jobset.x-k8s.io LeaderWorkerSet.leaderworkerset.x-k8s.io RayCluster.ray.io
    RayJob.ray.io RayService.ray.io TrainJob.trainer.kubeflow.org
"""
_SERVICE_NAMED = frozenset(_SERVICES_NAMED.split())
"""Kinds whose objects' names are also those of Services."""


def operator_object(judge: Judge, kind_key: str, data: dict[str, Any]) -> None:
    """An object of a kind ("Kind.group")."""
    if kind_key in _SERVICE_NAMED:
        judge.name(("metadata", "name"), mapping(data, "metadata").get("name"), names.SERVICE_NAME)
    if (rule := _RULES.get(kind_key)) is not None:
        rule(judge, data)
    for path, lower, upper in _BOUNDS.get(kind_key, ()):
        for at, found in _mappings_at(data, path.split("."), ()):
            least, most = found.get(lower), found.get(upper)
            if isinstance(least, int) and isinstance(most, int) and least > most > 0:
                judge.contradiction((*at, lower), f"{least} is above {upper} {most}", f"lower it, or raise {upper}")
    for keys in _REQUIRED.get(kind_key, ()):
        if mapping(data, *keys[:-1]).get(keys[-1]) is None:
            judge.missing(keys)
    for keys, allowed in _CHOICES.get(kind_key, ()):
        judge.choice(keys, mapping(data, *keys[:-1]).get(keys[-1]), allowed)


def _mappings_at(value: Any, path: Sequence[str], at: FieldPath) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """The mappings at a path, in which [] stands for each item of a list, with their places."""
    if not path:
        yield at, mapping(value)
        return
    key, is_list = path[0].removesuffix("[]"), path[0].endswith("[]")
    if not is_list:
        yield from _mappings_at(mapping(value, key), path[1:], (*at, key))
        return
    for number, item in items(value, key):
        yield from _mappings_at(item, path[1:], (*at, key, number))


_GROUP_BOUNDS = ("minReplicas", "maxReplicas")
_CLIQUE_BOUNDS = ("minAvailable", "replicas")
_BOUNDS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "InferenceService.serving.kserve.io": tuple(
        (f"spec.{name}", *_GROUP_BOUNDS) for name in ("predictor", "transformer", "explainer")
    ),
    "PodCliqueSet.grove.io": (
        ("spec.template.cliques[].spec", *_CLIQUE_BOUNDS),
        ("spec.template.cliques[].spec.autoScalingConfig", *_GROUP_BOUNDS),
        ("spec.template.podCliqueScalingGroups[]", *_CLIQUE_BOUNDS),
        ("spec.template.podCliqueScalingGroups[].scaleConfig", *_GROUP_BOUNDS),
    ),
    "RayCluster.ray.io": (("spec.workerGroupSpecs[]", *_GROUP_BOUNDS),),
    "RayJob.ray.io": (("spec.rayClusterSpec.workerGroupSpecs[]", *_GROUP_BOUNDS),),
    "RayService.ray.io": (("spec.rayClusterConfig.workerGroupSpecs[]", *_GROUP_BOUNDS),),
}
"""Kind -> (path of a mapping, the number that is at most, the other); webhooks and the operators' own validation."""


def _train_job(judge: Judge, data: dict[str, Any]) -> None:
    _manager(judge, data, ("spec",), _TRAINER)
    at = ("spec", "trainer", "resourcesPerNode")
    resources(judge, mapping(data, *at), at)
    _processes(judge, mapping(data, "spec", "trainer").get("numProcPerNode"), ("spec", "trainer", "numProcPerNode"))


def _training_runtime(judge: Judge, data: dict[str, Any]) -> None:
    policy, at = mapping(data, "spec", "mlPolicy"), ("spec", "mlPolicy")
    if policy.get("torch") is not None and policy.get("mpi") is not None:
        judge.contradiction(at, "torch and mpi are both given", "keep one")
    if policy.get("numNodes") is not None and mapping(policy, "torch").get("elasticPolicy") is not None:
        judge.contradiction((*at, "numNodes"), "torch.elasticPolicy says it", "remove one of the two")
    if len(given := [key for key, value in mapping(data, "spec", "podGroupPolicy").items() if value is not None]) > 1:
        what = f"{' and '.join(given)} each make a PodGroup of their own"
        judge.contradiction(("spec", "podGroupPolicy"), what, "keep only one")
    _processes(judge, mapping(policy, "torch").get("numProcPerNode"), (*at, "torch", "numProcPerNode"))
    _start_order(judge, mapping(data, "spec", "template", "spec"), ("spec", "template", "spec"))


def _processes(judge: Judge, processes: Any, path: FieldPath) -> None:
    is_number = isinstance(processes, int) and not isinstance(processes, bool)
    if processes is not None and processes not in _NUMBERS_OF_PROCESSES and not (is_number and processes > 0):
        what = f"{processes!r} is neither a number above 0 nor one of {', '.join(_NUMBERS_OF_PROCESSES)}"
        judge.contradiction(path, what, "write auto, or a number without quotes")


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
        judge.name(("metadata", "name"), mapping(data, "metadata").get("name"), names.DNS_LABEL)
        path = ("spec", "runPolicy", "cleanPodPolicy")
        judge.choice(path, mapping(data, *path[:-1]).get(path[-1]), _CLEAN_POD_POLICIES)


def _ray_cluster(judge: Judge, data: dict[str, Any]) -> None:
    _manager(judge, data, ("spec",), _KUBERAY)


def _ray_job(judge: Judge, data: dict[str, Any]) -> None:
    _manager(judge, data, ("spec",), _KUBERAY)
    _manager(judge, data, ("spec", "rayClusterSpec"), _KUBERAY)
    spec = mapping(data, "spec")
    if not spec.get("rayClusterSpec") and not spec.get("clusterSelector"):
        judge.contradiction(("spec",), "it names no cluster", "add rayClusterSpec, or a clusterSelector")
    for key, least in (("activeDeadlineSeconds", 1), ("backoffLimit", 0), ("ttlSecondsAfterFinished", 0)):
        if isinstance(number := spec.get(key), int) and number < least:
            judge.contradiction(("spec", key), f"KubeRay refuses {number}", f"write {least} or more")


def _ray_service(judge: Judge, data: dict[str, Any]) -> None:
    _manager(judge, data, ("spec", "rayClusterConfig"), _KUBERAY)


def _inference_service(judge: Judge, data: dict[str, Any]) -> None:
    """Source: kserve, pkg/apis/serving/v1beta1 (inference_service_validation.go, component.go)."""
    for key in _OF_COMPONENTS & mapping(data, "spec").keys():
        judge.contradiction(("spec", key), "only a component has it", f"move it to spec.predictor.{key}")


_COMPONENT_FIELDS = """
    model minReplicas maxReplicas scaleTarget scaleMetric containerConcurrency timeout canaryTrafficPercent logger
    batcher containers nodeSelector tolerations affinity serviceAccountName workerSpec
"""
_OF_COMPONENTS = frozenset(_COMPONENT_FIELDS.split())


def _manager(judge: Judge, data: dict[str, Any], path: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    judge.choice((*path, "managedBy"), mapping(data, *path).get("managedBy"), allowed)


_RULES: Mapping[str, Callable[[Judge, dict[str, Any]], None]] = {
    "ClusterTrainingRuntime.trainer.kubeflow.org": _training_runtime,
    "InferenceService.serving.kserve.io": _inference_service,
    "JobSet.jobset.x-k8s.io": _job_set,
    "MPIJob.kubeflow.org": _mpi_job,
    "RayCluster.ray.io": _ray_cluster,
    "RayJob.ray.io": _ray_job,
    "RayService.ray.io": _ray_service,
    "TrainingRuntime.trainer.kubeflow.org": _training_runtime,
    "TrainJob.trainer.kubeflow.org": _train_job,
}
