"""The test bed keeps what it promises: real admission, real scheduling, real authorization, pods that end, and no
process left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders import declared
from tests.builders.declared import Object
from tests.builders.processes import ends, is_alive
from tests.controlplane import ApiError, ControlPlane, NotSeenError
from tests.controlplane.processes import free_ports

pytestmark = pytest.mark.e2e

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/volcano-system/configmaps"
GATE = {"name": "gangplan.dev/placement"}
ERROR_CACHE_OFF = "configurations:\n" + "".join(
    f"- name: {action}\n  arguments:\n    predicateErrorCacheEnable: false\n"
    for action in ("allocate", "backfill", "preempt")
)


def job(name: str, *, replicas: int, minimum: int, gpus: int = 1, gated: bool = False, **annotations: str) -> Object:
    """A Volcano Job with one task; annotations are gangplan.test/ ones, with underscores for hyphens."""
    gates = {"schedulingGates": [GATE]} if gated else {}
    amounts = {"nvidia.com/gpu": gpus}
    pod = declared.pod_spec(amounts, {"cpu": "1", **amounts}, restartPolicy="Never", **gates)
    marks = {f"gangplan.test/{key.replace('_', '-')}": value for key, value in annotations.items()}
    task = {"name": "worker", "template": {"metadata": {"annotations": marks}, "spec": pod}}
    more: Object = {"schedulerName": "volcano", "queue": "default", "minAvailable": minimum}
    return declared.job(name, replicas, namespace="", task=task, **more)


def pods(cluster: ControlPlane, name: str) -> dict[str, dict[str, Any]]:
    """The pods of a job, by name."""
    found = cluster.api("GET", f"{PODS}?labelSelector=volcano.sh/job-name={name}")["items"]
    return {pod["metadata"]["name"]: pod for pod in found}


def phase(cluster: ControlPlane, name: str) -> str:
    """The phase that Volcano's controller gives a job; empty before it has seen it."""
    status = cluster.api("GET", f"{JOBS}/{name}").get("status", {})
    return str(status.get("state", {}).get("phase", ""))


def nodes_of(cluster: ControlPlane, name: str) -> dict[str, str | None]:
    """Where the pods of a job are bound."""
    return {pod: found["spec"].get("nodeName") for pod, found in pods(cluster, name).items()}


def test_a_job_runs_on_kwok_nodes_and_ends_after_its_time(shared_control_plane: ControlPlane) -> None:
    cluster = shared_control_plane
    cluster.add_nodes(["short-0", "short-1"])
    cluster.api("POST", JOBS, job("short", replicas=2, minimum=2, run_for="4s"))

    cluster.wait_until(lambda: phase(cluster, "short"), lambda seen: seen == "Running", what="job short running")
    assert {pod["status"]["phase"] for pod in pods(cluster, "short").values()} == {"Running"}
    cluster.wait_until(lambda: phase(cluster, "short"), lambda seen: seen == "Completed", what="job short completed")
    ends = [
        pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        for pod in pods(cluster, "short").values()
    ]
    assert ends == [0, 0]


def test_a_pod_fails_after_its_time_and_a_deleted_pod_goes_away(shared_control_plane: ControlPlane) -> None:
    cluster = shared_control_plane
    cluster.add_nodes(["broken-0"])
    cluster.api("POST", JOBS, job("broken", replicas=1, minimum=1, fail_after="1s"))
    cluster.wait_until(lambda: phase(cluster, "broken"), lambda seen: seen == "Failed", what="job broken failed")
    (name,) = pods(cluster, "broken")
    assert pods(cluster, "broken")[name]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1

    cluster.api("DELETE", f"{PODS}/{name}")
    cluster.wait_until(lambda: pods(cluster, "broken"), lambda seen: name not in seen, what="the pod gone")


def test_volcano_refuses_a_job_that_asks_for_more_than_it_has(shared_control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match=r"validatejob\.volcano\.sh.* denied the request.*minAvailable"):
        shared_control_plane.api("POST", JOBS, job("greedy", replicas=2, minimum=3))


def test_a_user_without_a_role_is_forbidden(shared_control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match='User "guest" cannot list resource "jobs"') as refused:
        shared_control_plane.api("GET", JOBS, user="guest")
    assert refused.value.status == 403


def test_a_lost_node_is_tainted_and_comes_back(shared_control_plane: ControlPlane) -> None:
    cluster = shared_control_plane
    cluster.add_nodes(["frail-0"])

    def taints() -> set[str]:
        return {taint["key"] for taint in cluster.api("GET", "/api/v1/nodes/frail-0")["spec"].get("taints", [])}

    cluster.fail_node("frail-0")
    cluster.wait_until(
        taints, lambda seen: "node.kubernetes.io/unreachable" in seen, what="the taint of an unreachable node"
    )
    cluster.recover_node("frail-0")
    cluster.wait_until(taints, lambda seen: not seen, what="the taint taken away")


def test_a_missed_deadline_says_what_was_seen_last(shared_control_plane: ControlPlane) -> None:
    with pytest.raises(NotSeenError, match=r"the moon did not come within 0 s; last seen: \['cheese'\]"):
        shared_control_plane.wait_until(lambda: ["cheese"], lambda seen: "moon" in seen, timeout=0, what="the moon")


def test_each_pod_of_a_gated_gang_reaches_the_node_it_was_given(control_plane: ControlPlane) -> None:
    cluster = control_plane
    nodes = cluster.add_nodes([f"node-{index}" for index in range(6)])
    cluster.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")

    cluster.api("POST", JOBS, job("gang", replicas=4, minimum=4, gpus=8, gated=True))
    cluster.wait_until(
        lambda: [
            condition.get("reason")
            for pod in pods(cluster, "gang").values()
            for condition in pod["status"].get("conditions", [])
        ],
        lambda seen: seen == ["SchedulingGated"] * 4,
        what="four gated pods",
    )
    given = dict(zip(sorted(pods(cluster, "gang")), reversed(nodes[1:5]), strict=True))
    for pod, node in given.items():
        patch = [
            {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": node}},
            {"op": "test", "path": "/spec/schedulingGates/0", "value": GATE},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
        cluster.api("PATCH", f"{PODS}/{pod}", patch)

    # With Volcano's default settings the first pod's misfits are replayed for its siblings, so the gang cannot start
    # ...
    podgroups = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    cluster.wait_until(
        lambda: [
            condition.get("message", "")
            for each in cluster.api("GET", podgroups)["items"]
            for condition in each["status"].get("conditions", [])
        ],
        lambda seen: any("1 Schedulable, 3 Unschedulable" in message for message in seen),
        what="the gang held back by the error cache",
    )
    assert set(nodes_of(cluster, "gang").values()) == {None}

    # ... until the ConfigMap says otherwise.
    text = cluster.scheduler_conf.read_text() + ERROR_CACHE_OFF
    cluster.api(
        "POST",
        CONFIGMAPS,
        {"metadata": {"name": "volcano-scheduler-configmap"}, "data": {"volcano-scheduler.conf": text}},
    )
    cluster.wait_until(lambda: nodes_of(cluster, "gang"), lambda seen: seen == given, what="each pod on its own node")
    cluster.wait_until(lambda: phase(cluster, "gang"), lambda seen: seen == "Running", what="the gang running")


def test_components_can_be_killed_and_started_again(shared_control_plane: ControlPlane) -> None:
    cluster = shared_control_plane
    cluster.add_nodes(["node-0"])
    cluster.kill("volcano-scheduler")
    cluster.api("POST", JOBS, job("late", replicas=1, minimum=1))
    cluster.wait_until(
        lambda: phase(cluster, "late"), lambda seen: seen == "Pending", what="job late seen by Volcano's controller"
    )
    cluster.restart("volcano-scheduler")
    cluster.wait_until(lambda: phase(cluster, "late"), lambda seen: seen == "Running", what="job late running")

    before = cluster.pid("kube-apiserver")
    cluster.restart_api_server()
    cluster.wait_until(
        lambda: phase(cluster, "late"), lambda seen: seen == "Running", what="the same job in the new API server"
    )
    assert cluster.pid("kube-apiserver") != before


def test_a_port_is_given_to_one_process_only() -> None:
    """Before it listens: of four control planes that started at a time a component found its port in use."""
    (port,) = free_ports(1)
    claim = f"from tests.controlplane.processes import _claim; _claim({port})"
    other = subprocess.run([sys.executable, "-c", claim], capture_output=True, text=True, check=False)
    assert "BlockingIOError" in other.stderr


def test_nothing_outlives_a_killed_owner(tmp_path: Path) -> None:
    owner = (
        "import os, sys, time; from pathlib import Path; "
        "from tests.controlplane.processes import Process, ProcessGuard\n"
        f"child = Process('child', ['sleep', '600'], Path({str(tmp_path)!r}) / 'log', os.environ)\n"
        "child.start(ProcessGuard()); print(child.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert is_alive(child)
        process.kill()
    assert ends(child)
