"""Labels, and what selects by them."""

from __future__ import annotations

from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.judge import Judge, items, mapping, texts, values

_MAX_ANNOTATIONS = 256 << 10
NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def labels(judge: Judge, data: Any, path: FieldPath) -> None:
    """A mapping of labels."""
    for key, value in data.items() if isinstance(data, dict) else ():
        judge.name((*path, key), key, names.QUALIFIED, required=True)
        judge.name((*path, key), value, names.LABEL_VALUE)


def annotation_keys(judge: Judge, data: Any, path: FieldPath) -> None:
    size = 0
    for key, value in data.items() if isinstance(data, dict) else ():
        judge.name((*path, key), key, names.ANNOTATION_KEY, required=True)
        size += len(f"{key}{value}".encode("utf-8", "replace"))
    if size > _MAX_ANNOTATIONS:
        judge.contradiction(path, f"they have {size} bytes", f"write at most {_MAX_ANNOTATIONS}")


def label_selector(judge: Judge, data: Any, path: FieldPath) -> None:
    """A selector of labels: matchLabels and matchExpressions."""
    labels(judge, mapping(data, "matchLabels"), (*path, "matchLabels"))
    expressions(judge, data, path, ("In", "NotIn", "Exists", "DoesNotExist"))


def expressions(judge: Judge, data: Any, path: FieldPath, operators: tuple[str, ...]) -> None:
    """The matchExpressions of a selector, or of a term that selects nodes."""
    for number, row in items(data, "matchExpressions"):
        _expression(judge, row, (*path, "matchExpressions", number), operators)


def _expression(judge: Judge, row: dict[str, Any], path: FieldPath, operators: tuple[str, ...]) -> None:
    """One condition: a key, an operator and the values that go with it."""
    judge.name((*path, "key"), row.get("key"), names.QUALIFIED, required=True)
    operator, given = row.get("operator"), values(row, "values")
    if operator in (None, ""):
        judge.missing((*path, "operator"))
    judge.choice((*path, "operator"), operator, operators)
    if operator in ("In", "NotIn") and not given:
        judge.contradiction((*path, "values"), f"{operator} wants values", "give some, or use Exists or DoesNotExist")
    if operator in ("Exists", "DoesNotExist") and given:
        judge.contradiction((*path, "values"), f"{operator} takes no values", "remove them, or use In or NotIn")
    if operator in ("Gt", "Lt") and (len(given) != 1 or not str(given[0]).lstrip("+-").isdigit()):
        judge.contradiction((*path, "values"), f"{operator} wants one whole number as text", 'write values: ["8"]')
    for number, value in texts(row, "values"):
        if operator in ("In", "NotIn"):
            judge.name((*path, "values", number), value, names.LABEL_VALUE)
