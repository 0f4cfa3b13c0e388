"""Paths into objects of any kind, as text: `spec.groups[].template`, `spec.replicaSpecs{}.template`.

`[]` represents each item of a list, `{}` each entry of a mapping, `['a.b/c']` a key with dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from compiler.syntax.documents import FieldPath

EACH_ITEM, EACH_ENTRY = "[]", "{}"
_STEP = re.compile(r"(?:^|\.)([^.\[\]{}']+)|(\[\])|(\{\})|\['([^']+)'\]")

Path = tuple[str, ...]
"""Keys, and EACH_ITEM or EACH_ENTRY."""


@cache
def parse_path(text: str) -> Path:
    """Return the path in the text. Raises ValueError for an invalid one."""
    steps, at = [], 0
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise ValueError(f"{text!r} cannot be read at character {at + 1}")
        steps.append(next(group for group in step.groups() if group))
        at = step.end()
    if not steps or steps[0] in (EACH_ITEM, EACH_ENTRY):
        raise ValueError(f"{text!r} does not begin with the name of a field")
    return tuple(steps)


def found_paths(data: Any, path: Path, before: FieldPath = ()) -> Iterator[FieldPath]:
    """Where in `data` the path leads to, in the order of the text; nowhere where a part is missing."""
    if not path:
        yield before
        return
    step, rest = path[0], path[1:]
    if step == EACH_ITEM:
        for index, item in enumerate(data if isinstance(data, list) else ()):
            yield from found_paths(item, rest, (*before, index))
    elif step == EACH_ENTRY:
        for key, item in data.items() if isinstance(data, dict) else ():
            yield from found_paths(item, rest, (*before, key))
    elif isinstance(data, dict) and data.get(step) is not None:
        yield from found_paths(data[step], rest, (*before, step))


def path_beside(path: Path, pattern: Path, at: FieldPath) -> FieldPath:
    """Return the path with the items and keys that `pattern` has at `at`: of the replicas next to a template."""
    chosen = iter([step for name, step in zip(pattern, at, strict=True) if name in (EACH_ITEM, EACH_ENTRY)])
    return tuple(next(chosen) if step in (EACH_ITEM, EACH_ENTRY) else step for step in path)


def value_at(data: Any, path: Sequence[str | int]) -> Any:
    """Return the value there; None if there is none."""
    for step in path:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return None
    return data


def path_text(path: Path) -> str:
    """Return the text of a path, of which `parse_path` makes it again."""
    text = ""
    for step in path:
        if step in (EACH_ITEM, EACH_ENTRY):
            text += step
        else:
            text += f"['{step}']" if re.search(r"[.\[\]{}]", step) else f".{step}"
    return text.removeprefix(".")
