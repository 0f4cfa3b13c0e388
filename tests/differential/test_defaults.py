"""Defaults and rules of updates: gangplan reads what the real API server keeps, and knows which changes it takes."""

from __future__ import annotations

from tests.differential.admission.defaults import disagreements
from tests.differential.admission.oracle import Oracle
from tests.differential.admission.updates import LEFT_TO_THE_SERVER, NEW_RUNS_ALL_THE_SAME, updates
from tests.differential.bed import Bed

SEED, NUMBER = 1, 60


def test_objects_mean_what_the_server_keeps_and_leave_nothing_to_write(bed: Bed) -> None:
    oracle = Oracle(bed.plane)
    found, taken = disagreements(bed.plane, SEED, NUMBER)
    oracle.close()
    assert not found, "\n".join(found)
    assert taken > NUMBER / 2


def test_what_is_changed_in_place_the_server_takes_and_what_it_refuses_is_a_new_run(bed: Bed) -> None:
    found = updates(bed.plane)
    unchanged = [each for each in found if each.name.endswith("metadata.name")]
    assert not [each for each in unchanged if each.change or each.refusal], unchanged
    for each in (each for each in found if each not in unchanged):
        is_update = each.change is None or each.change.action in ("in-place", "update")
        wanted = (True, False) if each.name in LEFT_TO_THE_SERVER else (is_update, is_update)
        wanted = (False, True) if each.name in NEW_RUNS_ALL_THE_SAME else wanted
        assert (is_update, not each.refusal) == wanted, each
