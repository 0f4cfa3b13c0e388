"""Cases by seed: valid objects, shape changes anywhere, and each change of values on objects that have what it
changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random

from tests.differential.admission import value_changes
from tests.differential.admission.changes import SHAPE, paths, pods
from tests.differential.admission.objects import KINDS, RESOURCES, Object, valid_object
from tests.differential.admission.oracle import Case

_TRIES = 60
_RUN_PODS = tuple(
    kind
    for kind in KINDS
    if kind.partition(".")[0] in ("Pod", "Job", "Deployment", "StatefulSet", "CronJob", "DaemonSet", "PyTorchJob")
)


def cases(seed: int, number: int) -> list[Case]:
    """So many cases: every change of values once in `number` draws of them at least where there is room."""
    rng = Random(seed)  # noqa: S311
    named = list(_named_changes())
    rng.shuffle(named)
    found = []
    for at in range(number):
        share = at % 10
        if share == 0:
            kind, made = valid_object(rng, f"it-{at}")
            found.append(Case(kind, "nothing changed", json.dumps(made)))
        elif share <= 4:
            found.append(_shape_case(rng, f"it-{at}"))
        else:
            kind, change = named[len(found) % len(named)]
            found.append(_value_case(rng, f"it-{at}", kind, change))
    return found


def _named_changes() -> Iterator[tuple[str, str]]:
    """("", name) of a change in a pod; (kind or "*", name) of one in an object."""
    for name in value_changes.PODS:
        yield "", name
    for kind, changes in value_changes.OBJECTS.items():
        for name in changes:
            yield kind or "*", name


def _shape_case(rng: Random, name: str) -> Case:
    kind, made = valid_object(rng, name)
    deep = sorted((path for path in paths(made) if path[0] not in ("apiVersion", "kind")), key=repr)
    change = rng.choice(SHAPE)(rng, made, rng.choice(deep))
    return Case(kind, change, json.dumps(made))


def _value_case(rng: Random, name: str, kind: str, change: str) -> Case:
    for _ in range(_TRIES):
        made_kind, made = valid_object(rng, name)
        if (kind == "" and made_kind not in _RUN_PODS) or (kind not in ("", "*") and made_kind != kind):
            continue
        if _apply(rng, made, kind, change):
            return Case(made_kind, change, json.dumps(made))
    return Case(made_kind, "nothing changed", json.dumps(made))


def _apply(rng: Random, made: Object, kind: str, change: str) -> bool:
    """Whether the object had what is changed."""
    before = copy.deepcopy(made)
    try:
        if kind:
            value_changes.apply(value_changes.OBJECTS["" if kind == "*" else kind][change], made)
        else:
            value_changes.apply(value_changes.PODS[change], rng.choice(list(pods(made))))
    except (KeyError, IndexError):
        made.clear()
        made.update(before)
        return False
    return True


assert set(KINDS) <= set(RESOURCES)
