"""What check says of an object, and what the real API server with Volcano's webhooks says: valid objects, and single
changes of them. docs/reference/admission.md tells the differences that are meant."""

from __future__ import annotations

import json
from typing import Any

from tests.builders.depth import sample
from tests.differential.admission.generator import cases
from tests.differential.admission.oracle import Case, Oracle, confusion, is_meant
from tests.differential.bed import Bed

SEED, NUMBER = 1, sample(500)
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


def test_a_queue_may_name_nothing_that_its_parent_does_not_name_but_cpu_and_memory(bed: Bed) -> None:
    names = "cpu memory pods ephemeral-storage hugepages-2Mi nvidia.com/gpu count/jobs.batch attachable-volumes-a"
    wanted: dict[str, Any] = {name: {"deserved": {name: 0}} for name in names.split()}
    wanted["guarantee"] = {"deserved": {"cpu": 0}, "guarantee": {"resource": {"cpu": 0}}}
    made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "below"}}
    found = [
        Case("Queue.scheduling.volcano.sh", name, json.dumps({**made, "spec": {"parent": "org", **spec}}))
        for name, spec in wanted.items()
    ]
    oracle = Oracle(bed.plane)
    verdicts = oracle.verdicts(found)
    oracle.close()
    assert not [str(each) for each in verdicts if each.is_miss or each.is_false_alarm]
    taken = {each.case.change for each in verdicts if not each.refusal}
    assert taken == {"cpu", "memory", "count/jobs.batch", "guarantee"}, "\n".join(map(str, verdicts))
