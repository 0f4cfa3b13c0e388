"""Kinds of which each object runs once and ends, and how an object of each shows its end.

The planned kinds, those that only pass through, and every other object whose specification has a time to live after its
end. Any other object is a service: a deleted one is recreated. Most show it by a condition
(`compiler.kubernetes.final_phase`), the others by a word in their status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.kubernetes import DIGEST_ANNOTATION, Object, annotations_of, api_group_of, final_phase, status_of

_PLANNED_RUN_KINDS = """
    Job.batch.volcano.sh Job.batch JobSet.jobset.x-k8s.io
    PyTorchJob.kubeflow.org TFJob.kubeflow.org MPIJob.kubeflow.org XGBoostJob.kubeflow.org PaddleJob.kubeflow.org
    JAXJob.kubeflow.org MXJob.kubeflow.org
    AscendJob.mindxdl.gitee.com ElasticJob.elastic.iml.github.io RayJob.ray.io TrainJob.trainer.kubeflow.org
"""
PLANNED_RUN_KINDS = frozenset(_PLANNED_RUN_KINDS.split())
"""Kind.group of the kinds that gangplan plans."""
_PLANNED_SERVICE_KINDS = """
    LeaderWorkerSet.leaderworkerset.x-k8s.io ModelServing.workload.serving.volcano.sh RayCluster.ray.io
    RayService.ray.io
"""
PLANNED_SERVICE_KINDS = frozenset(_PLANNED_SERVICE_KINDS.split())
"""Kind.group of those of operators that gangplan binds and that never end."""
_CONDITION_KINDS = """
    HyperJob.training.volcano.sh
"""
_STATUS_PATHS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "ElasticJob.elastic.iml.github.io": (("phase",),),
    "RayJob.ray.io": (("jobDeploymentStatus",), ("jobStatus",)),
    "SparkApplication.sparkoperator.k8s.io": (("applicationState", "state"),),
    "Workflow.argoproj.io": (("phase",),),
    "AppWrapper.workload.codeflare.dev": (("phase",), ("state",)),
    "JobFlow.flow.volcano.sh": (("state", "phase"),),
}
"""Kind.group -> where its status holds the word. The first that is there decides."""
_USUAL_STATUS_PATHS = (("phase",), ("state",))
"""Places of the status word in unknown kinds; else they show it by a condition."""
_PHASE_OF_WORD: Mapping[str, str] = {
    **dict.fromkeys(("COMPLETE", "COMPLETED", "SUCCEED", "SUCCEEDED"), "Completed"),
    **dict.fromkeys(("ERROR", "FAILED", "STOPPED", "VALIDATIONFAILED"), "Failed"),
}
"""Final status word, in capitals -> the phase. A SparkApplication with SUBMISSION_FAILED is submitted again, or becomes
FAILED."""
RUN_KINDS = PLANNED_RUN_KINDS | _STATUS_PATHS.keys() | frozenset(_CONDITION_KINDS.split())
"""Kind.group of all of them."""
_TIME_TO_LIVE_FIELDS = ("ttlSecondsAfterFinished", "ttlStrategy", "timeToLiveSeconds")
_POLICY_FIELDS = ("runPolicy", "completionPolicy")
"""Mappings of a specification that may hold one of these fields as well (Kubeflow, OpenKruise)."""


def run_kind_of(item: Object) -> str:
    """Kind.group."""
    return f"{item['kind']}.{api_group_of(item)}"


def runs_once(item: Object) -> bool:
    """Return whether the object runs once, without a Cluster's declaration of its kind: by its kind, or since it is
    deleted some time after its end and would be recreated for ever. A template or a schedule of runs does not."""
    if run_kind_of(item) in RUN_KINDS:
        return True
    is_recipe = str(item["kind"]).endswith("Template") or "schedule" in _spec_of(item)
    return has_time_to_live(item) and not is_recipe


def is_run(item: Object) -> bool:
    """Return whether the object in the cluster runs once: by its kind, or since it was written with the digest of its
    run, like every run in the plan."""
    return run_kind_of(item) in RUN_KINDS or DIGEST_ANNOTATION in annotations_of(item)


def end_of_run(item: Object) -> str | None:
    """Return the final phase of an object that runs once; None while it can still run."""
    kind = run_kind_of(item)
    is_unknown_run = kind not in RUN_KINDS and (is_run(item) or runs_once(item))
    for path in _STATUS_PATHS.get(kind, _USUAL_STATUS_PATHS if is_unknown_run else ()):
        value: object = status_of(item)
        for step in path:
            value = value.get(step) if isinstance(value, Mapping) else None
        if value and not isinstance(value, Mapping):
            return _PHASE_OF_WORD.get(str(value).upper())
    return final_phase(item)


def has_time_to_live(item: Object) -> bool:
    """Return whether the cluster deletes it some time after its end."""
    spec = _spec_of(item)
    policies = (policy for name in _POLICY_FIELDS if isinstance(policy := spec.get(name), Mapping))
    return any(part.get(name) is not None for part in (spec, *policies) for name in _TIME_TO_LIVE_FIELDS)


def _spec_of(item: Object) -> Mapping[str, Any]:
    """Nothing where it is not a mapping: that of a kind that passes through may be anything."""
    spec = item.get("spec")
    return spec if isinstance(spec, Mapping) else {}
