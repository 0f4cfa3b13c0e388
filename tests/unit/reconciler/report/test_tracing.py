"""Spans reach a collector; one that is not there, or hangs, holds nothing up."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reconciler.cluster.preflight import CannotStartError
from reconciler.report.tracing import END_SECONDS, Tracing, open_tracing
from tests.builders.api_servers import serving


@dataclass(frozen=True)
class Collector:
    """Where a collector listens, and what it got. It answers while it is released."""

    url: str
    got: list[tuple[str, ExportTraceServiceRequest]]
    released: threading.Event


class Handler(BaseHTTPRequestHandler):
    got: list[tuple[str, ExportTraceServiceRequest]]
    released: threading.Event

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.released.wait(60)
        self.got.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    got, released = list[tuple[str, ExportTraceServiceRequest]](), threading.Event()
    with serving(Handler, got=got, released=released) as port:
        before = {*threading.enumerate()}
        yield Collector(f"http://127.0.0.1:{port}/", got, released)
        released.set()
        for thread in {*threading.enumerate()} - before:
            thread.join(30)  # an exporter that lives on draws random numbers in the middle of another test


def test_phases_are_below_their_pass_and_a_compile_has_the_time_that_it_took() -> None:
    exporter, tracing = InMemorySpanExporter(), Tracing()
    tracing.export_to(exporter, "demo")
    with suppress(OSError), tracing.span("pass", revision="c0ffee"):
        with tracing.span("observe"):
            tracing.record("compile", 2.5, commit="c0ffee")
        raise OSError("no")
    tracing.stop()
    compile_, observe, whole = exporter.get_finished_spans()
    assert [each.name for each in (compile_, observe, whole)] == ["compile", "observe", "pass"]
    assert observe.parent == whole.context
    assert whole.attributes == {"revision": "c0ffee"}
    assert whole.status.description == "OSError: no"
    assert (compile_.end_time or 0) - (compile_.start_time or 0) == 2_500_000_000
    assert whole.resource.attributes["gangplan.cluster"] == "demo"


@pytest.mark.parametrize("hangs", [False, True])
def test_a_collector_gets_the_spans_and_one_that_hangs_holds_nothing_up(collector: Collector, hangs: bool) -> None:
    if not hangs:
        collector.released.set()
    tracing = open_tracing(collector.url, "demo")
    for _ in range(3000 if hangs else 1):
        with tracing.span("pass"):
            pass
    thread = threading.Thread(target=tracing.stop)
    thread.start()
    thread.join(END_SECONDS + 30)
    assert not thread.is_alive()
    spans = [
        (path, span.name)
        for path, request in collector.got
        for scope in request.resource_spans[0].scope_spans
        for span in scope.spans
    ]
    assert spans == ([] if hangs else [("/v1/traces", "pass")])


def test_no_address_makes_nothing_and_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing = open_tracing("", "demo")
    with tracing.span("pass"):
        tracing.record("compile", 1.0)
    tracing.stop()
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(CannotStartError, match=r"--traces needs .* pip install 'gangplan\[traces\]'"):
        open_tracing("http://collector:4318", "demo")
