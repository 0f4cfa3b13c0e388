"""Structural schemas of Kubernetes 1.35 and of CRDs as data, by "Kind.group", and whether a document has their shape.

`data/` is written by tests/controlplane/vendor_schemas.py; its README says from what, under which licence. A kind
without a schema is not looked at. Files are read when an object of theirs is, a few milliseconds each.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Node = Mapping[str, Any]
"""One schema: type, and what else it asks for; properties, values and items are indices of other nodes."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of one version of a kind.

    structural: of a CRD, which the API server validates as it stands; Kubernetes' own kinds are decoded (a fraction is
    a quantity, a list may hold null) and judged by code, see `compiler.validation`. pod_nodes: indices of the nodes
    that are a pod spec or hold one at any depth.
    """

    root: Node
    nodes: tuple[Node, ...]
    structural: bool
    pod_nodes: frozenset[int]


def find_schema(kind_key: str, version: str) -> Schema | None:
    """The schema of a kind ("Kind.group", the core group empty) in this version; None where there is none."""
    index = _index()
    source = index.get(f"{kind_key}/{version}") or index.get(kind_key)
    if source is None:
        return None
    structural, kinds, nodes, pod_nodes = _source(source)
    root = kinds[kind_key].get(version)
    return None if root is None else Schema(nodes[root], nodes, structural, pod_nodes)


@cache
def time_zones() -> frozenset[str]:
    """The names of time zones that the API server knows by itself."""
    return frozenset(json.loads((files(__name__) / "data" / "time-zones.json").read_bytes()))


@cache
def _index() -> dict[str, str]:
    """Kind.group -> the file with its versions; Kind.group/version where a second operator has another version."""
    found: dict[str, str] = json.loads((files(__name__) / "data" / "index.json").read_bytes())
    return found


@cache
def _source(name: str) -> tuple[bool, dict[str, dict[str, int]], tuple[Node, ...], frozenset[int]]:
    data = json.loads(gzip.decompress((files(__name__) / "data" / f"{name}.json.gz").read_bytes()))
    return data["structural"], data["kinds"], tuple(data["nodes"]), _pod_nodes(data["nodes"])


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
