"""What Prometheus reads: counters, gauges and histograms of one reconciler."""

from __future__ import annotations

from collections import Counter as Tally
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from compiler.outcome import JobAction
from reconciler.publish.status import Report

PASS_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
COMPILE_BUCKETS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 600.0)


class Metrics:
    """The metrics, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.passes = Counter(
            "gangplan_passes_total", "Passes of the loop, by result (good, failed).", ["result"], registry=registry
        )
        self.pass_seconds = Histogram(
            "gangplan_pass_seconds", "Duration of a good pass.", buckets=PASS_BUCKETS, registry=registry
        )
        self.compiles = Counter(
            "gangplan_compiles_total", "Compiles, by result (good, rejected).", ["result"], registry=registry
        )
        self.compile_seconds = Histogram(
            "gangplan_compile_seconds", "Duration of a compile.", buckets=COMPILE_BUCKETS, registry=registry
        )
        self.changes = Counter(
            "gangplan_changes_total",
            "Changes that were tried, by action, kind of object and outcome.",
            ["action", "kind", "outcome"],
            registry=registry,
        )
        self.gates_lifted = Counter(
            "gangplan_gates_lifted_total", "Pods that were given their node.", registry=registry
        )
        self.evictions = Counter("gangplan_evictions_total", "Pods that were evicted.", registry=registry)
        self.condition = Gauge(
            "gangplan_condition", "1 for a condition that holds, else 0.", ["type"], registry=registry
        )
        self.gangs = Gauge("gangplan_gangs", "Jobs of the plan in force, by decision.", ["decision"], registry=registry)
        self.leader = Gauge("gangplan_leader", "1 for the replica that acts, else 0.", registry=registry)
        self.watch_relists = Gauge(
            "gangplan_watch_relists", "How often a kind was listed again.", ["kind"], registry=registry
        )
        self.watch_event_age = Gauge(
            "gangplan_watch_event_age_seconds",
            "Seconds since the last event or list of a kind, or since it was to be watched if none has come.",
            ["kind"],
            registry=registry,
        )
        self.watch_synced = Gauge(
            "gangplan_watch_synced",
            "1 for a kind whose objects are known for certain, else 0.",
            ["kind"],
            registry=registry,
        )
        self.thread_errors = Gauge(
            "gangplan_thread_errors", "Unexpected errors that a thread has survived.", ["thread"], registry=registry
        )

    def record_report(self, report: Report, seconds: float) -> None:
        """Count one good pass of this duration and what it did."""
        self.passes.labels(result="good").inc()
        self.pass_seconds.observe(seconds)
        for condition in report.conditions:
            self.condition.labels(type=condition.type).set(condition.status)
        decisions = Tally(gang.decision for gang in report.gangs)
        for decision in get_args(JobAction):
            self.gangs.labels(decision=decision).set(decisions[decision])
        for result in report.results:
            kind = result.change.ref.group_kind
            self.changes.labels(action=result.change.action, kind=kind, outcome=result.outcome).inc()
        self.gates_lifted.inc(sum(report.lifted_gates.values()))
        self.evictions.inc(len(report.evicted_pods))

    def text(self) -> str:
        """All of them in the text format of Prometheus."""
        return generate_latest(self.registry).decode()
