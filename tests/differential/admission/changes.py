"""Single changes of a valid object: of shape anywhere, and of values where Kubernetes and Volcano have rules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.differential.admission.objects import Object

Path = tuple[str | int, ...]
VALUES: tuple[Any, ...] = (
    *(None, "", "text", "Upper_Case", "a b", "x" * 70, "1", "-1", "0.5", "1Gi", "true", "*", "a/b/c", "../x"),
    *(0, 1, -1, 1.5, 70000, 2**31, 2**63, True, False, [], {}, [None], ["a"], {"a": "b"}, {"a": 1}),
)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every path below a value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def shown(path: Path) -> str:
    return ".".join(map(str, path))


def _replace(rng: Random, found: Object, path: Path) -> str:
    value = rng.choice(VALUES)
    at(found, path[:-1])[path[-1]] = copy.deepcopy(value)
    return f"{shown(path)} = {str(value)[:20]!r} ({type(value).__name__})"


def _near_value(rng: Random, found: Object, path: Path) -> str:
    """Another value of the same type."""
    old = at(found, path)
    choices: dict[type, list[Any]] = {
        str: ["", f"{old}x", str(old).upper(), f"{old} ", f"-{old}", f"{old}.", "x" * 64, f"{old}_y", f"{old}/z"],
        int: [-1, 0, 65535, 65536, 2**31 - 1, 2**31, str(old), float(old), old + 0.5] if isinstance(old, int) else [],
        bool: ["true", "yes", 1],
        list: [[], None, [*old, *old], {}] if isinstance(old, list) else [],
        dict: [{}, None, [old]],
    }
    value = rng.choice(choices[type(old)])
    at(found, path[:-1])[path[-1]] = copy.deepcopy(value)
    return f"{shown(path)} from {str(old)[:20]!r} to {str(value)[:20]!r}"


def _remove(rng: Random, found: Object, path: Path) -> str:
    del at(found, path[:-1])[path[-1]]
    return f"{shown(path)} removed"


def _misspell(rng: Random, found: Object, path: Path) -> str:
    parent, key = at(found, path[:-1]), path[-1]
    if not isinstance(key, str):
        return _duplicate(rng, found, path)
    place = rng.randrange(len(key))
    other = rng.choice((key[:place] + key[place + 1 :], key.lower(), key + "s", key[:1].upper() + key[1:]))
    parent[other or "x"] = parent.pop(key)
    return f"{shown(path)} called {other}"


def _add(rng: Random, found: Object, path: Path) -> str:
    parent = at(found, path[:-1])
    if not isinstance(parent, dict):
        return _duplicate(rng, found, path)
    parent["replicaCount"] = 1
    return f"{shown(path[:-1])}.replicaCount added"


def _move_up(rng: Random, found: Object, path: Path) -> str:
    """A field stands one level too high, as by wrong indentation."""
    if (
        len(path) < 2
        or not all(isinstance(at(found, path[:-n]), dict) for n in (1, 2))
        or not isinstance(path[-1], str)
    ):
        return _remove(rng, found, path)
    value = at(found, path[:-1]).pop(path[-1])
    at(found, path[:-2]).setdefault(path[-1], value)
    return f"{shown(path)} one level up"


def _duplicate(rng: Random, found: Object, path: Path) -> str:
    parent = at(found, path[:-1])
    if not isinstance(parent, list):
        return _remove(rng, found, path)
    parent.append(copy.deepcopy(parent[int(path[-1])]))
    return f"{shown(path)} twice"


SHAPE: tuple[Callable[[Random, Object, Path], str], ...] = (
    *(_replace, _replace, _near_value, _near_value, _near_value),
    *(_remove, _misspell, _add, _move_up, _duplicate),
)


def pods(value: Any) -> Iterator[Object]:
    """Every pod spec below a value."""
    if isinstance(value, dict) and isinstance(value.get("containers"), list):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from pods(child)
