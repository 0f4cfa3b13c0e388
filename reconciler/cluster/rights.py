"""RBAC permissions of a reconciler for the kinds of a repository, and the admission policies that narrow them.

RBAC cannot limit which field of a pod may be changed; a ValidatingAdmissionPolicy can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler import kubernetes as k8s
from compiler.rights import KindInUse
from reconciler.cluster.objects import FIELD_MANAGER, STATE_RESOURCES, Object

NAME = FIELD_MANAGER
READER = f"{NAME}-reader"
"""The account that may only read."""
NAMESPACE = "gangplan-system"

READ = ["list", "watch"]
WRITE = ["get", "list", "watch", "create", "patch", "delete"]
"""get: an object counts as deleted only when a get by name returns 404."""

RBAC_GROUP = "rbac.authorization.k8s.io"
ADMISSION_API = "admissionregistration.k8s.io/v1"


def install_name(namespace: str, account: str = NAME) -> str:
    """Return the name of the roles and policies of the gangplan in this namespace: one in a cluster has the plain
    name."""
    return account if namespace == NAMESPACE else f"{account}-{namespace}"


_OBSERVED = tuple((each.api_version.rpartition("/")[0], each.plural) for each in STATE_RESOURCES if each.kind != "Pod")
"""Counted by every plan, also where others made them, so read also where the repository holds none."""
_CLAIMS = ("", "persistentvolumeclaims")
"""Asked for by name, where the scheduler misses one."""


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def rights_at_start() -> list[Right]:
    """Return the permissions that every reconciler needs. One that is missing for a kind in the plan blocks only its
    objects."""
    rules = [*_cluster_rules(()), *_own_rules()]
    return [Right(verb, rule["apiGroups"][0], rule["resources"][0]) for rule in rules for verb in rule["verbs"]]


def plural_of(kind: str) -> str:
    """Return the resource of a kind, as Kubernetes' own tools form it."""
    name = kind.lower()
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return name + "es"
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    return name + "s"


def rbac_objects(kinds: Iterable[KindInUse], namespace: str = NAMESPACE) -> list[Object]:
    """Return ServiceAccount, roles and bindings for a reconciler of objects of these kinds."""
    in_use = sorted({*kinds})
    objects = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": namespace}},
        *_granted("ClusterRole", "", _cluster_rules(in_use), namespace),
        *_granted("Role", namespace, _own_rules(), namespace),
    ]
    for space in sorted({each.namespace for each in in_use if _is_config_map(each)} - {namespace}):
        rules = [_rule("", "configmaps", ["get", "create", "patch", "delete"])]
        objects += _granted("Role", space, rules, namespace)
    return objects


def reading_objects(kinds: Iterable[tuple[str, str]], namespace: str = NAMESPACE) -> list[Object]:
    """Return ServiceAccount, roles and bindings, without any verb that writes, to list objects of these kinds, (group,
    kind) each, and to read the scheduler's configuration."""
    rules = [_rule(group, plural_of(kind), ["list"]) for group, kind in sorted({*kinds})]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": READER, "namespace": namespace}},
        *_granted("ClusterRole", "", rules, namespace, READER),
        *_granted("Role", k8s.SCHEDULER_NAMESPACE, [_rule("", "configmaps", ["get", "list"])], namespace, READER),
    ]


def _is_config_map(each: KindInUse) -> bool:
    return (each.group, each.kind) == ("", "ConfigMap")


def _cluster_rules(kinds: Iterable[KindInUse]) -> list[Object]:
    written = {(each.group, plural_of(each.kind)) for each in kinds if not _is_config_map(each)}
    return [
        *(_rule(*observed, READ) for observed in _OBSERVED if observed not in written),
        _rule("", "pods", ["list", "watch", "patch"]),
        _rule("", "pods/eviction", ["create"]),
        _rule("", "events", ["list", "create"]),
        _rule("", "configmaps", READ),
        *([] if _CLAIMS in written else [_rule(*_CLAIMS, ["get"])]),
        *(_rule(group, resource, WRITE) for group, resource in sorted(written)),
    ]


def _own_rules() -> list[Object]:
    """Return the lease, and the ConfigMaps in which it remembers (inventory, status, a copy of the plan in force)."""
    return [
        _rule("coordination.k8s.io", "leases", ["get", "create", "update"]),
        _rule("", "configmaps", ["get", "list", "create", "update", "patch", "delete"]),
    ]


def _rule(group: str, resource: str, verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def _granted(kind: str, space: str, rules: list[Object], namespace: str, account: str = NAME) -> list[Object]:
    """Return a role in this space (empty: the cluster), and its binding to the account of the gangplan in
    `namespace`."""
    name = install_name(namespace, account)
    metadata = {"name": name, **({"namespace": space} if space else {})}
    bound = {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
    return [
        {"apiVersion": f"{RBAC_GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules},
        {"apiVersion": f"{RBAC_GROUP}/v1", "kind": f"{kind}Binding", "metadata": dict(metadata), **bound},
    ]


# --- admission

_NEW, _OLD = (f"{one}.metadata.?annotations.orValue({{}})" for one in ("object", "oldObject"))
_IS_OUR_ANNOTATION = f"key.startsWith('{k8s.ANNOTATION_PREFIX}') || key == '{k8s.TASK_PRIORITY_ANNOTATION}'"
_POD_RULES = (
    (
        "gangplan may lift only its own scheduling gate",
        "oldObject.spec.?schedulingGates.orValue([]).all(gate, "
        f"gate.name == '{k8s.SCHEDULING_GATE}' || "
        "object.spec.?schedulingGates.orValue([]).exists(other, other.name == gate.name))",
    ),
    (
        f"gangplan may add only {k8s.HOSTNAME_LABEL} to a pod's node selector",
        "object.spec.?nodeSelector.orValue({}).all(key, "
        f"key == '{k8s.HOSTNAME_LABEL}' || "
        "oldObject.spec.?nodeSelector.orValue({})[?key] == object.spec.?nodeSelector.orValue({})[?key]) && "
        "oldObject.spec.?nodeSelector.orValue({}).all(key, key in object.spec.?nodeSelector.orValue({}))",
    ),
    (
        "gangplan may change only its own annotations of a pod",
        f"{_NEW}.all(key, {_IS_OUR_ANNOTATION} || {_OLD}[?key] == {_NEW}[?key]) && "
        f"{_OLD}.all(key, {_IS_OUR_ANNOTATION} || key in {_NEW})",
    ),
    (
        "gangplan may change nothing else of a pod",
        " && ".join(
            f"object.{path} == oldObject.{path}"
            for path in (
                "metadata.?labels",
                "metadata.?finalizers",
                "metadata.?ownerReferences",
                "spec.containers",
                "spec.?initContainers",
                "spec.?tolerations",
                "spec.?affinity",
                "spec.?activeDeadlineSeconds",
                "spec.?terminationGracePeriodSeconds",
            )
        ),
    ),
)


def admission_objects(namespace: str = NAMESPACE) -> list[Object]:
    """Policies that bind the reconciler's account only, with their bindings."""
    marked = f"metadata.?labels[?'{k8s.CLUSTER_LABEL}'].hasValue()"
    system = ", ".join(f"'{name}'" for name in k8s.SYSTEM_NAMESPACES)
    config_map_rules = (
        ("gangplan may write no ConfigMap of the system's", f"!(request.namespace in [{system}])"),
        (
            "gangplan may write only ConfigMaps that a plan of it holds",
            f"request.namespace == '{namespace}' || (object != null && object.{marked}) || "
            f"(oldObject != null && oldObject.{marked})",
        ),
    )
    return [
        *_policy("pods", ["UPDATE"], _POD_RULES, namespace),
        *_policy("configmaps", ["CREATE", "UPDATE", "DELETE"], config_map_rules, namespace),
    ]


def _policy(resource: str, operations: list[str], rules: tuple[tuple[str, str], ...], namespace: str) -> list[Object]:
    """Return a policy that matches only requests that break a rule, and reports the rule.

    The API server converts old and new object into plain data once for the condition, and three times more for the
    rules and their messages of a matched request. That is most of the cost of lifting a gate. An error in the condition
    refuses.
    """
    name = f"{install_name(namespace)}-{resource}"
    account = f"system:serviceaccount:{namespace}:{NAME}"
    obeys = " && ".join(f"({expression})" for _, expression in rules)
    breach = f"request.userInfo.username == '{account}' && !({obeys})"
    matched = {"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConditions": [{"name": "breach-by-reconciler", "expression": breach}],
        "matchConstraints": {"resourceRules": [matched]},
        "validations": [{"expression": expression, "message": message} for message, expression in rules],
    }
    specs = {"": spec, "Binding": {"policyName": name, "validationActions": ["Deny"]}}
    return [
        {
            "apiVersion": ADMISSION_API,
            "kind": f"ValidatingAdmissionPolicy{suffix}",
            "metadata": {"name": name},
            "spec": spec,
        }
        for suffix, spec in specs.items()
    ]
