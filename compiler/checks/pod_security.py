"""Checks of what namespaces and the API server let pods do: Pod Security, and privileged containers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler.checks.check import CheckInput, Finding, check
from compiler.diagnostics.diagnostic import suggestion
from compiler.fields.texts import dotted_path
from compiler.kinds.kind import kinds
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.containers import privileged_places
from compiler.validation.judge import mapping

_PREFIX = "pod-security.kubernetes.io/"
_ENFORCE = f"{_PREFIX}enforce"
_KEYS = tuple(f"{_PREFIX}{mode}{what}" for mode in ("enforce", "audit", "warn") for what in ("", "-version"))
_LEVELS = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]*)")
_RUNTIME_KINDS = frozenset(("ClusterTrainingRuntime", "TrainingRuntime"))
"""Kinds whose templates are judged in the TrainJobs that name them."""


@check("GP377", "namespace that enforces Pod Security", severity="info", on_partial=True)
def enforcing_namespaces(check_input: CheckInput) -> Iterator[Finding]:
    """A Namespace with the label pod-security.kubernetes.io/enforce takes only pods that keep the Pod Security
    Standards of that level (baseline, restricted). The API server judges pods when they are made: it takes a job or
    Deployment and then refuses its pods, which never appear. So check reports such namespaces, and how many jobs are in
    them. Fix: try a Pod with the job's template by `kubectl apply --dry-run=server`, and run what is refused in
    a namespace of another level."""
    jobs = Counter(document.namespace or "default" for document in _final_documents(check_input))
    for document in _namespaces(check_input):
        level, number = _labels(document).get(_ENFORCE), jobs[document.name]
        if level in _LEVELS[1:] and number:
            objects = "1 object runs" if number == 1 else f"{number} objects run"
            message = f"namespace {document.name} enforces {level}, where {objects} pods: what breaks it never appears"
            help = "nothing where all keep it; else try a Pod with the template by kubectl apply --dry-run=server"
            yield Finding(document, ("metadata", "labels", _ENFORCE), message, help)


@check("GP378", "privileged container in a cluster that allows none", on_partial=True)
def privileged_containers(check_input: CheckInput) -> Iterator[Finding]:
    """The API server takes privileged containers only with --allow-privileged, which kubeadm, kind, k3s and the managed
    services set. With `allowPrivileged: false` in the Cluster each such container is an error. Where the Cluster does
    not declare it, they are planned, and one info of the repository counts them. Fix: remove privileged: true, or write
    `allowPrivileged: true` where the server takes them."""
    cluster = check_input.specs.cluster
    if cluster.allow_privileged:
        return
    cause = (cluster.document, ("spec", "allowPrivileged"))
    found = [
        (document, (*path, *place) if path is not None else ("spec", "runtimeRef"), _place(place, path))
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
    """Yield each privileged container's document, path of its template (None: of the runtime that a TrainJob names),
    and place in the template. Each document's own containers are known since it was read."""
    own = {found.document.identity: found.places for found in check_input.privileged}
    for document in _final_documents(check_input):
        for path, place in own.get(document.identity, ()):
            yield document, path, place
        for template in _runtime_templates(document, check_input.specs.documents):
            for place in privileged_places(template):
                yield document, None, place


@check("GP379", "Pod Security label without effect")
def pod_security_labels(check_input: CheckInput) -> Iterator[Finding]:
    """The levels of Pod Security are privileged, baseline and restricted, its versions latest or like v1.35: the API
    server refuses a Namespace with others. A key that it does not know is taken and does nothing. Fix: correct it."""
    for document in _namespaces(check_input):
        for key, value in _labels(document).items():
            at = ("metadata", "labels", key)
            if key in _KEYS and isinstance(value, str) and (objection := _objection(key, value)):
                yield Finding(document, at, f"{key} is {value!r}", objection)
            elif str(key).startswith(_PREFIX) and key not in _KEYS:
                help = suggestion(str(key), _KEYS, f"the keys are {', '.join(_KEYS)}")
                yield Finding(document, at, f"{key} does nothing", help, severity="warning")


def _objection(key: str, value: str) -> str:
    if key.endswith("-version"):
        return "" if _VERSION.fullmatch(value) else "write latest, or like v1.35"
    return "" if value in _LEVELS else f"use one of {', '.join(_LEVELS)}"


def _namespaces(check_input: CheckInput) -> Iterable[Document]:
    namespaces = (each for each in check_input.specs.documents if each.kind == "Namespace")
    return (each for each in namespaces if not each.group)


def _labels(document: Document) -> Mapping[str, Any]:
    return mapping(document.metadata, "labels")


def _final_documents(check_input: CheckInput) -> Iterator[Document]:
    """Yield objects of planned kinds whose pods are exactly as in their templates."""
    specs = check_input.specs
    declared = {gang.document.identity for gang in (*specs.gangs, *check_input.unbound_gangs)}
    for document in specs.documents:
        is_known = f"{document.kind}.{document.group}" in kinds() or document.identity in declared
        if is_known and document.kind not in _RUNTIME_KINDS:
            yield document


def _runtime_templates(document: Document, documents: Sequence[Document]) -> Sequence[Any]:
    if document.kind != "TrainJob":
        return ()
    from compiler.kinds.train_job import runtime_templates

    return runtime_templates(document, documents)


def _place(place: FieldPath, path: FieldPath | None) -> str:
    """The field below the pod spec, where it is not of the object."""
    return "" if path is not None else f" ({dotted_path(place[1:])})"
