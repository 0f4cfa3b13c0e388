"""Metrics in the text format of Prometheus, a registry for each reconciler."""

from __future__ import annotations

import time

from reconciler.changes.diff import Change
from reconciler.changes.events import Condition
from reconciler.changes.planned_gangs import PlannedGang
from reconciler.changes.results import ChangeResult, Effects
from reconciler.cluster.objects import Ref
from reconciler.report.metrics import Metrics
from reconciler.report.status import Report

QUEUE = Ref("scheduling.volcano.sh/v1beta1", "Queue", "", "team")
JOB = Ref("batch.volcano.sh/v1alpha1", "Job", "default", "train")
REPORT = Report(
    "c0ffee",
    "c0ffee",
    (Condition("Applied", True, "Applied"),),
    gangs=(PlannedGang(JOB, "wait"),),
    done=Effects(
        (ChangeResult(Change("update", QUEUE), "done"),) * 2, lifted={JOB.key: 4}, evicted=("Pod default/victim",)
    ),
)


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_report_is_counted() -> None:
    metrics = Metrics()
    metrics.record_report(REPORT, 0.2)
    assert sample(metrics, "gangplan_passes_total", result="good") == 1
    changes = {"action": "update", "kind": "Queue.scheduling.volcano.sh", "outcome": "done"}
    assert sample(metrics, "gangplan_changes_total", **changes) == 2
    assert sample(metrics, "gangplan_gates_lifted_total") == 4
    assert sample(metrics, "gangplan_evictions_total") == 1
    assert sample(metrics, "gangplan_condition", type="Applied") == 1
    assert sample(metrics, "gangplan_pass_seconds_bucket", le="0.1") == 0
    assert sample(metrics, "gangplan_pass_seconds_bucket", le="0.3") == 1


def test_a_decision_that_no_job_has_any_more_is_zero() -> None:
    metrics = Metrics()
    metrics.record_report(REPORT, 0.2)
    assert sample(metrics, "gangplan_gangs", decision="wait") == 1
    metrics.record_report(Report("c0ffee", "c0ffee", ()), 0.2)
    assert sample(metrics, "gangplan_gangs", decision="wait") == 0


def test_the_text_explains_each_metric_and_escapes_labels() -> None:
    metrics = Metrics()
    metrics.watch_relists.labels(kind='odd "name"\n').set(3)
    lines = metrics.text().splitlines()
    assert 'gangplan_watch_relists{kind="odd \\"name\\"\\n"} 3.0' in lines
    assert "# TYPE gangplan_pass_seconds histogram" in lines
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert typed == {line.split()[2] for line in lines if line.startswith("# HELP")}


def test_two_reconcilers_share_no_metrics() -> None:
    first, second = Metrics(), Metrics()
    first.passes.labels(result="failed").inc()
    assert sample(second, "gangplan_passes_total", result="failed") is None


def test_phases_and_fetches_are_timed() -> None:
    metrics = Metrics()
    with metrics.time_phase("act"):
        pass
    assert sample(metrics, "gangplan_phase_seconds_count", phase="act") == 1
    metrics.record_fetch(True, 0.2)
    metrics.record_fetch(False, 50.0)
    assert sample(metrics, "gangplan_git_fetches_total", result="failed") == 1
    assert sample(metrics, "gangplan_git_fetch_seconds_sum") == 50.2


def test_ages_count_from_what_was_good_last() -> None:
    metrics = Metrics()
    now = time.monotonic()
    metrics.fetched_at = now - 100
    metrics.record_report(REPORT, 0.2)
    metrics.refresh_ages(now - 50)
    assert 100 <= (sample(metrics, "gangplan_git_last_fetch_age_seconds") or 0) < 200
    assert 50 <= (sample(metrics, "gangplan_last_good_pass_age_seconds") or 0) < 150
    assert sample(metrics, "gangplan_revision_info", commit="c0ffee") == 1
    age = sample(metrics, "gangplan_revision_age_seconds")
    metrics.record_report(REPORT, 0.2)
    metrics.refresh_ages(now)
    assert (sample(metrics, "gangplan_revision_age_seconds") or 0) >= (age or 0), "the same commit goes on"
    metrics.record_report(Report("beef", "beef", ()), 0.2)
    metrics.refresh_ages(now)
    assert sample(metrics, "gangplan_revision_info", commit="c0ffee") is None
