"""Room that is kept for declared pods which no plan places."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from compiler.lower.lowering import lower
from compiler.lower.origins import Origins
from compiler.outcome import Outcome
from tests.builders import declared, repositories
from tests.builders.cluster_objects import node, pod
from tests.builders.declared import Object


def machine(name: str, gpu: int = 0, taint: str = "", **labels: str) -> Object:
    amounts = {"cpu": "10", "memory": "64Gi", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    spec = {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {}
    return node(name, amounts, spec=spec, labels={"kubernetes.io/hostname": name, **labels})


def pod_spec(cpu: int = 1, gpu: int = 0, **more: object) -> Object:
    amounts = {"cpu": str(cpu), **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    return declared.pod_spec(amounts, amounts, **more)


def workload(kind: str, name: str, spec: Object, **more: object) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    metadata = {"name": name, "namespace": "ml"}
    whole = {"selector": {"matchLabels": {"app": name}}, "template": template, **more}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": whole}


def cron_job(api_version: str, job: Object) -> Object:
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": job}}
    return {"apiVersion": api_version, "kind": "CronJob", "metadata": {"name": "r"}, "spec": spec}


def live_pod(name: str, node: str, cpu: int = 1, app: str = "web") -> Object:
    return pod(name, node, spec=pod_spec(cpu), namespace="ml", labels={"app": app})


def compiled(
    objects: list[Object],
    nodes: list[Object],
    live: tuple[Object, ...] = (),
    unplanned: str = "reserve",
    services: str = "on-request",
) -> Outcome:
    cluster = declared.cluster(unplanned=unplanned, services=services)
    state = (*nodes, *live) if live else ()
    return repositories.compiled(cluster, declared.queue(), *nodes, *objects, live=state)


def kept(outcome: Outcome) -> list[Mapping[str, int]]:
    assert outcome.origins is not None
    names = [node.name for node in outcome.origins.nodes]
    return [{names[n]: count for n, count in room.by_node.items()} for room in outcome.origins.reserved_rooms]


def free_cpu(outcome: Outcome) -> dict[str, int]:
    assert outcome.problem is not None
    r = outcome.problem.resources.index("cpu")
    return {node.name: node.free[r] // 1000 for node in outcome.problem.nodes}


def messages(outcome: Outcome) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in outcome.diagnostics if each.code in ("GP524", "GP525")]


JOB = declared.job("train", 2, pod_spec(cpu=9), namespace="ml")


def test_a_daemon_set_is_charged_to_each_node_that_takes_it() -> None:
    nodes = [
        machine("a", pool="x"),
        machine("b", pool="x", taint="own"),
        machine("c", pool="y"),
        machine("d", pool="x"),
    ]
    agent = workload("DaemonSet", "agent", pod_spec(cpu=2, nodeSelector={"pool": "x"}))
    outcome = compiled([agent, JOB], nodes, (live_pod("agent-h2x9z", "a", 2, app="agent"),))
    assert kept(outcome) == [{"d": 1}]
    assert free_cpu(outcome) == {"a": 8, "b": 10, "c": 10, "d": 8}
    assert messages(outcome) == []
    decided, _ = outcome.decisions
    assert (decided.action, decided.pods, decided.running_count) == ("keep", {"pods": {"a": 1, "d": 1}}, 1)


def test_a_daemon_set_is_on_cordoned_nodes_too() -> None:
    nodes = [machine("a"), {**machine("b"), "spec": {"unschedulable": True}}]
    assert kept(compiled([workload("DaemonSet", "agent", pod_spec()), JOB], nodes)) == [{"a": 1, "b": 1}]


@pytest.mark.parametrize("unplanned", ["reserve", "ignore"])
def test_a_gang_gets_no_room_that_is_kept(unplanned: str) -> None:
    nodes = [machine("a"), machine("b")]
    outcome = compiled([workload("Deployment", "web", pod_spec(cpu=2), replicas=1), JOB], nodes, unplanned=unplanned)
    (decision,) = outcome.decisions
    assert decision.action == ("wait" if unplanned == "reserve" else "start")
    assert kept(outcome) == ([{"a": 1}] if unplanned == "reserve" else [])


def test_free_pods_leave_devices_alone_and_stand_side_by_side() -> None:
    nodes = [machine("gpu", gpu=8), machine("a"), machine("b")]
    web = workload("Deployment", "web", pod_spec(cpu=4), replicas=4)
    assert kept(compiled([web, JOB], nodes)) == [{"a": 2, "b": 2}]
    train = workload("StatefulSet", "serve", pod_spec(gpu=4), replicas=2)
    assert kept(compiled([train, JOB], nodes)) == [{"gpu": 2}]


def test_pods_that_run_are_not_counted_twice() -> None:
    nodes = [machine("a"), machine("b")]
    web = workload("Deployment", "web", pod_spec(cpu=4), replicas=2)
    live = (live_pod("web-5d9c-abcde", "b", 4), live_pod("other-1", "a", 1, app="other"))
    outcome = compiled([web, JOB], nodes, live)
    assert kept(outcome) == [{"b": 1}]
    assert free_cpu(outcome) == {"a": 9, "b": 2}
    surplus = (*live, live_pod("web-5d9c-fghij", "a", 4), live_pod("web-5d9c-klmno", "b", 4))
    assert kept(compiled([web, JOB], nodes, surplus)) == [{}]


def test_pods_without_a_node_are_said_and_take_nothing() -> None:
    web = workload("Deployment", "web", pod_spec(cpu=6), replicas=3)
    outcome = compiled([web, JOB], [machine("a"), machine("b")])
    assert kept(outcome) == [{"a": 1, "b": 1}]
    assert messages(outcome) == [
        ("GP525", "Deployment ml/web is not planned, and 1 of its 3 pods find no node with room")
    ]


def test_any_kind_with_templates_counts_and_one_that_recurs_or_is_suspended_does_not() -> None:
    nodes = [machine("a", gpu=8), machine("b")]
    head, worker = {"template": {"spec": pod_spec()}}, {"replicas": 2, "template": {"spec": pod_spec(gpu=2)}}
    spec = {"headGroupSpec": head, "workerGroupSpecs": [worker]}
    invention = {"apiVersion": "example.org/v1", "kind": "Invention", "metadata": {"name": "r"}, "spec": spec}
    assert kept(compiled([invention, JOB], nodes)) == [{"b": 1}, {"a": 2}]
    assert kept(compiled([{**invention, "spec": {**spec, "suspend": True}}, JOB], nodes)) == []
    cron = cron_job("batch/v1", {"template": {"spec": pod_spec(restartPolicy="Never")}})
    assert kept(compiled([cron, JOB], nodes)) == []


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        (pod_spec(cpu=10), ""),
        (pod_spec(cpu=11), "GP395"),
        (pod_spec(gpu=1), "GP392"),
        (pod_spec(nodeSelector={"pool": "x"}), "GP393"),
        (pod_spec(tolerations=[{"operator": "Exists"}], nodeName="b"), ""),
        (pod_spec(nodeName="b"), "GP526"),
    ],
)
def test_a_recurring_run_that_fits_no_node_is_said_once(spec: Object, code: str) -> None:
    nodes = [machine("a"), machine("b", taint="own")]
    template = {"template": {"spec": {**spec, "restartPolicy": "Never"}}}
    for group, job in (("batch/v1", template), ("batch.volcano.sh/v1alpha1", {"tasks": [{"replicas": 1, **template}]})):
        cron = cron_job(group, job)
        diagnostics = compiled([cron, JOB], nodes).diagnostics
        found = [each.code for each in diagnostics if each.object == "CronJob r" and each.severity == "warning"]
        assert [each for each in found if each != "GP366"] == ([code] if code else [])


def test_bare_pods_and_jobs_of_another_scheduler_count() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec(nodeName="b")}
    other = {**JOB, "metadata": {"name": "other"}, "spec": {**JOB["spec"], "schedulerName": "mine"}}
    assert kept(compiled([pod, other], [machine("a"), machine("b")])) == [{"b": 1}, {"a": 1, "b": 1}]


def test_a_queue_that_the_pods_name_is_charged() -> None:
    spec = {"replicas": 2, "template": {"spec": pod_spec(cpu=4)}}
    web = {"apiVersion": "example.org/v1", "kind": "Invention", "metadata": {"name": "web"}, "spec": spec}
    spec["template"]["metadata"] = {"annotations": {"scheduling.volcano.sh/queue-name": "default"}}  # type: ignore[index]
    outcome = compiled([web, JOB], [machine("a")])
    assert outcome.problem is not None
    (queue,) = [queue for queue in outcome.problem.queues if queue.name == "default"]
    assert queue.used[outcome.problem.resources.index("cpu")] == 8000


@pytest.mark.parametrize("unplanned", ["reserve", "ignore"])
def test_services_without_devices_have_room_before_anything_else(unplanned: str) -> None:
    web = workload("Deployment", "web", pod_spec(cpu=4), replicas=3)
    outcome = compiled([web, JOB], [machine("a"), machine("b")], unplanned=unplanned, services="devices")
    train, service = outcome.decisions
    assert (train.action, service.action, service.gang_index) == ("wait", "start", None)
    assert service.pods == {"pods": {"a": 2, "b": 1}}
    live = (live_pod("web-5d9c-abcde", "b", 4), live_pod("web-5d9c-fghij", "b", 4))
    _, service = compiled([web, JOB], [machine("a"), machine("b")], live, unplanned, "devices").decisions
    assert (service.action, service.pods, service.running_count) == ("keep", {"pods": {"a": 1, "b": 2}}, 2)


def test_a_service_without_room_waits_with_a_reason_and_one_that_asks_for_nothing_does_not() -> None:
    web = workload("Deployment", "web", pod_spec(cpu=8), replicas=1)
    none = workload("Deployment", "idle", {"containers": [{"name": "main", "image": "a"}]}, replicas=3)
    other = (live_pod("other", "a", 4),)
    idle, service = compiled([web, none], [machine("a")], other, unplanned="ignore", services="devices").decisions
    assert (service.action, [reason.code for reason in service.reasons]) == ("wait", ["GW126"])
    assert (idle.action, idle.pods) == ("start", {"pods": {"a": 3}})


def test_origins_of_a_lowered_repository_say_the_rooms() -> None:
    outcome = compiled([workload("Deployment", "web", pod_spec(), replicas=1), JOB], [machine("a")])
    _, origins = lower(outcome.specs)
    assert isinstance(origins, Origins)
    assert [(room.pods.key, room.running, room.homeless) for room in origins.reserved_rooms] == [
        (("ml", "web", "Deployment"), 0, 0)
    ]
