"""Sensitive objects: they give power over the cluster, or hold secrets. A repository with many writers should hold
none."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.kubernetes import SYSTEM_NAMESPACES
from compiler.syntax.documents import Document

POWER = declare_rule("GP221", "warning")
_GROUPS = {
    "rbac.authorization.k8s.io": "decides who may do what",
    "admissionregistration.k8s.io": "decides what the API server takes",
    "apiextensions.k8s.io": "defines kinds for the whole cluster",
    "apiregistration.k8s.io": "answers for the API server",
    "certificates.k8s.io": "makes identities",
}


def sensitive_object_diagnostics(document: Document) -> Iterator[Diagnostic]:
    """Yield the warning that the object gives power over the cluster or holds a secret, one at most."""
    help = "install it by other means"
    name, kind = document.display_name, (document.kind, document.group)
    if document.group in _GROUPS:
        yield document.diagnostic(POWER, ("kind",), f"{name} {_GROUPS[document.group]}", help)
    elif kind == ("Secret", ""):
        yield document.diagnostic(POWER, ("kind",), f"{name}: all who read the repository read it", help)
    elif kind == ("ConfigMap", "") and document.metadata.get("namespace") in SYSTEM_NAMESPACES:
        message = f"{name} is in a namespace of the cluster's own, where the reconciler may write none"
        yield document.diagnostic(POWER, ("metadata", "namespace"), message, help)
