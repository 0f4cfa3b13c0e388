"""Of an object that existed before gangplan only fields that were its alone are put back; others are never forced."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.changes.results import ChangeResult, events_of_results
from reconciler.cluster.objects import Object, ref_of
from reconciler.inventory.store import Origin
from tests.builders.scripted_server import ScriptedAnswer, manager_conflict
from tests.builders.writing import CONFIGMAPS, LABELS, Writing, config_map

FIELD = ".data.mode"
ADOPT = {"annotations": {"gangplan.dev/adopt": "true"}}


def mode(text: str, **metadata: Any) -> Object:
    return config_map("c", {"mode": text}, labels=LABELS, **metadata)


def held_by(*managers: str) -> list[dict[str, Any]]:
    """managedFields in which each of these holds `data.mode`; ours is applied, in the second in which the object was
    made, so that the object alone does not tell that others made it."""
    fields: dict[str, Any] = {"f:data": {"f:mode": {}}}
    rows = {name: "Apply" if name == "gangplan" else "Update" for name in managers}
    made = [{"manager": name, "operation": operation, "fieldsV1": fields} for name, operation in rows.items()]
    mark: dict[str, Any] = {"f:metadata": {"f:labels": {"f:gangplan.dev/cluster": {}}}}
    return [*made, {"manager": "gangplan", "operation": "Apply", "time": "2026", "fieldsV1": mark}]


class Joined(Writing):
    """A ConfigMap of the inventory, and a server that refuses an apply which takes its field from kubectl, unless that
    is forced."""

    def __init__(self, origin: Origin = "joined") -> None:
        super().__init__()
        self.origin, self.forced = origin, 0
        self.cluster.before = self.answer

    def answer(self, method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if method != "PATCH" or not path.startswith(f"{CONFIGMAPS}/c"):
            return None
        if "force=true" in path:
            self.forced += 1
            return None
        return manager_conflict("kubectl", FIELD)

    def see(self, text: str, *managers: str) -> Object:
        """The object as somebody has written it."""
        live = self.put(mode(text, uid="u", managedFields=held_by(*managers)))
        self.enter(live, self.origin)
        return live

    def see_as_planned(self, text: str, *managers: str) -> Object:
        live = self.see(text, *managers)
        self.writer.memory.record_own_fields(ref_of(live).key, live)
        return live

    def write(self, live: Object, **metadata: Any) -> ChangeResult:
        (result,) = self.apply(self.update(mode("ours", **metadata), live))
        return result


def event_of(result: ChangeResult) -> str:
    (event,) = events_of_results([result])
    return event.message


@pytest.mark.parametrize("managers", [("kubectl",), ("kubectl", "gangplan")])
def test_a_field_of_another_manager_is_not_forced_in_an_object_that_was_joined(managers: tuple[str, ...]) -> None:
    """It was, without `gangplan.dev/adopt`, and the Event said "put back" of a field that never was gangplan's. One
    that both hold, since both wanted the same, is the other's as well."""
    joined = Joined()
    result = joined.write(joined.see_as_planned("theirs", *managers))
    assert (result.outcome, joined.forced) == ("conflict", 0)
    assert f"{FIELD} is held by kubectl" in result.message
    assert "gangplan.dev/adopt" in result.message
    assert joined.live("c", CONFIGMAPS)["data"] == {"mode": "theirs"}
    assert "put back" not in event_of(result)


@pytest.mark.parametrize(
    ("origin", "was_ours", "adopt", "said"),
    [
        ("joined", True, {}, "put back"),
        ("created", False, {}, "put back"),
        ("joined", False, ADOPT, "taken over"),
        ("taken", False, ADOPT, "taken over"),
        ("joined", False, {}, None),  # after a restart nothing is taken for ours
    ],
)
def test_what_was_ours_is_put_back_and_what_is_adopted_is_taken_over(
    origin: Origin, was_ours: bool, adopt: dict[str, Any], said: str | None
) -> None:
    joined = Joined(origin)
    if was_ours:
        joined.see_as_planned("ours", "gangplan")
    live = joined.see("theirs", "kubectl")
    result = joined.write(live, **adopt)
    assert (result.outcome, joined.forced) == (("done", 1) if said else ("conflict", 0))
    assert said is None or event_of(result) == f"{said}: {FIELD} was set by kubectl"
    is_taken = said is not None and origin != "created"
    assert joined.inventory.entries[ref_of(live).key].origin == ("taken" if is_taken else origin)
    assert bool(joined.writer.memory.own_fields) == is_taken, "what was written is known at once"
