"""What is reported of single objects and of the reconciler as a whole, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.cluster.objects import Object

MAX_TEXTS = 5
"""Sentences that a condition says at most."""


class ObjectEvent(NamedTuple):
    object: Object
    reason: str
    message: str
    is_warning: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """As in Kubernetes: whether it holds, a short reason for machines and a sentence for people."""

    type: str
    status: bool
    reason: str
    message: str = ""

    @classmethod
    def of_texts(
        cls, name: str, texts: Sequence[str], without: str, with_texts: str, *, holds: bool = True
    ) -> Condition:
        """One that `holds`, or does not, where there are sentences. without, with_texts: the reason without and with
        them."""
        return cls(name, bool(texts) == holds, with_texts if texts else without, summary(texts))


def summary(texts: Sequence[str]) -> str:
    more = len(texts) - MAX_TEXTS
    return "; ".join(texts[:MAX_TEXTS]) + (f"; and {more} more" if more > 0 else "")
