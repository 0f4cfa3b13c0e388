"""The identity of one version of an object: the digest of its run, and the name that an object with generateName gets.

`kubectl create` of an object with generateName creates another object each time. A repository declares existing
objects, so such a document is one object: its name follows from its own text, the same wherever it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compiler.kubernetes import RUN_ANNOTATION, annotations_of
from compiler.syntax.documents import Document

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The API server's letters, which spell no words."""
_SUFFIX_LENGTH = 5
_MAX_PREFIX = 63 - _SUFFIX_LENGTH
"""The API server cuts a longer generateName, so that the names of Services and pods hold."""


def json_digest(data: Any) -> str:
    """sha256 of the canonical JSON of plain data."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def run_digest(document: Mapping[str, Any]) -> str:
    """Identifies one run of a job: its specification as the user wrote it, and the run annotation.

    The user's text and not the emitted manifest, so that a newer gangplan, which may emit more, never runs a finished
    job again.
    """
    body = {key: value for key, value in document.items() if key not in ("metadata", "status", "apiVersion")}
    return json_digest([body, annotations_of(document).get(RUN_ANNOTATION)])


def with_name(document: Document) -> Document:
    """Return the document, of the name that follows from its text where it has generateName in place of one."""
    metadata = document.metadata
    if metadata.get("name") or not (prefix := metadata.get("generateName")):
        return document
    kept = {key: value for key, value in metadata.items() if key != "generateName"}
    name = f"{prefix[:_MAX_PREFIX]}{name_suffix(document.data)}"
    return replace(document, data={**document.data, "metadata": {**kept, "name": name}})


def name_suffix(data: Mapping[str, Any]) -> str:
    """A few letters that another specification, or another run annotation, most likely changes."""
    number, letters = int(run_digest(data).removeprefix("sha256:"), 16), ""
    for _ in range(_SUFFIX_LENGTH):
        number, at = divmod(number, len(_LETTERS))
        letters += _LETTERS[at]
    return letters
