from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner

from compiler.cli.root import cli
from compiler.shadow import Look, Use
from reconciler.cli.shadow import Metrics, Shadow, look_text
from tests.builders.kubeconfigs import write_kubeconfig

GPU = "nvidia.com/gpu"
CLOCK = 1_800_000_000  # 2027-01-15T08:00:00Z


def look(startable: int = 8, waits: str = "n/a", left_out: tuple[str, ...] = ()) -> Look:
    now = Use(2, 1, {GPU: 16}, 2.0, {GPU: 8})
    return Look(now, frozenset({waits}), {waits: {GPU: startable}}, Use(3, 0, {GPU: 24}, 1.0, {GPU: 0}), left_out)


def test_device_hours_are_those_between_looks_at_both_of_which_a_gang_could_start() -> None:
    seen = Shadow()
    rows = [seen.enter(look(devices), CLOCK + 1800 * at, 1800.0 * at) for at, devices in enumerate((4, 8, 8))]
    assert [row["unused"] for row in rows] == [{}, {GPU: 4}, {GPU: 8}]
    assert [row["day"]["unusedHours"] for row in rows] == [{}, {GPU: 2.0}, {GPU: 6.0}]
    assert rows[2]["day"] == {"date": "2027-01-15", "looks": 3, "unusedHours": {GPU: 6.0}, "gainedHours": {GPU: 8.0}}
    other = seen.enter(look(waits="n/b"), CLOCK + 86_400, 86_400.0)
    assert (other["startable"], other["day"]["date"], other["day"]["looks"]) == ({}, "2027-01-16", 1)


def test_room_that_has_just_become_free_is_no_fault_of_the_scheduler() -> None:
    seen, full = Shadow(), replace(look(), startable={})
    assert [seen.enter(each, CLOCK, at)["unused"] for at, each in enumerate((full, look(), look()))] == [
        {},
        {},
        {GPU: 8},
    ]


def test_nothing_is_counted_over_a_look_that_failed_nor_by_a_clock_that_is_set() -> None:
    seen = Shadow()
    seen.enter(look(), CLOCK, 0.0)
    seen.miss()
    assert seen.enter(look(), CLOCK + 3600, 3600.0)["day"]["unusedHours"] == {}
    assert seen.enter(look(), CLOCK - 60, 5400.0)["day"]["unusedHours"] == {GPU: 4.0}


def test_a_look_as_text() -> None:
    seen = Shadow()
    seen.enter(look(), CLOCK, 0.0)
    errors = tuple(f"GP302: there is no queue {name}" for name in "abcde")
    assert look_text(seen.enter(look(left_out=errors), CLOCK + 60, 1800.0)) == (
        "2027-01-15T08:01:00Z  now: 2 run, 1 wait; 16 nvidia.com/gpu held, 8 nvidia.com/gpu owed to queues, "
        "2.00 domains a gang\n"
        "  would start now in free room, nobody evicted: n/a (8 nvidia.com/gpu)\n"
        "  the same jobs, planned from empty: 3 run, 0 wait; 24 nvidia.com/gpu held, nothing owed to queues, "
        "1.00 domains a gang\n"
        "  hours of 2027-01-15 in 2 looks: 4 nvidia.com/gpu unused for certain; from empty 4 nvidia.com/gpu more\n"
        "  5 errors leave objects out: GP302: there is no queue a; GP302: there is no queue b; "
        "GP302: there is no queue c and 2 more"
    )


def test_metrics_are_those_of_the_last_look_alone() -> None:
    metrics, seen = Metrics(), Shadow()
    for at in (0.0, 3600.0):
        metrics.enter(seen.enter(look(), CLOCK, at))
    status, text = metrics.answer(SimpleNamespace(path="/metrics"))  # type: ignore[arg-type]
    assert status == 200
    assert 'gangplan_shadow_devices{plan="fromEmpty",resource="nvidia.com/gpu"} 24.0' in text
    assert 'gangplan_shadow_gangs_waiting{plan="now"} 1.0' in text
    assert 'gangplan_shadow_device_hours{of="unused",resource="nvidia.com/gpu"} 8.0' in text
    assert metrics.answer(SimpleNamespace(path="/"))[0] == 404  # type: ignore[arg-type]
    nothing = Use(0, 0, {}, None, {})
    metrics.enter(seen.enter(Look(nothing, frozenset(), {}, nothing), CLOCK, 3660.0))
    _, text = metrics.answer(SimpleNamespace(path="/metrics"))  # type: ignore[arg-type]
    assert "nvidia.com/gpu" not in text
    assert "gangplan_shadow_domains{" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", "nowhere"), "--listen nowhere: 'nowhere' is not host:port"),
        (("--listen", ":99999"), "--listen :99999: ':99999' is not host:port"),
        (("--listen", "192.0.2.1:80"), "--listen 192.0.2.1:80: [Errno"),
        (("--looks", "1"), "no look succeeded"),
    ],
)
def test_what_cannot_work_ends_with_one_line(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    access = "--kubeconfig", str(write_kubeconfig(tmp_path, "http://127.0.0.1:1"))
    done = CliRunner().invoke(cli, ["shadow", *access, "--executor", "local", *arguments])
    assert done.exit_code == 1
    assert f"Error: {said}" in done.stderr


def test_its_rights_have_no_verb_that_writes() -> None:
    done = CliRunner().invoke(cli, ["rbac", "--read-only"])
    objects = list(yaml.safe_load_all(done.stdout))
    rules = [rule for item in objects for rule in item.get("rules", ())]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert {name for item in objects for name in [item["metadata"]["name"]]} == {"gangplan-reader"}
