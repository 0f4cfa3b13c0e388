"""Kthena's ModelServing (workload.serving.volcano.sh): `replicas` serving groups, each of the pods of its roles.

A role is an entry pod and its workers. With a gangPolicy or a networkTopology one serving group is the least that
serves, with `gangPolicy.minRoleReplicas` copies of its roles; the others grow as there is room. Without both kthena
creates no PodGroup (podgroupmanager, shouldCreatePodGroup): the pods start one by one. A PodGroup of kthena names no
queue, whatever the annotations are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import without_nulls
from compiler.kinds.common.job_kinds import job_kind, job_row, text_diagnostics_of
from compiler.kinds.common.jobs import NetworkTopology
from compiler.kinds.common.pod_rule_fields import POD_RULE_NOT_PLANNED
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.syntax.documents import Document
from compiler.syntax.paths import value_at

TEMPLATE_PATH = ("spec", "template")
MINIMA_PATH = (*TEMPLATE_PATH, "gangPolicy", "minRoleReplicas")
TOPOLOGY_PATH = (*TEMPLATE_PATH, "networkTopology", "groupPolicy")
_UNPLANNED = ("groupPolicy", "rolePolicy", "servingGroupAntiAffinity", "roleAffinity", "roleAntiAffinity")


def makes_pod_group(document: Document) -> bool:
    return any(value_at(document.data, (*TEMPLATE_PATH, key)) is not None for key in ("gangPolicy", "networkTopology"))


def _amend(gang: GangSpec) -> GangSpec:
    """Entries and workers of a role have names of their own, and a group's network topology is the gang's where there
    is only one group."""
    is_gang = makes_pod_group(gang.document)
    roles = tuple(
        replace(
            role,
            name=f"{role.name}-{'entry' if role.template_path[-1] == 'entryTemplate' else 'worker'}",
            minimum=_minimum(role, gang) if is_gang else 0,
        )
        for role in gang.roles
    )
    least = sum(role.minimum for role in roles) if is_gang else min(1, sum(role.replicas for role in roles))
    gang = replace(gang, minimum=least, queue="" if is_gang else gang.queue)
    topology = value_at(gang.document.data, TOPOLOGY_PATH)
    if not isinstance(topology, dict) or not _is_one_group(gang.document):
        return replace(gang, roles=roles)
    spec = NetworkTopology.model_validate(without_nulls(topology)).to_spec()
    return replace(gang, roles=roles, topology=spec, field_paths={**gang.field_paths, "topology": TOPOLOGY_PATH})


def _minimum(role: RoleSpec, gang: GangSpec) -> int:
    """Return the pods of the role in the copies that must start."""
    data = gang.document.data
    copies = value_at(data, (*role.template_path[:-1], "replicas"))
    least = value_at(data, (*MINIMA_PATH, role.name))
    has_both = isinstance(copies, int) and isinstance(least, int)
    return role.minimum // copies * least if has_both and 0 <= least < copies else role.minimum


TABLE = job_row("ModelServing.workload.serving.volcano.sh", amend=_amend)


def _text_diagnostics(document: Document) -> Iterator[Diagnostic]:
    """Yield GP219 for topology beyond a single group's, in either place that kthena had for it."""
    yield from text_diagnostics_of(TABLE, document)
    for section in ("networkTopology", "topologyAffinity"):
        at = ("spec", "template", section)
        written = value_at(document.data, at)
        for name in _UNPLANNED if isinstance(written, dict) else ():
            if _is_binding(written.get(name)) and not (name == "groupPolicy" and _is_one_group(document)):
                message = f"{name} is not planned: Volcano may refuse the planned nodes"
                help = "give each group a ModelServing of its own, or see that there is room"
                yield document.diagnostic(POD_RULE_NOT_PLANNED, (*at, name), message, help)


def _is_binding(value: Any) -> bool:
    """Return whether it has terms, or is a network topology that is not soft."""
    if not isinstance(value, dict):
        return False
    return bool(value.get("required") or value.get("preferred") or value.get("mode", "soft") != "soft")


def _is_one_group(document: Document) -> bool:
    return value_at(document.data, ("spec", "replicas")) in (None, 1)


KIND = replace(job_kind(TABLE), text_diagnostics=_text_diagnostics)
