"""The last results of a command, or of a process that repeats the same work.

The command or the worker creates it and passes it down; no module caches anything by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
_Kept = tuple[tuple[object, ...], Any]
"""The inputs of a result, and the result."""


class Session:
    """The last results of steps, each returned again while its inputs are the same. A result must not be changed
    afterwards; an identical result shows its readers that nothing has changed."""

    def __init__(self) -> None:
        self._last: dict[Hashable, _Kept] = {}
        self._each: dict[Hashable, dict[int, _Kept]] = {}

    def last(self, step: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return the result of a step. Its inputs are compared by value, which is quick where most is the same
        object."""
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
        """Return the last result of `each` for this item; None if there is none."""
        kept = self._each.get(step, {}).get(id(inputs[0]))
        return None if kept is None or kept[0] != inputs else kept[1]

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget the last results of steps (name, key) of other keys."""
        of_keys = [step for step in self._last if isinstance(step, tuple)]
        for step in of_keys:
            if step[1] not in keys:
                del self._last[step]
