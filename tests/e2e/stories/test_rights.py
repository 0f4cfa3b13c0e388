"""What the reconciler may do is what it needs: nothing it asks for is denied, nothing it may do goes unused, and of a
pod or a ConfigMap it can change no more than it has to."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compiler.rights import DEFAULT_KINDS, KindInUse
from reconciler.cluster.rights import plural_of, rbac_objects
from tests.builders.declared import priority_class
from tests.controlplane import ApiError, ControlPlane
from tests.e2e.stories.operator_jobs import OTHER_KINDS, operator_job, training_runtime
from tests.e2e.stories.story import (
    CLUSTER,
    HOSTNAME,
    PLACEMENT_GATE,
    ROOT,
    SCHEDULER,
    TEST_USER,
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
STATUS = "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-status"
TYPES = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OTHER_JOBS = tuple(map(operator_job, OTHER_KINDS))
"""One of each kind of other operators."""
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


Verb = tuple[str, str, str, str]
"""(verb, group, resource, namespace), the namespace empty for the whole cluster."""

UNIT = "unit/reconciler"
GONE = f"{UNIT}/ownership/test_part.py::test_an_entry_ends_when_the_server_says_that_the_object_is_gone"
ELSEWHERE: Mapping[Verb, str] = {
    # Nothing is evicted here: that needs priorities, and a cluster that is full.
    ("create", "", "pods/eviction", ""): (
        "e2e/stories/test_preemption.py::test_an_urgent_gang_takes_the_place_of_one_that_matters_less_and_of_no_more"
    ),
    # A claim is asked for when a gang has been held for it, after three rounds of the bind timeout.
    ("get", "", "persistentvolumeclaims", ""): (
        f"{UNIT}/pods/test_part.py::test_one_unbindable_gang_closes_no_node_to_others_and_is_held_after_three_rounds"
    ),
    # Events are read of a gang that lacks pods for some seconds.
    ("list", "", "events", ""): (
        f"{UNIT}/test_idle_room.py::"
        "test_a_gang_whose_pods_are_all_refused_keeps_no_room_and_is_reported_with_the_servers_message"
    ),
    # A table of the inventory leaves its ConfigMaps when it has outgrown them, with some thousand objects.
    ("delete", "", "configmaps", "gangplan-system"): (
        f"{UNIT}/inventory/test_store.py::test_a_table_that_grows_is_spread_and_a_writer_killed_in_between_loses_nothing"
    ),
    # Their watches show all objects, so one that is gone is asked for by name only before its entry ends, which the
    # story saw a minute and a half after the start. Jobs of other kinds are asked for when they lose our label.
    ("get", "batch", "jobs", ""): GONE,
    ("get", "batch.volcano.sh", "jobs", ""): GONE,
    ("get", "kubeflow.org", "pytorchjobs", ""): GONE,
}
"""Rights that the story below has no use for, each with the test that has."""


def test_the_tests_of_the_other_rights_are_there() -> None:
    for named in ELSEWHERE.values():
        file, _, function = named.partition("::")
        assert f"def {function}(" in (ROOT / "tests" / file).read_text()
    assert ELSEWHERE.keys() <= granted_verbs()


def granted_verbs() -> set[Verb]:
    """The rights that the stories run with."""
    found = set()
    for thing in rbac_objects((*DEFAULT_KINDS, KindInUse("", "ConfigMap", "default"))):
        for rule in thing.get("rules", ()):
            namespace = thing["metadata"].get("namespace", "")
            for resource in rule["resources"]:
                found |= {(verb, rule["apiGroups"][0], resource, namespace) for verb in rule["verbs"]}
    return found


def used_verbs(requests: list[Object]) -> set[Verb]:
    """The rights that these requests have used. A list or a watch of one namespace has no use for the right to those of
    the whole cluster; what is asked of one object may come of either. A patch that makes an object needs the right to
    create it as well."""
    found = set()
    for entry in requests:
        if (target := entry.get("objectRef")) is None:
            continue
        resource, namespace = target["resource"], target.get("namespace", "")
        if "subresource" in target:
            resource = f"{resource}/{target['subresource']}"
        is_made = entry["verb"] == "patch" and entry.get("responseStatus", {}).get("code") == 201
        for verb in (entry["verb"], "create") if is_made else (entry["verb"],):
            spaces = {namespace} if verb in ("list", "watch") else {namespace, ""}
            found |= {(verb, target.get("apiGroup", ""), resource, space) for space in spaces}
    return found


LOCAL_QUEUE: Object = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "NamespaceQueue",
    "metadata": {"name": "own", "namespace": "default"},
    "spec": {"parent": "missing"},
}
"""Below none of the cluster's queues, which would take no jobs then."""
NEWER_CLUSTER = CLUSTER.replace("binding: gated", 'binding: gated, volcano: "1.16", namespaceQueues: true')


@pytest.fixture
def all_types(plane: ControlPlane) -> Iterator[None]:
    """Each kind that gangplan plans is served, for which there is no operator here: what it has to do with an object of
    it is the same."""
    served = {each["metadata"]["name"] for each in plane.api("GET", TYPES)["items"]}
    made = []
    for job in (*OTHER_JOBS, LOCAL_QUEUE):
        group, version = job["apiVersion"].split("/")
        plural = plural_of(job["kind"])
        if f"{plural}.{group}" not in served:
            schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
            versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
            names = {"kind": job["kind"], "plural": plural}
            spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
            metadata = {"name": f"{plural}.{group}"}
            definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
            plane.api("POST", TYPES, {**definition, "metadata": metadata, "spec": spec})
            made.append(f"{plural}.{group}")
    plane.wait_until_types_are_served()
    yield
    plane.remove_types(made)


def path_of(thing: Object) -> str:
    api, plural = thing["apiVersion"], plural_of(thing["kind"])
    namespace = thing["metadata"].get("namespace")
    space = f"/namespaces/{namespace}" if namespace else ""
    return f"/{'apis' if '/' in api else 'api'}/{api}{space}/{plural}/{thing['metadata']['name']}"


def test_no_request_is_denied_and_no_right_unused(plane: ControlPlane, all_types: None, tmp_path: Path) -> None:
    """An object of each kind is made, put back after drift and removed from git."""
    repository = GitRepository(tmp_path / "repo")
    add_gpu_nodes(plane, 2, gpus=8)
    base = "cluster-specs/test/cluster.yaml"
    pool = node_pool("gpu", 2, supernode=2)
    repository.write_file(base, NEWER_CLUSTER, SCHEDULER, pool, queue("team"), training_runtime())
    settings = {**config_map("settings", {}), "metadata": {"name": "settings", "namespace": "default"}}
    things: list[Object] = [
        queue("extra", gpus=8),
        priority_class("high", 5),
        settings,
        {**settings, "metadata": {"name": "settings", "namespace": "volcano-system"}},
        operator_job("Job"),
        volcano_job("gang", role("worker", 2, gpus=1), queue="team", priorityClassName="high"),
        *OTHER_JOBS,
        LOCAL_QUEUE,
    ]
    for at, thing in enumerate(things):
        repository.write_file(f"{'cluster-specs/test' if at < 2 else 'jobs'}/thing-{at}.yaml", thing)
    repository.commit()
    since = len(plane.audited_requests())
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        plane.wait_until(lambda: job_phase(plane, "gang") == "Running", what="the gang to run")
        assert not any(is_gated(each) for each in job_pods(plane, "gang"))
        for thing in things:
            plane.api("PATCH", path_of(thing), {"metadata": {"labels": {"gangplan.dev/cluster": "drift"}}})
        plane.wait_until(lambda: labels(plane, things), lambda seen: seen == {"test"}, what="all to be put back")
        for at, _ in enumerate(things):
            repository.remove_file(f"{'cluster-specs/test' if at < 2 else 'jobs'}/thing-{at}.yaml")
        repository.write_file(base, NEWER_CLUSTER, SCHEDULER, node_pool("gpu", 2), queue("team"))
        commit = repository.commit()
        plane.api("PATCH", STATUS, {"metadata": {"annotations": {"gangplan.dev/allow-prune": commit}}})
        plane.wait_until(
            lambda: granted_verbs() - used_verbs(plane.audited_requests()[since:]) - ELSEWHERE.keys(),
            lambda unused: not unused,
            what="every right to be used",
        )
    denied = [
        f"{entry['verb']} {entry['requestURI']}"
        for entry in plane.audited_requests()[since:]
        if entry.get("responseStatus", {}).get("code") == 403
    ]
    assert denied == []


def labels(plane: ControlPlane, things: list[Object]) -> set[str]:
    return {plane.api("GET", path_of(thing))["metadata"]["labels"]["gangplan.dev/cluster"] for thing in things}


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
        assert done.stderr.count("\n") == 1, done.stderr
        return str(json.loads(done.stderr)["message"])

    assert "there is no namespace nowhere" in last_line("admin", "--namespace", "nowhere")
    assert "no permission to list nodes and" in last_line("guest")
