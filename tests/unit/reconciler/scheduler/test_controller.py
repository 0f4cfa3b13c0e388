"""A configuration that the scheduler does not take gives its place to the one before, and that is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from reconciler.changes.diff import Change
from reconciler.changes.events import Condition
from reconciler.changes.results import ChangeResult
from reconciler.cluster.objects import Object, Ref
from reconciler.context import Pass, Settings, build_reconciler
from reconciler.inventory.store import Inventory
from reconciler.observation.observe import Observation
from reconciler.planning.snapshot import Snapshot
from reconciler.report.build import build_report
from reconciler.requests.store import Requests
from reconciler.scheduler.configuration import TAKE_SECONDS, parts_of, text_of
from reconciler.scheduler.controller import follow_scheduler, read_scheduler_memory, with_standing_text
from tests.builders.fake_cluster import FakeCluster
from tests.builders.scripted_server import error_answer

REF = Ref("v1", "ConfigMap", "volcano-system", "volcano-scheduler-configmap")
TIERS = "tiers:\n- plugins:\n  - name: gang\n"
OLD, NEW, NEXT = (
    f'actions: "{actions}"\n{TIERS}' for actions in ("allocate", "allocate, preempt", "enqueue, allocate")
)
GANG = "plugin gang"


def config(text: str) -> Object:
    metadata = {"namespace": REF.namespace, "name": REF.name, "uid": "u"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"volcano-scheduler.conf": text}}


class World:
    """A reconciler that leads, and the scheduler's ConfigMap; a test turns the clock and plays the scheduler."""

    def __init__(self, folder: Path) -> None:
        self.cluster, self.now = FakeCluster(), 0.0
        self.settings = Settings(str(folder), "main", "test", "gangplan-system", folder / "data")
        self.live: Object | None = config(OLD)
        self.begin()

    def begin(self) -> None:
        """A process begins."""
        self.r = build_reconciler(self.settings, self.cluster.client(), "me")
        self.r.client.fence = lambda: None
        self.r.clock = lambda: self.now
        self.r.inventory, self.r.request_poller._latest = Inventory(), Requests()
        self.r.scheduler_memory = read_scheduler_memory(self.r)

    def look(self, wanted: str, *actions: str, more: tuple[str, ...] = (GANG,)) -> Condition:
        """A pass in which the scheduler goes through these actions; what is to be written is."""
        manifest = Manifest(3, config(wanted), "c.yaml:1")
        self.r.planning.snapshot = Snapshot("c0ffee", True, plan={"gangs": []}, manifests=(manifest,))
        seen: dict[str, Any] = {REF.key: self.live} if self.live else {}
        p = Pass(Observation(seen, frozenset()), Inventory(), snapshot=self.r.planning.snapshot)
        desired = with_standing_text(self.r, manifest)
        if text_of(desired.object) != text_of(self.live):
            p.results = [ChangeResult(Change("update", REF, desired, self.live), "done")]
            self.live = desired.object
        self.r.scheduler_probe.active = frozenset((*(f"action {name}" for name in actions), *more)) if actions else None
        follow_scheduler(self.r, p)
        return next(each for each in build_report(self.r, p).conditions if each.type == "SchedulerBehind")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_parts_of_a_configuration_are_its_actions_and_plugins() -> None:
    assert parts_of(NEW) == {"action allocate", "action preempt", GANG}
    for text in ("", "actions: [", "tiers: []", "actions: a\ntiers: 5"):
        assert parts_of(text) == frozenset()


def test_one_that_is_taken_stands(world: World) -> None:
    assert not world.look(NEW, "allocate").status, "the kubelet takes its time"
    world.now = TAKE_SECONDS + 1
    assert not world.look(NEW, "allocate", "preempt").status
    world.now += 10 * TAKE_SECONDS
    assert not world.look(NEW, "allocate", "preempt").status
    assert text_of(world.live) == NEW
    assert world.r.scheduler_memory.previous == OLD, "it is kept"


def test_one_that_is_not_taken_is_rolled_back_and_told_also_by_the_next_process(world: World) -> None:
    world.look(NEW, "allocate")
    world.now = TAKE_SECONDS + 1
    said = world.look(NEW, "allocate")
    assert (said.status, said.reason) == (True, "NotTaken")
    assert "it does not go through action preempt" in said.message
    for _ in range(3):
        world.now += TAKE_SECONDS
        assert world.look(NEW, "allocate").status
        assert text_of(world.live) == OLD
        world.begin()
    world.now = 0.0
    assert not world.look(NEXT, "allocate").status, "another text is tried"
    assert text_of(world.live) == NEXT
    assert world.r.scheduler_memory.previous == OLD


def test_what_is_not_known_is_no_reason_to_roll_back(world: World) -> None:
    for world.now in (0.0, TAKE_SECONDS + 1, 5 * TAKE_SECONDS):
        said = world.look(NEW)
        assert (said.status, said.reason) == (False, "NotKnown")
    assert text_of(world.live) == NEW


def test_a_plugin_that_the_scheduler_lacks_under_the_former_text_as_well_is_told_and_the_rest_stands(
    world: World,
) -> None:
    for world.now in (0.0, TAKE_SECONDS + 1):
        said = world.look(NEW, "allocate", "preempt", more=())
    assert said.status
    assert "it does not go through plugin gang" in said.message
    assert text_of(world.live) == NEW


def test_a_new_plugin_that_the_scheduler_lacks_is_rolled_back(world: World) -> None:
    """It was told, and stood there: the scheduler goes on without it, which is not what was asked for."""
    wanted = OLD + "  - name: ours\n"
    world.look(wanted, "allocate")
    world.now = TAKE_SECONDS + 1
    said = world.look(wanted, "allocate")
    assert (said.status, said.reason) == (True, "NotTaken")
    assert "it does not go through plugin ours" in said.message
    world.look(wanted, "allocate")
    assert text_of(world.live) == OLD


def test_the_time_in_which_it_is_to_be_taken_is_the_operators_and_a_pass_comes_when_it_is_over(world: World) -> None:
    world.settings = replace(world.settings, scheduler_timeout=20.0)
    world.begin()
    probe = world.r.scheduler_probe
    probe.clock, probe._read = (lambda: world.now), (lambda url: "")

    def is_woken(now: float) -> bool:
        world.now = now
        world.r.wake_event.clear()
        probe.problem = (
            "the scheduler's metrics cannot be read: ValueError: these are no metrics of Volcano's scheduler"
        )
        probe.active = None
        probe.look()
        return world.r.wake_event.is_set()

    world.look(NEW, "allocate")
    assert not is_woken(20.0)
    assert is_woken(20.5)
    assert world.look(NEW, "allocate").status
    assert not is_woken(50.0), "it has returned"


def test_without_a_former_one_nothing_can_return(world: World) -> None:
    world.live = None
    for world.now in (0.0, TAKE_SECONDS + 1):
        said = world.look(NEW, "allocate", "backfill")
    assert said.status
    assert "it does not go through action preempt and it goes through action backfill" in said.message
    assert text_of(world.live) == NEW


def test_drift_that_is_put_back_is_not_kept_as_the_former_one(world: World) -> None:
    world.look(NEW, "allocate", "preempt")
    world.live = config("by hand")
    world.look(NEW, "allocate", "preempt")
    assert (text_of(world.live), world.r.scheduler_memory.previous) == (NEW, OLD)


def test_what_is_known_of_the_scheduler_is_stored_though_the_first_write_fails(world: World) -> None:
    """The next process wrote the configuration again that the scheduler does not take, and waited for three minutes."""
    world.look(OLD, "allocate")
    world.cluster.before = lambda method, path, body: error_answer(500) if method != "GET" else None
    world.look(NEW, "allocate")
    world.cluster.before = lambda method, path, body: None
    world.look(NEW, "allocate")
    writes = len(world.cluster.writes)
    world.look(NEW, "allocate")
    assert len(world.cluster.writes) == writes, "once"
    world.begin()
    assert world.r.scheduler_memory.previous == OLD
