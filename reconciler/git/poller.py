"""The branch's head, fetched again and again by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from compiler.repository import Repository
from reconciler.git.mirror import Mirror
from reconciler.git.process import GitError
from reconciler.heartbeat import Heartbeat, repeat_step

POLL_LIMIT = 900.0
"""Seconds that one poll may take; each of its git commands has a limit of its own."""


@dataclass(frozen=True, slots=True)
class BranchHead:
    """The branch as last fetched. problem: why it could not be fetched; the others are then of the last success."""

    commit: str = ""
    tree: Repository | None = None
    problem: str = ""


class GitPoller:
    """A thread that fetches the branch again and again; `wake` is called when the head or the problem changes."""

    def __init__(self, mirror: Mirror, interval: float, wake: Callable[[], None]) -> None:
        self.mirror, self.interval, self.wake = mirror, interval, wake
        self.head = BranchHead()
        self.first_poll = threading.Event()
        self.heartbeat = Heartbeat("git", interval + POLL_LIMIT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="git", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def poll_once(self) -> None:
        """Fetch the branch, and read its tree where the commit is new."""
        before = self.head
        try:
            commit = self.mirror.fetch()
            if commit != before.commit or before.problem:
                self.head = BranchHead(commit, self.mirror.read_tree(commit))
        except (GitError, OSError) as error:
            self.head = BranchHead(before.commit, before.tree, str(error))
        except Exception as error:
            self.heartbeat.record_error(error)
            self.head = BranchHead(before.commit, before.tree, f"{type(error).__name__}: {error}")
        self.first_poll.set()
        if self.head != before:
            self.wake()

    def _run(self) -> None:
        repeat_step(self._poll, self._stop, self.heartbeat)

    def _poll(self) -> float:
        self.poll_once()
        return self.interval
