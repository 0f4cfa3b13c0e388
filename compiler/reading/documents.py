"""Files to documents to specs: the contents of all files of a cluster, and the faults of each alone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from compiler.checks.check import ReadModel
from compiler.diagnostics.diagnostic import Diagnostic, Position
from compiler.diagnostics.guard import Place, guarded
from compiler.kinds.common.jobs import not_bound_diagnostic
from compiler.reading.assignment import JobAssignment, configurations_inside, template_diagnostic
from compiler.reading.culprits import LeftOut, attributed, items_without
from compiler.reading.one_document import (
    GENERATED_NAME,
    DocumentReading,
    UnknownDocument,
    has_error,
    read_as_kind,
    read_document,
    version_of,
)
from compiler.reading.unplanned import ARGO_KINDS, DESCRIBED_ELSEWHERE, declared_pods, unplanned_pods
from compiler.repository.paths import CONF_SUFFIX, file_name_diagnostic, printable_name
from compiler.specs.cluster_spec import ClusterSpec, ServiceBinding
from compiler.specs.drafts import HyperJobDraft, JobFlowDraft, JobTemplateDraft
from compiler.specs.pod_groups import job_flow_gangs
from compiler.specs.services import ServiceDraft, service_gang
from compiler.syntax.documents import Document, DocumentIdentity
from compiler.syntax.parse import Parse, ParsedFile, parse_file

if TYPE_CHECKING:
    from compiler.kinds.kind import Kind

Spec = TypeVar("Spec")
TRAIN_JOB = "TrainJob"
"""The kind whose drafts become gangs with a runtime."""


@dataclass(slots=True)
class DocumentCollector:
    """The contents of the files read so far, before the checks.

    The lists are those of `DocumentReading`, of all documents together.
    """

    parse: Parse = parse_file
    documents: list[Document] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    models: list[ReadModel[Any]] = field(default_factory=list)
    spec_items: list[object] = field(default_factory=list)
    rejected: dict[DocumentIdentity, Document] = field(default_factory=dict)
    partial: set[DocumentIdentity] = field(default_factory=set)
    unknown_documents: list[UnknownDocument] = field(default_factory=list)
    findings: list[tuple[Document, Diagnostic]] = field(default_factory=list)

    def specs_of(self, spec_type: type[Spec]) -> list[Spec]:
        return [item for item in self.spec_items if isinstance(item, spec_type)]

    def report(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Add these diagnostics."""
        self.diagnostics += diagnostics

    def reject(self, document: Document, diagnostic: Diagnostic) -> None:
        """Add an error, and leave the document out of the specs."""
        self.diagnostics.append(diagnostic)
        self.rejected[document.identity] = document

    def blame(self, document: Document, error: Diagnostic) -> None:
        """Reject a document with which something failed, unless it has an error already: that may be the cause."""
        if document.identity not in self.rejected:
            self.reject(document, error)

    def without(self, left_out: LeftOut) -> DocumentCollector:
        """Return the contents of the files without the specs and drafts of these documents."""
        return replace(self, spec_items=list(items_without(self.spec_items, left_out))) if left_out else self

    def _guarded(self, document: Document) -> AbstractContextManager[None]:
        return guarded(document, partial(self.blame, document))

    def read_file(self, file: str, content: bytes, assignment: JobAssignment | None = None) -> None:
        """Add the documents of a file, their contents, and their faults. assignment: which of them are of this cluster,
        where there are several."""
        with guarded(Place(Position(printable_name(file), 1, 1)), self.diagnostics.append):
            self._read_file(file, content, assignment)

    def _read_file(self, file: str, content: bytes, assignment: JobAssignment | None) -> None:
        if (problem := file_name_diagnostic(file)) is not None:
            self.diagnostics.append(problem)
            return
        if file.endswith(CONF_SUFFIX) and not _is_scheduler_conf(content):
            return
        parsed = self.parse(file, content, configurations_inside)
        is_broken, is_empty = has_error(parsed.diagnostics), not parsed.documents
        if found := template_diagnostic(file, content, is_broken=is_broken, is_empty=is_empty):
            self.diagnostics.append(found)
            return
        documents = [document for document, _ in parsed.documents]
        own = dict.fromkeys(range(len(documents))) if assignment is None else assignment.own_documents(documents)
        if own or not documents:
            self.diagnostics += parsed.diagnostics
            self.rejected |= {document.identity: document for document in parsed.unreadable}
        for at, document in enumerate(documents):
            if at in own:
                refusal = own[at]
                if refusal is None:
                    self._add(_reading(parsed, at))
                else:
                    self._add(read_document(document, True))
                    self.diagnostics.append(refusal)

    def _add(self, reading: DocumentReading) -> None:
        self.documents += reading.documents
        self.diagnostics += reading.diagnostics
        self.models += reading.models
        self.spec_items += reading.spec_items
        self.rejected |= {document.identity: document for document in reading.rejected}
        self.partial.update(document.identity for document in reading.partial)
        self.unknown_documents += reading.unknown_documents
        self.findings += reading.findings

    def read_strangers(self) -> None:
        """Read the documents of kinds that the Cluster declares, and report the others as not planned."""
        declared = self._declared_kinds()
        for unknown in self.unknown_documents:
            document = unknown.document
            kind = declared.get((document.kind, document.group, (version_of(document),)))
            if kind is not None:
                self._add(read_as_kind(document, unknown.failed, kind))
                continue
            self._add(unknown.read())
        self.unknown_documents = []

    def _declared_kinds(self) -> dict[tuple[str, str, tuple[str, ...]], Kind]:
        if not self.unknown_documents:
            return {}
        from compiler.kinds.common.job_kinds import JobKind, job_kind

        found = {}
        for cluster in self.specs_of(ClusterSpec):
            with self._guarded(cluster.document):
                found = {(table.name, table.group, table.versions): job_kind(table) for table in self.specs_of(JobKind)}
        return found

    def read_train_jobs(self) -> None:
        """Give each TrainJob the runtime that it names, here or as the trainer brings it; one without is not
        planned."""
        if not any(document.kind == TRAIN_JOB for document in self.documents):
            return
        from compiler.kinds.train_job import (
            WHY,
            RuntimeDraft,
            TrainJobDraft,
            default_runtime_diagnostic,
            default_runtime_gang,
            missing_runtime_help,
            train_job_gang,
            unused_settings,
        )

        runtimes = self.specs_of(RuntimeDraft)
        for draft in self.specs_of(TrainJobDraft):
            with self._guarded(draft.document):
                gang = train_job_gang(draft, runtimes)
                if gang is None and (gang := default_runtime_gang(draft)) is not None:
                    self.diagnostics.append(default_runtime_diagnostic(draft))
                if gang is None:
                    self.diagnostics += unplanned_pods(draft.document, missing_runtime_help(draft, runtimes))
                    continue
                self.spec_items.append(gang)
                self.diagnostics += unused_settings(draft, runtimes)
                if not gang.scheduling.is_bound and draft.document.identity not in self.rejected:
                    self.diagnostics.append(not_bound_diagnostic(draft.document, WHY))

    def _failed_names(self, kind: str) -> set[str]:
        """Names of the objects of a kind that have errors."""
        return {document.name for document in self.rejected.values() if document.kind == kind}

    def read_job_flows(self) -> None:
        """Report each JobFlow without a JobTemplate as not planned."""
        templates, failed = self.specs_of(JobTemplateDraft), self._failed_names("JobTemplate")
        for flow in self.specs_of(JobFlowDraft):
            if not failed.isdisjoint(flow.steps):
                continue  # of one cause with the errors of the template
            with self._guarded(flow.document):
                if next(job_flow_gangs((flow,), templates), None) is None:
                    names = ", ".join(flow.steps)
                    self.diagnostics += unplanned_pods(flow.document, f"add the JobTemplates that it names: {names}")

    def read_hyper_jobs(self, cluster: ClusterSpec) -> None:
        """Read the part of each HyperJob that may run in the cluster, and report one for other clusters as not
        planned."""
        if not (drafts := self.specs_of(HyperJobDraft)):
            return
        from compiler.kinds.hyper_job import hyper_job_diagnostic, hyper_job_gang

        for draft in drafts:
            document = draft.gang.document
            with self._guarded(document):
                if (gang := hyper_job_gang(draft, cluster)) is not None:
                    self.spec_items.append(gang)
                    if document.identity not in self.rejected:
                        self.diagnostics.append(hyper_job_diagnostic(draft))
                else:
                    help = f"nothing, if clusterNames is to name other clusters than {cluster.name}"
                    self.diagnostics += unplanned_pods(document, help)

    def read_workflows(self) -> None:
        """Give each Workflow the WorkflowTemplates that it names, and report one whose templates are elsewhere as not
        planned: then its generated name is in that message."""
        if not any(document.kind in ARGO_KINDS for document in self.documents):
            return
        from compiler.kinds.argo_workflow import (
            WHY,
            WorkflowDraft,
            elsewhere_diagnostic,
            workflow_gang,
            workflow_templates,
        )

        here = [document for document in self.documents if document.identity not in self.rejected]
        drafts = self.specs_of(WorkflowDraft)
        failed = {
            f"{kind} {name!r}"
            for kind in ("WorkflowTemplate", "ClusterWorkflowTemplate")
            for name in self._failed_names(kind)
        }
        namespaces = sorted({draft.document.namespace or "default" for draft in drafts})

        def templates_without(left_out: LeftOut) -> dict[str, dict[Any, Any]]:
            chosen = [document for document in here if document.identity not in left_out]
            return {namespace: workflow_templates(chosen, namespace) for namespace in namespaces}

        templates = attributed(templates_without, lambda: here, self.blame)
        for draft in drafts:
            document = draft.document
            with self._guarded(document):
                gang, missing = workflow_gang(draft, templates[document.namespace or "default"])
                if gang is not None:
                    self.spec_items.append(gang)
                    self.diagnostics.append(
                        not_bound_diagnostic(document, WHY, is_recurring=gang.scheduling.is_recurring)
                    )
                elif missing:
                    self._forget_name(document)
                else:
                    self.diagnostics += unplanned_pods(document, DESCRIBED_ELSEWHERE)
                missing = tuple(name for name in missing if name not in failed)
                if missing:
                    self.diagnostics.append(elsewhere_diagnostic(draft, missing, is_planned=gang is not None))

    def read_serving(self) -> None:
        """Give each InferenceService the ServingRuntime that it names."""
        if not any(document.kind == "InferenceService" for document in self.documents):
            return
        from compiler.kinds.serving import WHY, ServingDraft, serving_gang, serving_runtimes, unread_runtime

        here = [document for document in self.documents if document.identity not in self.rejected]
        for draft in self.specs_of(ServingDraft):
            document = draft.document
            with self._guarded(document):
                runtime = serving_runtimes(here, document.namespace or "default").get(draft.runtime or "")
                if (gang := serving_gang(document, runtime or {})) is not None:
                    self.spec_items.append(gang)
                    if document.identity not in self.rejected:
                        self.diagnostics.append(not_bound_diagnostic(document, WHY))
                if runtime is None and draft.runtime is not None:
                    self.diagnostics.append(unread_runtime(draft))

    def _forget_name(self, document: Document) -> None:
        at = document.position("metadata", "generateName")
        self.diagnostics = [
            each for each in self.diagnostics if (each.code, each.position) != (GENERATED_NAME.code, at)
        ]

    def read_services(self, services: ServiceBinding) -> None:
        """Read planned services as gangs, and report the others as not planned."""
        for draft in self.specs_of(ServiceDraft):
            with self._guarded(draft.gang.document):
                if (gang := service_gang(draft, services)) is not None:
                    self.spec_items.append(gang)
                else:
                    self.diagnostics += unplanned_pods(draft.gang.document)
                    self.spec_items += declared_pods(draft.gang.document)


def _is_scheduler_conf(content: bytes) -> bool:
    from compiler.volcano.scheduler_conf import CONF_LINES

    return CONF_LINES.search(content.decode("utf-8", "replace")) is not None


def read_alone(file: str, content: bytes) -> ParsedFile:
    """The file with all its documents read, ahead of the repository that they are in."""
    parsed = parse_file(file, content, configurations_inside)
    for at in range(len(parsed.documents)):
        for unknown in _reading(parsed, at).unknown_documents:
            unknown.read()
    return parsed


def _reading(parsed: ParsedFile, at: int) -> DocumentReading:
    """Return the reading of a document of the file, which is cached there."""
    found: DocumentReading = parsed.reading_of(at, read_document)
    return found
