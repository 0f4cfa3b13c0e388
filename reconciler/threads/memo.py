"""Tables that keep what counts."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping
from typing import Any


def drop_other_keys(table: MutableMapping[str, Any], keys: Collection[str]) -> None:
    """Leave only these keys in the table."""
    for key in table.keys() - keys:
        del table[key]
