"""The steps of a pass, which of them act, and on what; the numbers that fault schedules make small are there."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from reconciler.assembly import build_parts
from reconciler.changes.results import Allowed, Effects
from reconciler.cluster.lease import Fence
from reconciler.inventory.store import Inventory
from reconciler.loop import act
from reconciler.objects.part import ObjectsPart
from reconciler.observation.observe import Observation, Seen
from reconciler.planning.branch import Target
from reconciler.planning.fingerprint import Fingerprint
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.part import PodsPart
from reconciler.requests.part import Requests, RequestsPart
from reconciler.settings import Settings
from reconciler.timings import TIMINGS
from tests.builders.fake_cluster import FakeCluster
from tests.faults.schedule import SHORT_TIMES

GATED = Snapshot("c0ffee", True, plan={"gangs": [], "gated": True})
STEPS = ["begin", "apply"]


@pytest.mark.parametrize(
    ("problems", "is_leading", "standstill", "steps"),
    [
        ((), True, "", [*STEPS, "pods", "save"]),
        (("Node cannot be read",), True, "", [*STEPS, "save"]),
        ((), False, "", []),
        ((), True, "the inventory is lost", []),
    ],
    ids=["all is known", "a stale picture", "not the leader", "the inventory is lost"],
)
def test_gates_are_lifted_and_pods_evicted_only_by_a_leader_who_knows_what_there_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    problems: tuple[str, ...],
    is_leading: bool,
    standstill: str,
    steps: list[str],
) -> None:
    taken: list[str] = []

    def step(owner: type, name: str, said: str) -> None:
        def note(*_: Any) -> Effects:
            taken.append(said)
            return Effects()

        monkeypatch.setattr(owner, name, note)

    for name in ("begin", "apply", "save"):
        step(ObjectsPart, name, name)
    step(PodsPart, "act", "pods")
    monkeypatch.setattr(Fence, "is_open", lambda _: True)
    monkeypatch.setattr(RequestsPart, "current", lambda _: Requests())
    settings = Settings(str(tmp_path), "main", "test", "gangplan-system", tmp_path / "data")
    parts = build_parts(settings, FakeCluster().client(), "me")
    seen = Seen(0.0, 0.0, is_leading, Observation({}, frozenset(), problems), Inventory())
    target = Target("c0ffee", snapshot=GATED, fingerprint=Fingerprint(), base=Fingerprint())
    act(parts, seen, target, Allowed(standstill=standstill), Effects())
    assert taken == steps


@pytest.mark.parametrize(("place", "numbers"), SHORT_TIMES.items())
def test_each_number_that_a_schedule_makes_small_is_there(place: str, numbers: Mapping[str, object]) -> None:
    owner = import_module(place) if "." in place else getattr(TIMINGS, place)
    assert [name for name in numbers if not hasattr(owner, name)] == []
