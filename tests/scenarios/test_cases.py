"""Small repositories in which the plan was once wrong; each has its folder in tests/fixtures/cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cluster_state.cluster_state import load_state
from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository

CASES = Path(__file__).parents[1] / "fixtures" / "cases"


def compiled(case: str) -> Outcome:
    state = CASES / case / "state.json"
    known = load_state(state.read_bytes()) if state.is_file() else None
    return compile_repository(Repository.from_directory(CASES / case), state=known)


def decided(case: str) -> dict[str, JobDecision]:
    """Job -> what the plan makes of it."""
    return {found.name.removeprefix("ns/"): found for found in compiled(case).decisions}


def test_loss_is_counted_to_the_time_of_the_state_and_not_to_its_newest_event() -> None:
    """Two pods since 11:00 lose 7,200 s at noon, one since 10:30 loses 5,400 s."""
    assert {name: found.action for name, found in decided("loss-clock").items()} == {
        "a": "keep",
        "b": "evict",
        "win": "start",
    }
    assert decided("loss-clock")["b"].seconds_run == 5400


def test_no_pod_is_told_to_ask_for_nothing_of_what_no_node_has() -> None:
    (job,) = decided("zero-pods-per-pod").values()
    assert [reason.code for reason in job.reasons] == ["GW103"]
    assert job.repairs == ()


def test_amounts_that_differ_do_not_look_alike() -> None:
    (job,) = decided("rounded-message").values()
    assert [reason.message for reason in job.reasons] == ["the job asks for 1.002 cpu; the whole cluster, empty, has 1"]


def test_without_nodes_no_selector_is_blamed() -> None:
    (job,) = decided("no-nodes").values()
    assert [reason.message for reason in job.reasons] == ["the cluster has no nodes, so that none is open to role w"]


def test_a_guarantee_above_the_cluster_is_an_error() -> None:
    outcome = compiled("guarantee-above-cluster")
    assert [(found.code, found.severity, found.position.line) for found in outcome.diagnostics] == [
        ("GP318", "error", 28)
    ]


TIES = {
    "older-waits": {"old"},
    "tied-shares-none": {"large"},
    "tied-shares-drf": {"large"},
    "tied-shares-capacity": {"large"},
    "three-queues": {"g0", "g1", "g2", "g3", "g4"},
    "tie-that-a-later-goal-decides": {"g2"},
}
"""Case -> the jobs that start: where shares tie, what is placed decides, then age."""


@pytest.mark.parametrize("case", TIES)
def test_queues_that_tie_stay_open_to_the_later_goals(case: str) -> None:
    outcome = compiled(case)
    assert {found.name.removeprefix("ns/") for found in outcome.decisions if found.action == "start"} == TIES[case]
    assert outcome.plan is not None
    assert {each.verdict for batch in outcome.plan.batches for each in batch.objectives} == {"proven"}


def test_a_promised_start_is_kept_once_the_job_before_it_has_ended() -> None:
    """The queues tie; the younger job's has the smaller name."""
    before, after = decided("promise/before"), decided("promise/after")
    assert {name: found.action for name, found in before.items()} == {"runs": "keep", "old": "wait", "young": "wait"}
    assert before["old"].start.reserved == "2026-11-20T13:00:00Z"
    assert {name: found.action for name, found in after.items()} == {"old": "start", "young": "wait"}


def test_a_promise_goes_before_larger_jobs_that_have_waited_too_long_as_well() -> None:
    assert decided("promise-to-a-smaller-job/before")["old"].start.reserved == "2026-11-20T13:00:00Z"
    after = decided("promise-to-a-smaller-job/after")
    assert {name: found.action for name, found in after.items()} == {"old": "start", "young": "wait"}
