"""A queue that leaves the repository stays while something is in it that does not go as well."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.kubernetes import GROUP_NAME_ANNOTATION
from reconciler.changes.allowed import PrunePlan
from reconciler.changes.diff import Change
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.ownership.guard import without_occupied_queues
from tests.builders.writing import thing, volcano_job


def pod_group(name: str, owner: str = "", queue: str = "team", phase: str = "Running") -> Object:
    owners = [{"uid": f"uid-{owner}"}] if owner else []
    made = thing("PodGroup", name, api=SCHEDULING, uid=f"uid-{name}", ownerReferences=owners)
    return {**made, "spec": {"queue": queue}, "status": {"phase": phase}}


def job(name: str, phase: str = "", **metadata: Any) -> Object:
    status = {"state": {"phase": phase}} if phase else {}
    return {**volcano_job(name, {"queue": "team"}, uid=f"uid-{name}", **metadata), "status": status}


def pod(name: str, group: str, phase: str) -> Object:
    return {**thing("Pod", name, annotations={GROUP_NAME_ANNOTATION: group}), "status": {"phase": phase}}


SCHEDULING = "scheduling.volcano.sh/v1beta1"
TEAM = thing("Queue", "team", api=SCHEDULING, namespace="", uid="uid-team")
DELETED = job("ours", "Running", deletionTimestamp="2026")


def held(*seen: Object, going: tuple[Object, ...] = ()) -> list[str]:
    """Why the deletion of the queue is held, when these jobs go as well."""
    changes = tuple(Change("prune", ref_of(item), live=item) for item in (*going, TEAM))
    observation = Observation({ref_of(item).key: item for item in (*seen, *going)}, frozenset())
    plan = without_occupied_queues(observation, PrunePlan(changes=changes))
    assert len(plan.changes) + len(plan.held_changes) == len(changes)
    assert all(change.ref.name == "team" for change in plan.held_changes)
    return [change.reason for change in plan.held_changes]


@pytest.mark.parametrize(
    "stranger",
    [
        (pod_group("theirs"),),
        (pod_group("theirs", phase="Inqueue"),),
        (pod_group("theirs", phase="Pending"),),
        (job("theirs"),),
        (pod_group("theirs"), pod("one", "theirs", "Succeeded"), pod("two", "theirs", "Running")),
    ],
)
def test_what_runs_or_waits_in_a_queue_holds_its_deletion(stranger: tuple[Object, ...]) -> None:
    (reason,) = held(*stranger)
    assert reason.startswith("it left the repository, and is deleted when what is in it has gone: ")
    assert "default/theirs" in reason


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (pod_group("theirs", queue="other"),),
        (pod_group("theirs", phase="Completed"),),
        (job("theirs", "Completed"),),
        (pod_group("theirs"), pod("one", "theirs", "Succeeded"), pod("two", "theirs", "Failed")),
        (DELETED, pod_group("pg", owner="ours")),
    ],
)
def test_what_is_over_or_elsewhere_holds_nothing(seen: tuple[Object, ...]) -> None:
    going = tuple(item for item in seen if item is DELETED)
    assert held(*seen, going=going) == []


def test_what_goes_with_the_queue_does_not_hold_it_and_what_stays_does() -> None:
    ours = job("ours", "Running")
    assert held(pod_group("pg", owner="ours"), going=(ours,)) == []
    assert len(held(ours, pod_group("pg", owner="ours"))) == 1, "suspended, say"


def test_many_are_counted() -> None:
    (reason,) = held(*(pod_group(f"pg-{at}") for at in range(5)))
    assert reason.endswith("PodGroup default/pg-2 and 2 more")
