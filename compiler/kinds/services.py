"""Kubernetes' Deployment, StatefulSet, ReplicaSet (apps/v1) and ReplicationController (v1): services that run next to
the training jobs; and DaemonSet, whose pods are on each node that they match.

`Cluster.spec.services` decides which of them are bound to the plan's nodes. Their pods start one by one. A rolling
update or an autoscaler may create more pods than `replicas`: existing ones are planned as well, as there is room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from compiler.kinds.common.job_kinds import gang_spec, job_kind, job_row
from compiler.kinds.common.jobs import (
    annotation_value,
    is_gang,
    with_annotated_minimum,
    with_annotated_queue,
    with_annotated_topology,
)
from compiler.kinds.kind import Kind, kinds_in
from compiler.kubernetes import QUEUE_NAME_ANNOTATION, VOLCANO_SCHEDULER
from compiler.specs.gang_spec import GangSpec
from compiler.specs.services import ServiceDraft, unbound
from compiler.syntax.documents import Document


def _amend(gang: GangSpec) -> GangSpec:
    """Return a StatefulSet that makes its pods in order waits for each, so that no pod can wait for all of them."""
    spec = gang.document.data["spec"]
    is_ordered = gang.document.kind == "StatefulSet" and spec.get("podManagementPolicy") != "Parallel"
    comes_together = is_gang(gang.document) and not is_ordered
    late = () if comes_together else tuple(role.name for role in gang.roles)
    written = {role.name: role.replicas for role in gang.roles}
    if spec.get("volumeClaimTemplates"):
        gang = replace(gang, roles=tuple(role.with_volumes() for role in gang.roles))
    gang = with_annotated_topology(with_annotated_minimum(with_annotated_queue(gang)), is_one_group=True)
    return gang.with_controller(dependent_roles=late, written_pods=written)


def _is_asked_for(gang: GangSpec) -> bool:
    names_volcano = any(role.pod.scheduler_name == VOLCANO_SCHEDULER for role in gang.roles)
    return names_volcano or bool(gang.queue) or is_gang(gang.document)


def _service(key: str) -> Kind:
    table = job_row(key)

    def specs(document: Document, model: Any) -> Iterable[ServiceDraft]:
        if (gang := _amend(gang_spec(table, document))).roles:
            yield ServiceDraft(gang, _is_asked_for(gang))

    return replace(job_kind(table), specs=specs)


def _daemon_set() -> Kind:
    table = job_row("DaemonSet.apps")

    def specs(document: Document, model: Any) -> Iterable[GangSpec]:
        gang = gang_spec(table, document)
        queue = annotation_value(document, QUEUE_NAME_ANNOTATION)
        yield unbound(replace(gang, queue=queue if isinstance(queue, str) else ""))

    return replace(job_kind(table), specs=specs)


KINDS = (_daemon_set(), *(_service(key) for key in kinds_in("services") if key != "DaemonSet.apps"))
