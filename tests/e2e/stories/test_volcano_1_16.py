"""What a cluster of Volcano 1.16 holds, on the real API server: its CRDs as far as they are known (volcano-1.16.yaml),
queues of namespaces, the numbers of fairshare, and the release that an image names. The scheduler is that of 1.15.1."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane, NotSeenError
from tests.controlplane.build import build
from tests.controlplane.vendor_schemas import DATA, KUBERNETES, VOLCANO, with_additions, write_schemas
from tests.e2e.stories.story import (
    QUEUES_PATH,
    SCHEDULER,
    GitRepository,
    Object,
    ReconcilerProcess,
    node_pool,
    queue,
    role,
    run_gangplan,
    volcano_job,
)

pytestmark = pytest.mark.e2e

SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LOCAL_QUEUES = f"{SCHEDULING}/namespaces/ml/namespacequeues"
TYPE, TENANTS = "namespacequeues.scheduling.volcano.sh", ("ml", "web")
SYSTEM = "/api/v1/namespaces/volcano-system"
CLUSTER = """\
apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata: {name: test}
spec: {binding: gated, volcano: "1.16", namespaceQueues: true}
"""
FAIR = SCHEDULER.replace("- {name: priority}", "- {name: priority}\n    - {name: fairshare}")
"""Volcano 1.15.1 does not know the plugin, and goes on without it."""


def namespace_queue(name: str, parent: str, gpus: int) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "NamespaceQueue",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"parent": parent, "capability": {"nvidia.com/gpu": gpus}},
    }


@pytest.fixture(scope="module")
def newer_types(installed: ControlPlane) -> Iterator[None]:
    """What Volcano 1.16 adds to CRDs, and the namespaces of two tenants."""
    plane, paths = installed, [f"{CRDS}/{plural}.scheduling.volcano.sh" for plural in ("podgroups", "queues")]
    former = [plane.api("GET", path) for path in paths]
    *changed, local = with_additions([plane.api("GET", path) for path in paths])
    for path, definition in zip(paths, changed[:2], strict=True):
        plane.api("PUT", path, definition)
    plane.api("POST", CRDS, local_queues(local))
    plane.wait_until_types_are_served()
    for namespace in TENANTS:
        plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    yield
    for namespace in TENANTS:
        plane.api("DELETE", f"/api/v1/namespaces/{namespace}")
    plane.remove_types([TYPE])
    for path, definition in zip(paths, former, strict=True):
        version = plane.api("GET", path)["metadata"]["resourceVersion"]
        plane.api("PUT", path, {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}})


def local_queues(definition: Object) -> Object:
    """The CRD of NamespaceQueues, whose schema is known; a pattern there stands for that of amounts."""
    names = {"kind": "NamespaceQueue", "listKind": "NamespaceQueueList", "plural": "namespacequeues"}
    spec = json.loads(json.dumps(definition["spec"]).replace(', "pattern": "quantity"', ""))
    spec |= {"scope": "Namespaced", "names": {**names, "singular": "namespacequeue"}}
    spec["versions"][0] |= {"storage": True, "subresources": {"status": {}}}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": TYPE}}
    return {**head, "spec": spec}


@pytest.fixture
def newer_plane(newer_types: None, plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster with these types, emptied afterwards."""
    yield plane
    for namespace in TENANTS:
        plane.api("DELETE", f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs")
        for plural in ("podgroups", "namespacequeues"):
            plane.api("DELETE", f"{SCHEDULING}/namespaces/{namespace}/{plural}")
        look = partial(names_at, plane, f"/api/v1/namespaces/{namespace}/pods")
        plane.wait_until(look, lambda seen: not seen, what="pods to go")


def test_the_vendored_schemas_are_what_their_script_writes(installed: ControlPlane, tmp_path: Path) -> None:
    """Of Kubernetes, and of Volcano: its CRDs of 1.15.1 with what volcano-1.16.yaml adds."""
    folder = tmp_path / "crds"
    folder.mkdir()
    for file in (build() / "crds").glob("*.volcano.sh_*.yaml"):
        (folder / file.name).write_bytes(file.read_bytes())
    write_schemas(installed.kubeconfig, [f"{VOLCANO}={folder}"], tmp_path)
    for name in (KUBERNETES, VOLCANO):
        written, vendored = (gzip.decompress((place / f"{name}.json.gz").read_bytes()) for place in (tmp_path, DATA))
        assert written == vendored


def names_at(plane: ControlPlane, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in plane.api("GET", path)["items"]]


def held_reasons(reconciler: ReconcilerProcess) -> dict[str, str]:
    return {row["object"]: row["reason"] for row in reconciler.read_status()["held"]}


def test_queues_of_namespaces_come_after_their_parents_and_go_once_they_are_drained(
    newer_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, repository = newer_plane, GitRepository(tmp_path / "repo")
    plane.add_nodes(["gpu-0"])
    science = queue("science", 16)
    science["spec"]["allowedNamespaces"] = ["ml"]
    tree = [namespace_queue("train", "cluster/science", 8), namespace_queue("eval", "train", 4)]
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"))
    repository.write_file("cluster-specs/test/queues.yaml", science, *tree)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        plane.wait_until(lambda: names_at(plane, LOCAL_QUEUES), lambda seen: seen == ["eval", "train"], what="queues")
        assert plane.api("GET", f"{QUEUES_PATH}/science")["spec"]["allowedNamespaces"] == ["ml"]
        groups = f"{SCHEDULING}/namespaces/ml/podgroups"
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "theirs"}}
        plane.api("POST", groups, {**group, "spec": {"minMember": 1, "queue": "default"}})
        plane.api("PATCH", f"{groups}/theirs", {"spec": {"queue": "namespace/train"}})
        repository.remove_file("cluster-specs/test/queues.yaml")
        repository.commit()
        plane.wait_until(lambda: names_at(plane, LOCAL_QUEUES), lambda seen: seen == ["train"], what="the child to go")
        reasons = plane.wait_until(
            lambda: held_reasons(reconciler),
            lambda seen: "what is in it has gone" in seen.get("NamespaceQueue ml/train", ""),
            what="the queue held for its work",
        )
        assert reasons["NamespaceQueue ml/train"].endswith("PodGroup ml/theirs")
        assert reasons["Queue science"].endswith("the queues below it have gone: NamespaceQueue ml/train")
        plane.api("DELETE", f"{groups}/theirs")
        plane.wait_until(lambda: names_at(plane, LOCAL_QUEUES), lambda seen: not seen, what="the queue to go")
        plane.wait_until(lambda: names_at(plane, QUEUES_PATH), lambda seen: "science" not in seen, what="its parent")


def use_of_namespaces(numbers: dict[str, int], at: str) -> Object:
    state = {"lastCycle": at, "queues": {"team": numbers}}
    metadata = {"name": "fairshare-usage-state", "namespace": "volcano-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"state.json": json.dumps(state)}}


def test_the_namespace_that_used_less_starts_first_and_a_change_of_the_numbers_alone_plans_nothing(
    newer_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, repository = newer_plane, GitRepository(tmp_path / "repo")
    plane.add_nodes(["gpu-0"], capacity={"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"})
    path = f"{SYSTEM}/configmaps"
    plane.api("POST", path, use_of_namespaces({"ml": 9 * 10**9, "web": 10**6}, "2026-11-26T09:00:00Z"))
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, FAIR, node_pool("gpu", 1), queue("team"))
    for namespace in ("ml", "web"):
        job = volcano_job("train", role("worker", 1, gpus=8), queue="team")
        job["metadata"]["namespace"] = namespace
        repository.write_file(f"jobs/{namespace}.yaml", job)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:

        def decisions() -> dict[str, str]:
            return {gang["namespace"]: gang["decision"] for gang in reconciler.read_status()["gangs"]}

        plane.wait_until(decisions, lambda seen: seen == {"ml": "wait", "web": "keep"}, what="the one of less use")

        def compiles() -> int:
            return sum(line["message"] == "a compile begins" for line in reconciler.log_lines())

        plane.wait_until(compiles, lambda seen: seen == compiles(), what="a quiet cluster", pause=5.0)
        before = compiles()
        for number in range(5):
            changed = use_of_namespaces({"ml": number, "web": 10**9}, "2026-11-26T09:00:00Z")
            plane.api("PATCH", f"{path}/fairshare-usage-state", {"data": changed["data"]})
        with pytest.raises(NotSeenError):
            plane.wait_until(compiles, lambda seen: seen > before, timeout=5.0, what="no compile")


def test_a_vulnerable_release_that_runs_is_named_by_the_status_and_the_log(
    newer_plane: ControlPlane, tmp_path: Path
) -> None:
    plane, repository = newer_plane, GitRepository(tmp_path / "repo")
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"))
    repository.commit()
    containers = [{"name": "volcano-scheduler", "image": "docker.io/volcanosh/vc-scheduler:v1.15.1"}]
    pod = {"metadata": {"name": "volcano-scheduler-1"}, "spec": {"schedulerName": "nobody", "containers": containers}}
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        plane.wait_until(lambda: reconciler.condition("VolcanoVulnerable"), lambda seen: seen["reason"] == "NotKnown")
        plane.api("POST", f"{SYSTEM}/pods", pod)
        found = plane.wait_until(
            lambda: reconciler.condition("VolcanoVulnerable"),
            lambda seen: seen["status"] == "True",
            what="the vulnerable release seen",
        )
        assert "GHSA-j38h-7pfq-cxmw" in found["message"]
        plane.wait_until(
            lambda: reconciler.condition("VolcanoDiffers"),
            lambda seen: 'write volcano: "1.15.1"' in seen["message"],
            what="another release than the Cluster's seen",
        )
        said = run_gangplan("status", "--cluster", "test", "--kubeconfig", str(plane.kubeconfig_for("gangplan")))
        assert "GHSA-j38h-7pfq-cxmw" in said
        turned = [line for line in reconciler.log_lines() if line.get("condition") == "VolcanoVulnerable"]
        assert "GHSA-j38h-7pfq-cxmw" in turned[-1]["detail"]
        plane.api("DELETE", f"{SYSTEM}/pods/volcano-scheduler-1?gracePeriodSeconds=0")
        plane.wait_until(
            lambda: reconciler.condition("VolcanoVulnerable"),
            lambda seen: seen["status"] == "False",
            what="the release gone",
        )
