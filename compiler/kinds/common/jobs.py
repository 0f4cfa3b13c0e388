"""Parts of job kinds: metadata, network topology, annotations of gangplan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.duration import parse_duration
from compiler.fields.models import BAD_TIME, Int, LenientModel, OwnModel
from compiler.fields.timestamp import parse_timestamp
from compiler.kubernetes import EXPECTED_DURATION_ANNOTATION, SUBMITTED_AT_ANNOTATION
from compiler.specs.gang_spec import JobTimes, TopologySpec
from compiler.syntax.documents import Document

Natural = Annotated[Int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[Int, Field(ge=1, le=2**31 - 1)]


class Metadata(LenientModel):
    name: str
    namespace: str | None = None
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None


class OwnObject(OwnModel):
    """A whole document of a kind that is ours. status is what a cluster wrote; it is not ours to judge."""

    api_version: str
    kind: str
    metadata: Metadata
    status: Any = None


class NetworkTopology(LenientModel):
    """Below tier 1 there is no hypernode: a soft topology of tier 0 asks for none."""

    mode: Literal["hard", "soft"] | None = None
    highest_tier_allowed: Int | None = None
    highest_tier_name: str | None = None

    def to_spec(self) -> TopologySpec:
        return TopologySpec(self.mode or "hard", self.highest_tier_allowed or None, self.highest_tier_name)


def annotation_value(document: Document, key: str) -> Any:
    return (document.metadata.get("annotations") or {}).get(key)


def job_times(document: Document) -> JobTimes:
    """None for a malformed value, which `time_diagnostics` reports."""
    submitted_at = _read_annotation(document, SUBMITTED_AT_ANNOTATION, parse_timestamp)
    return JobTimes(submitted_at, _read_annotation(document, EXPECTED_DURATION_ANNOTATION, parse_duration))


def _read_annotation(document: Document, key: str, reader: Any) -> int | None:
    try:
        return None if (value := annotation_value(document, key)) is None else int(reader(value))
    except ValueError:
        return None


def time_diagnostics(document: Document) -> Iterator[Diagnostic]:
    for key, reader, help in (
        (SUBMITTED_AT_ANNOTATION, parse_timestamp, "write a time such as 2026-01-31T12:00:00Z"),
        (EXPECTED_DURATION_ANNOTATION, parse_duration, "write seconds, or like 1h30m or 2d"),
    ):
        if (value := annotation_value(document, key)) is not None and _read_annotation(document, key, reader) is None:
            path = ("metadata", "annotations", key)
            yield document.diagnostic(BAD_TIME, path, f"{key}: {value!r} cannot be read", help)
