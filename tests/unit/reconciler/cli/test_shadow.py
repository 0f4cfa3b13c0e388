from __future__ import annotations

from types import SimpleNamespace

import yaml
from click.testing import CliRunner

from compiler.cli.root import cli
from compiler.shadow import Look, Use
from reconciler.cli.shadow import Gauges, Shadow, look_text

GPU = "nvidia.com/gpu"
CLOCK = 1_800_000_000  # 2027-01-15T08:00:00Z


def look(startable: int = 8, waits: str = "n/a") -> Look:
    now = Use(2, 1, {GPU: 16}, 2.0, {GPU: 8})
    return Look(now, frozenset({waits}), {waits: {GPU: startable}}, Use(3, 0, {GPU: 24}, 1.0, {GPU: 0}))


def test_device_hours_are_those_of_gangs_that_waited_at_two_looks() -> None:
    seen = Shadow(1800.0)
    first, second, third = (seen.enter(look(), CLOCK + 1800 * at) for at in range(3))
    assert [row["unused"] for row in (first, second, third)] == [{}, {GPU: 8}, {GPU: 8}]
    assert third["day"] == {"date": "2027-01-15", "looks": 3, "unusedHours": {GPU: 8.0}, "gainedHours": {GPU: 12.0}}
    other = seen.enter(look(waits="n/b"), CLOCK + 86_400)
    assert (other["startable"], other["day"]["date"], other["day"]["looks"]) == ({}, "2027-01-16", 1)


def test_a_look_as_text() -> None:
    seen = Shadow(1800.0)
    seen.enter(look(), CLOCK)
    assert look_text(seen.enter(look(), CLOCK + 60)) == (
        "2027-01-15T08:01:00Z  now: 2 run, 1 wait; 16 nvidia.com/gpu held, 8 nvidia.com/gpu owed to queues, "
        "2.00 domains a gang\n"
        "  would start now in free room, nobody evicted: n/a (8 nvidia.com/gpu)\n"
        "  the same jobs, planned from empty: 3 run, 0 wait; 24 nvidia.com/gpu held, nothing owed to queues, "
        "1.00 domains a gang\n"
        "  hours of 2027-01-15 in 2 looks: 4 nvidia.com/gpu unused for certain; from empty 8 nvidia.com/gpu more"
    )


def test_metrics_are_those_of_the_last_look() -> None:
    gauges, seen = Gauges(), Shadow(60.0)
    gauges.enter(seen.enter(look(), CLOCK))
    status, text = gauges.answer(SimpleNamespace(path="/metrics"))  # type: ignore[arg-type]
    assert status == 200
    assert 'gangplan_shadow_devices{plan="fromEmpty",resource="nvidia.com/gpu"} 24.0' in text
    assert 'gangplan_shadow_gangs_waiting{plan="now"} 1.0' in text
    assert gauges.answer(SimpleNamespace(path="/"))[0] == 404  # type: ignore[arg-type]


def test_its_rights_have_no_verb_that_writes() -> None:
    done = CliRunner().invoke(cli, ["rbac", "--read-only"])
    objects = list(yaml.safe_load_all(done.stdout))
    rules = [rule for item in objects for rule in item.get("rules", ())]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert {name for item in objects for name in [item["metadata"]["name"]]} == {"gangplan-reader"}
