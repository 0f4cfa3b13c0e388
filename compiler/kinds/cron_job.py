"""CronJob of Kubernetes (batch/v1) and of Volcano (batch.volcano.sh): Jobs that come and go by the clock.

The next Job is not known before it exists, so none is bound; pods that run count where they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from compiler.kinds.common.job_kinds import Count, JobKind, RolePaths, gang_spec, job_kind
from compiler.kinds.kind import Kind
from compiler.specs.gang_spec import GangSpec
from compiler.specs.services import unbound
from compiler.syntax.documents import Document

_TASKS = "spec.jobTemplate.spec.tasks[]"
TABLES = (
    JobKind(
        "CronJob",
        "batch",
        ("v1",),
        (RolePaths("spec.jobTemplate.spec.template", replicas=(Count("spec.jobTemplate.spec.parallelism"),)),),
        suspend=("spec.suspend",),
    ),
    JobKind(
        "CronJob",
        "batch.volcano.sh",
        ("v1alpha1",),
        (RolePaths(f"{_TASKS}.template", name_path=f"{_TASKS}.name", replicas=(Count(f"{_TASKS}.replicas"),)),),
        queue=("spec.jobTemplate.spec.queue",),
        priority=("spec.jobTemplate.spec.priorityClassName",),
        suspend=("spec.suspend",),
        scheduler="spec.jobTemplate.spec.schedulerName",
        is_volcano_default=True,
    ),
)


def _cron_job(table: JobKind) -> Kind:
    def specs(document: Document, model: Any) -> Iterable[GangSpec]:
        gang = gang_spec(table, document)
        suspended = document.value_at("spec").get("suspend") is True
        made = gang if suspended else unbound(gang)
        yield made.with_controller(marks_pods=False).with_scheduling(is_recurring=True)

    return replace(job_kind(table), is_foreign=False, specs=specs, unbound_reason="its Jobs are made by the clock")


KINDS = tuple(map(_cron_job, TABLES))
