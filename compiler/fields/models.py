"""Pydantic base models and field types, with the rules of their errors."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from compiler.diagnostics.diagnostic import declare_rule
from compiler.fields.quantity import parse_quantity
from compiler.fields.times import parse_duration, parse_timestamp

UNKNOWN_FIELD = declare_rule("GP202", "error")
MISSING_FIELD = declare_rule("GP203", "error")
WRONG_TYPE = declare_rule("GP204", "error")
NOT_ALLOWED = declare_rule("GP205", "error")
OUT_OF_RANGE = declare_rule("GP206", "error")
FRACTIONAL_DEVICE = declare_rule("GP209", "error")
MISSPELT_POD_FIELD = declare_rule("GP210", "error")
BAD_NAME = declare_rule("GP211", "error")
BAD_TIME = declare_rule("GP214", "error")
UNKNOWN_ANNOTATION = declare_rule("GP217", "warning")
MISSPELT_KEY = declare_rule("GP244", "warning")
UNREAD_POD_GROUP = declare_rule("GP245", "warning")
METADATA_NOT_TEXT = declare_rule("GP218", "error")
FOREIGN_GATE = declare_rule("GP226", "info")
LOST_UNIT = declare_rule("GP215", "warning")


class OwnModel(BaseModel):
    """A mapping of a kind that is ours, of which all fields are known: its JSON schema is the kind's."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, defer_build=True)


class LenientModel(BaseModel):
    """A mapping of which some fields are read; others pass, and the schema of its kind reports their faults."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, alias_generator=to_camel, defer_build=True)


def below(path: str) -> AliasPath:
    """Where a field is that lies deeper in the mapping: "template.spec.parallelism"."""
    return AliasPath(*path.split("."))


def without_nulls(data: Any) -> Any:
    """Return the data without fields that are null: to the API server such a field is not there."""
    if isinstance(data, dict):
        return {
            key: without_nulls(value) if isinstance(value, _COLLECTIONS) else value
            for key, value in data.items()
            if value is not None
        }
    return [without_nulls(item) for item in data] if isinstance(data, list) else data


_COLLECTIONS = (dict, list)


def _integral_float_to_int(value: Any) -> Any:
    """3.0 and 3e0 as 3, which is how Kubernetes stores them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Int = Annotated[int, BeforeValidator(_integral_float_to_int)]
Bool = StrictBool
Name = Annotated[str, StringConstraints(max_length=253)]


Quantity = Annotated[
    Fraction,
    PlainValidator(parse_quantity),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": r"^\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i)?$"},
                {"type": "number", "minimum": 0},
            ],
            "format": "quantity",
        }
    ),
]
Resources = dict[str, Quantity]


Seconds = Annotated[
    int,
    PlainValidator(parse_duration),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}], "format": "duration"}),
]


Timestamp = Annotated[int, PlainValidator(parse_timestamp), WithJsonSchema({"type": "string", "format": "date-time"})]
"""Seconds since the epoch of an RFC 3339 time."""
