"""Writes: fenced one by one, each meant for one object, none held up by another; and what the writer remembers ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from reconciler.changes.diff import Change
from reconciler.changes.pods import Eviction, GateLift
from reconciler.changes.results import ChangeOutcome, ChangeResult
from reconciler.cluster.client import LostLease
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.inventory.store import InventoryStore
from reconciler.objects.memory import Unkept, WriterMemory
from reconciler.objects.writer import PUT_OFF, _unkept
from reconciler.observation.own_writes import OwnWrites
from reconciler.timings import TIMINGS
from tests.builders.scripted_server import ScriptedAnswer, error_answer
from tests.builders.writing import (
    CONFIGMAPS,
    JOBS,
    LABELS,
    OURS,
    Writing,
    config_map,
    creation,
    gated_pod,
    manifest_of,
    thing,
    volcano_job,
)

INVENTORY = "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-inventory"


@pytest.fixture
def world() -> Writing:
    return Writing()


def job(name: str, a: int = 1) -> Object:
    return volcano_job(name, {"a": a})


def creations(names: Iterable[str]) -> list[Change]:
    return [creation(job(name)) for name in names]


class LeaseLostAfter:
    """A fence that closes after so many writes."""

    def __init__(self, writes: int) -> None:
        self.left = writes

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LostLease("another replica holds the lease")


def test_a_leader_that_loses_the_lease_inside_a_wave_writes_nothing_more(world: Writing) -> None:
    world.client.fence = LeaseLostAfter(9).check  # the inventory, and eight jobs
    with pytest.raises(LostLease):
        world.apply(*creations(f"job-{at}" for at in range(120)))
    assert len(world.cluster.writes) == 9
    assert world.cluster.writes[0][1].startswith(INVENTORY.rpartition("/")[0])


def test_every_request_that_writes_asks_the_fence_first(world: Writing) -> None:
    pod, pods = world.put(gated_pod("p")), world.pod_writes()
    world.client.fence = LeaseLostAfter(0).check
    gone = Change("prune", Ref("v1", "ConfigMap", "default", "c"), live={"metadata": {"uid": "uid"}})
    world.inventory.bring_into_force("c0ffee")
    for attempt in (
        lambda: pods.lift_gates({"g": [GateLift(pod, "n", "n")]}),
        lambda: pods.evict(Eviction(pod, "NodeLost", "its node is lost")),
        lambda: world.writer.prune_objects([gone], world.inventory),
        lambda: world.writer.save_inventory(world.inventory),
        lambda: world.client.create(pod),
        lambda: world.client.apply_anyway(pod),
    ):
        with pytest.raises(LostLease):
            attempt()
    assert not world.cluster.writes


def test_a_change_is_meant_for_one_object_and_makes_none(world: Writing) -> None:
    change = world.update(job("done", 2), world.put(job("done")))
    del world.cluster.objects[f"{JOBS}/done"]
    assert world.outcome(change)[0] == "retry", "it is gone"
    assert f"{JOBS}/done" not in world.cluster.objects
    for each in (change, creation(job("done"))):
        world.put(job("done", 3))
        assert world.outcome(each)[0] == "retry", "a job of that name is left to the next pass"
        assert world.live("done")["spec"] == {"a": 3}


def test_a_create_that_meets_an_object_which_no_watch_shows_joins_it(world: Writing) -> None:
    theirs, ours = world.put(config_map("c", {"theirs": "1"})), config_map("c", {"ours": "1"})
    assert world.outcome(creation(ours))[0] == "done"
    assert world.inventory.entries[ref_of(ours).key].origin == "joined"
    assert world.live("c", CONFIGMAPS)["data"] == {"theirs": "1", "ours": "1"}
    assert world.live("c", CONFIGMAPS)["metadata"]["uid"] == theirs["metadata"]["uid"]


def test_the_inventory_knows_each_object_before_it_exists_and_carries_the_term(world: Writing) -> None:
    """Seen once: one write at a time, one of the inventory for each gang."""
    seen: list[int] = []
    world.inventory.transitions = 7

    def look(method: str, path: str, body: Any) -> None:
        if path.startswith(f"{JOBS}/job-") and "0?" in path:
            stored = InventoryStore(world.client, "gangplan-system", "test").read()
            assert body["metadata"]["name"] in {entry.ref.name for entry in stored.entries.values()}
            seen.append(stored.transitions)

    world.cluster.before = look
    names = [f"job-{at:03}" for at in range(450)]
    assert [result.change.ref.name for result in world.apply(*creations(names))] == names
    assert set(seen) == {7}
    saves = [path for _, path in world.cluster.writes if "configmaps" in path]
    assert len(saves) <= 9, "head, shard and new layout for each of three batches, and none for an object"


def test_another_replica_that_wrote_the_inventory_ends_the_wave_at_its_next_batch(world: Writing) -> None:
    world.apply(*creations(["first"]))
    other = InventoryStore(world.client, "gangplan-system", "test")
    taken = other.read()
    taken.transitions = 2
    other.write(taken)
    before = len(world.cluster.writes)
    with pytest.raises(LostLease):
        world.apply(*creations(f"job-{at}" for at in range(120)))
    assert len(world.cluster.writes) == before + 1, "the refused write of the inventory and no other"


def test_a_failed_write_of_the_inventory_holds_up_only_what_it_does_not_know(world: Writing) -> None:
    live = world.put(job("old"))
    world.enter(live)
    world.cluster.before = lambda method, path, body: (
        error_answer(500) if "inventory" in path or (method == "POST" and "configmaps" in path) else None
    )
    results = world.apply(world.update(job("old", 2), live), *creations(["new"]))
    outcomes = {result.change.ref.name: result.outcome for result in results}
    assert outcomes == {"old": "done", "new": "retry", "gangplan-test-inventory": "retry"}
    assert world.live("old")["spec"] == {"a": 2}
    world.cluster.recover()
    assert world.outcome(creation(job("new")))[0] == "done"


def test_one_failed_write_of_the_inventory_or_a_lost_answer_to_it_is_made_good_at_once(world: Writing) -> None:
    """The conflict with our own write was taken for another replica."""
    world.cluster.fail(error_answer(500), "configmaps", times=1)
    assert world.outcome(creation(job("new")))[0] == "done"
    lost = iter([error_answer(500)])
    world.cluster.after = lambda method, path, body: next(lost, None) if method == "PUT" else None
    assert world.outcome(creation(job("newer")))[0] == "done"


def test_one_object_that_is_refused_holds_up_no_other(world: Writing) -> None:
    world.cluster.fail(error_answer(422, "no"), f"{JOBS}/bad")
    outcomes = {result.change.ref.name: result.outcome for result in world.apply(*creations(["a", "bad", "c"]))}
    assert outcomes == {"a": "done", "bad": "refused", "c": "done"}


def test_an_object_whose_kind_is_not_served_just_now_is_not_taken_for_deleted(world: Writing) -> None:
    widget = thing("Widget", "w", api="example.com/v1", uid="uid-w")
    world.enter(widget)
    ref = ref_of(widget)
    (result,) = world.writer.prune_objects([Change("prune", ref, live=widget)], world.inventory)
    assert (result.outcome, "serves no kind Widget" in result.message) == ("refused", True)
    assert world.inventory.entries[ref.key].uid == "uid-w"


def test_gates_of_a_gang_are_lifted_also_where_one_of_its_pods_is_gone(world: Writing) -> None:
    pods = [world.put(gated_pod(f"p-{at}")) for at in range(40)]
    del world.cluster.objects["/api/v1/namespaces/default/pods/p-7"]
    results = world.pod_writes().lift_gates({"g": [GateLift(pod, "n", "n") for pod in pods]})
    assert [result.outcome for result in results] == ["refused" if at == 7 else "done" for at in range(40)]
    assert all("schedulingGates" not in item["spec"] for item in world.cluster.objects.values())


def test_an_answer_that_is_lost_does_not_make_a_second_object(world: Writing) -> None:
    lost = iter([ScriptedAnswer(200, {}, breaks_off=True)])
    world.cluster.after = lambda method, path, body: next(lost, None) if path.startswith(JOBS) else None
    assert world.outcome(creation(job("new")))[0] == "retry"
    uid = world.live("new")["metadata"]["uid"]
    assert world.outcome(creation(job("new")))[0] == "retry"
    assert world.live("new")["metadata"]["uid"] == uid


def test_a_pass_of_slow_writes_ends_and_the_next_one_goes_on(world: Writing) -> None:
    def take_long() -> None:
        world.time += 10.0

    world.client.fence = take_long
    left, rounds = creations(f"job-{at}" for at in range(60)), 0
    while left:
        world.writer.set_deadline(60.0)
        results = world.apply(*left)
        done = {result.change.ref for result in results if result.outcome == "done"}
        assert 0 < len(done) <= 6 + TIMINGS.writes.writers
        assert all(result.message == PUT_OFF for result in results if result.change.ref not in done)
        assert not world.writer.memory.paused_changes, "nothing has failed"
        left, rounds = [change for change in left if change.ref not in done], rounds + 1
    assert rounds > 2


@pytest.mark.parametrize("known", ["", "the former uid"])
def test_what_another_manager_has_taken_is_put_back_with_one_request(world: Writing, known: str) -> None:
    """What was made anew just before a stop is ours, though the inventory knows its former uid. What somebody then
    changed in it was held for ever, as if the object were another's."""
    theirs: Object = {"manager": "their-tool", "operation": "Update", "time": "2026-01-03T00:00:00Z"}
    theirs["fieldsV1"] = {"f:data": {"f:mode": {}}}
    item = config_map("settings", {"mode": "fast"}, labels=LABELS)
    live = world.put(config_map("settings", {"mode": "theirs"}, labels=LABELS, managedFields=[OURS, theirs]))
    world.enter(live, uid=known)
    seen: list[str] = []
    world.cluster.before = lambda method, path, body: seen.append(path) if "/settings" in path else None
    assert world.outcome(world.update(item, live)) == ("done", ".data.mode was set by their-tool")
    assert (len(seen), "force=true" in seen[0]) == (1, True)
    assert world.inventory.entries[ref_of(item).key].uid == live["metadata"]["uid"]


def test_what_a_webhook_changes_is_not_written_again_at_once_and_for_ever_is_not_never(world: Writing) -> None:
    """The difference that stayed was passed over without a word for as long as the process lived, also when the webhook
    was gone."""
    change, pauses = world.update(job("changed"), world.put(job("changed", 7))), []
    unkept = _unkept(manifest_of(job("changed")), change.fields)
    for _ in range(9):
        before = world.time
        while world.writer.is_unfixable(change):
            assert not world.writer.is_due(change)
            world.time += 30.0
        pauses.append(world.time - before)
        assert world.writer.is_due(change)
        world.writer.memory.record_apply(change.ref.key, "sha256:1", unkept, world.time)
    assert pauses == [0.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]
    other = replace(change, fields=(replace(change.fields[0], live=8),))
    assert not world.writer.is_unfixable(other), "what somebody else changes is put back"


@pytest.mark.parametrize(
    ("is_answer", "seconds", "pause"), [(True, 10.0, 30.0), (True, 30.0, 60.0), (False, 30.0, 1.0)]
)
def test_an_object_whose_webhook_hangs_is_left_alone_for_longer_than_it_held_up_the_pass(
    world: Writing, is_answer: bool, seconds: float, pause: float
) -> None:
    """Each pass waited for it again, and so did all that is done to other objects. A connection that was lost is
    another matter."""

    def hang(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if not path.startswith(JOBS):
            return None
        world.time += seconds
        if not is_answer:
            raise TimeoutError("nothing came")
        return error_answer(500, "failed calling webhook: context deadline exceeded")

    world.cluster.before = hang
    change = creation(job("a"))
    (result,) = world.apply(change)
    assert (result.outcome, result.retry_after) == ("retry", pause)
    world.time += pause - 0.1
    assert not world.writer.is_due(change)
    world.time += 0.2
    assert world.writer.is_due(change)


def test_nothing_that_one_process_remembers_outlives_its_object() -> None:
    """S22: names with a date in them grew without end."""
    memory, own = WriterMemory(), OwnWrites()
    for name in ("kept", *(f"job-{day}" for day in range(1000))):
        change = Change("in-place", Ref("v1", "ConfigMap", "default", name))
        key = change.ref.key
        memory.record_result(ChangeResult(replace(change, action="create"), "refused"), 0.0)
        memory.record_apply(key, "x", Unkept("differences"), 0.0)
        memory.record_result(ChangeResult(change, "refused"), 0.0)
        memory.refused_updates[key] = "x"
        memory.record_lost_answer(key, 0.0)
        memory.record_correction(key, "them", 0.0)
        own.record_deletion(key, "uid")
    kept = {"ConfigMap/default/kept"}
    memory.trim(kept, 600.0)
    own.forget_except(kept)
    tables = memory.unkept, memory.applied_digests, memory.failures, memory.lost_answers
    refusals = memory.refused_updates, memory.refused_creates, memory.paused_changes
    for table in (*tables, *refusals, own.entries["ConfigMap"]):
        assert table.keys() == kept
    assert not memory.heat


def test_what_is_refused_again_and_again_is_given_up() -> None:
    """`--once` waited its whole time limit, ten minutes, for an object of a namespace that is not there."""
    memory, change = WriterMemory(), Change("create", Ref("v1", "ConfigMap", "none", "refused"))

    def is_given_up_after(outcome: ChangeOutcome, times: int) -> bool:
        for _ in range(times):
            memory.record_result(ChangeResult(change, outcome, "no such namespace"), 0.0)
        return memory.is_given_up(change)

    assert not is_given_up_after("refused", TIMINGS.objects.given_up_after - 1)
    assert is_given_up_after("refused", 1)
    assert not is_given_up_after("retry", 1), "a server that is too busy will answer"
    assert is_given_up_after("conflict", TIMINGS.objects.given_up_after)
    assert is_given_up_after("fight", 1)
    assert not memory.is_given_up(Change("create", Ref("v1", "ConfigMap", "none", "new")))


def test_corrections_in_quick_succession_are_a_fight_and_slow_ones_are_not() -> None:
    memory, most = WriterMemory(), int(TIMINGS.objects.fight_threshold)
    assert not any(memory.record_correction("slow", "them", now=60.0 * at) for at in range(20))
    turns = [memory.record_correction("quick", "them", now=1200.0 + at) for at in range(most + 1)]
    assert turns == [*[False] * most, True]
    end = 1200.0 + most + TIMINGS.objects.fight_pause
    assert [memory.opponent("quick", at) for at in (1210.0, end - 1, end)] == ["them", "them", ""]
    assert not memory.opponent("slow", 1210.0)
