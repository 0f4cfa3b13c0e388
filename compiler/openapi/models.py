"""The schema of a kind that is ours, from its pydantic model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from compiler.openapi.schemas import Schema, made_schema

_FORMATS = {"date-time": "time", "duration": "duration", "quantity": "quantity"}
_KEPT = ("enum", "exclusiveMaximum", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern")


@lru_cache(maxsize=256)
def model_schema(model: type[BaseModel]) -> Schema:
    """Return the schema of objects that the model describes; metadata are Kubernetes'."""
    written = model.model_json_schema(by_alias=True)
    tree = _node(written, written.get("$defs", {}))
    tree["properties"] |= {"metadata": {"like": "metadata"}, "status": {"type": "any"}}
    return made_schema(tree)


def _node(written: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the node of a JSON schema, as `made_schema` reads it."""
    if "$ref" in written:
        return _node(named[written["$ref"].rpartition("/")[2]], named)
    if written.get("format") in _FORMATS:
        return {"type": _FORMATS[written["format"]], **_kept(written)}
    if "anyOf" in written:  # a value or null, which is as good as nothing
        return _node(next(each for each in written["anyOf"] if each.get("type") != "null"), named)
    if "const" in written or "enum" in written:
        return {"type": "string", "enum": written.get("enum", [written.get("const")]), "minLength": 1}
    node: dict[str, Any] = {"type": written.get("type", "any"), **_kept(written)}
    if "items" in written:
        node["items"] = _node(written["items"], named)
    if "properties" in written:
        node["properties"] = {name: _node(child, named) for name, child in written["properties"].items()}
        node["required"] = written.get("required", [])
    others = written.get("additionalProperties", node["type"] == "object" and "properties" not in written)
    if isinstance(others, dict):
        node["values"] = _node(others, named)
    elif others is not False:
        node["open"] = True
    return node


def _kept(written: Mapping[str, Any]) -> dict[str, Any]:
    return {key: written[key] for key in _KEPT if key in written}
