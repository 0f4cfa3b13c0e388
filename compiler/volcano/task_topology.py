"""Annotations of Volcano's plugin task-topology: groups of tasks of one job, and their order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from compiler.kubernetes import TASK_AFFINITY_ANNOTATION, TASK_ANTI_AFFINITY_ANNOTATION, TASK_ORDER_ANNOTATION


def task_groups(annotations: Mapping[str, object], key: str) -> list[list[str]]:
    """Return the groups of an annotation: "ps,worker;ps,evaluator" is ps with worker, and ps with evaluator. As in
    Volcano blanks belong to a name, and an empty name represents nothing ("ps," is a group of two)."""
    text = annotations.get(key)
    if not isinstance(text, str) or not text:
        return []
    return [group.split(",") for group in text.split(";")]


def wrong_names(annotations: Mapping[str, object], task_names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (annotation, the first name of a group that is not a task or is repeated). With one of them the plugin
    ignores all of the job's settings for it, including the order of its tasks."""
    for key in (TASK_AFFINITY_ANNOTATION, TASK_ANTI_AFFINITY_ANNOTATION):
        for group in task_groups(annotations, key):
            yield from ((key, name) for name in _first_wrong_name(group, task_names))
    order = annotations.get(TASK_ORDER_ANNOTATION)
    if isinstance(order, str):
        yield from ((TASK_ORDER_ANNOTATION, name) for name in _first_wrong_name(order.split(","), task_names))


def _first_wrong_name(group: Sequence[str], task_names: Collection[str]) -> list[str]:
    for at, name in enumerate(group):
        if name and (name not in task_names or name in group[:at]):
            return [name]
    return []
