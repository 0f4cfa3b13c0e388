"""Who may be evicted, as documents, annotations and a state say it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.compile import compile_repository
from compiler.lower import lower
from compiler.lower.victims import seconds
from compiler.specs import Specs
from compiler.state import State, load_state
from compiler.tree import Tree
from solver.problem import Gang, Problem

CASE = Path(__file__).parents[2] / "golden" / "preempt"


@pytest.fixture(scope="module")
def specs() -> Specs:
    return compile_repository(Tree.from_directory(CASE / "repo")).specs


@pytest.fixture(scope="module")
def state() -> State:
    return load_state((CASE / "state.yaml").read_bytes())


def gang(problem: Problem, name: str) -> Gang:
    return next(gang for gang in problem.gangs if gang.name == f"vision/{name}")


def with_pods(state: State, job: str, **metadata: Any) -> State:
    """The same with this in the metadata of a job's pods."""
    pods = tuple({**pod, "metadata": {**pod["metadata"], **metadata}} if pod["metadata"]["name"].startswith(job) else pod for pod in state.pods)
    return replace(state, pods=pods)


def test_run_time_is_measured_to_the_newest_event_in_the_state(specs: Specs, state: State) -> None:
    problem, _ = lower(specs, state)
    assert (gang(problem, "nas-trial-1").loss, gang(problem, "sweep").loss) == (12 * 60, 60 * 60)


def test_an_owner_protects_by_annotation_and_silence_protects_nobody(specs: Specs, state: State) -> None:
    problem, _ = lower(specs, state)
    assert not gang(problem, "protected").evictable
    assert gang(problem, "sweep").evictable


@pytest.mark.parametrize(("value", "open_to"), [("true", True), ("1", True), ("false", False), ("no", False)])
def test_a_running_pod_may_say_it_too(specs: Specs, state: State, value: str, open_to: bool) -> None:
    problem, _ = lower(specs, with_pods(state, "sweep", annotations={"volcano.sh/preemptable": value}))
    assert gang(problem, "sweep").evictable is open_to


def test_the_class_that_never_preempts_is_known(specs: Specs, state: State) -> None:
    problem, _ = lower(specs, state)
    assert (gang(problem, "nightly").preempts, gang(problem, "release").preempts) == (False, True)


@pytest.mark.parametrize(
    ("actions", "switches"),
    [
        (("allocate",), (False, False)),
        (("allocate", "preempt"), (True, False)),
        (("allocate", "gangreclaim"), (False, True)),
        (("allocate", "reclaim", "gangpreempt"), (True, True)),
    ],
)
def test_the_schedulers_actions_switch_evictions_on(specs: Specs, state: State, actions: tuple[str, ...], switches: tuple[bool, bool]) -> None:
    assert specs.scheduler is not None
    problem, _ = lower(replace(specs, scheduler=replace(specs.scheduler, actions=actions)), state)
    assert (problem.preempt, problem.reclaim) == switches
    assert gang(problem, "sweep").evictable is any(switches)


def test_without_a_scheduler_configuration_nobody_is_evicted(specs: Specs, state: State) -> None:
    problem, _ = lower(replace(specs, scheduler=None), state)
    assert (problem.preempt, problem.reclaim) == (False, False)


@pytest.mark.parametrize(("cooldown", "open_to"), [("5m", True), ("2h", False)])
def test_a_pod_in_its_cooldown_time_is_guarded_by_the_plugin_cdp(specs: Specs, state: State, cooldown: str, open_to: bool) -> None:
    assert specs.scheduler is not None
    fresh = with_pods(state, "sweep", annotations={"volcano.sh/cooldown-time": cooldown})
    (first, *rest) = specs.scheduler.tiers
    guarded = replace(specs.scheduler, tiers=((*first, replace(first[0], name="cdp")), *rest))
    assert gang(lower(specs, fresh)[0], "sweep").evictable
    assert gang(lower(replace(specs, scheduler=guarded), fresh)[0], "sweep").evictable is open_to


@pytest.mark.parametrize(("text", "value"), [("600s", 600), ("1h30m", 5400), ("1.5m", 90), ("", 0), ("soon", 0), ("10", 0)])
def test_go_durations(text: str, value: int) -> None:
    assert seconds(text) == value
