"""What may be written and deleted, and what is said of it."""

from __future__ import annotations

from reconciler.changes.diff import Change
from reconciler.changes.results import Allowed, Condition, PrunePlan
from reconciler.cluster.objects import Ref


def ref(name: str) -> Ref:
    return Ref("v1", "ConfigMap", "default", name)


def test_what_another_part_gives_a_reason_for_is_held_be_it_to_be_deleted_or_given_back() -> None:
    deletion, release = Change("prune", ref("a"), live={}), Change("release", ref("b"), live={})
    plan = PrunePlan((deletion,), (release,))
    assert plan.holding(lambda change: "") == plan
    held = plan.holding(lambda change: "it is left alone")
    assert (held.changes, held.releases) == ((), ())
    assert [(each.action, each.reason) for each in held.held_changes] == [("held", "it is left alone")] * 2


def test_prune_held_says_all_reasons_and_how_many_objects_each_keeps() -> None:
    """S14: one protected object hid that 14 others were held."""
    reasons = ["prune: disabled protects it", *["14 objects would be deleted"] * 14]
    held = tuple(Change("held", ref(f"o{at}"), reason=text) for at, text in enumerate(reasons))
    said = {each.type: each for each in Allowed(prune_plan=PrunePlan(held_changes=held)).conditions()}
    text = "14 objects: 14 objects would be deleted; 1 object: prune: disabled protects it"
    assert said["PruneHeld"] == Condition("PruneHeld", True, "Held", text)
    assert said["InventoryLost"] == Condition("InventoryLost", False, "Present")
    assert list(Allowed(standstill="it is gone").conditions()) == [
        Condition("InventoryLost", True, "Held", "it is gone"),
        Condition("PruneHeld", False, "None"),
    ]
