"""All entries of reasons and repairs by their types, and the texts about a code alone. The pages of the reference are
generated from them.

A new fact or repair gets an entry in the file of its family.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.explain import (
    lost_starts,
    order_statements,
    outside_jobs,
    queue_statements,
    resource_statements,
    topology_statements,
)
from compiler.explain.provenance import Provenance
from compiler.explain.statements import CodedMessage, Entry, values_of
from compiler.syntax.edits import FieldEdit
from solver.facts import Fact
from solver.repairs import Repair

_FAMILIES = (resource_statements, topology_statements, queue_statements, order_statements)
REASONS: Mapping[type[Fact], Entry[Any]] = {
    entry.kind: entry for family in (*_FAMILIES, lost_starts, outside_jobs) for entry in family.REASONS
}
REPAIRS: Mapping[type[Repair], Entry[Any]] = {entry.kind: entry for family in _FAMILIES for entry in family.REPAIRS}
ENTRIES: Mapping[type[Any], Entry[Any]] = {**REASONS, **REPAIRS}


class Catalogue:
    """Messages on the statements of one problem. A message on equal gangs is built once, unless it names contents of
    the gang's own document."""

    def __init__(self, provenance: Provenance) -> None:
        self.provenance = provenance
        self._known: dict[object, CodedMessage] = {}

    def message(self, j: int, statement: Fact | Repair) -> CodedMessage:
        """Return the message on a statement about gang j; for a repair with the changes that it requires."""
        parts = (statement, *(statement.also if isinstance(statement, Repair) else ()))
        gang = self.provenance.problem.gangs[j]
        own = j if any(ENTRIES[type(part)].of_document for part in parts) else -1
        key = (own, parts, gang.roles, gang.subgroups)
        if (message := self._known.get(key)) is None:
            message = self._known[key] = self._message(j, parts)
        first, *others = (tuple(dict.fromkeys(ENTRIES[type(part)].sources(self.provenance, j, part))) for part in parts)
        also = tuple(replace(each, sources=at) for each, at in zip(message.also, others, strict=True))
        return replace(message, sources=first, also=also)

    def edits(self, j: int, repair: Repair) -> tuple[FieldEdit, ...]:
        """Return the edits of files for a repair of gang j and the changes that it requires; () where one of them is
        not an edit of a file, or not certain."""
        parts = (repair, *repair.also)
        found = [ENTRIES[type(part)].change_of(self.provenance, j, part, parts).edits for part in parts]
        return tuple(edit for edits in found for edit in edits) if all(found) else ()

    def _message(self, j: int, parts: Sequence[Fact | Repair]) -> CodedMessage:
        messages = [self._part(j, part, parts) for part in parts]
        edits, _, effects = zip(*(message.message.partition("; ") for message in messages), strict=True)
        numbered = ", ".join(f"({number}) {edit}" for number, edit in enumerate(edits, 1))
        together = numbered if len(edits) > 2 else " and ".join(edits)
        sentence = "; ".join((together, *dict.fromkeys(filter(None, effects))))
        return replace(messages[0], message=sentence, also=tuple(messages[1:]))

    def _part(self, j: int, part: Fact | Repair, together: Sequence[Fact | Repair]) -> CodedMessage:
        entry = ENTRIES[type(part)]
        own = entry.change_of(self.provenance, j, part, together).values
        return entry.message({**values_of(self.provenance, j, part), **own})


def entries_by_code(entries: Mapping[type[Any], Entry[Any]]) -> dict[str, Entry[Any]]:
    """Return the first entry of each code, in the order of the codes."""
    return dict(sorted({kind.code: entry for kind, entry in reversed(list(entries.items()))}.items()))


def remedy(code: str) -> str:
    """Return general advice on the reason with this code."""
    return entries_by_code(REASONS)[code].remedy


def code_text(code: str) -> str | None:
    """Return the text of `gangplan explain` on the code of a reason or a repair; None for no such code."""
    if entry := entries_by_code(REASONS).get(code):
        texts = (entry.texts[0], *entry.special_texts, *entry.never_texts[:1])
        named = (f"  {with_names(text, '<{}>')}" for text in texts)
        return "\n".join((f"{code} {entry.title} (why a job waits)", *named, entry.remedy)) + "\n"
    if entry := entries_by_code(REPAIRS).get(code):
        return f"{code} {entry.title} (what would help)\n  {with_names(job_text(entry), '<{}>')}\n"
    return None


def job_text(entry: Entry[Any]) -> str:
    """Return the sentence about the whole job, where there is another one about its groups."""
    return next((text for text in entry.texts if "{subgroup}" not in text), entry.texts[-1])


def with_names(text: str, form: str) -> str:
    """Return the text with the name of each value in its place, formatted by `form`."""
    parts = string.Formatter().parse(text)
    return "".join(f"{part}{form.format(name.replace('_', ' ')) if name else ''}" for part, name, _, _ in parts)
