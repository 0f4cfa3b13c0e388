"""Specs and a state in, a problem out; the problem is valid for the solver in every case."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState, StateError
from compiler.lower.lowering import lower
from compiler.lower.origins import Origins
from compiler.session import Session
from compiler.specs.gang_spec import JobTimes, Scheduling, SubgroupSpec, TopologySpec
from compiler.specs.pod_spec import Taint
from compiler.specs.queue_spec import PriorityClassSpec
from solver.problem import Placement, Problem, Subgroup, Topology
from solver.validation.values import validate
from tests.builders import cluster_objects
from tests.builders.specs import document, gang, hypernode, node, queue, role, specs

NODES = (node("n1"), node("n2"), node("n3"))


def lowered(
    *items: dict[str, Any], finished: tuple[tuple[str, str, str], ...] = (), session: Session | None = None, **made: Any
) -> tuple[Problem, Origins]:
    state = ClusterState.from_objects(items, finished, session=session) if items or finished else None
    problem, origins = lower(specs(**{"nodes": NODES, **made}), state)
    validate(problem)
    return problem, origins


def pod(name: str, node: str | None = "n1", gpu: int = 1, job: str | None = None, **more: Any) -> dict[str, Any]:
    if more.pop("deleted", False):
        more["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return cluster_objects.pod(name, node or "", job=job or "", limits={"nvidia.com/gpu": str(gpu)}, **more)


def live_node(name: str, gpu: str = "8", ready: str = "True", **spec: Any) -> dict[str, Any]:
    return cluster_objects.node(name, {"nvidia.com/gpu": gpu}, ready=ready, spec=spec, labels={"seen": "yes"})


def gpus(problem: Problem, which: str = "free") -> list[int]:
    at = problem.resources.index("nvidia.com/gpu")
    return [getattr(n, which)[at] for n in problem.nodes]


def test_resources_are_all_that_nodes_pods_or_queues_name_cpu_first() -> None:
    problem, _ = lowered(
        gangs=(gang("a", role("worker", 1)),), queues=(queue("default", capability={"cpu": 1, "aaa/x": 2}),)
    )
    assert problem.resources == ("cpu", "aaa/x", "nvidia.com/gpu", "pods")
    assert problem.nodes[0].capacity == (64_000, 0, 8, 110)


def test_roles_subgroups_and_topology_become_indices() -> None:
    part = SubgroupSpec("unit", ("worker",), 2, 2, TopologySpec("hard", 1), ())
    job = gang(
        "a", role("ps", 1, gpu=0), role("worker", 4, minimum=2), topology=TopologySpec("soft"), subgroups=(part,)
    )
    problem, _ = lowered(gangs=(job,), hypernodes=(hypernode("l", 1, nodes=("n1", "n2")),))
    made = problem.gangs[0]
    assert [(r.name, r.replicas, r.minimum, r.request) for r in made.roles] == [
        ("ps", 1, 1, (0, 1)),
        ("worker", 4, 2, (1, 1)),
    ]
    assert (made.name, made.minimum, made.topology) == ("team/a", 3, Topology("soft", 2))
    assert made.subgroups == (Subgroup("unit", (1,), 2, 2, Topology("hard", 1)),)
    assert [n.leaf for n in problem.nodes] == [0, 0, None]


def test_priority_comes_from_the_class_or_the_global_default() -> None:
    classes = (
        PriorityClassSpec(document("PriorityClass", "high"), "high", 1000),
        PriorityClassSpec(document("PriorityClass", "usual"), "usual", 10, global_default=True),
    )
    jobs = tuple(
        gang(name, role("w", 1), priority_class=name if name != "none" else None)
        for name in ("high", "none", "system-node-critical")
    )
    problem, _ = lowered(gangs=jobs, priority_classes=classes)
    assert [g.priority for g in problem.gangs] == [1000, 10, 2_000_001_000]
    assert lowered(gangs=jobs[1:2])[0].gangs[0].priority == 0


def test_age_is_what_the_job_says_then_the_cluster_then_the_repository_then_its_name() -> None:
    jobs = (
        gang("d", role("w", 1)),
        gang("c", role("w", 1), times=JobTimes(submitted_at=50)),
        gang("b", role("w", 1)),
        gang("a", role("w", 1)),
    )
    live = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "b", "namespace": "team", "creationTimestamp": "1970-01-01T00:00:40Z"},
    }
    problem, _ = lower(
        specs(nodes=NODES, gangs=jobs), ClusterState.from_objects([live]), {"c.yaml": 1, "b.yaml": 2, "d.yaml": 45}
    )
    assert {g.name: g.age for g in problem.gangs} == {"team/b": 0, "team/d": 1, "team/c": 2, "team/a": 3}


def test_bound_pods_of_our_gangs_run_and_all_others_hold_their_node_and_queue() -> None:
    job = gang("a", role("ps", 1), role("worker", 2), queue="ads")
    other: Any = {"annotations": {"volcano.sh/queue-name": "ads"}}
    problem, _ = lowered(
        pod("a-ps-0", "n1", job="a", labels={"volcano.sh/task-spec": "ps"}),
        pod("a-worker-0", "n2", job="a", labels={"volcano.sh/task-spec": "worker"}),
        pod("a-worker-1", None, job="a", labels={"volcano.sh/task-spec": "worker"}),
        pod("stranger", "n2", gpu=3, **other),
        pod("done", "n3", gpu=8, phase="Succeeded"),
        pod("on a lost node", "gone", gpu=8),
        gangs=(job,),
        queues=(queue("ads"),),
    )
    assert problem.gangs[0].running == (Placement(0, 0, 1), Placement(1, 1, 1))
    assert gpus(problem) == [8, 5, 8]
    assert gpus(problem, "capacity") == [8, 8, 8]
    assert problem.queues[0].used == (3, 1)


@pytest.mark.parametrize(
    ("labels", "annotations"),
    [
        ({"volcano.sh/job-name": "a", "volcano.sh/task-spec": "worker"}, {}),
        ({}, {"scheduling.k8s.io/group-name": "a-1234", "volcano.sh/task-spec": "Worker"}),
        ({"volcano.sh/job-name": "a"}, {}),
    ],
)
def test_a_pod_is_known_by_labels_or_by_its_pod_group(labels: dict[str, str], annotations: dict[str, str]) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": "a-1234",
            "namespace": "team",
            "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "a"}],
        },
        "spec": {"queue": "default"},
    }
    problem, _ = lowered(
        group, pod("p", "n3", labels=labels, annotations=annotations), gangs=(gang("a", role("worker", 2)),)
    )
    assert problem.gangs[0].running == (Placement(0, 2, 1),)


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param(pod("a-2", "n2", job="a"), id="more pods than replicas"),
        pytest.param(pod("a-1", "n2", job="a", deleted=True), id="terminating"),
        pytest.param(pod("b-1", "n2", job="b"), id="job that is not ours"),
        pytest.param(pod("x", "n2", labels={"job-name": "a"}), id="batch job of the same name"),
    ],
)
def test_a_pod_that_is_not_to_be_kept_holds_its_node(extra: dict[str, Any]) -> None:
    problem, _ = lowered(pod("a-0", "n1", job="a"), extra, gangs=(gang("a", role("worker", 1)),))
    assert problem.gangs[0].running == (Placement(0, 0, 1),)
    assert gpus(problem) == [8, 7, 8]


def test_the_clusters_nodes_are_the_truth() -> None:
    tainted = live_node("n2", gpu="6", taints=[{"key": "k", "effect": "NoSchedule"}])
    _, origins = lowered(
        live_node("n10"), tainted, live_node("n1", unschedulable=True), gangs=(gang("a", role("w", 1)),)
    )
    assert [n.name for n in origins.nodes] == ["n1", "n2", "n10"]
    assert [n.allocatable["nvidia.com/gpu"] for n in origins.nodes] == [8, 6, 8]
    assert [n.unschedulable for n in origins.nodes] == [True, False, False]
    assert origins.nodes[1].taints == (Taint("k", "", "NoSchedule"),)
    assert origins.nodes[1].labels == {"seen": "yes"}


def test_an_absurd_amount_on_a_node_is_cut_to_what_can_be_added_up() -> None:
    large = {"cpu": 2**63 - 1, "nvidia.com/gpu": 8}
    problem, _ = lower(specs(nodes=(node("n0"), node("n1", allocatable=large)), queues=(queue("a", capability=large),)))
    validate(problem)
    assert problem.nodes[1].capacity[problem.resources.index("cpu")] == 2**61
    assert problem.nodes[0].capacity[problem.resources.index("cpu")] == 64_000


def test_a_lost_node_offers_nothing_but_what_runs_there() -> None:
    problem, _ = lowered(
        live_node("n1", ready="Unknown"), live_node("n2"), pod("a-0", "n1", job="a"), gangs=(gang("a", role("w", 2)),)
    )
    assert gpus(problem) == [1, 8]
    assert gpus(problem, "capacity") == [1, 8]


def test_an_over_committed_node_has_what_it_has_less_what_others_hold() -> None:
    problem, _ = lowered(
        pod("a-0", "n1", job="a", gpu=4), pod("x", "n1", gpu=7), gangs=(gang("a", role("w", 1, gpu=4)),)
    )
    assert (gpus(problem)[0], gpus(problem, "capacity")[0]) == (1, 8)


@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_a_node_that_lost_a_device_under_a_running_pod_has_what_it_still_has(ready: str) -> None:
    """It counted with what the pod holds: limits and shares of queues came of devices that were gone."""
    nodes = (live_node("n1", gpu="3", ready=ready), live_node("n2"))
    problem, _ = lowered(*nodes, pod("a-0", "n1", job="a", gpu=4), gangs=(gang("a", role("w", 1, gpu=4)),))
    assert gpus(problem) == gpus(problem, "capacity") == [3, 8]
    assert problem.totals[problem.resources.index("nvidia.com/gpu")] == 11
    assert problem.gangs[0].running == (Placement(0, 0, 1),)


@pytest.mark.parametrize(("request_of_a", "pods"), [(64, 110), (65, 1)])
def test_a_node_whose_pods_hold_more_cpu_than_it_has_takes_no_pod(request_of_a: int, pods: int) -> None:
    """Volcano binds none there, also none that asks for no CPU: such a gang was evicted after its bind timeout."""
    held = cluster_objects.pod("a-0", "n1", job="a", requests={"cpu": str(request_of_a)})
    named = (queue("default", capability={"cpu": 10**6}),)
    problem, _ = lowered(held, gangs=(gang("a", role("w", 1, gpu=0)), gang("b", role("w", 1))), queues=named)
    assert (gpus(problem)[0], problem.nodes[0].free[problem.resources.index("pods")]) == (8, pods)


FINISHED = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "a", "namespace": "team"}}


@pytest.mark.parametrize(
    "status",
    [
        {"state": {"phase": "Completed"}},
        {"state": {"phase": "Failed"}},
        {"conditions": [{"type": "Complete", "status": "True"}]},
    ],
)
def test_a_finished_job_is_in_no_problem_and_its_last_pods_only_hold_their_node(status: dict[str, Any]) -> None:
    problem, origins = lowered(
        {**FINISHED, "status": status},
        pod("a-0", "n1", job="a"),
        gangs=(gang("a", role("w", 1)), gang("b", role("w", 1))),
    )
    assert [g.name for g in problem.gangs] == ["team/b"]
    assert [g.document.name for g in origins.left_out.finished] == ["a"]
    assert gpus(problem) == [7, 8, 8]


def test_a_running_job_with_a_failed_condition_that_is_false_is_not_finished() -> None:
    problem, _ = lowered(
        {**FINISHED, "status": {"conditions": [{"type": "Failed", "status": "False"}]}},
        gangs=(gang("a", role("w", 1)),),
    )
    assert len(problem.gangs) == 1


def test_a_job_that_was_deleted_after_it_finished_is_remembered() -> None:
    problem, origins = lowered(finished=(("team", "a", "Job"),), gangs=(gang("a", role("w", 1)),))
    assert (problem.gangs, len(origins.left_out.finished)) == ((), 1)


def test_a_suspended_job_is_set_aside() -> None:
    problem, origins = lowered(gangs=(gang("a", role("w", 1), scheduling=Scheduling(schedulable=False)),))
    assert (problem.gangs, [g.document.name for g in origins.left_out.inactive]) == ((), ["a"])


def test_a_job_without_pods_is_in_no_problem_and_one_of_minimum_zero_starts_with_its_first_pod() -> None:
    problem, origins = lowered(gangs=(gang("none", role("w", 0)), gang("any", role("w", 3, minimum=0))))
    assert [(g.name, g.minimum) for g in problem.gangs] == [("team/any", 1)]
    assert [g.document.name for g in origins.left_out.empty] == ["none"]


def test_a_pod_that_cannot_be_read_is_named() -> None:
    with pytest.raises(StateError, match="Pod team/odd of the state"):
        lowered({**pod("odd"), "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "1 2"}}}]}})


def test_large_clusters_lower_in_work_that_grows_with_nodes_plus_gangs() -> None:
    """10,000 nodes and 200 gangs with a selector each: kinds stay few, and so does the number of sets that the roles
    refer to."""
    nodes = tuple(
        node(f"n{i}", labels={"pool": f"p{i % 20}", "kubernetes.io/hostname": f"n{i}"}) for i in range(10_000)
    )
    jobs = tuple(gang(f"j{i}", role("w", 4, node_selector={"pool": f"p{i % 20}"})) for i in range(200))
    problem, _ = lowered(nodes=nodes, gangs=jobs)
    assert len({n.node_class for n in problem.nodes}) == 20
    assert all(len(g.roles[0].node_classes) == 1 for g in problem.gangs)


def test_nodes_of_which_nothing_changed_stay_the_same_objects() -> None:
    jobs, session = (gang("a", role("worker", 1)), gang("b", role("worker", 1))), Session()
    running = pod("p", job="a")
    first, _ = lowered(running, gangs=jobs[:1], session=session)
    assert lowered(running, gangs=jobs, session=session)[0].nodes is first.nodes
    after, _ = lowered(running, pod("q", job="b"), gangs=jobs)
    assert gpus(after) == gpus(first), "what gangs hold is not taken off the nodes"
    foreign, _ = lowered(running, pod("q"), gangs=jobs)
    assert gpus(foreign)[0] == gpus(first)[0] - 1
    assert lowered(running, gangs=jobs, nodes=NODES[:2])[0].nodes == first.nodes[:2]
