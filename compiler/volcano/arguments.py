"""Every argument of Volcano's actions and plugins: type, default, range, meaning, where it is read and since when.

A page of the reference is made of this table (`arguments.table`), `gangplan explain plugin.argument` answers from it,
and the checks GP4xx judge by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.diagnostics.diagnostic import did_you_mean
from compiler.volcano.nested_arguments import table_rows

FIRST_VERSION = 15
"""The first minor version of Volcano 1.x that gangplan knows."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an action or a plugin.

    name: ends in `<...>` for a family. type_name: int, float, bool, string, list, map, duration or window. low, high:
    the range that makes sense. is_enforced: outside it the default counts; else Volcano computes with it. mistype: what
    a value of another type does: "default" (a line in the log, the default counts), "stops" (the scheduler ends),
    "ignored" (not a word); "unread" for an argument that Volcano documents and does not read.
    """

    name: str
    type_name: str
    default: str
    low: float | None
    high: float | None
    is_enforced: bool
    mistype: str
    meaning: str
    since: int = FIRST_VERSION

    @property
    def is_read(self) -> bool:
        return self.mistype != "unread"

    @property
    def family(self) -> str:
        """Return the common beginning of a family of arguments; empty for a single one."""
        return self.name.partition("<")[0] if self.name.endswith(">") else ""

    @property
    def allowed(self) -> str:
        """Return the range in words; empty where any value of the type is taken."""
        if self.low is None:
            return ""
        return f"{self.low:g} to {self.high:g}" if self.high is not None else f"{self.low:g} or more"


@dataclass(frozen=True, slots=True)
class ArgumentOwner:
    """An action or a plugin with its arguments. source: the function of Volcano that reads them, under pkg/scheduler.
    since: the minor version of Volcano 1.x that has it first."""

    name: str
    is_action: bool
    source: str
    since: int
    arguments: tuple[Argument, ...] = ()


def _read_table() -> dict[str, ArgumentOwner]:
    rows_by_owner: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for cells in table_rows("arguments.table"):
        if cells[0].startswith(("action ", "plugin ")):
            rows = rows_by_owner[cells] = []
        else:
            rows.append(cells)
    owners = (_owner(cells, rows) for cells, rows in rows_by_owner.items())
    return {owner.name: owner for owner in owners}


def _owner(cells: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> ArgumentOwner:
    word, _, name = cells[0].partition(" ")
    since = since_version(cells[2:])
    return ArgumentOwner(name, word == "action", cells[1], since, tuple(_argument(row, since) for row in rows))


def since_version(cells: Sequence[str], otherwise: int = FIRST_VERSION) -> int:
    """Return the minor version that the last cell of a row names, if it has one."""
    return int(cells[0].removeprefix("1.")) if cells else otherwise


def _argument(cells: tuple[str, ...], of_owner: int) -> Argument:
    name, type_name, default, bounds, mistype, meaning, *since = cells
    low, _, high = bounds.rstrip("!").partition("..")
    lowest, highest = (float(text) if text else None for text in (low, high))
    version = since_version(since, of_owner)
    return Argument(name, type_name, default, lowest, highest, bounds.endswith("!"), mistype, meaning, version)


OWNERS: Mapping[str, ArgumentOwner] = _read_table()
"""Actions and plugins by name, each with its arguments."""


def known_arguments(owner: str) -> tuple[Argument, ...]:
    return OWNERS[owner].arguments if owner in OWNERS else ()


def moved_argument(owner: str, name: str) -> tuple[str, str] | None:
    """(plugin, argument) of another plugin that has this name, or the same behind another first word; of several
    none."""
    rest = name.partition(".")[2]
    others = [other for other in OWNERS.values() if other.name != owner]
    named = [(other.name, argument.name) for other in others for argument in other.arguments]
    same = [pair for pair in named if pair[1] == name]
    alike = [pair for pair in named if pair[1].partition(".")[2] == rest] if rest else []
    found = list(dict.fromkeys(same or alike))
    return found[0] if len(found) == 1 else None


def find_argument(owner: str, name: str) -> Argument | None:
    """Return the argument of that name, or the family that it belongs to; None where nothing reads it."""
    for argument in known_arguments(owner):
        if argument.name == name or (argument.family and name.startswith(argument.family) and name != argument.family):
            return argument
    return None


TRUTH_WORDS: Mapping[object, bool] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
"""Texts that Volcano takes for a boolean argument (GetBool of pkg/scheduler/framework/arguments.go)."""


def typed_arguments(owner: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an action or a plugin, texts of type bool as true or false where Volcano reads them so.
    Volcano converts no text to other types; a value of an invalid type stays as written, for GP404 to report."""
    return {
        name: TRUTH_WORDS.get(value, value) if isinstance(value, str) and _is_bool(owner, name) else value
        for name, value in arguments.items()
    }


def _is_bool(owner: str, name: str) -> bool:
    found = find_argument(owner, name)
    return found is not None and found.type_name == "bool"


def explanation(words: str) -> str | None:
    """Return the output of `gangplan explain` on a plugin, an action, or an argument: its own name (`binpack.weight`,
    `overcommit-factor`) or with the owner's before it (`gangpreempt.maxDomains`). None for any other words."""
    if words in OWNERS:
        return _owner_text(OWNERS[words])
    found = []
    for owner in OWNERS.values():
        name = words.removeprefix(f"{owner.name}.")
        argument = find_argument(owner.name, words) or find_argument(owner.name, name)
        if argument is not None and (name != words or argument in owner.arguments):
            found.append(_argument_text(owner, argument))
    return "\n".join(found) or None


def near_name(words: str) -> str:
    """Return the action, plugin or argument that is spelled nearly so, or ""."""
    arguments = [argument for owner in OWNERS.values() for argument in owner.arguments]
    names = {f"{owner.name}.{argument.name}" for owner in OWNERS.values() for argument in owner.arguments}
    return did_you_mean(words, {*OWNERS, *names, *(argument.name for argument in arguments)})


MISTYPES = {
    "default": "a value of another type is ignored with a line in the scheduler's log",
    "stops": "a value of another type ends the scheduler, again after each restart",
    "ignored": "a value of another type is ignored silently",
    "unread": "Volcano does not read it",
}


def _argument_text(owner: ArgumentOwner, argument: Argument) -> str:
    what = "action" if owner.is_action else "plugin"
    lines = [f"{argument.name} ({what} {owner.name}): {argument.meaning}"]
    if argument.is_read:
        allowed = f", {argument.allowed}" if argument.allowed else ""
        lines.append(f"  type     {argument.type_name}{allowed}")
        outside = "; outside the range the default counts" if argument.is_enforced else ""
        lines.append(f"  default  {argument.default}{outside}")
    place = (
        f"configurations: [{{name: {owner.name}, arguments: ...}}]" if owner.is_action else "arguments of the plugin"
    )
    lines.append(f"  where    {place}")
    lines.append(f"  mistakes {MISTYPES[argument.mistype]}")
    lines.append(f"  source   pkg/scheduler/{owner.source} (Volcano {_first_release(argument.since)})")
    return "\n".join(lines) + "\n"


def _owner_text(owner: ArgumentOwner) -> str:
    what = "action" if owner.is_action else "plugin"
    rows = [f"{what} {owner.name}" + ("" if owner.arguments else " has no arguments")]
    width = max((len(argument.name) for argument in owner.arguments), default=0)
    for argument in owner.arguments:
        default = f" (default {argument.default})" if argument.default else ""
        rows.append(f"  {argument.name:<{width}}  {argument.meaning}{default}")
    return "\n".join([*rows, f"  source: pkg/scheduler/{owner.source} (Volcano {_first_release(owner.since)})"]) + "\n"


def _first_release(since: int) -> str:
    """Return the release whose source was read; of 1.16 files of its branch, see the reference."""
    return "1.15.1" if since == FIRST_VERSION else f"1.{since}"
