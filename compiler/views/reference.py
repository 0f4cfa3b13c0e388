"""The output of `gangplan explain` without a plan: codes, fields of kinds, and names of Volcano's scheduler."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compiler.diagnostics.diagnostic import CODES_URL, did_you_mean

_CODE = re.compile(r"g[prw]\d+", re.IGNORECASE)
_FIELD = re.compile(r"[A-Z]\w*[\w.-]*")

Schema = Mapping[str, Any]


class UnknownReferenceError(Exception):
    """Words of the form of a code or a field, which no code or field has."""


def reference_text(words: str) -> str | None:
    """Return the reference on these words; None if it has none, and they may be a job's name.

    Raises UnknownReferenceError.
    """
    if _CODE.fullmatch(words):
        return _code_text(words.upper())
    if _FIELD.fullmatch(words) and (text := _field_text(words)) is not None:
        return text
    from compiler.volcano.arguments import explanation
    from compiler.volcano.plugin_plans import planned_text

    arguments, planned = explanation(words), planned_text(words)
    if arguments is None:
        return f"action {words} has no arguments\n{planned}" if planned else None
    return arguments + planned


def _code_text(code: str) -> str:
    from compiler.explain.catalogue import ENTRIES, code_text

    rules: Mapping[str, Any] = {}
    if code.startswith("GP"):
        from compiler.checks.check import all_rules

        if rule := (rules := all_rules()).get(code):
            return f"{rule.code} {rule.title} ({rule.severity})\n{rule.text}\n"
    elif text := code_text(code):
        return text
    near = did_you_mean(code, rules or {kind.code for kind in ENTRIES})
    hint = f"did you mean {near}? " if near else ""
    raise UnknownReferenceError(f"there is no code {code}; {hint}all codes: {CODES_URL}/")


def _field_text(words: str) -> str | None:
    """Kind and path, as `kubectl explain` takes them; None where no kind is named so."""
    from compiler.views.schema import json_schema, kinds_by_name

    known = kinds_by_name()
    full_names = {name: kind for name, kind in known.items() if "." in name}
    dotted = f"{words}."
    named = [name for name, kind in full_names.items() if dotted.startswith((f"{name}.", f"{kind.name}."))]
    if not named:
        return None
    exact = [name for name in named if dotted.startswith(f"{name}.")]
    texts, problems = list[str](), list[str]()
    for name in exact or named:
        path = words.removeprefix(name if exact else full_names[name].name).strip(".").split(".")
        whole = json_schema(full_names[name])
        shown = full_names[name].name if full_names[name].name in known else name
        try:
            texts.append(f"{shown}{_schema_text(whole, [each for each in path if each])}")
        except UnknownReferenceError as problem:
            problems.append(f"{name}: {problem}")
    if not texts:
        raise UnknownReferenceError("; ".join(problems))
    return "\n".join(texts)


def _schema_text(whole: Schema, path: list[str]) -> str:
    """Return type, default, meaning and fields of the value at the path."""
    owner: Schema = {}
    here = whole
    for name in path:
        owner, fields = here, _fields(whole, here)
        if (found := fields.get(name.removesuffix("[]"))) is None:
            near = did_you_mean(name, fields)
            hint = f"; did you mean {near}?" if near else f"; the fields are {', '.join(fields)}" if fields else ""
            raise UnknownReferenceError(f"there is no field {name!r}{hint}")
        here = found
    rows = ["".join(f".{name}" for name in path) + f"  {_type_text(whole, here)}"]
    required = path and path[-1] in owner.get("required", ())
    if required:
        rows.append("  required")
    elif here.get("default") is not None:
        rows.append(f"  default {here['default']}")
    if text := here.get("description"):
        rows.append(f"  {text}")
    fields = _fields(whole, here)
    width = max(map(len, fields), default=0)
    for name, field in fields.items():
        rows.append(f"  {name:<{width}}  {_type_text(whole, field)}".rstrip())
        if text := field.get("description"):
            rows[-1] += f"  {text.split('. ')[0].removesuffix('.')}"
    return "\n".join(rows) + "\n"


def _branches(whole: Schema, schema: Schema) -> list[Schema]:
    """Return the schema without references, its alternatives one by one, null not among them."""
    if reference := schema.get("$ref"):
        return _branches(whole, whole["$defs"][reference.rpartition("/")[2]])
    if alternatives := schema.get("anyOf"):
        return [found for each in alternatives for found in _branches(whole, each)]
    return [] if schema.get("type") == "null" else [schema]


def _fields(whole: Schema, schema: Schema) -> dict[str, Schema]:
    """Return the fields of an object, or of the items of a list."""
    found: dict[str, Schema] = {}
    for branch in _branches(whole, schema):
        found |= branch.get("properties", {})
        if isinstance(items := branch.get("items"), dict):
            found |= _fields(whole, items)
    return found


def _type_text(whole: Schema, schema: Schema) -> str:
    """ "one of a, b", "list of strings", "integer or string"."""
    return " or ".join(dict.fromkeys(_branch_text(whole, branch) for branch in _branches(whole, schema)))


def _branch_text(whole: Schema, branch: Schema) -> str:
    if "const" in branch or "enum" in branch:
        choices = [each for each in branch.get("enum", [branch.get("const")]) if each is not None] or ["null"]
        return f"one of {', '.join(map(str, choices))}" if len(choices) > 1 else str(choices[0])
    found = branch.get("type", "any value")
    name = found[0] if isinstance(found, list) else str(found)
    if name == "array" and isinstance(items := branch.get("items"), dict):
        return f"list of {_type_text(whole, items) or 'any value'}"
    if name == "object" and isinstance(values := branch.get("additionalProperties"), dict):
        return f"map of {_type_text(whole, values) or 'any value'}"
    return "list" if name == "array" else name
