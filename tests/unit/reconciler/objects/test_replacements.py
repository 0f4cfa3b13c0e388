"""Objects that the server does not let be changed: deleted and made anew where their owner allows that, else told."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests, is_accepted_if_recreated
from reconciler.changes.diff import Change
from reconciler.changes.results import Allowed, ChangeResult, events_of_results
from reconciler.cluster.client import LostLease
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Origin
from reconciler.objects.differ import Differ, Fates, Wanted
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Seen
from reconciler.ownership.guard import deletion_digest
from reconciler.planning.dry_run import DryRun, Question
from tests.builders.fake_cluster import FakeCluster
from tests.builders.ownership import World
from tests.builders.planning import refusals_of
from tests.builders.scripted_server import ScriptedAnswer, error_answer, served
from tests.builders.threads import lose_lease
from tests.builders.writing import CONFIGMAPS, LABELS, OURS, config_map, creation, thing

REPLACE = {"gangplan.dev/replace": "true"}
ADOPT = {"gangplan.dev/adopt": "true"}
IMMUTABLE = 'ConfigMap "a" is invalid: data: Forbidden: field is immutable when `immutable` is set'
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


class Fixed(World):
    """A cluster that lets no object be changed, and takes each one anew."""

    def __init__(self) -> None:
        super().__init__()
        watches = InformerSet(self.client, "test", lambda: None)
        self.differ = Differ(DesiredManifests(self.client, "test"), self.writer, watches)
        self.cluster.before = self.refuse

    def refuse(self, method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if path == "/api/v1":
            return served("PersistentVolumeClaim")
        is_change = method == "PATCH" and "uid" in body["metadata"] and "inventory" not in path
        return error_answer(422, IMMUTABLE) if is_change else None

    def declare(self, value: str, annotations: dict[str, str], kind: str = "ConfigMap") -> Manifest:
        item = thing(kind, "a", labels=LABELS, annotations=annotations)
        return Manifest(4, {**item, "data": {"a": value}}, "x.yaml:1")

    def made(self, kind: str = "ConfigMap", folder: str = CONFIGMAPS, origin: Origin = "created") -> Object:
        item = {**thing(kind, "a", labels=LABELS, managedFields=[OURS]), "data": {"a": "old"}}
        live = self.cluster.put(f"{folder}/a", item)
        self.enter(live, origin)
        return live

    def guarded(self, desired: Manifest) -> tuple[Allowed, Seen]:
        """A pass as far as the change and the guard."""
        look, ref = self.look(desired.object, kinds=(desired.object["kind"], "Pod")), ref_of(desired.object)
        wanted = Wanted(((ref, desired),), declared=frozenset(look.changes.declared))
        changes = self.differ.changes(wanted, look.seen, look.target, Fates())
        return self.part.guard(changes, look.seen, look.target), look.seen

    def go(self, desired: Manifest) -> tuple[Allowed, list[ChangeResult]]:
        """A pass up to the writes."""
        allowed, seen = self.guarded(desired)
        due = [change for change in allowed.changes.due if self.writer.is_due(change)]
        self.part.announce_deletions(due, seen, allowed.prune_plan)
        results = self.writer.apply_changes(due, self.inventory)
        results += self.part.prune(allowed, seen, results).results
        self.time += 60.0
        return allowed, results

    def result(self, desired: Manifest) -> ChangeResult:
        _, (result,) = self.go(desired)
        return result


@pytest.fixture
def world() -> Fixed:
    return Fixed()


def test_an_object_that_may_not_be_changed_is_deleted_by_uid_and_made_anew_where_that_is_allowed(world: Fixed) -> None:
    """It was refused for ever: one had to delete it by hand, or give it another name by two commits."""
    live, desired = world.made(), world.declare("new", REPLACE)
    assert world.result(desired).outcome == "retry"
    assert world.deleted() == [], "a pass decides, with the guard"
    allowed, results = world.go(desired)
    assert [(change.action, change.live) for change in allowed.changes.due] == [("replace", live)]
    assert [result.outcome for result in results] == ["done"]
    assert [event.reason for event in events_of_results(results)] == ["Replaced"]
    bodies = [body for method, _, body in world.cluster.requests if method == "DELETE"]
    assert [body["preconditions"]["uid"] for body in bodies] == [live["metadata"]["uid"]]
    assert world.result(desired).change.action == "create"
    made = world.cluster.objects[f"{CONFIGMAPS}/a"]
    assert made["data"] == {"a": "new"}
    entry = world.inventory.entries[ref_of(live).key]
    assert (entry.uid, entry.origin) == (made["metadata"]["uid"], "created")
    assert world.go(desired)[0].changes.due == ()


@pytest.mark.parametrize(("annotations", "is_taken_new"), [({}, True), (REPLACE, False)])
def test_without_the_annotation_the_refusal_names_it_and_what_would_not_be_taken_anew_stays(
    world: Fixed, annotations: dict[str, str], is_taken_new: bool
) -> None:
    world.made()
    if not is_taken_new:
        world.cluster.fail(error_answer(422, IMMUTABLE), CONFIGMAPS)
    for _ in range(3):
        result = world.result(world.declare("new", annotations))
        assert (result.outcome, IMMUTABLE in result.message) == ("refused", True)
        assert ("gangplan.dev/replace" in result.message) == is_taken_new
    assert world.deleted() == []


def test_what_is_deleted_meanwhile_is_not_joined(world: Fixed) -> None:
    """The watch is late, and the name still taken: the object that goes was written into."""
    world.made()["metadata"] |= {"finalizers": ["x"], "deletionTimestamp": "2026"}
    outcome, message = world.outcome(creation(world.declare("new", REPLACE).object))
    assert (outcome, "being deleted" in message) == ("retry", True)


@pytest.mark.parametrize(("annotations", "is_deleted"), [(REPLACE, False), ({**REPLACE, **ADOPT}, True)])
def test_an_object_that_was_joined_is_replaced_only_with_adopt(
    world: Fixed, annotations: dict[str, str], is_deleted: bool
) -> None:
    world.made(origin="joined")
    desired = world.declare("new", annotations)
    world.go(desired)
    held = world.go(desired)[0].changes.held
    assert world.deleted() == (["a"] if is_deleted else [])
    assert [change.action for change in held] == ([] if is_deleted else ["held"])
    assert is_deleted or "gangplan.dev/adopt" in held[0].reason


@pytest.mark.parametrize(("kind", "folder"), [("PersistentVolumeClaim", CLAIMS), ("ConfigMap", CONFIGMAPS)])
def test_what_data_goes_with_is_not_made_anew_until_that_is_released(world: Fixed, kind: str, folder: str) -> None:
    """A claim, or a set that takes its claims with it."""
    live = world.made(kind, folder)
    if kind == "ConfigMap":
        live["spec"] = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    desired = world.declare("new", REPLACE, kind)
    world.go(desired)
    for _ in range(2):
        allowed, _ = world.go(desired)
        assert allowed.changes.due == ()
        assert world.deleted() == []
        (held,) = allowed.prune_plan.held_changes
        assert held.desired is desired
    digest = deletion_digest([Change("replace", ref_of(live), desired, live)])
    assert f"gangplan.dev/allow-prune: {digest}" in held.reason
    world.annotate("gangplan.dev/allow-prune", digest)
    world.go(desired)
    assert world.deleted() == ["a"]


@pytest.mark.parametrize(
    ("annotations", "is_taken_new", "is_job", "told"),
    [
        (REPLACE, True, False, None),
        ({}, True, False, True),
        (REPLACE, False, False, False),
        (REPLACE, True, True, False),
    ],
)
def test_a_commit_with_such_a_change_is_not_held_where_the_object_may_be_made_anew(
    annotations: dict[str, str], is_taken_new: bool, is_job: bool, told: bool | None
) -> None:
    """The dry run refused the whole commit; where it still does, it names the annotation."""

    def refuse(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        is_change = method == "PATCH" and "uid" in body["metadata"]
        return error_answer(422, IMMUTABLE) if is_change or not is_taken_new else None

    cluster = FakeCluster()
    live = cluster.put(f"{CONFIGMAPS}/a", config_map("a"))
    cluster.before = refuse
    item = config_map("a", annotations=annotations)
    question = Question(item, "x.yaml:1", live["metadata"]["uid"], is_job=is_job)
    refusals = refusals_of(DryRun(cluster.client(), lambda: None, [question])) or ()
    assert ["gangplan.dev/replace" in refusal.message for refusal in refusals] == ([] if told is None else [told])
    assert cluster.objects.keys() == {f"{CONFIGMAPS}/a"}


def test_nothing_is_asked_or_replaced_with_which_others_would_go() -> None:
    cluster = FakeCluster()
    for api, kind in (("v1", "Namespace"), ("scheduling.volcano.sh/v1beta1", "Queue")):
        assert not is_accepted_if_recreated(
            cluster.client(), {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}}
        )
    assert cluster.requests == []


def test_a_leader_that_loses_the_lease_asks_nothing_more(world: Fixed) -> None:
    world.client.fence = lose_lease
    with pytest.raises(LostLease):
        is_accepted_if_recreated(world.client, world.declare("new", REPLACE).object)
