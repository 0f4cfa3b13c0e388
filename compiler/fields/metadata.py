"""Findings on labels and annotations that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler import kubernetes as k8s
from compiler.diagnostics.diagnostic import Diagnostic, did_you_mean, meant
from compiler.fields.models import MISSPELT_KEY, UNKNOWN_ANNOTATION, UNREAD_POD_GROUP
from compiler.fields.volcano_keys import meant_key
from compiler.syntax.documents import Document, FieldPath


def _annotation_help(key: str) -> str:
    """Return the fix for an unknown annotation: the one of gangplan that `key` resembles, ignoring their common
    prefix."""
    known = {name.removeprefix(k8s.ANNOTATION_PREFIX): name for name in k8s.KNOWN_ANNOTATIONS}
    near = did_you_mean(key.removeprefix(k8s.ANNOTATION_PREFIX), known)
    return meant(key, known[near]) if near else f"use one of {', '.join(k8s.KNOWN_ANNOTATIONS)}"


_NEVER_LABELS = (
    k8s.EXPECTED_DURATION_ANNOTATION,
    k8s.GANG_ANNOTATION,
    k8s.ORDER_ANNOTATION,
    k8s.SUBMITTED_AT_ANNOTATION,
)


def _is_strange(key: str) -> bool:
    """Return whether the key's prefix is meant to be gangplan's, and is another."""
    prefix = key.rpartition("/")[0]
    return prefix.startswith("gangplan") and f"{prefix}/" != k8s.ANNOTATION_PREFIX


_GROUP_NAMES = (k8s.GROUP_NAME_ANNOTATION, k8s.VOLCANO_GROUP_NAME_ANNOTATION)


def metadata_diagnostics(document: Document, data: Any, path: FieldPath) -> Iterator[Diagnostic]:
    """Findings on the labels and annotations of the metadata at `path`, a document's or a pod template's."""
    for section in ("labels", "annotations"):
        found = data.get(section) if isinstance(data, dict) else None
        for key, value in found.items() if isinstance(found, dict) else ():
            at = (*path, section, key)
            if value is not None and not isinstance(value, str):
                continue  # of the wrong type
            if section == "annotations" and key.startswith(k8s.ANNOTATION_PREFIX) and key not in k8s.KNOWN_ANNOTATIONS:
                yield document.diagnostic(UNKNOWN_ANNOTATION, at, f"nothing reads {key}", _annotation_help(key))
            elif (right := f"{k8s.ANNOTATION_PREFIX}{key.rpartition('/')[2]}") in k8s.KNOWN_ANNOTATIONS and _is_strange(
                key
            ):
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
