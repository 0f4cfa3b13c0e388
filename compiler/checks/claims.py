"""Checks of the device claims (DRA) that pods name."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.checks.check import CheckInput, Finding, check
from compiler.diagnostics.diagnostic import did_you_mean, suggestion
from compiler.syntax.paths import value_at
from compiler.validation.judge import items

_NAMED = {"resourceClaimTemplateName": "ResourceClaimTemplate", "resourceClaimName": "ResourceClaim"}
"""Field of a claim of a pod -> the kind of the object that it names."""


@check("GP359", "unknown device claim", "warning", folds=True)
def unknown_claims(check_input: CheckInput) -> Iterator[Finding]:
    """A pod names a ResourceClaim or ResourceClaimTemplate that the repository does not have, and nearly one that it
    has in the same namespace: without it the pod is never scheduled. Fix: correct the name."""
    known: dict[tuple[str, str], set[str]] = {}
    for document in check_input.specs.documents:
        if document.group == "resource.k8s.io":
            known.setdefault((document.kind, document.namespace or "default"), set()).add(document.name)
    for gang in check_input.jobs_and_services if known else ():
        for role in gang.roles:
            document, path = gang.pod_spec_of(role)
            for number, claim in items(value_at(document.data, path), "resourceClaims"):
                for field, kind in _NAMED.items():
                    names, name = known.get((kind, gang.namespace), set()), claim.get(field)
                    if isinstance(name, str) and name not in names and did_you_mean(name, names):
                        at = (*path, "resourceClaims", number, field)
                        yield Finding(document, at, f"there is no {kind} {name!r}", suggestion(name, names, ""))
