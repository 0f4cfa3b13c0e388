"""What is known of manifests ends with their objects."""

from __future__ import annotations

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests
from tests.builders.fake_cluster import FakeCluster


def test_nothing_that_one_process_remembers_outlives_its_object() -> None:
    """S22: names with a date in them grew without end."""
    desired = DesiredManifests(FakeCluster().client(), "test")
    for name in ("kept", *(f"job-{day}" for day in range(1000))):
        desired.note_unchanged(name, Manifest(4, {}, ""), ())
    desired.forget_except({"kept"})
    assert desired.unchanged.keys() == {"kept"}


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
