"""What the reconciler may do is what it needs: nothing it asks for is denied, nothing it may do goes unused, and of a
pod or a ConfigMap it can change no more than it has to."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compiler.rights import DEFAULT_KINDS, KindInUse
from reconciler.cluster.rights import rbac_objects
from tests.controlplane import ApiError, ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    HOSTNAME,
    PLACEMENT_GATE,
    QUEUES_PATH,
    ROOT,
    SCHEDULER,
    TEST_USER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    Object,
    ReconcilerProcess,
    add_gpu_nodes,
    is_gated,
    job_phase,
    job_pods,
    node_pool,
    queue,
    role,
    volcano_job,
)

pytestmark = pytest.mark.e2e

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SYSTEM_CONFIGMAPS = "/api/v1/namespaces/kube-system/configmaps"
PRIORITY_CLASS = "/apis/scheduling.k8s.io/v1/priorityclasses/high"
PLAIN_JOB = "/apis/batch/v1/namespaces/default/jobs/plain"
MARK = {"gangplan.dev/cluster": "test"}


def gated_pod(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}, "annotations": {"team": "a"}},
        "spec": {
            "schedulingGates": [{"name": PLACEMENT_GATE}, {"name": "other.dev/gate"}],
            "containers": [{"name": "main", "image": "none"}],
            "nodeSelector": {"disk": "ssd"},
        },
    }


def config_map(name: str, labels: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}, "data": {"a": "b"}}


def refusal(request: Callable[[], object]) -> str:
    """What the API server says against it; empty when it does not."""
    try:
        request()
    except ApiError as error:
        return str(error)
    return ""


def test_of_a_pod_only_gate_hostname_and_own_annotations_may_be_changed(plane: ControlPlane) -> None:
    plane.api("POST", PODS, gated_pod("victim"))

    def patch(*changes: tuple[str, str, Any]) -> str:
        body = [{"op": op, "path": path, **({} if op == "remove" else {"value": value})} for op, path, value in changes]
        return refusal(lambda: plane.api("PATCH", f"{PODS}/victim", body, user=TEST_USER))

    annotation = "/metadata/annotations/"
    forbidden = [
        ("nothing else", ("replace", "/spec/containers/0/image", "evil")),
        ("nothing else", ("replace", "/metadata/labels/app", "y")),
        ("nothing else", ("add", "/metadata/finalizers", ["x.dev/stuck"])),
        ("nothing else", ("add", "/spec/tolerations/-", {"operator": "Exists"})),
        ("its own annotations", ("replace", annotation + "team", "b")),
        ("its own annotations", ("remove", annotation + "team", None)),
        ("its own annotations", ("add", annotation + "team2", "b")),
        ("node selector", ("add", "/spec/nodeSelector/zone", "b")),
        ("its own scheduling gate", ("remove", "/spec/schedulingGates/1", None)),
    ]
    plane.wait_until(
        lambda: "nothing else" in patch(("add", "/metadata/labels/probe", str(time.monotonic()))),
        what="the policy to be in force",
    )
    for message, change in forbidden:
        assert message in patch(change), change
    own = [
        ("add", "/spec/nodeSelector/kubernetes.io~1hostname", "node-1"),
        ("add", annotation + "gangplan.dev~1note", "x"),
        ("add", annotation + "volcano.sh~1task-priority", "1"),
        ("remove", "/spec/schedulingGates/0", None),
    ]
    assert patch(*own) == ""
    pod = plane.api("GET", f"{PODS}/victim")
    assert pod["spec"]["nodeSelector"] == {"disk": "ssd", HOSTNAME: "node-1"}
    assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["other.dev/gate"]
    plane.api("PATCH", f"{PODS}/victim", [{"op": "replace", "path": "/metadata/labels/app", "value": "y"}])
    for method, path in (("DELETE", f"{PODS}/victim"), ("POST", PODS)):
        assert "403" in refusal(partial(plane.api, method, path, gated_pod("new"), user=TEST_USER))


def test_of_configmaps_only_those_of_a_plan_may_be_written(plane: ControlPlane) -> None:
    plane.api("POST", CONFIGMAPS, config_map("theirs", {}))

    def attempt(method: str, path: str, body: Any = None) -> str:
        return refusal(lambda: plane.api(method, path, body, user=TEST_USER))

    plane.wait_until(
        lambda: "that a plan of it holds" in attempt("POST", CONFIGMAPS, config_map("unmarked", {})),
        what="the policy to be in force",
    )
    assert "that a plan of it holds" in attempt("PATCH", f"{CONFIGMAPS}/theirs", {"data": {"a": "c"}})
    assert "that a plan of it holds" in attempt("DELETE", f"{CONFIGMAPS}/theirs")
    assert attempt("POST", CONFIGMAPS, config_map("ours", MARK)) == ""
    assert attempt("PATCH", f"{CONFIGMAPS}/ours", {"data": {"a": "c"}}) == ""
    assert attempt("PATCH", f"{CONFIGMAPS}/theirs", {"metadata": {"labels": MARK}}) == "", "joined"
    assert attempt("PATCH", f"{CONFIGMAPS}/theirs", {"metadata": {"labels": {"gangplan.dev/cluster": None}}}) == ""
    assert attempt("DELETE", f"{CONFIGMAPS}/ours") == ""
    assert attempt("POST", SYSTEM_CONFIGMAPS, config_map("system", MARK)) != ""
    assert attempt("POST", "/api/v1/namespaces/volcano-system/services", {}) != ""


def granted_verbs() -> set[tuple[str, str, str, str]]:
    """(verb, group, resource, namespace) of each right, the namespace empty for the whole cluster."""
    """Of the kinds that the story makes: every other kind has the same."""
    found = set()
    made = [each for each in DEFAULT_KINDS if each.kind in ("ConfigMap", "PriorityClass", "Queue", "Job", "PyTorchJob")]
    for thing in rbac_objects((*made, KindInUse("", "ConfigMap", "default"))):
        for rule in thing.get("rules", ()):
            namespace = thing["metadata"].get("namespace", "")
            for resource in rule["resources"]:
                found |= {(verb, rule["apiGroups"][0], resource, namespace) for verb in rule["verbs"]}
    return found


def requested_verbs(plane: ControlPlane, since: int) -> set[tuple[str, str, str, str]]:
    """The same for what was requested; with each, whether namespaced or not."""
    found = set()
    for entry in plane.audited_requests()[since:]:
        if (target := entry.get("objectRef")) is None:
            continue
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        key = entry["verb"], target.get("apiGroup", ""), resource
        found |= {(*key, ""), (*key, target.get("namespace", ""))}
    return found


def test_no_request_is_denied_and_no_right_unused(plane: ControlPlane, tmp_path: Path) -> None:
    """An object of each kind is made, put back after drift and removed from git."""
    repository = GitRepository(tmp_path / "repo")
    add_gpu_nodes(plane, 2, gpus=8)
    base = "cluster-specs/test/cluster.yaml"
    repository.write_file(base, CLUSTER, SCHEDULER, node_pool("gpu", 2, supernode=2))
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}], "schedulerName": "volcano"}
    things: list[Object] = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 5},
        {**config_map("settings", {}), "metadata": {"name": "settings", "namespace": "default"}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "plain", "namespace": "default"},
            "spec": {"template": {"spec": pod}},
        },
        volcano_job("gang", role("worker", 2, gpus=1), queue="team"),
    ]
    repository.write_file("jobs/things.yaml", *things)
    repository.write_file("cluster-specs/test/queue.yaml", queue("team", gpus=8))
    repository.commit()
    since = len(plane.audited_requests())
    with ReconcilerProcess(plane, repository, tmp_path / "one") as first:
        plane.wait_until(lambda: job_phase(plane, "gang") == "Running", what="the gang to run")
        assert not any(is_gated(each) for each in job_pods(plane, "gang"))
        change_by_hand(plane)
        plane.wait_until(lambda: is_put_back(plane), what="all to be put back")
        repository.remove_file("jobs/things.yaml")
        repository.remove_file("cluster-specs/test/queue.yaml")
        repository.commit()
        leaving = (f"{CONFIGMAPS}/settings", PRIORITY_CLASS, f"{VOLCANO_JOBS_PATH}/gang", PLAIN_JOB)
        for path in (*leaving, f"{QUEUES_PATH}/team"):
            plane.wait_until(lambda: "404" in refusal(partial(plane.api, "GET", path)), what=f"{path} to go")  # noqa: B023
        assert first.read_status()["head"]
    denied = [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in plane.audited_requests()[since:]
        if entry.get("responseStatus", {}).get("code") == 403
    ]
    assert denied == []
    unused = granted_verbs() - requested_verbs(plane, since)
    assert sorted(row for row in unused if not _belongs_to_another_story(row)) == []


def change_by_hand(plane: ControlPlane) -> None:
    plane.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 7}})
    for path in (f"{CONFIGMAPS}/settings", PRIORITY_CLASS, f"{VOLCANO_JOBS_PATH}/gang", PLAIN_JOB):
        plane.api("PATCH", path, {"metadata": {"labels": {"gangplan.dev/cluster": "drift"}}})


def is_put_back(plane: ControlPlane) -> bool:
    paths = (f"{CONFIGMAPS}/settings", PRIORITY_CLASS, f"{VOLCANO_JOBS_PATH}/gang", PLAIN_JOB)
    labels = [plane.api("GET", path)["metadata"]["labels"]["gangplan.dev/cluster"] for path in paths]
    return set(labels) == {"test"} and plane.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"] == 1


def _belongs_to_another_story(row: tuple[str, str, str, str]) -> bool:
    """Reading by name is for what vanished; a server-side apply of what is not there asks for `create` too, and is no
    request of its own; evictions, PyTorchJobs and lost inventories have stories of their own."""
    verb, _, resource, namespace = row
    return (
        verb in ("get", "create")
        or resource in ("pods/eviction", "pytorchjobs", "hypernodes")
        or (resource == "configmaps" and namespace in ("gangplan-system", "volcano-system"))
    )


def test_the_audit_is_not_blind(plane: ControlPlane) -> None:
    before = len(plane.audited_requests())
    assert "403" in refusal(lambda: plane.api("GET", "/api/v1/secrets", user=TEST_USER))
    found = plane.wait_until(lambda: plane.audited_requests()[before:], what="the audit of a request")
    assert "403" in json.dumps(found)


def test_what_is_missing_at_the_start_is_one_line(plane: ControlPlane, tmp_path: Path) -> None:
    def last_line(user: str, *options: str) -> str:
        command = ["reconcile", "--repo", str(tmp_path), "--cluster", "test", "--data", str(tmp_path / "data")]
        access = ["--kubeconfig", str(plane.kubeconfig_for(user)), "--once", *options]
        done = subprocess.run(
            [sys.executable, "-m", "reconciler", *command, *access],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    assert "there is no namespace nowhere" in last_line("admin", "--namespace", "nowhere")
    assert "the right to list nodes and" in last_line("guest")
