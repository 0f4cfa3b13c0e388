"""What is known of manifests ends with their objects."""

from __future__ import annotations

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change
from reconciler.cluster.objects import Ref
from tests.builders.fake_cluster import FakeCluster


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
