"""Statements: the sentences on one type of fact or repair, and their values.

A family of types has one file (`resource_statements`, `topology_statements`, `queue_statements`, `order_statements`,
`lost_starts`, `outside_jobs`): for each type an entry with its sentences, the values in them, and its sources.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from compiler.explain.edits import Edit, edit_text, edit_value, path_text
from compiler.explain.provenance import Provenance, Source
from compiler.fields.quantity import exact_amount, json_amount, rounded_amount
from compiler.fields.texts import short_list
from compiler.syntax.documents import FieldPath
from compiler.syntax.edits import FieldEdit
from solver.facts import Fact
from solver.problem import Gang, HyperNode, Node, Queue, Role, Subgroup
from solver.repairs import Repair

T = TypeVar("T", bound=Fact | Repair)
Values = Mapping[str, Any]
"""Names in sentences, some of them keys of the JSON -> their values."""


FACT_KEYS = (
    *("role", "policy", "queue", "resource", "hypernode", "tier", "asked", "available", "limit", "held", "rule"),
    *("subgroup", "gangs", "queues", "nodes", "nodeGroups", "never", "told", "at", "obstacle"),
)
REPAIR_KEYS = (
    *("role", "subgroup", "queue", "resource", "hypernode", "tier", "gangs", "nodes", "nodeGroups", "seconds", "at"),
    *("annotation", "written", "amount", "now", "limit", "class", "edits", "obstacle"),
)
"""The keys of a reason and of a repair in the JSON, in order."""
FactValue = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CodedMessage:
    """A code, its sentence, and the values in it (amounts as in `compiler.fields.quantity.json_amount`).

    never: waiting cannot help. also: of a repair, the changes that it requires; its message includes them. sources: the
    objects behind a fact; of a repair, its place or the awaited objects.
    """

    code: str
    message: str
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    never: bool = False
    also: tuple[CodedMessage, ...] = ()
    sources: tuple[Source, ...] = ()


class Change(NamedTuple):
    """The edit of a repair. values: in its sentence, beyond its fields. edits: of files; () if uncertain."""

    values: Values = MappingProxyType({})
    edits: Sequence[FieldEdit] = ()


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """texts: the first whose names are all known is used. special_texts: tried before all others, where their values
    matter. never_texts: tried before texts where waiting cannot help. remedy: advice on the page.

    sources: the sources of the statement about gang j. values: values beyond its fields. change: of a repair that edits
    files, what it writes, given all changes that belong together. of_document: whether these use contents of the gang's
    own document. command: of a repair that is made in the cluster, with {namespace}, {pods} (a label selector) and
    {cordoned} nodes.
    """

    kind: type[T]
    title: str
    texts: tuple[str, ...]
    sources: Callable[[Provenance, int, T], Iterable[Source]] = lambda s, j, x: ()
    values: Callable[[Provenance, int, T], Values] = lambda s, j, x: {}
    never_texts: tuple[str, ...] = ()
    special_texts: tuple[str, ...] = ()
    remedy: str = ""
    of_document: bool = False
    command: str = ""
    change: Callable[[Provenance, int, T, Sequence[Any]], Change] | None = None

    def change_of(self, s: Provenance, j: int, x: T, together: Sequence[Any]) -> Change:
        """Return what a statement writes; only the other values in its sentence where it edits no files."""
        return self.change(s, j, x, together) if self.change else Change(self.values(s, j, x))

    def message(self, values: Values, sources: Iterable[Source] = (), even_empty: bool = False) -> CodedMessage:
        """Return the message with these values. even_empty: whether the obstacle is there on the empty cluster too,
        although waiting may help."""
        never = bool(values.get("never"))
        texts = (*self.special_texts, *(self.never_texts if never or even_empty else ()), *self.texts)
        sentence = next((text.format_map(values) for text in texts if _names_in(text) <= values.keys()), self.title)
        keys = FACT_KEYS if issubclass(self.kind, Fact) else REPAIR_KEYS
        facts: dict[str, Any] = {key: getattr(values[key], "json_value", values[key]) for key in keys if key in values}
        return CodedMessage(self.kind.code, sentence, facts, never, sources=tuple(dict.fromkeys(sources)))


def _names_in(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


class Names(tuple[str, ...]):
    """Names of objects; of many a sentence counts the rest."""

    __slots__ = ()

    def __format__(self, form: str) -> str:
        return short_list(self)


@dataclass(frozen=True, slots=True)
class Edits:
    """Text to write. json_value: with whole paths. text: as in a sentence."""

    json_value: tuple[str, ...]
    text: str

    def __format__(self, form: str) -> str:
        return self.text

    @classmethod
    def of_fields(cls, edits: Mapping[FieldPath, Edit]) -> Values:
        """Under the name `edits`, where there are any."""
        written = tuple(f"{path_text(path)}: {edit_value(amount)}" for path, amount in edits.items())
        text = ", ".join(edit_text(path, amount) for path, amount in edits.items())
        return {"edits": cls(written, text)} if edits else {}


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount in a sentence: with its resource, "n" the number alone, or else a count of what the format names
    ("{asked:pods}"). text: of the number."""

    resource: str
    amount: int
    text: str

    @property
    def json_value(self) -> int | float:
        return json_amount(self.resource, self.amount)

    def __format__(self, noun: str) -> str:
        if noun == "n":
            return self.text
        if not noun and self.resource != "pods":
            return f"{self.text} {self.resource}"
        noun = noun or "pods"
        return f"{self.amount} {noun[:-1] if self.amount == 1 else noun}"


def amount_to_type(resource: str, amount: int) -> Amount:
    """Return the amount as a queue or pod takes it, and exact: a rounded one may not suffice."""
    return Amount(resource, amount, exact_amount(resource, amount))


def clear_amounts(resource: str, amounts: Mapping[str, int]) -> dict[str, Amount]:
    """Rounded unless two of them would look alike."""
    different = set(amounts.values())
    is_clear = len({rounded_amount(resource, amount) for amount in different}) == len(different)
    text = rounded_amount if is_clear else _exact_amount
    return {key: Amount(resource, amount, text(resource, amount)) for key, amount in amounts.items()}


def _exact_amount(resource: str, amount: int) -> str:
    return str(json_amount(resource, amount)) if resource == "cpu" else exact_amount(resource, amount)


_AMOUNTS = {name: name for name in ("asked", "available", "limit", "held", "amount")} | {"current_amount": "now"}
"""Fields of statements that are amounts, and their names in sentences."""
_PLAIN = frozenset(("tier", "seconds", "obstacle", "never"))


def values_of(s: Provenance, j: int, statement: Any) -> dict[str, Any]:
    """Return the fields of a statement about gang j by their names in sentences: names for indices (`solver.facts`),
    amounts with their resource."""
    problem, gang = s.problem, s.problem.gangs[j]
    one: dict[str, Sequence[Role | Subgroup | Queue | HyperNode]] = {
        "role": gang.roles,
        "subgroup": gang.subgroups,
        "queue": problem.queues,
        "hypernode": problem.hypernodes,
    }
    several: dict[str, Sequence[Gang | Queue | Node]] = {"queues": problem.queues, "nodes": problem.nodes}
    several |= dict.fromkeys(("gangs", "ends", "late", "first"), problem.gangs)
    resource, values, amounts = "pods", dict[str, Any](), dict[str, int]()
    for name in (each.name for each in fields(statement)):
        value = getattr(statement, name)
        if value is None or value == () or value is False:
            continue
        if name in one:
            values[name] = one[name][value].name
        elif f"{name}s" in several:
            values[f"{name}s"] = Names((several[f"{name}s"][value].name,))
        elif name in several:
            values[name] = Names(several[name][i].name for i in value)
        elif name == "node_groups":
            values["nodeGroups"] = Names(problem.node_groups[g] for g in value)
        elif name == "resource":
            values[name] = resource = problem.resources[value]
        elif name in _AMOUNTS:
            amounts[_AMOUNTS[name]] = value
        elif name in _PLAIN:
            values[name] = value
    return values | clear_amounts(resource, amounts)
