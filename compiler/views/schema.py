"""JSON Schema (draft 2020-12, as yaml-language-server reads it) of the kinds that gangplan knows, from the schemas by
which they are judged, and of the JSON that commands print."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import TypeAdapter

from compiler import kubernetes
from compiler.kinds.kind import Kind, kinds
from compiler.openapi.schemas import Node, plain_schema
from compiler.outputs import OUTPUTS

JOB_ANNOTATIONS: Mapping[str, str] = {
    kubernetes.CLUSTER_ANNOTATION: "The one cluster of the repository that runs the job.",
    kubernetes.EXPECTED_DURATION_ANNOTATION: "How long the job is expected to run, like 6h: for reservation, backfill.",
    kubernetes.GANG_ANNOTATION: 'Of a batch/v1 Job or a service: "true" starts all of its pods or none.',
    kubernetes.RUN_ANNOTATION: "A new value runs a finished job again although its specification is the same.",
    kubernetes.SUBMITTED_AT_ANNOTATION: "When the job was submitted, like 2026-01-31T12:00:00Z: the older goes first.",
}
QUEUE_ANNOTATIONS: Mapping[str, str] = {
    kubernetes.CLOSED_ANNOTATION: '"true" starts none of the queue\'s jobs.',
    kubernetes.DEDICATED_DOMAINS_ANNOTATION: "How many hypernodes of which tier are kept free for the queue.",
    kubernetes.ORDER_ANNOTATION: '"strict" starts the queue\'s jobs in their order.',
}
CLUSTER_ANNOTATIONS: Mapping[str, str] = {
    kubernetes.ALLOW_PRUNE_ANNOTATION: "The digest of a list of deletions that may go beyond the limits."
}
OBJECT_ANNOTATIONS: Mapping[str, str] = {
    kubernetes.ADOPT_ANNOTATION: '"true" lets gangplan take fields that another manager owns.',
    kubernetes.PRUNE_ANNOTATION: '"disabled" keeps the object when it leaves the repository.',
    kubernetes.REPLACE_ANNOTATION: '"true" lets a change that is not taken end a running job, or recreate an object.',
    kubernetes.SUSPEND_ANNOTATION: '"true" keeps the reconciler from the object; gated pods stay gated.',
    kubernetes.YIELD_ANNOTATION: "Comma-separated field paths (spec.weight) that are left to other managers.",
}


def kinds_by_name() -> Mapping[str, Kind]:
    """Kind by the name that a user gives: "Queue", or "Job.batch" where two groups have a kind of that name; the full
    name always works."""
    found: dict[str, Kind] = {}
    known = [kind for kind in kinds().values() if kind.is_written]
    for kind in known:
        full = kind.key if kind.group else f"{kind.name}.v1"
        if sum(other.name == kind.name for other in known) == 1:
            found[kind.name] = kind
        found[full] = kind
    return dict(sorted(found.items()))


def json_schema(kind: Kind, prefix: str = "") -> dict[str, Any]:
    """Return the schema of a whole document of `kind`, apiVersion and kind fixed. prefix: of definitions where they are
    named, so that those of many kinds fit into one schema."""
    if kind.group == kubernetes.API_GROUP and kind.model is not None:  # has descriptions
        made = kind.model.model_json_schema(by_alias=True, ref_template=f"#/$defs/{prefix}{{model}}", mode="validation")
    else:
        made = _Definitions(kind, prefix).whole()
    made["$defs"]["Metadata"]["properties"]["annotations"] = _annotations_schema(kind)
    properties = {
        **made.get("properties", {}),
        "apiVersion": {"enum": [f"{kind.group}/{version}" if kind.group else version for version in kind.versions]},
        "kind": {"const": kind.name},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": f"{kind.name} ({kind.api_version})",
        "properties": properties,
        "required": sorted({*made.get("required", []), "apiVersion", "kind", "metadata"}),
    }


class _Definitions:
    """The JSON schema of a kind whose schema is nodes; those of objects are definitions, named by their fields."""

    def __init__(self, kind: Kind, prefix: str) -> None:
        schema = kind.schema_of(kind.versions[0]) or plain_schema()
        self._schema, self._prefix = schema, prefix
        self._names: dict[int, str] = {}
        self._made: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        """Return the schema of the root."""
        return {**self._node(self._schema.root), "$defs": self._made}

    def _child(self, index: int, name: str) -> dict[str, Any]:
        node = self._schema.nodes[index]
        if node["type"] != "object" or not node.get("properties"):
            return self._node(node)
        if index not in self._names:
            title, number = name[:1].upper() + name[1:], len(self._made)
            self._names[index] = title if title not in self._made else f"{title}{number}"
            self._made[self._names[index]] = {}
            self._made[self._names[index]] = self._node(node)
        return {"$ref": f"#/$defs/{self._prefix}{self._names[index]}"}

    def _node(self, node: Node) -> dict[str, Any]:
        made = {key: node[key] for key in _SAME if key in node}
        match node["type"]:
            case "object":
                made["type"] = ["object", "null"]
                if "properties" in node:
                    fields = node["properties"].items()
                    made["properties"] = {name: self._child(index, name) for name, index in fields}
                if "values" in node:
                    made["additionalProperties"] = self._child(node["values"], "value")
                elif "properties" in node and not node.get("open"):
                    made["additionalProperties"] = False
            case "array":
                made["type"] = ["array", "null"]
                if "items" in node:
                    made["items"] = self._child(node["items"], "item")
            case "string" | "integer" | "number" | "boolean" as simple:
                made["type"] = [simple, "null"]
                if "enum" in node:
                    made["enum"] = [*node["enum"], None]
            case "quantity" | "int-or-string":
                made["type"] = ["string", "number", "null"]
            case "time":
                made |= {"type": ["string", "null"], "format": "date-time"}
        return made


_SAME = ("default", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern", "required")
"""Keys with the same meaning in JSON schemas and in nodes."""


def _annotations_schema(kind: Kind) -> dict[str, Any]:
    """Return the schema of the annotations that gangplan reads of the kind; all others are allowed."""
    own = {"Queue": QUEUE_ANNOTATIONS, "Cluster": CLUSTER_ANNOTATIONS}.get(kind.name, {})
    if kind.namespaced:
        own = JOB_ANNOTATIONS
    texts = {**own, **OBJECT_ANNOTATIONS}
    described = {name: {"type": "string", "description": text} for name, text in sorted(texts.items())}
    return {"type": ["object", "null"], "properties": described, "additionalProperties": True}


def schema_of_all_kinds(names: Collection[str] | None = None) -> dict[str, Any]:
    """Return one schema for every kind, or for those of these full names: a document must match that of its apiVersion
    and kind, and any other passes."""
    branches, definitions = [], dict[str, Any]()
    for name, kind in kinds_by_name().items():
        if name != (kind.key if kind.group else f"{kind.name}.v1") or not (names is None or name in names):
            continue
        made = json_schema(kind, f"{name}.")
        definitions |= {f"{name}.{key}": value for key, value in made.pop("$defs", {}).items()}
        made.pop("$schema")
        is_meant = {key: made["properties"][key] for key in ("apiVersion", "kind")}
        branches.append({"if": {"properties": is_meant, "required": ["apiVersion", "kind"]}, "then": made})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Objects of a gangplan repository",
        "type": "object",
        "allOf": branches,
        "$defs": definitions,
    }


def output_schema(name: str) -> dict[str, Any]:
    """Return the schema of a command's JSON. Other fields may be there: a newer version adds some."""
    made = TypeAdapter(OUTPUTS[name]).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": f"gangplan {name} -o json"}
