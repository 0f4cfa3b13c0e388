"""Two gangplans on one cluster: the second does not start, and says which is the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.inventory.neighbours import OtherGangplanError, refuse_beside_another
from reconciler.inventory.store import Inventory, InventoryStore
from tests.builders.fake_cluster import FakeCluster


def claim(cluster: FakeCluster, namespace: str, name: str, created: str) -> InventoryStore:
    """The inventory of a gangplan that has run before."""
    store = InventoryStore(cluster.client(), namespace, name)
    store.write(Inventory())
    path = f"/api/v1/namespaces/{namespace}/configmaps/gangplan-{name}-inventory"
    cluster.objects[path]["metadata"]["creationTimestamp"] = created
    return store


@pytest.mark.parametrize(("namespace", "name"), [("gangplan-system", "other"), ("elsewhere", "test")])
def test_another_name_or_namespace_is_refused_and_the_first_is_named(namespace: str, name: str) -> None:
    cluster = FakeCluster()
    claim(cluster, "gangplan-system", "test", "2026-01-01")
    with pytest.raises(OtherGangplanError, match="--cluster test --namespace gangplan-system"):
        refuse_beside_another(InventoryStore(cluster.client(), namespace, name))


def test_of_two_that_start_together_the_older_inventory_stays() -> None:
    cluster = FakeCluster()
    first = claim(cluster, "gangplan-system", "test", "2026-01-01")
    second = claim(cluster, "gangplan-system", "other", "2026-01-02")
    refuse_beside_another(first)
    with pytest.raises(OtherGangplanError):
        refuse_beside_another(second)


def test_its_own_replicas_and_what_a_plan_holds_are_no_other() -> None:
    cluster = FakeCluster()
    store = claim(cluster, "gangplan-system", "test", "2026-01-02")
    labels = {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "else"}
    path = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
    metadata = {"name": Path(path).name, "namespace": "volcano-system", "labels": labels}
    cluster.put(path, {"metadata": {**metadata, "creationTimestamp": "2025"}})
    refuse_beside_another(store)
