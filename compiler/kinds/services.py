"""Kubernetes' Deployment, StatefulSet and ReplicaSet (apps/v1): services that run beside the training jobs.

They are planned only where they name Volcano as the scheduler of their pods, or are a gang by annotation: a gate in the
template changes how they are rolled out. Their pods start one by one. A rolling update must get by without room for
more pods than there are replicas, since none is planned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compiler.kinds import Kind
from compiler.kinds.common.annotated import is_gang, with_annotated_minimum, with_annotated_queue
from compiler.kinds.common.job_kinds import Count, JobKind, RolePaths, job_kind
from compiler.kinds.common.paths import value_at
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.specs import GangSpec
from compiler.syntax.documents import Document


def _amend(gang: GangSpec) -> GangSpec:
    """A StatefulSet that makes its pods in order waits for each, so that no pod can wait for all of them."""
    spec = gang.document.data["spec"]
    is_ordered = gang.document.kind == "StatefulSet" and spec.get("podManagementPolicy") != "Parallel"
    comes_together = is_gang(gang.document) and not is_ordered
    late = () if comes_together else tuple(role.name for role in gang.roles)
    return replace(with_annotated_minimum(with_annotated_queue(gang)), dependent_roles=late)


def is_planned(document: Document) -> bool:
    """Whether the object asks for it, says how many pods it has (else an autoscaler may), and rolls out in place."""
    data = document.data
    scheduler = value_at(data, ("spec", "template", "spec", "schedulerName"))
    is_asked_for = scheduler == VOLCANO_SCHEDULER or (not scheduler and is_gang(document))
    return is_asked_for and type(replicas := value_at(data, ("spec", "replicas"))) is int and _in_place(data, replicas)


def _in_place(data: Any, replicas: int) -> bool:
    """Whether a rolling update takes pods away before it needs room for new ones."""
    strategy = value_at(data, ("spec", "strategy")) or {}
    if data["kind"] != "Deployment" or strategy.get("type") == "Recreate":
        return True
    unavailable = value_at(strategy, ("rollingUpdate", "maxUnavailable"))
    text = str("25%" if unavailable is None else unavailable)
    number = text.removesuffix("%")
    if not (number.isascii() and number.isdigit()):
        return False
    return (replicas * int(number) // 100 if text.endswith("%") else int(number)) >= 1


def _service(name: str, *pod_owners: str) -> Kind:
    roles = RolePaths("spec.template", replicas=(Count("spec.replicas"),))
    table = JobKind(name, "apps", ("v1",), (roles,), gang="one", pod_owners=pod_owners, amend=_amend)
    return replace(job_kind(table), is_foreign=False, is_planned=is_planned)


KINDS = (_service("Deployment", "ReplicaSet.apps"), _service("ReplicaSet"), _service("StatefulSet"))
