"""How objects of Volcano are told: by kind, by name, by content."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.kubernetes import name_of, uid_of
from compiler.volcano.scheduler_conf import CONF_KEY
from reconciler.cluster.objects import Object, Ref, ref_of

VOLCANO_JOB, POD_GROUP = "Job.batch.volcano.sh", "PodGroup.scheduling.volcano.sh"
"""Group kinds."""


def pod_group_key(job: Object) -> str:
    """Ref.key of the PodGroup that the controller makes for a Volcano Job."""
    name = f"{name_of(job)}-{uid_of(job)}"
    return Ref("scheduling.volcano.sh/v1beta1", "PodGroup", ref_of(job).namespace, name).key


def scheduler_text(item: Object | None) -> str:
    """The scheduler's configuration in a ConfigMap; empty where it holds none."""
    data = (item or {}).get("data")
    return str(data.get(CONF_KEY) or "") if isinstance(data, Mapping) else ""
