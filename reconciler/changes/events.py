"""What is reported of single objects and of the reconciler as a whole, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reconciler.cluster.objects import Object

MAX_TEXTS = 5
"""Sentences that a condition says at most."""


class ObjectEvent(NamedTuple):
    """An Event to write on an object."""

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
        """One that says these sentences. without, with_texts: the reason where there are none, and where there are;
        then the condition `holds` or does not."""
        return cls(name, bool(texts) == holds, with_texts if texts else without, summary(texts))


def summary(texts: Sequence[str]) -> str:
    """The first sentences, and how many more there are."""
    more = len(texts) - MAX_TEXTS
    return "; ".join(texts[:MAX_TEXTS]) + (f"; and {more} more" if more > 0 else "")
