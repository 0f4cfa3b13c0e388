"""Which document is to blame where code that works on several documents fails.

The stage runs again without documents until it succeeds: those without which it does are to blame. That needs nothing
from the stage but that it can leave documents out, and costs nothing while no stage fails.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from compiler.checks.check import CheckInput, identity_of
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.diagnostics.guard import internal_error
from compiler.specs.cluster_spec import SchedulerSpec, Specs
from compiler.specs.gang_spec import GangSpec
from compiler.syntax.documents import Document, DocumentIdentity

Result = TypeVar("Result")
LeftOut = frozenset[DocumentIdentity]
Stage = Callable[[LeftOut], Result]
"""Returns the result without these documents."""
Blame = Callable[[Document, Diagnostic], None]
"""Takes a document and its error."""


def attributed(
    stage: Stage[Result], documents: Callable[[], Sequence[Document]], blame: Blame, task: str = ""
) -> Result:
    """Return the stage's result without the documents with which it fails; each of these gets an error.

    Raises the exception of the stage where it fails without any document. documents: its input. task: as
    in `guarded`.
    """
    left_out: LeftOut = frozenset()
    while True:
        try:
            return stage(left_out)
        except MemoryError:
            raise
        except Exception as error:
            remaining = [document for document in documents() if document.identity not in left_out]
            if _failure(stage, left_out | _identities(remaining)) is not None:
                raise
            culprit, failure = _culprit(stage, remaining, left_out, error)
        blame(culprit, internal_error(culprit, failure, task))
        left_out |= {culprit.identity}


def _culprit(
    stage: Stage[Any], documents: Sequence[Document], left_out: LeftOut, error: Exception
) -> tuple[Document, Exception]:
    """Return the last document of a shortest list, from the first one, with which the stage fails, and how it fails.
    error: how it fails with all."""
    works, fails = 0, len(documents)
    while fails - works > 1:
        middle = (works + fails) // 2
        found = _failure(stage, left_out | _identities(documents[middle:]))
        if found is None:
            works = middle
        else:
            fails, error = middle, found
    return documents[fails - 1], error


def _failure(stage: Stage[Any], left_out: LeftOut) -> Exception | None:
    try:
        stage(left_out)
    except MemoryError:
        raise
    except Exception as error:
        return error
    return None


def _identities(documents: Iterable[Document]) -> LeftOut:
    return frozenset(document.identity for document in documents)


def spec_documents(specs: Specs) -> list[Document]:
    """Return the documents of the specs, and the parts of documents that are jobs of their own. Jobs are last: what
    they refer to fails without them as well."""
    found = {document.identity: document for document in specs.documents}
    values = [getattr(specs, each.name) for each in fields(specs) if each.name not in ("documents", "gangs")]
    items = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    for item in (*items, *specs.gangs):
        for document in _documents_of(item):
            found.setdefault(document.identity, document)
    jobs = {document.identity for gang in specs.gangs for document in _documents_of(gang)}
    return sorted(found.values(), key=lambda document: document.identity in jobs)


def check_input_without(examined: CheckInput, left_out: LeftOut) -> CheckInput:
    """Return what checks examine without these documents, which count as objects with errors."""
    if not left_out:
        return examined
    failed = {identity_of(document) for document in examined.specs.documents if document.identity in left_out}
    found = _without(replace(examined, specs=_specs_without(examined.specs, left_out)), left_out)
    return replace(found, failed_objects=examined.failed_objects | failed)


def _specs_without(specs: Specs, left_out: LeftOut) -> Specs:
    """Return the specs except those of these documents; the documents stay."""
    if not left_out:
        return specs
    scheduler: SchedulerSpec | None = specs.scheduler
    if scheduler is not None and scheduler.document.identity in left_out:
        scheduler = None
    return replace(_without(specs, left_out), documents=specs.documents, scheduler=scheduler)


Holder = TypeVar("Holder", CheckInput, Specs)


def _without(holder: Holder, left_out: LeftOut) -> Holder:
    """Return a copy of which no tuple holds anything of these documents."""
    values = {each.name: getattr(holder, each.name) for each in fields(holder)}
    kept: dict[str, Any] = {
        name: items_without(value, left_out) for name, value in values.items() if isinstance(value, tuple)
    }
    return replace(holder, **kept)


def items_without(items: Iterable[Any], left_out: Collection[DocumentIdentity]) -> tuple[Any, ...]:
    """Return the specs, drafts and models that are of none of these documents."""
    return tuple(item for item in items if not any(d.identity in left_out for d in _documents_of(item)))


def _documents_of(item: Any) -> tuple[Document, ...]:
    """Return the documents of a spec, a draft or a model; none if it belongs to no document alone."""
    if isinstance(item, Document):
        return (item,)
    if isinstance(item, GangSpec):
        return item.document, *item.pod_documents
    owner = item if hasattr(item, "document") else getattr(item, "gang", None)
    document = getattr(owner, "document", None)
    return (document,) if isinstance(document, Document) else ()


def document_under_way(error: Exception) -> Document | None:
    """Return the document that the innermost code in the traceback had at hand, for where no stage can run again."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        documents = [each for value in traceback.tb_frame.f_locals.values() for each in _documents_of(value)]
        found = documents[-1] if documents else found
        traceback = traceback.tb_next
    return found
