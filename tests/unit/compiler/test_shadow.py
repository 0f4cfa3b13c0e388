from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import StateError
from compiler.shadow import Look, Shadowed, look_at, page_of
from solver.options import Options
from tests.builders import declared
from tests.builders.cluster_objects import node, pod
from tests.builders.declared import GPU, Object, hypernode, pod_spec

CLOCK = 1_800_000_000
PRIORITY: Object = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}, {name: network-topology-aware}]
"""


def job(name: str, pods: int, gpus: int) -> Object:
    made = declared.job(name, pods, pod_spec({GPU: gpus}), namespace="n", queue="team", minAvailable=pods)
    made["metadata"] |= {"uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return made


def running_pod(of: str, at: str, gpus: int, number: int = 0) -> Object:
    annotations = {"volcano.sh/task-spec": "w", "volcano.sh/job-name": of}
    return pod(f"{of}-w-{number}", at, limits={GPU: str(gpus)}, job=of, namespace="n", annotations=annotations)


def cluster(*jobs_and_pods: Object) -> list[Object]:
    """Two supernodes of two nodes with 8 GPUs, and a queue that deserves all of them."""
    nodes = [node(f"a-{at}", {"cpu": "64", "memory": "1Ti", GPU: "8"}) for at in range(4)]
    conf = {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"}
    return [
        *nodes,
        hypernode("left", "a-0", "a-1"),
        hypernode("right", "a-2", "a-3"),
        declared.queue("team", deserved={GPU: 32}),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": conf, "data": {"volcano-scheduler.conf": CONF}},
        *jobs_and_pods,
    ]


def look(*jobs_and_pods: Object) -> Look:
    return look_at(Shadowed.of(cluster(*jobs_and_pods), CLOCK), Options())


def test_a_gang_that_fits_beside_what_runs_is_startable() -> None:
    found = look(job("runs", 2, 8), *(running_pod("runs", f"a-{at}", 8, at) for at in range(2)), job("waits", 2, 8))
    assert (found.now.running, found.now.waiting, found.now.devices) == (1, 1, {GPU: 16})
    assert found.startable == {"n/waits": {GPU: 16}}
    assert found.now.owed == {GPU: 16}
    assert found.from_empty.devices == {GPU: 32}
    assert found.gained() == {GPU: 16}


def test_only_who_could_start_before_counts_as_unused_room() -> None:
    found = look(job("waits", 1, 8))
    assert found.startable_since(None) == {}
    assert found.startable_since(replace(found, startable={})) == {}
    assert found.startable_since(replace(found, startable={"n/waits": {GPU: 4}})) == {"n/waits": {GPU: 4}}


OWNED: dict[str, Any] = {
    "of-an-unknown-kind": {"ownerReferences": [{"apiVersion": "example.org/v1", "kind": "Train", "name": "t"}]},
    "of-a-clock": {"ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": "t"}]},
    "of-a-workflow": {"ownerReferences": [{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "t"}]},
    "of-gangplan": {"labels": {"gangplan.dev/cluster": "c"}},
}


@pytest.mark.parametrize("metadata", OWNED.values(), ids=OWNED)
def test_jobs_that_something_made_which_is_not_planned_count(metadata: Object) -> None:
    runs, waits = job("runs", 1, 8), job("waits", 1, 8)
    for each in (runs, waits):
        each["metadata"] |= metadata
    found = look(runs, running_pod("runs", "a-0", 8), waits)
    assert (found.now.running, found.startable) == (1, {"n/waits": {GPU: 8}})


def test_a_job_that_somebody_suspended_does_not_wait() -> None:
    assert look({**job("a", 1, 8), "status": {"state": {"phase": "Aborted"}}}).waiting == frozenset()


def test_queues_of_other_systems_change_nothing() -> None:
    kai = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "k"}}
    resources = {"gpu": {"quota": 3, "limit": -1}}
    cluster_of_kai = Shadowed.of(cluster({**kai, "spec": {"resources": resources}}), CLOCK)
    assert [queue.name for queue in cluster_of_kai.specs.queues if queue.name == "k"] == []


def test_what_starts_in_room_of_the_evicted_is_not_startable_in_free_room() -> None:
    objects = cluster(
        *(PRIORITY | {"metadata": {"name": name}, "value": value} for name, value in (("hi", 9), ("lo", 1)))
    )
    jobs = [job("victim", 4, 8), job("urgent", 1, 4), job("small", 1, 4)]
    jobs[0]["spec"]["minAvailable"] = 1  # one pod of the victim goes, and small would fit beside urgent
    for each, name in zip(jobs, ("lo", "hi", "lo"), strict=True):
        each["spec"]["priorityClassName"] = name
    pods = [running_pod("victim", f"a-{at}", 8, at) for at in range(4)]
    for each in objects:
        if each["kind"] == "ConfigMap":
            each["data"] = {"volcano-scheduler.conf": CONF.replace("allocate,", "allocate, preempt,")}
    found = look_at(Shadowed.of([*objects, *jobs, *pods], CLOCK), Options())
    assert (found.now.running, found.startable) == (1, {})


@pytest.mark.parametrize(
    "tree",
    [[hypernode("x", "y", tier=2), hypernode("y", "x", tier=2)], [hypernode("x", "x", tier=2)]],
    ids=["loop", "own member"],
)
def test_hypernodes_of_the_cluster_that_are_no_tree_take_no_plan_away(tree: list[Object]) -> None:
    objects = [each for each in cluster(job("waits", 4, 8)) if each["kind"] != "HyperNode"]
    found = look_at(Shadowed.of([*objects, *tree], CLOCK), Options())
    assert found.startable == {"n/waits": {GPU: 32}}
    assert found.left_out


def test_an_object_with_an_error_is_said_to_be_left_out() -> None:
    unknown = job("a", 1, 8)
    unknown["spec"]["queue"] = "nowhere"
    found = look(unknown, job("b", 1, 8))
    assert (found.waiting, found.left_out) == (frozenset({"n/b"}), ("GP302: there is no queue 'nowhere'",))


def test_fragments_cost_a_gang_its_start_now_and_none_from_empty() -> None:
    small = [job(f"s{at}", 1, 4) for at in range(4)]
    pods = [running_pod(f"s{at}", f"a-{at}", 4) for at in range(4)]
    found = look(*small, *pods, job("waits", 2, 8))
    assert found.startable == {}
    assert (found.now.waiting, found.from_empty.waiting) == (1, 0)
    assert found.gained() == {GPU: 16}


def test_spread_is_domains_of_a_gang_in_the_mean() -> None:
    found = look(job("wide", 2, 8), running_pod("wide", "a-0", 8), running_pod("wide", "a-2", 8, 1))
    assert (found.now.domains, found.from_empty.domains) == (2.0, 1.0)


def test_pods_of_others_stay_where_they_are() -> None:
    foreign = pod("other", "a-0", limits={GPU: "8"}, namespace="n")
    assert look(foreign, job("waits", 4, 8)).from_empty.running == 0


def test_the_page_shows_what_waits() -> None:
    assert "n/waits" in (page_of(Shadowed.of(cluster(job("waits", 1, 8)), CLOCK)) or "")


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(StateError):
        Shadowed.of([{"kind": "Node"}], CLOCK)
