"""What cannot be read: it holds up its own objects and what depends on it, and an error never reads as an empty set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Changes
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.loop import kinds_in_use
from reconciler.objects.differ import Differ, Fates
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Observation, Restrictions, Seen
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import Snapshot
from reconciler.runs.part import RunsPart
from tests.builders.live import VOLCANO, live, with_metadata
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer, served
from tests.builders.writing import writer_for

COMMIT = "c0ffee"
JOB: Object = {**live(VOLCANO, "Job", "train"), "spec": {"tasks": [], "ttlSecondsAfterFinished": 60}}
MONITOR = live("monitoring.coreos.com/v1", "ServiceMonitor", "metrics")
CLAIM = live("v1", "PersistentVolumeClaim", "data")
MONITOR_NAME, CLAIM_NAME = "ServiceMonitor default/metrics", "PersistentVolumeClaim default/data"
NOTHING = ScriptedAnswer(200, {"metadata": {"resourceVersion": "5"}, "items": []})


class World:
    """What is read from a server that serves what Kubernetes and Volcano bring, with nothing in it.

    answers: part of a path -> what is answered there instead.
    """

    def __init__(self) -> None:
        self.answers: dict[str, ScriptedAnswer] = {"persistentvolumeclaims?": error_answer(403, "may not list claims")}
        client = ScriptedServer(self.answer).client()
        self.inventory, self.watches = Inventory(commit=COMMIT), InformerSet(client, "test", lambda: None)
        self.differ = Differ(DesiredManifests(client, "test"), writer_for(client), self.watches)
        self.runs = RunsPart(client.find, lambda: 0.0, lambda: None)
        self.snapshot = Snapshot(COMMIT, True)
        self.watches.start()
        assert self.watches.wait_for_lists(60)

    def answer(self, method: str, path: str, body: Any) -> ScriptedAnswer:
        for part, answer in self.answers.items():
            if part in path:
                return answer
        if path == "/api/v1":
            return served("PersistentVolumeClaim", "Secret")
        if "monitoring" in path or "/configmaps/" in path:
            return error_answer(404, "404 page not found")
        return ScriptedAnswer(200, b"") if "watch=1" in path else NOTHING

    def look(self, *objects: Object) -> Seen:
        """What a pass with a plan of these objects sees."""
        manifests = tuple(Manifest(4, item, "f.yaml:1", "run" if item is JOB else "") for item in objects)
        self.snapshot = Snapshot(COMMIT, True, plan={"gangs": []}, manifests=manifests)
        self.watches.watch_kinds(kinds_in_use(self.snapshot.kinds, self.inventory))
        return Seen(0.0, 0.0, True, self.watches.observe(Restrictions()), self.inventory)

    def changes(self, seen: Seen) -> Changes:
        target = Target(COMMIT, snapshot=self.snapshot, runs=PlannedRuns(self.snapshot.jobs))
        wanted = self.differ.collect(self.snapshot, target.runs, lambda manifest: manifest)
        return self.differ.changes(wanted, seen, target, Fates())


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.watches.stop()


def reasons(changes: Changes) -> Mapping[str, str]:
    return {str(change.ref): change.reason for change in changes.obstructed}


def test_kinds_that_cannot_be_read_hold_up_only_their_own_objects(world: World) -> None:
    seen = world.look(JOB, MONITOR, CLAIM)
    changes = world.changes(seen)
    assert [str(change) for change in changes.due] == ["create Job default/train"]
    assert reasons(changes).keys() == {MONITOR_NAME, CLAIM_NAME}
    assert "serves no kind ServiceMonitor" in reasons(changes)[MONITOR_NAME]
    assert "may not list claims" in reasons(changes)[CLAIM_NAME]
    assert seen.observation.problems == (), "planning and pruning of the others go on"
    assert any("ServiceMonitor" in problem for problem in seen.observation.partial_problems), "and it is told"


def test_what_left_the_repository_leaves_nothing_behind(world: World) -> None:
    world.look(JOB, MONITOR, CLAIM)
    assert "PersistentVolumeClaim" in world.watches.informers
    seen = world.look(JOB)
    assert reasons(world.changes(seen)) == {}
    assert seen.observation.partial_problems == ()
    assert "PersistentVolumeClaim" not in world.watches.informers
    assert world.watches.unknown_kinds == {}


def test_jobs_are_left_alone_while_pods_cannot_be_read(world: World) -> None:
    seen = world.look(JOB)
    known = seen.observation.readable_kinds - {"Pod"}
    blind = Observation({}, known, ("Pod cannot be read",), obstacles={"Pod": "Pod cannot be read"})
    changes = world.changes(replace(seen, observation=blind))
    assert changes.due == ()
    assert reasons(changes) == {"Job default/train": "Pod cannot be read"}


# ---- jobs that are gone although nobody saw them go


def unseen(world: World, listed: ScriptedAnswer, got: ScriptedAnswer) -> Seen:
    """A pass in which the list lacks a started job with a time to live, and the server answers so when asked for it."""
    world.inventory.enter(InventoryEntry(ref_of(JOB), "u1", started=True))
    seen = world.look(JOB)
    world.answers = {"fieldSelector": listed, "/jobs/train": got}
    return replace(seen, doubts=world.runs.record_unobserved_ends(seen, PlannedRuns(world.snapshot.jobs)))


@pytest.mark.parametrize(
    ("listed", "got"),
    [
        (error_answer(404), error_answer(404)),
        (error_answer(403), error_answer(404)),
        (ScriptedAnswer(200, None), error_answer(404)),
        (NOTHING, error_answer(500)),
        (NOTHING, error_answer(403)),
        (NOTHING, ScriptedAnswer(200, None)),
        (NOTHING, ScriptedAnswer(200, with_metadata(JOB, uid="u1"))),
        (NOTHING, error_answer(404)),
    ],
)
def test_a_job_has_ended_only_where_the_server_says_so(
    world: World, listed: ScriptedAnswer, got: ScriptedAnswer
) -> None:
    """Only where the server says by name and by list that it is gone it has had its run."""
    is_gone = listed is NOTHING and got.status == 404
    changes = world.changes(unseen(world, listed, got))
    assert [run.phase for run in world.inventory.runs.values()] == ["Unknown"] * is_gone
    assert (changes.due, "Job default/train" in reasons(changes)) == ((), not is_gone)


def test_a_kind_of_which_we_have_objects_is_never_taken_to_be_empty(world: World) -> None:
    world.watches.stop()
    world.watches.informers["Job.batch.volcano.sh"].health.record_unserved()
    assert world.watches.observe(Restrictions()).problems == ()
    world.watches.expect_kinds([ref_of(JOB).group_kind])
    observation = world.watches.observe(Restrictions())
    assert "was served before" in observation.partial_problems[0]
    assert not observation.readable_kinds & {"Job.batch.volcano.sh"}


def test_a_kind_whose_definition_was_deleted_holds_up_only_its_own_objects(world: World) -> None:
    """It stopped all planning for five minutes."""
    torch = live("kubeflow.org/v1", "PyTorchJob", "train")
    world.watches.informers["PyTorchJob.kubeflow.org"].health.record_problem("404", is_withdrawn=True)
    seen = world.look(JOB, torch)
    changes = world.changes(seen)
    assert seen.observation.problems == ()
    assert [str(change) for change in changes.due] == ["create Job default/train"]
    assert reasons(changes) == {"PyTorchJob default/train": "PyTorchJob cannot be read: 404"}
    world.watches.informers["Pod"].health.record_problem("404", is_withdrawn=True)
    problems = world.watches.observe(Restrictions()).problems
    assert problems == ("Pod cannot be read: 404",), "all plans rest on pods"
