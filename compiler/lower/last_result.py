"""What a process lowered last, given again while all that it was made of is equal."""

from __future__ import annotations

from collections.abc import Callable
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
