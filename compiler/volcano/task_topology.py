"""Annotations of Volcano's plugin task-topology: groups of tasks of one job."""

from __future__ import annotations

from collections.abc import Mapping


def task_groups(annotations: Mapping[str, object], key: str) -> list[list[str]]:
    """The groups of an annotation: "ps,worker;ps,evaluator" is ps with worker, and ps with evaluator."""
    said = annotations.get(key)
    return (
        [[name.strip() for name in group.split(",")] for group in said.split(";")]
        if isinstance(said, str) and said
        else []
    )
