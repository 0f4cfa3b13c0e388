"""Which jobs the text of a plan shows in full, the others counted: filters, and waiting jobs by reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.diagnostics.diagnostic import Diagnostic, suggestion
from compiler.diagnostics.guard import guarded
from compiler.diagnostics.render.json import diagnostic_entry
from compiler.explain.catalogue import REASONS, entries_by_code
from compiler.fields.texts import compact_names
from compiler.kubernetes import ROOT_QUEUE
from compiler.outcome import JobDecision, Outcome
from compiler.reading.unplanned import runs_pods
from compiler.repository.paths import JOBS_FOLDER
from compiler.specs.cluster_spec import Specs
from compiler.syntax.documents import Document
from compiler.syntax.paths import value_at

if TYPE_CHECKING:
    from compiler.outputs import LeftOutEntry

MAX_DETAILED = 12
"""Waiting jobs that are listed one by one; more are listed by reason."""
MAX_PLACED = 40
"""Jobs that start or run of which each has a row; more are listed by domain."""
MAX_NAMES = 6


@dataclass(frozen=True, slots=True)
class Selection:
    """Jobs of any of these queues, namespaces and decisions; an empty tuple is any. is_summary: no single jobs."""

    queues: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    is_summary: bool = False

    def includes(self, decision: JobDecision) -> bool:
        gang = decision.gang
        wanted = ((self.queues, gang.queue), (self.namespaces, gang.namespace), (self.decisions, decision.action))
        return all(not chosen or value in chosen for chosen, value in wanted)

    def is_grouped(self, waiting: Sequence[JobDecision]) -> bool:
        """Return whether waiting jobs are listed by reason and not one by one."""
        return self.is_summary or (len(waiting) > MAX_DETAILED and not self.decisions)

    def is_brief(self, jobs: Sequence[JobDecision]) -> bool:
        """Return whether jobs that start, run or are evicted are counted and not listed one by one."""
        return len(jobs) > MAX_PLACED and self == Selection()


ALL = Selection()


def with_queues_below(selection: Selection, specs: Specs) -> Selection:
    """Return the selection with all queues below its queues."""
    parents: dict[str, str | None] = {gang.queue: None for gang in specs.gangs}
    parents |= {queue.name: queue.parent for queue in specs.queues}

    def is_chosen(queue: str) -> bool:
        seen = set[str]()
        while queue not in selection.queues and queue not in seen:
            seen.add(queue)
            queue = parents.get(queue) or ROOT_QUEUE
        return queue in selection.queues

    return replace(selection, queues=(*selection.queues, *filter(is_chosen, sorted(parents))))


def unknown_names(selection: Selection, specs: Specs) -> Iterator[str]:
    """Yield a sentence for each queue and namespace of the selection that is not in the repository."""
    queues = {ROOT_QUEUE} | {queue.name for queue in specs.queues} | {gang.queue for gang in specs.gangs}
    namespaces = {gang.namespace for gang in specs.gangs}
    for noun, chosen, known in (("queue", selection.queues, queues), ("namespace", selection.namespaces, namespaces)):
        for name in chosen:
            if name not in known:
                help = suggestion(name, known, f"there is {', '.join(sorted(known)) or 'none'}")
                yield f"no job is in {noun} {name!r}: {help}"


def waits_by_reason(waiting: Iterable[JobDecision]) -> Iterator[tuple[str, str, list[JobDecision]]]:
    """Yield (code, meaning, jobs) of the waiting jobs of each queue by their first reason: the largest groups first,
    those that can never start last."""
    groups: dict[tuple[bool, str, str], list[JobDecision]] = {}
    for decision in waiting:
        code = decision.reasons[0].code if decision.reasons else ""
        groups.setdefault((decision.never, code, decision.gang.queue), []).append(decision)
    entries = entries_by_code(REASONS)
    for (never, code, _), jobs in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]), item[0])):
        title = entries[code].title if code in entries else "no reason was found in time"
        yield code, f"{'can never start: ' if never else ''}{title}", jobs


def named_jobs(jobs: Sequence[JobDecision]) -> str:
    return compact_names([job.name for job in jobs], MAX_NAMES)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A job that is in no plan, since it has errors; without a document, a file of jobs that holds none."""

    file: str
    document: Document | None
    errors: tuple[Diagnostic, ...]


def left_out(outcome: Outcome) -> list[LeftOut]:
    """Return the jobs that errors keep out of the plan, by file."""
    planned = {decision.gang.document.identity for decision in outcome.decisions}
    planned |= {pod.identity for decision in outcome.decisions for pod in decision.gang.pod_documents}
    steps = {key for document in outcome.specs.documents for key in _template_keys(document)}
    errors: dict[tuple[str, str], list[Diagnostic]] = {}
    for each in outcome.diagnostics:
        if each.severity == "error":
            errors.setdefault((each.position.file, each.object), []).append(each)
    found = []
    for document in sorted(outcome.specs.documents, key=lambda document: document.identity[:2]):
        mine = errors.get((document.file, document.display_name))
        if mine and document.identity not in planned and (_is_job(document) or _key(document) in steps):
            found.append(LeftOut(document.file, document, tuple(mine)))
    for (file, subject), mine in errors.items():
        if not subject and file.startswith(f"{JOBS_FOLDER}/"):
            found.append(LeftOut(file, None, tuple(mine)))
    return sorted(found, key=lambda one: one.errors[0].position)


def _key(document: Document) -> tuple[str, str, str]:
    return document.kind, document.namespace or "default", document.name


def _template_keys(document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield the JobTemplates of which a JobFlow makes its Jobs."""
    flows = value_at(document.data, ("spec", "flows")) if document.kind == "JobFlow" else None
    for flow in flows if isinstance(flows, list) else ():
        if isinstance(flow, dict):
            yield "JobTemplate", document.namespace or "default", str(flow.get("name"))


def _is_job(document: Document) -> bool:
    """Return whether the object runs pods; one of which not even that can be found out has its error shown anyway."""
    with guarded(document, lambda _: None):
        return runs_pods(document)
    return True


def left_out_entries(outcome: Outcome) -> list[LeftOutEntry]:
    """Return the jobs left out because of errors, as plain data."""
    return [_left_out_entry(one.document, one) for one in left_out(outcome)]


def _left_out_entry(document: Document | None, one: LeftOut) -> LeftOutEntry:
    errors = [diagnostic_entry(error) for error in one.errors]
    if document is None:
        return {"file": one.file, "diagnostics": errors}
    return {
        "apiVersion": document.api_version,
        "kind": document.kind,
        "namespace": document.namespace or "default",
        "name": document.name,
        "file": one.file,
        "diagnostics": errors,
    }
