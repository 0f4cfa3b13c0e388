"""A plan is made anew when one of its moments has come, and not otherwise; a plan that is refused leaves the last
one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from compiler.repository import Repository
from reconciler.changes.events import Condition
from reconciler.context import Pass, Reconciler, Settings, build_reconciler, due_moment, is_plan_fresh
from reconciler.git.mirror import Mirror
from reconciler.git.poller import BranchHead
from reconciler.inventory.store import Inventory
from reconciler.observation.observe import Observation
from reconciler.planning.compile.inputs import CompileRequest
from reconciler.planning.compile.worker_state import QUIET
from reconciler.planning.controller import choose_commit, update_plan
from reconciler.planning.snapshot import CompileBreakdown, Snapshot
from reconciler.report.build import build_report
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer

COMMIT = "c0ffee"
PLAN: Mapping[str, Any] = {"digest": "sha256:1", "gangs": []}
GOOD = Snapshot(COMMIT, True, plan=PLAN, moments=(100, 200, 300))


@dataclass
class Clocked:
    """Stands in for the child process: keeps what it was asked, and answers when told."""

    asked: list[CompileRequest] = field(default_factory=list)
    told: list[CompileRequest] = field(default_factory=list)
    answer: Snapshot | CompileBreakdown | None = None
    is_busy: bool = False

    def start_compile(self, request: CompileRequest) -> None:
        self.asked.append(request)
        self.is_busy = True

    def tell_state(self, request: CompileRequest) -> None:
        self.told.append(request)

    def take_result(self) -> Snapshot | CompileBreakdown | None:
        answer, self.answer = self.answer, None
        self.is_busy = self.is_busy and answer is None
        return answer


@dataclass
class Told:
    """A world at whose clocks a test turns."""

    w: Reconciler
    compiler: Clocked
    time: float = 0.0

    def look(self, seen: Observation | None = None) -> Pass:
        """One look at the cluster, as far as the compile."""
        p = Pass(seen or Observation({}, frozenset()), self.w.inventory or Inventory())
        choose_commit(self.w, p)
        update_plan(self.w, p)
        return p

    def answers(self, snapshot: Snapshot) -> Pass:
        """The child, as it does, leaves out the moments that had come when it was asked."""
        asked = self.compiler.asked[-1].clock or 0
        self.compiler.answer = replace(snapshot, moments=tuple(at for at in snapshot.moments if at > asked))
        return self.look()


@pytest.fixture
def told(tmp_path: Path) -> Told:
    settings = Settings(str(tmp_path), "main", "test", "gangplan-system", tmp_path / "data")
    w = build_reconciler(settings, ScriptedServer(lambda method, path, body: ScriptedAnswer(404, {})).client(), "me")
    made = Told(w, Clocked())
    w.compiler = made.compiler  # type: ignore[assignment]
    w.poller.head = BranchHead(COMMIT, Repository({}, {}, ()))
    w.inventory = Inventory(commit=COMMIT)
    w.clock = w.wall_clock = lambda: made.time
    made.look()
    made.answers(GOOD)
    made.compiler.asked.clear()
    return made


def test_in_a_quiet_cluster_nothing_is_planned_before_a_moment_has_come(told: Told) -> None:
    for told.time in (0.0, 50.0, 99.9):
        assert is_plan_fresh(told.w, told.look())
    assert told.compiler.asked == []


def test_a_plan_is_made_with_the_places_of_the_plan_in_force(told: Told) -> None:
    """Of the jobs that this one starts or keeps; those that wait have none."""
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "namespace": "team", "queue": "q", "domains": []}
    said = {**job, "reasons": [], "evictedFor": [], "startsAt": None}
    pods = {"worker": {"n2": 3, "n1": 5}}
    gangs = [
        {**said, "name": "b", "decision": "start", "pods": pods},
        {**said, "name": "a", "decision": "keep", "pods": {"worker": {"n0": 8}}},
        {**said, "name": "c", "decision": "wait", "pods": {}},
    ]
    told.time = 100
    told.look()
    told.answers(replace(GOOD, plan={**PLAN, "gangs": gangs}))
    told.time = 200
    told.look()
    before, after = told.compiler.asked
    assert before.former_places == []
    assert after.former_places == [(("team", "a", "Job"), {"worker": {"n0": 8}}), (("team", "b", "Job"), pods)]


def test_when_a_moment_has_come_it_is_planned_once(told: Told) -> None:
    told.time = 107.3
    told.look()
    told.look()
    assert [request.clock for request in told.compiler.asked] == [107]
    assert is_plan_fresh(told.w, told.answers(GOOD))
    told.time = 199.0
    assert is_plan_fresh(told.w, told.look())
    assert len(told.compiler.asked) == 1


def test_the_worker_is_told_of_the_cluster_by_the_leader_once_that_is_quiet(told: Told) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": {}}
    busy = Observation({"Pod/default/p": pod}, frozenset())
    seen = []
    for told.w.was_holder, told.time in ((False, 1.0), (False, 10.0), (True, 10.0), (True, 20.0)):
        assert is_plan_fresh(told.w, told.look(busy))
        seen.append(len(told.compiler.told))
    assert seen == [0, 0, 1, 1]
    (request,) = told.compiler.told
    assert (request.commit, [item["kind"] for item in request.state]) == (COMMIT, ["Pod"])
    told.time = 21.0
    told.w.was_holder = True
    report = build_report(told.w, told.look())
    assert report.next_wakeup == QUIET
    assert not told.compiler.asked


def test_moments_that_were_slept_through_are_planned_for_together(told: Told) -> None:
    told.time = 250.0
    told.look()
    assert is_plan_fresh(told.w, told.answers(GOOD))
    assert due_moment(told.w) is None
    assert len(told.compiler.asked) == 1


def test_a_moment_that_comes_while_the_plan_is_made_is_not_missed(told: Told) -> None:
    told.time = 120.0
    told.look()
    told.time = 205.0
    told.answers(GOOD)
    assert [request.clock for request in told.compiler.asked] == [120, 205]


def test_a_clock_that_was_put_back_makes_nothing_due(told: Told) -> None:
    told.time = 120.0
    told.look()
    told.answers(GOOD)
    told.time = 20.0
    assert due_moment(told.w) is None


def test_the_moments_survive_a_restart() -> None:
    assert Snapshot.from_json(GOOD.as_json()) == GOOD


def test_a_plan_of_before_there_were_moments_is_read() -> None:
    old = GOOD.as_json().replace(', "moments": [100, 200, 300]', "")
    assert "moments" not in old
    assert Snapshot.from_json(old) == replace(GOOD, moments=())


def test_the_next_pass_comes_with_the_next_moment(told: Told) -> None:
    told.time = 99.0
    assert build_report(told.w, told.look()).next_wakeup == 1.0
    told.time = 350.0
    told.w.planning.snapshot = replace(GOOD, moments=())
    assert build_report(told.w, told.look()).next_wakeup is None


# ---- a plan that is refused


REFUSED = Snapshot(
    COMMIT,
    ok=False,
    diagnostics=(
        {
            "code": "GP502",
            "severity": "error",
            "file": "c.yaml",
            "line": 1,
            "column": 1,
            "message": "capacity: node n",
            "help": "report it",
            "object": "",
        },
    ),
)


def condition(conditions: tuple[Condition, ...], kind: str) -> Condition:
    return next(each for each in conditions if each.type == kind)


def test_a_refused_plan_leaves_the_last_one_in_force_and_says_so(told: Told) -> None:
    told.time = 120.0
    told.look()
    p = told.answers(REFUSED)
    assert p.snapshot is not None
    assert (p.snapshot.commit, p.snapshot.ok, p.snapshot.moments) == (COMMIT, True, GOOD.moments)
    said = build_report(told.w, p)
    compiled = condition(said.conditions, "Compiled")
    assert (compiled.status, compiled.reason) == (False, "PlanRefused")
    assert "the last plan stays in force" in compiled.message
    assert "GP502" in compiled.message
    assert [reason for _, reason, _, _ in said.done.events] == ["PlanRefused"]
    assert said.commit == COMMIT


def test_what_was_refused_is_not_asked_again_until_something_happens(told: Told) -> None:
    told.time = 120.0
    told.look()
    told.answers(REFUSED)
    for told.time in (121.0, 180.0, 199.0):
        told.look()
    assert [request.clock for request in told.compiler.asked] == [120]
    told.time = 201.0
    told.look()
    assert [request.clock for request in told.compiler.asked] == [120, 201]


def test_a_plan_that_passes_again_ends_the_matter(told: Told) -> None:
    told.time = 120.0
    told.look()
    told.answers(REFUSED)
    told.time = 201.0
    told.look()
    p = told.answers(replace(GOOD, moments=(300,)))
    assert condition(build_report(told.w, p).conditions, "Compiled").status
    assert is_plan_fresh(told.w, p)


# ---- a compile that breaks down


def test_a_compile_that_breaks_down_is_not_held_against_the_commit_and_is_tried_again(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told as CommitRejected, as if the commit were bad."""
    told.w.poller.head, told.w.planning.snapshot = BranchHead("beef", Repository({}, {}, ())), replace(GOOD, moments=())
    monkeypatch.setattr(Mirror, "is_ancestor", lambda *_: True)
    told.time = 10.0
    times = []
    for _ in range(7):
        told.look()
        assert told.compiler.asked[-1].commit == "beef"
        times.append(told.time)
        told.compiler.answer = CompileBreakdown("beef", "it ended by SIGKILL")
        p = told.look()
        said = build_report(told.w, p)
        assert said.next_wakeup is not None
        told.time += said.next_wakeup
    assert [after - before for before, after in pairwise(times)] == [10, 20, 40, 80, 160, 300]
    assert p.target_commit == COMMIT, "the commit in force goes on"
    compiled = condition(said.conditions, "Compiled")
    assert (compiled.status, compiled.reason) == (False, "CompileFailed")
    assert "7 times in a row, which says nothing about the commit" in compiled.message
    assert condition(said.conditions, "CompilerFailed").status
    assert [reason for _, reason, _, _ in said.done.events] == ["CompileFailed"]
    assert not any(diagnostic["severity"] == "error" for diagnostic in said.diagnostics)
    told.look()
    told.compiler.answer = replace(GOOD, commit="beef")
    said = build_report(told.w, told.look())
    assert not condition(said.conditions, "CompilerFailed").status
    assert condition(said.conditions, "Compiled").status
