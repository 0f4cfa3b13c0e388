"""Random mutations of plain data: values of other types, sizes and depths, keys and items more or fewer."""

from __future__ import annotations

import copy
import random
from typing import Any

_DEPTH = 60
_UNTOUCHED = frozenset((("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")))


def _deep(leaf: Any) -> Any:
    for at in range(_DEPTH):
        leaf = [leaf] if at % 2 else {"a": leaf}
    return leaf


_VALUES: tuple[Any, ...] = (
    *("", "x", "$VAR", "1", "-1", "1.5", "1e3", "100%", "{{ .Values.a }}", "ä\n", "a/b", "x" * 300, "true", "None"),
    *(0, 1, -1, 2**31, 2**63, 10**30, 1.5, -0.0, 1e300, True, False, None),
    *([], {}, [None], [[]], ["x"], [1, "x"], [{}], {"": None}, {"x": "y"}, {"name": []}, {"a": {"b": [{}]}}),
    *(_deep(1), {"requests": {"cpu": "x"}}, {"containers": None}, {"containers": [None]}, {"containers": [{}]}),
)

Path = tuple[Any, ...]


def paths_of(data: Any, path: Path = ()) -> list[Path]:
    """Return the paths of all values that may be changed."""
    found = [path] if path and path not in _UNTOUCHED else []
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, child in children:
        found += paths_of(child, (*path, step))
    return found


def mutated(data: Any, chooser: random.Random) -> Any:
    """Return a copy with one random change."""
    data = copy.deepcopy(data)
    if not (paths := paths_of(data)):
        return data
    path = chooser.choice(paths)
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    key, change = path[-1], chooser.randrange(8)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif change == 2 and isinstance(holder, dict):
        holder[f"{key}{chooser.choice('sx')}"] = holder.pop(key)
    elif change == 3:
        holder[key] = [holder[key]] if chooser.random() < 0.5 else {"x": holder[key]}
    elif change == 4 and isinstance(holder[key], (int, float)):
        holder[key] = str(holder[key])
    else:
        holder[key] = copy.deepcopy(chooser.choice(_VALUES))
    return data
