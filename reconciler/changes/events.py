"""What is reported of single objects and of the reconciler as a whole, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from reconciler.cluster.objects import Object


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
