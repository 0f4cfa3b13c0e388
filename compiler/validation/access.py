"""Who may do what: Roles, their bindings, and what Kubernetes wants of them (pkg/apis/rbac/validation)."""

from __future__ import annotations

from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation.judge import Judge, items, mapping, values

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("Group", "ServiceAccount", "User")


def access(judge: Judge, kind: str, data: dict[str, Any]) -> None:
    """An object of a kind of the group."""
    is_of_cluster = kind.startswith("Cluster")
    if kind in ("Role", "ClusterRole"):
        for number, rule in items(data, "rules"):
            _rule(judge, rule, ("rules", number), is_of_cluster)
    else:
        _binding(judge, data, is_of_cluster)


def _rule(judge: Judge, rule: dict[str, Any], path: FieldPath, is_of_cluster: bool) -> None:
    wanted = ["verbs"]
    if not values(rule, "nonResourceURLs"):
        wanted += ["apiGroups", "resources"]
    elif not is_of_cluster:
        judge.contradiction((*path, "nonResourceURLs"), "a Role says nothing of them", "use a ClusterRole")
    elif any(values(rule, key) for key in ("apiGroups", "resources", "resourceNames")):
        judge.contradiction(path, "resources and nonResourceURLs exclude one another", "make two rules of it")
    for key in wanted:
        if not values(rule, key):
            judge.missing((*path, key), 'add it, such as [""] for the core group' if key == "apiGroups" else "add it")


def _binding(judge: Judge, data: dict[str, Any], is_of_cluster: bool) -> None:
    role = mapping(data, "roleRef")
    if role and not role.get("name"):
        judge.missing(("roleRef", "name"))
    judge.choice(("roleRef", "kind"), role.get("kind"), ("ClusterRole",) if is_of_cluster else ("ClusterRole", "Role"))
    judge.choice(("roleRef", "apiGroup"), role.get("apiGroup"), (GROUP,))
    for number, subject in items(data, "subjects"):
        path: FieldPath = ("subjects", number)
        judge.choice((*path, "kind"), subject.get("kind"), _SUBJECTS)
        if not subject.get("name"):
            judge.missing((*path, "name"))
        if subject.get("kind") == "ServiceAccount" and is_of_cluster and not subject.get("namespace"):
            judge.missing((*path, "namespace"), "add it: the account is in one")
        if group := subject.get("apiGroup"):
            judge.choice((*path, "apiGroup"), group, ("",) if subject.get("kind") == "ServiceAccount" else (GROUP,))
