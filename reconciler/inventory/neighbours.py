"""Other gangplans on the same cluster: two that do not share a lease would take each other's objects for their own.

An inventory in the cluster is the claim on it. It is found by its labels in any namespace, so a gangplan with another
`--cluster` or `--namespace` finds the first one's and does not start (docs/decisions/0018-fencing.md).
"""

from __future__ import annotations

from compiler.kubernetes import CLUSTER_LABEL, MANAGED_BY_LABEL, MEMORY_LABEL, created_at, labels_of, namespace_of
from reconciler.cluster.objects import FIELD_MANAGER, Object
from reconciler.inventory.store import InventoryStore


class OtherGangplanError(Exception):
    """Another gangplan keeps this cluster; this one must not start."""


def refuse_beside_another(store: InventoryStore) -> None:
    """Raise OtherGangplanError when another gangplan came first. Where both inventories exist, that of the older one
    decides, so that of two that start together one goes on."""
    configmaps = store.client.resource("v1", "ConfigMap")
    found, _ = store.client.list(configmaps, selector=f"{MANAGED_BY_LABEL}={FIELD_MANAGER}")
    claims = sorted(_claim(item) for item in found if _is_inventory(item))
    first = next(iter(claims), None)
    is_ours = first is not None and first[1:] == (store.namespace, store.cluster)
    if first is None or is_ours:
        return
    _, namespace, cluster = first
    raise OtherGangplanError(
        f"this cluster is kept by another gangplan: --cluster {cluster} --namespace {namespace}. Two of them would "
        f"take each other's objects for their own. If it is gone for good, delete ConfigMap {namespace}/"
        f"gangplan-{cluster}-inventory; its objects then stay where they are"
    )


def _is_inventory(item: Object) -> bool:
    return str(item["metadata"]["name"]) == f"gangplan-{_cluster_of(item)}-inventory"


def _cluster_of(item: Object) -> str:
    """A former gangplan gave its inventory the label of what a plan holds."""
    labels = labels_of(item)
    return labels.get(MEMORY_LABEL) or labels.get(CLUSTER_LABEL) or ""


def _claim(item: Object) -> tuple[str, str, str]:
    """The order of precedence of two inventories: when it was made, its namespace and the cluster's name."""
    return created_at(item), namespace_of(item), _cluster_of(item)
