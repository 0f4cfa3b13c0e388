"""The inventory in its ConfigMaps: what cannot be read is no empty inventory, nothing outgrows them, and only what
changed is written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from reconciler.cluster.client import Conflict
from reconciler.cluster.objects import Ref
from reconciler.inventory.shards import PackedRecord, place_of, shard_of
from reconciler.inventory.store import FinishedRun, Inventory, InventoryEntry, InventoryStore
from reconciler.timings import TIMINGS, InventoryTimings
from tests.builders.fake_cluster import FakeCluster, stored_sizes
from tests.builders.scripted_server import error_answer

PATH = "/api/v1/namespaces/gangplan-system/configmaps"
HEAD = f"{PATH}/gangplan-test-inventory"


def store_of(cluster: FakeCluster, shard_limit: int = TIMINGS.inventory.shard_limit) -> InventoryStore:
    return InventoryStore(cluster.client(), "gangplan-system", "test", InventoryTimings(shard_limit=shard_limit))


def with_small_shards(cluster: FakeCluster) -> InventoryStore:
    return store_of(cluster, 4 << 10)


def job(name: str) -> Ref:
    return Ref("batch.volcano.sh/v1alpha1", "Job", "default", name)


def inventory_of(objects: int, runs: int = 0) -> Inventory:
    """As hard to compress as in a cluster: uids and digests are not alike."""
    made = Inventory(commit="c0ffee")
    for at in range(objects):
        made.enter(InventoryEntry(job(f"object-{at}"), uid=_noise(at, 32), origin="joined"))
    for at in range(runs):
        digest, details = f"sha256:{_noise(at, 64)}", _details(at)
        made.record_run(FinishedRun(job(f"train-{at}"), digest, "Completed", details=details))
    return made


def _details(at: int) -> dict[str, Any]:
    """What is told of a run of two pods that was tried twice."""
    began, ended = f"2026-01-01T{at % 24:02}:{at % 60:02}:00Z", f"2026-01-02T{at % 24:02}:{at % 60:02}:00Z"
    counts = {event: [4, began, ended] for event in ("created", "bound", "failed", "ended")}
    return {
        "started": began,
        "ended": ended,
        "nodes": [f"gpu-{at * 7 % 10_000:05}", f"gpu-{at * 11 % 10_000:05}"],
        "retries": 1,
        "exitCodes": {"worker": {"0": 2, str(at % 256): 2}},
        "failures": [{"at": began, "role": "worker", "node": f"gpu-{at * 7 % 10_000:05}", "exitCode": at % 256}],
        "events": {"worker": counts},
        "uid": _noise(at, 32),
    }


def _noise(seed: int, length: int) -> str:
    return f"{(seed + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC8341082276BF3A27251F86C6A11D0C18E95:x}"[-length:]


@pytest.mark.parametrize(("objects", "runs"), [(0, 0), (1, 1), (900, 1900)])
def test_what_was_written_is_read_whatever_its_size(cluster: FakeCluster, objects: int, runs: int) -> None:
    inventory = inventory_of(objects, runs)
    inventory.deletions, inventory.transitions = [[1, 2, 3, 4, 5]], 7
    assert with_small_shards(cluster).read().is_lost
    with_small_shards(cluster).write(inventory)
    assert with_small_shards(cluster).read() == inventory


def test_100_000_finished_runs_and_10_000_objects_stay_below_the_limit_of_a_config_map(cluster: FakeCluster) -> None:
    """S10: the server refuses a ConfigMap above 1 MiB."""
    inventory = inventory_of(10_000, 100_000)
    store_of(cluster).write(inventory)
    assert max(stored_sizes(cluster.objects).values()) < 256 << 10
    store = store_of(cluster)
    found = store.read()
    assert len(found.runs) == 100_000
    cluster.requests.clear()
    found.runs[job("one-more").key] = FinishedRun(job("one-more"), "sha256:1", "Failed")
    store.write(found)
    assert len(cluster.writes) == 2, "the head, which is the fence, and the one shard that changed"


def test_a_record_is_a_mapping_like_any_other_and_kept_as_text() -> None:
    """As dicts, a hundred thousand took 370 MB."""
    run = FinishedRun(job("train"), "sha256:1", "Failed", details=_details(3))
    assert isinstance(run.details, PackedRecord)
    assert (dict(run.details), len(run.details)) == (_details(3), 8)
    assert replace(run, left_at=1).details is run.details
    assert run == FinishedRun(job("train"), "sha256:1", "Failed", details=_details(3))
    assert run != FinishedRun(job("train"), "sha256:1", "Failed", details=_details(4))


def test_the_run_that_ended_last_comes_last_also_when_it_is_read_again(cluster: FakeCluster) -> None:
    inventory, ends = Inventory(), {"a": "2026-01-03", "b": "2026-01-01", "c": "", "d": "2026-01-02"}
    for name, end in ends.items():
        inventory.record_run(FinishedRun(job(name), "sha256:1", "Failed", details={"ended": end}))
    store_of(cluster).write(inventory)
    found = store_of(cluster).read()
    assert [run.ref.name for run in found.runs.values()] == ["c", "b", "d", "a"]
    found.record_run(FinishedRun(job("b"), "sha256:2", "Completed"))
    assert [run.ref.name for run in found.runs.values()] == ["c", "d", "a", "b"]


def test_a_replica_that_does_not_act_reads_the_head_and_seldom_the_tables(cluster: FakeCluster) -> None:
    """It read the whole inventory for each pass, a hundred thousand runs too."""
    leader, standby = store_of(cluster), store_of(cluster)
    acting = inventory_of(10, 10)
    leader.write(acting)
    known = standby.read()
    cluster.requests.clear()
    for now in range(5):
        assert standby.follow(known, float(now)) is known
    assert {path for _, path, _ in cluster.requests} == {HEAD}
    acting.bring_into_force("f00d")
    acting.drop_entry(job("object-1").key)
    leader.write(acting)
    known = standby.follow(known, 10.0)
    assert (known.commit, len(known.entries)) == ("f00d", 9)
    acting.drop_entry(job("object-2").key)
    acting.bring_into_force("cafe")
    leader.write(acting)
    known = standby.follow(known, 11.0)
    assert (known.commit, len(known.entries)) == ("cafe", 9), "the commit at once, the tables later"
    known = standby.follow(known, 10.0 + TIMINGS.inventory.follow)
    assert len(known.entries) == 8


def test_a_second_writer_is_a_conflict_whatever_row_it_writes(cluster: FakeCluster) -> None:
    store_of(cluster).write(inventory_of(2000))
    stale, fresh = store_of(cluster), store_of(cluster)
    old, new = stale.read(), fresh.read()
    new.transitions += 1
    fresh.write(new)
    for number in range(20):
        old.entries[job(f"late-{number}").key] = InventoryEntry(job(f"late-{number}"))
        with pytest.raises(Conflict):
            stale.write(old)
    assert store_of(cluster).read() == new


def test_a_table_that_grows_is_spread_and_a_writer_killed_in_between_loses_nothing(cluster: FakeCluster) -> None:
    with_small_shards(cluster).write(inventory_of(10))
    former = {path for path in cluster.objects if "-objects-" in path}
    store = with_small_shards(cluster)
    store.read()
    larger = inventory_of(300)
    for stop_after in range(1, 40, 2):
        writes = 0

        def cut(method: str, path: str, body: Any, limit: int = stop_after) -> Any:
            nonlocal writes
            writes += method != "GET"
            return error_answer(500) if writes > limit else None

        cluster.before = cut
        try:
            store.write(larger)
        except Exception:
            cluster.before = lambda method, path, body: None
            assert with_small_shards(cluster).read().entries in (inventory_of(10).entries, larger.entries)
            store = with_small_shards(cluster)
            store.read()
            larger = inventory_of(300)
        else:
            break
    assert with_small_shards(cluster).read().entries == larger.entries
    assert former
    assert former.isdisjoint(cluster.objects), "nothing is left where it was"


def test_an_inventory_deleted_by_hand_while_we_run_is_made_again_from_memory(cluster: FakeCluster) -> None:
    """S9: every pass ended in "PUT ... 404", for ever."""
    store = with_small_shards(cluster)
    inventory = inventory_of(100, 10)
    store.write(inventory)
    for path in list(cluster.objects):
        del cluster.objects[path]
        inventory.runs[job(path[-1]).key] = FinishedRun(job(path[-1]), path, "Completed")
        for _ in range(16):
            store.restore(inventory)
        store.write(inventory)
        assert with_small_shards(cluster).read() == inventory
    cluster.objects.clear()
    inventory.bring_into_force("another")
    store.write(inventory)
    assert with_small_shards(cluster).read() == inventory, "all of it at once, for a process that begins now"


def test_a_missing_head_is_found_again_from_whole_shards_and_missing_shards_are_a_loss(cluster: FakeCluster) -> None:
    store_of(cluster).write(inventory_of(5000, 10))
    del cluster.objects[HEAD]
    found = store_of(cluster).read()
    assert found.entries == inventory_of(5000).entries
    assert not found.is_lost
    del cluster.objects[next(path for path in cluster.objects if "-objects-" in path)]
    assert store_of(cluster).read().is_lost


def test_a_lost_table_takes_what_was_deleted_within_the_hour_with_it_no_more(cluster: FakeCluster) -> None:
    """As much again could go then without a question."""
    inventory = inventory_of(1, 1)
    inventory.record_deletions(7, [9, 0, 0, 0])
    store_of(cluster).write(inventory)
    del cluster.objects[next(path for path in cluster.objects if "-objects-" in path)]
    found = store_of(cluster).read()
    assert (found.is_lost, found.commit, found.deletions) == (True, "c0ffee", [[7, 9, 0, 0, 0]])


def create_head(cluster: FakeCluster, content: Any) -> None:
    metadata = {"namespace": "gangplan-system", "name": "gangplan-test-inventory"}
    cluster.client().create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content})


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"data": {}},
        {"data": {"inventory.json": '{"objects": ['}},
        {"data": {"inventory.json": '{"commit": "", "objects": [], "version": 99}'}},
        {"binaryData": {"inventory.json.gz": "AAAA"}},
    ],
)
def test_an_inventory_that_cannot_be_read_is_an_error_and_not_empty(cluster: FakeCluster, broken: Any) -> None:
    create_head(cluster, broken)
    with pytest.raises(ValueError):
        store_of(cluster).read()


def write_by_hand(cluster: FakeCluster, table: str, text: str, **metadata: Any) -> str:
    """Put this text in the place of a table's rows; the shard's path."""
    path = next(path for path in cluster.objects if f"-{table}-" in path)
    found = cluster.objects[path]
    changed = {**found, "metadata": {**found["metadata"], **metadata}, "data": {"rows.json": text}, "binaryData": {}}
    answer = cluster.client().replace(changed)
    assert answer["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]
    return path


@pytest.mark.parametrize("text", ["[", "null", "{}", '["row"]', "[]", "[" * 100_000])
@pytest.mark.parametrize("table", ["objects", "runs"])
def test_a_shard_that_cannot_be_read_is_an_error(cluster: FakeCluster, table: str, text: str) -> None:
    """One that held `null` ended every pass without a word on which ConfigMap it was. One that held `[]` was believed:
    what was ours was never pruned, and what had run and was gone ran again."""
    edits: tuple[dict[str, Any], ...] = ({}, {"annotations": {}})
    for metadata in edits:
        cluster.objects.clear()
        store_of(cluster).write(inventory_of(1, 1))
        write_by_hand(cluster, table, text, **metadata)
        with pytest.raises(ValueError, match=rf"gangplan-test-{table}-.* holds no rows: .*delete it"):
            store_of(cluster).read()


HEAD_EDITS: dict[str, Any] = {
    "commit": "beef",
    "transitions": 99,
    "deletions": [],
    "tables": {name: {"generation": "", "shards": 0} for name in ("objects", "runs")},
}


def edit_head(cluster: FakeCluster, **values: Any) -> None:
    """Write into the head by hand."""
    head = {**json.loads(cluster.objects[HEAD]["data"]["inventory.json"]), **values}
    cluster.client().replace({**cluster.objects[HEAD], "data": {"inventory.json": json.dumps(head)}})


@pytest.mark.parametrize("edited", HEAD_EDITS)
def test_a_head_changed_by_hand_is_not_believed_and_made_again_from_memory(cluster: FakeCluster, edited: str) -> None:
    """Another commit was in force then, what was deleted within the hour was forgotten, and so was all that is ours."""
    store, inventory = store_of(cluster), inventory_of(10, 10)
    inventory.record_deletions(1, [9, 0, 0, 0])
    store.write(inventory)
    edit_head(cluster, **{edited: HEAD_EDITS[edited]})
    with pytest.raises(ValueError, match=r"gangplan-test-inventory holds no inventory: .*delete it"):
        store_of(cluster).read()
    assert store.restore(inventory)
    assert store_of(cluster).read() == inventory
    edit_head(cluster, **{edited: HEAD_EDITS[edited]})
    inventory.enter(InventoryEntry(job("late")))
    store.write(inventory)
    assert store_of(cluster).read() == inventory
    assert not store.restore(inventory)


def test_deletions_noted_by_a_clock_that_was_ahead_count_for_an_hour_and_not_for_a_year() -> None:
    """Seen once: deletions noted while the clock was a year ahead would have held others for a year."""
    inventory = Inventory(deletions=[[365 * 86400, 50, 0, 0, 0], [-10, 1, 0, 0, 0], [-3600, 1, 0, 0, 0]])
    inventory.trim_deletions(0, 3600)
    assert inventory.deletions == [[0, 50, 0, 0, 0], [-10, 1, 0, 0, 0]]
    inventory.trim_deletions(3600, 3600)
    assert inventory.deletions == []


@pytest.mark.parametrize("text", ["[]", "["])
@pytest.mark.parametrize("table", ["objects", "runs"])
def test_rows_changed_by_hand_are_made_again_from_memory(cluster: FakeCluster, table: str, text: str) -> None:
    """By the next round of housekeeping, or by the next write of this shard if that comes sooner."""
    store, inventory = store_of(cluster), inventory_of(100, 100)
    store.write(inventory)
    path = write_by_hand(cluster, table, text)
    rounds = 2 * max(int(place_of(item).get("shards", 0)) for item in cluster.objects.values())
    assert any(store.restore(inventory) for _ in range(rounds))
    assert store_of(cluster).read() == inventory
    write_by_hand(cluster, table, text)
    place = place_of(cluster.objects[path])
    late = (job(f"late-{at}") for at in range(100))
    ref = next(ref for ref in late if shard_of(ref.key, place["shards"]) == place["index"])
    inventory.enter(InventoryEntry(ref))
    inventory.record_run(FinishedRun(ref, "sha256:1", "Completed"))
    store.write(inventory)
    assert store_of(cluster).read() == inventory


def test_a_read_that_fails_changes_nothing_of_what_is_known(cluster: FakeCluster) -> None:
    """A write after it would have stored a shard without the rows that it held before, or passed another writer."""
    store, inventory = store_of(cluster), inventory_of(100, 1)
    store.write(inventory)
    path = write_by_hand(cluster, "runs", "[")
    with pytest.raises(ValueError, match="holds no rows"):
        store.read()
    del cluster.objects[path]
    inventory.enter(InventoryEntry(job("late")))
    inventory.record_run(FinishedRun(job("late"), "sha256:1", "Completed"))
    store.write(inventory)
    assert store_of(cluster).read() == inventory
    other = store_of(cluster)
    theirs = other.read()
    theirs.take_over(1)
    other.write(theirs)
    write_by_hand(cluster, "runs", "[")
    with pytest.raises(ValueError, match="holds no rows"):
        store.read()
    inventory.enter(InventoryEntry(job("later")))
    with pytest.raises(Conflict):
        store.write(inventory)


def test_a_run_is_remembered_while_its_job_is_in_the_repository_and_a_month_longer() -> None:
    """S10: nothing trimmed the inventory until no more could be written."""
    inventory = Inventory()
    for name in ("kept", "gone", "back"):
        inventory.record_run(FinishedRun(job(name), "sha256:1", "Completed"))
    inventory.trim_runs({job("kept").key}, 1000, TIMINGS.inventory)
    assert [run.left_at for run in inventory.runs.values()] == [0, 1000, 1000]
    inventory.runs.mark_written()
    inventory.trim_runs({job("kept").key}, 1000, TIMINGS.inventory)
    assert not inventory.runs.changed_keys, "an idle cluster is not written"
    inventory.trim_runs({job("kept").key, job("back").key}, 1000 + TIMINGS.inventory.run_memory + 1, TIMINGS.inventory)
    assert [(run.ref.name, run.left_at) for run in inventory.runs.values()] == [("kept", 0), ("back", 0)]
    timings = replace(TIMINGS.inventory, run_memory_size=0)
    inventory.trim_runs({job("kept").key}, 1000 + timings.run_memory + 1, timings)
    assert [run.ref.name for run in inventory.runs.values()] == ["kept"], "of too many, those of the repository stay"
