"""Finds the live object to blame where code fails that works on many: the one being processed.

It is found in the frames of the traceback. That costs nothing without a failure, and works wherever one occurs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from compiler.kubernetes import MAPPING_TYPES, uid_of
from reconciler.cluster.objects import ref_of

_KEY = re.compile(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?/[^/]*/[^/]+")
_HOLDERS = ("pod", "live", "item", "lift")
"""The fields in which a value has the object that it is about."""

Culprit = tuple[str, str]
"""Ref.key and uid of an object; the uid is empty where only the key was at hand."""


def objects_at_hand(error: BaseException) -> Iterator[Culprit]:
    """Yield the objects that the failed code had at hand: the innermost function's first, of a function the last."""
    frames, traceback = [], error.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame)
        traceback = traceback.tb_next
    for frame in reversed(frames):
        for value in reversed(list(frame.f_locals.values())):
            if (culprit := _culprit_of(value)) is not None:
                yield culprit


def _culprit_of(value: Any, depth: int = 2) -> Culprit | None:
    if isinstance(value, str):
        return (value, "") if _KEY.fullmatch(value) else None
    if isinstance(value, MAPPING_TYPES):
        metadata = value.get("metadata")
        is_live = value.get("kind") and isinstance(metadata, MAPPING_TYPES) and metadata.get("uid")
        return (ref_of(value).key, uid_of(value)) if is_live else None
    held = (getattr(value, name, None) for name in _HOLDERS) if depth and not isinstance(value, type) else ()
    return next(filter(None, (_culprit_of(each, depth - 1) for each in held if not isinstance(each, str))), None)
