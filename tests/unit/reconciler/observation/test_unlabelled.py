"""A job from which somebody takes our label is there all the same: it neither ends nor is made again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compiler.kubernetes import CLUSTER_LABEL, uid_of
from reconciler.changes.planned_runs import PlannedRuns
from reconciler.cluster.client import BRIEF_LIMITS
from reconciler.cluster.objects import Object, ref_of
from reconciler.cluster.watch import WatchHealth
from reconciler.inventory.store import Inventory, InventoryEntry
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Restrictions
from reconciler.observation.seen import Seen
from reconciler.observation.unlabelled import UnlabelledSearch
from reconciler.runs.part import RunsPart
from reconciler.threads.wake import WakeEvent
from reconciler.timings import TIMINGS, LookUpTimings
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer

KIND = "PyTorchJob.kubeflow.org"
"""Watched by our label here, as RayJobs are: the cluster in memory serves it."""
PATH = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


class Shown:
    """Stands in for an informer by our label."""

    selector = f"{CLUSTER_LABEL}=test"

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.health = WatchHealth(is_synced=True)

    def version_reached(self) -> int:
        return 0

    def keyed_items(self) -> Mapping[str, Object]:
        return self.objects

    def obstacle(self) -> str:
        return "" if self.health.is_synced else "it cannot be read"

    def wait_for_list(self, seconds: float) -> bool:
        return True


class World:
    def __init__(self, look_ups: LookUpTimings = TIMINGS.look_ups) -> None:
        self.cluster, self.shown, self.inventory = FakeCluster(), Shown(), Inventory()
        self.now, self.wake, client = 0.0, WakeEvent(), self.cluster.client()
        informers = {KIND: self.shown}
        self.watches = InformerSet(client, "test", self.wake.set, informers=informers)  # type: ignore[arg-type]
        self.runs = RunsPart(client.find, lambda: self.now, self.wake.set)
        is_job = PlannedRuns().is_job
        self.search = UnlabelledSearch(client.find, self.watches, is_job, lambda: self.now, self.wake.set, look_ups)

    def put(self, name: str) -> Object:
        """A job of ours that runs, without our label."""
        metadata = {"name": name, "namespace": "default"}
        job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata}
        made = self.cluster.put(f"{PATH}/{name}", job)
        self.inventory.enter(InventoryEntry(ref_of(made), uid_of(made), started=True))
        return made

    def vanishes(self, job: Object) -> None:
        """The watch says that it is gone."""
        self.shown.objects.pop(ref_of(job).key, None)
        self.watches.deleted_objects.append((job, True))

    def look(self) -> Seen:
        self.wake.clear()
        doubts = self.search.doubts(self.inventory)
        seen = Seen(self.now, 0.0, True, self.watches.observe(Restrictions()), self.inventory, doubts=doubts)
        self.runs.record_deletions(seen, PlannedRuns(), list(self.search.believed_deletions(seen)))
        return seen

    def is_ours(self, job: Object) -> bool:
        return self.inventory.entries[ref_of(job).key].uid == uid_of(job)

    def is_departed(self, job: Object) -> bool:
        return ref_of(job).key in self.runs.departed_jobs


@pytest.fixture
def world() -> World:
    return World()


def test_a_job_without_our_label_is_seen_when_the_server_has_it(world: World) -> None:
    job = world.put("train")
    world.vanishes(job)
    seen = world.look()
    assert seen.observation.objects[ref_of(job).key]["metadata"]["uid"] == uid_of(job)
    assert world.is_ours(job)
    assert not world.is_departed(job)
    assert (seen.doubts, world.watches.deleted_objects) == ({}, [])
    world.shown.objects[ref_of(job).key] = {**job, "metadata": {**job["metadata"], "labels": {CLUSTER_LABEL: "test"}}}
    assert world.look().observation.objects[ref_of(job).key]["metadata"]["labels"], "the watch has it again"
    assert not world.watches.unlabelled.found


def test_one_that_was_unlabelled_while_we_were_down_is_seen_too(world: World) -> None:
    job = world.put("train")
    assert ref_of(job).key in world.look().observation.objects


def test_one_that_the_server_does_not_have_is_gone(world: World) -> None:
    job = world.put("train")
    world.cluster.objects.clear()
    world.vanishes(job)
    seen = world.look()
    assert ref_of(job).key not in seen.observation.objects
    assert not world.is_ours(job), "it may be made again"
    assert world.is_departed(job)


def test_while_the_server_does_not_say_nothing_is_concluded(world: World) -> None:
    job = world.put("train")
    world.vanishes(job)
    world.cluster.before = lambda method, path, body: error_answer(503)
    for _ in range(2):
        seen = world.look()
        assert "whether it is gone is not known" in seen.doubts[ref_of(job).key]
        assert world.is_ours(job)
        assert not world.is_departed(job)
        assert not world.wake.is_set(), "no pass after pass"
    world.cluster.before = lambda method, path, body: None
    world.cluster.objects.clear()
    world.look()
    assert world.is_departed(job)


def test_while_the_kind_cannot_be_read_nothing_is_asked_or_concluded(world: World) -> None:
    job = world.put("train")
    world.vanishes(job)
    world.shown.health = WatchHealth(is_synced=False)
    world.look()
    assert (world.cluster.requests, world.is_ours(job), world.wake.is_set()) == ([], True, False)


def test_one_that_goes_while_it_has_no_label_has_gone_unseen(world: World) -> None:
    """No watch says so: whether it finished is decided by its time to live, as after a restart."""
    job = world.put("train")
    world.vanishes(job)
    world.look()
    world.cluster.objects.clear()
    seen = world.look()
    assert ref_of(job).key not in seen.observation.objects
    assert world.is_departed(job)
    assert world.is_ours(job)


def test_one_that_others_made_anew_is_gone(world: World) -> None:
    job = world.put("train")
    world.vanishes(job)
    another = world.cluster.put(f"{PATH}/train", {**job, "metadata": {"name": "train", "namespace": "default"}})
    world.shown.objects[ref_of(job).key] = another
    world.look()
    assert not world.is_ours(job)
    assert uid_of(another) != uid_of(job)


def test_so_many_are_asked_for_in_a_pass() -> None:
    world = World(LookUpTimings(most=2))
    jobs = [world.put(f"train-{at}") for at in range(3)]
    for job in jobs:
        world.vanishes(job)
    world.cluster.objects.clear()
    seen = world.look()
    assert list(seen.doubts) == [ref_of(jobs[2]).key]
    assert world.wake.is_set()
    assert [world.is_departed(job) for job in jobs] == [True, True, False]
    world.look()
    assert world.is_departed(jobs[2])


def test_a_pass_waits_for_one_answer_that_does_not_come_and_the_next_one_asks_for_others(world: World) -> None:
    """A hundred of them held up a pass for 400 s."""
    asked = list[str]()
    jobs = [world.put(f"train-{at}") for at in range(4)]
    for job in jobs:
        world.vanishes(job)

    def hang(method: str, path: str, body: object) -> None:
        asked.append(path.rpartition("/")[2])
        world.now += BRIEF_LIMITS.total
        raise TimeoutError("the read timed out")

    world.cluster.before = hang
    for _ in range(2):
        seen = world.look()
        assert seen.doubts.keys() == {ref_of(job).key for job in jobs}
        assert not world.wake.is_set(), "no pass after pass"
    assert asked == ["train-0", "train-1"], "the first one is not asked for again at once"
    world.cluster.before = lambda method, path, body: None
    world.cluster.objects.clear()
    world.look()
    assert [world.is_departed(job) for job in jobs] == [False, False, True, True]
