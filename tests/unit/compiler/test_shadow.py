from __future__ import annotations

import pytest

from compiler.cluster_state.cluster_state import StateError
from compiler.shadow import Look, Shadowed, look_at, page_of
from solver.options import Options
from tests.builders import declared
from tests.builders.cluster_objects import node, pod
from tests.builders.declared import GPU, Object, hypernode, pod_spec

CLOCK = 1_800_000_000
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


def test_only_who_waited_before_counts_as_unused_room() -> None:
    found = look(job("waits", 1, 8))
    assert found.unused(frozenset()) == {}
    assert found.unused(found.waiting) == {GPU: 8}


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
