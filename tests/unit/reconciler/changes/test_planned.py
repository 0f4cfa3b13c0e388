"""Which run of a job is to be now: what an operator asked for, and never one that is over."""

from __future__ import annotations

from compiler.emit.manifest import Manifest
from reconciler.changes.planned import PlannedRuns

JOBS = {"job": Manifest(5, {}, "", "a")}


def test_a_rerun_is_another_run_of_the_same_digest_and_happens_once() -> None:
    assert PlannedRuns(JOBS).of("job") == "a"
    assert PlannedRuns(JOBS, {"job": ("a", 2)}, {"job": "a"}).of("job") == "a#2"
    assert PlannedRuns(JOBS, {}, {"job": "a#2"}).of("job") == "a#2", "what an operator deletes runs nothing again"
    assert PlannedRuns(JOBS).of("other", "as it was") == "as it was"


def test_a_rerun_of_another_specification_is_ignored() -> None:
    assert PlannedRuns(JOBS, {"job": ("former", 2)}, {"job": "former#7"}).of("job") == "a"
