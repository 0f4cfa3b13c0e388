"""Files to documents to specs: what each document says by its kind, and what is wrong with it alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from compiler.diagnostics import Diagnostic, declare_rule, did_you_mean
from compiler.fields.validation import metadata_diagnostics, readable_part, validate_document
from compiler.kinds import Kind, kinds
from compiler.kinds.common.job_kinds import JobKind, job_kind
from compiler.kinds.scheduler_file import wrapped_configurations
from compiler.kinds.train_job import (
    RuntimeDraft,
    TrainJobDraft,
    default_runtime_diagnostic,
    default_runtime_gang,
    train_job_gang,
)
from compiler.kubernetes import API_GROUP
from compiler.reading.assignment import JobAssignment
from compiler.reading.files import template_diagnostic
from compiler.reading.powers import power_diagnostics
from compiler.reading.shape import document_flaws, shape_diagnostics
from compiler.reading.unplanned import UNPLANNED_CODES, declared_pods, unplanned_pods
from compiler.repository.paths import CONF_SUFFIX, file_name_diagnostic
from compiler.specs import GangSpec, ServiceBinding
from compiler.specs.drafts import JobFlowDraft, JobTemplateDraft
from compiler.specs.job_flows import job_flow_gangs
from compiler.specs.services import ServiceDraft, service_gang
from compiler.syntax.documents import Document, DocumentIdentity, FieldPath
from compiler.syntax.parse import Parse, ParsedFile, parse_file
from compiler.volcano.scheduler_conf import CONF_LINES

WRONG_VERSION = declare_rule(
    "GP212",
    "error",
    "unknown version of a kind",
    "The kind is known, but not in this version. Mend: write the apiVersion that the message names.",
)
UNKNOWN_KIND = declare_rule(
    "GP216",
    "error",
    "unknown kind",
    "No kind of this name exists in the API group. Mend: correct the spelling or the apiVersion.",
)

GENERATED_NAME = declare_rule(
    "GP138",
    "warning",
    "generated name",
    """Each `kubectl create` of an object with generateName makes another one; `kubectl apply` refuses it, and which of
    them is meant cannot be told. It is checked, and neither planned nor emitted. Mend: give it metadata.name.""",
)

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
AMBIGUOUS_KINDS = frozenset(("Job", "Node", "Pod", "Queue"))
"""Kinds whose names occur in many API groups, so that another group is no mistake."""
RELATED_GROUPS = (".volcano.sh", API_GROUP, "kubeflow.org", "scheduling.k8s.io")
"""Ends of the API groups in which a kind of another group is taken for a mistake."""

Spec = TypeVar("Spec")


@dataclass(slots=True)
class DocumentCollector:
    """What the files read so far say, before the checks.

    models: documents with their pydantic models. spec_items: specs and drafts. rejected: documents with an error.
    partial: those of them of which specs hold only what could be read.
    strangers: documents of kinds that only the Cluster may know, with whether their text has an error.
    judged: the documents that were held against the rules of the API server, and whether they keep them.
    """

    parse: Parse = parse_file
    documents: list[Document] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    models: list[tuple[Document, Any]] = field(default_factory=list)
    spec_items: list[object] = field(default_factory=list)
    rejected: dict[DocumentIdentity, Document] = field(default_factory=dict)
    partial: set[DocumentIdentity] = field(default_factory=set)
    strangers: list[tuple[Document, bool]] = field(default_factory=list)
    parsed: list[ParsedFile] = field(default_factory=list)
    judged: dict[DocumentIdentity, bool] = field(default_factory=dict)

    def specs_of(self, spec_type: type[Spec]) -> list[Spec]:
        return [item for item in self.spec_items if isinstance(item, spec_type)]

    def reject(self, document: Document, diagnostic: Diagnostic) -> None:
        """Add an error, and leave the document out of the specs."""
        self.diagnostics.append(diagnostic)
        self.rejected[document.identity] = document

    def read_file(self, file: str, content: bytes, assignment: JobAssignment | None = None) -> None:
        """Add the documents of a file, what they say, and what is wrong with them. assignment: which of them are of
        this cluster, where there are several."""
        if (problem := file_name_diagnostic(file)) is not None:
            self.diagnostics.append(problem)
            return
        if file.endswith(CONF_SUFFIX) and not CONF_LINES.search(content.decode("utf-8", "replace")):
            return
        parsed = self.parse(file, content, wrapped_configurations)
        is_broken, is_empty = _has_error(parsed.diagnostics), not parsed.documents
        if found := template_diagnostic(file, content, is_broken=is_broken, is_empty=is_empty):
            self.diagnostics.append(found)
            return
        self.parsed.append(parsed)
        documents = [document for document, _ in parsed.documents]
        if parsed.is_sound:
            self.judged |= dict.fromkeys((document.identity for document in documents), True)
        own = dict.fromkeys(range(len(documents))) if assignment is None else assignment.own_documents(documents)
        if own or not documents:
            self.diagnostics += parsed.diagnostics
        for at, (document, failed) in enumerate(parsed.documents):
            if at in own:
                refusal = own[at]
                self._add_document(document, failed or refusal is not None)
                self.diagnostics += [] if refusal is None else [refusal]

    def _add_document(self, document: Document, failed: bool) -> None:
        if document.has_generated_name:
            document = _with_beginning_of_name(document)
        else:
            self.documents.append(document)
        kind = kinds().get(f"{document.kind}.{document.group}")
        if kind is None:
            for inside in wrapped_configurations(document):
                self._add_document(inside, failed)
        if kind is None or (kind.is_foreign and _version_of(document) not in kind.versions):
            self.strangers.append((document, failed))
        else:
            self._take(document, failed, self._read_document(document, kind, failed))

    def read_strangers(self) -> None:
        """Read the documents of kinds that the Cluster declares, and say of the others that they are not planned."""
        declared = {(table.name, table.group, table.versions): job_kind(table) for table in self.specs_of(JobKind)}
        for document, failed in self.strangers:
            kind = declared.get((document.kind, document.group, (_version_of(document),)))
            if kind is not None:
                self._take(document, failed, self._read_document(document, kind, failed))
            else:
                self._take(document, failed, self._pass_through(document, failed))
        self.strangers = []

    def mark_sound_files(self) -> None:
        """Note in each file whether all of its documents keep the rules of the API server."""
        for parsed in self.parsed:
            parsed.is_sound = all(self.judged.get(document.identity, False) for document, _ in parsed.documents)

    def _shape_diagnostics(
        self, document: Document, known: list[Diagnostic], known_paths: Iterable[FieldPath] = ()
    ) -> list[Diagnostic]:
        if self.judged.get(document.identity, False):
            return []
        flaws = document_flaws(document)
        self.judged[document.identity] = not any(flaws)
        return list(shape_diagnostics(document, flaws, known, known_paths))

    def read_train_jobs(self) -> None:
        """Give each TrainJob the runtime that it names, here or as the trainer brings it; one without is not
        planned."""
        runtimes = self.specs_of(RuntimeDraft)
        for draft in self.specs_of(TrainJobDraft):
            if (gang := train_job_gang(draft, runtimes)) is not None:
                self.spec_items.append(gang)
            elif (gang := default_runtime_gang(draft)) is not None:
                self.spec_items.append(gang)
                self.diagnostics.append(default_runtime_diagnostic(draft))
            else:
                self.diagnostics += unplanned_pods(draft.document)

    def read_job_flows(self) -> None:
        """Say of each JobFlow without a JobTemplate that it is not planned."""
        templates = self.specs_of(JobTemplateDraft)
        for flow in self.specs_of(JobFlowDraft):
            if next(job_flow_gangs((flow,), templates), None) is None:
                self.diagnostics += unplanned_pods(flow.document)

    def read_services(self, services: ServiceBinding) -> None:
        """Take the services that are planned for gangs, and say of the others that they are not."""
        for draft in self.specs_of(ServiceDraft):
            if (gang := service_gang(draft, services)) is not None:
                self.spec_items.append(gang)
            elif not draft.gang.document.has_generated_name:
                self.diagnostics += unplanned_pods(draft.gang.document)
                self.spec_items += declared_pods(draft.gang.document)

    def _take(self, document: Document, failed: bool, problems: list[Diagnostic]) -> None:
        if document.has_generated_name:
            problems += _generated_name_diagnostics(document, problems)
        self.diagnostics += problems
        if failed or document.has_generated_name or _has_error(problems):
            self.rejected[document.identity] = document

    def _pass_through(self, document: Document, failed: bool) -> list[Diagnostic]:
        problems = [*metadata_diagnostics(document, document.data["metadata"], ("metadata",))]
        problems += power_diagnostics(document)
        is_known = f"{document.kind}.{document.group}" in kinds()
        problems += unplanned_pods(document) if is_known else _unplanned_kind_diagnostics(document)
        problems += self._shape_diagnostics(document, problems)
        if not failed and not _has_error(problems):
            self.spec_items += declared_pods(document)
        return problems

    def _read_document(self, document: Document, kind: Kind, failed: bool) -> list[Diagnostic]:
        """Fit a document to its kind and add its specs; returns the problems found. failed: its text has an error."""
        problems = [*metadata_diagnostics(document, document.data["metadata"], ("metadata",))]
        problems += power_diagnostics(document)
        if _version_of(document) not in kind.versions:
            return [_version_diagnostic(document, kind)]
        model, model_problems = validate_document(document, kind.model)
        problems = [*(problem for _, problem in model_problems), *problems]
        if kind.text_diagnostics is not None:
            problems += kind.text_diagnostics(document)
        refused = self._shape_diagnostics(document, problems, [path for path, _ in model_problems])
        if model is not None and not failed and not _has_error(problems):
            # What only the API server refuses says all that rules across objects ask for; it is in no plan.
            self.models.append((document, model))
            found = list(kind.specs(document, model))
            self.spec_items += found
            if kind.is_foreign and not found:
                problems += unplanned_pods(document)
        elif not failed:
            self.spec_items += _partial_specs(document, kind)
            self.partial.add(document.identity)
        return problems + refused


def _with_beginning_of_name(document: Document) -> Document:
    """The document as one of the objects that come of it, so that all else of it is checked."""
    metadata = {**document.data["metadata"], "name": document.name.rstrip("-.") or "x"}
    return replace(document, data={**document.data, "metadata": metadata})


def _generated_name_diagnostics(document: Document, problems: list[Diagnostic]) -> Iterator[Diagnostic]:
    if not any(problem.code in UNPLANNED_CODES for problem in problems):
        yield from unplanned_pods(document)
    message = f"each apply would make another {document.kind}, so it is neither planned nor emitted"
    yield document.diagnostic(GENERATED_NAME, ("metadata", "generateName"), message, "give it metadata.name")


def _version_of(document: Document) -> str:
    return document.api_version.rpartition("/")[2]


def _partial_specs(document: Document, kind: Kind) -> Iterable[object]:
    """What can be read of a document with errors: for rules across objects, never for a plan."""
    if kind.partial_specs is not None:
        return kind.partial_specs(document)
    part = readable_part(document, kind.model)
    return [spec for spec in kind.specs(*part) if isinstance(spec, GangSpec)] if part is not None else ()


def _has_error(problems: list[Diagnostic]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def _version_diagnostic(document: Document, kind: Kind) -> Diagnostic:
    message, help = f"{document.api_version} is not known", f"write {kind.api_version}"
    return document.diagnostic(WRONG_VERSION, ("apiVersion",), message, help)


def _unplanned_kind_diagnostics(document: Document) -> list[Diagnostic]:
    """Findings on a kind that is not planned: an error where it nearly is one of the known kinds, else what
    `unplanned_pods` says."""
    group, kind = document.group, document.kind
    if kind in UNPLANNED_KINDS.get(group, ()):
        return unplanned_pods(document)
    if group in UNPLANNED_KINDS:
        known = sorted({found.name for found in kinds().values() if found.group == group} | UNPLANNED_KINDS[group])
        near = did_you_mean(kind, known)
        if near or group == API_GROUP:
            help = f"did you mean {near!r}?" if near else f"the kinds are {', '.join(known)}"
            message = f"{group} has no kind {kind!r}"
            return [document.diagnostic(UNKNOWN_KIND, ("kind",), message, help)]
    versions = sorted(found.api_version for found in kinds().values() if found.name == kind)
    if versions and kind not in AMBIGUOUS_KINDS and group.endswith(RELATED_GROUPS):
        message, help = f"{group} has no kind {kind!r}", f"write apiVersion: {versions[0]}"
        return [document.diagnostic(UNKNOWN_KIND, ("apiVersion",), message, help)]
    if near_group := did_you_mean(group, {found.group for found in kinds().values() if found.name == kind} - {""}):
        message = f"there is no API group {group}; kind {kind} is of {near_group}"
        return [document.diagnostic(UNKNOWN_KIND, ("apiVersion",), message, f"did you mean {near_group!r}?")]
    return unplanned_pods(document)
