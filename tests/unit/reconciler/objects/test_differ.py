"""Which waiting jobs are made in the cluster, gated, and which are not; and what counts as declared."""

from __future__ import annotations

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Changes
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Inventory
from reconciler.objects.differ import Differ, withhold_waiting_jobs
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Observation, Seen
from reconciler.planning.snapshot import Snapshot
from tests.builders.fake_cluster import FakeCluster
from tests.builders.pods import entry
from tests.builders.writing import manifest_of, volcano_job, writer_for


def test_a_held_job_is_not_created_and_the_status_says_why() -> None:
    jobs = [manifest_of(volcano_job(name, {})) for name in ("held", "waits", "starts")]
    decisions: tuple[tuple[str, Object], ...] = (("wait", {"held": True}), ("wait", {}), ("start", {}))
    entries = [entry(each.object, how, {}, **more) for each, (how, more) in zip(jobs, decisions, strict=True)]
    snapshot = Snapshot("c", True, plan={"gangs": entries}, manifests=tuple(jobs), max_waiting_pods=10)
    seen = Seen(0.0, 0.0, True, Observation({}, frozenset()), Inventory())
    due = tuple(Change("create", ref_of(each.object), each) for each in jobs)
    changes = withhold_waiting_jobs(Changes(due), seen, snapshot)
    assert [change.ref.name for change in changes.due] == ["waits", "starts"]
    assert [(change.ref.name, "share" in change.reason) for change in changes.held] == [("held", True)]
    assert changes.held[0].is_deferred, "told after what is wrong"


@pytest.mark.parametrize("namespace", [{}, {"namespace": "default"}])
def test_an_object_of_a_version_that_is_not_served_has_not_left_the_repository(namespace: dict[str, str]) -> None:
    """Its kind was watched in the version that the cluster serves, so it was deleted, by a typing error in its
    apiVersion."""
    client = FakeCluster().client()
    differ = Differ(DesiredManifests(client, "test"), writer_for(client), InformerSet(client, "test", lambda: None))
    declared = {"apiVersion": "example.com/v7", "kind": "Thing", "metadata": {"name": "t", **namespace}}
    snapshot = Snapshot("c", True, manifests=(Manifest(4, declared, "x.yaml:1"),))
    wanted = differ.collect(snapshot, PlannedRuns(), lambda manifest: manifest)
    assert "Thing.example.com/default/t" in wanted.declared
