"""The digest of a problem: equal problems have equal digests, in whatever order sets iterate.

Version 2 is the SHA-256 of a JSON text. A dataclass is an object of its fields by name, without those at their
defaults, so that a new field leaves the digests of old problems as they are; a tuple is an array; a set is a sorted
array. A change of this encoding, or of the name or meaning of a field, is a new version.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from functools import cache, partial

from compiler.session import Session
from solver.problem import Problem

VERSION = 2


def problem_digest(problem: Problem | None, session: Session) -> str:
    """Return the digest as hexadecimal digits; None, where the inputs made no problem, has one too."""
    text = f"[{VERSION},{'null' if problem is None else _problem_text(problem, session)}]"
    return hashlib.sha256(text.encode()).hexdigest()


def _problem_text(problem: Problem, session: Session) -> str:
    """Return the nodes, of which there are most, change least."""
    texts = []
    for name, value in _content(problem).items():
        make = partial(_text, value)
        text = session.last("text of nodes", (value,), make) if name == "nodes" else make()
        texts.append(f'"{name}":{text}')
    return f"{{{','.join(texts)}}}"


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), default=_encode)


def _encode(value: object) -> object:
    """Return the JSON form of a value that JSON does not know. Raises TypeError for a value outside of problems."""
    return sorted(value) if isinstance(value, frozenset) else _content(value)


def _content(value: object) -> dict[str, object]:
    """Return the fields of a dataclass by name, without those at their defaults. Raises TypeError for anything else."""
    owner: type = type(value)
    content = ((name, getattr(value, name), default) for name, default in _fields(owner))
    return {name: item for name, item, default in content if item != default}


@cache
def _fields(owner: type) -> tuple[tuple[str, object], ...]:
    """(name, default) of every field, by name; a field without a default has `MISSING`."""
    return tuple(sorted((field.name, field.default) for field in fields(owner)))
