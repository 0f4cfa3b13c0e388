"""Where the pod specs of an object are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.openapi.schemas import find_schema
from compiler.openapi.shape import pod_paths
from compiler.syntax.documents import Document, FieldPath

_COMPLETED_KINDS = frozenset(
    f"{name}.sparkoperator.k8s.io" for name in ("ScheduledSparkApplication", "SparkApplication", "SparkConnect")
)
"""Kinds whose pod templates are parts that Spark completes: no server judges them."""
_LOOSE_KINDS = frozenset(f"{name}.serving.kserve.io" for name in ("InferenceService", "LLMInferenceService"))
"""Kinds whose schema does not require containers where a pod spec may be."""


def pod_spec_paths(document: Document, *, without_schema: bool) -> list[FieldPath]:
    """Return the paths of an object's pod specs, by its schema. without_schema: what looks like one counts where the
    kind has no schema."""
    kind_key = f"{document.kind}.{document.group}"
    schema = find_schema(kind_key, document.api_version.rpartition("/")[2])
    if schema is not None and kind_key not in _LOOSE_KINDS:
        return list(pod_paths(document.data, schema))
    if not without_schema or kind_key in _COMPLETED_KINDS:
        return []
    return [path for path, _ in like_pod_specs(document.data)]


def like_pod_specs(data: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """Yield each mapping in plain data that has a list of containers, and its path."""
    if isinstance(data, dict) and isinstance(data.get("containers"), list):
        yield path, data
        return
    for key, child in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from like_pod_specs(child, (*path, key))
