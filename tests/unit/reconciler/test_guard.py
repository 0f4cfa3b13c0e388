"""Nothing is deleted on the strength of an error, and a fight stops one object only."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.cluster.inventory import Inventory, InventoryEntry
from reconciler.cluster.objects import Object, Ref
from reconciler.cluster.shards import Table
from reconciler.guard import FIGHT_PAUSE, FIGHT_THRESHOLD, PRUNE_LIMIT, FightDetector, PruneSafety, prune_plan

GOOD = PruneSafety("c0ffee", has_compiled=True)


def ref(name: str) -> Ref:
    return Ref("v1", "ConfigMap", "default", name)


def live(name: str, uid: str = "", **annotations: str) -> Object:
    meta: dict[str, Any] = {"namespace": "default", "name": name, "uid": uid or name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def wanted(*names: str) -> list[Manifest]:
    return [Manifest(4, live(name), f"{name}.yaml:1") for name in names]


def holding(*names: str) -> Inventory:
    return Inventory(Table({ref(name).key: InventoryEntry(ref(name), uid=name) for name in names}))


def seen(*things: Object) -> dict[str, Object | None]:
    return {f"ConfigMap/default/{thing['metadata']['name']}": thing for thing in things}


def test_only_what_the_inventory_holds_under_this_uid_is_pruned() -> None:
    world = seen(live("ours"), live("theirs"), live("again", uid="another"))
    found = prune_plan(wanted("kept"), holding("kept", "ours", "again"), world, GOOD)
    assert [change.ref.name for change in found.changes] == ["ours"]
    assert found.vanished_keys == ("ConfigMap/default/again",), "a namesake is somebody else's"


@pytest.mark.parametrize(
    "sight",
    [
        PruneSafety("c0ffee", has_compiled=False),
        PruneSafety("c0ffee", True, ("pods cannot be read",)),
        PruneSafety("c0ffee", False, ("x",), "c0ffee"),
    ],
)
def test_an_error_is_never_an_empty_set(sight: PruneSafety) -> None:
    found = prune_plan(wanted("kept"), holding("kept", "ours"), seen(live("ours")), sight)
    assert found.changes == ()
    assert found.vanished_keys == ()
    assert [change.ref.name for change in found.held_changes] == ["ours"]


def test_an_object_whose_kind_was_not_read_is_left_alone() -> None:
    assert prune_plan(wanted("kept"), holding("kept", "unseen"), {}, GOOD) == prune_plan(
        wanted("kept"), holding("kept"), {}, GOOD
    )


def test_an_empty_repository_prunes_nothing_until_that_commit_is_allowed() -> None:
    held = prune_plan((), holding("ours"), seen(live("ours")), GOOD)
    assert held.changes == ()
    assert "--allow-prune c0ffee" in held.held_changes[0].reason
    assert (
        len(
            prune_plan(
                (), holding("ours"), seen(live("ours")), PruneSafety("c0ffee", True, allowed_commit="c0ffee")
            ).changes
        )
        == 1
    )
    assert not prune_plan(
        (), holding("ours"), seen(live("ours")), PruneSafety("c0ffee", True, allowed_commit="another")
    ).changes


@pytest.mark.parametrize(
    ("leaving", "known", "goes"),
    [(PRUNE_LIMIT, 11, True), (PRUNE_LIMIT + 1, 12, False), (20, 200, True), (21, 200, False)],
)
def test_more_deletions_than_the_limit_are_held(leaving: int, known: int, goes: bool) -> None:
    names = [f"o{at}" for at in range(known)]
    found = prune_plan(wanted(*names[leaving:]), holding(*names), seen(*map(live, names)), GOOD)
    assert len(found.changes) == (leaving if goes else 0)
    assert len(found.held_changes) == (0 if goes else leaving)


def test_a_protected_object_stays_and_does_not_count() -> None:
    guarded = live("guarded", **{"gangplan.dev/prune": "disabled"})
    found = prune_plan(wanted("kept"), holding("kept", "guarded", "ours"), seen(guarded, live("ours")), GOOD)
    assert [change.ref.name for change in found.changes] == ["ours"]
    assert [change.ref.name for change in found.held_changes] == ["guarded"]


def test_a_creation_that_was_never_confirmed_is_not_ours_to_delete() -> None:
    inventory = Inventory(Table({ref("maybe").key: InventoryEntry(ref("maybe"))}))
    assert prune_plan(wanted("kept"), inventory, seen(live("maybe")), GOOD).changes == ()


def test_corrections_in_quick_succession_are_a_fight_and_slow_ones_are_not() -> None:
    fights = FightDetector()
    assert not any(fights.record_correction("slow", "them", now=60.0 * at) for at in range(20))
    turns = [fights.record_correction("quick", "them", now=1200.0 + at) for at in range(int(FIGHT_THRESHOLD) + 1)]
    assert turns == [*[False] * int(FIGHT_THRESHOLD), True]
    assert fights.is_paused("quick", 1210.0)
    assert not fights.is_paused("slow", 1210.0)
    assert not fights.is_paused("quick", 1206.0 + FIGHT_PAUSE)
