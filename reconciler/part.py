"""What the loop asks of each part."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reconciler.threads.heartbeat import Heartbeat


class Part:
    """A concern of the reconciler with a memory of its own. What a part has not, it leaves as it is here."""

    def deadlines(self, now: float) -> Iterable[float]:
        """When something is to be done although nothing happens, on the clock."""
        return ()

    def forget_except(self, live: Collection[str]) -> None:
        """Forget all objects but these, by Ref.key."""

    def heartbeats(self) -> Iterable[Heartbeat]:
        """Of the threads of this part."""
        return ()

    def start(self) -> None:
        """Start the threads of this part."""

    def stop(self) -> None:
        """Let them end."""
