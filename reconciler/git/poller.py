"""The branch's head, fetched again and again by a thread, and at once when a webhook asks for it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from compiler.repository import Repository
from reconciler.git.mirror import Mirror, Unfinished
from reconciler.git.process import GitError
from reconciler.threads.heartbeat import Heartbeat, start_thread
from reconciler.timings import TIMINGS, GitTimings


@dataclass(frozen=True, slots=True)
class BranchHead:
    """The branch as last fetched. problem: why it could not be fetched; the others are then of the last success."""

    commit: str = ""
    tree: Repository | None = None
    problem: str = ""


class GitPoller:
    """Fetches the branch again and again; `wake` is called when the head or the problem changes. on_poll: told after
    each fetch whether it went well, and how many seconds it took."""

    def __init__(
        self,
        mirror: Mirror,
        interval: float,
        wake: Callable[[], None],
        on_poll: Callable[[bool, float], None] = lambda good, seconds: None,
        timings: GitTimings = TIMINGS.git,
    ) -> None:
        self.mirror, self.interval, self.wake, self.on_poll = mirror, interval, wake, on_poll
        self.timings = timings
        self.head = BranchHead()
        self.failures = 0
        self.first_poll = threading.Event()
        self.heartbeat = Heartbeat("git", interval * timings.jitter[1] + timings.longest_pause + timings.poll_limit)
        self._stop, self._poked = threading.Event(), threading.Event()
        self._random = random.Random()  # noqa: S311 (spreads load; nothing secret)

    def start(self) -> None:
        start_thread(self._poll, self._stop, self.heartbeat)

    def stop(self) -> None:
        self._stop.set()
        self._poked.set()

    def poke(self) -> None:
        """Fetch soon. However often this is called, one fetch follows the one under way."""
        self._poked.set()

    def poll_once(self) -> None:
        """Fetch the branch, and read its tree where the commit is new."""
        before, began_at = self.head, time.monotonic()
        try:
            commit = self.mirror.fetch()
            if commit != before.commit or before.problem:
                self.head = BranchHead(commit, self.mirror.read_tree(commit))
            self.failures = 0
        except Unfinished as error:
            self.head = replace(before, problem=str(error))
            self.poke()
        except Exception as error:
            self.failures += 1
            is_expected = isinstance(error, (GitError, OSError))
            if not is_expected:
                self.heartbeat.record_error(error)
            self.head = replace(before, problem=str(error) if is_expected else f"{type(error).__name__}: {error}")
        self.on_poll(not self.head.problem, time.monotonic() - began_at)
        self.first_poll.set()
        if self.head != before:
            self.wake()

    def pause(self) -> float:
        """Seconds until the next fetch: the interval, doubled with each failure, and a little by chance."""
        longest = max(self.timings.longest_pause, self.interval)
        return min(self.interval * 2.0 ** min(self.failures, 32), longest) * self._random.uniform(*self.timings.jitter)

    def _poll(self) -> float:
        """Fetch, and wait here for what comes first: the next time, or a poke."""
        began_at = time.monotonic()
        self.poll_once()
        if not self._poked.wait(self.pause()):
            return 0.0
        self._poked.clear()
        return max(0.0, began_at + self.timings.least_spacing - time.monotonic())
