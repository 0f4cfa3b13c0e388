"""Values that Volcano reads inside arguments that are lists or mappings, down to the leaves.

The table is data (`nested_arguments.table`) like that of `compiler.volcano.arguments`; the reference shows both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from compiler.diagnostics.diagnostic import meant, suggestion, to_write, unquoted
from compiler.fields.quantity import QuantityError, parse_quantity
from compiler.fields.texts import whole_number
from compiler.fields.times import go_duration_seconds
from compiler.syntax.documents import FieldPath

Category = Literal["type", "unknown", "unread", "range", "time"]

_OLD_NAMES = {"CPUUsageAvg.": "cpu", "MEMUsageAvg.": "mem", "pods": "pod"}
"""Beginning of a key that older versions or documents have -> its name."""
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "string": ((str,), "text"),
    "duration": ((str,), "text"),
    "quantity": ((str,), "text"),
    "list": ((list,), "a list"),
    "map": ((dict,), "a mapping"),
}


@dataclass(slots=True)
class Shape:
    """The allowed values of a place. words: the texts allowed, where only some are. keys: of a mapping; each: of all
    entries, or items. mistype: as of `Argument`."""

    type_name: str = "map"
    words: tuple[str, ...] = ()
    default: str = ""
    low: float | None = None
    high: float | None = None
    is_enforced: bool = False
    mistype: str = "ignored"
    meaning: str = ""
    keys: dict[str, Shape] = field(default_factory=dict)
    each: Shape | None = None

    def plant(self, cells: tuple[str, ...]) -> None:
        """Add a row of the table about a place below."""
        path, kind, default, bounds, mistype, meaning = cells
        low, _, high = bounds.rstrip("!").partition("..")
        shape = self
        for step in _steps(path):
            if step in ("{}", "[]"):
                shape.type_name = "map" if step == "{}" else "list"
                shape.each = shape = shape.each or Shape()
            else:
                shape = shape.keys.setdefault(step, Shape())
        is_type = kind in _TYPES
        shape.type_name, shape.words = (kind, ()) if is_type else ("string", tuple(kind.split(", ")))
        shape.default, shape.mistype, shape.is_enforced = default, mistype, bounds.endswith("!")
        shape.meaning = meaning
        shape.low, shape.high = (float(text) if text else None for text in (low, high))


@dataclass(frozen=True, slots=True)
class NestedFlaw:
    """A fault at `path` below the argument. is_replaced: Volcano takes a default for the unknown word there."""

    path: FieldPath
    category: Category
    message: str
    help: str
    is_replaced: bool = False


def table_rows(name: str) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row of a table next to this module, without comments and empty rows."""
    for line in (files("compiler.volcano") / name).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield tuple(cell.strip() for cell in line.split("|"))


def _read_table() -> dict[tuple[str, str], Shape]:
    shapes: dict[tuple[str, str], Shape] = {}
    for cells in table_rows("nested_arguments.table"):
        if len(cells) == 1:
            owner, _, argument = cells[0].partition(" ")
            root = shapes[owner, argument] = Shape()
        else:
            root.plant(cells)
    return shapes


def _steps(path: str) -> list[str]:
    """Return the keys, {} and [] of a path; keys of `metrics` have dots of their own."""
    if not path.startswith(("{}", "[]")) and path.split(".")[0] in ("tls", "elasticsearch"):
        return [path]
    return [step for step in path.replace("{}", ".{}.").replace("[]", ".[].").split(".") if step]


_SHAPES = _read_table()


def nested_flaws(owner: str, argument: str, value: Any) -> Iterator[NestedFlaw]:
    """Yield the faults inside an argument that is a list or a mapping; its own type is known to be valid."""
    if (shape := _SHAPES.get((owner, argument))) is not None:
        yield from _inside(value, shape, (argument,))


def _inside(value: Any, shape: Shape, path: FieldPath) -> Iterator[NestedFlaw]:
    entries: Iterator[tuple[str | int, Any]] = iter(())
    if isinstance(value, list | dict):
        entries = iter(enumerate(value)) if isinstance(value, list) else iter(value.items())
    for key, child in entries:
        at = (*path, key)
        inner = shape.each or shape.keys.get(str(key))
        if inner is None:
            yield _unknown(at, shape)
        elif inner.mistype == "unread":
            yield NestedFlaw(at[1:], "unread", f"Volcano does not read {key}: {inner.meaning}", "remove it")
        elif child is None:
            continue
        elif (flaw := (_type_flaw(child, inner, at) or _value_flaw(child, inner, at))) is not None:
            yield flaw
        else:
            yield from _inside(child, inner, at)


def _unknown(at: FieldPath, shape: Shape) -> NestedFlaw:
    key = str(at[-1])
    renamed = (now for old, now in _OLD_NAMES.items() if key.startswith(old))
    now = next(filter(shape.keys.__contains__, renamed), "")
    known = ", ".join(shape.keys)
    help = meant(key, now, help=f"write {now}") if now else suggestion(key, list(shape.keys), f"use one of {known}")
    return NestedFlaw(at[1:], "unknown", f"nothing reads {key!r} of {at[0]}", help)


def _type_flaw(value: object, shape: Shape, at: FieldPath) -> NestedFlaw | None:
    types, wanted = _TYPES[shape.type_name]
    if isinstance(value, types) and (shape.type_name == "bool" or not isinstance(value, bool)):
        return None
    message = f"{_name(at)} is {value!r}, not {wanted}{_effect(value, shape)}"
    return NestedFlaw(at[1:], "type", message, _rewritten(value, wanted))


def _name(at: FieldPath) -> str:
    return at[-1] if isinstance(at[-1], str) else f"an entry of {at[0]}"


def _value_flaw(value: Any, shape: Shape, at: FieldPath) -> NestedFlaw | None:
    name = _name(at)
    if shape.words and value not in shape.words:
        is_replaced = shape.default not in ("", "none")
        then = f"Volcano takes {shape.default}" if is_replaced else "Volcano ignores it"
        fallback = f"write {' or '.join(shape.words)}{'' if is_replaced else ', or remove it'}"
        help = suggestion(value, shape.words, fallback)
        return NestedFlaw(at[1:], "range", f"{name} is {value!r}: {then}", help, is_replaced)
    if shape.type_name == "duration" and not go_duration_seconds(value):
        help = to_write(f"{value}s") if whole_number(value) else "write it like 30s or 1m"
        return NestedFlaw(at[1:], "time", f"{name}: {value!r} is not a duration, and {shape.default} counts", help)
    if shape.type_name == "quantity" and (why := _not_a_quantity(value)):
        return NestedFlaw(
            at[1:], "range", f"{name}: {why}, and {shape.default} counts", f"write it like {shape.default}"
        )
    if shape.low is not None and (value < shape.low or (shape.high is not None and value > shape.high)):
        allowed = f"{shape.low:g} to {shape.high:g}" if shape.high is not None else f"{shape.low:g} or more"
        then = f"Volcano takes {shape.default}" if shape.is_enforced else "Volcano computes with it all the same"
        return NestedFlaw(at[1:], "range", f"{name} is {value}: {then}", f"write {allowed}")
    return None


def _not_a_quantity(text: str) -> str:
    try:
        parse_quantity(text)
    except QuantityError as error:
        return str(error)
    return ""


def _effect(value: Any, shape: Shape) -> str:
    if shape.mistype == "zero":
        return "; Volcano takes 0"
    if shape.mistype == "decoded" and isinstance(value, float):
        return f"; Volcano takes {int(value)}"
    return "; Volcano's scheduler stops" if shape.mistype in ("stops", "decoded") else ""


def _rewritten(value: Any, wanted: str) -> str:
    bare = unquoted(value) if wanted in ("a whole number", "a number", "true or false") else ""
    return bare or f"write {wanted}"
