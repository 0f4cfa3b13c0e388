"""What check says of an object, and what the real API server with Volcano's webhooks says: valid objects, and single
changes of them. docs/admission.md tells the differences that are meant."""

from __future__ import annotations

from tests.differential.admission.generator import cases
from tests.differential.admission.oracle import Oracle, confusion, is_meant
from tests.differential.bed import Bed

SEED, NUMBER = 1, 500
MOST_MISSES, MOST_FALSE_ALARMS = 0.06, 0.02
"""Of what the server refuses, and of what it takes."""


def test_check_says_what_the_api_server_says(bed: Bed) -> None:
    oracle = Oracle(bed.plane)
    verdicts = oracle.verdicts(cases(SEED, NUMBER))
    oracle.close()
    judged = [each for each in verdicts if not is_meant(each)]
    found = [each for each in judged if each.is_miss or each.is_false_alarm]
    count = confusion(judged)
    said = "\n".join(map(str, found))
    assert count["refused"] > NUMBER / 5, said
    assert count["taken"] > NUMBER / 5, said
    assert count["miss"] <= MOST_MISSES * (count["miss"] + count["refused"]), said
    assert count["false alarm"] <= MOST_FALSE_ALARMS * (count["false alarm"] + count["taken"]), said
