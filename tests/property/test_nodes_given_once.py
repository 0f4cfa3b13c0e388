"""What is given of a node never exceeds what it has, at any moment, whatever watches, patches and leaders do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reconciler.cluster.objects import Object
from reconciler.observation.own_writes import OwnWrites
from tests.builders.schedules import OverbookedError, Schedule

SEEDS, CHUNK = 2000, 100


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_no_node_is_given_twice_and_no_gang_waits_without_a_reason(first: int) -> None:
    for seed in range(first, first + CHUNK):
        schedule = Schedule(seed)
        try:
            schedule.run()
        except OverbookedError as error:
            error.add_note(f"seed {seed}")
            raise
        assert not schedule.stranded(), f"seed {seed}"


def test_the_schedules_find_nodes_given_twice_where_own_writes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: OwnWrites, group_kind: str, shown: Mapping[str, Object], reached: int) -> Mapping[str, Object]:
        return shown

    monkeypatch.setattr(OwnWrites, "laid_over", forget)
    assert any(map(gives_a_node_twice, range(CHUNK)))


def gives_a_node_twice(seed: int) -> bool:
    try:
        Schedule(seed).run()
    except OverbookedError:
        return True
    return False
