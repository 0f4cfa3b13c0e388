"""What the API server would say of a document beyond what its kind's own model does: by its schema (`compiler.openapi`)
and by the rules on values (`compiler.validation`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from compiler.diagnostics import Diagnostic, Severity
from compiler.fields.models import MISSING_FIELD, UNKNOWN_FIELD, WRONG_TYPE
from compiler.kinds import kinds
from compiler.kubernetes import API_GROUP
from compiler.openapi import find_schema
from compiler.openapi.shape import Flaw, shape_flaws
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import Judge
from compiler.validation.objects import metadata, objects, pod_names
from compiler.validation.pods import pod_spec
from compiler.validation.templates import pod_spec_paths

_MOVING = """
    jobset.x-k8s.io leaderworkerset.x-k8s.io ray.io sparkoperator.k8s.io trainer.kubeflow.org training.volcano.sh
    kubeflow.org/v2beta1
"""
_MOVING_GROUPS = frozenset(_MOVING.split())
"""Groups (or one version) of operators whose kinds get new fields within a version of the API."""
Flaws = tuple[list[Flaw], list[Flaw]]
"""Of a document's shape, and of its values."""


def document_flaws(document: Document) -> Flaws:
    """What the API server would say of the document alone."""
    return ([], []) if document.group == API_GROUP else (list(_shape_flaws(document)), _value_flaws(document))


def shape_diagnostics(
    document: Document, flaws_of_document: Flaws, known: Iterable[Diagnostic], known_paths: Iterable[FieldPath] = ()
) -> Iterator[Diagnostic]:
    """The flaws of the document, without those of places that have a finding already: one cause, one error.

    known: all findings so far. known_paths: where the kind's model found some; what is above or below is of the same
    cause.
    """
    places = {diagnostic.position for diagnostic in known}
    paths = list(known_paths)
    for flaws in flaws_of_document:
        found = [flaw for flaw in flaws if not any(_is_within(flaw.path, path) for path in paths)]
        for flaw in found:
            if flaw.rule is MISSING_FIELD or document.position(*flaw.path) not in places:
                severity: Severity | None = "warning" if _may_be_newer(document, flaw) else None
                yield document.diagnostic(flaw.rule, flaw.path, flaw.message, flaw.help, severity=severity)
        paths += [flaw.path for flaw in found]


def _may_be_newer(document: Document, flaw: Flaw) -> bool:
    """Whether an unknown field may be one of a newer operator's than the schema's, being like none that it has."""
    is_unlike = flaw.rule is UNKNOWN_FIELD and not flaw.help.startswith("did you mean")
    is_moving = document.group in _MOVING_GROUPS or document.api_version in _MOVING_GROUPS
    return is_unlike and is_moving and "containers" not in flaw.path


def _is_within(left: FieldPath, right: FieldPath) -> bool:
    """Whether one path begins with the other."""
    shorter = min(len(left), len(right))
    return left[:shorter] == right[:shorter]


def _shape_flaws(document: Document) -> Iterator[Flaw]:
    kind_key = f"{document.kind}.{document.group}"
    schema = find_schema(kind_key, document.api_version.rpartition("/")[2])
    for flaw in shape_flaws(document.data, schema) if schema is not None else ():
        is_fine = _is_filled_by_webhook(kind_key, flaw.path, document) or _is_read_by_argo(flaw, document)
        if not is_fine and not _is_told_by_check(kind_key, flaw.path):
            yield flaw


def _is_read_by_argo(flaw: Flaw, document: Document) -> bool:
    """Whether Argo reads a number or truth value as the text of a parameter, where its schema wants text."""
    names = [step for step in flaw.path if isinstance(step, str)][-2:]
    is_of_parameter = names[:1] == ["parameters"] and names[1:] in (["value"], ["default"], ["enum"])
    is_scalar = not isinstance(_value(document.data, flaw.path), dict | list)
    return document.group == "argoproj.io" and is_of_parameter and flaw.rule is WRONG_TYPE and is_scalar


def _is_told_by_check(kind_key: str, path: FieldPath) -> bool:
    """Whether a check says it, with more to say."""
    if kind_key == "JobSet.jobset.x-k8s.io":
        return path[:2] == ("spec", "replicatedJobs") and len(path) == 3  # a name that is there twice
    if kind_key == "RayCluster.ray.io":
        return path == ("spec", "headGroupSpec")
    if kind_key != "Job.batch.volcano.sh":
        return False
    last = [step for step in path if isinstance(step, str)][-1:]
    in_volumes = path[:2] == ("spec", "volumes") and last == ["mountPath"]
    return in_volumes or last in (["event"], ["events"], ["totalPartitions"], ["partitionSize"])


def _is_filled_by_webhook(kind_key: str, path: FieldPath, document: Document) -> bool:
    """Whether a mutating webhook, which comes before the schema, replaces this empty value: Volcano's or JobSet's."""
    match kind_key, path:
        case ("JobSet.jobset.x-k8s.io", ("spec", "failurePolicy", "rules", _, "name")):
            return not _value(document.data, path)
        case ("Job.batch.volcano.sh", ("spec", "queue")) | ("Job.batch.volcano.sh", ("spec", "tasks", _, "name")):
            return bool(_value(document.data, path) == "")
        case ("Queue.scheduling.volcano.sh", ("spec", "weight")):
            return bool(_value(document.data, path) == 0)
    return False


def _value(data: Any, path: FieldPath) -> Any:
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        else:
            data = data[step] if isinstance(data, list) and isinstance(step, int) and step < len(data) else None
    return data


def _value_flaws(document: Document) -> list[Flaw]:
    judge = Judge()
    kind_key = f"{document.kind}.{document.group}"
    objects(judge, kind_key, document.data)
    pod_names(judge, kind_key, document.data)
    for path in pod_spec_paths(document, without_schema=kind_key in kinds()):
        if path != ("spec",):
            metadata(judge, _value(document.data, (*path[:-1], "metadata")), (*path[:-1], "metadata"))
        pod_spec(judge, _value(document.data, path), path, document.group, _added_volumes(document, path))
    return judge.flaws


_VOLUMES_OF_OPERATORS = {
    "kubeflow.org/v1 MPIJob": ("mpi-job-config", "mpi-job-kubectl"),
    "kubeflow.org/v2beta1 MPIJob": ("mpi-job-config", "ssh-auth"),
    **{
        f"ray.io/{version} Ray{name}": ("ray-logs", "shared-mem")
        for version in ("v1", "v1alpha1")
        for name in ("Cluster", "Job", "Service")
    },
    **{
        f"trainer.kubeflow.org/v1alpha1 {name}": ("mpi-hostfile", "mpi-ssh-auth")
        for name in ("ClusterTrainingRuntime", "TrainingRuntime", "TrainJob")
    },
}
"""API version and kind -> the volumes that the operator adds to each pod, which containers may mount."""


def _added_volumes(document: Document, path: FieldPath) -> frozenset[str]:
    """The volumes that its operator adds to the pods, and those of volumeClaimTemplates around a pod template (of a
    StatefulSet, a LeaderWorkerSet, a Workflow)."""
    found = set(_VOLUMES_OF_OPERATORS.get(f"{document.api_version} {document.kind}", ()))
    for length in range(len(path)):
        around = _value(document.data, path[:length])
        claims = around.get("volumeClaimTemplates") if isinstance(around, dict) else None
        for claim in claims if isinstance(claims, list) else ():
            if isinstance(name := _value(claim, ("metadata", "name")), str):
                found.add(name)
    return frozenset(found)
