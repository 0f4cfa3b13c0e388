"""An object whose API version moved: v1alpha1 of its kind is served no more, v1 is."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change
from reconciler.cluster.client import NotFound
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.cluster.watch import Informer
from reconciler.inventory.shards import Table
from reconciler.inventory.store import Inventory, InventoryEntry, Origin
from reconciler.loop import kinds_in_use
from reconciler.objects.differ import Differ
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Restrictions, Seen
from reconciler.planning.branch import Target
from reconciler.timings import TIMINGS
from tests.builders.fake_cluster import FakeCluster
from tests.builders.ownership import World
from tests.builders.scripted_server import ScriptedAnswer, error_answer, served
from tests.builders.writing import LABELS, OURS, thing, writer_for

OLD, NEW, KIND = "example.com/v1alpha1", "example.com/v1", "Thing.example.com"
GROUP = {
    "preferredVersion": {"groupVersion": NEW},
    "versions": [{"groupVersion": version} for version in ("example.com/v2alpha1", NEW, OLD)],
}
THINGS = f"/apis/{NEW}/namespaces/default/things"


def moved_thing(api_version: str, **metadata: Any) -> Object:
    return thing("Thing", "t", api=api_version, **{"labels": LABELS, "managedFields": [OURS], **metadata})


class Moved:
    """What answers for the versions of Thing."""

    def __init__(self, *served: str) -> None:
        self.served, self.asked = served, 0

    def __call__(self, method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if path == "/apis/example.com":
            self.asked += 1
            return ScriptedAnswer(200, GROUP) if self.served else error_answer(404)
        version = "/".join(path.partition("?")[0].split("/")[2:4])
        if version.startswith("example.com/") and version not in self.served:
            return error_answer(404, "the server could not find the requested resource")
        if path in (f"/apis/{OLD}", f"/apis/{NEW}"):
            return served("Thing")
        if path.partition("?")[0] == THINGS:
            return ScriptedAnswer(200, {"metadata": {"resourceVersion": "9"}, "items": []})
        return None


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> InformerSet:
    """Its informers read nothing, and their lists have come."""
    monkeypatch.setattr(Informer, "start", lambda self: self._ready.set())
    return InformerSet(FakeCluster().client(), "test", lambda: None)


def serve(watches: InformerSet, *versions: str) -> Moved:
    moved = Moved(*versions)
    cluster = watches.client.connect()
    assert isinstance(cluster, FakeCluster)
    cluster.before = moved
    return moved


def look(watches: InformerSet, version: str = OLD) -> tuple[bool, str]:
    """Whether another informer watches where this version is wanted, and the version that is watched."""
    before = watches.informers.get(KIND)
    watches.watch_kinds([(version, "Thing")])
    return watches.informers[KIND] is not before, watches.informers[KIND].resource.api_version


def test_jobs_are_watched_whole_and_what_else_a_plan_holds_by_our_label(watches: InformerSet) -> None:
    """A watch by label shows a job that lost the label as deleted: it counted as gone."""
    serve(watches, NEW)
    watches.start()
    kinds = [(NEW, "Thing"), ("ray.io/v1", "RayJob"), ("v1", "ConfigMap")]
    found = []
    for job_kinds in ((), (KIND,), ()):
        watches.watch_kinds(kinds, job_kinds)
        found.append({kind for kind, informer in watches.informers.items() if informer.selector})
    assert found == [{KIND, "ConfigMap"}, {"ConfigMap"}, {"ConfigMap"}]
    taken = {kind for kind, informer in watches.informers.items() if informer.on_update is not None}
    assert taken == {KIND, "ConfigMap"}, "of kinds that no plan rests on"


def test_what_goes_is_told_once(watches: InformerSet) -> None:
    gone = moved_thing(NEW), True
    watches.record_deletion(*gone)
    assert (watches.take_deletions(), watches.take_deletions()) == ([gone], [])


def test_an_informer_of_another_version_than_wanted_is_replaced(watches: InformerSet) -> None:
    serve(watches, OLD, NEW)
    assert look(watches, OLD) == (True, OLD)
    former = watches.informers[KIND]
    assert look(watches, NEW) == (True, NEW)
    assert former._stop.is_set()
    assert look(watches, NEW) == (False, NEW)


def test_what_plans_are_made_from_is_watched_in_one_version(watches: InformerSet) -> None:
    watches.start()
    watches.watch_kinds([("batch/v1beta1", "Job")])
    assert watches.informers["Job.batch"].resource.api_version == "batch/v1"


def test_what_is_served_no_more_is_watched_in_the_version_that_discovery_prefers(watches: InformerSet) -> None:
    """The watch of v1alpha1 ended with 404, and its objects were neither put back nor pruned for good."""
    now = 100.0
    watches.clock = lambda: now
    serve(watches, OLD, NEW)
    look(watches)
    moved = serve(watches, NEW)
    watches.informers[KIND].health.record_problem("404", is_withdrawn=True)
    assert look(watches) == (True, NEW)
    asked = moved.asked
    assert look(watches) == (False, NEW)
    assert moved.asked == asked, "not with each pass"
    serve(watches, OLD, NEW)
    now += TIMINGS.watch.look_again
    watches.client._unserved_until.clear()
    assert look(watches) == (True, OLD), "it is served again"


def test_a_kind_that_is_served_in_no_version_is_told_and_looked_for_now_and_then(watches: InformerSet) -> None:
    now = 100.0
    watches.clock = lambda: now
    moved = serve(watches)
    for _ in range(3):
        watches.watch_kinds([(OLD, "Thing")])
        assert watches.unknown_kinds[KIND]
    assert moved.asked == 1
    serve(watches, NEW)
    now += TIMINGS.watch.look_again
    assert look(watches) == (True, NEW)
    assert watches.unknown_kinds == {}


def test_an_informer_whose_kind_is_gone_stays_and_says_so(watches: InformerSet) -> None:
    serve(watches, OLD)
    look(watches)
    serve(watches)
    watches.informers[KIND].health.record_problem("404", is_withdrawn=True)
    assert look(watches) == (False, OLD)
    assert watches.unknown_kinds == {}


@pytest.mark.parametrize("is_known", [False, True])
def test_an_object_is_found_in_the_version_that_is_served(is_known: bool) -> None:
    """At a restart from an old inventory the version is not known, without one it is, and answers 404."""
    cluster = FakeCluster()
    client = cluster.client()
    if is_known:
        cluster.before = Moved(OLD)
        assert client.resource(OLD, "Thing")
    cluster.before = Moved(NEW)
    cluster.put(f"{THINGS}/t", moved_thing(NEW))
    found = client.find(Ref(OLD, "Thing", "default", "t"))
    assert found is not None
    assert found["apiVersion"] == NEW
    assert client.find(Ref(OLD, "Thing", "default", "other")) is None
    with pytest.raises(NotFound):
        client.resource(OLD, "Thing")
    cluster.before = Moved()
    with pytest.raises(NotFound):
        client.find(Ref(NEW, "Thing", "default", "t"))


@pytest.mark.parametrize("origin", ["created", "joined"])
def test_what_leaves_is_deleted_or_released_in_the_version_that_is_served(origin: Origin) -> None:
    """The deletion in the old version answered 404, which counted as gone, and the object stayed."""
    world = World()
    live = world.cluster.put(f"{THINGS}/t", moved_thing(NEW))
    entry = InventoryEntry(Ref(OLD, "Thing", "default", "t"), live["metadata"]["uid"], origin=origin)
    world.inventory.enter(entry)
    world.cluster.before = Moved(NEW)
    world.prune(world.look())
    made = [(method, path) for method, path in world.cluster.writes if "things" in path]
    assert made == [("DELETE" if origin == "created" else "PATCH", f"{THINGS}/t")]
    assert (f"{THINGS}/t" in world.cluster.objects) == (origin == "joined")
    world.prune(world.look())
    assert entry.ref.key not in world.inventory.entries


def test_the_entry_of_an_object_takes_the_version_that_was_written() -> None:
    """It kept the one of the first write as long as the object lived."""
    cluster = FakeCluster()
    cluster.before = Moved(OLD, NEW)
    live = cluster.put(f"{THINGS}/t", moved_thing(OLD))
    ref, desired = Ref(NEW, "Thing", "default", "t"), moved_thing(NEW)
    del desired["metadata"]["managedFields"]
    old = InventoryEntry(Ref(OLD, "Thing", "default", "t"), live["metadata"]["uid"], started=True)
    inventory = Inventory(Table({ref.key: old}))
    change = Change("update", ref, Manifest(4, desired, "x.yaml:1"), live)
    (result,) = writer_for(cluster.client()).apply_changes([change], inventory)
    assert result.outcome == "done"
    entry = inventory.entries[ref.key]
    assert (entry.ref, entry.uid, entry.started) == (ref, old.uid, True)


def test_the_version_of_the_plan_counts_before_the_one_of_the_inventory() -> None:
    """The last by name won: v1alpha1 over v1."""
    inventory = Inventory()
    for ref in (Ref(OLD, "Thing", "default", "t"), Ref("other.com/v1", "Other", "default", "o")):
        inventory.enter(InventoryEntry(ref, "uid"))
    assert kinds_in_use({(NEW, "Thing")}, inventory) == {(NEW, "Thing"), ("other.com/v1", "Other")}


def test_an_object_that_is_declared_in_a_version_that_is_not_served_is_told(watches: InformerSet) -> None:
    """Its kind is watched all the same, in the version that is."""
    serve(watches, NEW)
    watches.watch_kinds([(OLD, "Thing")])
    watches.observe(Restrictions())
    watches.informers[KIND].health.record_list(0.0)
    differ = Differ(DesiredManifests(watches.client, "test"), writer_for(watches.client), watches)
    seen = Seen(0.0, 0.0, True, watches.observe(Restrictions()), Inventory())
    assert OLD in differ.reading_obstacle(seen, Target(), ref_of(moved_thing(OLD)))
    assert differ.reading_obstacle(seen, Target(), ref_of(moved_thing(NEW))) == ""
