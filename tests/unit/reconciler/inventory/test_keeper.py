"""The inventory is read when another may have written it, and made whole where somebody took a part of it."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from reconciler.cluster.client import Retry
from reconciler.cluster.lease import Fence, Lease
from reconciler.cluster.objects import Ref
from reconciler.inventory.keeper import InventoryKeeper, OtherGangplanError, refuse_beside_another
from reconciler.inventory.store import Inventory, InventoryEntry, InventoryStore
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer
from tests.builders.writing import config_map

COMMIT = "c0ffee"


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    InventoryStore(made.client(), "gangplan-system", "test").write(Inventory(commit=COMMIT))
    return made


def keeper_on(cluster: FakeCluster) -> InventoryKeeper:
    client = cluster.client()
    lease = Lease(client, "gangplan-system", "gangplan-test", "me")
    return InventoryKeeper(InventoryStore(client, "gangplan-system", "test"), lease, Fence(lease), lambda: 0.0)


def nothing(*_: Any) -> None: ...


def test_an_inventory_that_was_taken_up_in_part_is_read_again(cluster: FakeCluster) -> None:
    """It passed for one that is known: it kept the transitions of the former leader, intents of that one were forgotten
    at once, and another gangplan was not looked for."""
    keeper = keeper_on(cluster)
    keeper.lease.try_acquire()
    cluster.fail(error_answer(500), "labelSelector")
    with pytest.raises(Retry):
        keeper.take_up(nothing)
    cluster.recover()
    cluster.requests.clear()
    assert keeper.take_up(nothing).transitions == keeper.lease.transitions == 1
    assert any("labelSelector" in path for _, path, _ in cluster.requests)


def test_who_leads_without_a_break_reads_it_once(cluster: FakeCluster) -> None:
    keeper, told = keeper_on(cluster), list[bool]()
    keeper.lease.try_acquire()
    taken = [keeper.take_up(lambda _, is_leading: told.append(is_leading)) for _ in range(3)]
    assert all(each is taken[0] for each in taken)
    keeper.forget()
    assert keeper.take_up(lambda _, is_leading: told.append(is_leading)) is not taken[0]
    assert told == [True, True]


def test_a_term_begins_when_another_replica_has_led(cluster: FakeCluster) -> None:
    """Not when the inventory is read again, as after each failed pass."""
    keeper = keeper_on(cluster)
    since = list[float]()
    for at, transitions in ((1.0, 1), (2.0, 1), (3.0, 3)):
        keeper.clock = partial(float, at)
        keeper.lease.try_acquire()
        keeper.lease.transitions = transitions
        keeper.forget()
        keeper.take_up(nothing)
        since.append(keeper.others_led_until)
    assert since == [1.0, 1.0, 3.0]


def test_a_replica_that_does_not_act_does_not_read_the_tables_for_each_pass(cluster: FakeCluster) -> None:
    keeper = keeper_on(cluster)
    keeper.take_up(nothing)
    cluster.requests.clear()
    for _ in range(5):
        assert keeper.take_up(nothing).commit == COMMIT
    assert not any("gangplan-test-objects" in path or "gangplan-test-runs" in path for _, path, _ in cluster.requests)
    keeper.lease.try_acquire()
    keeper.take_up(nothing)
    assert any("gangplan-test-objects" in path for _, path, _ in cluster.requests), "who acts reads all of it"


def test_what_was_deleted_by_hand_is_written_again_while_nothing_else_happens(cluster: FakeCluster) -> None:
    keeper = keeper_on(cluster)
    inventory = keeper.take_up(nothing)
    inventory.enter(InventoryEntry(Ref("v1", "ConfigMap", "default", "a"), "uid"))
    keeper.store.write(inventory)
    paths = [path for path in cluster.objects if "gangplan-test" in path]
    cluster.objects.clear()
    cluster.fail(error_answer(500))
    keeper.keep_whole(inventory, set(), 0)
    cluster.recover()
    for _ in paths:
        keeper.keep_whole(inventory, set(), 0)
    assert set(paths) <= cluster.objects.keys()
    head = next(path for path in paths if path.endswith("-inventory"))
    assert json.loads(cluster.objects[head]["data"]["inventory.json"])["version"] == 2


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


def test_of_two_the_older_inventory_stays_and_its_own_replicas_and_what_a_plan_holds_are_no_other() -> None:
    cluster = FakeCluster()
    first = claim(cluster, "gangplan-system", "test", "2026-01-01")
    second = claim(cluster, "gangplan-system", "other", "2026-01-02")
    labels = {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "else"}
    held = config_map(
        "volcano-scheduler-configmap", namespace="volcano-system", labels=labels, creationTimestamp="2025"
    )
    cluster.put("/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap", held)
    refuse_beside_another(first)
    with pytest.raises(OtherGangplanError):
        refuse_beside_another(second)
