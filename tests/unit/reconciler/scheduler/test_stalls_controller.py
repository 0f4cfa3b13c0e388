"""That Volcano's controllers or scheduler have stalled is told, at the jobs that wait for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.cluster.objects import Object, ref_of
from reconciler.context import Pass
from reconciler.observation.observe import Observation
from reconciler.report.build import build_report
from reconciler.report.status import Report
from reconciler.scheduler.stalls import LOOK_SECONDS, STALLED_SECONDS
from reconciler.scheduler.stalls_controller import observe_stalls
from tests.unit.reconciler.pods.test_controller import World, key_of, live_job, planned, pod

KINDS = frozenset({"Node", "Pod", "Job.batch.volcano.sh", "PodGroup.scheduling.volcano.sh"})
CONTROLLERS, SCHEDULER = "Volcano's controllers have served no job", "Volcano's scheduler has bound no pod"


def served(name: str, phase: str = "Pending") -> Object:
    return {**live_job(name), "status": {"state": {"phase": phase}}}


def group(of: str, phase: str = "") -> Object:
    metadata = {"name": f"{of}-job-{of}", "namespace": "default", "uid": f"group-{of}"}
    api = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": api, "kind": "PodGroup", "metadata": metadata, "status": {"phase": phase} if phase else {}}


def given(job: str, *, bound: bool = False) -> Object:
    found = pod(job, 0, "n1", bound=bound)
    found["spec"]["schedulerName"] = "volcano"
    return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def look(world: World, *objects: Object, kinds: frozenset[str] = KINDS) -> Report:
    """One pass, the acts on pods aside."""
    everything = {ref_of(item).key: item for item in objects}
    assert world.r.inventory is not None
    p = Pass(Observation(everything, kinds), world.r.inventory, snapshot=world.r.planning.snapshot)
    pods = p.observation.objects_of_kind("Pod")
    p.pods = {key_of("g"): [item for item in pods if "g-w" in item["metadata"]["name"]]}
    world.r.binding.observe(pods, p.observation.node_index({}), world.now)
    assert p.snapshot is not None
    observe_stalls(world.r, p, p.snapshot)
    return build_report(world.r, p)


def told_after(world: World, *objects: Object, then: tuple[Object, ...] = ()) -> list[str]:
    """What is told when these have stood there for as long as it takes. then: what stands there from half of it on."""
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}}}
    ]
    for world.now, seen in ((0.0, objects), (STALLED_SECONDS / 2, then or objects), (STALLED_SECONDS, then or objects)):
        report = look(world, *nodes, *seen)
    return [f"{change.ref}: {change.reason}" for change in report.held_changes]


def test_a_job_without_a_status_tells_of_the_controllers(world: World) -> None:
    world.plan(planned("g", "start", n1=1))
    (told,) = told_after(world, live_job("g"))
    assert told.startswith(f"Job default/g: {CONTROLLERS}")
    report = look(world, live_job("g"))
    applied = next(each for each in report.conditions if each.type == "Applied")
    assert not applied.status
    assert CONTROLLERS in applied.message
    assert [event.reason for event in report.events] == ["VolcanoStalled"]


@pytest.mark.parametrize("seen", [(group("g"),), (group("g", "Inqueue"), given("g"))], ids=["group", "pod"])
def test_a_group_or_a_pod_that_nobody_looks_at_tells_of_the_scheduler(world: World, seen: tuple[Object, ...]) -> None:
    world.plan(planned("g", "start", n1=1))
    (told,) = told_after(world, served("g"), *seen)
    assert told.startswith(f"Job default/g: {SCHEDULER}")


@pytest.mark.parametrize(
    ("decision", "before", "after"),
    [
        ("start", (served("g"), group("g", "Pending")), ()),
        ("wait", (served("g"), group("g")), ()),
        ("start", (live_job("g"), served("other")), (live_job("g"), served("other", "Running"))),
        ("start", (live_job("g"),), (live_job("g"), served("other"))),
        (
            "start",
            (served("g"), group("g", "Inqueue"), given("g"), group("other", "Inqueue")),
            (served("g"), group("g", "Inqueue"), given("g"), group("other", "Running")),
        ),
        (
            "start",
            (served("g"), group("g", "Inqueue"), given("g"), given("other")),
            (served("g"), group("g", "Inqueue"), given("g"), given("other", bound=True)),
        ),
    ],
    ids=["not let in", "may not start", "another runs", "another is served", "another starts", "another is bound"],
)
def test_a_quiet_cluster_and_a_wave_that_goes_on_tell_nothing(
    world: World, decision: str, before: tuple[Object, ...], after: tuple[Object, ...]
) -> None:
    world.plan(planned("g", decision, n1=1))
    assert told_after(world, *before, then=after) == []


def test_a_job_that_is_made_again_is_still_told_and_nothing_while_the_cluster_cannot_be_read(world: World) -> None:
    world.plan(planned("g", "start", n1=1))
    told_after(world, live_job("g"))
    world.r.lost_jobs.record_repeat(key_of("g"))
    assert [change.ref.name for change in look(world).held_changes] == ["g"]
    assert look(world, live_job("g")).held_changes
    assert not look(world, live_job("g"), kinds=KINDS - {"Pod"}).held_changes


def test_a_pass_comes_when_it_is_time_to_tell(world: World) -> None:
    world.plan(planned("g", "start", n1=1))
    world.r.wall_clock = lambda: 0.0
    assert look(world, live_job("g")).next_wakeup == STALLED_SECONDS


def test_passes_that_follow_one_another_look_once_and_what_is_told_ends_with_a_look(world: World) -> None:
    """Each pass went over all pods of a large wave."""
    world.plan(planned("g", "start", n1=1))
    for world.now in (0.0, STALLED_SECONDS):
        look(world, live_job("g"))
    assert world.r.stalls.deadlines(world.now) == [STALLED_SECONDS + LOOK_SECONDS]
    world.now += LOOK_SECONDS / 2
    assert [row for row in look(world, served("g")).held_changes if CONTROLLERS in row.reason], "not looked at again"
    world.now += LOOK_SECONDS / 2
    assert not look(world, served("g")).held_changes
