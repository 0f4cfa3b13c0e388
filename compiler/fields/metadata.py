"""Findings on labels and annotations that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, did_you_mean, meant
from compiler.fields.models import MISSPELT_KEY, UNKNOWN_ANNOTATION, UNREAD_POD_GROUP
from compiler.fields.volcano_keys import meant_key
from compiler.kubernetes import (
    ANNOTATION_PREFIX,
    EXPECTED_DURATION_ANNOTATION,
    GANG_ANNOTATION,
    GROUP_NAME_ANNOTATION,
    KNOWN_ANNOTATIONS,
    ORDER_ANNOTATION,
    SUBMITTED_AT_ANNOTATION,
    VOLCANO_GROUP_NAME_ANNOTATION,
)
from compiler.syntax.documents import Document, FieldPath


def _annotation_help(key: str) -> str:
    """Return the fix for an unknown annotation: the one of gangplan that `key` resembles, ignoring their common
    prefix."""
    known = {name.removeprefix(ANNOTATION_PREFIX): name for name in KNOWN_ANNOTATIONS}
    near = did_you_mean(key.removeprefix(ANNOTATION_PREFIX), known)
    return meant(key, known[near]) if near else f"use one of {', '.join(KNOWN_ANNOTATIONS)}"


_NEVER_LABELS = (EXPECTED_DURATION_ANNOTATION, GANG_ANNOTATION, ORDER_ANNOTATION, SUBMITTED_AT_ANNOTATION)


def _is_strange(key: str) -> bool:
    """Return whether the key's prefix is meant to be gangplan's, and is another."""
    prefix = key.rpartition("/")[0]
    return prefix.startswith("gangplan") and f"{prefix}/" != ANNOTATION_PREFIX


_GROUP_NAMES = (GROUP_NAME_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION)


def metadata_diagnostics(document: Document, data: Any, path: FieldPath) -> Iterator[Diagnostic]:
    """Findings on the labels and annotations of the metadata at `path`, a document's or a pod template's."""
    for section in ("labels", "annotations"):
        found = data.get(section) if isinstance(data, dict) else None
        for key, value in found.items() if isinstance(found, dict) else ():
            at = (*path, section, key)
            if value is not None and not isinstance(value, str):
                continue  # of the wrong type
            if section == "annotations" and key.startswith(ANNOTATION_PREFIX) and key not in KNOWN_ANNOTATIONS:
                yield document.diagnostic(UNKNOWN_ANNOTATION, at, f"nothing reads {key}", _annotation_help(key))
            elif (right := f"{ANNOTATION_PREFIX}{key.rpartition('/')[2]}") in KNOWN_ANNOTATIONS and _is_strange(key):
                yield document.diagnostic(UNKNOWN_ANNOTATION, at, f"nothing reads {key}", meant(key, right))
            elif section == "labels" and key in _NEVER_LABELS:
                yield document.diagnostic(
                    UNKNOWN_ANNOTATION, at, f"nothing reads the label {key}", "move it to annotations"
                )
            elif right := meant_key(key):
                yield document.diagnostic(MISSPELT_KEY, at, f"nothing reads {key}", meant(key, right))
    notes = data.get("annotations") if isinstance(data, dict) else None
    read, unread = [notes.get(key) for key in _GROUP_NAMES] if isinstance(notes, dict) else (None, None)
    is_of_pod = path != ("metadata",) or document.kind == "Pod"
    if unread and unread != read and (read or is_of_pod):
        at = (*path, "annotations", _GROUP_NAMES[1])
        message = f"{_GROUP_NAMES[0]} names {read!r}, this names {unread!r}"
        help = "remove this one"
        if not read:
            message, help = f"Volcano's scheduler does not read {_GROUP_NAMES[1]}", f"write {_GROUP_NAMES[0]}"
        yield document.diagnostic(UNREAD_POD_GROUP, at, message, help)
