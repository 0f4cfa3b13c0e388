"""Metrics in the text format of Prometheus, a registry for each reconciler."""

from __future__ import annotations

import time

import pytest

from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedGang
from reconciler.changes.results import ChangeResult, Condition, Effects
from reconciler.cluster.objects import Ref
from reconciler.report.metrics import Metrics
from reconciler.report.status import Report

QUEUE = Ref("scheduling.volcano.sh/v1beta1", "Queue", "", "team")
JOB = Ref("batch.volcano.sh/v1alpha1", "Job", "default", "train")
DONE = Effects((ChangeResult(Change("update", QUEUE), "done"),) * 2, lifted={JOB.key: 4}, evicted=("Pod d/victim",))
APPLIED = Condition("Applied", True, "Applied")
REPORT = Report("c0ffee", "c0ffee", (APPLIED,), gangs=(PlannedGang(JOB, "wait"),), done=DONE)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def sample(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(f"gangplan_{name}", labels) or 0.0


def test_a_report_is_counted_and_a_decision_that_no_job_has_any_more_is_zero(metrics: Metrics) -> None:
    metrics.record_report(REPORT, 0.2)
    assert sample(metrics, "passes_total", result="good") == 1
    changes = {"action": "update", "kind": "Queue.scheduling.volcano.sh", "outcome": "done"}
    assert sample(metrics, "changes_total", **changes) == 2
    assert sample(metrics, "gates_lifted_total") == 4
    assert sample(metrics, "evictions_total") == 1
    assert sample(metrics, "condition", type="Applied") == 1
    assert [sample(metrics, "pass_seconds_bucket", le=limit) for limit in ("0.1", "0.3")] == [0, 1]
    assert sample(metrics, "gangs", decision="wait") == 1
    metrics.record_report(Report("c0ffee", "c0ffee", ()), 0.2)
    assert 'gangplan_gangs{decision="wait"} 0.0' in metrics.text().splitlines()


def test_phases_and_fetches_are_timed(metrics: Metrics) -> None:
    with metrics.time_phase("act"):
        pass
    assert sample(metrics, "phase_seconds_count", phase="act") == 1
    metrics.record_fetch(True, 0.2)
    metrics.record_fetch(False, 50.0)
    assert sample(metrics, "git_fetches_total", result="failed") == 1
    assert sample(metrics, "git_fetch_seconds_sum") == 50.2


def test_ages_count_from_what_was_good_last(metrics: Metrics) -> None:
    now = time.monotonic()
    metrics.fetched_at = now - 100
    metrics.record_report(REPORT, 0.2)
    metrics.refresh_ages(now - 50)
    assert 100 <= sample(metrics, "git_last_fetch_age_seconds") < 200
    assert 50 <= sample(metrics, "last_good_pass_age_seconds") < 150
    assert sample(metrics, "revision_info", commit="c0ffee") == 1
    age = sample(metrics, "revision_age_seconds")
    metrics.record_report(REPORT, 0.2)
    metrics.refresh_ages(now)
    assert sample(metrics, "revision_age_seconds") >= age, "the same commit goes on"
    metrics.record_report(Report("beef", "beef", ()), 0.2)
    metrics.refresh_ages(now)
    assert sample(metrics, "revision_info", commit="c0ffee") == 0
