"""Jobs that are held or kept from nodes: by the reconciler, or by an annotation."""

from __future__ import annotations

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.waves import manifests
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from tests.builders import declared, repositories
from tests.builders.declared import Object, pod_spec

A, B = ("default", "a", "Job"), ("default", "b", "Job")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NAMES = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in ("n-0", "n-1")]
AFFINITY: Object = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": NAMES}}}}


def compiled(state: ClusterState, suspended: str = "false", pod: Object | None = None) -> Outcome:
    """Two jobs, each as large as a node; there are two nodes. pod: further fields of their pods."""
    jobs = (
        declared.job(
            name,
            pod=pod_spec(requests={"cpu": 8}, **(pod or {})),
            namespace="default",
            annotations={"gangplan.dev/suspend": flag},
        )
        for name, flag in (("a", suspended), ("b", "false"))
    )
    pool = declared.node_pool(2, capacity={"cpu": 8, "memory": "8Gi", "pods": 10})
    return compile_repository(repositories.repository(declared.cluster(binding="gated"), pool, *jobs), state=state)


@pytest.mark.parametrize(
    ("state", "suspended", "reason"),
    [
        (ClusterState(held={A: "no node takes it"}), "false", "no node takes it"),
        (ClusterState(), "true", "gangplan.dev/suspend suspends it"),
    ],
)
def test_a_held_job_keeps_no_room_stays_gated_and_says_why(state: ClusterState, suspended: str, reason: str) -> None:
    outcome = compiled(state, suspended)
    held, other = outcome.decisions
    assert (held.action, other.action) == ("wait", "start")
    assert [message.message for message in held.reasons] == [reason]
    (job,) = (m.object for m in manifests(outcome) if m.object["metadata"]["name"] == "a")
    assert "schedulingGates" in job["spec"]["tasks"][0]["template"]["spec"]


@pytest.mark.parametrize("pod", [{}, AFFINITY])
def test_a_node_that_is_closed_to_one_job_is_open_to_another(pod: Object) -> None:
    for node, other in (("n-0", "n-1"), ("n-1", "n-0")):
        outcome = compiled(ClusterState(closed_nodes={A: frozenset({node})}), pod=pod)
        assert outcome.placements == {A: {"w": {other: 1}}, B: {"w": {node: 1}}}
    both = compiled(ClusterState(closed_nodes={A: frozenset({"n-0", "n-1"})}), pod=pod)
    assert set(both.placements) == {B}
