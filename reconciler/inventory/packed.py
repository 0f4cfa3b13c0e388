"""Plain data that is kept in great numbers and seldom looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any


class PackedRecord(Mapping[str, Any]):
    """Plain data, kept as text: a hundred thousand records in dicts of their own take hundreds of megabytes."""

    __slots__ = ("_text",)

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._text = json.dumps(record, separators=(",", ":"))

    def unpack(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self._text)
        return data

    def __getitem__(self, key: str) -> Any:
        return self.unpack()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.unpack())

    def __len__(self) -> int:
        return len(self.unpack())
