"""What cannot be read: it holds up its own objects and what depends on it, and an error never reads as an empty set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.repository import Repository
from reconciler.changes.effects import Effects
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.context import Pass, Reconciler, Settings, build_reconciler, planned_runs, seen_by
from reconciler.git.mirror import Mirror
from reconciler.git.poller import BranchHead
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.loop import act_on_changes, compute_changes, follow_plan, kinds_in_use
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Observation, Restrictions
from reconciler.planning.compile.inputs import CompileRequest
from reconciler.planning.compile.process import CompileProcess
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.target import Target
from reconciler.pods.part import PodsPart
from tests.builders.scripted_server import ScriptedAnswer, ScriptedServer, error_answer

COMMIT = "c0ffee"
JOB: Object = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {"tasks": [], "ttlSecondsAfterFinished": 60},
}
MONITOR: Object = {
    "apiVersion": "monitoring.coreos.com/v1",
    "kind": "ServiceMonitor",
    "metadata": {"name": "metrics"},
    "spec": {},
}
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {},
}
CORE = {
    "resources": [
        {"name": "persistentvolumeclaims", "kind": "PersistentVolumeClaim", "namespaced": True},
        {"name": "secrets", "kind": "Secret", "namespaced": True},
    ]
}
NOTHING = ScriptedAnswer(200, {"metadata": {"resourceVersion": "5"}, "items": []})


class World:
    """A reconciler before a server that serves what Kubernetes and Volcano bring, with nothing in it.

    answers: part of a path -> what is answered there instead.
    """

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, ScriptedAnswer] = {"persistentvolumeclaims?": error_answer(403, "may not list claims")}
        self.server = ScriptedServer(self.answer)
        settings = Settings(str(folder), "main", "test", "gangplan-system", folder / "data")
        self.r: Reconciler = build_reconciler(settings, self.server.client(), "me")
        self.r.keeper.inventory = Inventory(commit=COMMIT)
        self.r.planning.branch.poller.head = BranchHead(COMMIT, Repository({}, {}, ()))
        self.r.watches.start()
        assert self.r.watches.wait_for_lists(60)

    def answer(self, method: str, path: str, body: Any) -> ScriptedAnswer:
        for part, answer in self.answers.items():
            if part in path:
                return answer
        if path == "/api/v1":
            return ScriptedAnswer(200, CORE)
        if "monitoring" in path or "/configmaps/" in path:
            return error_answer(404, "404 page not found")
        return ScriptedAnswer(200, b"") if "watch=1" in path else NOTHING

    def look(self, *objects: Object) -> Pass:
        """A pass with a plan of these objects, up to the guard."""
        manifests = tuple(Manifest(4, item, "f.yaml:1", "run" if item is JOB else "") for item in objects)
        snapshot = self.r.planning.snapshot
        if snapshot is None or snapshot.manifests != manifests:
            snapshot = self.r.planning.snapshot = Snapshot(COMMIT, True, plan={"gangs": []}, manifests=manifests)
        assert self.r.keeper.inventory is not None
        self.r.watches.watch_kinds(kinds_in_use(self.r, self.r.keeper.inventory))
        p = Pass(self.r.watches.observe(Restrictions()), self.r.keeper.inventory, snapshot=snapshot)
        compute_changes(self.r, p)
        return p


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.r.watches.stop()


def reasons(p: Pass) -> Mapping[str, str]:
    return {str(change.ref): change.reason for change in p.obstructed_changes}


def test_kinds_that_cannot_be_read_hold_up_only_their_own_objects(world: World) -> None:
    p = world.look(JOB, MONITOR, CLAIM)
    assert [str(change) for change in p.changes] == ["create Job default/train"]
    assert reasons(p).keys() == {"ServiceMonitor metrics", "PersistentVolumeClaim default/data"}
    assert "serves no kind ServiceMonitor" in reasons(p)["ServiceMonitor metrics"]
    assert "may not list claims" in reasons(p)["PersistentVolumeClaim default/data"]
    assert p.problems == [], "planning and pruning of the others go on"
    assert any("ServiceMonitor" in problem for problem in p.observation.partial_problems), "and it is told"


def test_what_left_the_repository_leaves_nothing_behind(world: World) -> None:
    world.look(JOB, MONITOR, CLAIM)
    assert "PersistentVolumeClaim" in world.r.watches.informers
    p = world.look(JOB)
    assert reasons(p) == {}
    assert p.observation.partial_problems == ()
    assert "PersistentVolumeClaim" not in world.r.watches.informers
    assert world.r.watches.unknown_kinds == {}


def test_a_commit_is_compiled_although_a_kind_that_passes_through_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = world.look(MONITOR, CLAIM)
    world.r.planning.branch.poller.head = BranchHead("beef", Repository({}, {}, ()))
    world.r.keeper.inventory = p.inventory
    started: list[CompileRequest] = []
    monkeypatch.setattr(CompileProcess, "start_compile", lambda self, request: started.append(request))
    monkeypatch.setattr(Mirror, "is_ancestor", lambda *_: True)
    p = Pass(world.r.watches.observe(Restrictions()), p.inventory)
    follow_plan(world.r, p)
    assert [request.commit for request in started] == ["beef"]


def entered(world: World, item: Object, uid: str = "u1") -> InventoryEntry:
    assert world.r.keeper.inventory is not None
    ref = ref_of(item)
    entry = world.r.keeper.inventory.entries[ref.key] = InventoryEntry(ref, uid, started=True)
    return entry


def test_jobs_are_left_alone_while_pods_cannot_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = world.r.watches.observe(Restrictions())
    known = seen.readable_kinds - {"Pod"}
    p = world.look(JOB)
    p.changes, p.desired_manifests = [], []
    p.observation = Observation({}, known, ("Pod cannot be read",), obstacles={"Pod": "Pod cannot be read"})
    monkeypatch.setattr(InformerSet, "watch_kinds", lambda *_: False)
    compute_changes(world.r, p)
    assert p.changes == []
    assert reasons(p) == {"Job default/train": "Pod cannot be read"}


@pytest.mark.parametrize("problems", [(), ("Node cannot be read",)])
def test_no_gate_is_lifted_and_nothing_evicted_on_a_stale_picture(
    world: World, problems: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    acted: list[str] = []
    monkeypatch.setattr("reconciler.loop.write_changes", lambda *_: acted.append("write_changes"))

    def act_on_pods(*_: Any) -> Effects:
        acted.append("act on pods")
        return Effects()

    monkeypatch.setattr(PodsPart, "act", act_on_pods)
    r = world.r
    p = world.look(JOB)
    p.observation = Observation({}, frozenset(), problems)
    p.follow(Target(COMMIT, snapshot=p.snapshot, fingerprint=Fingerprint(), base=Fingerprint()))
    r.keeper.is_leading = True
    monkeypatch.setattr(type(r.fence), "is_open", lambda self: True)
    monkeypatch.setattr(type(r.writer), "save_inventory", lambda self, inventory: "")
    act_on_changes(r, p)
    assert acted == (["write_changes"] if problems else ["write_changes", "act on pods"])


# ---- jobs that are gone although nobody saw them go


def unseen(world: World, listed: ScriptedAnswer, got: ScriptedAnswer) -> Pass:
    """A pass in which the list lacks a started job with a time to live, and the server answers so when asked for it."""
    entered(world, JOB)
    p = world.look(JOB)
    world.answers = {"fieldSelector": listed, "/jobs/train": got}
    seen, runs = seen_by(world.r, p), planned_runs(world.r)
    for key, doubt in world.r.runs.record_unobserved_ends(seen, runs).items():
        p.doubt_end(key, doubt)
    return p


def test_a_job_that_the_server_says_is_gone_has_had_its_run(world: World) -> None:
    p = unseen(world, NOTHING, error_answer(404))
    assert [run.phase for run in p.inventory.runs.values()] == ["Unknown"]


@pytest.mark.parametrize(
    ("listed", "got"),
    [
        (error_answer(404), error_answer(404)),
        (error_answer(403), error_answer(404)),
        (ScriptedAnswer(200, None), error_answer(404)),
        (NOTHING, error_answer(500)),
        (NOTHING, error_answer(403)),
        (NOTHING, ScriptedAnswer(200, None)),
        (NOTHING, ScriptedAnswer(200, {**JOB, "metadata": {**JOB["metadata"], "uid": "u1"}})),
    ],
)
def test_a_job_of_which_that_is_not_known_has_not_ended_and_is_not_made_again(
    world: World, listed: ScriptedAnswer, got: ScriptedAnswer
) -> None:
    p = unseen(world, listed, got)
    assert p.inventory.runs == {}
    p.changes, p.desired_manifests = [], []
    compute_changes(world.r, p)
    assert p.changes == []
    assert "Job default/train" in reasons(p)


def test_a_kind_of_which_we_have_objects_is_never_taken_to_be_empty(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.r.watches.stop()
    informer = world.r.watches.informers["Job.batch.volcano.sh"]
    informer.health.is_served = informer.health.was_served = False
    p = Pass(world.r.watches.observe(Restrictions()), Inventory())
    assert p.observation.problems == ()
    world.r.watches.expect_kinds([Ref(JOB["apiVersion"], "Job", "default", "train").group_kind])
    assert "was served before" in world.r.watches.observe(Restrictions()).partial_problems[0]
    assert not world.r.watches.observe(Restrictions()).readable_kinds & {"Job.batch.volcano.sh"}


def test_a_kind_whose_definition_was_deleted_holds_up_only_its_own_objects(world: World) -> None:
    """It stopped all planning for five minutes."""
    torch: Object = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": JOB["metadata"], "spec": {}}
    health = world.r.watches.informers["PyTorchJob.kubeflow.org"].health
    health.is_synced, health.problem, health.is_withdrawn = False, "404", True
    p = world.look(JOB, torch)
    assert p.problems == []
    assert [str(change) for change in p.changes] == ["create Job default/train"]
    assert reasons(p) == {"PyTorchJob default/train": "PyTorchJob cannot be read: 404"}
    health = world.r.watches.informers["Pod"].health
    health.is_synced, health.problem, health.is_withdrawn = False, "404", True
    assert world.r.watches.observe(Restrictions()).problems == ("Pod cannot be read: 404",), "all plans rest on pods"


def test_a_job_of_a_kind_that_is_not_served_keeps_no_room(world: World) -> None:
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "evictedFor": [], "startsAt": None}
    jobs = ({"apiVersion": api, "kind": kind} for api, kind in (("kubeflow.org/v1", "PyTorchJob"), ("batch/v1", "Job")))
    gangs = [{**job, "namespace": "d", "name": "j", "decision": "start", "pods": {}, **rest} for job in jobs]
    world.r.planning.snapshot = Snapshot(COMMIT, True, plan={"gangs": gangs})
    world.r.watches.informers["PyTorchJob.kubeflow.org"].health.is_served = False
    observation = world.r.watches.observe(Restrictions())
    restrictions = world.r.pods.restrictions(observation, world.r.planning.snapshot, {}, 0.0)
    assert restrictions.held_jobs == {
        "PyTorchJob.kubeflow.org/d/j": "the cluster does not serve PyTorchJob in kubeflow.org/v1"
    }
