"""Plain data -> YAML text, for the objects that gangplan itself makes.

One style for all of them: block mappings in the given order, lists not indented below their key, long texts as literal
blocks. A string is quoted whenever any YAML of the last twenty years would read it as something else (`yes`, `1e3`,
`0o7`, `12:30`), because kubectl and the Go libraries behind it still follow YAML 1.1 there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_PLAIN_SCALAR = re.compile(r"[A-Za-z_/][A-Za-z0-9_./ -]*(?<! )")
_ESCAPES = {"\n": "\\n", "\t": "\\t"}
_RESERVED_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def to_yaml(data: Mapping[str, Any]) -> str:
    """Return the text of one document, ending in a newline."""
    return "".join(f"{line}\n" for line in yaml_lines(data)) or "{}\n"


def yaml_lines(data: Mapping[str, Any] | list[Any]) -> list[str]:
    lines: list[str] = []  # one list for all levels: a line that is handed up from each to the next costs far more
    _add_lines(lines, data, "", "")
    return lines


def _add_lines(lines: list[str], data: Mapping[str, Any] | list[Any], first: str, indent: str) -> None:
    """Add the lines, the first one behind `first`."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            _add_entry(lines, f"{first}{scalar_text(key)}:", value, indent, "")
            first = indent
    else:
        for value in data:
            if isinstance(value, Mapping | list) and value:
                _add_lines(lines, value, f"{first}- ", f"{indent}  ")
            else:
                _add_entry(lines, f"{first}-", value, indent, "  ")
            first = indent


def _add_entry(lines: list[str], head: str, value: Any, indent: str, nested_lists: str) -> None:
    if isinstance(value, str) and _fits_literal_block(value):
        lines.append(f"{head} |{'' if value.endswith(chr(10)) else '-'}")
        lines += (f"{indent}  {line}" if line else line for line in value.removesuffix("\n").split("\n"))
    elif isinstance(value, str | int) or not isinstance(value, Mapping | list) or not value:
        lines.append(f"{head} {scalar_text(value)}")
    else:
        lines.append(head)
        inner = indent + (nested_lists if isinstance(value, list) else "  ")
        _add_lines(lines, value, inner, inner)


def scalar_text(value: Any) -> str:
    """Return a scalar, or an empty collection, on one line."""
    if isinstance(value, str):
        if _PLAIN_SCALAR.fullmatch(value) and value.lower() not in _RESERVED_WORDS:
            return value
        if "'" not in value and value.isprintable():
            return f"'{value}'"
        return f'"{"".join(map(_escaped_character, value))}"'
    if type(value) is int:
        return str(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list):
        return "[]"
    return json.dumps(value)


def _escaped_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    return _ESCAPES.get(character) or (
        f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
    )


def _fits_literal_block(value: str) -> bool:
    """Only for text that a literal block keeps byte for byte: no odd spaces at line ends, at the start or after the
    end, nothing unprintable."""
    text = value.removesuffix("\n")
    return (
        "\n" in text
        and not text.startswith((" ", "\n"))
        and not text.endswith("\n")
        and all(line.isprintable() and not line.endswith(" ") for line in text.split("\n"))
    )
