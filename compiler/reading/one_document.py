"""The contents of one document of a file by its kind, and its own faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from compiler.checks.check import ReadModel, document_findings
from compiler.diagnostics.diagnostic import Diagnostic, declare_rule, did_you_mean, meant, suggestion, to_write
from compiler.diagnostics.guard import guarded
from compiler.fields.metadata import metadata_diagnostics
from compiler.fields.models import FRACTIONAL_DEVICE, OUT_OF_RANGE
from compiler.kinds.common.jobs import not_bound_diagnostic
from compiler.kinds.common.resource_lists import listed_resources
from compiler.kinds.kind import Kind, kinds
from compiler.kubernetes import API_GROUP, SYSTEM_NAMESPACES
from compiler.openapi.schemas import is_of_kubernetes, kinds_named, known_versions
from compiler.openapi.shape import Flaw
from compiler.reading.assignment import configurations_inside
from compiler.reading.inner_objects import inner_objects
from compiler.reading.shape import (
    WRONG_VERSION,
    as_meant,
    document_flaws,
    flaw_diagnostics,
    other_kind_diagnostic,
    read_model,
    without_consequences,
)
from compiler.reading.unplanned import DESCRIBED_ELSEWHERE, KIND_NOT_PLANNED, declared_pods, runs_pods, unplanned_pods
from compiler.run_kinds import runs_once
from compiler.specs.drafts import DatedField, DatedFields, InnerJob, PrivilegedContainers
from compiler.specs.gang_spec import GangSpec
from compiler.syntax.documents import Document
from compiler.validation.containers import privileged_places
from compiler.validation.judge import mapping, pod_spec_paths, texts
from compiler.volcano.releases import NEW_JOB_FLAGS, NEW_POD_FIELDS, REPLACED_POD_FIELDS

UNKNOWN_KIND = declare_rule("GP216", "error")

GENERATED_NAME = declare_rule("GP138", "warning")

EARLIER_VERSIONS = {
    ("resource.k8s.io", kind): frozenset(("v1beta1", "v1beta2"))
    for kind in ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
}
"""API group and kind -> earlier versions that the server still has, and that are not planned."""
UNPLANNED_KINDS: dict[str, frozenset[str]] = {
    API_GROUP: frozenset(),
    "batch.volcano.sh": frozenset(),
    "scheduling.volcano.sh": frozenset(),
    "topology.volcano.sh": frozenset(),
    "kubeflow.org": frozenset(("Experiment", "Trial", "Suggestion", "Notebook", "Profile", "PodDefault")),
    "batch": frozenset(),
    "scheduling.k8s.io": frozenset(("Workload", "PodGroup")),
    "scheduling.x-k8s.io": frozenset(("PodGroup",)),
}
"""API groups that gangplan knows in full -> the kinds of the group that it does not plan."""
_LONGER_NAMES = 2
"""Least difference in length from a misspelt name, for a kind of a group that is only partly known."""
CLOSED_GROUPS = frozenset((API_GROUP, "batch", "batch.volcano.sh", "scheduling.volcano.sh", "topology.volcano.sh"))
"""Groups of which gangplan knows every kind, so that any other is an error."""
_KUBERNETES_GROUPS = frozenset(("", "apps", "autoscaling", "batch", "extensions", "policy"))
"""Groups of Kubernetes that hold no kinds of others."""
AMBIGUOUS_KINDS = frozenset(("Job", "Node", "Pod", "Queue"))
"""Kinds whose names occur in many API groups, so that another group is not a mistake."""
RELATED_GROUPS = (".volcano.sh", API_GROUP, "kubeflow.org", "scheduling.k8s.io", "extensions")
"""Ends of the API groups in which a kind of another group is taken for a mistake."""


@dataclass(slots=True)
class UnknownDocument:
    """A document of a kind that only the Cluster may know. failed: its text has an error. reading: for the case that no
    Cluster knows it, once requested."""

    document: Document
    failed: bool
    reading: DocumentReading | None = None

    def read(self) -> DocumentReading:
        """Return the reading of the document for the case that no Cluster knows its kind; computed once."""
        if self.reading is None:
            self.reading = read_as_unknown(self.document, self.failed)
        return self.reading


@dataclass(slots=True)
class DocumentReading:
    """The contents of one document, and its own faults. It depends on the document alone.

    documents: itself, and configurations of the scheduler inside it. models: of documents, by pydantic. spec_items:
    specs and drafts. rejected: documents with an error. partial: rejected documents whose specs hold only their
    readable parts. findings: of the checks that examine one document, with the document.
    """

    documents: list[Document] = field(default_factory=list)
    unknown_documents: list[UnknownDocument] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    models: list[ReadModel[Any]] = field(default_factory=list)
    spec_items: list[object] = field(default_factory=list)
    rejected: list[Document] = field(default_factory=list)
    partial: list[Document] = field(default_factory=list)
    findings: list[tuple[Document, Diagnostic]] = field(default_factory=list)

    def all_diagnostics(self) -> Iterator[Diagnostic]:
        """Also those of findings, and of unknown documents that were read."""
        yield from self.diagnostics
        yield from (diagnostic for _, diagnostic in self.findings)
        for unknown in self.unknown_documents:
            if unknown.reading is not None:
                yield from unknown.reading.all_diagnostics()

    def _add_document(self, document: Document, failed: bool) -> None:
        kind = kinds().get(f"{document.kind}.{document.group}")
        if not _is_left_out(document, kind):
            self.documents.append(document)
        if kind is None:
            for inside in configurations_inside(document):
                self._add_document(inside, failed)
        if kind is None or (kind.is_foreign and version_of(document) not in kind.versions):
            self.unknown_documents.append(UnknownDocument(document, failed))
        else:
            self._take(document, failed, self._read_document(document, kind, failed), kind)

    def _add_document_alone(self, document: Document) -> None:
        self.documents.append(document)

    def _add_inventories(self) -> None:
        for document in self.documents:
            self.spec_items += (*_privileged_containers(document), *listed_resources(document), *dated_fields(document))

    def _run_checks(self) -> None:
        """Add what the checks find that look at one document, but for a field that has an error already."""
        errors = [each for each in self.diagnostics if each.severity == "error"]
        wrong = {(each.object, each.path) for each in errors if each.path}
        found = document_findings(self.models)
        self.findings += [each for each in found if (each[1].object, each[1].path) not in wrong]

    def _take(self, document: Document, failed: bool, problems: list[Diagnostic], kind: Kind | None) -> None:
        is_rejected = failed or has_error(problems)
        if document.has_generated_name:
            is_of_unknown_kind = any(each.code == UNKNOWN_KIND.code for each in problems)
            problems += _generated_name_diagnostics(document, kind, is_rejected, is_of_unknown_kind)
        self.diagnostics += problems
        if is_rejected or _is_left_out(document, kind) or not self._add_inner_objects(document):
            self.rejected.append(document)

    def _add_inner_objects(self, document: Document) -> bool:
        """Add the jobs inside the document, and their faults; return False if there are any."""
        errors = list[Diagnostic]()
        with guarded(document, errors.append):
            for inner in inner_objects(document):
                errors += inner.problems
                self.spec_items += dated_fields(inner.document)
                if inner.model is not None and not has_error(inner.problems):
                    self.models.append(ReadModel(inner.document, inner.model))
                    specs = inner.kind.specs(inner.document, inner.model)
                    self.spec_items += [InnerJob(spec) for spec in specs if isinstance(spec, GangSpec)]
        self.diagnostics += errors
        return not has_error(errors)

    def _pass_through(self, document: Document, failed: bool) -> list[Diagnostic]:
        problems = [*metadata_diagnostics(document, document.metadata, ("metadata",))]
        problems += sensitive_object_diagnostics(document)
        is_left_out = _is_left_out(document, None)
        if (kind := kinds().get(f"{document.kind}.{document.group}")) is not None:
            if not _may_be_served(document, kind):
                problems.append(_version_diagnostic(document, kind))
            elif not is_left_out:
                problems += _other_version_diagnostics(document, kind)
        else:
            found = _unplanned_kind_diagnostics(document)
            problems += [each for each in found if each.severity == "error"] if is_left_out else found
        flaws = document_flaws(document, None)
        problems += flaw_diagnostics(document, (*flaws.shape, *flaws.values))
        problems = without_consequences(document, problems)
        if not failed and not is_left_out and not has_error(problems):
            self.spec_items += declared_pods(document)
        return problems

    def _read_document(self, document: Document, kind: Kind, failed: bool) -> list[Diagnostic]:
        """Fit a document to its kind and add its specs; returns the problems found. failed: its text has an error."""
        problems = [*metadata_diagnostics(document, document.metadata, ("metadata",))]
        problems += sensitive_object_diagnostics(document)
        if version_of(document) not in kind.versions:
            return [_version_diagnostic(document, kind)]
        if (other := other_kind_diagnostic(document)) is not None:
            return [other]
        if kind.text_diagnostics is not None:
            problems += kind.text_diagnostics(document)
        flaws, model, written = document_flaws(document, kind), None, document
        if not failed and not has_error(problems) and not any(map(_changes_what_is_read, flaws.shape)):
            document = as_meant(document, flaws.shape) if flaws.shape else document
            model, found = read_model(document, kind)
            told = {flaw.path for flaw in flaws.values}
            found = [flaw for flaw in found if flaw.path not in told]
            problems += flaw_diagnostics(document, found if model is not None or not flaws.shape else ())
        refused = list(flaw_diagnostics(document, (*flaws.shape, *flaws.values)))
        if model is not None and not has_error(problems):
            # A document that only the API server refuses has all that rules across objects need; it is in no plan.
            self.models.append(ReadModel(document, model))
            if not _is_left_out(document, kind):
                problems += self._add_specs(document, kind, model, is_refused=has_error(refused))
        elif not failed:
            self.spec_items += _partial_specs(document, kind, flaws.shape)
            self.partial.append(document)
        return without_consequences(written, problems + refused)

    def _add_specs(self, document: Document, kind: Kind, model: Any, *, is_refused: bool) -> Iterable[Diagnostic]:
        """Add the specs of the document, and return the diagnostics. is_refused: the API server refuses the document,
        which is reported; unreadable parts of it are not another error."""
        errors, found = list[Diagnostic](), list[object]()
        with guarded(document, errors.append):
            found = list(kind.specs(document, model))
        self.spec_items += found
        if is_refused or errors:
            return () if is_refused else errors
        if found:
            if not kind.unbound_reason or not isinstance(gang := found[0], GangSpec):  # nothing, or a draft yet
                return ()
            return (not_bound_diagnostic(document, kind.unbound_reason, is_recurring=gang.scheduling.is_recurring),)
        return unplanned_pods(document, DESCRIBED_ELSEWHERE) if kind.is_foreign else ()


def read_document(document: Document, failed: bool) -> DocumentReading:
    """Return the reading of the document by its kind. failed: its text has an error."""

    def read(reading: DocumentReading) -> None:
        reading._add_document(document.in_full(), failed)
        reading._add_inventories()
        reading._run_checks()

    return _guarded_reading(document, read, documents=[document])


def read_as_kind(document: Document, failed: bool, kind: Kind) -> DocumentReading:
    """Return the reading of the document by a kind that the Cluster declares."""

    def read(reading: DocumentReading) -> None:
        full = document.in_full()
        if _is_left_out(full, None) and not _is_left_out(full, kind):
            reading._add_document_alone(full)
            reading._add_inventories()
        reading._take(full, failed, reading._read_document(full, kind, failed), kind)
        reading._run_checks()

    return _guarded_reading(document, read)


def read_as_unknown(document: Document, failed: bool) -> DocumentReading:
    """Return the reading of a document whose kind is not planned."""

    def read(reading: DocumentReading) -> None:
        full = document.in_full()
        reading._take(full, failed, reading._pass_through(full, failed), None)
        reading._run_checks()

    return _guarded_reading(document, read)


def _guarded_reading(
    document: Document, read: Callable[[DocumentReading], None], documents: Iterable[Document] = ()
) -> DocumentReading:
    """Return the additions of `read` to an empty reading. If it fails the reading has that error and nothing else but
    `documents`."""
    reading, errors = DocumentReading(), list[Diagnostic]()
    with guarded(document, errors.append):
        read(reading)
    return DocumentReading(list(documents), diagnostics=errors, rejected=[document]) if errors else reading


def _privileged_containers(document: Document) -> Iterator[PrivilegedContainers]:
    templates = [path[:-1] for path in pod_spec_paths(document, without_schema=True)]
    places = [(path, place) for path in templates for place in privileged_places(document.value_at(*path))]
    if places:
        yield PrivilegedContainers(document, tuple(places))


def _is_left_out(document: Document, kind: Kind | None) -> bool:
    """Return whether the document has generateName although objects of its kind do not run once."""
    if not document.has_generated_name:
        return False
    is_pod = (document.kind, document.group) == ("Pod", "")
    return not (is_pod or runs_once(document.data) or (kind is not None and kind.runs_once))


def _generated_name_diagnostics(
    document: Document, kind: Kind | None, is_rejected: bool, is_of_unknown_kind: bool
) -> Iterator[Diagnostic]:
    path = ("metadata", "generateName")
    if is_of_unknown_kind:
        return
    if _is_left_out(document, kind):
        message = f"each edit would make another {document.kind}: it is left out"
        help = "give it metadata.name"
        if f"{document.kind}.{document.group}" not in kinds() and runs_pods(document):
            help += ", or declare the kind in Cluster.spec.jobKinds where its objects run once"
        yield document.diagnostic(GENERATED_NAME, path, message, help)
    elif not is_rejected:
        message = f"its name is {document.name}; a changed document is a new run"
        help = "nothing, or write metadata.name"
        yield document.diagnostic(GENERATED_NAME, path, message, help, severity="info")


def version_of(document: Document) -> str:
    return document.api_version.rpartition("/")[2]


def _changes_what_is_read(flaw: Flaw) -> bool:
    """Return whether rules across objects would take the flaw for another: of a number that cannot be."""
    return flaw.rule in (FRACTIONAL_DEVICE, OUT_OF_RANGE)


def _partial_specs(document: Document, kind: Kind, flaws: Iterable[Flaw]) -> Iterable[object]:
    """Return the readable specs of a document with errors: for rules across objects, never for a plan."""
    if kind.reads_alone:
        return kind.specs(document, None)
    if kind.flaws is not None:  # of the kinds with rules of their own none is a job
        return ()
    part = as_meant(document, flaws, keep=False)
    try:
        return [spec for spec in kind.specs(part, kind.read(part)) if isinstance(spec, GangSpec)]
    except (ValidationError, LookupError, TypeError, ValueError):  # too little remains
        return ()


def has_error(problems: list[Diagnostic]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def _version_diagnostic(document: Document, kind: Kind) -> Diagnostic:
    return _unknown_version(document, kind.api_version)


def _other_version_diagnostics(document: Document, kind: Kind) -> Iterator[Diagnostic]:
    """Yield a warning on pods that would be planned in a version of the kind that is known."""
    help = f"write apiVersion: {kind.api_version}"
    passed = document.diagnostic(KIND_NOT_PLANNED, ("kind",), f"{document.kind} is passed through unplanned", help)
    for found in unplanned_pods(document, help) or [passed]:
        message = f"{document.api_version} of {document.kind} is not known: {found.message}"
        at_version = replace(found, severity="warning", position=document.position("apiVersion"), message=message)
        yield at_version if found.severity == "info" else found


def _may_be_served(document: Document, kind: Kind) -> bool:
    """Return whether the server has this version too, or may have it with a newer operator."""
    version = version_of(document)
    is_older = version in EARLIER_VERSIONS.get((document.group, document.kind), ())
    return is_older or _rank(version) > max(map(_rank, kind.versions))


def _rank(version: str) -> tuple[int, int, int]:
    """Return how far a version is on the way from alpha to stable, as Kubernetes orders them; (0, 0, 0) for no
    version."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if found is None:
        return 0, 0, 0
    major, stage, minor = found.groups()
    return {"alpha": 1, "beta": 2, None: 3}[stage], int(major), int(minor or 0)


def _unknown_version(document: Document, right: str) -> Diagnostic:
    message, help = f"{document.kind} has no version {document.api_version}", to_write(right)
    return document.diagnostic(WRONG_VERSION, ("apiVersion",), message, help)


def _kubernetes_diagnostics(document: Document) -> Iterator[Diagnostic]:
    """Yield an error on a kind of Kubernetes in a version or group that has it no more, or never had."""
    key = f"{document.kind}.{document.group}"
    if is_of_kubernetes(key):
        versions = known_versions(key)
        if version_of(document) not in {*versions, *EARLIER_VERSIONS.get((document.group, document.kind), ())}:
            yield _unknown_version(document, f"{document.group}/{versions[-1]}".lstrip("/"))
    elif document.group in _KUBERNETES_GROUPS:
        others = [other for other in kinds_named(document.kind) if is_of_kubernetes(other)]
        if len(others) == 1:
            right = f"{others[0].partition('.')[2]}/{known_versions(others[0])[-1]}".lstrip("/")
            message = f"{document.api_version} has no kind {document.kind!r}"
            yield document.diagnostic(
                UNKNOWN_KIND, ("apiVersion",), message, to_write(right, help=f"write apiVersion: {right}")
            )


def _unplanned_kind_diagnostics(document: Document) -> list[Diagnostic]:
    """Return findings on a kind that is not planned: an error if it resembles a known kind, else those of
    `unplanned_pods`."""
    group, kind = document.group, document.kind
    if found := list(_kubernetes_diagnostics(document)):
        return found
    if kind in UNPLANNED_KINDS.get(group, ()):
        return unplanned_pods(document)
    known = sorted(
        {found.name for found in kinds().values() if found.group == group} | UNPLANNED_KINDS.get(group, set())
    )
    message = f"{group} has no kind {kind!r}"
    near = did_you_mean(kind, known)
    if near and (group in UNPLANNED_KINDS or abs(len(near) - len(kind)) < _LONGER_NAMES):
        return [document.diagnostic(UNKNOWN_KIND, ("kind",), message, suggestion(kind, known, ""))]
    versions = sorted(found.api_version for found in kinds().values() if found.name == kind)
    if versions and kind not in AMBIGUOUS_KINDS and group.endswith(RELATED_GROUPS):
        return [
            document.diagnostic(
                UNKNOWN_KIND, ("apiVersion",), message, to_write(versions[0], help=f"write apiVersion: {versions[0]}")
            )
        ]
    if near_group := did_you_mean(group, {found.group for found in kinds().values() if found.name == kind} - {""}):
        message = f"there is no API group {group}; kind {kind} is of {near_group}"
        return [document.diagnostic(UNKNOWN_KIND, ("apiVersion",), message, meant(group, near_group))]
    if group in CLOSED_GROUPS:
        return [document.diagnostic(UNKNOWN_KIND, ("kind",), message, f"use one of {', '.join(known)}")]
    return unplanned_pods(document)


POWER = declare_rule("GP221", "warning")
_GROUPS = {
    "rbac.authorization.k8s.io": "decides who may do what",
    "admissionregistration.k8s.io": "decides what the API server takes",
    "apiextensions.k8s.io": "defines kinds for the whole cluster",
    "apiregistration.k8s.io": "answers for the API server",
    "certificates.k8s.io": "makes identities",
}


def sensitive_object_diagnostics(document: Document) -> Iterator[Diagnostic]:
    """Yield the warning that the object gives power over the cluster or holds a secret, one at most."""
    help = "install it by other means"
    name, kind = document.display_name, (document.kind, document.group)
    if document.group in _GROUPS:
        yield document.diagnostic(POWER, ("kind",), f"{name} {_GROUPS[document.group]}", help)
    elif kind == ("Secret", ""):
        yield document.diagnostic(POWER, ("kind",), f"{name}: all who read the repository read it", help)
    elif kind == ("ConfigMap", "") and document.metadata.get("namespace") in SYSTEM_NAMESPACES:
        message = f"{name} is in a namespace of the cluster's own, where the reconciler may write none"
        yield document.diagnostic(POWER, ("metadata", "namespace"), message, help)


_POD_FIELDS = {*NEW_POD_FIELDS, *REPLACED_POD_FIELDS}


def dated_fields(document: Document) -> Iterator[DatedFields]:
    """Yield the dated fields of pod templates and the dated flags of plugins in a Volcano Job, if there are any."""
    if (document.kind, document.group) == ("Job", "batch.volcano.sh"):
        found = (*_pod_fields(document), *_flags(document))
        if found:
            yield DatedFields(document, found)


def _pod_fields(document: Document) -> Iterator[DatedField]:
    if document.written.kind == "HyperJob":
        return  # its CRD has none of them in any release, which GP202 reports
    for path in pod_spec_paths(document, without_schema=True):
        for name in sorted(_POD_FIELDS & mapping(document.value_at(*path)).keys()):
            yield (*path, name), name


def _flags(document: Document) -> Iterator[DatedField]:
    for plugin, flag in NEW_JOB_FLAGS:
        for number, text in texts(mapping(document.data, "spec", "plugins"), plugin):
            if text.lstrip("-").partition("=")[0] == flag:
                yield ("spec", "plugins", plugin, number), (plugin, flag)
