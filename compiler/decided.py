"""The words for what is decided of a job: also for the reconciler, which reads decisions and makes none."""

from __future__ import annotations

from typing import Literal

JobAction = Literal["start", "keep", "wait", "evict", "done", "empty"]
HELD_SENTENCE = "it is not created meanwhile, so that the share that it cannot use goes on to other queues"
"""What is said of a job that is held."""
