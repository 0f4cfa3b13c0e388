"""Structural schemas of Kubernetes 1.35 and of CRDs as data, by "Kind.group", and checks of a document's shape.

tests/controlplane/vendor_schemas.py writes `data/`; its README has sources and licences. Files are read when one of
their objects is, a few milliseconds each. `data/overlay.toml` has the further demands of a kind, and `made_schema`
builds a schema of a kind without any. That of a kind of our own is made from its pydantic model.
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from pydantic import BaseModel

Node = Mapping[str, Any]
"""One schema: type, and what else it asks for; properties, values and items are indices of other nodes."""

_TEXT_RULES = frozenset(("enum", "form", "pattern", "minLength", "maxLength"))
"""Keys of a schema that apply to a text."""


@dataclass(frozen=True, eq=False)
class Schema:
    """The schema of one version of a kind, of which there is one object.

    structural: of a CRD, which the API server validates as it is; Kubernetes' own kinds are decoded (a fraction is a
    quantity, a list may hold null) and checked by code, see `compiler.validation`. pod_nodes: indices of the nodes that
    are a pod spec or hold one at any depth. free_texts: of nodes that any text satisfies. is_made: of no server, so
    that its pods may have fields which those of Kubernetes do not have.
    """

    root: Node
    nodes: tuple[Node, ...]
    structural: bool
    pod_nodes: frozenset[int]
    free_texts: frozenset[int]
    is_made: bool = False

    def node_at(self, path: Iterable[str | int]) -> Node | None:
        """Return the node of the value at the path; None where no value may be."""
        node: Node | None = self.root
        for step in path:
            if node is None:
                return None
            is_item = isinstance(step, int)
            index = node.get("items") if is_item else node.get("properties", {}).get(step, node.get("values"))
            node = None if index is None else self.nodes[index]
        return node


@lru_cache(maxsize=1024)
def find_schema(kind_key: str, version: str) -> Schema | None:
    """Return the schema of a kind ("Kind.group", the core group empty) in this version; None without one."""
    index = _index()
    source = index.get(f"{kind_key}/{version}") or index.get(kind_key)
    if source is None:
        tree = _overlay(f"{kind_key}/{version}") or _overlay(kind_key)
        return made_schema({**tree, **_NEARLY_OPEN, "properties": {**_HEAD, **tree["properties"]}}) if tree else None
    found = _source(source)
    root = found.kinds[kind_key].get(version)
    if root is None:
        return None
    if not (overlay := _overlay(kind_key)):
        return Schema(found.nodes[root], found.nodes, found.structural, found.pod_nodes, found.free_texts)
    nodes = list(found.nodes)
    return _schema(_laid_over(overlay, root, nodes), nodes, found.structural)


def made_schema(root: Mapping[str, Any]) -> Schema:
    """The schema that a tree of nodes describes, in which properties, items and values are nodes themselves.

    A node may be a part of Kubernetes' own schemas: {"like": "pod spec"}, "pod template" or "metadata".
    """
    nodes = list(_source(_KUBERNETES).nodes)
    return _schema(_laid_over(root, None, nodes), nodes, structural=False, is_made=True)


@cache
def plain_schema(*required: str) -> Schema:
    """Return the schema of objects of a kind that has none: all of them have labels and annotations that are text."""
    fields = {**_METADATA, **dict.fromkeys(required, _OPEN)}
    return made_schema({**_OPEN, "properties": fields, "required": list(required)})


_OPEN: Mapping[str, Any] = {"type": "object", "open": True}
_TEXTS: Mapping[str, Any] = {"type": "object", "values": {"type": "string"}}
_METADATA: Mapping[str, Any] = {"metadata": {**_OPEN, "properties": {"annotations": _TEXTS, "labels": _TEXTS}}}

_NEARLY_OPEN: Mapping[str, Any] = {"type": "object", "open": "near"}
_HEAD: Mapping[str, Any] = {**{key: {"type": "any"} for key in ("apiVersion", "kind", "status")}, **_METADATA}
"""The fields of a whole object."""


def _schema(root: int, nodes: list[Node], structural: bool, is_made: bool = False) -> Schema:
    free_texts = frozenset(at for at, node in enumerate(nodes) if _is_free_text(node))
    return Schema(nodes[root], tuple(nodes), structural, _pod_nodes(nodes), free_texts, is_made)


_KUBERNETES = "kubernetes-1.35"
_PARTS: Mapping[str, tuple[str, str]] = {
    "container": ("Pod.", "spec.containers[]"),
    "metadata": ("Pod.", "metadata"),
    "pod spec": ("Pod.", "spec"),
    "pod template": ("PodTemplate.", "template"),
}
"""Name of a part of Kubernetes' schemas -> the kind and the path in it that has it."""


def _part(name: str) -> int:
    kind_key, path = _PARTS[name]
    source = _source(_KUBERNETES)
    index = source.kinds[kind_key]["v1"]
    for step in STEP.findall(path):
        node = source.nodes[index]
        index = node["items"] if step == "[]" else node["properties"][step]
    return index


def _laid_over(tree: Mapping[str, Any], index: int | None, nodes: list[Node]) -> int:
    """Return the index of a new node: the one at `index`, if any, with the tree's changes. drop: removed fields."""
    if "like" in tree:
        index = _part(tree["like"])
        if len(tree) == 1:
            return index
    node: dict[str, Any] = dict(nodes[index]) if index is not None else {}
    for key, value in tree.items():
        match key:
            case "like":
                continue
            case "properties":
                before = node.get("properties", {})
                known = {*before, *(name for name, child in value.items() if child.keys() & _DEFINING)}
                changed = {name: _laid_over(value[name], before.get(name), nodes) for name in value if name in known}
                node["properties"] = {**before, **changed}
            case "items" | "values":
                node[key] = _laid_over(value, node.get(key), nodes)
            case "required":
                node[key] = sorted({*node.get(key, ()), *value})
            case "drop":
                node = {name: each for name, each in node.items() if name not in value}
            case _:
                node[key] = value
    nodes.append(node)
    return len(nodes) - 1


_DEFINING = frozenset(("like", "type"))
"""Keys that define a node; fields unknown to a version stay unknown."""


@cache
def overlays() -> Mapping[str, Any]:
    """Return the contents of `data/overlay.toml`."""
    return tomllib.loads((files("compiler.openapi") / "data" / "overlay.toml").read_text("utf-8"))


def _overlay(kind_key: str) -> dict[str, Any]:
    """Return the additions to the schema of a kind, as a tree of nodes."""
    tree: dict[str, Any] = {}
    for path, row in _rows(kind_key):
        *around, last = STEP.findall(path)
        node = tree
        for step in around:
            node = _below(node, step)
        child = _below(node, last)
        child |= {key: value for key, value in row.items() if key not in ("any", "required")}
        for name in row.get("any", "").split():
            _below(child, name)["type"] = "any"
        if row.get("required"):
            node.setdefault("required", []).append(last)
    return tree


STEP = re.compile(r"\[\]|\{\}|[^.\[\]{}]+")


def _rows(kind_key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if kind_key in overlays()["needs_spec"]:
        yield "spec", {"required": True}
    yield from _written_rows(kind_key)


def _written_rows(kind_key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, row in overlays().get(kind_key, {}).items():
        yield path, {key: value for key, value in row.items() if key != "rows_of"}
        if "rows_of" in row:  # the spec of another kind, or of a part, is here
            for at, each in _written_rows(row["rows_of"]):
                yield f"{path}{at.removeprefix('spec')}", each


def _below(node: dict[str, Any], step: str) -> dict[str, Any]:
    """Return the tree below a step; a missing one is created."""
    if step in ("[]", "{}"):
        found: dict[str, Any] = node.setdefault("items" if step == "[]" else "values", {})
        return found
    child: dict[str, Any] = node.setdefault("properties", {}).setdefault(step, {})
    return child


def known_versions(kind_key: str) -> tuple[str, ...]:
    """Return the versions of the kind that have a schema, the newest operator's last; empty for a kind without any."""
    sources = {source for key, source in _index().items() if key.partition("/")[0] == kind_key}
    return tuple(version for source in sorted(sources) for version in _source(source).kinds.get(kind_key, ()))


def kinds_named(name: str) -> list[str]:
    """Return the keys ("Kind.group") of kinds of that name that have a schema."""
    keys = {key.partition("/")[0] for key in _index()}
    return sorted(key for key in keys if key.partition(".")[0] == name)


def is_of_kubernetes(kind_key: str) -> bool:
    """Return whether the kind is Kubernetes' own, all of whose versions are known."""
    return _index().get(kind_key, "").startswith("kubernetes-")


@cache
def time_zones() -> frozenset[str]:
    """Return the names of time zones that the API server knows by itself."""
    return frozenset(json.loads((files("compiler.openapi") / "data" / "time-zones.json").read_bytes()))


@cache
def _index() -> dict[str, str]:
    """Kind.group -> the file with its versions; Kind.group/version where a second operator has another version."""
    found: dict[str, str] = json.loads((files("compiler.openapi") / "data" / "index.json").read_bytes())
    return found


@dataclass(frozen=True, slots=True)
class _Source:
    """One file of schemas. kinds: "Kind.group" -> version -> index of its root. The others as in `Schema`."""

    structural: bool
    kinds: Mapping[str, Mapping[str, int]]
    nodes: tuple[Node, ...]
    pod_nodes: frozenset[int]
    free_texts: frozenset[int]


@cache
def _source(name: str) -> _Source:
    data = json.loads(gzip.decompress((files("compiler.openapi") / "data" / f"{name}.json.gz").read_bytes()))
    nodes = tuple(_amended(node, data["nodes"]) for node in data["nodes"])
    free_texts = frozenset(at for at, node in enumerate(nodes) if _is_free_text(node))
    return _Source(data["structural"], data["kinds"], nodes, _pod_nodes(nodes), free_texts)


def _amended(node: Node, nodes: Sequence[Node]) -> Node:
    """Return the node, of which a pod template is not without a spec, and Argo reads any value as the text of a
    parameter."""
    properties = node.get("properties", {})
    if "metadata" in properties and nodes[properties.get("spec", 0)].get("is") == "pod":
        return {**node, "required": sorted({*node.get("required", ()), "spec"})}
    if properties.keys() >= _PARAMETER:
        anything = next(at for at, each in enumerate(nodes) if each["type"] == "any")
        return {**node, "properties": {**properties, **dict.fromkeys(("default", "enum", "value"), anything)}}
    return node


_PARAMETER = frozenset(("default", "enum", "globalName", "value", "valueFrom"))
"""Fields that a parameter of Argo has, and nothing else."""


def _is_free_text(node: Node) -> bool:
    return node["type"] == "string" and _TEXT_RULES.isdisjoint(node)


def _pod_nodes(nodes: Sequence[Node]) -> frozenset[int]:
    holders: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        for child in (*node.get("properties", {}).values(), node.get("values"), node.get("items")):
            holders.setdefault(child, []).append(index)
    found, unseen = set[int](), [index for index, node in enumerate(nodes) if node.get("is") == "pod"]
    while unseen:
        index = unseen.pop()
        if index not in found:
            found.add(index)
            unseen += holders.get(index, ())
    return frozenset(found)


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
