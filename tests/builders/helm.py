"""As much of Helm's template language as our chart uses: values, `toYaml ... | nindent N`, `omit`, `ternary "A" (printf
"B%s" X) (eq X "C")`, the checksum of another template, and `if` ... `end`.

It refuses anything else, so a template cannot come to mean more here than to Helm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import yaml

_ACTION = re.compile(r"(?P<before>\s*)\{\{(?P<trim>-)? (?P<code>[^{}]*) \}\}")
_TO_YAML = re.compile(
    r'toYaml (?:\.(?P<plain>[\w.]+)|\(omit \.(?P<path>[\w.]+) "(?P<key>\w+)"\)) \| nindent (?P<depth>\d+)'
)
_TERNARY = re.compile(
    r'ternary "(?P<same>[^"%]*)" \(printf "(?P<before>[^"%]*)%s" \.(?P<path>[\w.]+)\) '
    r'\(eq \.(?P=path) "(?P<known>[^"]*)"\)'
)
_CHECKSUM = re.compile(r'include \(print \$\.Template\.BasePath "/(?P<name>[\w.]+)"\) \. \| sha256sum')


def render(template: str, context: Mapping[str, Any]) -> str:
    """The template with `context` ({"Values": ..., "Release": ..., "templates": {name: text}}). Raises ValueError for
    what it does not know."""
    kept: list[str] = []
    depth, hidden_at = 0, 0
    for line in template.splitlines(keepends=True):
        if condition := re.fullmatch(r"\{\{- if \.([\w.]+) \}\}\n", line):
            depth += 1
            if not hidden_at and not _lookup(context, condition[1]):
                hidden_at = depth
        elif line == "{{- end }}\n":
            hidden_at = 0 if hidden_at == depth else hidden_at
            depth -= 1
        elif not hidden_at:
            kept.append(line)
    if depth:
        raise ValueError("an if has no end")
    text = _ACTION.sub(lambda action: _value(action, context), "".join(kept))
    if "{{" in text:
        raise ValueError(f"not known here: {text[text.index('{{') :][:80]}")
    return text


def _value(action: re.Match[str], context: Mapping[str, Any]) -> str:
    before = "" if action["trim"] else action["before"]
    code = action["code"]
    if path := re.fullmatch(r"\.([\w.]+)", code):
        value = _lookup(context, path[1])
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise ValueError(f"{code} is {value!r}")
        return f"{before}{value}"
    if choice := _TERNARY.fullmatch(code):
        value = _lookup(context, choice["path"])
        return before + (choice["same"] if value == choice["known"] else f"{choice['before']}{value}")
    if other := _CHECKSUM.fullmatch(code):
        text = render(context["templates"][other["name"]], context)
        return before + hashlib.sha256(text.encode()).hexdigest()
    if not (match := _TO_YAML.fullmatch(code)):
        raise ValueError(f"not known here: {code}")
    value = _lookup(context, match["plain"] or match["path"])
    if match["key"]:
        value = {key: entry for key, entry in value.items() if key != match["key"]}
    indent = "\n" + " " * int(match["depth"])
    dumped: str = yaml.safe_dump(value)
    return before + indent + dumped.strip().replace("\n", indent)


def _lookup(context: Mapping[str, Any], path: str) -> Any:
    value: Any = context
    for key in path.split("."):
        value = value[key]
    return value
