"""Windows of start times in a plan: from recorded runs, kept on the job, and scored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState, load_state
from compiler.cluster_state.run_records import RUN_RECORDS, StartPromise, records_object
from compiler.emit.waves import manifests
from compiler.fields.times import rfc3339
from compiler.kubernetes import PROMISED_START_ANNOTATION, annotations_of, name_of
from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import JobKey
from compiler.views.data import gang_entry, plan_document
from compiler.views.text import plan_text
from solver.forecast import ENOUGH, ENOUGH_RUNS

CASE = Path(__file__).parents[3] / "golden" / "reservation"
NOW, HOUR = 1772445600, 3600
Rows = Iterator[tuple[JobKey, Mapping[str, Any]]]


@pytest.fixture(scope="module")
def state() -> ClusterState:
    return load_state((CASE / "state.yaml").read_bytes())


def past(number: int, *, promised: int | None = None, late: int = 0, share: int | None = 80) -> Rows:
    """Runs of about seven hours, the last of which ended an hour ago. promised: seconds that each was told to wait,
    from a moment `promised + late` seconds before its start. share: that its window stated."""
    for i in range(number):
        ended = NOW - HOUR - 600 * i
        started = ended - 7 * HOUR - 60 * i
        row: dict[str, Any] = {"started": rfc3339(started), "ended": rfc3339(ended)}
        if promised is not None:
            made = started - promised - late
            times = (made, made, made + promised, made + 2 * promised, made + promised, made + 10 * promised)
            told = StartPromise(*times, share)
            row |= {"promise": told.as_data(), "submitted": rfc3339(made)}
        yield ("team", f"old-{i}", "Job"), row


def planned(state: ClusterState, *rows: Rows) -> Outcome:
    found = [row for each in rows for row in each]
    known = replace(state, run_records=(records_object("test", found),))
    return compile_repository(Repository.from_directory(CASE / "repo"), state=known)


def decided(outcome: Outcome, name: str) -> JobDecision:
    return next(decision for decision in outcome.decisions if decision.gang.document.name == name)


def with_promise(state: ClusterState, promise: StartPromise) -> ClusterState:
    """The same, whose job `long` was told this before."""
    told = {PROMISED_START_ANNOTATION: json.dumps(promise.as_data())}

    def promised(job: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**job, "metadata": {**job["metadata"], "annotations": told}} if name_of(job) == "long" else job

    return replace(state, jobs=tuple(map(promised, state.jobs)))


def test_without_enough_recorded_runs_there_is_no_window(state: ClusterState) -> None:
    outcome = planned(state, past(ENOUGH_RUNS - 1))
    assert {decision.start.window for decision in outcome.decisions} == {None}
    assert "promisedStarts" not in plan_document(outcome)


def test_jobs_that_wait_have_a_window_and_those_that_start_have_none(state: ClusterState) -> None:
    """Seven hours are over for the running ones at 13:00 at the earliest."""
    outcome = planned(state, past(12))
    waiting = {decision.action == "wait" for decision in outcome.decisions if decision.start.window is not None}
    assert waiting == {True}
    window = decided(outcome, "large").start.window
    assert window is not None
    assert NOW + 3 * HOUR <= window.low <= window.high <= NOW + 4 * HOUR
    entry = gang_entry(decided(outcome, "large"))["startWindow"]
    assert entry["promised"] == {"earliest": entry["earliest"], "latest": entry["latest"]}
    assert "share" not in entry
    assert f"between {entry['earliest']} and {entry['latest']} (a first" in " ".join(plan_text(outcome).split())


def test_a_job_that_can_never_start_has_no_window(state: ClusterState) -> None:
    files = {**Repository.from_directory(CASE / "repo").files}
    files["jobs/large.yaml"] = files["jobs/large.yaml"].replace(b"nvidia.com/gpu: 8", b"nvidia.com/gpu: 80")
    known = replace(state, run_records=(records_object("test", past(12)),))
    outcome = compile_repository(Repository(files, {}), state=known)
    assert decided(outcome, "large").never
    assert decided(outcome, "large").start.window is None


def test_nothing_is_said_of_a_start_after_ten_years(state: ClusterState) -> None:
    """As behind what never ends; a time beyond the year 9999 could not even be written."""
    row = {"started": rfc3339(NOW - 40 * 365 * 24 * HOUR), "ended": rfc3339(NOW - HOUR)}
    outcome = planned(state, ((("team", f"old-{i}", "Job"), row) for i in range(12)))
    assert {decision.start.window for decision in outcome.decisions} == {None}


def test_windows_follow_how_earlier_ones_held_and_say_their_share(state: ClusterState) -> None:
    plain = decided(planned(state, past(ENOUGH)), "large").start.window
    outcome = planned(state, past(ENOUGH, promised=HOUR, late=HOUR))
    start = decided(outcome, "large").start
    assert plain is not None
    assert start.window is not None
    assert start.promise is not None
    assert (plain.share, start.window.share) == (None, 80)
    factor = (2 * HOUR + 60) / (HOUR + 60)
    assert start.window.low - NOW == pytest.approx(factor * (start.promise.raw - NOW), rel=0.01)
    assert "(80 %)" in plan_text(outcome)


def test_the_first_window_stays_on_the_job(state: ClusterState) -> None:
    first = StartPromise(NOW - 9 * HOUR, NOW, NOW + 9 * HOUR, NOW + 18 * HOUR, NOW)
    outcome = planned(with_promise(state, first), past(12))
    annotations = {name_of(each.object): annotations_of(each.object) for each in manifests(outcome)}
    assert StartPromise.from_text(annotations["long"][PROMISED_START_ANNOTATION]) == first
    others = StartPromise.from_text(annotations["large"][PROMISED_START_ANNOTATION])
    assert others is not None
    assert others.made == NOW
    assert PROMISED_START_ANNOTATION not in annotations["short"]  # it starts, and was told nothing


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"made": "2026-01-01T00:00:00Z"}', '{"low": 3}'])
def test_what_others_wrote_in_its_place_is_no_promise(text: str) -> None:
    assert StartPromise.from_text(text) is None


def test_a_window_that_moved_behind_the_promised_one_names_the_cause(state: ClusterState) -> None:
    first = StartPromise(NOW - 9 * HOUR, NOW - 2 * HOUR, NOW - HOUR, NOW, NOW)
    entry = gang_entry(decided(planned(with_promise(state, first), past(12)), "long"))["startWindow"]
    assert entry["promised"] == {"earliest": rfc3339(NOW - 2 * HOUR), "latest": rfc3339(NOW)}
    assert "team/large" in entry["moved"]  # the reservation is its own
    kept = StartPromise(NOW - 9 * HOUR, NOW, NOW + 9 * HOUR, NOW + 18 * HOUR, NOW)
    entry = gang_entry(decided(planned(with_promise(state, kept), past(12)), "long"))["startWindow"]
    assert "moved" not in entry


def test_the_score_is_of_the_recorded_promises(state: ClusterState) -> None:
    """Half started in the middle of their window, half an hour after it. First estimates are counted only."""
    estimates = past(3, promised=HOUR, share=None)
    document = plan_document(planned(state, past(4, promised=HOUR), past(4, promised=HOUR, late=2 * HOUR), estimates))
    assert document["promisedStarts"] == {
        "made": 8,
        "estimates": 3,
        "inside": 0.5,
        "width": pytest.approx((2 + 2 / 3) / 2),
        "error": HOUR,
        "errorByLimits": 8 * HOUR,
    }


def test_a_state_in_a_file_holds_them_too(state: ClusterState) -> None:
    items = [*state.nodes, *state.pods, *state.jobs, records_object("test", past(12))]
    known = load_state(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}, default=str))
    assert [each["kind"] for each in known.run_records] == [RUN_RECORDS]
    outcome = compile_repository(Repository.from_directory(CASE / "repo"), state=known)
    assert decided(outcome, "large").start.window is not None


def test_records_with_times_that_are_none_are_left_out(state: ClusterState) -> None:
    bad = [(("team", "x", "Job"), {"started": "soon", "ended": rfc3339(NOW)}), (("team", "y", "Job"), {"started": ""})]
    assert decided(planned(state, iter(bad), past(12)), "large").start.window is not None
