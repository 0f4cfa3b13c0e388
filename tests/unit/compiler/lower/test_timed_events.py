"""When the answer may change although nothing happens, and from when a plan then counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState, StateError, load_state
from compiler.fields.times import rfc3339
from compiler.kubernetes import SNAPSHOT_TIME_ANNOTATION
from compiler.lower.lowering import lower
from compiler.lower.origins import Origins, TimedEvent
from compiler.outcome import Outcome, job_decisions
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import ClusterSpec, PluginSpec, SchedulerSpec
from compiler.specs.gang_spec import JobTimes
from compiler.views import data
from solver.planner import solve
from tests.builders import cluster_objects
from tests.builders.specs import document, gang, node, role
from tests.builders.specs import specs as build

CASE = Path(__file__).parents[3] / "golden" / "reservation"
MARCH = 1_772_445_600  # 2026-03-02T10:00:00Z, the newest event of the case
HOUR = 3600


def at(seconds: int) -> str:
    return rfc3339(seconds)


def job(name: str, created: int) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": at(created)},
    }


def pod(name: str, of: str, start: int, **annotations: str) -> dict[str, Any]:
    made = cluster_objects.pod(name, "n0", job=of, annotations=annotations, creationTimestamp=at(start))
    return {**made, "status": {"phase": "Running", "startTime": at(start)}}


def lowered(
    state: ClusterState, patience: int = 1000, scheduler: SchedulerSpec | None = None, lasts: int | None = None
) -> Origins:
    """A job "waits" (of `lasts` seconds) and a job "runs" of 600 s on a node that closes from 100 to 400 and from 800
    to 900."""
    jobs = (
        gang("runs", role("worker", 1, gpu=8), times=JobTimes(expected_duration=600)),
        gang("waits", role("worker", 1, gpu=8), times=JobTimes(expected_duration=lasts)),
    )
    made = build(nodes=(node("n0", maintenance_windows=((100, 400), (800, 900))),), gangs=jobs, scheduler=scheduler)
    made = replace(made, cluster=ClusterSpec(document("Cluster", "test"), "test", patience=patience))
    return lower(made, state)[1]


def ahead(state: ClusterState, scheduler: SchedulerSpec | None = None) -> tuple[TimedEvent, ...]:
    return lowered(state, scheduler=scheduler).upcoming_events


def test_ends_patience_and_maintenance_lie_ahead_and_what_is_past_does_not() -> None:
    state = ClusterState.from_objects([job("runs", 10), job("waits", 50), pod("a", "runs", 60)])
    end, late, first, second = (
        TimedEvent(660, "end", 0),
        TimedEvent(1051, "patience", 1),
        TimedEvent(400, "maintenance"),
        TimedEvent(900, "maintenance"),
    )
    assert ahead(state) == (first, end, second, late)
    assert ahead(replace(state, clock=400)) == (end, second, late)
    assert ahead(replace(state, clock=660)) == (second, late)
    assert ahead(replace(state, clock=1051)) == ()
    assert ahead(ClusterState()) == ()


@pytest.mark.parametrize(("clock", "now"), [(None, 60), (50, 60), (61, 61), (655, 655), (5000, 5000)])
def test_a_plan_counts_from_the_clock_or_from_the_newest_event_if_that_is_later(clock: int | None, now: int) -> None:
    state = ClusterState.from_objects([job("runs", 10), job("waits", 50), pod("a", "runs", 60)], clock=clock)
    assert lowered(state).now == now


def test_no_start_is_said_that_has_passed() -> None:
    """What starts now ends its duration from now, so the job behind it is not told a start before that, however long
    ago anything happened."""
    jobs = (
        gang("old", role("worker", 1, gpu=8), times=JobTimes(expected_duration=600)),
        gang("young", role("worker", 1, gpu=8)),
    )
    promised, clock = job("old", 10), 5000
    promised["metadata"]["annotations"] = {"gangplan.dev/starts-at": at(900)}
    state = ClusterState.from_objects([promised, job("young", 20)], clock=clock)
    made = build(nodes=(node("n0"),), gangs=jobs)
    made = replace(made, cluster=ClusterSpec(document("Cluster", "test"), "test", patience=1000))
    problem, origins = lower(made, state)
    decisions, _ = job_decisions(made, problem, origins, solve(problem))
    assert [(found.action, found.start.starts_at) for found in decisions] == [("start", None), ("wait", clock + 600)]


def test_a_later_clock_changes_what_is_said_and_not_what_is_decided() -> None:
    """Between two moments; the ends of running jobs stay where they are."""

    def told(clock: int) -> list[tuple[str, object]]:
        return [(found.action, found.pods) for found in outcome(clock).decisions]

    assert told(MARCH + 2 * HOUR) == told(MARCH + 2 * HOUR + 300)
    assert {found.start.starts_at for found in outcome(MARCH + 60).decisions} == {
        found.start.starts_at for found in outcome(MARCH + 120).decisions
    }


def test_a_cluster_without_events_takes_its_present_from_the_clock() -> None:
    """Else maintenance would not be seen before the first job is there."""
    made = build(
        nodes=(node("n0", maintenance_windows=((100, 400),)),), gangs=(gang("first", role("worker", 1, gpu=8)),)
    )
    for clock, now, closes in ((None, None, None), (99, 99, 1), (399, 399, 0), (400, 400, None), (10, 10, 90)):
        problem, origins = lower(made, ClusterState.from_objects([], clock=clock), {"first.yaml": 50})
        assert (origins.now, problem.nodes[0].maintenance_in) == (now, closes)


def test_a_job_that_was_promised_a_start_has_no_more_patience_to_lose() -> None:
    promised = job("waits", 50)
    promised["metadata"]["annotations"] = {"gangplan.dev/starts-at": at(900)}
    assert not [moment for moment in ahead(ClusterState.from_objects([promised])) if moment.cause == "patience"]


@pytest.mark.parametrize(("plugins", "expected"), [(("cdp",), (TimedEvent(160, "cooldown", 0),)), (("gang",), ())])
def test_a_cooldown_is_over_when_its_pod_has_run_for_it(
    plugins: tuple[str, ...], expected: tuple[TimedEvent, ...]
) -> None:
    tiers = (tuple(PluginSpec(name, {}, {}) for name in ("priority", *plugins)),)
    scheduler = SchedulerSpec(document("ConfigMap", "s"), "s", "n", ("allocate", "preempt"), tiers, {})
    state = ClusterState.from_objects([pod("a", "runs", 60, **{"volcano.sh/cooldown-time": "100s"})])
    assert tuple(moment for moment in ahead(state, scheduler=scheduler) if moment.cause == "cooldown") == expected


# ---- the plan


def outcome(clock: int | None = None) -> Outcome:
    state = replace(load_state((CASE / "state.yaml").read_bytes()), clock=clock)
    return compile_repository(Repository.from_directory(CASE / "repo"), state=state)


def test_a_plan_knows_when_to_look_again() -> None:
    """a-trained and b-tuned are to end at 12:00, the maintenance of old-0 at 16:00, and patience runs out for those
    that wait alone."""
    made = outcome()
    assert made.origins is not None
    assert made.recheck_times[:2] == (MARCH + 2 * HOUR, MARCH + 6 * HOUR)
    waiting = {d.gang_index for d in made.decisions if d.action == "wait"}
    late = {m.time for m in made.origins.upcoming_events if m.cause == "patience" and m.gang in waiting}
    assert set(made.recheck_times[2:]) == late
    assert late < {m.time for m in made.origins.upcoming_events if m.cause == "patience"}


def test_at_a_moment_the_answer_changes() -> None:
    """When the maintenance is over a job starts on the node that was closed to it, without any event."""
    over = outcome(MARCH + 6 * HOUR)
    assert [next(d.pods for d in made.decisions if d.gang.document.name == "long") for made in (outcome(), over)] == [
        {},
        {"worker": {"old-0": 1}},
    ]
    assert data.plan_document(over)["now"] == "2026-03-02T16:00:00Z"
    assert min(over.recheck_times) > MARCH + 6 * HOUR


def test_where_everything_runs_there_is_nothing_to_look_for() -> None:
    full = compile_repository(
        Repository.from_directory(CASE.parent / "deadlock" / "repo"), state=ClusterState.from_objects([], clock=MARCH)
    )
    assert (
        full.recheck_times == ()
    )  # nothing is known of time but patience, and of that only for jobs whose age is known
    assert data.plan_document(full)["now"] == at(MARCH)


# ---- the state


def test_a_state_may_say_from_when_a_plan_counts() -> None:
    def state(said: str) -> ClusterState:
        return load_state(
            f'{{"kind": "List", "metadata": {{"annotations": '
            f'{{"{SNAPSHOT_TIME_ANNOTATION}": "{said}"}}}}, "items": []}}'
        )

    assert state(at(MARCH)).clock == MARCH
    assert load_state('{"kind": "List", "metadata": {}, "items": []}').clock is None
    with pytest.raises(StateError, match="not a time such as"):
        state("noon")


def test_an_event_later_than_what_the_state_says_is_now() -> None:
    _, origins = lower(build(nodes=(node("n0"),)), ClusterState.from_objects([job("x", 500)], clock=100))
    assert origins.now == 500
