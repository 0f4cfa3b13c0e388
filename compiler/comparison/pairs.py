"""Things of two revisions, matched by their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def paired(before: Mapping[K, V], after: Mapping[K, V]) -> tuple[dict[K, V], dict[K, V], dict[K, tuple[V, V]]]:
    """Return new entries, removed entries, and both versions of common entries."""
    new = {key: value for key, value in after.items() if key not in before}
    gone = {key: value for key, value in before.items() if key not in after}
    return new, gone, {key: (before[key], value) for key, value in after.items() if key in before}
