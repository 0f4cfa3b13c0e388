"""Small repositories as strangers write them: the reason names what is wrong, and the repair, made as told, helps."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import JobDecision
from tests.builders.cluster_objects import volcano_job_pod
from tests.builders.declared import declared
from tests.scenarios.test_reasons_to_act_on import (
    PROPORTION,
    SCHEDULER,
    TAINT,
    TOLERATION,
    compiled,
    decided,
    job,
    pool,
    priority_class,
    queue,
    said,
    supernodes,
)

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


def test_pods_too_large_for_any_node_are_told_so_whatever_the_minimum_of_their_job() -> None:
    """With `minAvailable` of the job below all its replicas no role has a minimum of its own."""
    nodes = pool("h100", 3)
    told = decided(compiled(nodes, job("asks", 2, spec=", minAvailable: 1", gpu="nvidia.com/gpu: 16")))
    assert [reason.code for reason in told.reasons] == ["GW103"]
    assert said(told)["GR115"] == "8 nvidia.com/gpu for a pod of role worker instead of 16"
    assert decided(compiled(nodes, job("asks", 2, spec=", minAvailable: 1"))).action == "start"


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


def test_a_selector_that_matches_nothing_is_mended_on_a_full_cluster_with_what_gives_it_room() -> None:
    nodes, full = pool("h100", 2), job("full", 2, spec=", priorityClassName: low")
    low = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: low}\nvalue: 10\n"
    told = said(decided(compiled(nodes, low, full, job("asks", 2, pod=", nodeSelector: {gpu: h10}"))))
    assert told["GR112"] == (
        "let role worker use nodes like h100-0 as well: nodeSelector gpu: h100 and a priority of 11 or more; team/full "
        "would wait instead"
    )


def test_a_repair_opens_the_nodes_that_a_misspelt_value_means() -> None:
    """What the reason asks about is also what the repair writes, though another kind has more nodes."""
    told = said(decided(compiled(pool("h100", 4), pool("h200", 2), job("asks", 2, pod=", nodeSelector: {gpu: h20}"))))
    assert told["GW107"].endswith("did you mean h200 (2 nodes)?")
    assert told["GR112"] == "let role worker use nodes like h200-0 as well: nodeSelector gpu: h200"


STRICT = queue("q", "weight: 1").replace("metadata: {", "metadata: {annotations: {gangplan.dev/order: strict}, ")


def test_a_job_in_strict_order_is_told_of_the_one_before_it_beside_its_own_fault() -> None:
    first, asks = (job(name, 1, spec=", queue: q", gpu="nvidia.com/gpu: 16") for name in ("a-first", "asks"))
    told = said(decided(compiled(pool("h100", 2), STRICT, first, asks)))
    assert told["GW115"] == (
        "team/a-first, which can never start as written, comes before it in queue q, which starts its jobs in strict "
        "order"
    )
    assert told["GR115"] == (
        "8 nvidia.com/gpu for a pod of role worker instead of 16; team/a-first still comes before it in its queue"
    )
    ahead = decided(compiled(pool("h100", 2), STRICT, first, asks), "a-first")
    assert "still comes before" not in said(ahead)["GR115"]


def test_a_job_in_strict_order_behind_one_that_waits_for_room_is_told_only_that() -> None:
    runs = job("a-runs", 1, spec=", queue: q"), job("b-large", 2, spec=", queue: q")
    told = said(decided(compiled(pool("h100", 2), STRICT, *runs, job("c-asks", 1, spec=", queue: q")), "c-asks"))
    assert told["GW115"] == "team/b-large comes before it in queue q, which starts its jobs in strict order"


def test_who_waits_for_the_same_end_is_told_who_comes_first() -> None:
    nodes, queues = pool("h100", 2), (queue("q", "weight: 1"), queue("r", "weight: 1"))
    runs = job("runs", 2, spec=", queue: q")
    waiting = [job(name, 2, spec=f", queue: {of}") for name, of in (("a-asks", "q"), ("b-asks", "q"), ("c-asks", "r"))]
    pods = [running_pod("runs", f"h100-{n}") for n in range(2)]
    made = compiled(SCHEDULER, nodes, *queues, runs, *waiting, state=ClusterState.from_objects(pods))
    told = {name: said(decided(made, name))["GR109"] for name in ("a-asks", "b-asks", "c-asks")}
    assert told == {
        "a-asks": "wait for the end of team/runs; team/c-asks waits for it too and may come first",
        "b-asks": "wait for the end of team/runs; team/a-asks waits for it too and comes first",
        "c-asks": "wait for the end of team/runs; team/a-asks, team/b-asks wait for it too and may come first",
    }


def running_pod(name: str, node: str) -> dict[str, Any]:
    """A running pod of role worker with 8 GPUs."""
    return volcano_job_pod(f"{name}-{node}", name, "worker", node=node, requests={"nvidia.com/gpu": "8"})


def test_who_is_in_a_closed_queue_is_told_who_comes_first_once_it_is_open() -> None:
    closed = queue("q", "capability: {nvidia.com/gpu: 8}").replace(
        "metadata: {", 'metadata: {annotations: {gangplan.dev/closed: "true"}, '
    )
    jobs = job("a-asks", 1, spec=", queue: q"), job("b-asks", 1, spec=", queue: q")
    told = said(decided(compiled(pool("h100", 2), closed, *jobs), "b-asks"))
    assert told["GW113"] == "queue q is closed"
    assert told["GR111"] == "open queue q; team/a-asks waits for it too and comes first"


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


def test_a_job_closed_out_and_larger_than_its_share_is_told_fewer_pods_on_other_nodes() -> None:
    queues = queue("q", "weight: 1"), queue("r", "weight: 1")
    fills = job("fills", 8, spec=", queue: r, minAvailable: 1", gpu="nvidia.com/gpu: 2")
    asks = job("asks", 2, spec=", queue: q", pod=", nodeSelector: {gpu: h10}")
    told = said(decided(compiled(PROPORTION, pool("h100", 2), *queues, fills, asks)))
    assert told["GR112"].endswith("nodeSelector gpu: h100 and 1 pod of role worker instead of 2")


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


TIER = "networkTopology: {{mode: hard, highestTierAllowed: 1}}"
PARTED = f", partitionPolicy: {{{{totalPartitions: {{}}, partitionSize: {{}}, {TIER}}}}}"


def test_smaller_partitions_are_told_with_what_to_write_also_with_fewer_pods() -> None:
    nodes = pool("a", 2), pool("b", 2), supernodes("a", "b")
    told = said(decided(compiled(*nodes, job("asks", 4, task=PARTED.format(1, 4)))))
    assert told["GR106"] == "groups of 2 pods instead of 4 (worker), with partitionSize: 2, totalPartitions: 2"
    assert decided(compiled(*nodes, job("asks", 4, task=PARTED.format(2, 2)))).action == "start"
    told = said(decided(compiled(*nodes, job("asks", 8, task=PARTED.format(2, 4)))))
    assert told["GR106"] == (
        "groups of 2 pods instead of 4 (worker), with partitionSize: 2 and 4 pods of role worker instead of 8"
    )


def test_a_job_larger_than_a_full_cluster_is_told_fewer_pods_and_whose_end_to_wait_for() -> None:
    nodes, runs = pool("h100", 2), job("runs", 2)
    state = ClusterState.from_objects([running_pod("runs", f"h100-{n}") for n in range(2)])
    told = decided(compiled(SCHEDULER, nodes, runs, job("asks", 3), state=state))
    assert told.never
    assert "2 pods of role worker instead of 3 and wait for the end of team/runs" in {r.message for r in told.repairs}
    assert decided(compiled(SCHEDULER, nodes, job("asks", 2))).action == "start"


def test_fewer_pods_of_an_elastic_job_are_its_minimum_and_what_to_write_of_it() -> None:
    asks = job("asks", 8, spec=", minAvailable: 5", task=", minAvailable: 5")
    told = said(decided(compiled(SCHEDULER, pool("h100", 4), asks)))
    assert told["GR105"] == "at least 4 pods of role worker instead of 5: minAvailable: 4 of the role, minAvailable: 4"
    less = job("asks", 8, spec=", minAvailable: 4", task=", minAvailable: 4")
    assert decided(compiled(SCHEDULER, pool("h100", 4), less)).action == "start"


def test_what_a_queue_is_to_deserve_is_never_more_than_the_queue_above_it_may_give() -> None:
    hierarchy = SCHEDULER.replace("{name: capacity}", "{name: capacity, enableHierarchy: true}")
    jobs = job("a1", 1, spec=", queue: a, priorityClassName: top"), job("asks", 2, spec=", queue: a")
    others = [priority_class("top", 1), *(job(f"b{n}", 1, spec=", queue: b") for n in range(4))]

    queues = (queue("org", "weight: 1"), queue("a", "parent: org"), queue("b", "deserved: {nvidia.com/gpu: 17}"))
    asks = decided(compiled(hierarchy, pool("h100", 5), pool("small", 1, gpus=1), *queues, *jobs, *others))
    assert [reason.code for reason in asks.reasons] == ["GW124"]
    assert "GR124" not in said(asks)


def test_behind_a_job_that_never_starts_the_order_is_lifted_for_all_in_its_queue() -> None:
    stuck = job("a-stuck", 1, spec=", queue: q", gpu="nvidia.com/gpu: 16")
    behind = [job(name, 2, spec=", queue: q") for name in ("b-asks", "c-asks")]
    made = compiled(SCHEDULER, pool("h100", 3), STRICT, stuck, *behind)
    told = [said(decided(made, name))["GR117"] for name in ("b-asks", "c-asks")]
    assert told == [
        "queue q without its strict order",
        "queue q without its strict order; team/b-asks waits for it too and comes first",
    ]
    loose = compiled(SCHEDULER, pool("h100", 3), queue("q", "weight: 1"), stuck, *behind)
    assert [decided(loose, name).action for name in ("b-asks", "c-asks")] == ["start", "wait"]
