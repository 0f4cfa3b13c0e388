"""Why nobody is evicted for a job that waits, and the edit that changes it: applied, the job starts and others go."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from tests.builders import declared
from tests.builders.beside import beside
from tests.builders.cluster_objects import pod
from tests.builders.declared import Object, pod_spec
from tests.builders.repositories import repository

DOCUMENTS = beside(__file__)
CLUSTER, BUDGET = DOCUMENTS["cluster"], DOCUMENTS["budget"]
NOON = 1_795_608_000  # 2026-11-25T12:00:00Z
GANG_VOTES = "{name: gang, enablePreemptable: false, enableReclaimable: false}"


def job(name: str, queue: str, priority: str, pods: int) -> Object:
    pod = pod_spec({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 4}, restartPolicy="Never")
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    more: Object = {"schedulerName": "volcano", "minAvailable": pods, "priorityClassName": priority}
    return declared.job(name, pods, task={"template": template}, queue=queue, **more)


def held_pods(protected: bool) -> ClusterState:
    """The state in which team/holder runs."""
    began = "2026-11-24T00:00:00Z"
    group = {"scheduling.k8s.io/group-name": "holder-1", "volcano.sh/task-spec": "w", "volcano.sh/job-name": "holder"}
    more: Object = {
        "creationTimestamp": began,
        "labels": {"volcano.sh/job-name": "holder", "volcano.sh/task-spec": "w", "app": "holder"},
        "annotations": group | ({"volcano.sh/preemptable": "false"} if protected else {}),
    }
    asks = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "4"}
    pods = [
        pod(f"holder-w-{n}", "gpu-0", job="holder", limits=asks, requests=asks, uid=f"p{n}", **more) for n in (0, 1)
    ]
    live = declared.declared("Job", "holder", {"minAvailable": 2}, namespace="team", uid="u", creationTimestamp=began)
    status: Object = {"status": {"phase": "Running", "startTime": began}}
    objects = [{**live, "status": {"state": {"phase": "Running"}}}, *({**each, **status} for each in pods)]
    return ClusterState.from_objects(objects, clock=NOON)


@dataclass(frozen=True)
class Case:
    """old -> new: what keeps the holder, in the cluster's files. queue, priority: of the job that waits. edit: what the
    repair says, which undoes the change."""

    because: str
    edit: str
    old: str = ""
    new: str = ""
    queue: str = "lender"
    priority: str = "high"
    more: str = ""
    protected: bool = False

    def outcome(self, mended: bool) -> Outcome:
        cluster = CLUSTER if mended else CLUSTER.replace(self.old, self.new) + self.more
        priority = "high" if mended else self.priority
        jobs = job("holder", "lender", "low", 2), job("waiter", self.queue, priority, 1)
        return compile_repository(repository(cluster, *jobs), state=held_pods(self.protected and not mended))


CASES = {
    "no action preempts": Case(
        "no action of the scheduler preempts",
        "add preempt to the scheduler's actions",
        "[allocate, preempt, reclaim]",
        "[allocate, reclaim]",
    ),
    "no action reclaims": Case(
        "no action of the scheduler reclaims",
        "add reclaim to the scheduler's actions",
        "[allocate, preempt, reclaim]",
        "[allocate, preempt]",
        queue="owner",
    ),
    "the queue keeps": Case(
        "queue lender is not reclaimable",
        "reclaimable: true for queue lender",
        "reclaimable: true",
        "reclaimable: false",
        queue="owner",
    ),
    "gang votes on preemption": Case(
        "the plugin gang lets no job fall below its minimum",
        "enablePreemptable: false for the plugin gang",
        GANG_VOTES,
        "{name: gang, enableReclaimable: false}",
    ),
    "gang votes on reclaim": Case(
        "the plugin gang lets no job fall below its minimum",
        "enableReclaimable: false for the plugin gang",
        GANG_VOTES,
        "{name: gang, enablePreemptable: false}",
        queue="owner",
    ),
    "its priority class never preempts": Case(
        "its priority class has preemptionPolicy Never",
        "preemptionPolicy: PreemptLowerPriority for PriorityClass high",
        "PreemptLowerPriority",
        "Never",
    ),
    "pods are protected": Case(
        'pods with volcano.sh/preemptable: "false" are protected',
        'volcano.sh/preemptable: "true" on the pods that run',
        protected=True,
    ),
    "a budget": Case("PodDisruptionBudgets keep the pods", "a PodDisruptionBudget that lets more pods go", more=BUDGET),
    "equal priorities": Case("no job of its queue that runs has a lower priority", "priorityClassName", priority="low"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reason_names_what_keeps_pods_and_the_edit_lets_them_go(name: str) -> None:
    case = CASES[name]
    waits = {each.name: each for each in case.outcome(mended=False).decisions}["team/waiter"]
    assert waits.action == "wait"
    (reason,) = [each.message for each in waits.reasons if each.code == "GW127"]
    assert case.because in reason
    (repair,) = [each for each in waits.repairs if "evicted for it" in each.message]
    assert repair.message.startswith(case.edit)
    assert "team/holder would be evicted for it" in repair.message
    after = {each.name: each for each in case.outcome(mended=True).decisions}
    assert after["team/waiter"].action == "start"
    assert after["team/holder"].action == "evict"


def test_two_obstacles_are_named_together() -> None:
    case = replace(CASES["no action reclaims"], new="[allocate, preempt]", more="")
    cluster = CLUSTER.replace(case.old, case.new).replace("reclaimable: true", "reclaimable: false")
    jobs = job("holder", "lender", "low", 2), job("waiter", "owner", "high", 1)
    decided = compile_repository(repository(cluster, *jobs), state=held_pods(protected=False)).decisions
    waits = {each.name: each for each in decided}["team/waiter"]
    assert [each.code for each in waits.reasons].count("GW127") == 2
    (repair,) = [each.message for each in waits.repairs if each.code == "GR125"]
    edits = "add reclaim to the scheduler's actions and reclaimable: true for queue lender"
    assert repair == f"{edits}; team/holder would be evicted for it"


def test_a_job_that_nobody_would_go_for_is_told_of_no_obstacle() -> None:
    """It would borrow what it asks for: no action and no queue would give it the room."""
    case = replace(CASES["the queue keeps"], queue="default")
    waits = {each.name: each for each in case.outcome(mended=False).decisions}["team/waiter"]
    assert [each.code for each in waits.reasons].count("GW127") == 0
