"""The words for decisions on a job: also for the reconciler, which reads decisions and makes none."""

from __future__ import annotations

from typing import Literal

JobAction = Literal["start", "keep", "wait", "evict", "done", "empty"]
HELD_SENTENCE = "it is not created meanwhile, so that the share that it cannot use goes on to other queues"
"""The sentence about a held job."""

JobEffect = Literal[
    "never",
    "evicted",
    "waits",
    "later",
    "removed",
    "restarts",
    "moves",
    "shrinks",
    "grows",
    "starts",
    "added",
    "new run",
    "edited",
    "reason",
]
"""Worst first. later: it waits as before, and is expected to start later. moves: it runs, elsewhere. added: it is new,
and has no pods of its own now. new run: it runs on as it is, followed by its new run. edited: it has its nodes, or
waits, as before, with another specification. reason: it waits as before, for another reason."""
