"""What the scheduler goes through is read from its metrics."""

from __future__ import annotations

import pytest

from reconciler.scheduler.configuration import CHART_ADDRESS, SchedulerProbe, default_address, read_counts

LINES = """\
# HELP volcano_e2e_scheduling_latency_milliseconds Duration of a single scheduling session execution
volcano_e2e_scheduling_latency_milliseconds_count {cycles}
volcano_action_scheduling_latency_milliseconds_sum{{action="allocate"}} 77
volcano_action_scheduling_latency_milliseconds_count{{action="allocate"}} {allocate}
volcano_action_scheduling_latency_milliseconds_count{{action="preempt"}} {preempt}
volcano_plugin_scheduling_latency_milliseconds_count{{OnSession="OnSessionClose",plugin="gang"}} {gang}
volcano_plugin_scheduling_latency_milliseconds_count{{OnSession="OnSessionOpen",plugin="gang"}} 1e+02
"""


def page(cycles: int, allocate: int = 0, preempt: int = 0, gang: int = 0) -> str:
    return LINES.format(cycles=cycles, allocate=allocate, preempt=preempt, gang=gang)


def test_cycles_actions_and_plugins_are_counted() -> None:
    counts = {"action allocate": 4, "action preempt": 2, "plugin gang": 103}
    assert read_counts(page(5, 4, 2, 3)) == (5, counts)
    with pytest.raises(ValueError, match="no metrics of Volcano"):
        read_counts("<html>")


def test_what_grows_over_whole_cycles_is_gone_through() -> None:
    pages: list[str | OSError] = []
    woken: list[None] = []

    def read(url: str) -> str:
        answer = pages.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    probe = SchedulerProbe("http://there", lambda: woken.append(None), read)

    def seen(answer: str | OSError) -> frozenset[str] | None:
        pages.append(answer)
        probe.look()
        return probe.active

    assert seen(page(10, 10, 10)) is None
    assert seen(page(11, 11, 10)) is None, "within a cycle some parts have not had their turn"
    assert seen(page(12, 12, 10, 1)) == frozenset({"action allocate", "plugin gang"})
    assert seen(page(13, 13, 11, 1)) == frozenset({"action allocate", "plugin gang"})
    assert seen(page(14, 14, 12, 1)) == frozenset({"action allocate", "action preempt"})
    assert seen(page(1, 1, 1)) is None, "another process"
    assert seen(page(3, 3, 1)) == frozenset({"action allocate"})
    assert seen(OSError("refused")) is None
    assert "cannot be read" in probe.problem
    assert seen(page(9, 9, 9)) is None, "what was before is not compared"
    assert probe.problem == ""
    assert len(woken) == 6


def test_in_a_pod_they_are_looked_for_where_volcanos_chart_has_them() -> None:
    """Without the option nothing was known of the scheduler, and nothing returned."""
    assert default_address({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == CHART_ADDRESS
    assert default_address({}) == ""
