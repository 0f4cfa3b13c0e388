"""Nothing is deleted on the strength of an error, and a fight stops one object only."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.drift import Wanted
from reconciler.guard import FIGHT, FREE_PRUNES, PAUSE, Fights, Sight, prunes
from reconciler.inventory import Entry, Inventory, Run, pack, unpack
from reconciler.objects import Object, Ref

GOOD = Sight("c0ffee", compiled=True)


def ref(name: str) -> Ref:
    return Ref("v1", "ConfigMap", "default", name)


def live(name: str, uid: str = "", **annotations: str) -> Object:
    meta: dict[str, Any] = {"namespace": "default", "name": name, "uid": uid or name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def wanted(*names: str) -> list[Wanted]:
    return [Wanted(4, ref(name), live(name)) for name in names]


def holding(*names: str) -> Inventory:
    return Inventory({ref(name).key: Entry(ref(name), uid=name) for name in names})


def seen(*things: Object) -> dict[str, Object | None]:
    return {f"ConfigMap/default/{thing['metadata']['name']}": thing for thing in things}


def test_only_what_the_inventory_holds_under_this_uid_is_pruned() -> None:
    world = seen(live("ours"), live("theirs"), live("again", uid="another"))
    found = prunes(wanted("kept"), holding("kept", "ours", "again"), world, GOOD)
    assert [change.ref.name for change in found.changes] == ["ours"]
    assert found.forget == ("ConfigMap/default/again",), "a namesake is somebody else's"


@pytest.mark.parametrize(
    "sight",
    [
        Sight("c0ffee", compiled=False),
        Sight("c0ffee", True, ("pods cannot be read",)),
        Sight("c0ffee", False, ("x",), "c0ffee"),
    ],
)
def test_an_error_is_never_an_empty_set(sight: Sight) -> None:
    found = prunes(wanted("kept"), holding("kept", "ours"), seen(live("ours")), sight)
    assert found.changes == ()
    assert found.forget == ()
    assert [change.ref.name for change in found.held] == ["ours"]


def test_an_object_whose_kind_was_not_read_is_left_alone() -> None:
    assert prunes(wanted("kept"), holding("kept", "unseen"), {}, GOOD) == prunes(
        wanted("kept"), holding("kept"), {}, GOOD
    )


def test_an_empty_repository_prunes_nothing_until_that_commit_is_allowed() -> None:
    held = prunes((), holding("ours"), seen(live("ours")), GOOD)
    assert held.changes == ()
    assert "--allow-prune c0ffee" in held.held[0].reason
    assert len(prunes((), holding("ours"), seen(live("ours")), Sight("c0ffee", True, allowed="c0ffee")).changes) == 1
    assert not prunes((), holding("ours"), seen(live("ours")), Sight("c0ffee", True, allowed="another")).changes


@pytest.mark.parametrize(
    ("leaving", "known", "goes"),
    [(FREE_PRUNES, 11, True), (FREE_PRUNES + 1, 12, False), (20, 200, True), (21, 200, False)],
)
def test_more_deletions_than_the_limit_are_held(leaving: int, known: int, goes: bool) -> None:
    names = [f"o{at}" for at in range(known)]
    found = prunes(wanted(*names[leaving:]), holding(*names), seen(*map(live, names)), GOOD)
    assert len(found.changes) == (leaving if goes else 0)
    assert len(found.held) == (0 if goes else leaving)


def test_a_protected_object_stays_and_does_not_count() -> None:
    guarded = live("guarded", **{"gangplan.dev/prune": "disabled"})
    found = prunes(wanted("kept"), holding("kept", "guarded", "ours"), seen(guarded, live("ours")), GOOD)
    assert [change.ref.name for change in found.changes] == ["ours"]
    assert [change.ref.name for change in found.held] == ["guarded"]


def test_a_creation_that_was_never_confirmed_is_not_ours_to_delete() -> None:
    inventory = Inventory({ref("maybe").key: Entry(ref("maybe"))})
    assert prunes(wanted("kept"), inventory, seen(live("maybe")), GOOD).changes == ()


def test_corrections_in_quick_succession_are_a_fight_and_slow_ones_are_not() -> None:
    fights = Fights()
    assert not any(fights.corrected("slow", "them", now=60.0 * at) for at in range(20))
    turns = [fights.corrected("quick", "them", now=1200.0 + at) for at in range(int(FIGHT) + 1)]
    assert turns == [*[False] * int(FIGHT), True]
    assert fights.paused("quick", 1210.0)
    assert not fights.paused("slow", 1210.0)
    assert not fights.paused("quick", 1206.0 + PAUSE)


def test_an_inventory_survives_its_text_whatever_its_size() -> None:
    job = Ref("batch.volcano.sh/v1alpha1", "Job", "default", "train")
    inventory = holding(*(f"object-{at}" for at in range(9000)))
    inventory.entries[job.key] = Entry(job, "uid", started=True)
    inventory.runs[job.key] = Run(job, "sha256:1", "Completed")
    inventory.commit = "c0ffee"
    packed = pack(inventory.as_json())
    assert "binaryData" in packed
    assert Inventory.from_json(unpack({"metadata": {}, **packed})) == inventory
    assert "data" in pack(holding("one").as_json())


@pytest.mark.parametrize(
    "broken",
    [{}, {"data": {}}, {"data": {"inventory.json": '{"objects": ['}}, {"binaryData": {"inventory.json.gz": "AAAA"}}],
)
def test_an_inventory_that_cannot_be_read_is_an_error_and_not_empty(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Inventory.from_json(unpack({"metadata": {"name": "inventory"}, **broken}))
