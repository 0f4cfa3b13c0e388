"""What Volcano makes of a job, by kind and name."""

from __future__ import annotations

from compiler.kubernetes import name_of, uid_of
from reconciler.cluster.objects import Object, Ref, ref_of

VOLCANO_JOB, POD_GROUP = "Job.batch.volcano.sh", "PodGroup.scheduling.volcano.sh"
"""Group kinds."""


def pod_group_key(job: Object) -> str:
    """Ref.key of the PodGroup that the controller makes for a Volcano Job."""
    name = f"{name_of(job)}-{uid_of(job)}"
    return Ref("scheduling.volcano.sh/v1beta1", "PodGroup", ref_of(job).namespace, name).key
