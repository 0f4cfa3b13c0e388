"""Spans of passes, their phases and compiles for OpenTelemetry, sent to a collector (OTLP over HTTP) where one is
given: which phase of which pass kept a commit waiting. A thread of the SDK sends them, and drops what nobody takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compiler.version import VERSION
from reconciler.cluster.preflight import CannotStartError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

EXPORT_SECONDS, END_SECONDS = 5.0, 2.0  # for one export, and for the rest at the exit of the process


class Tracing:
    """Makes spans in the loop's thread; without a tracer it makes none."""

    def __init__(self) -> None:
        self._tracer: Tracer | None = None
        self._end = lambda: None

    def export_to(self, exporter: SpanExporter, cluster: str) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        attributes = {"service.name": "gangplan", "service.version": VERSION, "gangplan.cluster": cluster}
        provider = TracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer, self._end = provider.get_tracer("gangplan", VERSION), provider.shutdown

    @contextmanager
    def span(self, name: str, **attributes: str) -> Iterator[None]:
        """Open a span around the block, below the current one. An exception is noted on it."""
        if self._tracer is None:
            yield
            return
        with self._tracer.start_as_current_span(name, attributes=attributes):
            yield

    def record(self, name: str, seconds: float, **attributes: str) -> None:
        """A span of what has ended now and took so long in another process."""
        if self._tracer is not None:
            ended_at = time.time_ns()
            span = self._tracer.start_span(name, attributes=attributes, start_time=ended_at - int(seconds * 1e9))
            span.end(ended_at)

    def stop(self) -> None:
        """Send the rest, as far as that is quick."""
        thread = threading.Thread(target=self._end, name="tracing", daemon=True)
        thread.start()
        thread.join(END_SECONDS)


def open_tracing(url: str, cluster: str) -> Tracing:
    """Tracing to the collector at this address; none for an empty one. Raises CannotStartError without the packages."""
    tracing = Tracing()
    if url:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            message = "--traces needs packages that are missing: pip install 'gangplan[traces]'"
            raise CannotStartError(message) from error
        exporter = OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces", timeout=EXPORT_SECONDS)
        tracing.export_to(exporter, cluster)
    return tracing
