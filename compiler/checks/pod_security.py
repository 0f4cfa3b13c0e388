"""Checks of what namespaces and the API server let pods do: Pod Security, and privileged containers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler.checks.check import CheckInput, Finding, check
from compiler.diagnostics.diagnostic import suggestion
from compiler.fields.validation import dotted_path
from compiler.kinds.registry import kinds
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import mapping
from compiler.validation.pod_security import (
    ENFORCE,
    MODES,
    PREFIX,
    enforced_level,
    label_objection,
    privileged_places,
    violations,
)
from compiler.validation.templates import pod_spec_paths

_RUNTIME_KINDS = frozenset(("ClusterTrainingRuntime", "TrainingRuntime"))
"""Kinds whose templates are judged in the TrainJobs that name them."""
_MOST_PLACES = 3


@check("GP377", "pods that Pod Security refuses", folds=True, on_partial=True)
def refused_pods(check_input: CheckInput) -> Iterator[Finding]:
    """A Namespace with the label pod-security.kubernetes.io/enforce takes only pods that keep the Pod Security
    Standards of that level (baseline, restricted), in the version of enforce-version. The API server refuses a bare
    Pod; it takes a job or Deployment with no more than a warning and then refuses its pods, which never appear. Labels
    audit and warn refuse nothing. Fix: as the message says, or run it in a namespace of another level."""
    enforcing = {document.name: document for document in _namespaces(check_input) if _refuses_pods(document)}
    for document in _final_documents(check_input) if enforcing else ():
        if (namespace := enforcing.get(document.namespace or "default")) is None:
            continue
        level, minor = enforced_level(_labels(namespace))
        what = "the pod is refused" if document.kind == "Pod" else "its pods never appear"
        for template, path in _templates(document, check_input.specs.documents):
            for found in violations(level, minor, template):
                places = _places(found.places, path)
                message = f"namespace {namespace.name} enforces {level}, so {what}: {found.what}{places}"
                at = (*path, *found.places[0]) if path is not None else ("spec", "runtimeRef")
                yield Finding(document, at, message, found.help, (namespace, ("metadata", "labels", ENFORCE)))


@check("GP378", "privileged container in a cluster that takes none", on_partial=True)
def privileged_containers(check_input: CheckInput) -> Iterator[Finding]:
    """The API server takes privileged containers only with --allow-privileged, which kubeadm, kind, k3s and the managed
    services set. With `allowPrivileged: false` in the Cluster each such container is an error. Where the Cluster does
    not say, they are planned, and one info of the repository counts them. Fix: remove privileged: true, or write
    `allowPrivileged: true` where the server takes them."""
    cluster = check_input.specs.cluster
    if cluster.allow_privileged:
        return
    cause = (cluster.document, ("spec", "allowPrivileged"))
    found = [
        (document, (*path, *place) if path is not None else ("spec", "runtimeRef"), _places((place,), path))
        for document, path, place in _privileged_places(check_input)
    ]
    if cluster.allow_privileged is False:
        for document, at, places in found:
            message = f"a container is privileged{places}, and cluster {cluster.name} allows none"
            yield Finding(document, at, message, "remove it", cause)
    elif found:
        objects = len({document.identity for document, _, _ in found})
        document, at, _ = min(found, key=lambda one: one[0].position(*one[1]))
        what = f"{objects} objects have privileged containers" if objects > 1 else "a container is privileged"
        message = f"{what}, which the API server takes with --allow-privileged, as almost every distribution sets it"
        help = "nothing where yours does: allowPrivileged: true in the Cluster ends this info, false makes it an error"
        yield Finding(document, at, message, help, severity="info")


def _privileged_places(check_input: CheckInput) -> Iterator[tuple[Document, FieldPath | None, FieldPath]]:
    """Each privileged container's document, path of its template (None: of the runtime that a TrainJob names), and
    place in the template. What each document says itself is known since it was read."""
    own = {found.document.identity: found.places for found in check_input.privileged}
    for document in _final_documents(check_input):
        for path, place in own.get(document.identity, ()):
            yield document, path, place
        for template in _runtime_templates(document, check_input.specs.documents):
            for place in privileged_places(template):
                yield document, None, place


@check("GP379", "label of Pod Security that means nothing")
def pod_security_labels(check_input: CheckInput) -> Iterator[Finding]:
    """The levels of Pod Security are privileged, baseline and restricted, its versions latest or like v1.35: the API
    server refuses a Namespace with others. A key that it does not know is taken and does nothing. Fix: correct it."""
    for document in _namespaces(check_input):
        for key, message, help in _label_flaws(document):
            yield Finding(document, ("metadata", "labels", key), message, help)
        for key in _labels(document):
            if str(key).startswith(PREFIX) and key not in MODES:
                help = suggestion(str(key), MODES, f"the keys are {', '.join(MODES)}")
                at, message = ("metadata", "labels", key), f"{key} does nothing"
                yield Finding(document, at, message, help, severity="warning")


def _namespaces(check_input: CheckInput) -> Iterable[Document]:
    namespaces = (each for each in check_input.specs.documents if each.kind == "Namespace")
    return (each for each in namespaces if not each.group)


def _refuses_pods(namespace: Document) -> bool:
    """Whether the labels are valid and enforce a level that refuses any pods."""
    return not any(_label_flaws(namespace)) and enforced_level(_labels(namespace))[0] != "privileged"


def _labels(document: Document) -> Mapping[str, Any]:
    return mapping(document.metadata, "labels")


def _label_flaws(document: Document) -> Iterator[tuple[str, str, str]]:
    for key in MODES:
        value = _labels(document).get(key)
        if isinstance(value, str) and (objection := label_objection(key, value)) is not None:
            yield key, f"{key} is {value!r}", objection


def _final_documents(check_input: CheckInput) -> Iterator[Document]:
    """Objects of kinds that are planned, whose pods are as their templates say."""
    specs = check_input.specs
    declared = {gang.document.identity for gang in (*specs.gangs, *check_input.unbound_gangs)}
    for document in specs.documents:
        is_known = f"{document.kind}.{document.group}" in kinds() or document.identity in declared
        if is_known and document.kind not in _RUNTIME_KINDS:
            yield document


def _templates(document: Document, documents: Sequence[Document]) -> Iterator[tuple[Any, FieldPath | None]]:
    """The pod templates of an object and where each is; no place for one of the runtime that a TrainJob names."""
    for path in pod_spec_paths(document, without_schema=True):
        yield document.value_at(*path[:-1]), path[:-1]
    for template in _runtime_templates(document, documents):
        yield template, None


def _runtime_templates(document: Document, documents: Sequence[Document]) -> Sequence[Any]:
    if document.kind != "TrainJob":
        return ()
    from compiler.kinds.train_job import runtime_templates

    return runtime_templates(document, documents)


def _places(places: tuple[FieldPath, ...], path: FieldPath | None) -> str:
    """The fields, below the pod spec, where there are several or they are not of the object."""
    if len(places) == 1 and path is not None:
        return ""
    shown = [dotted_path(place[1:] if place[0] == "spec" else place) for place in places[:_MOST_PLACES]]
    more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
    return f" ({', '.join(shown)}{more})"
