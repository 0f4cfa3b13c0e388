"""A commit with an object that the API server refuses is held as a whole, and says so for as long as that is so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.repository import Repository
from reconciler.context import Pass, Reconciler, Settings, build_reconciler
from reconciler.git.mirror import Mirror
from reconciler.git.poller import BranchHead
from reconciler.inventory.store import Inventory
from reconciler.observation.observe import Observation
from reconciler.planning.controller import choose_commit, give_up_superseded_plan, update_plan
from reconciler.planning.dry_run import Question, Refusal
from reconciler.planning.snapshot import Snapshot
from reconciler.report.build import build_report
from reconciler.report.status import Report, status_document
from tests.builders.fake_cluster import FakeCluster
from tests.unit.reconciler.planning.test_controller import PLAN, Clocked, condition


def job(name: str, queue: str = "team") -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    item: dict[str, Any] = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata}
    return Manifest(5, {**item, "spec": {"queue": queue}}, f"jobs/{name}.yaml:7", run_digest=f"sha256:{name}")


def team() -> Manifest:
    item = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team"}}
    return Manifest(1, {**item, "spec": {"weight": 1}}, "queues.yaml:1")


OLD = Snapshot("old", True, plan=PLAN, manifests=(team(), job("a")))
NEW = Snapshot("new", True, plan=PLAN, manifests=(team(), job("a"), job("bad"), job("good")))


class Asked:
    """Stands in for the thread that asks: keeps the questions, and answers when told."""

    def __init__(self) -> None:
        self.questions: tuple[Question, ...] = ()
        self.answer: tuple[Refusal, ...] | None = None
        self.is_busy = False
        self.times = 0
        self.waits_for = ""

    def give_up(self) -> None:
        self.is_busy = False

    def delay(self) -> str:
        return self.waits_for if self.is_busy else ""

    def seconds_to_tell(self) -> float | None:
        return 5.0 if self.is_busy and not self.waits_for else None

    def start(self, questions: tuple[Question, ...]) -> None:
        self.questions, self.is_busy = questions, True
        self.times += 1

    def take_result(self) -> tuple[Refusal, ...] | None:
        answer, self.answer = self.answer, None
        return answer


class World:
    def __init__(self, folder: Path) -> None:
        settings = Settings(str(folder), "main", "test", "gangplan-system", folder / "data")
        self.r: Reconciler = build_reconciler(settings, FakeCluster().client(), "me")
        self.compiler, self.asked, self.time = Clocked(), Asked(), 0.0
        self.r.compiler, self.r.dry_run = self.compiler, self.asked  # type: ignore[assignment]
        self.r.clock = self.r.wall_clock = lambda: self.time
        self.r.inventory, self.r.planning.snapshot = Inventory(commit="old"), OLD
        self.r.poller.head = BranchHead("new", Repository({}, {}, ()))
        self.r.was_holder = True

    def look(self, objects: dict[str, Any] | None = None) -> Pass:
        p = Pass(Observation(objects or {}, frozenset()), self.r.inventory or Inventory())
        choose_commit(self.r, p)
        update_plan(self.r, p)
        return p

    def compiles(self, snapshot: Snapshot = NEW) -> Pass:
        self.compiler.answer = snapshot
        return self.look()

    def answers(self, *refused: str) -> Pass:
        questions = {question.ref.name: question for question in self.asked.questions}
        self.asked.answer = tuple(Refusal(questions[name], "denied: no") for name in refused)
        self.asked.is_busy = False
        return self.look()

    def report(self) -> Report:
        return build_report(self.r, self.look())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(Mirror, "is_ancestor", lambda self, older, newer: True)
    made = World(tmp_path)
    made.look()
    return made


def test_a_new_commit_is_asked_about_before_it_is_in_force(world: World) -> None:
    assert world.compiles().snapshot is OLD
    assert [question.ref.name for question in world.asked.questions] == ["bad", "good"]
    assert world.asked.questions[1].others == {"team"}, "of the plan in force, and not there yet"
    assert world.look().snapshot is OLD
    assert len(world.compiler.asked) == 1, "no compile while the answer is awaited"
    assert world.answers().snapshot == NEW
    assert not world.r.planning.rejections


def test_jobs_may_wait_for_a_quota_and_what_a_refusal_may_hang_on_is_named(world: World) -> None:
    def other(kind: str, name: str) -> Manifest:
        item = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "default"}}
        return Manifest(4, item, "others.yaml:1")

    pod = replace(other("Pod", "pod"), wave=5)
    changed = replace(team(), object={**team().object, "spec": {"weight": 2}})
    manifests = (changed, other("ResourceQuota", "few"), other("ConfigMap", "settings"), job("good"), pod)
    world.compiles(replace(NEW, manifests=manifests))
    asked = {question.ref.name: question for question in world.asked.questions}
    assert {name for name, question in asked.items() if question.may_wait} == {"good", "pod"}
    assert asked["settings"].others == asked["good"].others == {"team", "few"}
    assert not asked["team"].others, "a queue is judged by other queues alone"


def test_one_refusal_holds_the_commit_whole_and_names_file_and_line(world: World) -> None:
    world.compiles()
    p = world.answers("bad")
    assert p.snapshot is OLD
    assert p.target_commit == "old"
    for world.time in (0.0, 5.0, 9.0):
        report = world.report()
        for kind in ("Accepted", "Applied"):
            found = condition(report.conditions, kind)
            assert (found.status, found.reason) == (False, "CommitRefused")
        assert "jobs/bad.yaml:7: GP505" in condition(report.conditions, "Accepted").message
        assert condition(report.conditions, "Compiled").status
        status = status_document(report, {}, "now")
        assert {"object": "Job default/bad"}.items() <= status["held"][0].items()
        assert any(line.startswith("jobs/bad.yaml:7:1: error GP505: ") for line in status["diagnostics"])
    assert any(event.reason == "CommitRefused" for event in report.done.events)


def test_a_refused_commit_is_tried_again_later_and_later_and_the_condition_stays_meanwhile(world: World) -> None:
    world.compiles()
    world.answers("bad")
    for world.time, due in ((9.0, 1), (11.0, 2), (30.0, 2), (32.0, 3), (71.0, 3), (73.0, 4)):
        world.look()
        assert len(world.compiler.asked) == due, world.time
        if world.compiler.is_busy:
            world.compiles()
            assert not condition(world.report().conditions, "Accepted").status
            world.answers("bad")
    world.time = 1000.0
    world.look()
    world.compiles()
    assert world.answers().snapshot == NEW
    assert condition(world.report().conditions, "Accepted").status


def test_a_newer_commit_takes_the_place_of_one_that_is_asked_about(world: World) -> None:
    world.compiles()
    world.r.poller.head = BranchHead("newer", Repository({}, {}, ()))
    world.look()
    assert world.compiler.asked[-1].commit == "newer"
    assert not world.asked.is_busy, "the answers about the former one are not waited for"
    world.compiles(replace(NEW, commit="newer"))
    world.look()
    assert world.asked.times == 2
    p = world.answers()
    assert p.snapshot is not None
    assert p.snapshot.commit == "newer"


def test_a_replica_that_does_not_lead_follows_the_inventory(world: World) -> None:
    world.r.was_holder = False
    world.compiles()
    assert not world.asked.questions
    assert world.r.inventory is not None
    world.r.inventory.commit = "new"
    assert world.look().snapshot == NEW


@pytest.mark.parametrize(("follows", "kept"), [(True, OLD), (False, None)])
def test_a_plan_older_than_what_another_replica_has_in_force_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch, follows: bool, kept: Snapshot | None
) -> None:
    monkeypatch.setattr(Mirror, "is_ancestor", lambda self, older, newer: follows)
    give_up_superseded_plan(world.r)
    assert world.r.planning.snapshot is OLD, "the inventory names the commit of the plan"
    assert world.r.inventory is not None
    world.r.inventory.commit = "another"
    give_up_superseded_plan(world.r)
    assert world.r.planning.snapshot is kept


def test_another_plan_of_the_commit_in_force_is_not_asked_about(world: World) -> None:
    world.r.poller.head = BranchHead("old", Repository({}, {}, ()))
    again = replace(OLD, max_waiting_pods=7)
    assert world.compiles(again).snapshot is again
    assert not world.asked.questions


def test_only_what_the_commit_makes_or_changes_is_asked_about(world: World) -> None:
    live = {**job("a").object, "metadata": {**job("a").object["metadata"], "uid": "u", "resourceVersion": "1"}}
    live["metadata"] |= {
        "labels": {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "test"},
        "annotations": {"gangplan.dev/digest": "sha256:a"},
    }
    world.compiler.answer = NEW
    world.r.planning.snapshot = replace(OLD, manifests=())
    world.look({"Job.batch.volcano.sh/default/a": live})
    assert [question.ref.name for question in world.asked.questions] == ["team", "bad", "good"]


def test_what_the_commit_in_force_wants_as_well_is_not_asked_about(world: World) -> None:
    """While a queue could not be written, since a webhook hung, each later commit waited for its answer again."""
    changed = replace(team(), object={**team().object, "spec": {"weight": 2}})
    world.compiler.answer = Snapshot("new", True, plan=PLAN, manifests=(team(), job("a"), job("good")))
    world.look()
    assert [question.ref.name for question in world.asked.questions] == ["good"]
    world.r.poller.head = BranchHead("newer", Repository({}, {}, ()))
    world.look()
    world.compiles(Snapshot("newer", True, plan=PLAN, manifests=(changed, job("a"))))
    assert [question.ref.name for question in world.asked.questions] == ["team"]


def test_a_commit_that_waits_for_the_servers_answers_says_so_and_what_is_in_force_is_planned_anew(
    world: World,
) -> None:
    """A webhook that hangs: for up to a minute and a half nothing happened, and nothing said why."""
    world.compiles()
    report = world.report()
    assert condition(report.conditions, "Accepted").status
    assert report.next_wakeup == 5.0, "to tell it"
    assert not report.is_idle
    world.asked.waits_for = "Queue team: failed calling webhook"
    world.r.planning.tree = Repository({}, {}, ())
    report = world.report()
    told = condition(report.conditions, "Accepted")
    assert (told.status, told.reason) == (False, "Unanswered")
    assert "commit new" in told.message
    assert told.message.endswith("Queue team: failed calling webhook")
    assert [event.reason for event in report.done.events] == ["CommitUnanswered"]
    assert not report.is_idle
    assert world.compiler.asked[-1].commit == "old", "its plan may rest on nodes that are gone"
    again = replace(OLD, max_waiting_pods=7)
    assert world.compiles(again).snapshot is again
    assert world.asked.is_busy, "the new commit goes on waiting"
    assert world.answers().snapshot == NEW
    assert condition(world.report().conditions, "Accepted").status
