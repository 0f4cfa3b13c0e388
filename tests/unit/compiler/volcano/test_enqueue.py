"""Which jobs get no pods before Volcano's action enqueue lets them in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compiler.specs.gang_spec import GangSpec, SubgroupSpec, TopologySpec
from compiler.volcano.full_starts import is_enqueued_first
from tests.builders.specs import gang, role

PLAIN = gang("plain", role("r", 6))
IN_PARTITIONS = replace(PLAIN, subgroups=(SubgroupSpec("r", ("r",), 3, 2, TopologySpec("soft"), ()),))


@pytest.mark.parametrize(
    ("job", "expected"),
    [(PLAIN, True), (IN_PARTITIONS, True), (replace(PLAIN, minimum=5), False), (replace(PLAIN, minimum=0), False)],
)
def test_a_volcano_job_is_that_asks_for_all_that_its_tasks_need(job: GangSpec, expected: bool) -> None:
    assert is_enqueued_first(job, None) is expected
