"""A start that a job was told is kept, or the job is told why not."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from compiler.cluster_state.cluster_state import ClusterState
from compiler.explain.statements import CodedMessage
from compiler.fields.times import rfc3339
from compiler.lower.lowering import lower
from compiler.outcome import JobDecision, PodsByNode, job_decisions
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from compiler.specs.gang_spec import GangSpec, JobTimes
from compiler.specs.queue_spec import PriorityClassSpec
from solver.planner import solve
from tests.builders.cluster_objects import pod
from tests.builders.declared import Object, declared
from tests.builders.specs import document, gang, node, role
from tests.builders.specs import specs as build
from tests.oracle.worlds import random_repository

TOLD = 900


def planned(clock: int, *others: GangSpec, runs_since: int | None = None) -> JobDecision:
    """What is decided of the job "old", which was promised a start, on a node of 8 GPUs that others want whole.
    runs_since: when the first of them started."""
    jobs = (gang("old", role("worker", 1, gpu=8)), *others)
    urgent = PriorityClassSpec(document("PriorityClass", "urgent"), "urgent", 10)
    specs = build(nodes=(node("n0"),), gangs=jobs, priority_classes=(urgent,))
    objects = [_job("old", 10, {"gangplan.dev/starts-at": rfc3339(TOLD)})]
    objects += [_job(other.document.name, 20, {}) for other in others]
    if runs_since is not None:
        objects.append(_pod(others[0].document.name, runs_since))
    problem, origins = lower(specs, ClusterState.from_objects(objects, clock=clock))
    decisions, _ = job_decisions(specs, problem, origins, solve(problem))
    return next(decided for decided in decisions if decided.gang.document.name == "old")


def _job(name: str, created: int, annotations: dict[str, str]) -> Object:
    more: Object = {"creationTimestamp": rfc3339(created), "annotations": annotations}
    return declared("Job", name, namespace="team", **more)


def _pod(of: str, start: int) -> Object:
    made = pod("p", "n0", job=of, limits={"nvidia.com/gpu": "8"}, creationTimestamp=rfc3339(start))
    return {**made, "status": {"phase": "Running", "startTime": rfc3339(start)}}


def lost_start(decided: JobDecision) -> CodedMessage | None:
    return next((reason for reason in decided.reasons if reason.code == "GW125"), None)


@pytest.mark.parametrize("clock", [200, TOLD])
def test_a_job_that_starts_when_it_was_told_is_told_nothing_more(clock: int) -> None:
    other = gang("runs", role("worker", 1, gpu=8), times=JobTimes(expected_duration=800))
    decided = planned(clock, other, runs_since=100)
    if clock < TOLD:
        assert (decided.action, decided.start.starts_at) == ("wait", TOLD)
    assert lost_start(decided) is None


@pytest.mark.parametrize(("lasts", "at"), [(860, None), (2000, 2100)])
def test_a_start_that_moves_is_told_with_the_job_that_is_waited_for(lasts: int, at: int | None) -> None:
    """A minute is no matter."""
    decided = planned(
        200, gang("runs", role("worker", 1, gpu=8), times=JobTimes(expected_duration=lasts)), runs_since=100
    )
    found = lost_start(decided)
    if at is None:
        assert found is None
    else:
        assert found is not None
        assert found.message == (
            f"announced start {rfc3339(TOLD)} missed; now expected at {rfc3339(at)}, after team/runs"
        )
        assert found.facts == {"gangs": ("team/runs",), "told": rfc3339(TOLD), "at": rfc3339(at)}


def test_a_job_past_its_expected_end_is_named_without_a_time() -> None:
    found = lost_start(
        planned(1000, gang("runs", role("worker", 1, gpu=8), times=JobTimes(expected_duration=800)), runs_since=100)
    )
    assert found is not None
    assert found.message == f"announced start {rfc3339(TOLD)} missed: it waits for team/runs, whose end is not known"


def test_a_start_that_an_urgent_job_takes_is_told_with_its_name() -> None:
    decided = planned(1000, gang("newer", role("worker", 1, gpu=8), priority_class="urgent"))
    found = lost_start(decided)
    assert decided.action == "wait"
    assert found is not None
    assert found.message == f"announced start {rfc3339(TOLD)} lost to team/newer"
    assert [source.object for source in found.sources] == ["Job team/newer"]


def test_room_that_is_reserved_for_an_urgent_job_first_is_said() -> None:
    runs = gang("runs", role("worker", 1, gpu=8), times=JobTimes(expected_duration=800))
    found = lost_start(
        planned(200, runs, gang("newer", role("worker", 1, gpu=8), priority_class="urgent"), runs_since=100)
    )
    assert found is not None
    assert found.message == (
        f"announced start {rfc3339(TOLD)} missed: the plan reserves room for team/newer, which is ahead in the order"
    )
    assert found.facts["gangs"] == ("team/newer",)


# ---- plan after plan


FIRST, HOUR = 1_795_000_000, 3600
STREAMS = (12, 18, 22, 37, 41, 43, 49, 59)
"""Seeds of random repositories in which a promise was once broken in silence."""


@dataclass
class Stream:
    """A random repository with queues first, from plan to plan: what was planned runs, its jobs end when they said, and
    of the jobs some come later. told: job -> the start that it was last told. kept: promises that were."""

    seed: int
    base: dict[str, bytes] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    running: dict[str, tuple[PodsByNode, int]] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)

    def follow(self) -> None:
        chance = random.Random(self.seed)  # noqa: S311 - a sample, no secret
        for path, text in random_repository(self.seed).items():
            if not path.startswith("jobs/"):
                self.base[path] = text
                continue
            job = yaml.safe_load(text)
            for task in job["spec"]["tasks"]:
                task.pop("partitionPolicy", None)
            submitted, lasts = FIRST - chance.randint(0, 40) * 6 * HOUR, chance.choice((1, 2, 3, 5))
            job["metadata"].setdefault("annotations", {}).update(
                {"gangplan.dev/submitted-at": rfc3339(submitted), "gangplan.dev/expected-duration": f"{lasts}h"}
            )
            self.jobs[job["metadata"]["name"]] = job
        names = sorted(self.jobs)
        self.plan_at(FIRST - HOUR // 2, [name for name in names if chance.random() < 0.6])
        self.told.clear()
        now = FIRST
        for _ in range(4):
            self.plan_at(now, names)
            ends = {name: self.end_of(name) for name in self.running}
            if not ends:
                return
            now = min(self.told.values(), default=min(ends.values())) + 60
            names = [name for name in names if ends.get(name, now + 1) > now]
            self.running = {name: run for name, run in self.running.items() if ends[name] > now}

    def end_of(self, name: str) -> int:
        lasts = self.jobs[name]["metadata"]["annotations"]["gangplan.dev/expected-duration"]
        return self.running[name][1] + int(lasts[:-1]) * HOUR

    def plan_at(self, now: int, names: Sequence[str]) -> None:
        files = {f"jobs/{name}.yaml": yaml.safe_dump(self.jobs[name]).encode() for name in names}
        state = ClusterState.from_objects(self.objects(), clock=now)
        outcome = compile_repository(Repository({**self.base, **files}), state=state)
        assert outcome.ok
        for decided in outcome.decisions:
            name = decided.gang.document.name
            if decided.action in ("start", "keep"):
                self.running[name] = decided.pods, self.running.get(name, ({}, now))[1]
                self.kept += [name] if self.told.pop(name, 0) + 60 >= now else []
            elif decided.action == "wait":
                self.note_promise(decided, name, now)

    def note_promise(self, decided: JobDecision, name: str, now: int) -> None:
        told, found = self.told.get(name), lost_start(decided)
        is_kept = told is None or (decided.start.starts_at or now) <= told + 60
        assert is_kept or found is not None, (name, rfc3339(told or 0), rfc3339(now), decided.reasons)
        if decided.start.starts_at is not None:
            self.told[name] = decided.start.starts_at

    def objects(self) -> list[dict[str, Any]]:
        found = []
        for name, start in self.told.items():
            job = copy.deepcopy(self.jobs[name])
            job["metadata"]["annotations"]["gangplan.dev/starts-at"] = rfc3339(start)
            found.append(job)
        for name, (pods, since) in self.running.items():
            tasks = {task["name"]: task for task in self.jobs[name]["spec"]["tasks"]}
            places = [
                (task, host) for task, hosts in pods.items() for host, number in hosts.items() for _ in range(number)
            ]
            for at, (task, host) in enumerate(places):
                made = _pod(name, since)
                made["metadata"] |= {
                    "name": f"{name}-{at}",
                    "namespace": "ns",
                    "labels": {
                        "volcano.sh/job-name": name,
                        "volcano.sh/task-spec": task,
                        "volcano.sh/job-namespace": "ns",
                    },
                }
                containers = tasks[task]["template"]["spec"]["containers"]
                found.append(made | {"spec": {"nodeName": host, "containers": containers}})
        return found


def test_queues_first_each_promise_is_kept_or_its_loss_is_told() -> None:
    streams = [Stream(seed) for seed in STREAMS]
    for stream in streams:
        stream.follow()
    assert any(stream.kept for stream in streams)
