"""Whole objects: their metadata, and what Kubernetes' own kinds and Volcano's want beyond the pods in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from compiler.diagnostics.diagnostic import suggestion
from compiler.fields.duration import is_go_duration
from compiler.fields.quantity import QuantityError, parse_quantity
from compiler.openapi.schemas import time_zones
from compiler.syntax.documents import FieldPath
from compiler.validation import access, names
from compiler.validation.containers import lost_units
from compiler.validation.cron import schedule_objection
from compiler.validation.judge import Judge, items, mapping, texts, values
from compiler.validation.rows import judge_rows
from compiler.validation.selectors import annotation_keys, label_selector, labels
from compiler.validation.volumes import claim

MAX_CRON_NAME = 52
"""A job of a CronJob, and a workflow of Argo's CronWorkflow, has 11 characters more."""
_MAX_INDEXED_PARALLELISM = 100_000
_MAX_LABEL = 63
_ZONES_OF_A_MACHINE = ("posix/", "right/")
"""Folders of names that a server may have in addition to those that Kubernetes brings along."""
_POLICIES = ("Allow", "Forbid", "Replace")
_QUOTA_SCOPES = (
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
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
    labels(judge, mapping(data, "labels"), (*path, "labels"))
    annotation_keys(judge, mapping(data, "annotations"), (*path, "annotations"))
    name = mapping(data).get("name")
    judge.name((*path, "namespace"), mapping(data).get("namespace"), names.DNS_LABEL)
    judge.name((*path, "name"), name, form)
    if isinstance(name, str) and longest_name < len(name) <= 253:
        what = f"the name has {len(name)} characters"
        judge.contradiction((*path, "name"), what, f"use at most {longest_name}: other names are made of it")
    for number, owner in items(data, "ownerReferences"):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                judge.missing((*path, "ownerReferences", number, key))
    for number, finalizer in enumerate(values(data, "finalizers")):
        judge.name((*path, "finalizers", number), finalizer, names.QUALIFIED, required=True)


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
    kind, _, group = kind_key.partition(".")
    if group == access.GROUP:
        access.access(judge, kind, data)
    for at, job in _jobs_inside(kind_key, data):
        batch_job(judge, _as_job_set_makes_it(job), at)
    judge_rows(judge, kind_key, data)


_JOB_SETS: Mapping[str, tuple[str, ...]] = {
    "ClusterTrainingRuntime.trainer.kubeflow.org": ("spec", "template", "spec"),
    "JobSet.jobset.x-k8s.io": ("spec",),
    "TrainingRuntime.trainer.kubeflow.org": ("spec", "template", "spec"),
}
"""Kind -> where the spec of a JobSet is."""


def _jobs_inside(kind_key: str, data: dict[str, Any]) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """The specs of batch/v1 Jobs that a JobSet makes, with their places."""
    if path := _JOB_SETS.get(kind_key):
        for at, job in items(mapping(data, *path), "replicatedJobs"):
            yield (*path, "replicatedJobs", at, "template", "spec"), mapping(job, "template", "spec")


def _counts(judge: Judge, spec: dict[str, Any], path: FieldPath, *fields: str) -> None:
    for field in fields:
        judge.within((*path, field), spec.get(field), 0)


def _service(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """What Deployment, ReplicaSet, StatefulSet and DaemonSet have in common."""
    _counts(judge, spec, path, "replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    selector, template = spec.get("selector"), mapping(spec, "template")
    at = (*path, "selector")
    if isinstance(selector, dict):
        label_selector(judge, selector, at)
        wanted, have = mapping(selector, "matchLabels"), mapping(template, "metadata", "labels")
        if not wanted and not selector.get("matchExpressions"):
            judge.contradiction(at, "an empty selector selects every pod", "name labels of the template")
        elif template and any(have.get(key) != value for key, value in wanted.items()):
            judge.contradiction(at, "it does not match the template's labels", "make the two alike")
    pod = mapping(template, "spec")
    at = (*path, "template", "spec")
    if pod.get("restartPolicy") in ("OnFailure", "Never"):
        judge.contradiction((*at, "restartPolicy"), "pods of this kind are restarted always", "write Always")
    if pod.get("activeDeadlineSeconds") is not None:
        judge.contradiction((*at, "activeDeadlineSeconds"), "pods of this kind have no deadline", "remove it")


def _deployment(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    _service(judge, spec, path)
    strategy, at = mapping(spec, "strategy"), (*path, "strategy")
    rolling = strategy.get("rollingUpdate")
    if strategy.get("type") == "Recreate" and rolling is not None:
        judge.contradiction((*at, "rollingUpdate"), "the type is Recreate", "remove it, or write RollingUpdate")
    if isinstance(rolling, dict):
        for key in ("maxSurge", "maxUnavailable"):
            _share(judge, rolling.get(key), (*at, "rollingUpdate", key))
        if all(rolling.get(key) in (0, "0%") for key in ("maxSurge", "maxUnavailable")):
            judge.contradiction((*at, "rollingUpdate"), "both are 0: nothing could roll", "raise one of them")


def _share(judge: Judge, value: Any, path: FieldPath) -> None:
    """A number or a percentage."""
    judge.within(path, value, 0)
    if isinstance(value, str) and not (value.endswith("%") and value[:-1].isdigit()):
        judge.contradiction(path, f"{value!r} is neither a number nor a percentage", "write 1 or 25%")


def batch_job(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """The spec of a batch/v1 Job."""
    fields = ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
    _counts(judge, spec, path, *fields)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        judge.missing((*path, "completions"), "add it: an indexed job wants it")
    if spec.get("selector") is not None and spec.get("manualSelector") is not True:
        judge.contradiction((*path, "selector"), "it is generated for jobs", "remove it")
    template = mapping(spec, "template")
    policy = mapping(template, "spec").get("restartPolicy")
    at = (*path, "template", "spec", "restartPolicy")
    if policy in (None, "") and mapping(template, "spec"):
        judge.missing(at, "add restartPolicy: Never or OnFailure: pods of a job end")
    elif policy == "Always":
        judge.contradiction(at, "pods of a job end", "write OnFailure or Never")
    elif policy != "Never" and spec.get("podFailurePolicy") is not None:
        judge.contradiction(at, "podFailurePolicy wants Never", "write Never")
    _indexed_job(judge, spec, path)
    _failure_policy(judge, spec, path)
    manager = spec.get("managedBy")
    if isinstance(manager, str) and "/" not in manager:
        judge.contradiction(
            (*path, "managedBy"), "it is not a name with a domain", "write like kueue.x-k8s.io/multikueue"
        )


def _as_job_set_makes_it(job: dict[str, Any]) -> dict[str, Any]:
    """The spec of a Job with what JobSet's webhook fills in. That its pods restart always is reported elsewhere."""
    template = mapping(job, "template")
    policy = mapping(template, "spec").get("restartPolicy")
    pod = {**mapping(template, "spec"), "restartPolicy": "OnFailure" if policy in (None, "", "Always") else policy}
    return {"completionMode": "Indexed", "completions": 1, **job, "template": {**template, "spec": pod}}


def _indexed_job(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """What goes with indexed completion only, and with its limits."""
    if spec.get("completionMode") == "Indexed":
        judge.within((*path, "parallelism"), spec.get("parallelism"), 0, _MAX_INDEXED_PARALLELISM)
    else:
        for key in ("backoffLimitPerIndex", "successPolicy"):
            if spec.get(key) is not None:
                judge.contradiction((*path, key), "it is for indexed jobs", "write completionMode: Indexed")
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        judge.contradiction((*path, "maxFailedIndexes"), "it goes with backoffLimitPerIndex", "add that")


_FAILURE_ACTIONS = ("FailJob", "FailIndex", "Ignore", "Count")


def _failure_policy(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    if spec.get("podFailurePolicy") is None:
        return
    if spec.get("podReplacementPolicy") == "TerminatingOrFailed":
        judge.contradiction((*path, "podReplacementPolicy"), "with podFailurePolicy it is Failed", "write Failed")
    for number, rule in items(spec["podFailurePolicy"], "rules"):
        at = (*path, "podFailurePolicy", "rules", number)
        judge.choice((*at, "action"), rule.get("action"), _FAILURE_ACTIONS)
        judge.choice((*at, "onExitCodes", "operator"), mapping(rule, "onExitCodes").get("operator"), ("In", "NotIn"))
        if rule.get("action") == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            judge.contradiction((*at, "action"), "FailIndex goes with backoffLimitPerIndex", "add that")
        codes = [code for code in values(mapping(rule, "onExitCodes"), "values") if isinstance(code, int)]
        where = (*at, "onExitCodes", "values")
        if codes != sorted(set(codes)):
            judge.contradiction(where, "the codes are not in order, each once", f"write {sorted(set(codes))}")
        elif 0 in codes and mapping(rule, "onExitCodes").get("operator") == "In":
            judge.contradiction(where, "0 is not a failure", "remove it")


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


def _schedule(judge: Judge, schedule: Any, path: FieldPath) -> None:
    if isinstance(schedule, str) and schedule and (objection := schedule_objection(schedule)):
        judge.contradiction(path, f"{schedule!r}: {objection}", 'write like "0 3 * * *"')


def _time_zone(judge: Judge, zone: Any, path: FieldPath) -> None:
    if isinstance(zone, str) and zone not in time_zones() and not zone.startswith(_ZONES_OF_A_MACHINE):
        help = suggestion(zone, sorted(time_zones()), "write like Europe/Berlin")
        judge.contradiction(path, f"{zone!r} is not a time zone", help)


def _cron(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    schedule, zone = spec.get("schedule"), spec.get("timeZone")
    if schedule in (None, ""):
        judge.missing((*path, "schedule"))
    _schedule(judge, schedule, (*path, "schedule"))
    if zone == "" or (isinstance(zone, str) and zone.lower() == "local"):
        judge.contradiction((*path, "timeZone"), "it is not a time zone", "write like Europe/Berlin, or leave it out")
    else:
        _time_zone(judge, zone, (*path, "timeZone"))
    judge.choice((*path, "concurrencyPolicy"), spec.get("concurrencyPolicy"), _POLICIES)
    _counts(judge, spec, path, "successfulJobsHistoryLimit", "failedJobsHistoryLimit", "startingDeadlineSeconds")


def _cron_workflow(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """What Argo's ValidateCronWorkflow (workflow/validate/validate.go) refuses."""
    if not spec.get("schedule") and not values(spec, "schedules"):
        judge.missing((*path, "schedules"))
    _schedule(judge, spec.get("schedule"), (*path, "schedule"))
    for number, schedule in texts(spec, "schedules"):
        _schedule(judge, schedule, (*path, "schedules", number))
    if spec.get("timezone") not in ("", "Local"):  # as Go's time.LoadLocation takes them
        _time_zone(judge, spec.get("timezone"), (*path, "timezone"))
    judge.choice((*path, "concurrencyPolicy"), spec.get("concurrencyPolicy"), _POLICIES)
    _counts(judge, spec, path, "startingDeadlineSeconds")


def _cron_job(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    _cron(judge, spec, path)
    batch_job(judge, mapping(spec, "jobTemplate", "spec"), (*path, "jobTemplate", "spec"))


def _disruption_budget(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    label_selector(judge, spec.get("selector"), (*path, "selector"))
    for key in ("minAvailable", "maxUnavailable"):
        _share(judge, spec.get(key), (*path, key))
        if isinstance(spec.get(key), str) and spec[key][:-1].isdigit() and int(spec[key][:-1]) > 100:
            judge.contradiction((*path, key), "it is above 100%", "write at most 100%")
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        judge.contradiction(path, "minAvailable and maxUnavailable are both given", "keep one")


def _quota(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    for name, value in mapping(spec, "hard").items():
        at = (*path, "hard", name)
        if (
            "/" not in name
            and name not in _QUOTA_RESOURCES
            and not name.startswith(("hugepages-", "requests.hugepages"))
        ):
            judge.contradiction(at, f"{name} is not a resource of a quota", "devices are like requests.nvidia.com/gpu")
        elif "/" in name and not name.startswith(("requests.", "limits.", "count/")) and ".storageclass." not in name:
            judge.contradiction(at, "a quota does not count it under this name", f"write requests.{name}")
        try:
            if parse_quantity(value).denominator != 1 and name in ("pods", "services", "secrets", "configmaps"):
                judge.contradiction(at, "it is counted in whole numbers", "write a whole number")
        except QuantityError:
            continue
    for number, scope in enumerate(values(spec, "scopes")):
        judge.choice((*path, "scopes", number), scope, _QUOTA_SCOPES)


def _limit_range(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    seen: set[Any] = set()
    for number, limit in items(spec, "limits"):
        at = (*path, "limits", number, "type")
        if "/" not in str(limit.get("type")):
            judge.choice(at, limit.get("type"), ("Container", "PersistentVolumeClaim", "Pod"))
        judge.unique(at, limit.get("type"), seen, "type")


def _network_service(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    ports = list(items(spec, "ports"))
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        judge.missing((*path, "ports"), "add one: only a Service with clusterIP: None does without")
    seen: set[Any] = set()
    for number, port in ports:
        at = (*path, "ports", number)
        judge.within((*at, "port"), port.get("port"), 1, 65535)
        judge.unique((*at, "name"), port.get("name"), seen, "name")
        if len(ports) > 1 and not port.get("name"):
            judge.missing((*at, "name"), "add it: of several ports each has a name")


def _stateful_set(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    _service(judge, spec, path)
    rolling = ("updateStrategy", "rollingUpdate")
    _counts(judge, mapping(spec, *rolling), (*path, *rolling), "partition")
    for number, template in items(spec, "volumeClaimTemplates"):
        claim(judge, mapping(template, "spec"), (*path, "volumeClaimTemplates", number, "spec"))


def volcano_job(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """The spec of a Volcano Job, as far as the checks of its model do not say it."""
    tasks = list(items(spec, "tasks"))
    _go_duration(judge, spec.get("runningEstimate"), (*path, "runningEstimate"))
    places = [(spec, path), *((task, (*path, "tasks", number)) for number, task in tasks)]
    for holder, at in places:
        for number, policy in items(holder, "policies"):
            _go_duration(judge, policy.get("timeout"), (*at, "policies", number, "timeout"))
    for number, volume in items(spec, "volumes"):
        judge.name((*path, "volumes", number, "volumeClaimName"), volume.get("volumeClaimName"), names.DNS_SUBDOMAIN)

    plugins = mapping(spec, "plugins")
    if "mpi" in plugins and isinstance(plugins["mpi"], list):
        master = _flag(plugins["mpi"], "master") or "master"
        if tasks and master not in [task.get("name") or f"default{number}" for number, task in tasks]:
            judge.contradiction((*path, "plugins", "mpi"), f"there is no task {master!r}", "name it by --master=TASK")


def _go_duration(judge: Judge, value: Any, path: FieldPath) -> None:
    """A time that Volcano's webhook reads: numbers with units."""
    if isinstance(value, str) and not is_go_duration(value):
        judge.contradiction(path, f"{value!r} is not a time", "write like 90s, 30m or 1h30m")


def _flag(arguments: list[Any], name: str) -> str:
    """The value of --name=value or --name value; empty without."""
    for number, argument in enumerate(arguments):
        key, equals, value = str(argument).partition("=")
        if key.lstrip("-") == name:
            return value if equals else str(arguments[number + 1]) if number + 1 < len(arguments) else ""
    return ""


def _volcano_cron(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    _cron(judge, spec, path)


def _pod(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """What is asked of a pod and not of a template."""
    if spec.get("hostNetwork") is True:  # each of its ports is the node's
        seen: set[Any] = set()
        for number, container in items(spec, "containers"):
            for which, port in items(container, "ports"):
                if port.get("hostPort") is None:
                    key = f"{port.get('protocol') or 'TCP'}/{port.get('containerPort')}"
                    judge.unique((*path, "containers", number, "ports", which), key, seen, "port of the node")
    if spec.get("ephemeralContainers"):
        judge.contradiction((*path, "ephemeralContainers"), "they are added to running pods only", "remove them")
    if spec.get("priority") and not spec.get("priorityClassName"):
        what = "the API server computes it from the priority class, and takes no other"
        judge.contradiction((*path, "priority"), what, "name a priorityClassName in its place")


def _queue(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    for keys in (("capability",), ("deserved",), ("guarantee", "resource")):
        lost_units(judge, mapping(spec, *keys), (*path, *keys))


def _pod_group(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    lost_units(judge, mapping(spec, "minResources"), (*path, "minResources"))
    terms = mapping(spec, "topologyAffinity", "podGroupAntiAffinity")
    for sort in ("required", "preferred"):
        for number, term in items(terms, sort):
            for key in ("podGroupSelector", "namespaceSelector"):
                at = (*path, "topologyAffinity", "podGroupAntiAffinity", sort, number, key)
                label_selector(judge, term.get(key), at)


_FRAMEWORKS = "model sklearn xgboost tensorflow pytorch triton onnx huggingface pmml lightgbm paddle"


def _inference_service(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
    """Source: kserve, pkg/apis/serving/v1beta1 (component.go)."""
    predictor = mapping(spec, "predictor")
    given = [key for key in _FRAMEWORKS.split() if predictor.get(key) is not None]
    if len(given) > 1:
        what = f"a predictor has one implementation, and {' and '.join(given)} are given"
        judge.contradiction((*path, "predictor", given[1]), what, "keep one")


_RULES: Mapping[str, Callable[[Judge, dict[str, Any], FieldPath], None]] = {
    "CronJob.batch": _cron_job,
    "CronJob.batch.volcano.sh": _volcano_cron,
    "CronWorkflow.argoproj.io": _cron_workflow,
    "DaemonSet.apps": _service,
    "Deployment.apps": _deployment,
    "InferenceService.serving.kserve.io": _inference_service,
    "Job.batch": batch_job,
    "Job.batch.volcano.sh": volcano_job,
    "LimitRange.": _limit_range,
    "Pod.": _pod,
    "PersistentVolumeClaim.": claim,
    "PodDisruptionBudget.policy": _disruption_budget,
    "PodGroup.scheduling.volcano.sh": _pod_group,
    "Queue.scheduling.volcano.sh": _queue,
    "ReplicaSet.apps": _service,
    "ResourceQuota.": _quota,
    "Service.": _network_service,
    "StatefulSet.apps": _stateful_set,
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
    if "." in name and not _MAKING_SERVICES.isdisjoint(mapping(data, "spec", "plugins")):
        judge.name(("metadata", "name"), name, names.DNS_LABEL)
    for number, task in items(mapping(data, "spec"), "tasks"):
        replicas = task.get("replicas")
        last = max(number, replicas - 1) if isinstance(replicas, int) else number
        pod = f"{name}-{task.get('name') or f'default{number}'}-{last}"
        if len(pod) > _MAX_LABEL:
            at = ("spec", "tasks", number, "name") if len(name) <= _MAX_LABEL else ("metadata", "name")
            judge.contradiction(at, f"pod {pod} has {len(pod)} characters", f"shorten a name, to {_MAX_LABEL} at most")
