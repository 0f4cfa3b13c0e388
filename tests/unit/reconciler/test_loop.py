"""Which waiting jobs are made in the cluster, gated, and which are not; with what a process begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change
from reconciler.cluster.objects import ref_of
from reconciler.context import Pass, Settings, build_reconciler
from reconciler.inventory.store import Inventory
from reconciler.loop import _collect_manifests, withhold_waiting_jobs
from reconciler.observation.observe import Observation
from reconciler.planning.snapshot import Snapshot
from tests.builders.fake_cluster import FakeCluster
from tests.unit.reconciler.planning.test_candidate import job


def test_a_held_job_is_not_created_and_the_status_says_why() -> None:
    jobs = [job(name) for name in ("held", "waits", "starts")]
    shared: dict[str, Any] = {
        "pods": {},
        "queue": "team",
        "domains": [],
        "reasons": [],
        "evictedFor": [],
        "startsAt": None,
    }
    shared |= {"startsAt": None, "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "namespace": "default"}
    entries = [
        {**shared, "name": "held", "decision": "wait", "held": True},
        {**shared, "name": "waits", "decision": "wait"},
        {**shared, "name": "starts", "decision": "start"},
    ]
    snapshot = Snapshot("c", True, plan={"gangs": entries}, manifests=tuple(jobs), max_waiting_pods=10)
    p = Pass(Observation({}, frozenset()), Inventory())
    p.changes = [Change("create", ref_of(each.object), each) for each in jobs]
    withhold_waiting_jobs(p, snapshot)
    assert [change.ref.name for change in p.changes] == ["waits", "starts"]
    assert [(change.ref.name, "share" in change.reason) for change in p.held_changes] == [("held", True)]
    assert p.held_changes[0].is_deferred, "told after what is wrong"


@pytest.mark.parametrize("namespace", [{}, {"namespace": "default"}])
def test_an_object_that_is_declared_in_a_version_that_is_not_served_has_not_left_the_repository(
    tmp_path: Path, namespace: dict[str, str]
) -> None:
    """Its kind was watched in the version that the cluster serves, so it was deleted, by a typing error in its
    apiVersion."""
    settings = Settings(str(tmp_path), "main", "test", "gangplan-system", tmp_path / "data")
    r = build_reconciler(settings, FakeCluster().client(), "me")
    declared = {"apiVersion": "example.com/v7", "kind": "Thing", "metadata": {"name": "t", **namespace}}
    p = Pass(Observation({}, frozenset()), Inventory())
    _collect_manifests(r, p, Snapshot("c", True, manifests=(Manifest(4, declared, "x.yaml:1"),)))
    assert "Thing.example.com/default/t" in p.desired_keys
