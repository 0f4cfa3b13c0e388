"""New jobs come as fast as those before them begin, and nothing else waits for them."""

from __future__ import annotations

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change
from reconciler.cluster.objects import Ref
from reconciler.objects.part import StartPace
from reconciler.timings import TIMINGS

VOLCANO = "batch.volcano.sh/v1alpha1"

IN_FLIGHT = TIMINGS.objects.jobs_in_flight


def change(name: str, action: str = "create", wave: int = 5) -> Change:
    ref = Ref(VOLCANO, "Job", "default", name) if wave == 5 else Ref("v1", "ConfigMap", "default", name)
    return Change(action, ref, Manifest(wave, {}, ""))  # type: ignore[arg-type]


def keys_of(changes: list[Change]) -> set[str]:
    return {each.ref.key for each in changes}


def make(pace: StartPace, changes: list[Change], now: float) -> None:
    for each in changes:
        pace.record_creation(each.ref.key, now)


def test_jobs_beyond_the_window_come_when_others_begin_or_take_too_long() -> None:
    pace, jobs = StartPace(), [change(f"job-{at}") for at in range(3 * IN_FLIGHT)]
    starting = keys_of(jobs)
    first = pace.next_changes(jobs, starting, ())
    assert first == jobs[:IN_FLIGHT]
    make(pace, first, 10.0)
    assert pace.next_changes(jobs[IN_FLIGHT:], starting, ()) == []
    assert pace.is_holding
    assert min(pace.deadlines(10.0)) == 10.0 + TIMINGS.objects.flight
    assert min(pace.deadlines(60.0)) == 60.0 + TIMINGS.objects.soon

    begun = {first[0].ref.key, first[5].ref.key}
    pace.observe(begun.__contains__, 11.0)
    second = pace.next_changes(jobs[IN_FLIGHT:], starting, ())
    assert second == jobs[IN_FLIGHT : IN_FLIGHT + 2]
    make(pace, second, 11.0)

    pace.observe(lambda key: False, 10.0 + TIMINGS.objects.flight)
    third = pace.next_changes(jobs[IN_FLIGHT + 2 :], starting, ())
    assert len(third) == IN_FLIGHT - len(second)


def test_only_new_jobs_wait_and_starting_jobs_come_before_waiting_ones() -> None:
    pace = StartPace()
    starts = [change(f"start-{at}") for at in range(IN_FLIGHT + 1)]
    waits = [change(f"wait-{at}") for at in range(50)]
    others = [change("corrected", "update"), change("scaled", "in-place"), change("settings", wave=3)]
    keys = keys_of(starts), keys_of(waits)
    assert pace.next_changes([*waits, *starts, *others], *keys) == [others[2], *others[:2], *starts[:IN_FLIGHT]]
    make(pace, starts[:IN_FLIGHT], 0.0)
    assert pace.next_changes([*waits, starts[-1], change("late", "update")], *keys) == [change("late", "update")]
    pace.observe(lambda key: True, 1.0)
    assert pace.next_changes([*waits, starts[-1]], *keys) == [starts[-1], *waits]
    assert not pace.is_holding
    assert pace.deadlines(1.0) == []


def test_a_pass_takes_so_many_changes_at_most_and_early_waves_first() -> None:
    many = [change(f"wait-{at}") for at in range(TIMINGS.objects.slice)]
    early = [change(f"settings-{at}", wave=3) for at in range(10)]
    chosen = StartPace().next_changes([*many, *early], (), keys_of(many))
    assert len(chosen) == TIMINGS.objects.slice
    assert chosen[:10] == early
