"""A configuration that the scheduler does not take gives its place to the one before, and that is told; so are
components of Volcano that have stalled. What the scheduler goes through is read from its metrics."""

from __future__ import annotations

from dataclasses import replace
from http.client import BadStatusLine, IncompleteRead
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.kubernetes import HOSTNAME_LABEL
from reconciler.changes.diff import Change
from reconciler.changes.results import ChangeResult, Condition
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.inventory.store import Inventory
from reconciler.observation.observe import Observation, Seen
from reconciler.observation.pods import scheduler_text
from reconciler.planning.branch import Target
from reconciler.planning.snapshot import Snapshot
from reconciler.scheduler.configuration import CHART_ADDRESS, SchedulerProbe, default_address, parts_of, read_counts
from reconciler.scheduler.part import SchedulerPart
from reconciler.scheduler.stalls import is_unseen_pod, signs_of_controllers, signs_of_scheduler
from reconciler.timings import TIMINGS, SchedulerTimings
from tests.builders.live import VOLCANO, live, live_pod
from tests.builders.pods import entry
from tests.builders.writing import config_map

PATIENCE, STALLED = 20.0, 90.0
REF = Ref("v1", "ConfigMap", "volcano-system", "volcano-scheduler-configmap")
TIERS = "tiers:\n- plugins:\n  - name: gang\n"
OLD, NEW, NEXT = (
    f'actions: "{actions}"\n{TIERS}' for actions in ("allocate", "allocate, preempt", "enqueue, allocate")
)
GANG = "plugin gang"


def config(text: str) -> Object:
    return config_map(REF.name, {"volcano-scheduler.conf": text}, namespace=REF.namespace, uid="u")


def seen_at(now: float, *objects: Object, kinds: frozenset[str] = frozenset()) -> Seen:
    return Seen(now, 0.0, True, Observation({ref_of(item).key: item for item in objects}, kinds), Inventory())


class World:
    """The part, and the scheduler's ConfigMap; a test turns the clock and plays the scheduler."""

    def __init__(self) -> None:
        self.inventory, self.now, self.woken = Inventory(), 0.0, 0
        self.live: Object | None = config(OLD)
        self.begin()

    def begin(self) -> None:
        """A process begins."""
        self.part = SchedulerPart(SchedulerProbe("", self.wake), PATIENCE, SchedulerTimings())
        self.part.recall(self.inventory)

    def wake(self) -> None:
        self.woken += 1

    def look(self, wanted: str, *actions: str, more: tuple[str, ...] = (GANG,)) -> Condition:
        """A pass in which the scheduler goes through these actions; what is to be written is."""
        manifest = Manifest(3, config(wanted), "c.yaml:1")
        target = Target(snapshot=Snapshot("c0ffee", True, plan={"gangs": []}, manifests=(manifest,)))
        seen = replace(seen_at(self.now, *([self.live] if self.live else [])), inventory=self.inventory)
        desired, results = self.part.standing(manifest), []
        if scheduler_text(desired.object) != scheduler_text(self.live):
            results = [ChangeResult(Change("update", REF, desired, self.live), "done")]
            self.live = desired.object
        self.part.probe.active = frozenset((*(f"action {name}" for name in actions), *more)) if actions else None
        self.effects = self.part.follow(seen, target, results)
        behind, *_ = self.part.conditions(seen, target)
        return behind


@pytest.fixture
def world() -> World:
    return World()


def test_the_parts_of_a_configuration_are_its_actions_and_plugins() -> None:
    assert parts_of(NEW) == {"action allocate", "action preempt", GANG}
    for text in ("", "actions: [", "tiers: []", "actions: a\ntiers: 5"):
        assert parts_of(text) == frozenset()


def test_one_that_is_taken_stands_and_drift_that_is_put_back_is_not_kept_as_the_former_one(world: World) -> None:
    assert not world.look(NEW, "allocate").status, "the kubelet takes its time"
    for world.now in (PATIENCE + 1, 10 * PATIENCE):
        assert not world.look(NEW, "allocate", "preempt").status
        assert (scheduler_text(world.live), world.part.memory.previous) == (NEW, OLD)
        world.live = config("by hand")


def test_one_that_is_not_taken_is_rolled_back_and_told_also_by_the_next_process(world: World) -> None:
    """Seen once: what is known of the scheduler's configuration (that it does not take the repository's) was stored
    once: where that write failed, the next process wrote the refused text again."""
    world.look(NEW, "allocate")
    world.now = PATIENCE + 1
    said = world.look(NEW, "allocate")
    assert (said.status, said.reason) == (True, "NotTaken")
    assert "it does not go through action preempt" in said.message
    assert [(event.object, event.reason) for event in world.effects.events] == [(config(NEW), "SchedulerBehind")]
    for _ in range(3):
        world.now += PATIENCE
        assert world.look(NEW, "allocate").status
        assert scheduler_text(world.live) == OLD
        world.begin()
    world.now = 0.0
    assert not world.look(NEXT, "allocate").status, "another text is tried"
    assert scheduler_text(world.live) == NEXT
    assert world.part.memory.previous == OLD


def test_what_is_not_known_is_no_reason_to_roll_back(world: World) -> None:
    for world.now in (0.0, PATIENCE + 1, 5 * PATIENCE):
        said = world.look(NEW)
        assert (said.status, said.reason) == (False, "NotKnown")
    assert scheduler_text(world.live) == NEW


def test_a_new_plugin_that_the_scheduler_lacks_is_rolled_back(world: World) -> None:
    """It was told, and stood there: the scheduler goes on without it, which is not what was asked for."""
    wanted = OLD + "  - name: ours\n"
    world.look(wanted, "allocate")
    world.now = PATIENCE + 1
    said = world.look(wanted, "allocate")
    assert (said.status, said.reason) == (True, "NotTaken")
    assert "it does not go through plugin ours" in said.message
    world.look(wanted, "allocate")
    assert scheduler_text(world.live) == OLD


def test_a_pass_comes_when_the_time_to_take_it_is_over_and_another_when_the_former_one_returns(world: World) -> None:
    world.look(NEW, "allocate")
    assert world.part.deadlines(0.0) == [PATIENCE]
    world.now = PATIENCE
    assert world.look(NEW, "allocate").status
    assert world.part.deadlines(world.now) == []
    assert world.woken == 1


@pytest.mark.parametrize(
    ("live", "actions", "plugins", "message"),
    [
        (None, ("allocate", "backfill"), (GANG,), "go through action preempt and it goes through action backfill"),
        (config(OLD), ("allocate", "preempt"), (), "it does not go through plugin gang"),
    ],
    ids=["there is none", "it lacks the same"],
)
def test_where_the_former_one_would_be_no_better_it_is_told_and_stands(
    world: World, live: Object | None, actions: tuple[str, ...], plugins: tuple[str, ...], message: str
) -> None:
    world.live = live
    for world.now in (0.0, PATIENCE + 1):
        said = world.look(NEW, *actions, more=plugins)
    assert (said.status, message in said.message) == (True, True)
    assert scheduler_text(world.live) == NEW


# --- components that have stalled

KINDS = frozenset({"Node", "Pod", "Job.batch.volcano.sh", "PodGroup.scheduling.volcano.sh"})
CONTROLLERS, SCHEDULER = "Volcano's controllers have served no job", "Volcano's scheduler has bound no pod"
JOB = Ref(VOLCANO, "Job", "default", "g")
UNBOUND = frozenset({"pod-g", "pod-other"})


def job(name: str, phase: str = "") -> Object:
    status = {"state": {"phase": phase}} if phase else {}
    return {**live(VOLCANO, "Job", name, uid=f"job-{name}"), "spec": {}, "status": status}


def group(of: str, phase: str = "") -> Object:
    made = live("scheduling.volcano.sh/v1beta1", "PodGroup", f"{of}-job-{of}")
    return {**made, "status": {"phase": phase} if phase else {}}


def given(of: str, *, bound: bool = False) -> Object:
    """A pod that was given a node."""
    spec = {"schedulerName": "volcano", "nodeSelector": {HOSTNAME_LABEL: "n1"}, **({"nodeName": "n1"} if bound else {})}
    return {**live_pod(f"{of}-w-0", job(of), uid=f"pod-{of}"), "spec": spec, "status": {}}


def planned(decision: str) -> Target:
    return Target(snapshot=Snapshot("c0ffee", True, plan={"gangs": [entry(job("g"), decision, {})]}))


def told(
    world: World,
    *objects: Object,
    kinds: frozenset[str] = KINDS,
    decision: str = "start",
    again: frozenset[str] = frozenset(),
) -> list[str]:
    """What is told in a pass over these."""
    seen, target = seen_at(world.now, *objects, kinds=kinds), planned(decision)
    world.part.observe(seen, target, again, UNBOUND)
    return [f"{change.ref}: {change.reason}" for change in world.part.stalled(seen, target)]


def reported_after(world: World, *objects: Object, then: tuple[Object, ...] = (), decision: str = "start") -> list[str]:
    """What is told when these have stood there for as long as it takes. then: what stands there from half of it on."""
    for world.now, seen in ((0.0, objects), (STALLED / 2, then or objects), (STALLED, then or objects)):
        said = told(world, *seen, decision=decision)
    return said


@pytest.mark.parametrize(
    ("seen", "who"),
    [
        ((job("g"),), CONTROLLERS),
        ((job("g", "Pending"), group("g")), SCHEDULER),
        ((job("g", "Pending"), group("g", "Inqueue"), given("g")), SCHEDULER),
    ],
    ids=["a job without a status", "a group", "a pod that nobody looks at"],
)
def test_what_a_gang_waits_for_tells_who_has_stalled(world: World, seen: tuple[Object, ...], who: str) -> None:
    """Seen once: Volcano's scheduler, or its controllers, stopped (SIGSTOP) before a commit: its job stood still, and
    every condition was true."""
    (said,) = reported_after(world, *seen)
    assert said.startswith(f"Job default/g: {who} for more than 90 s, and a job waits for that: look at deployment ")
    assert said.endswith(" in volcano-system (whether it runs, leads and logs), then at the job's Events")


LET_IN = (job("g", "Pending"), group("g", "Inqueue"), given("g"))


@pytest.mark.parametrize(
    ("decision", "before", "after"),
    [
        ("start", (job("g", "Pending"), group("g", "Pending")), ()),
        ("wait", (job("g", "Pending"), group("g")), ()),
        ("start", (job("g"), job("other", "Pending")), (job("g"), job("other", "Running"))),
        ("start", (job("g"),), (job("g"), job("other", "Pending"))),
        ("start", (*LET_IN, group("other", "Inqueue")), (*LET_IN, group("other", "Running"))),
        ("start", (*LET_IN, given("other")), (*LET_IN, given("other", bound=True))),
    ],
    ids=["not let in", "may not start", "another runs", "another is served", "another starts", "another is bound"],
)
def test_a_quiet_cluster_and_a_wave_that_goes_on_tell_nothing(
    world: World, decision: str, before: tuple[Object, ...], after: tuple[Object, ...]
) -> None:
    assert reported_after(world, *before, then=after, decision=decision) == []


def test_a_job_that_is_made_again_is_still_told_and_nothing_while_the_cluster_cannot_be_read(world: World) -> None:
    reported_after(world, job("g"))
    assert told(world, again=frozenset({JOB.key}))
    assert told(world, job("g"))
    assert not told(world, job("g"), kinds=KINDS - {"Pod"})
    for world.now, is_told in ((STALLED + 89.0, False), (STALLED + 200.0, True)):
        assert bool(told(world, job("g"))) == is_told, "what was seen while it could not be read is no sign"


def test_what_goes_is_no_sign(world: World) -> None:
    assert reported_after(world, job("g"), job("other", "Pending"), then=(job("g"),))
    assert TIMINGS.client.watch_silence < STALLED, "a watch that shows nothing is found out before"


def test_passes_look_once_in_a_while_and_one_comes_when_it_is_time_to_tell_or_to_stop_telling(world: World) -> None:
    """Each pass went over all pods of a large wave."""
    told(world, job("g"))
    assert world.part.deadlines(0.0) == [STALLED]
    world.now = STALLED
    assert told(world, job("g"))
    assert world.part.deadlines(world.now) == [STALLED + 5.0]
    world.now += 2.5
    assert told(world, job("g", "Pending")), "not looked at again"
    world.now += 2.5
    assert not told(world, job("g", "Pending"))


def word_of(node: str = "", scheduler: str = "volcano", **condition: str) -> Object:
    spec: dict[str, Any] = {"schedulerName": scheduler, **({"nodeName": node} if node else {})}
    rows = [{"type": "PodScheduled", "status": "False", **condition}] if condition else []
    return {"metadata": {"uid": "pod"}, "spec": spec, "status": {"conditions": rows}}


@pytest.mark.parametrize(
    ("found", "is_unseen"),
    [
        (word_of(), True),
        (word_of(reason="SchedulingGated"), True),
        (word_of(reason="Unschedulable", message="no room"), False),
        (word_of(reason="Undetermined", message="waits for its gang"), False),
        (word_of("n1"), False),
    ],
)
def test_a_pod_with_a_word_of_the_scheduler_was_looked_at(found: Object, is_unseen: bool) -> None:
    assert is_unseen_pod(found) == is_unseen
    assert bool(signs_of_scheduler((), [found])) != is_unseen


def test_only_what_the_component_itself_writes_is_a_sign() -> None:
    def having(phase: str) -> Object:
        return {"metadata": {"uid": "u"}, "status": {"phase": phase, "state": {"phase": phase}}}

    assert not signs_of_scheduler([having(""), having("Pending")], [word_of("n1", "default-scheduler")])
    assert signs_of_scheduler([having("Inqueue")], ())
    assert signs_of_controllers([having("Pending")])
    assert not signs_of_controllers([having(""), {"metadata": {"uid": "u"}}])


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
    with pytest.raises(ValueError, match="not metrics of Volcano"):
        read_counts("<html>")


def test_what_grows_over_whole_cycles_is_gone_through() -> None:
    pages: list[str | Exception] = []
    woken: list[None] = []

    def read(url: str) -> str:
        answer = pages.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    probe = SchedulerProbe("http://there", lambda: woken.append(None), read)

    def seen(answer: str | Exception) -> frozenset[str] | None:
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
    for broken in (OSError("refused"), BadStatusLine("garbage"), IncompleteRead(b"")):
        assert seen(broken) is None
        assert "cannot be read" in probe.problem
        assert seen(page(9, 9, 9)) is None, "what was before is not compared"
        assert probe.problem == ""
        assert seen(page(12, 12, 12)) is not None
    assert len(woken) == 4 + 3 * 3  # what was seen changed so often


def test_in_a_pod_they_are_looked_for_where_volcanos_chart_has_them() -> None:
    """Without the option nothing was known of the scheduler, and nothing returned."""
    assert default_address({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == CHART_ADDRESS
    assert default_address({}) == ""
