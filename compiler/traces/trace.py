"""The common form of every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


class TraceError(ValueError):
    """The file is not a readable trace; the text has a line for each problem."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One line of a trace. Times in seconds, `submit` since any moment. duration: None for a job that has not
    ended. requested: None where the trace states none.
    devices: over all pods. share: thousandths of each device. cpu (millicores) and memory (bytes): of the job. models:
    of devices that it may use, empty for any."""

    id: str
    submit: float
    duration: float | None
    requested: float | None
    devices: int
    share: int = 1000
    cpu: int = 0
    memory: int = 0
    models: tuple[str, ...] = ()
    queue: str = ""
    user: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """jobs: by submission. left_out: why lines are not jobs -> their number. machines: of the cluster, if stated.
    origin: the moment from which a replay counts its seconds; the first arrival, if the trace has dates. notes: further
    assumptions of a replay, a sentence each."""

    jobs: Sequence[TraceJob]
    left_out: Mapping[str, int] = field(default_factory=dict)
    machines: int | None = None
    origin: float = 0.0
    notes: Sequence[str] = ()
