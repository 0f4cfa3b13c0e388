"""Structural schemas of Kubernetes 1.35 and of CRDs as data, by "Kind.group", and whether a document has their shape.

`data/` is written by tests/controlplane/vendor_schemas.py; its README says from what, under which licence. A kind
without a schema is not looked at. Files are read when an object of theirs is, a few milliseconds each.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

Node = Mapping[str, Any]
"""One schema: type, and what else it asks for; properties, values and items are indices of other nodes."""

_TEXT_RULES = frozenset(("enum", "pattern", "minLength", "maxLength"))
"""What a schema may ask of a text."""


@dataclass(frozen=True, eq=False)
class Schema:
    """The schema of one version of a kind, of which there is one object.

    structural: of a CRD, which the API server validates as it is; Kubernetes' own kinds are decoded (a fraction is
    a quantity, a list may hold null) and judged by code, see `compiler.validation`. pod_nodes: indices of the nodes
    that are a pod spec or hold one at any depth. free_texts: of those that any text meets.
    """

    root: Node
    nodes: tuple[Node, ...]
    structural: bool
    pod_nodes: frozenset[int]
    free_texts: frozenset[int]


@lru_cache(maxsize=1024)
def find_schema(kind_key: str, version: str) -> Schema | None:
    """The schema of a kind ("Kind.group", the core group empty) in this version; None where there is none."""
    index = _index()
    source = index.get(f"{kind_key}/{version}") or index.get(kind_key)
    if source is None:
        return None
    found = _source(source)
    root = found.kinds[kind_key].get(version)
    if root is None:
        return None
    return Schema(found.nodes[root], found.nodes, found.structural, found.pod_nodes, found.free_texts)


def known_versions(kind_key: str) -> tuple[str, ...]:
    """The versions of the kind that have a schema, the newest operator's last; empty for a kind without any."""
    sources = {source for key, source in _index().items() if key.partition("/")[0] == kind_key}
    return tuple(version for source in sorted(sources) for version in _source(source).kinds.get(kind_key, ()))


def kinds_named(name: str) -> list[str]:
    """The keys ("Kind.group") of kinds of that name that have a schema."""
    keys = {key.partition("/")[0] for key in _index()}
    return sorted(key for key in keys if key.partition(".")[0] == name)


def is_of_kubernetes(kind_key: str) -> bool:
    """Whether the kind is Kubernetes' own, all of whose versions are known."""
    return _index().get(kind_key, "").startswith("kubernetes-")


@cache
def time_zones() -> frozenset[str]:
    """The names of time zones that the API server knows by itself."""
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
    nodes = tuple(data["nodes"])
    free_texts = frozenset(at for at, node in enumerate(nodes) if _is_free_text(node))
    return _Source(data["structural"], data["kinds"], nodes, _pod_nodes(nodes), free_texts)


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
