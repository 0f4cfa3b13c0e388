"""Whether a document has the shape of its schema, each problem at its path."""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from compiler.diagnostics.diagnostic import Rule, Severity, key_suggestion, one_of, suggestion, to_write, unquoted
from compiler.fields.models import (
    BAD_NAME,
    BAD_TIME,
    FRACTIONAL_DEVICE,
    METADATA_NOT_TEXT,
    MISSING_FIELD,
    MISSPELT_POD_FIELD,
    NOT_ALLOWED,
    OUT_OF_RANGE,
    UNKNOWN_FIELD,
    WRONG_TYPE,
)
from compiler.fields.quantity import (
    NEGATIVE_QUANTITY,
    NOT_A_QUANTITY,
    QuantityError,
    is_countable,
    parse_quantity,
    read_quantity,
)
from compiler.fields.texts import as_yaml_text, dotted_path, short_repr
from compiler.fields.times import parse_duration, parse_timestamp
from compiler.kubernetes import METAX_PREFIX
from compiler.openapi.schemas import Node, Schema
from compiler.syntax.documents import FieldPath

_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_MAX_SHOWN_NAMES = 24
_GIVEN = frozenset(("default", "filled"))
"""Keys of a node whose missing value is filled in."""
PLAIN = 2
"""The version of marshal that writes equal data alike, whichever objects they are."""


@dataclass(frozen=True, slots=True)
class Flaw:
    """A fault at `path` of a document. explains: see `Diagnostic`. severity: if it differs from the rule's.

    taken_in: fields in its value that belong next to its right place.
    """

    path: FieldPath
    rule: Rule
    message: str
    help: str
    explains: FieldPath = ()
    severity: Severity | None = None
    taken_in: tuple[str, ...] = ()


def shape_flaws(data: Any, schema: Schema) -> list[Flaw]:
    """Return every place where the data has not the shape of the schema."""
    walk = _Walk(schema, schema.structural)
    walk.value(data, schema.root, ())
    return walk.flaws


def pod_paths(data: Any, schema: Schema) -> Iterator[FieldPath]:
    """Yield the path of each pod spec in the data."""
    yield from _pod_paths(data, schema.root, schema, ())


def _pod_paths(data: Any, node: Node, schema: Schema, path: FieldPath) -> Iterator[FieldPath]:
    if node.get("is") == "pod" and isinstance(data, dict):
        yield path
    elif isinstance(data, dict) and node["type"] == "object":
        properties, values = node.get("properties", {}), node.get("values")
        for key, child in data.items():
            if (index := properties.get(key, values)) in schema.pod_nodes:
                yield from _pod_paths(child, schema.nodes[index], schema, (*path, key))
    elif isinstance(data, list) and node.get("items") in schema.pod_nodes:
        for number, child in enumerate(data):
            yield from _pod_paths(child, schema.nodes[node["items"]], schema, (*path, number))


class _Walk:
    """One walk along data and schema. structural: null and fractions count as the API server's CRD validation has
    it."""

    def __init__(self, schema: Schema, structural: bool, in_pod: bool = False) -> None:
        self.flaws: list[Flaw] = []
        self._schema, self._in_pod = schema, in_pod
        self._nodes, self._structural, self._free_texts = schema.nodes, structural, schema.free_texts
        self._readers: dict[str, Callable[[Any, Node, FieldPath], None]] = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": self._boolean,
            "quantity": self._quantity,
            "duration": self._duration,
            "int-or-string": self._int_or_string,
            "time": self._time,
        }

    def value(self, data: Any, node: Node, path: FieldPath) -> None:
        if node["type"] in self._readers:
            self._readers[node["type"]](data, node, path)

    def _object(self, data: Any, node: Node, path: FieldPath) -> None:
        if not isinstance(data, dict):
            self.flaws.append(_wrong_type(path, data, "object"))
            return
        properties, values = node.get("properties", {}), node.get("values")
        is_open = node.get("open") or not (properties or self._structural)
        is_of_resources = values is not None and self._nodes[values]["type"] == "quantity"
        fractions = self._fractions_of_devices(data, path) if is_of_resources else ()
        for key, child in data.items():
            index = properties.get(key, values)
            if index is None:
                if not is_open or is_open == "near" or (not path and "/" in key):
                    self._unknown_field((*path, key), properties, data, is_open == "near")
            elif child is None or key in fractions:
                continue
            elif key not in properties and key in self._nodes[index].get("properties", ()):
                self._outside_entries((*path, key), data)
            elif not (isinstance(child, str) and index in self._free_texts):
                self._child(child, index, (*path, key))
        for name in node.get("required", ()):
            if data.get(name) is None and not self._nodes[properties[name]].keys() & _GIVEN:
                self.flaws.append(
                    Flaw((*path, name), MISSING_FIELD, f"{dotted_path((*path, name))} is missing", "add it")
                )

    def _unknown_field(
        self, path: FieldPath, properties: dict[str, int], data: dict[str, Any], only_near: bool
    ) -> None:
        """only_near: a name that is like no other may be a field of a newer version."""
        if "/" in str(path[-1]) and path[-2:-1] in ((), ("metadata",)):
            self.flaws.append(_outside_annotations(path, data[str(path[-1])]))
            return
        names = sorted(properties)
        is_list_short = 0 < len(names) <= _MAX_SHOWN_NAMES and data[str(path[-1])] is not None
        known = one_of(names) if is_list_short else "remove it"
        help, near = key_suggestion(str(path[-1]), names, data, known)
        is_like = help.startswith(("did you mean", "remove it: "))
        is_further_in = any(path[-1] in self._nodes[index].get("properties", ()) for index in properties.values())
        if (only_near or (self._in_pod and self._schema.is_made)) and not is_like and not is_further_in:
            return  # of a newer Kubernetes, or the operator's own
        rule = MISSPELT_POD_FIELD if self._in_pod and is_like else UNKNOWN_FIELD
        explains = (*path[:-1], near) if near else FieldPath()
        self.flaws.append(Flaw(path, rule, f"{dotted_path(path)} is not a field of this kind", help, explains))

    def _outside_entries(self, path: FieldPath, data: dict[str, Any]) -> None:
        """Add the flaw of a field of a mapping's entries that is next to them."""
        entries = {name: entry for name, entry in data.items() if isinstance(entry, dict)}
        without = [name for name in entries.keys() - {path[-1]} if entries[name].get(path[-1]) is None]
        place = (*path[:-1], without[0], path[-1]) if len(without) == 1 else FieldPath()
        help = f"move it to {dotted_path(place)}" if place else "move it into the entry that it is for"
        self.flaws.append(Flaw(path, UNKNOWN_FIELD, f"{dotted_path(path)} is a field of an entry", help, place))

    def _fractions_of_devices(self, amounts: dict[str, Any], path: FieldPath) -> list[str]:
        """Return the resources that are counted in whole numbers, and are not here."""
        found = [name for name, value in amounts.items() if _is_fraction(name, value)]
        for name in found:
            message = f"{dotted_path((*path, name))}: {name} is counted in whole numbers, not {amounts[name]}"
            self.flaws.append(Flaw((*path, name), FRACTIONAL_DEVICE, message, "write a whole number"))
        return found

    def _child(self, data: Any, index: int, path: FieldPath) -> None:
        node = self._nodes[index]
        if "filled" in node and data == node["filled"] and type(data) is type(node["filled"]):
            return
        if path == ("metadata",):  # of a custom object too it is decoded
            structural, self._structural = self._structural, False
            self.value(data, node, path)
            self._structural = structural
        elif node.get("is") == "pod":
            self.flaws += _pod_flaws(marshal.dumps(data, PLAIN), self._schema, index, path, self._structural)
        else:
            self.value(data, node, path)

    def _array(self, data: Any, node: Node, path: FieldPath) -> None:
        if not isinstance(data, list):
            self.flaws.append(_wrong_type(path, data, "array"))
            return
        item = self._nodes[node["items"]] if "items" in node else None
        for number, child in enumerate(data):
            if item is not None and (child is not None or self._structural):
                self.value(child, item, (*path, number))
        self._sizes(data, node, path, "Items")
        if "keys" in node and self._structural and item is not None:
            self._duplicates(data, node["keys"], item, path)

    def _duplicates(self, data: list[Any], keys: list[str], item: Node, path: FieldPath) -> None:
        """Items of a map in list form, or of a set, that are there twice."""
        seen = set()
        defaults = {key: self._nodes[item["properties"][key]].get("default") for key in keys}
        for number, child in enumerate(data):
            if keys and not isinstance(child, dict):
                continue
            found = repr([child.get(key, defaults[key]) for key in keys] if keys else child)
            if found in seen:
                shown = " and ".join(f"{key} {child[key]!r}" for key in keys if key in child) or short_repr(child)
                message = f"{dotted_path((*path, number))}: {shown} is here twice"
                self.flaws.append(Flaw((*path, number), NOT_ALLOWED, message, "remove or rename one"))
            seen.add(found)

    def _string(self, data: Any, node: Node, path: FieldPath) -> None:
        if not isinstance(data, str):
            self.flaws.append(_label_not_text(path, data) or _wrong_type(path, data, "string"))
            return
        if "enum" in node and data not in node["enum"] and (data or self._structural or "minLength" in node):
            allowed = f"allowed: {', '.join(map(repr, node['enum']))}"
            help = suggestion(data, node["enum"], allowed, f" {allowed}")
            message = f"{dotted_path(path)} is {short_repr(data)}"
            self.flaws.append(Flaw(path, NOT_ALLOWED, message, help))
        elif "pattern" in node and not _pattern(node["pattern"]).search(data):
            message = f"{dotted_path(path)}: {short_repr(data)} is not a valid name"
            if not data:
                self.flaws.append(Flaw(path, BAD_NAME, message, "leave the field out, or give it a name"))
            elif "a-z0-9" in node["pattern"]:
                help = "use lower-case letters, digits and -, beginning and ending with a letter or digit"
                self.flaws.append(Flaw(path, BAD_NAME, message, help))
            else:
                message = f"{dotted_path(path)} is {short_repr(data)}"
                self.flaws.append(Flaw(path, NOT_ALLOWED, message, f"it has to match {node['pattern']}"))
        elif node.get("form") == "quantity":
            self._quantity(data, node, path)
        else:
            self._sizes(data, node, path, "Length")

    def _integer(self, data: Any, node: Node, path: FieldPath) -> None:
        whole = not isinstance(data, bool) and isinstance(data, int | float) and data == int(data)
        if not whole:
            self.flaws.append(_wrong_type(path, data, "integer"))
            return
        least, most = _RANGES.get(node.get("format", ""), _RANGES["int64"])
        self._range(data, max(least, node.get("minimum", least)), min(most, node.get("maximum", most)), path)

    def _number(self, data: Any, node: Node, path: FieldPath) -> None:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.flaws.append(_wrong_type(path, data, "number"))
        elif data >= (limit := node.get("exclusiveMaximum", data + 1)):
            message, help = f"{dotted_path(path)} is {short_repr(data)}", f"it must be below {limit}"
            self.flaws.append(Flaw(path, OUT_OF_RANGE, message, help))
        else:
            self._range(data, node.get("minimum", data), node.get("maximum", data), path)

    def _boolean(self, data: Any, node: Node, path: FieldPath) -> None:
        if not isinstance(data, bool):
            self.flaws.append(_wrong_type(path, data, "boolean"))

    def _quantity(self, data: Any, node: Node, path: FieldPath) -> None:
        if isinstance(data, float) and not data.is_integer() and self._structural:
            message = f"{dotted_path(path)} is the number {data!r}; a CRD takes text or a whole number here"
            self.flaws.append(Flaw(path, WRONG_TYPE, message, to_write(repr(data), help=f'write "{data!r}"')))
            return
        try:
            parse_quantity(data)
        except QuantityError as problem:
            rule = NEGATIVE_QUANTITY if problem.code == NEGATIVE_QUANTITY.code else NOT_A_QUANTITY
            self.flaws.append(Flaw(path, rule, f"{dotted_path(path)}: {problem}", problem.help))

    def _int_or_string(self, data: Any, node: Node, path: FieldPath) -> None:
        if not isinstance(data, str):
            self._integer(data, {"format": "int32", **({"minimum": 0} if node.get("form") == "share" else {})}, path)
        elif node.get("form") == "share" and not (data.isascii() and data[:-1].isdigit() and data.endswith("%")):
            message = f"{dotted_path(path)}: {short_repr(data)} is neither a number nor a percentage"
            self.flaws.append(Flaw(path, NOT_ALLOWED, message, "write 1 or 25%"))

    def _time(self, data: Any, node: Node, path: FieldPath) -> None:
        try:
            parse_timestamp(data)
        except ValueError:
            message = f"{dotted_path(path)} is {short_repr(data)}, not a time"
            self.flaws.append(Flaw(path, BAD_TIME, message, "write a time such as 2026-01-31T12:00:00Z"))

    def _duration(self, data: Any, node: Node, path: FieldPath) -> None:
        try:
            is_too_short = parse_duration(data) < node.get("minimum", 0)
        except ValueError:
            message, help = f"{dotted_path(path)}: {data!r} is not a duration", "write seconds, or like 1h30m or 2d"
            self.flaws.append(Flaw(path, BAD_TIME, message, help))
        else:
            if is_too_short:
                least = f"write at least {node['minimum']} second"
                self.flaws.append(Flaw(path, OUT_OF_RANGE, f"{dotted_path(path)} is {short_repr(data)}", least))

    def _sizes(self, data: Any, node: Node, path: FieldPath, what: str) -> None:
        unit = "characters" if isinstance(data, str) else "items"
        least, most = node.get(f"min{what}", 0), node.get(f"max{what}", len(data))
        if not least <= len(data) <= most:
            help = f"write at least {least}" if len(data) < least else f"write at most {most}"
            self.flaws.append(Flaw(path, OUT_OF_RANGE, f"{dotted_path(path)} has {len(data)} {unit}", help))

    def _range(self, data: float, least: float, most: float, path: FieldPath) -> None:
        if not least <= data <= most:
            help = f"write at least {least}" if data < least else f"write at most {most}"
            self.flaws.append(Flaw(path, OUT_OF_RANGE, f"{dotted_path(path)} is {short_repr(data)}", help))


@lru_cache(maxsize=512)
def _pod_flaws(content: bytes, schema: Schema, index: int, path: FieldPath, structural: bool) -> tuple[Flaw, ...]:
    """Return the flaws of a pod spec, cached by content: many jobs have the same pods."""
    walk = _Walk(schema, structural, in_pod=True)
    walk.value(marshal.loads(content), schema.nodes[index], path)  # noqa: S302  # of this process
    return tuple(walk.flaws)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a schema; $ is the end of the text, as in Go."""
    return re.compile(re.sub(r"\$\Z", r"\\Z", text))


def _is_fraction(resource: str, amount: Any) -> bool:
    """Return whether the resource is counted in whole numbers, and this is not one."""
    return is_countable(resource) and (read_quantity(amount) or 0).denominator != 1


_EXPECTED = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "a mapping",
    "string": "text",
}


def _outside_annotations(path: FieldPath, value: Any) -> Flaw:
    """Return the flaw of a key as only annotations have, next to them or at the top of the object."""
    metadata = path[:-1] or ("metadata",)
    help = f"move it to {dotted_path((*metadata, 'annotations'))} or {dotted_path((*metadata, 'labels'))}"
    explains = (*metadata, "annotations", path[-1]) if isinstance(value, str) else FieldPath()
    return Flaw(path, UNKNOWN_FIELD, f"{dotted_path(path)} is not a field of this kind", help, explains)


def _wrong_type(path: FieldPath, data: Any, expected: str) -> Flaw:
    message = f"{dotted_path(path)} is {_type_text(data)}, not {_EXPECTED[expected]}"
    return Flaw(path, WRONG_TYPE, message, _type_help(expected, data))


def _label_not_text(path: FieldPath, data: Any) -> Flaw | None:
    """Return the flaw of a label or annotation that is not text; None for anything else. Those of MetaX are often
    written as numbers, and read."""
    *_, holder, section, key = ("", "", "", *path)
    if holder != "metadata" or section not in ("labels", "annotations"):
        return None
    is_mild = str(key).startswith(METAX_PREFIX) and isinstance(data, int) and not isinstance(data, bool)
    help = to_write(as_yaml_text(data), help="quote the value")
    message = f"{key} is {_type_text(data)}, not text"
    return Flaw(path, METADATA_NOT_TEXT, message, help, severity="warning" if is_mild else None)


def _type_text(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {short_repr(value)}"
        case int() | float():
            return f"the number {short_repr(value)}"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _type_help(expected: str, value: object) -> str:
    if expected in ("integer", "number") and value not in ("true", "false") and (bare := unquoted(value)):
        return bare
    if expected == "string" and isinstance(value, int | float):
        return to_write(as_yaml_text(value), help="quote it")
    if value is None:
        return "give it a value, or remove the field"
    if isinstance(value, str) and expected == "boolean":
        return "write true or false, unquoted"
    return f"write {_EXPECTED[expected]}"
