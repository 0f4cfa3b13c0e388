"""A watch that is late hands on all of it, in order and as late as it is told."""

from __future__ import annotations

import http.client
import time
from typing import Any

import pytest

from tests.faults.proxy import late_chunks

LATE = 0.2


class Answer:
    """Gives these chunks at once, then breaks or ends."""

    def __init__(self, *chunks: bytes, error: Exception | None = None) -> None:
        self.chunks, self.error = list(chunks), error

    def read1(self, _size: int) -> bytes:
        if self.chunks:
            return self.chunks.pop(0)
        if self.error is not None:
            raise self.error
        return b""


def late(answer: Any) -> list[tuple[bytes, float]]:
    began = time.monotonic()
    return [(chunk, time.monotonic() - began) for chunk in late_chunks(answer, LATE)]


def test_chunks_come_in_order_each_as_late_as_told() -> None:
    chunks = [bytes([number]) for number in range(100)]
    found = late(Answer(*chunks))
    assert [chunk for chunk, _ in found] == chunks
    assert min(seconds for _, seconds in found) >= LATE
    assert max(seconds for _, seconds in found) < len(chunks) * LATE, "not one after the other"


def test_what_ends_the_answer_ends_the_watch() -> None:
    with pytest.raises(http.client.IncompleteRead):
        late(Answer(b"a", error=http.client.IncompleteRead(b"")))
