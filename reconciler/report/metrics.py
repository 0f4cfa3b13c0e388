"""The metrics for Prometheus: counters, gauges and histograms of one reconciler."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from compiler.decided import JobAction
from reconciler.changes.results import ChangeResult
from reconciler.report.status import Report

PASS_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
COMPILE_BUCKETS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 600.0)
FETCH_BUCKETS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class Metrics:
    """The metrics, in a registry of their own. Ages are set when they are asked for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._revision, self._revision_since, self.fetched_at = "", 0.0, time.monotonic()

        self.passes = self._counter("passes", "Passes of the loop, by result (good, failed).", "result")
        self.pass_seconds = self._histogram("pass", "Duration of a good pass.", PASS_BUCKETS)
        self.phase_seconds = self._histogram("phase", "Duration of a phase of a pass.", PASS_BUCKETS, "phase")
        self.compiles = self._counter("compiles", "Compiles, by result (good, rejected, broken).", "result")
        self.compile_seconds = self._histogram("compile", "Duration of a compile.", COMPILE_BUCKETS)
        tried = "Changes that were tried, by action, kind of object and outcome."
        self.changes = self._counter("changes", tried, "action", "kind", "outcome")
        self.gates_lifted = self._counter("gates_lifted", "Pods that were given their node.")
        self.evictions = self._counter("evictions", "Pods that were evicted.")

        self.condition = self._gauge("condition", "1 for a condition that holds, else 0.", "type")
        self.gangs = self._gauge("gangs", "Jobs of the plan in force, by decision.", "decision")
        self.leader = self._gauge("leader", "1 for the replica that acts, else 0.")
        self.revision_info = self._gauge("revision_info", "1 for the commit whose plan is in force.", "commit")
        self.revision_age = self._gauge("revision_age_seconds", "Seconds since that commit came into force here.")
        self.pass_age = self._gauge("last_good_pass_age_seconds", "Seconds since the last good pass.")
        self.prune_held = self._gauge("prune_held", "Objects that left the repository and are not deleted.")
        self.suspects = self._gauge("suspects", "Nodes that are closed to a gang that was not bound there, in pairs.")

        self.fetches = self._counter("git_fetches", "Fetches of the branch, by result (good, failed).", "result")
        self.fetch_seconds = self._histogram("git_fetch", "Duration of a fetch.", FETCH_BUCKETS)
        self.fetch_age = self._gauge("git_last_fetch_age_seconds", "Seconds since a fetch went well, or the start.")
        self.watch_relists = self._gauge("watch_relists", "How often a kind was listed again.", "kind")
        age = "Seconds since the last event or list of a kind, or since it was to be watched if none has come."
        self.watch_event_age = self._gauge("watch_event_age_seconds", age, "kind")
        synced = "1 for a kind whose objects are known for certain, else 0."
        self.watch_synced = self._gauge("watch_synced", synced, "kind")
        self.events_dropped = self._gauge("events_dropped", "Events for which there was no room since the start.")
        self.thread_errors = self._gauge("thread_errors", "Unexpected errors that a thread has survived.", "thread")

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"gangplan_{name}_total", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"gangplan_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        return Histogram(f"gangplan_{name}_seconds", text, labels, buckets=buckets, registry=self.registry)

    @contextmanager
    def time_phase(self, phase: str) -> Iterator[None]:
        """Observe how long the body takes, also where it ends in an error."""
        began_at = time.monotonic()
        try:
            yield
        finally:
            self.phase_seconds.labels(phase=phase).observe(time.monotonic() - began_at)

    def record_compile(self, seconds: float, result: str) -> None:
        """Count a compile that has ended. result: "good", "rejected", "broken", or "repeated": it asked for a ConfigMap
        that was not read."""
        self.compile_seconds.observe(seconds)
        self.compiles.labels(result=result).inc()

    def record_fetch(self, good: bool, seconds: float) -> None:
        self.fetches.labels(result="good" if good else "failed").inc()
        self.fetch_seconds.observe(seconds)
        if good:
            self.fetched_at = time.monotonic()

    def record_report(self, report: Report, seconds: float) -> None:
        """Count one successful pass of this duration and its effects."""
        self.passes.labels(result="good").inc()
        self.pass_seconds.observe(seconds)
        for condition in report.conditions:
            self.condition.labels(type=condition.type).set(condition.status)
        decisions = Tally(gang.decision for gang in report.gangs)
        for decision in get_args(JobAction):
            self.gangs.labels(decision=decision).set(decisions[decision])
        self.record_results(report.done.results)
        self.gates_lifted.inc(sum(report.done.lifted.values()))
        self.evictions.inc(len(report.done.evicted))
        if report.commit != self._revision:
            self._revision, self._revision_since = report.commit, time.monotonic()

    def record_results(self, results: Iterable[ChangeResult]) -> None:
        for result in results:
            kind = result.change.ref.group_kind
            self.changes.labels(action=result.change.action, kind=kind, outcome=result.outcome).inc()

    def refresh_ages(self, last_good_pass: float) -> None:
        """Set what grows by itself. last_good_pass: on the monotonic clock."""
        now = time.monotonic()
        self.pass_age.set(now - last_good_pass)
        self.fetch_age.set(now - self.fetched_at)
        self.revision_info.clear()
        if self._revision:
            self.revision_info.labels(commit=self._revision).set(1)
            self.revision_age.set(now - self._revision_since)

    def text(self) -> str:
        return generate_latest(self.registry).decode()
