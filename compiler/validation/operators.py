"""Rules on values that operators bring, in CEL with their CRDs or in webhooks. Many are rows of a data file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.containers import resources
from compiler.validation.judge import Judge, items, mapping
from compiler.validation.pods import tolerations
from compiler.validation.volumes import claim

_CLEAN_POD_POLICIES = ("None", "Running", "All")
_NUMBERS_OF_PROCESSES = ("auto", "cpu", "gpu")


_SERVICES_NAMED = """
    InferenceService.serving.kserve.io JobSet.jobset.x-k8s.io LeaderWorkerSet.leaderworkerset.x-k8s.io RayCluster.ray.io
    RayJob.ray.io RayService.ray.io TrainJob.trainer.kubeflow.org
"""
_SERVICE_NAMED = frozenset(_SERVICES_NAMED.split())
"""Kinds whose objects' names are also those of Services."""


@cache
def _rows() -> Mapping[str, Any]:
    return tomllib.loads((files("compiler.validation") / "operator_rules.toml").read_text("utf-8"))


def operator_object(judge: Judge, kind_key: str, data: dict[str, Any]) -> None:
    """An object of a kind ("Kind.group")."""
    if kind_key in _SERVICE_NAMED:
        judge.name(("metadata", "name"), mapping(data, "metadata").get("name"), names.SERVICE_NAME)
    if (rule := _RULES.get(kind_key)) is not None:
        rule(judge, data)
    rows = _rows().get(kind_key, {})
    for path, lower, upper in rows.get("bounds", ()):
        for at, found in _mappings_at(data, path.split("."), ()):
            least, most = (mapping(found, *names[:-1]).get(names[-1]) for names in (lower.split("."), upper.split(".")))
            if isinstance(least, int) and isinstance(most, int) and least > most > 0:
                judge.contradiction(
                    (*at, *lower.split(".")), f"{least} is above {upper} {most}", f"lower it, or raise {upper}"
                )
    for path in rows.get("topologies", ()):
        for at, found in _mappings_at(data, path.split("."), ()):
            if found.get("mode") != "soft":  # a soft one of tier 0 asks for none
                judge.within((*at, "highestTierAllowed"), found.get("highestTierAllowed"), 1)
    for path, allowed in rows.get("choices", {}).items():
        *around, key = path.split(".")
        for at, found in _mappings_at(data, around, ()):
            judge.choice((*at, key), found.get(key), tuple(allowed))


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


def _train_job(judge: Judge, data: dict[str, Any]) -> None:
    at = ("spec", "trainer", "resourcesPerNode")
    resources(judge, mapping(data, *at), at)
    _processes(judge, mapping(data, "spec", "trainer").get("numProcPerNode"), ("spec", "trainer", "numProcPerNode"))
    for number, override in items(mapping(data, "spec"), "podTemplateOverrides"):
        tolerations(judge, mapping(override, "spec"), ("spec", "podTemplateOverrides", number, "spec"))


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


def _processes(judge: Judge, processes: Any, path: FieldPath, number: str = "a number without quotes") -> None:
    is_number = isinstance(processes, int) and not isinstance(processes, bool)
    if processes is not None and processes not in _NUMBERS_OF_PROCESSES and not (is_number and processes > 0):
        what = f"{processes!r} is neither a number above 0 nor one of {', '.join(_NUMBERS_OF_PROCESSES)}"
        judge.contradiction(path, what, f"write auto, or {number}")


_JOB_SETS: Mapping[str, tuple[str, ...]] = {
    "ClusterTrainingRuntime.trainer.kubeflow.org": ("spec", "template", "spec"),
    "JobSet.jobset.x-k8s.io": ("spec",),
    "TrainingRuntime.trainer.kubeflow.org": ("spec", "template", "spec"),
}
"""Kind -> where the spec of a JobSet is."""


def jobs_inside(kind_key: str, data: dict[str, Any]) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """The specs of batch/v1 Jobs that a JobSet makes, with their places."""
    if path := _JOB_SETS.get(kind_key):
        for at, job in items(mapping(data, *path), "replicatedJobs"):
            yield (*path, "replicatedJobs", at, "template", "spec"), mapping(job, "template", "spec")


def _job_set(judge: Judge, data: dict[str, Any]) -> None:
    spec = mapping(data, "spec")
    _start_order(judge, spec, ("spec",))
    judge.name(("spec", "network", "subdomain"), mapping(spec, "network").get("subdomain"), names.DNS_LABEL)
    seen: set[Any] = set()
    for number, rule in items(mapping(spec, "failurePolicy"), "rules"):
        judge.unique(("spec", "failurePolicy", "rules", number, "name"), rule.get("name"), seen, "rule name")


def _start_order(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    if mapping(spec, "startupPolicy").get("startupPolicyOrder") != "InOrder":
        return
    if any(job.get("dependsOn") is not None for _, job in items(spec, "replicatedJobs")):
        what = "InOrder and dependsOn of a replicated Job exclude one another"
        judge.contradiction((*path, "startupPolicy", "startupPolicyOrder"), what, "keep one")


def _pytorch_job(judge: Judge, data: dict[str, Any]) -> None:
    """torchrun reads the number of processes from text."""
    processes = mapping(data, "spec").get("nprocPerNode")
    is_number = isinstance(processes, str) and processes.isascii() and processes.isdigit() and int(processes) > 0
    _processes(judge, None if is_number else processes, ("spec", "nprocPerNode"), 'a number in quotes, such as "8"')


def _spark(judge: Judge, data: dict[str, Any]) -> None:
    path = ("spec", "template") if data.get("kind") == "ScheduledSparkApplication" else ("spec",)
    for name in ("driver", "executor"):
        tolerations(judge, mapping(data, *path, name), (*path, name))


def _mpi_job(judge: Judge, data: dict[str, Any]) -> None:
    if str(data.get("apiVersion")).endswith("/v2beta1"):  # the training operator's v1 takes any text
        judge.name(("metadata", "name"), mapping(data, "metadata").get("name"), names.DNS_LABEL)
        path = ("spec", "runPolicy", "cleanPodPolicy")
        judge.choice(path, mapping(data, *path[:-1]).get(path[-1]), _CLEAN_POD_POLICIES)


def _ray_job(judge: Judge, data: dict[str, Any]) -> None:
    spec = mapping(data, "spec")
    if not spec.get("rayClusterSpec") and not spec.get("clusterSelector"):
        judge.contradiction(("spec",), "it names no cluster", "add rayClusterSpec, or a clusterSelector")
    for key, least in (("activeDeadlineSeconds", 1), ("backoffLimit", 0), ("ttlSecondsAfterFinished", 0)):
        if isinstance(number := spec.get(key), int) and number < least:
            judge.contradiction(("spec", key), f"KubeRay refuses {number}", f"write {least} or more")


def _inference_service(judge: Judge, data: dict[str, Any]) -> None:
    """Source: kserve, pkg/apis/serving/v1beta1 (component.go)."""
    predictor = mapping(data, "spec", "predictor")
    given = [key for key in _FRAMEWORKS.split() if predictor.get(key) is not None]
    if len(given) > 1:
        what = f"a predictor has one implementation, and {' and '.join(given)} are given"
        judge.contradiction(("spec", "predictor", given[1]), what, "keep one")
    for name in ("predictor", "transformer", "explainer"):
        tolerations(judge, mapping(data, "spec", name), ("spec", name))
        judge.within(("spec", name, "containerConcurrency"), mapping(data, "spec", name).get("containerConcurrency"), 0)


def _llm_service(judge: Judge, data: dict[str, Any]) -> None:
    """Source: kserve, pkg/apis/serving/v1alpha1/llm_inference_service_validation.go."""
    spec = mapping(data, "spec")
    if not spec.get("model") and not spec.get("baseRefs"):
        judge.missing(("spec", "model"))
    for path in (("spec",), ("spec", "prefill")):
        part = mapping(data, *path)
        parallelism, at = mapping(part, "parallelism"), (*path, "parallelism")
        judge.within((*path, "replicas"), part.get("replicas"), 0)
        for key in ("pipeline", "data", "dataLocal"):
            judge.within((*at, key), parallelism.get(key), 1)
        given = {key for key in ("pipeline", "data", "dataLocal") if parallelism.get(key) is not None}
        if {"pipeline"} < given:
            judge.contradiction((*at, "pipeline"), "pipeline and data parallelism exclude one another", "keep one")
        elif len(given & {"data", "dataLocal"}) == 1:
            here, other = ("data", "dataLocal") if "data" in given else ("dataLocal", "data")
            judge.contradiction((*at, here), f"it goes with {other}", f"add {other}")
        if part.get("worker") is not None and not given:
            judge.contradiction(
                (*path, "worker"), "workers share a model", "add parallelism.pipeline, or data and dataLocal"
            )


_FRAMEWORKS = "model sklearn xgboost tensorflow pytorch triton onnx huggingface pmml lightgbm paddle"


def _workflow(judge: Judge, data: dict[str, Any]) -> None:
    """The containers of Argo's templates."""
    for keys in (("spec",), ("spec", "workflowSpec")):
        tolerations(judge, mapping(data, *keys), keys)
        for at, each in items(mapping(data, *keys), "volumeClaimTemplates"):
            claim(judge, mapping(each, "spec"), (*keys, "volumeClaimTemplates", at, "spec"))
        for at, template in items(mapping(data, *keys), "templates"):
            tolerations(judge, template, (*keys, "templates", at))
            for path, container in containers_of_template(template, (*keys, "templates", at)):
                resources(judge, mapping(container, "resources"), (*path, "resources"))


def containers_of_template(template: Mapping[str, Any], path: FieldPath) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """The containers of a template of Argo, with their places."""
    yield from (((*path, key), mapping(template, key)) for key in ("container", "script") if mapping(template, key))
    for keys in (("initContainers",), ("sidecars",), ("containerSet", "containers")):
        for number, each in items(mapping(template, *keys[:-1]), keys[-1]):
            yield (*path, *keys, number), each


_RULES: Mapping[str, Callable[[Judge, dict[str, Any]], None]] = {
    "ClusterTrainingRuntime.trainer.kubeflow.org": _training_runtime,
    "ClusterWorkflowTemplate.argoproj.io": _workflow,
    "CronWorkflow.argoproj.io": _workflow,
    "InferenceService.serving.kserve.io": _inference_service,
    "JobSet.jobset.x-k8s.io": _job_set,
    "LLMInferenceService.serving.kserve.io": _llm_service,
    "MPIJob.kubeflow.org": _mpi_job,
    "PyTorchJob.kubeflow.org": _pytorch_job,
    "RayJob.ray.io": _ray_job,
    "ScheduledSparkApplication.sparkoperator.k8s.io": _spark,
    "SparkApplication.sparkoperator.k8s.io": _spark,
    "TrainingRuntime.trainer.kubeflow.org": _training_runtime,
    "TrainJob.trainer.kubeflow.org": _train_job,
    "Workflow.argoproj.io": _workflow,
    "WorkflowTemplate.argoproj.io": _workflow,
}
