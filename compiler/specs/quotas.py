"""ResourceQuotas: what of the pods of a namespace they limit, and which pods they count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.fields.quantity import integer_amounts, read_quantity
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.syntax.paths import value_at

_PLAIN_KEYS: Mapping[str, str] = {"count/pods": "pods"}
_VOLCANO_GROUP = "batch.volcano.sh"
"""The priority class of a Volcano Job is that of its pods which name none."""
_CORE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")


def limited_amounts(hard: object) -> Iterator[tuple[str, str, int]]:
    """Yield (key, resource, amount) of limits on pods' requests in `hard`, or `used`."""
    for key, value in hard.items() if isinstance(hard, Mapping) else ():
        name = _PLAIN_KEYS.get(key, key.removeprefix("requests."))
        is_request = name in _CORE_RESOURCES or (key.startswith("requests.") and "/" in name)
        if is_request and (amount := read_quantity(value)) is not None:
            yield key, name, integer_amounts({name: amount}, "down")[name]


def has_scopes(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def counts_pods(spec: Mapping[str, Any], gang: GangSpec, role: RoleSpec, default_class: str | None) -> bool:
    """Return whether the quota is known to count the pods of a role: all of its scopes select them. default_class: the
    priority class of pods that name none."""
    rows = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    rows += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    return all(_selects(row, gang, role, default_class) for row in rows)


def _selects(row: Mapping[str, Any], gang: GangSpec, role: RoleSpec, default_class: str | None) -> bool:
    """Return whether a scope selects the role's pods: no for an unknown scope, or without a template."""
    pod = _pod_spec(gang, role)
    is_best_effort = not role.pod.requests.get("cpu") and not role.pod.requests.get("memory")
    match row.get("scopeName"):
        case "BestEffort":
            return is_best_effort
        case "NotBestEffort":
            return not is_best_effort
        case "Terminating":
            return pod is not None and pod.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return pod is not None and pod.get("activeDeadlineSeconds") is None
        case "PriorityClass" if pod is not None:
            of_job = gang.priority_class if gang.document.group == _VOLCANO_GROUP else None
            name = pod.get("priorityClassName") or of_job or default_class
            return name is not None and _holds(row, name)
    return False


def _pod_spec(gang: GangSpec, role: RoleSpec) -> Mapping[str, Any] | None:
    """Return the role's pod spec as written; None where its template is in no document."""
    document, path = gang.pod_spec_of(role)
    if role.new_template is not None:
        return None
    found = value_at(document.data, path)
    return found if isinstance(found, Mapping) else None


def _holds(row: Mapping[str, Any], name: str) -> bool:
    values = row.get("values") or ()
    match row.get("operator"):
        case "In":
            return name in values
        case "NotIn":
            return name not in values
    return row.get("operator") == "Exists"
