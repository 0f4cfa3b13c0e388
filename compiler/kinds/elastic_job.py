"""DLRover's ElasticJob (elastic.iml.github.io).

Its master pod, which the operator makes where no role `dlrover-master` is written, creates the pods of all other roles
and scales them. They start together, or one by one with the annotation `gangplan.dev/gang: "false"`.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.kinds.common.job_kinds import job_kind, job_row
from compiler.kinds.common.jobs import annotation_value
from compiler.kubernetes import GANG_ANNOTATION
from compiler.specs.gang_spec import GangSpec

MASTER_ROLE = "dlrover-master"


def _amend(gang: GangSpec) -> GangSpec:
    """Return the master creates the others: their pods are there only once it runs."""
    others = tuple(role.name for role in gang.roles if role.name != MASTER_ROLE)
    has_master = len(others) < len(gang.roles)
    made = gang.with_controller(dependent_roles=others if has_master else ())
    if annotation_value(gang.document, GANG_ANNOTATION) != "false":
        return made
    roles = tuple(replace(role, minimum=0) for role in gang.roles)
    return replace(made, roles=roles, minimum=min(1, sum(role.replicas for role in roles)))


KIND = job_kind(job_row("ElasticJob.elastic.iml.github.io", amend=_amend))
