"""A Deployment with devices next to jobs: its pods on planned nodes, a rolling update that first makes a new pod, a pod
that is deleted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.rights import KindInUse
from reconciler.cluster.rights import rbac_objects
from tests.controlplane import ControlPlane
from tests.e2e.stories.story import TEST_USER, Object, ReconcilerProcess, begin, is_gated

pytestmark = pytest.mark.e2e
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def service(version: str) -> Object:
    """Two pods with one GPU each; a rolling update makes one more before it takes one away."""
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 1}}
    template = {
        "metadata": {"labels": {"app": "llm", "version": version}},
        "spec": {"containers": [{"name": "main", "image": "none", "resources": resources}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "llm"}}, "template": template}
    metadata = {"name": "llm", "namespace": "default", "annotations": {"scheduling.volcano.sh/queue-name": "team"}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def bound(plane: ControlPlane, version: str) -> list[str]:
    """Names of the pods of a version that have a node, if all of the service are of it; none may be gated then."""
    pods = plane.api("GET", "/api/v1/namespaces/default/pods?labelSelector=app=llm")["items"]
    alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    if any(is_gated(pod) or pod["metadata"]["labels"]["version"] != version for pod in alive):
        return []
    return sorted(pod["metadata"]["name"] for pod in alive if pod["spec"].get("nodeName"))


@pytest.fixture
def rights(plane: ControlPlane) -> Iterator[None]:
    role = next(thing for thing in rbac_objects([KindInUse("apps", "Deployment")]) if thing["kind"] == "ClusterRole")
    api = "rbac.authorization.k8s.io/v1"
    binding = {
        "apiVersion": api,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "services"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TEST_USER}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "services"},
    }
    plane.api("POST", f"/apis/{api}/clusterroles", {**role, "metadata": {"name": "services"}})
    plane.api("POST", f"/apis/{api}/clusterrolebindings", binding)
    yield
    plane.api("DELETE", f"/apis/{api}/clusterrolebindings/services")
    plane.api("DELETE", f"/apis/{api}/clusterroles/services")


@pytest.mark.usefixtures("rights")
def test_a_service_gets_its_nodes_through_updates_and_losses(plane: ControlPlane, tmp_path: Path) -> None:
    repository = begin(plane, tmp_path, 2, gpus=2)
    repository.write_file("jobs/llm.yaml", service("one"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        plane.wait_until(lambda: bound(plane, "one"), lambda names: len(names) == 2, what="the service")
        repository.write_file("jobs/llm.yaml", service("two"))
        repository.commit()
        first = plane.wait_until(lambda: bound(plane, "two"), lambda names: len(names) == 2, what="its update")
        plane.api("DELETE", f"/api/v1/namespaces/default/pods/{first[0]}")
        plane.wait_until(
            lambda: bound(plane, "two"), lambda names: len(names) == 2 and names != first, what="the pod in its place"
        )
    plane.api("DELETE", f"{DEPLOYMENTS}/llm")
