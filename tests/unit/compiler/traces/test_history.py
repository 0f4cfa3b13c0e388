"""A repository's history as a trace: submissions by commits, run times by records."""

from __future__ import annotations

import pytest

from compiler.cluster_state.run_records import RecordedRun
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import Specs
from compiler.traces.history import history_trace
from compiler.traces.trace import TraceError
from tests.builders.repositories import CONTAINER, FILES, JOB

A, B = ("default", "a", "Job"), ("default", "b", "Job")
EXPECTED = "metadata: {name: NAME, annotations: {gangplan.dev/expected-duration: 90s}}"
SERVICE = f"""\
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: NAME}}
spec: {{replicas: 1, leaderWorkerTemplate: {{size: 2, workerTemplate: {{spec: {CONTAINER}}}}}}}
"""


def specs(**jobs: str) -> Specs:
    """The repository with these jobs, by name."""
    files = {f"jobs/{name}.yaml": text.replace("NAME", name).encode() for name, text in jobs.items()}
    return read_specs(Repository.of_files({"cluster-specs/t/all.yaml": FILES["cluster-specs/t/all.yaml"], **files}))


def test_a_job_is_submitted_when_it_appears_changes_or_appears_again() -> None:
    larger = JOB.replace("replicas: 2", "replicas: 3")
    versions = [
        (100, specs(a=JOB)),
        (110, specs(a=JOB, b=JOB)),
        (120, specs(a=larger, b=JOB)),
        (115, specs(b=JOB)),  # a clock that is late
        (130, specs(a=larger, b=JOB)),
    ]
    found = history_trace(versions, {A: [RecordedRun(100, 105)]})
    assert [(job.id, job.submit, job.cpu) for job in found.jobs] == [
        ("Job default/a 1", 100, 8000),
        ("Job default/b 1", 110, 8000),
        ("Job default/a 2", 120, 12000),
        ("Job default/a 3", 130, 12000),
    ]
    assert found.origin == 100
    assert {job.duration for job in found.jobs} == {5}
    assert found.notes == (
        "Jobs are submitted by commits. Run times by source: median of the namespace: 3, recorded runs: 1.",
    )


def test_a_commit_that_breaks_the_file_of_a_job_and_its_repair_submit_nothing() -> None:
    larger = JOB.replace("replicas: 2", "replicas: 3")
    unknown = JOB.replace("spec:", "spec: {queue: nowhere}\n  x:", 1)
    versions = [
        (100, specs(a=JOB, b=JOB)),
        (110, specs(a="{", b=unknown)),
        (120, specs(a=JOB, b=larger)),
        (130, specs(b=larger)),
        (140, specs(a=JOB, b=larger)),
    ]
    found = history_trace(versions, {A: [RecordedRun(100, 105)]})
    assert [(job.id, job.submit) for job in found.jobs] == [
        ("Job default/a 1", 100),
        ("Job default/b 1", 100),
        ("Job default/b 2", 120),
        ("Job default/a 2", 140),
    ]


def test_runs_belong_to_the_submission_before_them_and_reruns_come_when_they_started() -> None:
    versions = [(100, specs(a=JOB)), (200, specs(a=JOB.replace("replicas: 2", "replicas: 1")))]
    runs = [RecordedRun(260, 300), RecordedRun(90, 140), RecordedRun(150, 170)]
    found = history_trace(versions, {A: runs}).jobs
    assert [(job.id, job.submit, job.duration) for job in found] == [
        ("Job default/a 1", 100, 50),  # it began before its commit by another clock
        ("Job default/a 1.2", 150, 20),
        ("Job default/a 2", 200, 40),
    ]


def test_an_expected_duration_is_believed_and_never_cuts_a_run_short() -> None:
    expected = JOB.replace("metadata: {name: NAME}", EXPECTED)
    found = history_trace([(0, specs(a=expected, b=expected))], {A: [RecordedRun(0, 200)]}).jobs
    assert [(job.duration, job.requested) for job in found] == [(200, 200), (90, 90)]


def test_a_job_of_unknown_run_time_and_a_service_are_left_out_and_counted() -> None:
    expected = JOB.replace("metadata: {name: NAME}", EXPECTED)
    found = history_trace([(0, specs(a=expected, b=JOB, s=SERVICE))], {})
    assert [job.id for job in found.jobs] == ["Job default/a 1"]
    assert found.left_out == {"run time unknown": 1, "service": 1}
    with pytest.raises(TraceError, match="no job of the history has a known run time"):
        history_trace([(0, specs(b=JOB, s=SERVICE))], {})
