"""The digest of a problem: equal problems have equal digests, whatever the order in which sets iterate.

Version 1 is the SHA-256 of a JSON text. A dataclass is an object of its fields by name, without those at their
defaults, so that a new field leaves the digests of old problems as they are; a tuple is an array; a set is a sorted
array. A change of this encoding, or of the name or meaning of a field, is a new version.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from solver.problem import Problem

VERSION = 1
_PLAIN = frozenset((str, int, bool, float, type(None)))


def problem_digest(problem: Problem | None) -> str:
    """The digest as hexadecimal digits; None, where the inputs made no problem, has one too."""
    text = json.dumps([VERSION, _encoded(problem)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _encoded(value: object) -> Any:
    owner: type = type(value)
    if owner in _PLAIN:
        return value
    if is_dataclass(value):
        present = ((name, getattr(value, name), default) for name, default in _fields(owner))
        return {name: _encoded(content) for name, content, default in present if content != default}
    if isinstance(value, frozenset):
        return sorted(_encoded(item) for item in value)
    if isinstance(value, tuple):
        return [_encoded(item) for item in value]
    return value


@cache
def _fields(owner: type) -> tuple[tuple[str, object], ...]:
    """(name, default) of every field, by name; a field without a default has `MISSING`."""
    return tuple(sorted((field.name, field.default) for field in fields(owner)))
