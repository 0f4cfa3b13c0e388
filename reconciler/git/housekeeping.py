"""Keeping a clone small: what killed processes left is removed, and packs are joined now and then within a budget."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from reconciler.git.process import GitError, git_command, local_environment, redact, run_git
from reconciler.timings import GitTimings

log = logging.getLogger(__name__)

_LOCKS = ("*.lock", "refs/**/*.lock", "objects/**/*.lock")
_LEFTOVERS = ("objects/pack/tmp_*", "objects/pack/.tmp-*", "objects/tmp_*", "objects/??/tmp_*")


def remove_leftovers(clone: Path) -> None:
    """Remove locks and half-written packs of a git that was killed. The caller owns the folder alone."""
    for pattern in (*_LOCKS, *_LEFTOVERS):
        for path in clone.glob(pattern):
            if path.is_file():
                path.unlink(missing_ok=True)


def clone_size(clone: Path) -> int:
    """Bytes of all packs."""
    return sum(path.stat().st_size for path in clone.glob("objects/pack/*.pack"))


def largest_leftover(clone: Path) -> int:
    """Bytes of the largest pack that was not finished."""
    return max((path.stat().st_size for path in clone.glob("objects/pack/tmp_*")), default=0)


@dataclass(slots=True)
class Housekeeping:
    """When the next garbage collection may be tried, on the monotonic clock."""

    timings: GitTimings
    due_at: float = 0.0

    def collect_garbage(self, clone: Path, size_limit: int) -> None:
        """Join the packs and drop what no ref reaches, where there are many. A failure is logged, no more."""
        packs = sum(1 for _ in clone.glob("objects/pack/*.pack"))
        if packs <= self.timings.packs or time.monotonic() < self.due_at:
            return
        self.due_at = time.monotonic() + self.timings.gc_pause
        environment = {**local_environment(), "GIT_DIR": "."}
        command = git_command("gc", "--quiet", "--prune=now")
        try:
            code, _, errors = run_git(clone, command, environment, self.timings.gc_limit, size_limit)
            problem = redact(errors.decode("utf-8", "replace")).strip() if code else ""
        except GitError as error:
            problem = str(error)
        if problem:
            log.warning("the clone was not packed anew", extra={"packs": packs, "reason": problem[:300]})
