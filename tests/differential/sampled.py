"""Which of the seeds of a deep run a run tries: those whose worlds have the most in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass

from tests.builders.depth import sample
from tests.differential.world import World

Row = tuple[str, int]
"""What must hold of a world, and its seed."""


def sampled(make: Callable[[int], World], rows: Iterable[Row]) -> list[Row]:
    """As many of the rows as a run tries, or more until they have every feature of all; then all again."""
    left = {(check, seed): {check, *features(make(seed))} for check, seed in rows}
    number, wanted, chosen = sample(len(left)), set[str]().union(*left.values()), list[Row]()
    is_covered, missing = False, set(wanted)
    while left and not (is_covered and len(chosen) >= number):
        best = max(left, key=lambda row: len(left[row] & missing))
        missing -= left.pop(best)
        chosen.append(best)
        is_covered |= not missing
        missing = missing or set(wanted)
    return sorted(chosen)


def features(world: World) -> set[str]:
    """Fields that say something, anywhere in the world; of actions and plugins each one."""
    named = (*world.actions, *world.plugins, *world.extra_plugins)
    return {*_said(world), *named, f"{len(world.actions)} actions", f"{min(len(world.nodes), 2)} nodes"}


def _said(data: object) -> Iterator[str]:
    if isinstance(data, tuple):
        for each in data:
            yield from _said(each)
    if not is_dataclass(data):
        return
    for field in fields(data):
        value = getattr(data, field.name)
        yield from _said(value)
        if value != field.default:
            yield f"{type(data).__name__}.{field.name}"
