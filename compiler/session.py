"""What a command, or a process that does the same again and again, has worked out last.

It is made by the command or the worker and handed down; no module remembers anything by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
_Kept = tuple[tuple[object, ...], Any]
"""What a result follows from, and the result."""


class Session:
    """The last results of steps, each given again while what it follows from is the same. A result must not be changed
    afterwards; the very same one lets those who read it tell that nothing has changed."""

    def __init__(self) -> None:
        self._last: dict[Hashable, _Kept] = {}
        self._each: dict[Hashable, dict[int, _Kept]] = {}

    def last(self, step: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """The result of a step. Its inputs are compared by value, which is quick where most is the same object."""
        kept = self._last.get(step)
        if kept is None or kept[0] != inputs:
            kept = self._last[step] = inputs, compute()
        result: T = kept[1]
        return result

    def each(self, step: Hashable, items: Iterable[tuple[object, ...]], compute: Callable[..., T]) -> list[T]:
        """For each item, all that its result follows from, the result: given again for the very same first object, the
        others by value. Results of items that are not asked for are forgotten."""
        before, now = self._each.get(step, {}), dict[int, _Kept]()
        self._each[step] = now
        found = list[T]()
        for inputs in items:
            kept = before.get(id(inputs[0]))
            if kept is None or kept[0] != inputs:
                kept = inputs, compute(*inputs)
            now[id(inputs[0])] = kept
            found.append(kept[1])
        return found

    def known(self, step: Hashable, *inputs: object) -> Any:
        """What `each` returned for this item when it was asked last; None where it was not."""
        kept = self._each.get(step, {}).get(id(inputs[0]))
        return None if kept is None or kept[0] != inputs else kept[1]

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget the last results of steps (name, key) of other keys."""
        of_keys = [step for step in self._last if isinstance(step, tuple)]
        for step in of_keys:
            if step[1] not in keys:
                del self._last[step]
