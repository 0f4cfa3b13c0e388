"""What is remembered: an answer, as long as what it rests on stays the same; a table, as long as its keys count."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Memo(Generic[Answer]):
    """The last answer. Comparing the inputs must be cheap, as it is for lists of the same objects."""

    inputs: tuple[object, ...] | None = None
    answer: Answer | None = None

    def get(self, inputs: tuple[object, ...], make: Callable[[], Answer]) -> Answer:
        """The kept answer where the inputs are equal to the last ones, else a new one."""
        if self.answer is None or self.inputs is None or not _are_same(self.inputs, inputs):
            self.inputs, self.answer = inputs, make()
        return self.answer


def drop_other_keys(table: MutableMapping[str, Any], keys: Collection[str]) -> None:
    """Leave only these keys in the table."""
    for key in table.keys() - keys:
        del table[key]


def _are_same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    return len(one) == len(other) and all(a is b or a == b for a, b in zip(one, other, strict=True))
