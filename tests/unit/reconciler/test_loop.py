"""Which waiting jobs are made in the cluster, gated, and which are not; with what a process begins."""

from __future__ import annotations

from typing import Any

from reconciler.changes.diff import Change
from reconciler.cluster.objects import ref_of
from reconciler.context import Pass
from reconciler.inventory.store import Inventory
from reconciler.loop import withhold_waiting_jobs
from reconciler.observation.observe import Observation
from reconciler.planning.snapshot import Snapshot
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
