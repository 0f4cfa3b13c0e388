"""Annotations of Volcano's plugin task-topology: groups of tasks of one job."""

from __future__ import annotations

from collections.abc import Mapping


def task_groups(annotations: Mapping[str, object], key: str) -> list[list[str]]:
    """The groups of an annotation: "ps,worker;ps,evaluator" is ps with worker, and ps with evaluator."""
    text = annotations.get(key)
    if not isinstance(text, str) or not text:
        return []
    return [[name.strip() for name in group.split(",")] for group in text.split(";")]
