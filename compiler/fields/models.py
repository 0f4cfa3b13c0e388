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
from compiler.fields.duration import parse_duration
from compiler.fields.quantity import parse_quantity
from compiler.fields.timestamp import parse_timestamp

UNKNOWN_FIELD = declare_rule(
    "GP202",
    "error",
    "unknown field",
    """The kind has no such field; the cluster would drop it silently. Fix: correct the spelling or the place, see
    `gangplan schema KIND`.""",
)
MISSING_FIELD = declare_rule("GP203", "error", "missing field", "The kind requires the field. Fix: add it.")
WRONG_TYPE = declare_rule(
    "GP204",
    "error",
    "wrong type",
    "The value has another type than the field. Fix: see the message; quoted numbers are text.",
)
NOT_ALLOWED = declare_rule(
    "GP205",
    "error",
    "value not allowed",
    "The field takes one of a few values. Fix: use one of those that the message lists.",
)
OUT_OF_RANGE = declare_rule(
    "GP206",
    "error",
    "value out of range",
    """The number, text or list is smaller, larger, shorter or longer than allowed. Fix: write a value in the range
    that the message names.""",
)
FRACTIONAL_DEVICE = declare_rule(
    "GP209",
    "error",
    "fraction of a device",
    """Devices and other extended resources (names with a slash) and pods are counted in whole numbers; Kubernetes
    refuses fractions. Fix: write a whole number.""",
)
MISSPELT_POD_FIELD = declare_rule(
    "GP210",
    "error",
    "misspelt field in a pod template",
    """A field of a pod or container that Kubernetes does not have, but nearly. It would be dropped silently.
    Fields unlike any known one pass. Fix: correct the spelling.""",
)
BAD_NAME = declare_rule(
    "GP211",
    "error",
    "name not valid in Kubernetes",
    """Names are lower-case letters, digits, - and (where a whole DNS name is allowed) dots; they begin and end
    with a letter or digit. Fix: rename the object.""",
)
BAD_TIME = declare_rule(
    "GP214",
    "error",
    "time or duration cannot be read",
    "A time is RFC 3339 (2026-01-31T12:00:00Z); a duration is a number of seconds or like 1h30m. Fix: write it so.",
)
UNKNOWN_ANNOTATION = declare_rule(
    "GP217",
    "warning",
    "unknown annotation of gangplan",
    "Nothing reads an annotation under gangplan.dev/ that gangplan does not know. Fix: correct the spelling.",
)
MISSPELT_KEY = declare_rule(
    "GP244",
    "warning",
    "misspelt label or annotation of Volcano",
    """The key is one or two letters away from one that Volcano reads, and nothing reads it as it is.
    Fix: correct the spelling.""",
)
UNREAD_POD_GROUP = declare_rule(
    "GP245",
    "warning",
    "name of a pod group that is not read",
    """Of scheduling.k8s.io/group-name and scheduling.volcano.sh/group-name Volcano's scheduler reads the first only.
    Pods that have the second alone are in no group of that name. Fix: write the first.""",
)
METADATA_NOT_TEXT = declare_rule(
    "GP218",
    "error",
    "label or annotation is not text",
    """The values of labels and annotations are text; Kubernetes refuses the whole object for a number or a
    boolean. (The MetaX annotations are often written as numbers, and read; that is a warning.) Fix: quote the
    value.""",
)
FOREIGN_GATE = declare_rule(
    "GP226",
    "info",
    "pods behind the scheduling gate of another",
    """No scheduler looks at a pod before all its schedulingGates are gone. gangplan removes its own only, and the
    plan has the pods start as though there were no other. Fix: nothing if something removes the gate in time;
    otherwise remove it.""",
)
LOST_UNIT = declare_rule(
    "GP215",
    "warning",
    "memory of a few bytes",
    """Memory without a unit is bytes, and the unit m means thousandths: 512m is half a byte. An amount below 1Mi has a
    wrong unit or none. Fix: write M or Mi, G or Gi.""",
)


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
