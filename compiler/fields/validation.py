"""Validation of documents: pydantic's errors as diagnostics with positions, and findings on labels and annotations."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import replace
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from compiler.diagnostics.diagnostic import (
    Diagnostic,
    Rule,
    Severity,
    did_you_mean,
    key_suggestion,
    meant,
    suggestion,
    to_write,
    unquoted,
)
from compiler.fields import quantity
from compiler.fields.models import (
    BAD_NAME,
    BAD_TIME,
    FRACTIONAL_DEVICE,
    METADATA_NOT_TEXT,
    MISSING_FIELD,
    MISSPELT_KEY,
    NOT_ALLOWED,
    OUT_OF_RANGE,
    UNKNOWN_ANNOTATION,
    UNKNOWN_FIELD,
    UNREAD_POD_GROUP,
    WRONG_TYPE,
)
from compiler.fields.volcano_keys import meant_key
from compiler.kubernetes import (
    ANNOTATION_PREFIX,
    API_GROUP,
    EXPECTED_DURATION_ANNOTATION,
    GANG_ANNOTATION,
    GROUP_NAME_ANNOTATION,
    KNOWN_ANNOTATIONS,
    METAX_PREFIX,
    ORDER_ANNOTATION,
    SUBMITTED_AT_ANNOTATION,
    VOLCANO_GROUP_NAME_ANNOTATION,
)
from compiler.syntax.documents import Document, FieldPath


def validate_document(document: Document, model: type[BaseModel]) -> tuple[Any, list[tuple[FieldPath, Diagnostic]]]:
    """The document as `model`, or None and every problem found with its path."""
    data = document.data if document.group == API_GROUP else without_nulls(document.data)
    try:
        return model.model_validate(data), []
    except ValidationError as problem:
        errors = problem.errors(include_url=False, include_input=True)
    return None, [_validation_diagnostic(document, model, dict(error)) for error in errors]


def readable_part(document: Document, model: type[BaseModel]) -> tuple[Document, Any] | None:
    """The document without the fields that its model refuses, and the model of the rest; None where that is refused
    too. No list loses an item, so that paths stay what they are."""
    paths: list[FieldPath] = [()]
    try:
        model.model_validate(document.data)
    except ValidationError as problem:
        paths = [_removable_path(document.data, tuple(error["loc"])) for error in problem.errors(include_url=False)]
    data = document.data
    for path in paths:
        if not path:
            return None
        data = _without_key(data, path)
    try:
        return replace(document, data=data), model.model_validate(data)
    except ValidationError:
        return None


def _removable_path(data: Any, loc: tuple[Any, ...]) -> FieldPath:
    """The longest part of `loc` that leads to a key of a mapping in `data`; empty for none."""
    path: FieldPath = ()
    for length, step in enumerate(loc, start=1):
        if isinstance(data, dict) and step in data:
            path = loc[:length]
        elif not (isinstance(data, list) and isinstance(step, int) and step < len(data)):
            break
        data = data[step]
    return path


def _without_key(data: Any, path: FieldPath) -> Any:
    """A copy of `data` without the key at `path`, if it is still there."""
    if isinstance(data, list):
        index = path[0]
        return [_without_key(item, path[1:]) if at == index else item for at, item in enumerate(data)]
    if not isinstance(data, dict) or path[0] not in data:
        return data
    if len(path) == 1:
        return {key: value for key, value in data.items() if key != path[0]}
    return {key: _without_key(value, path[1:]) if key == path[0] else value for key, value in data.items()}


def without_nulls(data: Any) -> Any:
    """The data without fields that are null: to the API server such a field is not there."""
    if isinstance(data, dict):
        return {
            key: without_nulls(value) if isinstance(value, _COLLECTIONS) else value
            for key, value in data.items()
            if value is not None
        }
    return [without_nulls(item) for item in data] if isinstance(data, list) else data


_COLLECTIONS = (dict, list)


def _annotation_help(key: str) -> str:
    """The annotation of gangplan that `key` resembles; what all of them begin with is no likeness."""
    known = {name.removeprefix(ANNOTATION_PREFIX): name for name in KNOWN_ANNOTATIONS}
    near = did_you_mean(key.removeprefix(ANNOTATION_PREFIX), known)
    return meant(key, known[near]) if near else f"the annotations are {', '.join(KNOWN_ANNOTATIONS)}"


_NEVER_LABELS = (EXPECTED_DURATION_ANNOTATION, GANG_ANNOTATION, ORDER_ANNOTATION, SUBMITTED_AT_ANNOTATION)


def _is_strange(key: str) -> bool:
    """Whether the key's prefix is meant to be gangplan's, and is another."""
    prefix = key.rpartition("/")[0]
    return prefix.startswith("gangplan") and f"{prefix}/" != ANNOTATION_PREFIX


_GROUP_NAMES = (GROUP_NAME_ANNOTATION, VOLCANO_GROUP_NAME_ANNOTATION)


def metadata_diagnostics(document: Document, data: Any, path: FieldPath) -> Iterator[Diagnostic]:
    """Findings on the labels and annotations of the metadata at `path`, a document's or a pod template's."""
    for section in ("labels", "annotations"):
        found = data.get(section) if isinstance(data, dict) else None
        for key, value in found.items() if isinstance(found, dict) else ():
            at = (*path, section, key)
            if value is not None and not isinstance(value, str):
                is_mild = key.startswith(METAX_PREFIX) and isinstance(value, int) and not isinstance(value, bool)
                severity: Severity = "warning" if is_mild else "error"
                message = f"{key} is {type_text(value)}, not text"
                yield document.diagnostic(
                    METADATA_NOT_TEXT, at, message, to_write(_as_text(value), help="quote the value"), severity=severity
                )
            elif section == "annotations" and key.startswith(ANNOTATION_PREFIX) and key not in KNOWN_ANNOTATIONS:
                yield document.diagnostic(UNKNOWN_ANNOTATION, at, f"nothing reads {key}", _annotation_help(key))
            elif (right := f"{ANNOTATION_PREFIX}{key.rpartition('/')[2]}") in KNOWN_ANNOTATIONS and _is_strange(key):
                yield document.diagnostic(UNKNOWN_ANNOTATION, at, f"nothing reads {key}", meant(key, right))
            elif section == "labels" and key in _NEVER_LABELS:
                yield document.diagnostic(
                    UNKNOWN_ANNOTATION, at, f"nothing reads the label {key}", "move it to annotations"
                )
            elif right := meant_key(key):
                yield document.diagnostic(MISSPELT_KEY, at, f"nothing reads {key}", meant(key, right))
    notes = data.get("annotations") if isinstance(data, dict) else None
    read, unread = [notes.get(key) for key in _GROUP_NAMES] if isinstance(notes, dict) else (None, None)
    is_of_pod = path != ("metadata",) or document.kind == "Pod"
    if unread and unread != read and (read or is_of_pod):
        at = (*path, "annotations", _GROUP_NAMES[1])
        message = f"{_GROUP_NAMES[0]} names {read!r}, this names {unread!r}"
        help = "remove this one"
        if not read:
            message, help = f"Volcano's scheduler does not read {_GROUP_NAMES[1]}", f"write {_GROUP_NAMES[0]}"
        yield document.diagnostic(UNREAD_POD_GROUP, at, message, help)


def _validation_diagnostic(
    document: Document, model: type[BaseModel], error: dict[str, Any]
) -> tuple[FieldPath, Diagnostic]:
    loc = tuple(error["loc"])
    present = _keys_around(document.data, loc)
    rule, message, help = _rule_and_texts(model, loc, error, present)
    path = tuple(part for part in loc if part != "[key]")
    explains: FieldPath = ()
    if rule is UNKNOWN_FIELD:
        _, near = key_suggestion(str(loc[-1]), _field_names(model, loc[:-1]), present, "")
        explains = (*path[:-1], near) if near else ()
    return path, document.diagnostic(rule, path, message, help, explains=explains)


def _keys_around(data: Any, loc: FieldPath) -> Container[str]:
    """The keys of the mapping in which the last step of `loc` is one."""
    for step in loc[:-1]:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return ()
    return data if isinstance(data, dict) else ()


def _rule_and_texts(
    model: type[BaseModel], loc: FieldPath, error: dict[str, Any], present: Container[str]
) -> tuple[Rule, str, str]:
    """(rule, message, help) of an error of pydantic at `loc`. present: the keys beside it."""
    error_type, context = error["type"], error.get("ctx", {})
    field, value = dotted_path(loc), error.get("input")
    if error_type in _RULES_BY_CODE:
        return _RULES_BY_CODE[error_type], f"{field}: {context['message']}", context["help"]
    if error_type == "extra_forbidden":
        known = _field_names(model, loc[:-1])
        fallback = f"the fields here are {', '.join(known)}" if known else "remove it"
        help, _ = key_suggestion(str(loc[-1]), known, present, fallback)
        return UNKNOWN_FIELD, f"{field} is no field of this kind", help
    if error_type == "missing":
        return MISSING_FIELD, f"{field} is missing", "add it"
    if error_type in ("literal_error", "enum"):
        allowed = f"allowed: {context['expected']}"
        help = suggestion(str(value), _quoted_words(context["expected"]), allowed, f" {allowed}")
        return NOT_ALLOWED, f"{field} is {short_repr(value)}", help
    if error_type in _RANGE_ERRORS:
        return _range_texts(field, value, context)
    if error_type == "string_pattern_mismatch":
        return (
            BAD_NAME,
            f"{field}: {short_repr(value)} is not a valid name",
            "use lower-case letters, digits and -, beginning and ending with a letter or digit",
        )
    return (
        WRONG_TYPE,
        f"{field} is {type_text(value)}, not {EXPECTED_TYPES.get(error_type, error_type.replace('_', ' '))}",
        type_help(error_type, value),
    )


def _range_texts(field: str, value: object, context: dict[str, Any]) -> tuple[Rule, str, str]:
    least = next((context[key] for key in ("ge", "gt", "min_length") if key in context), None)
    most = next((context[key] for key in ("le", "lt", "max_length") if key in context), None)
    what = (
        f"has {len(value)} {'characters' if isinstance(value, str) else 'items'}"
        if isinstance(value, str | list | dict)
        else f"is {short_repr(value)}"
    )
    if least is not None:
        return OUT_OF_RANGE, f"{field} {what}", f"the least is {least}"
    return OUT_OF_RANGE, f"{field} {what}", f"the most is {most}" if "lt" not in context else f"it must be below {most}"


_RULES_BY_CODE = {
    rule.code: rule
    for rule in (
        quantity.NOT_A_QUANTITY,
        quantity.NEGATIVE_QUANTITY,
        BAD_TIME,
        FRACTIONAL_DEVICE,
        NOT_ALLOWED,
        OUT_OF_RANGE,
        MISSING_FIELD,
        BAD_NAME,
        WRONG_TYPE,
    )
}
_RANGE_ERRORS = frozenset(
    (
        "greater_than",
        "greater_than_equal",
        "less_than",
        "less_than_equal",
        "too_short",
        "too_long",
        "string_too_long",
        "string_too_short",
        "int_parsing_size",
    )
)
EXPECTED_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def type_text(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {short_repr(value)}"
        case int() | float():
            return f"the number {short_repr(value)}"
        case list():
            return "a list"
        case _:
            return "a mapping"


def type_help(error_type: str, value: object) -> str:
    if error_type in ("int_type", "float_type") and value not in ("true", "false") and (bare := unquoted(value)):
        return bare
    if error_type == "string_type" and isinstance(value, int | float):
        return to_write(_as_text(value), help="quote it")
    if value is None:
        return "give it a value, or remove the field"
    if isinstance(value, str) and error_type == "bool_type":
        return "write true or false, unquoted"
    return f"write {EXPECTED_TYPES.get(error_type, 'another value')}"


def _as_text(value: object) -> str:
    """A scalar as YAML reads it in quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _quoted_words(expected: str) -> list[str]:
    return re.findall(r"'([^']*)'", expected)


def dotted_path(loc: FieldPath) -> str:
    """("spec", "tasks", 0, "name") as spec.tasks[0].name."""
    return (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc if part != "[key]").lstrip(".")
        or "the document"
    )


def _field_names(model: type[BaseModel], path: FieldPath) -> list[str]:
    """The field names of the model at `path` of `model`; none where that is no model."""
    found = _model_at(model, path)
    return [field.alias or name for name, field in found.model_fields.items()] if found is not None else []


def _model_at(annotation: Any, path: FieldPath) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not path:
            return annotation
        for name, field in annotation.model_fields.items():
            if (field.alias or name) == path[0]:
                return _model_at(field.annotation, path[1:])
        return None
    arguments = [argument for argument in get_args(annotation) if argument is not type(None)]
    if not arguments:
        return None
    container = get_origin(annotation)
    return _model_at(
        arguments[-1] if container is dict else arguments[0], path[1:] if container in (list, dict) else path
    )
