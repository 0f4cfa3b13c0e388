"""What a process worked out last, given again while all that it was made of is the same."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class LastResult(Generic[T]):
    """The last result of one computation. What it is made of is compared by value, which is quick where most of it is
    the same object; the very same result lets those who read it tell that nothing changed."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], T] | None = None

    def of(self, parts: tuple[object, ...], make: Callable[[], T]) -> T:
        """The result computed from these parts; it must not be changed afterwards."""
        kept = self._kept
        if kept is None or kept[0] != parts:
            kept = self._kept = parts, make()
        return kept[1]


class LastOfEach(Generic[T]):
    """The last result of one computation for each of many objects: given again for the very same objects, computed for
    others; those that were not asked for last are forgotten."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[tuple[object, ...], T]] = {}

    def of(self, items: Iterable[tuple[object, ...]], make: Callable[..., T]) -> list[T]:
        """For each item, all that its result is computed from, the result. Neither is changed afterwards: the same
        object says the same."""
        before, self._kept = self._kept, {}
        found = []
        for parts in items:
            known = before.get(id(parts[0]))
            if known is None or not all(map(operator.is_, known[0], parts)):
                known = parts, make(*parts)
            self._kept[id(parts[0])] = known
            found.append(known[1])
        return found
