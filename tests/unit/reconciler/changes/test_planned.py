"""Which run of a job is to be now, what is known of manifests, and what may be written and deleted."""

from __future__ import annotations

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Allowed, Condition, PrunePlan
from reconciler.cluster.objects import Ref
from tests.builders.fake_cluster import FakeCluster

JOBS = {"job": Manifest(5, {}, "", "a")}


def test_a_rerun_is_another_run_of_the_same_digest_and_happens_once() -> None:
    assert PlannedRuns(JOBS).of("job") == "a"
    assert PlannedRuns(JOBS, {"job": ("a", 2)}, {"job": "a"}).of("job") == "a#2"
    assert PlannedRuns(JOBS, {}, {"job": "a#2"}).of("job") == "a#2", "what an operator deletes runs nothing again"
    assert PlannedRuns(JOBS).of("other", "as it was") == "as it was"


def test_a_rerun_of_another_specification_is_ignored() -> None:
    assert PlannedRuns(JOBS, {"job": ("former", 2)}, {"job": "former#7"}).of("job") == "a"


def ref(name: str) -> Ref:
    return Ref("v1", "ConfigMap", "default", name)


def test_what_another_part_gives_a_reason_for_is_held_be_it_to_be_deleted_or_given_back() -> None:
    deletion, release = Change("prune", ref("a"), live={}), Change("release", ref("b"), live={})
    plan = PrunePlan((deletion,), (release,))
    assert plan.holding(lambda change: "") == plan
    held = plan.holding(lambda change: "it is left alone")
    assert (held.changes, held.releases) == ((), ())
    assert [(each.action, each.reason) for each in held.held_changes] == [("held", "it is left alone")] * 2


def test_prune_held_says_all_reasons_and_how_many_objects_each_keeps() -> None:
    """S14: one protected object hid that 14 others were held."""
    reasons = ["prune: disabled protects it", *["14 objects would be deleted"] * 14]
    held = tuple(Change("held", ref(f"o{at}"), reason=text) for at, text in enumerate(reasons))
    said = {each.type: each for each in Allowed(prune_plan=PrunePlan(held_changes=held)).conditions()}
    text = "14 objects: 14 objects would be deleted; 1 object: prune: disabled protects it"
    assert said["PruneHeld"] == Condition("PruneHeld", True, "Held", text)
    assert said["InventoryLost"] == Condition("InventoryLost", False, "Present")
    assert list(Allowed(standstill="it is gone").conditions()) == [
        Condition("InventoryLost", True, "Held", "it is gone"),
        Condition("PruneHeld", False, "None"),
    ]


def test_nothing_that_one_process_remembers_outlives_its_object() -> None:
    """S22: names with a date in them grew without end."""
    desired = DesiredManifests(FakeCluster().client(), "test")
    for name in ("kept", *(f"job-{day}" for day in range(1000))):
        desired.change(name, Manifest(4, {}, ""), (), lambda: None)
    desired.forget_except({"kept"})
    assert desired.classified.keys() == {"kept"}


def test_a_change_that_waits_is_worked_out_once_for_each_state() -> None:
    """Of a thousand jobs that are made 32 at a time, each was compared again with each pass."""
    desired, manifest = DesiredManifests(FakeCluster().client(), "test"), Manifest(4, {}, "")
    change, worked_out = Change("create", Ref("v1", "ConfigMap", "default", "a"), manifest), list[str]()

    def of(version: str, manifest: Manifest = manifest) -> bool:
        def classify() -> Change:
            worked_out.append(version)
            return change

        found, is_new = desired.change("a", manifest, (version, None, False, False), classify)
        assert found is change
        return is_new

    assert [of("1"), of("1"), of("2"), of("2"), of("2", Manifest(4, {}, ""))] == [True, False, True, False, True]
    assert worked_out == ["1", "2", "2"]
    assert not desired.is_unchanged("a", manifest, ("2", ""), None)


def test_a_manifest_is_made_once_for_each_run_and_that_of_a_candidate_is_forgotten_with_it() -> None:
    desired = DesiredManifests(FakeCluster().client(), "test")
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    kept, other = Manifest(4, item, "a:1"), Manifest(4, item, "a:1")
    made, ref = desired.get(kept, "")
    assert (desired.get(kept, "")[0] is made, ref.namespace) == (True, "default")
    assert desired.get(kept, "sha256:1#2")[0].run_digest == "sha256:1#2"
    desired.get(other, "")
    desired.keep_only((kept,))
    assert desired.made.keys() == {id(kept)}
