"""The interface of each part for the loop."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reconciler.threads.heartbeat import Heartbeat


class Part:
    """A concern of the reconciler with a memory of its own. A part overrides only the methods that it needs."""

    def deadlines(self, now: float) -> Iterable[float]:
        """Return when something is to be done although nothing happens, on the clock."""
        return ()

    def forget_except(self, live: Collection[str]) -> None:
        """Forget all objects but these, by Ref.key."""

    def heartbeats(self) -> Iterable[Heartbeat]:
        """Return the heartbeats of this part's threads."""
        return ()

    def start(self) -> None:
        """Start the threads of this part."""

    def stop(self) -> None:
        """Let them end."""
