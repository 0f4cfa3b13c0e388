"""Jobs that are held or kept from nodes: by the reconciler, or by an annotation."""

from __future__ import annotations

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.waves import manifests
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository

CLUSTER = """\
apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata: {name: t}
spec: {binding: gated}
---
apiVersion: gangplan.dev/v1alpha1
kind: NodePool
metadata: {name: n}
spec: {count: 2, capacity: {cpu: 8, memory: 8Gi, pods: 10}}
"""
JOB = """\
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME, namespace: default, annotations: {gangplan.dev/suspend: "SUSPENDED"}}
spec:
  minAvailable: 1
  schedulerName: volcano
  tasks:
  - name: w
    replicas: 1
    template: {spec: {SELECTOR containers: [{name: c, image: i, resources: {requests: {cpu: 8}}}]}}
"""
A, B = ("default", "a", "Job"), ("default", "b", "Job")
AFFINITY = """affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
      {matchFields: [{key: metadata.name, operator: In, values: [n-0]}]},
      {matchFields: [{key: metadata.name, operator: In, values: [n-1]}]}]}}},"""


def compiled(state: ClusterState, suspended: str = "false", selector: str = "") -> Outcome:
    """Two jobs, each as large as a node; there are two nodes."""
    jobs = (
        JOB.replace("NAME", name).replace("SUSPENDED", flag).replace("SELECTOR", selector)
        for name, flag in (("a", suspended), ("b", "false"))
    )
    tree = Repository({"cluster-specs/t/all.yaml": "".join([CLUSTER, *jobs]).encode()})
    return compile_repository(tree, state=state)


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


@pytest.mark.parametrize("selector", ["", AFFINITY])
def test_a_node_that_is_closed_to_one_job_is_open_to_another(selector: str) -> None:
    for node, other in (("n-0", "n-1"), ("n-1", "n-0")):
        outcome = compiled(ClusterState(closed_nodes={A: frozenset({node})}), selector=selector)
        assert outcome.placements == {A: {"w": {other: 1}}, B: {"w": {node: 1}}}
    both = compiled(ClusterState(closed_nodes={A: frozenset({"n-0", "n-1"})}), selector=selector)
    assert set(both.placements) == {B}
