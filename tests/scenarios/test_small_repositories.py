"""Small repositories as strangers write them: the reason names what is wrong, and the repair, made as told, helps."""

from __future__ import annotations

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import JobDecision
from tests.builders.advice import assert_advice
from tests.builders.beside import beside
from tests.builders.declared import declared
from tests.scenarios.test_reasons_to_act_on import (
    PROPORTION,
    TAINT,
    TOLERATION,
    compiled,
    decided,
    job,
    pool,
    queue,
    said,
)

CASES = beside(__file__)


@pytest.mark.parametrize("case", CASES)
def test_advice(case: str) -> None:
    assert_advice(CASES[case])


CPU = (
    "apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {name: cpu}\nspec: {count: 4, capacity: {cpu: 64}}\n"
)


def server_and_workers(server: str, workers: str) -> str:
    """A job of a server without GPUs and two workers with 8 each. server, workers: further fields of their pods."""
    template = "template: {{spec: {{restartPolicy: Never{}, containers: [{{name: c, image: i{}}}]}}}}"
    gpus = ", resources: {limits: {nvidia.com/gpu: 8}}"
    return (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: asks, namespace: team}\n"
        f"spec: {{schedulerName: volcano, tasks: [{{name: ps, replicas: 1, {template.format(server, '')}}}, "
        f"{{name: worker, replicas: 2, {template.format(workers, gpus)}}}]}}\n"
    )


def test_two_roles_whose_selectors_match_nothing_are_mended_together() -> None:
    typo, mended = ", nodeSelector: {gpu: h10}", ", nodeSelector: {gpu: h100}"
    nodes = pool("a100", 3, gpus=4), pool("h100", 3)
    (repair, *_) = decided(compiled(*nodes, server_and_workers(typo, typo))).repairs
    assert [(part.code, part.facts["role"]) for part in (repair, *repair.also)] == [
        ("GR112", "ps"),
        ("GR112", "worker"),
    ]
    assert [part.facts["edits"] for part in repair.also] == [("nodeSelector gpu: h100",)]  # of those that hold the pods
    assert decided(compiled(*nodes, server_and_workers(mended, mended))).action == "start"


def test_of_a_tainted_cluster_each_role_is_told_its_toleration() -> None:
    nodes = pool("a100", 3, more=TAINT)
    (repair, *_) = decided(compiled(nodes, server_and_workers("", ""))).repairs
    assert [part.facts["edits"] for part in (repair, *repair.also)] == [(f"toleration {TOLERATION}",)] * 2
    tolerated = f", tolerations: [{TOLERATION}]"
    assert decided(compiled(nodes, server_and_workers(tolerated, tolerated))).action == "start"


def test_pods_too_large_and_open_to_no_node_are_told_both_and_both_changes() -> None:
    asks = job("asks", 2, pod=", nodeSelector: {gpu: h10}", gpu="nvidia.com/gpu: 16")
    told = decided(compiled(pool("h100", 3), asks))
    assert [reason.code for reason in told.reasons] == ["GW103", "GW107"]
    assert said(told)["GW103"].endswith("a pod asks for 16 nvidia.com/gpu, the largest node has 8")
    assert [part.code for part in (told.repairs[0], *told.repairs[0].also)] == ["GR112", "GR115"]


@pytest.mark.parametrize(
    ("nodes", "pod", "why"),
    [
        (
            pool("a100", 2, more=TAINT),
            "",
            "2 nodes have it; all have taint dedicated=a100:NoSchedule, which the role does not tolerate",
        ),
        (pool("a100", 1), ", nodeSelector: {kind: cpu}", "1 node has it and does not match kind=cpu"),
        (pool("a100", 2), ", nodeSelector: {kind: cpu}", "2 nodes have it and do not match kind=cpu"),
    ],
)
def test_a_job_that_only_nodes_without_gpus_are_open_to_is_told_which_have_them(nodes: str, pod: str, why: str) -> None:
    cpu = CPU.replace("count: 4", "count: 4, labels: {kind: cpu}")
    told = said(decided(compiled(cpu, nodes, job("asks", 1, pod=pod))))
    assert told["GW103"] == f"no node open to role worker has nvidia.com/gpu, of which a pod asks for 8; {why}"


def test_a_queue_that_somebody_closed_in_the_cluster_is_opened_there() -> None:
    """No line of the file is to be changed, so none is named."""
    open_queue = queue("q", "capability: {nvidia.com/gpu: 8}")
    state = ClusterState.from_objects([{**declared("Queue", "q", {}), "status": {"state": "Closed"}}])
    made = compiled(pool("h100", 2), open_queue, job("asks", 1, spec=", queue: q"), state=state)
    waits = decided(made, "asks")
    (repair,) = waits.repairs
    assert repair.message == "open queue q in the cluster: vcctl queue operate --action open --name q"
    assert [(source.object, source.position) for source in repair.sources] == [("Queue q", None)]


def test_a_job_that_is_held_points_to_the_annotation_or_to_itself() -> None:
    by_file = job("asks", 1).replace("metadata: {", 'metadata: {annotations: {gangplan.dev/suspend: "true"}, ', 1)
    (reason,) = decided(compiled(pool("h100", 2), by_file), "asks").reasons
    assert reason.message == "gangplan.dev/suspend suspends it"
    assert [each.field for each in reason.sources] == ["suspend"]
    live = {**declared("Job", "asks", {}, namespace="team", uid="u"), "status": {"state": {"phase": "Aborted"}}}
    made = compiled(pool("h100", 2), job("asks", 1), state=ClusterState.from_objects([live]))
    assert [each.field for reason in decided(made, "asks").reasons for each in reason.sources] == [""]


def test_a_role_that_is_closed_out_does_not_make_a_job_of_another_role_look_small_to_its_queue() -> None:
    """Three pods of at most one server and six workers: the server has no node, so that three workers it must be."""
    tolerated = f", tolerations: [{TOLERATION}]"
    asks = server_and_workers("", tolerated).replace("replicas: 2", "replicas: 6").replace("gpu: 8", "gpu: 2")
    asks = asks.replace("schedulerName: volcano,", "schedulerName: volcano, queue: q, minAvailable: 3,")
    nodes = pool("a100", 2, more=TAINT)
    told = said(decided(compiled(nodes, queue("q", "capability: {nvidia.com/gpu: 5}"), asks)))
    assert told["GW101"] == "queue q may never hold more than 5 nvidia.com/gpu; the job asks for 6"
    assert told["GR101"] == "capability 6 nvidia.com/gpu for queue q, 1 more"
    made = compiled(nodes, queue("q", "capability: {nvidia.com/gpu: 6}"), asks)
    assert decided(made).action == "start"


def test_a_weight_is_told_once_with_the_jobs_whose_queue_then_deserves_too_little() -> None:
    def made(weight: int) -> dict[str, JobDecision]:
        queues = queue("a", "weight: 1"), queue("b", f"weight: {weight}")
        others = [job(f"a{n}", 1, spec=", queue: a") for n in range(8)]
        outcome = compiled(PROPORTION, pool("n", 12), *queues, *others, job("asks", 8, spec=", queue: b"))
        return {decision.gang.document.name: decision for decision in outcome.decisions}

    (repair,) = (repair for repair in made(1)["asks"].repairs if repair.code == "GR110")
    assert repair.facts["gangs"] == tuple(f"team/a{n}" for n in range(4, 8))
    then = made(2)
    assert {name for name, decision in then.items() if decision.action == "wait"} == {"a4", "a5", "a6", "a7"}
    assert [r.message for r in then["a4"].repairs if r.code == "GR110"] == [
        "weight 2 instead of 1 for queue a; team/asks would wait instead"
    ]


CONTAINER = "{name: c, image: i, resources: {limits: {nvidia.com/gpu: 8}}}"
POD = f"{{spec: {{schedulerName: volcano, restartPolicy: Never, containers: [{CONTAINER}]}}}}"
GROUPED = {
    "JobSet": (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: asks, namespace: team}\n"
        "spec: {replicatedJobs: [{name: w, replicas: COUNT, template: {spec: {parallelism: 3, completions: 3, "
        f"template: {POD}}}}}}}]}}\n"
    ),
    "LeaderWorkerSet": (
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\n"
        "metadata: {name: asks, namespace: team, annotations: {gangplan.dev/gang: 'true'}}\n"
        f"spec: {{replicas: COUNT, leaderWorkerTemplate: {{size: 3, workerTemplate: {POD}}}}}\n"
    ),
}


@pytest.mark.parametrize("kind", GROUPED)
def test_pods_that_come_in_groups_are_told_in_whole_groups_and_what_to_write(kind: str) -> None:
    nodes = pool("h100", 5)
    (repair,) = (r for r in decided(compiled(nodes, GROUPED[kind].replace("COUNT", "2"))).repairs if r.code == "GR105")
    assert repair.message.startswith("3 pods of role ")
    assert repair.message.endswith(" instead of 6, with replicas: 1")
    assert decided(compiled(nodes, GROUPED[kind].replace("COUNT", "1"))).action == "start"
    none = decided(compiled(pool("h100", 2), GROUPED[kind].replace("COUNT", "1"))).repairs
    assert "GR105" not in {repair.code for repair in none}
