"""Who may borrow a domain that a queue keeps, and which domains are kept, as documents and a state say them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.lower.lowering import lower
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec, Specs
from compiler.specs.gang_spec import GangSpec
from solver import solve
from solver.problem import Problem
from solver.verify import verify
from tests.builders import cluster_objects
from tests.builders.specs import document, gang, hypernode, node, queue, role
from tests.builders.specs import specs as build

FREE = (
    PluginSpec("gang", {}, {"enableReclaimable": False}),
    PluginSpec("conformance", {}, {}),
    PluginSpec("cdp", {}, {}),
)


def scheduler(*actions: str, plugins: tuple[PluginSpec, ...] = FREE) -> SchedulerSpec:
    return SchedulerSpec(
        document("SchedulerConfiguration", "conf"), "conf", "volcano-system", ("allocate", *actions), (plugins,), {}
    )


def world(*gangs: GangSpec, conf: SchedulerSpec | None = None, keeps: int = 1) -> Specs:
    """Three supernodes of one node each, of which the queue "owner" keeps some."""
    made = build(
        nodes=tuple(node(f"n{n}") for n in range(3)),
        gangs=gangs,
        hypernodes=tuple(hypernode(f"s{n}", 1, nodes=(f"n{n}",)) for n in range(3)),
        queues=(queue("owner", dedicated_domains=(keeps, "1")), queue("other")),
    )
    return replace(made, scheduler=conf or scheduler("reclaim"))


def waits(problem: Problem) -> bool:
    return problem.gangs[0].eviction.evictable


def job(name: str = "job", notes: dict[str, str] | None = None) -> GangSpec:
    return gang(name, replace(role("worker", 1, gpu=8), annotations=notes or {}), queue="other")


def pod(name: str, at: str, notes: dict[str, str] | None = None) -> dict[str, Any]:
    return cluster_objects.pod(f"{name}-worker-0", at, job=name, spec={"containers": []}, annotations=notes or {})


def test_a_waiting_job_that_could_be_evicted_may_borrow() -> None:
    assert waits(lower(world(job()))[0])


@pytest.mark.parametrize(
    "conf", [scheduler(), scheduler("preempt"), scheduler("reclaim", plugins=(PluginSpec("nodeorder", {}, {}),))]
)
def test_without_reclaim_no_domain_is_borrowed(conf: SchedulerSpec) -> None:
    assert not waits(lower(world(job(), conf=conf))[0])


def test_without_dedicated_domains_no_gang_borrows() -> None:
    made = world(job())
    plain = replace(made, queues=tuple(replace(spec, dedicated_domains=None) for spec in made.queues))
    assert not waits(lower(plain)[0])


@pytest.mark.parametrize("notes", [{"volcano.sh/preemptable": "false"}, {"volcano.sh/cooldown-time": "10m"}])
def test_a_job_whose_owner_protects_it_borrows_nothing(notes: dict[str, str]) -> None:
    assert not waits(lower(world(job(notes=notes)))[0])


@pytest.mark.parametrize(
    "said",
    [
        {"metadata": {"annotations": {"volcano.sh/preemptable": "false"}}},
        {"spec": {"priorityClassName": "system-node-critical"}},
    ],
)
def test_a_job_of_bare_pods_of_which_one_is_protected_borrows_nothing(said: dict[str, Any]) -> None:
    pods = [document("Pod", "first"), document("Pod", "second")]
    one, other = (replace(pod, data={"metadata": {}, "spec": {}}) for pod in pods)
    bare = replace(role("worker", 2), pod_documents=(one, other))
    assert waits(lower(world(gang("job", bare, queue="other")))[0])
    bare = replace(bare, pod_documents=(one, replace(other, data={**other.data, **said})))
    assert not waits(lower(world(gang("job", bare, queue="other")))[0])


def test_a_job_of_a_system_priority_class_borrows_nothing() -> None:
    critical = gang("job", role("worker", 1, priority_class="system-node-critical"), queue="other")
    assert not waits(lower(world(critical))[0])


def test_a_job_under_a_disruption_budget_borrows_nothing() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"app": "job"}}},
        "status": {"disruptionsAllowed": 5},
    }
    labelled = gang("job", replace(role("worker", 1), labels={"app": "job"}), queue="other")
    assert waits(lower(world(labelled))[0])
    assert not waits(lower(world(labelled), ClusterState.from_objects([budget]))[0])


def test_domains_are_kept_where_strangers_can_be_evicted_rather_than_where_they_cannot() -> None:
    """All three are taken; the stranger on s1 is the only one that would go."""
    gangs = [job(name) for name in ("a", "b", "c")]
    firm = {"volcano.sh/preemptable": "false"}
    state = ClusterState.from_objects([pod("a", "n0", firm), pod("b", "n1"), pod("c", "n2", firm)])
    problem, _ = lower(world(*gangs), state)
    assert problem.queues[0].dedicated_domains == (1,)
    off, _ = lower(world(*gangs, conf=scheduler()), state)
    assert off.queues[0].dedicated_domains == (0,)


def test_a_domain_lent_by_one_plan_is_taken_back_by_the_next() -> None:
    """Three jobs of a node each, and all three nodes are kept; then the owner wants two."""
    made = world(*(job(name) for name in "abc"), keeps=3)
    problem, _ = lower(made)
    plan = solve(problem)
    assert verify(problem, plan) == []
    assert [d.action for d in plan.decisions] == ["start"] * 3
    mine = gang("mine", role("worker", 2, gpu=8), queue="owner")
    after, _ = lower(
        replace(made, gangs=(*made.gangs, mine)),
        ClusterState.from_objects([pod(name, f"n{n}") for n, name in enumerate("abc")]),
    )
    found = solve(after)
    assert verify(after, found) == []
    assert sorted(d.action for d in found.decisions) == ["evict", "evict", "keep", "start"]
