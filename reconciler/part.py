"""What the loop asks of each part."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol


class Part(Protocol):
    """A concern of the reconciler with a memory of its own."""

    def deadlines(self, now: float) -> Iterable[float]:
        """When something is to be done although nothing happens, on the clock."""

    def forget_except(self, live: Collection[str]) -> None:
        """Forget all objects but these, by Ref.key."""
