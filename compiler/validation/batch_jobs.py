"""Policies of a Job of batch/v1 that name its containers and indexes."""

from __future__ import annotations

import re
from typing import Any

from compiler.diagnostics.diagnostic import suggestion
from compiler.syntax.documents import FieldPath
from compiler.validation.judge import REFERS_TO_NOTHING, Judge, items, mapping

_INDEXES = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*", re.ASCII)


def batch_job(judge: Judge, spec: Any, path: FieldPath) -> None:
    """The containers that failures are judged by, and the indexes that suffice (validateJobSpec of Kubernetes)."""
    pod, completions = mapping(spec, "template", "spec"), mapping(spec).get("completions")
    names = [str(each.get("name")) for key in ("containers", "initContainers") for _, each in items(pod, key)]
    for number, rule in items(mapping(spec, "podFailurePolicy"), "rules"):
        name = mapping(rule, "onExitCodes").get("containerName")
        if names and isinstance(name, str) and name not in names:
            at = (*path, "podFailurePolicy", "rules", number, "onExitCodes", "containerName")
            help = suggestion(name, names, f"name one of {', '.join(names)}, or leave it out for all")
            judge.add(REFERS_TO_NOTHING, at, f"the pod has no container {name!r}", help)
    if isinstance(completions, bool) or not isinstance(completions, int):
        return
    judge.within((*path, "maxFailedIndexes"), mapping(spec).get("maxFailedIndexes"), 0, completions)
    for number, rule in items(mapping(spec, "successPolicy"), "rules"):
        at, indexes, most = (*path, "successPolicy", "rules", number), rule.get("succeededIndexes"), completions
        if isinstance(indexes, str) and indexes:
            if objection := _objection(indexes, completions):
                judge.contradiction((*at, "succeededIndexes"), f"{indexes!r}: {objection}", "write like 0,2-3")
                continue
            most = sum(ends[-1] - ends[0] + 1 for ends in _intervals(indexes))
        judge.within((*at, "succeededCount"), rule.get("succeededCount"), 0, most)


def _objection(indexes: str, completions: int) -> str:
    """Return why the indexes are refused; empty where they are not."""
    if not _INDEXES.fullmatch(indexes):
        return "not numbers and intervals, with commas between them"
    numbers = [number for ends in _intervals(indexes) for number in ends]
    if numbers != sorted(set(numbers)):
        return "not in order, each once"
    return f"with {completions} completions the last index is {completions - 1}" if numbers[-1] >= completions else ""


def _intervals(indexes: str) -> list[list[int]]:
    return [[int(end) for end in part.split("-")] for part in indexes.split(",")]
