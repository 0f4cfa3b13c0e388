"""Volcano's HyperJob (training.volcano.sh/v1alpha1): Volcano Jobs for several clusters.

volcano-global's controller makes `replicas` Jobs `hyperjob-name-number` of each replicated Job and gives each to one
cluster, of `clusterNames` where there are some. Which one is decided there, and not by a plan, so that none is bound:
each cluster that may get a Job keeps room for it. Nothing reads `minAvailable`, `maxDomains` and `splitPolicy` yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.kinds.common.job_kinds import gang_spec, job_kind, job_row
from compiler.kinds.common.jobs import not_bound_diagnostic
from compiler.kinds.kind import Kind
from compiler.kubernetes import TASK_LABEL
from compiler.specs.cluster_spec import ClusterSpec
from compiler.specs.drafts import HyperJobDraft
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.services import unbound
from compiler.syntax.documents import Document

TABLE = job_row("HyperJob.training.volcano.sh", labels=lambda document, role: {TASK_LABEL: role})
WHY = "volcano-global chooses the cluster of each of its Jobs"


def _specs(document: Document, model: Any) -> Iterable[HyperJobDraft]:
    if (gang := gang_spec(TABLE, document)).roles:
        yield HyperJobDraft(replace(gang, roles=tuple(_with_job_name(role, document) for role in gang.roles)))


def _with_job_name(role: RoleSpec, document: Document) -> RoleSpec:
    """Return the role with the name of its replicated Job before its own, of which there may be one in each."""
    return replace(role, name=f"{_replicated_job(role, document).get('name')}-{role.name}")


def _replicated_job(role: RoleSpec, document: Document) -> dict[str, Any]:
    found: dict[str, Any] = document.value_at(*role.template_path[:3])
    return found


def hyper_job_gang(draft: HyperJobDraft, cluster: ClusterSpec) -> GangSpec | None:
    """Return the Jobs that may run in the cluster; None where all are for others."""
    document = draft.gang.document
    roles, queues, priorities = [], {}, []
    for role in draft.gang.roles:
        job = _replicated_job(role, document)
        if cluster.name in (job.get("clusterNames") or (cluster.name,)):
            template = job["templateSpec"]
            roles.append(role)
            queues[template.get("queue") or cluster.default_queue] = (*role.template_path[:4], "queue")
            priorities.append(template.get("priorityClassName"))
    if not roles:
        return None
    queue, path = next(iter(queues.items())) if len(queues) == 1 else ("", ("spec", "replicatedJobs"))
    return unbound(
        replace(
            draft.gang,
            roles=tuple(roles),
            queue=queue,
            priority_class=next(filter(None, priorities), None),
            field_paths={**draft.gang.field_paths, "queue": path},
        )
    )


def hyper_job_diagnostic(draft: HyperJobDraft) -> Diagnostic:
    return not_bound_diagnostic(draft.gang.document, WHY)


KIND: Kind = replace(job_kind(TABLE), specs=_specs)
