"""The digest of a problem: equal problems have equal digests, whatever the order in which sets iterate.

Version 1 is the SHA-256 of a JSON text. A dataclass is an object of its fields by name, without those at their
defaults, so that a new field leaves the digests of old problems as they are; a tuple is an array; a set is a sorted
array. A change of this encoding, or of the name or meaning of a field, is a new version.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from functools import cache

from solver.problem import Problem

VERSION = 1


def problem_digest(problem: Problem | None) -> str:
    """The digest as hexadecimal digits; None, where the inputs made no problem, has one too."""
    text = json.dumps([VERSION, problem], separators=(",", ":"), default=_encode)
    return hashlib.sha256(text.encode()).hexdigest()


def _encode(value: object) -> object:
    """What stands in the text for a value that JSON does not know. Raises TypeError for one that is of no problem."""
    if isinstance(value, frozenset):
        return sorted(value)
    owner: type = type(value)
    content = ((name, getattr(value, name), default) for name, default in _fields(owner))
    return {name: item for name, item, default in content if item != default}


@cache
def _fields(owner: type) -> tuple[tuple[str, object], ...]:
    """(name, default) of every field, by name; a field without a default has `MISSING`."""
    return tuple(sorted((field.name, field.default) for field in fields(owner)))
