"""Judge: collects faults of values, in the pod specs of an object too; labels, and what selects by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from compiler.diagnostics.diagnostic import Rule, declare_rule, suggestion
from compiler.fields.models import BAD_NAME, MISSING_FIELD, NOT_ALLOWED, OUT_OF_RANGE
from compiler.fields.texts import dotted_path, short_repr
from compiler.openapi.schemas import find_schema
from compiler.openapi.shape import Flaw, pod_paths
from compiler.syntax.documents import Document, FieldPath
from compiler.validation import names

STANDS_TWICE = declare_rule("GP240", "error")
REQUEST_AND_LIMIT = declare_rule("GP241", "error")
REFERS_TO_NOTHING = declare_rule("GP242", "error")
CONTRADICTION = declare_rule("GP243", "error")


class Judge:
    """The faults found so far."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []

    def take(self, flaws: Iterable[Flaw]) -> None:
        """Add flaws that were found before."""
        self.flaws += flaws

    def add(self, rule: Rule, path: FieldPath, message: str, help: str) -> None:
        self.flaws.append(Flaw(path, rule, f"{dotted_path(path)}: {message}", help))

    def missing(self, path: FieldPath, help: str = "add it") -> None:
        self.flaws.append(Flaw(path, MISSING_FIELD, f"{dotted_path(path)} is missing", help))

    def contradiction(self, path: FieldPath, message: str, help: str) -> None:
        self.add(CONTRADICTION, path, message, help)

    def choice(self, path: FieldPath, value: Any, allowed: tuple[str, ...]) -> None:
        """Check that a text, if there is one, is one of these."""
        if isinstance(value, str) and value and value not in allowed:
            choices = f"allowed: {', '.join(allowed)}"
            help = suggestion(value, allowed, choices, f" {choices}")
            self.flaws.append(Flaw(path, NOT_ALLOWED, f"{dotted_path(path)} is {short_repr(value)}", help))

    def within(self, path: FieldPath, value: Any, least: int, most: int | None = None) -> None:
        """A number, if there is one, is in this range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return
        if value < least or (most is not None and value > most):
            help = f"write at least {least}" if value < least or most is None else f"write at most {most}"
            self.flaws.append(Flaw(path, OUT_OF_RANGE, f"{dotted_path(path)} is {short_repr(value)}", help))

    def name(self, path: FieldPath, value: Any, form: names.Form, *, required: bool = False) -> None:
        """A text, if there is one, has this form."""
        if isinstance(value, str) and value:
            if (help := form.objection(value)) is not None:
                self.flaws.append(Flaw(path, BAD_NAME, f"{dotted_path(path)}: {short_repr(value)}", help))
        elif required and value in (None, ""):
            self.missing(path)

    def unique(self, path: FieldPath, value: Any, seen: set[Any], what: str) -> None:
        """Check that no other value of this kind was the same; empty values do not count."""
        if value in (None, "") or isinstance(value, dict | list):
            return
        if value in seen:
            self.add(STANDS_TWICE, path, f"the {what} {short_repr(value)} is here twice", "rename or remove one")
        seen.add(value)


def mapping(value: Any, *keys: str) -> dict[str, Any]:
    """Return the mapping at these keys; an empty one if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: Any, key: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the mappings of a list with their numbers; null as an empty one."""
    return [(number, item or {}) for number, item in enumerate(values(value, key)) if isinstance(item, dict | None)]


def volume_sources(volume: dict[str, Any]) -> list[str]:
    """Return the keys of a volume that name its source."""
    given = (key for key, source in volume.items() if source is not None)
    return [key for key in given if key != "name"]


def values(value: Any, key: str) -> list[Any]:
    """Return the list at this key; an empty one if there is none."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def texts(value: Any, key: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a list with their numbers."""
    for number, item in enumerate(values(value, key)):
        if isinstance(item, str):
            yield number, item


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
