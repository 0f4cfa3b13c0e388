"""Texts of one shape, which differ in comments and in values that end their line: one of them is parsed, the others are
filled in.

What a text is besides these values is its skeleton. It is parsed once with marks in their places: where each mark comes
out as one value of the data, other values come out there too.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from compiler.syntax.documents import FieldPath

Positions = dict[FieldPath, tuple[int, int]]
Read = Callable[[str], tuple[Any, Positions]]
Scalar = Callable[[str], Any]

MAX_LENGTH = 1 << 14
"""Longer texts are hardly ever alike."""
_VALUE = re.compile(
    r"""(^[ ]*\#[\t -~\u00a0-\u2027\u202a-\ud7ff]*$|(?<=:[ ])[A-Za-z0-9_/](?:[\w./+-]|:(?=[\w./+-]))*(?=\n)"""
    r"""|(?<=:[ ]")[ !#-\[\]-~]*(?="\n)|(?<=:[ ]')[ -&(-~]*(?='\n))""",
    re.ASCII | re.MULTILINE | re.VERBOSE,
)
"""A comment on a line of its own; a value without blanks, or what a quoted one holds, that ends its line."""
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]*[ \t]*(?:#[^\n]*)?\n")
_MARK, _COMMENT = "gangplan:mark/+-._", "#gangplan:comment"
_LEARNT_WITH = 2


class Shape:
    """The texts of one skeleton."""

    def __init__(self, skeleton: str) -> None:
        self._literals = skeleton.split("\0")
        self._is_known, self._seen = False, 0
        self._data, self._positions = b"", Positions()
        self._holders: list[tuple[FieldPath, list[tuple[str | int, int, bool]]]] = []

    def is_known(self, read: Read) -> bool:
        """Whether texts of the shape can be filled in: found out with the second one, since most shapes have one."""
        self._seen += 1
        if self._seen == _LEARNT_WITH:
            self._learn(read)
        return self._is_known

    def _learn(self, read: Read) -> None:
        """Parse the skeleton. It is known if each mark is a value, and no comment is one."""
        *befores, end = self._literals
        marks = [_COMMENT if before[-1:] in ("", "\n") else f"{_MARK}{at};" for at, before in enumerate(befores)]
        data, self._positions = read("".join((*chain(*zip(befores, marks, strict=True)), end)))
        numbers, text = {mark: at for at, mark in enumerate(marks) if mark != _COMMENT}, repr(data)
        is_whole = self._place_marks(data, (), numbers) == len(numbers) == text.count(_MARK)
        self._is_known, self._data = is_whole and _COMMENT not in text, marshal.dumps(data)

    def _place_marks(self, data: Any, path: FieldPath, numbers: Mapping[str, int]) -> int:
        """Note where the marks are; returns how many."""
        slots, found = list[tuple[str | int, int, bool]](), 0
        for key, value in data.items() if isinstance(data, dict) else enumerate(data):
            if isinstance(value, dict | list):
                found += self._place_marks(value, (*path, key), numbers)
            elif isinstance(value, str) and (number := numbers.get(value)) is not None:
                slots.append((key, number, self._literals[number].endswith(" ")))
        if slots:
            self._holders.append((path, slots))
        return found + len(slots)

    def data(self, values: Sequence[str], scalar: Scalar) -> Any:
        """The data of the text with these values. scalar: what an unquoted one is."""
        data = marshal.loads(self._data)  # noqa: S302  # made above
        for path, slots in self._holders:
            holder = data
            for step in path:
                holder = holder[step]
            for key, number, is_plain in slots:
                holder[key] = scalar(values[number]) if is_plain else values[number]
        return data

    def positions(self, line: int, column: int) -> Positions:
        """Where what is, in a text that begins there."""
        if (line, column) == (1, 1):
            return self._positions
        return {path: (row + line - 1, at + column - 1) for path, (row, at) in self._positions.items()}


def shape_of(text: str) -> tuple[Shape | None, Sequence[str]]:
    """The shape of the text, and its own values; no shape of one that is long, or may hold other texts as it is."""
    if len(text) > MAX_LENGTH or _BLOCK_SCALAR.search(text):
        return None, ()
    parts = _VALUE.split(text)
    return _shape("\0".join(parts[::2])), parts[1::2]


_shape = lru_cache(maxsize=256)(Shape)
