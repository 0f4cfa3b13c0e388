"""Schedules, time zones and exit codes of jobs of Kubernetes, and policies of a Job of batch/v1 that name its
containers and indexes."""

from __future__ import annotations

import re
from typing import Any

from compiler.diagnostics.diagnostic import suggestion
from compiler.fields.texts import whole_number
from compiler.openapi.schemas import time_zones
from compiler.syntax.documents import FieldPath
from compiler.validation.judge import REFERS_TO_NOTHING, Judge, items, mapping, values

_ZONES_OF_A_MACHINE = ("posix/", "right/")
"""Folders of names that a server may have in addition to Kubernetes' own."""


def exit_codes(judge: Judge, rule: Any, path: FieldPath) -> None:
    codes = [code for code in values(rule, "values") if isinstance(code, int)]
    if codes != sorted(set(codes)):
        what = "the codes are not in order, each once"
        judge.contradiction((*path, "values"), what, f"write {sorted(set(codes))}")
    elif 0 in codes and mapping(rule).get("operator") == "In":
        judge.contradiction((*path, "values"), "0 is not a failure", "remove it")


def schedule(judge: Judge, text: Any, path: FieldPath) -> None:
    if isinstance(text, str) and text and (objection := schedule_objection(text)):
        judge.contradiction(path, f"{text!r}: {objection}", 'write like "0 3 * * *"')


def time_zone(judge: Judge, zone: Any, path: FieldPath) -> None:
    if zone in ("", "Local"):  # as Go's time.LoadLocation takes them
        return
    if isinstance(zone, str) and zone not in time_zones() and not zone.startswith(_ZONES_OF_A_MACHINE):
        help = suggestion(zone, sorted(time_zones()), "write like Europe/Berlin")
        judge.contradiction(path, f"{zone!r} is not a time zone", help)


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of the month", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("day of the week", 0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = frozenset(["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"])
_DURATION = re.compile(r"@every ([0-9.]+(ns|us|µs|ms|s|m|h))+\Z")


def schedule_objection(schedule: str) -> str:
    """Return why this is not a schedule, as robfig/cron's ParseStandard reads it; empty for a valid one."""
    if "TZ" in schedule:
        return "the time zone belongs in timeZone"
    if schedule.startswith("@"):
        return "" if schedule in _DESCRIPTORS or _DURATION.match(schedule) else "there is no such word"
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        return f"it has {len(fields)} fields, not 5"
    for text, (name, least, most, words) in zip(fields, _FIELDS, strict=True):
        if not all(_is_range(part, least, most, words) for part in text.split(",")):
            return f"{text} is not a valid {name}"
    return ""


def _is_range(text: str, least: int, most: int, words: dict[str, int]) -> bool:
    """Return whether a part is *, a number or a range, with or without a step."""
    span, slash, step = text.partition("/")
    if slash and not whole_number(step):
        return False
    if span in ("*", "?"):
        return True
    ends = [_number(end, words) for end in span.split("-")]
    if len(ends) > 2 or any(end is None for end in ends):
        return False
    first, last = ends[0], ends[-1]
    return first is not None and last is not None and least <= first <= last <= most


def _number(text: str, words: dict[str, int]) -> int | None:
    number = whole_number(text)
    return words.get(text.lower()) if number is None else number


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
