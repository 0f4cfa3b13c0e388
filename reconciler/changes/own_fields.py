"""Which fields of an object are ours alone, by its managedFields; each spelled as the API server spells it in a
conflict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.changes.diff import is_our_apply
from reconciler.cluster.objects import Object


def own_fields(live: Object) -> frozenset[str]:
    """The fields that we have applied and that no other manager holds."""
    ours, others = set[str](), set[str]()
    for entry in live["metadata"].get("managedFields") or ():
        (ours if is_our_apply(entry) else others).update(_paths(entry.get("fieldsV1") or {}, ""))
    return frozenset(ours - others)


def _paths(fields: Mapping[str, Any], at: str) -> Iterator[str]:
    for name, below in fields.items():
        if below:
            yield from _paths(below, at + _step(name))
        else:
            yield at if name == "." else at + _step(name)


def _step(name: str) -> str:
    """f:image, k:{"name":"main"} and v:"text" as .image, [name="main"] and [="text"]."""
    kind, _, rest = name.partition(":")
    if kind == "k":
        return "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items()) + "]"
    return {"f": f".{rest}", "v": f"[={rest}]"}.get(kind, f"[{rest}]")
