"""Which waiting jobs are made, gated; new ones come as fast as those before them begin, and nothing else waits."""

from __future__ import annotations

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Changes
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.inventory.store import Inventory
from reconciler.objects.differ import Differ, withhold_waiting_jobs
from reconciler.objects.part import StartPace
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Observation, Seen
from reconciler.planning.snapshot import Snapshot
from reconciler.timings import TIMINGS
from tests.builders.fake_cluster import FakeCluster
from tests.builders.pods import entry
from tests.builders.writing import manifest_of, volcano_job, writer_for

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


def test_a_held_job_is_not_created_and_the_status_says_why() -> None:
    jobs = [manifest_of(volcano_job(name, {})) for name in ("held", "waits", "starts")]
    decisions: tuple[tuple[str, Object], ...] = (("wait", {"held": True}), ("wait", {}), ("start", {}))
    entries = [entry(each.object, how, {}, **more) for each, (how, more) in zip(jobs, decisions, strict=True)]
    snapshot = Snapshot("c", True, plan={"gangs": entries}, manifests=tuple(jobs), max_waiting_pods=10)
    seen = Seen(0.0, 0.0, True, Observation({}, frozenset()), Inventory())
    due = tuple(Change("create", ref_of(each.object), each) for each in jobs)
    changes = withhold_waiting_jobs(Changes(due), seen, snapshot)
    assert [change.ref.name for change in changes.due] == ["waits", "starts"]
    assert [(change.ref.name, "share" in change.reason) for change in changes.held] == [("held", True)]
    assert changes.held[0].is_deferred, "told after what is wrong"


@pytest.mark.parametrize("namespace", [{}, {"namespace": "default"}])
def test_an_object_of_a_version_that_is_not_served_has_not_left_the_repository(namespace: dict[str, str]) -> None:
    """Its kind was watched in the version that the cluster serves, so it was deleted, by a typing error in its
    apiVersion."""
    client = FakeCluster().client()
    differ = Differ(DesiredManifests(client, "test"), writer_for(client), InformerSet(client, "test", lambda: None))
    declared = {"apiVersion": "example.com/v7", "kind": "Thing", "metadata": {"name": "t", **namespace}}
    snapshot = Snapshot("c", True, manifests=(Manifest(4, declared, "x.yaml:1"),))
    wanted = differ.collect(snapshot, PlannedRuns(), lambda manifest: manifest)
    assert "Thing.example.com/default/t" in wanted.declared
