"""Whole objects: their metadata, and what Kubernetes' own kinds and Volcano's want beyond the pods in them.

A pod spec as a whole has Kubernetes' validation of pods and pod templates (pkg/apis/core/validation), as rows of
`pods.toml` where rows can express it.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from compiler.fields.quantity import read_quantity
from compiler.openapi.shape import PLAIN, Flaw
from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.containers import claim, containers, resources, volumes
from compiler.validation.judge import Judge, annotation_keys, items, label_selector, mapping, values
from compiler.validation.rows import judge_rows

MAX_CRON_NAME = 52
"""A job of a CronJob, and a workflow of Argo's CronWorkflow, has 11 characters more."""
_MAX_LABEL = 63
_QUOTA_NAMES = """
    cpu memory ephemeral-storage storage pods services replicationcontrollers resourcequotas secrets configmaps
    persistentvolumeclaims services.nodeports services.loadbalancers requests.cpu requests.memory requests.storage
    requests.ephemeral-storage limits.cpu limits.memory limits.ephemeral-storage
"""
_QUOTA_RESOURCES = frozenset(_QUOTA_NAMES.split())

_CRON_KINDS = frozenset({"CronJob.batch", "CronJob.batch.volcano.sh", "CronWorkflow.argoproj.io"})


def metadata(
    judge: Judge, data: Any, path: FieldPath, *, longest_name: int = 253, form: names.Form = names.DNS_SUBDOMAIN
) -> None:
    """The metadata of an object or template: names of labels and annotations, its own name and namespace."""
    judge_rows(judge, "Metadata", data, path)
    annotation_keys(judge, mapping(data, "annotations"), (*path, "annotations"))
    name = mapping(data).get("name")
    judge.name((*path, "name"), name, form)
    if isinstance(name, str) and longest_name < len(name) <= 253:
        what = f"the name has {len(name)} characters"
        judge.contradiction((*path, "name"), what, f"use at most {longest_name}: other names are made of it")


def objects(judge: Judge, kind_key: str, data: dict[str, Any]) -> None:
    """An object of a kind ("Kind.group")."""
    longest = MAX_CRON_NAME if kind_key in _CRON_KINDS else None
    if kind_key in ("Job.batch", "Job.batch.volcano.sh", "StatefulSet.apps"):
        longest = _MAX_LABEL
    is_lenient = kind_key.endswith(".rbac.authorization.k8s.io") or kind_key == "PodDisruptionBudget.policy"
    form = names.PATH_SEGMENT if is_lenient else names.DNS_SUBDOMAIN
    metadata(judge, data.get("metadata"), ("metadata",), longest_name=longest or 253, form=form)
    spec = mapping(data, "spec")
    if kind_key == "Queue.scheduling.volcano.sh" and data.get("spec") is None:
        judge.missing(("spec",), "add spec: {}: Volcano's webhook refuses the queue without")
    if (rule := _RULES.get(kind_key)) is not None and isinstance(data.get("spec") or {}, dict):
        rule(judge, spec, ("spec",))
    judge_rows(judge, kind_key, data)


def _service(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """The selector of a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    selector, template = spec.get("selector"), mapping(spec, "template")
    at = (*path, "selector")
    if isinstance(selector, dict):
        label_selector(judge, selector, at)
        wanted, have = mapping(selector, "matchLabels"), mapping(template, "metadata", "labels")
        if not wanted and not selector.get("matchExpressions"):
            judge.contradiction(at, "an empty selector selects every pod", "name labels of the template")
        elif template and any(have.get(key) != value for key, value in wanted.items()):
            judge.contradiction(at, "it does not match the template's labels", "make the two alike")


_MOST_OF_NAMES = {"RayCluster.ray.io": 53, "RayJob.ray.io": 47, "RayService.ray.io": 47}
"""Kind -> the longest name of which KubeRay makes those of services and clusters."""


def _job_set_names(judge: Judge, data: dict[str, Any]) -> None:
    """The names of the Jobs of a JobSet, and of the pods of one whose completions are written."""
    name = str(mapping(data, "metadata").get("name"))
    for number, role in items(mapping(data, "spec"), "replicatedJobs"):
        replicas, job = role.get("replicas", 1), mapping(role, "template", "spec")
        made = f"{name}-{role.get('name')}-{max(replicas - 1, 0) if isinstance(replicas, int) else 0}"
        completions, what = job.get("completions"), "Job"
        if job.get("completionMode", "Indexed") == "Indexed" and isinstance(completions, int) and completions > 0:
            made, what = f"{made}-{completions - 1}-xxxxx", "pod"
        if len(made) > _MAX_LABEL:
            is_short = len(name) < len(str(role.get("name")))
            at = ("spec", "replicatedJobs", number, "name") if is_short else ("metadata", "name")
            message, help = f"{what} {made} has {len(made)} characters", f"shorten a name, to {_MAX_LABEL} at most"
            judge.contradiction(at, message, help)


def _indexed_name(judge: Judge, data: dict[str, Any]) -> None:
    """The pods of an indexed job have host names made of the job's."""
    spec, name = mapping(data, "spec"), mapping(data, "metadata").get("name")
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed" or not isinstance(completions, int) or not isinstance(name, str):
        return
    if len(pod := f"{name}-{max(completions - 1, 0)}") > _MAX_LABEL:
        what = f"its last pod is {pod}, longer than {_MAX_LABEL} characters"
        judge.contradiction(("metadata", "name"), what, "shorten the name")


def _cron_workflow(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    if not spec.get("schedule") and not values(spec, "schedules"):
        judge.missing((*path, "schedules"))


def _quota(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    for name, value in mapping(spec, "hard").items():
        at = (*path, "hard", name)
        if (
            "/" not in name
            and name not in _QUOTA_RESOURCES
            and not name.startswith(("hugepages-", "requests.hugepages"))
        ):
            judge.contradiction(at, f"{name} is not a resource of a quota", "devices are like requests.nvidia.com/gpu")
        elif "/" in name and not name.startswith(("requests.", "count/")) and ".storageclass." not in name:
            judge.contradiction(
                at, "a quota does not count it under this name", f"write requests.{name.removeprefix('limits.')}"
            )
        is_counted = name in ("pods", "services", "secrets", "configmaps")
        if is_counted and (read_quantity(value) or 0).denominator != 1:
            judge.contradiction(at, "it is counted in whole numbers", "write a whole number")


def _volcano_job(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """The task that a plugin names."""
    tasks, plugins = items(spec, "tasks"), mapping(spec, "plugins")
    if "mpi" in plugins and isinstance(plugins["mpi"], list):
        master = _flag(plugins["mpi"], "master") or "master"
        if tasks and master not in [task.get("name") or f"default{number}" for number, task in tasks]:
            judge.contradiction((*path, "plugins", "mpi"), f"there is no task {master!r}", "name it by --master=TASK")


def _flag(arguments: list[Any], name: str) -> str:
    """Return the value of --name=value or --name value; empty without."""
    for number, argument in enumerate(arguments):
        key, equals, value = str(argument).partition("=")
        if key.lstrip("-") == name:
            return value if equals else str(arguments[number + 1]) if number + 1 < len(arguments) else ""
    return ""


def _pod(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """Check the rules for a pod that do not apply to a template."""
    if spec.get("hostNetwork") is True:  # each of its ports is the node's
        seen: set[Any] = set()
        for number, container in items(spec, "containers"):
            for which, port in items(container, "ports"):
                if port.get("hostPort") is None:
                    key = f"{port.get('protocol') or 'TCP'}/{port.get('containerPort')}"
                    judge.unique((*path, "containers", number, "ports", which), key, seen, "port of the node")


_FRAMEWORKS = "model sklearn xgboost tensorflow pytorch triton onnx huggingface pmml lightgbm paddle"


def _inference_service(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """Source: kserve, pkg/apis/serving/v1beta1 (component.go)."""
    predictor = mapping(spec, "predictor")
    given = [key for key in _FRAMEWORKS.split() if predictor.get(key) is not None]
    if len(given) > 1:
        what = f"a predictor has one implementation, and {' and '.join(given)} are given"
        judge.contradiction((*path, "predictor", given[1]), what, "keep one")


_RULES: Mapping[str, Callable[[Judge, dict[str, Any], FieldPath], None]] = {
    "CronWorkflow.argoproj.io": _cron_workflow,
    "DaemonSet.apps": _service,
    "Deployment.apps": _service,
    "InferenceService.serving.kserve.io": _inference_service,
    "Job.batch.volcano.sh": _volcano_job,
    "Pod.": _pod,
    "PersistentVolumeClaim.": claim,
    "ReplicaSet.apps": _service,
    "ResourceQuota.": _quota,
    "StatefulSet.apps": _service,
}


_MAKING_SERVICES = frozenset(("mpi", "pytorch", "ray", "svc", "tensorflow"))
"""Plugins of a Volcano Job that give it a Service of its name, by themselves or with svc."""


def pod_names(judge: Judge, kind_key: str, data: dict[str, Any]) -> None:
    """Names of pods made of the object's: host names, at most 63 characters."""
    if kind_key == "Job.batch":
        _indexed_name(judge, data)
    if kind_key == "JobSet.jobset.x-k8s.io":
        _job_set_names(judge, data)
    if len(name := str(mapping(data, "metadata").get("name"))) > (most := _MOST_OF_NAMES.get(kind_key, len(name))):
        judge.contradiction(("metadata", "name"), f"the name has {len(name)} characters", f"use {most} at most")
    if kind_key != "Job.batch.volcano.sh":
        return
    name = str(mapping(data, "metadata").get("name"))
    if len(name) <= _MAX_LABEL and not _MAKING_SERVICES.isdisjoint(mapping(data, "spec", "plugins")):
        judge.name(("metadata", "name"), name, names.SERVICE_NAME)
    for number, task in items(mapping(data, "spec"), "tasks"):
        replicas = task.get("replicas")
        last = max(number, replicas - 1) if isinstance(replicas, int) else number
        pod = f"{name}-{task.get('name') or f'default{number}'}-{last}"
        if len(pod) > _MAX_LABEL >= len(name):
            at = ("spec", "tasks", number, "name")
            judge.contradiction(at, f"pod {pod} has {len(pod)} characters", f"shorten a name, to {_MAX_LABEL} at most")


_AS_WRITTEN = """
    apps batch batch.volcano.sh elastic.iml.github.io flow.volcano.sh grove.io jobset.x-k8s.io kubeflow.org
    leaderworkerset.x-k8s.io mindxdl.gitee.com ray.io training.volcano.sh workload.serving.volcano.sh
"""
_IMAGES_AS_WRITTEN = frozenset(("", *_AS_WRITTEN.split()))
"""API groups whose controllers make pods of the images in the text; others fill one in."""


def pod_flaws(pod: Any, path: FieldPath, group: str, added: frozenset[str] = frozenset()) -> tuple[Flaw, ...]:
    """Return the flaws of a pod spec; arguments as of `pod_spec`."""
    return _flaws_of_content(marshal.dumps(pod, PLAIN), path, group, added)


@lru_cache(maxsize=512)
def _flaws_of_content(content: bytes, path: FieldPath, group: str, added: frozenset[str]) -> tuple[Flaw, ...]:
    """Return the flaws of a pod, cached by content: many jobs have the same pods."""
    judge = Judge()
    pod_spec(judge, marshal.loads(content), path, group, added)  # noqa: S302  # of this process
    return tuple(judge.flaws)


def pod_spec(
    judge: Judge, pod: dict[str, Any], path: FieldPath, group: str, added: frozenset[str] = frozenset()
) -> None:
    """A pod spec. group: the API group of the object that holds it. added: volumes that its controller adds."""
    by = "PodSpec of Volcano's webhook" if group == "batch.volcano.sh" else "PodSpec of the API server"
    for rows in ("PodSpec", by, *(["PodSpec with images"] if group in _IMAGES_AS_WRITTEN else [])):
        judge_rows(judge, rows, pod, path)
    containers(judge, pod, path, volumes(judge, pod, path) | added)
    resources(judge, pod.get("resources"), (*path, "resources"))
    _pod_resources(judge, pod, (*path, "resources"))
    seen: set[str] = set()
    for number, row in items(pod, "topologySpreadConstraints"):
        at, pair = (
            (*path, "topologySpreadConstraints", number),
            f"{row.get('topologyKey')} {row.get('whenUnsatisfiable')}",
        )
        judge.unique(at, pair, seen, "pair of topologyKey and whenUnsatisfiable")


def _pod_resources(judge: Judge, pod: dict[str, Any], path: FieldPath) -> None:
    """Resources of the pod as a whole: cpu, memory and huge pages only."""
    whole = mapping(pod, "resources")
    sections = {name: section for section in ("limits", "requests") for name in mapping(whole, section)}
    for name, section in sections.items():
        if name not in ("cpu", "memory") and not name.startswith("hugepages-"):
            judge.contradiction((*path, section, name), "it is asked for by containers only", "move it there")
