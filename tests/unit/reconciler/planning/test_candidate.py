"""A commit with an object that the API server refuses is held as a whole, and says so for as long as that is so."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from compiler.emit.manifest import Manifest
from reconciler.planning.dry_run import DryRun
from reconciler.planning.snapshot import Snapshot
from tests.builders.fake_cluster import FakeCluster
from tests.builders.live import with_metadata
from tests.builders.planning import EMPTY, READABLE, PlanningWorld
from tests.builders.threads import no_new_thread
from tests.builders.writing import LABELS, thing, volcano_job

PLAN = {"digest": "sha256:1", "gangs": []}


def manifest(kind: str, name: str, wave: int = 4) -> Manifest:
    return Manifest(wave, thing(kind, name), "others.yaml:1")


def job(name: str) -> Manifest:
    return Manifest(5, volcano_job(name, {"queue": "team"}), f"jobs/{name}.yaml:7", run_digest=f"sha256:{name}")


def team(weight: int = 1) -> Manifest:
    item = thing("Queue", "team", api="scheduling.volcano.sh/v1beta1", namespace="")
    return Manifest(1, {**item, "spec": {"weight": weight}}, "queues.yaml:1")


OLD = Snapshot("old", True, plan=PLAN, manifests=(team(), job("a")))
NEW = Snapshot("new", True, plan=PLAN, manifests=(team(), job("a"), job("bad"), job("good")))


def asked(world: PlanningWorld) -> list[str]:
    return [question.ref.name for question in world.asked.questions]


@pytest.fixture
def world() -> PlanningWorld:
    made = PlanningWorld(OLD, "new")
    made.look()
    return made


def test_a_new_commit_is_asked_about_before_it_is_in_force(world: PlanningWorld) -> None:
    assert world.compiled(NEW).snapshot is OLD
    assert asked(world) == ["bad", "good"]
    assert world.asked.questions[1].others == {"team"}, "of the plan in force, and not there yet"
    assert world.look().snapshot is OLD
    assert len(world.compiler.asked) == 1, "no compile while the answer is awaited"
    assert world.answers().snapshot == NEW
    assert not world.part.rejections


def test_a_plan_with_a_new_kind_is_in_force_once_the_pass_has_looked_at_that(world: PlanningWorld) -> None:
    """A Namespace that the pass had not looked at was held up, and its jobs were refused for want of it."""
    snapshot = replace(NEW, manifests=(*NEW.manifests, manifest("Namespace", "lab")))
    world.compiled(snapshot)
    assert ("v1", "Namespace") in world.part.kinds, "so that the next pass looks at it"
    assert world.wakes == 1
    world.asked.result, world.asked.is_busy = (), False
    assert world.look().snapshot is OLD
    assert world.look(readable=READABLE | {"Namespace"}).snapshot == snapshot
    assert world.asked.times == 1, "the answer is kept meanwhile"


def test_jobs_may_wait_for_a_quota_and_what_a_refusal_may_hang_on_is_named(world: PlanningWorld) -> None:
    others = manifest("ResourceQuota", "few"), manifest("ConfigMap", "settings"), manifest("Pod", "pod", wave=5)
    world.compiled(replace(NEW, manifests=(team(2), *others, job("good"))))
    found = {question.ref.name: question for question in world.asked.questions}
    assert {name for name, question in found.items() if question.may_wait} == {"good", "pod"}
    assert found["settings"].others == found["good"].others == {"team", "few"}
    assert not found["team"].others, "a queue is judged by other queues alone"


def test_one_refusal_holds_the_commit_whole_and_names_file_and_line(world: PlanningWorld) -> None:
    world.compiled(NEW)
    target = world.answers("bad")
    assert (target.snapshot, target.commit) == (OLD, "old")
    for world.time in (0.0, 5.0, 9.0):
        verdict = world.verdict()
        found = {each.type: each for each in verdict.conditions()}
        assert (found["Accepted"].status, found["Accepted"].reason) == (False, "CommitRefused")
        assert "jobs/bad.yaml:7: GP505" in found["Accepted"].message == verdict.refusal_message
        assert found["Compiled"].status
        assert [str(change.ref) for change in verdict.refusals] == ["Job default/bad"]
        assert [(each["file"], each["line"]) for each in verdict.diagnostics] == [("jobs/bad.yaml", 7)]
    assert world.reasons() == ["CommitRefused"]


def test_a_refused_commit_is_tried_again_later_and_later_and_the_condition_stays(world: PlanningWorld) -> None:
    world.compiled(NEW)
    world.answers("bad")
    for world.time, due in ((9.0, 1), (11.0, 2), (30.0, 2), (32.0, 3), (71.0, 3), (73.0, 4)):
        world.look()
        assert len(world.compiler.asked) == due, world.time
        if world.compiler.is_busy:
            world.compiled(NEW)
            assert not world.condition("Accepted").status
            world.answers("bad")
    world.time = 1000.0
    world.look()
    world.compiled(NEW)
    assert world.answers().snapshot == NEW
    assert world.condition("Accepted").status


def test_what_is_held_against_a_former_head_is_forgotten(world: PlanningWorld) -> None:
    world.compiled(NEW)
    world.answers("bad")
    assert world.part.rejections.keys() == {"new"}
    world.move_head("newer")
    world.look()
    assert not world.part.rejections


def test_a_newer_commit_takes_the_place_of_one_that_is_asked_about(world: PlanningWorld) -> None:
    world.compiled(NEW)
    world.move_head("newer")
    world.look()
    assert world.compiler.asked[-1].commit == "newer"
    assert not world.asked.is_busy, "the answers about the former one are not waited for"
    newer = replace(NEW, commit="newer")
    world.compiled(newer)
    world.look()
    assert world.asked.times == 2
    assert world.answers().snapshot == newer


def test_a_replica_that_does_not_lead_follows_the_inventory(world: PlanningWorld) -> None:
    world.is_leading = False
    world.compiled(NEW)
    assert not world.asked.questions
    world.inventory.bring_into_force("new")
    assert world.look().snapshot == NEW


@pytest.mark.parametrize("follows", [True, False])
def test_another_plan_than_the_one_in_force_is_given_up(world: PlanningWorld, follows: bool) -> None:
    """Where the branch was set back, the former head descends from the commit in force: a replica that took over with
    it would have gone forth again."""
    world.clone.follows = follows
    world.part.take_up(world.inventory)
    assert world.part.snapshot is OLD, "the inventory names the commit of the plan"
    world.inventory.bring_into_force("another")
    world.part.take_up(world.inventory)
    assert world.part.snapshot is None


def test_only_what_the_commit_makes_or_changes_is_asked_about() -> None:
    world = PlanningWorld(replace(OLD, manifests=()), "new")
    world.look()
    about = {"uid": "u", "resourceVersion": "1", "annotations": {"gangplan.dev/digest": "sha256:a"}}
    world.compiler.answer = NEW
    world.look({"Job.batch.volcano.sh/default/a": with_metadata(dict(job("a").object), labels=LABELS, **about)})
    assert asked(world) == ["team", "bad", "good"]


def test_what_the_commit_in_force_wants_as_well_is_not_asked_about(world: PlanningWorld) -> None:
    """While a queue could not be written, since a webhook hung, each later commit waited for its answer again."""
    world.compiled(replace(NEW, manifests=(team(), job("a"), job("good"))))
    assert asked(world) == ["good"]
    world.move_head("newer")
    world.look()
    world.compiled(replace(NEW, commit="newer", manifests=(team(2), job("a"))))
    assert asked(world) == ["team"]


def test_a_commit_that_waits_for_answers_says_so_and_what_is_in_force_is_planned_anew() -> None:
    """A webhook that hangs: for up to a minute and a half nothing happened, and nothing said why."""
    world = PlanningWorld(OLD, "new", tree=EMPTY)
    world.look()
    world.compiled(NEW)
    assert world.condition("Accepted").status
    assert world.next_look() == 5.0, "to tell it"
    assert world.part.is_busy
    world.asked.waits_for = "Queue team: failed calling webhook"
    told = world.condition("Accepted")
    assert (told.status, told.reason) == (False, "Unanswered")
    assert "commit new" in told.message
    assert told.message.endswith("Queue team: failed calling webhook")
    assert world.reasons() == ["CommitUnanswered"]
    assert world.compiler.asked[-1].commit == "old", "its plan may rest on nodes that are gone"
    again = replace(OLD, max_waiting_pods=7)
    assert world.compiled(again).snapshot is again
    assert world.asked.is_busy, "the new commit goes on waiting"
    assert world.answers().snapshot == NEW
    assert world.condition("Accepted").status


def test_a_thread_that_cannot_be_started_keeps_no_commit_waiting(world: PlanningWorld) -> None:
    """The round without a thread never ended: its commit was never in force."""
    world.part.candidacy.make_dry_run = partial(DryRun, FakeCluster().client(), lambda: None)
    with no_new_thread(), pytest.raises(RuntimeError):
        world.compiled(NEW)
    assert world.look().snapshot == NEW
