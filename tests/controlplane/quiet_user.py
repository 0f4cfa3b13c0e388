"""The user as which Volcano's scheduler and controllers act: it may do all but write Events. Nobody here reads theirs,
and they are a third of all requests, most of them FailedScheduling of each waiting pod in each cycle."""

from __future__ import annotations

from typing import Final

from tests.controlplane.rest import Json

USER: Final = "volcano"
_RBAC: Final = "rbac.authorization.k8s.io"
_CORE: Final = (
    "bindings", "configmaps", "endpoints", "limitranges", "namespaces", "nodes", "nodes/status",
    "persistentvolumeclaims", "persistentvolumeclaims/status", "persistentvolumes", "pods", "pods/binding",
    "pods/eviction", "pods/status", "podtemplates", "replicationcontrollers", "resourcequotas",
    "resourcequotas/status", "secrets", "serviceaccounts", "services",
)  # fmt: skip
_OTHER_GROUPS: Final = (
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "autoscaling", "batch", "batch.volcano.sh",
    "bus.volcano.sh", "config.volcano.sh", "coordination.k8s.io", "flow.volcano.sh", "networking.k8s.io",
    "node.k8s.io", "nodeinfo.volcano.sh", "policy", "resource.k8s.io", "scheduling.k8s.io", "scheduling.volcano.sh",
    "shard.volcano.sh", "storage.k8s.io", "topology.volcano.sh", "training.volcano.sh",
)  # fmt: skip
ROLES_PATH: Final = f"/apis/{_RBAC}/v1/clusterroles"
BINDINGS_PATH: Final = f"/apis/{_RBAC}/v1/clusterrolebindings"


def role() -> Json:
    """All rights but those to Events."""
    rules = [
        {"apiGroups": [""], "resources": list(_CORE), "verbs": ["*"]},
        {"apiGroups": list(_OTHER_GROUPS), "resources": ["*"], "verbs": ["*"]},
    ]
    return {"metadata": {"name": USER}, "rules": rules}


def binding() -> Json:
    """The role's to the user."""
    subject = {"apiGroup": _RBAC, "kind": "User", "name": USER}
    return {
        "metadata": {"name": USER},
        "subjects": [subject],
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": USER},
    }
