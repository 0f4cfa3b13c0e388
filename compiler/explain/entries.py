"""An entry of the catalogue: the text on one type of fact or repair, and its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from compiler.explain.provenance import Provenance, Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """texts: the first whose names are all known is used. sources: what the statement about gang j points to.

    special_texts: tried before all others, where what they name plays a part. never_texts: tried before texts where
    waiting cannot help. remedy: advice on the page.
    """

    statement_type: type[T]
    title: str
    texts: tuple[str, ...]
    sources: Callable[[Provenance, int, T], Iterable[Source]]
    never_texts: tuple[str, ...] = ()
    special_texts: tuple[str, ...] = ()
    remedy: str = ""


def entries_by_type(*entries: Entry[Any]) -> Mapping[type[Any], Entry[Any]]:
    """The entries by the types that they are about."""
    return {entry.statement_type: entry for entry in entries}
