"""Where objects have what only some releases of Volcano read."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.specs.drafts import DatedField, DatedFields
from compiler.syntax.documents import Document
from compiler.validation.judge import mapping, texts
from compiler.validation.templates import pod_spec_paths
from compiler.volcano.releases import NEW_JOB_FLAGS, NEW_POD_FIELDS, REPLACED_POD_FIELDS

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
