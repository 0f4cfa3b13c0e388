"""A pod's relation to its gang (whether it has ended, its role, its number), and how Volcano's objects are
recognized."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from compiler.fields.texts import whole_number
from compiler.kubernetes import (
    GROUP_INDEX_LABELS,
    GROUP_NAME_ANNOTATION,
    INDEX_LABELS,
    ROLE_KEYS,
    VOLCANO_GROUP_NAME_ANNOTATION,
    annotations_of,
    is_finished_pod,
    is_terminating,
    labels_of,
    name_of,
    uid_of,
)
from compiler.volcano.scheduler_conf import CONF_KEY
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Object, Ref, ref_of


def has_ended(pod: Object) -> bool:
    """Return whether the pod runs no more, or is on its way out."""
    return is_finished_pod(pod) or is_terminating(pod)


def role_of(pod: Object, gang: PlannedGang) -> str | None:
    """Return the pod's role: by our mark or the job controller's label or annotation, case aside; the one role of a job
    that has only one."""
    roles = tuple(gang.pods)
    for key in ROLE_KEYS:
        if value := labels_of(pod).get(key) or annotations_of(pod).get(key):
            return next((role for role in roles if role.lower() == value.lower()), None)
    return roles[0] if len(roles) == 1 and not gang.has_helpers else None


def index_of(pod: Object) -> tuple[int, int, str]:
    """Return the number of the pod's group, if it has one, and its number within its role; then its name."""
    groups = (str(labels_of(pod).get(key, "")) for key in GROUP_INDEX_LABELS)
    indices = (labels_of(pod).get(key) or annotations_of(pod).get(key) or "" for key in INDEX_LABELS)
    at_end = re.search(r"\d+$", name_of(pod))
    numbers = (*indices, at_end[0] if at_end else "0")
    return _first_number(groups), _first_number(numbers), name_of(pod)


def _first_number(texts: Iterable[str]) -> int:
    return next((number for number in map(whole_number, texts) if number is not None), 0)


VOLCANO_JOB, POD_GROUP = "Job.batch.volcano.sh", "PodGroup.scheduling.volcano.sh"
"""Group kinds."""


def pod_group_key(job: Object) -> str:
    """Return Ref.key of the PodGroup that the controller makes for a Volcano Job."""
    name = f"{name_of(job)}-{uid_of(job)}"
    return Ref("scheduling.volcano.sh/v1beta1", "PodGroup", ref_of(job).namespace, name).key


def group_key_of(pod: Object) -> str:
    """Return Ref.key of the PodGroup that the pod names; empty where it names none."""
    annotations = annotations_of(pod)
    name = annotations.get(GROUP_NAME_ANNOTATION) or annotations.get(VOLCANO_GROUP_NAME_ANNOTATION)
    return Ref("scheduling.volcano.sh/v1beta1", "PodGroup", ref_of(pod).namespace, name).key if name else ""


def scheduler_text(item: Object | None) -> str:
    """Return the scheduler's configuration in a ConfigMap; empty where it holds none."""
    data = (item or {}).get("data")
    return str(data.get(CONF_KEY) or "") if isinstance(data, Mapping) else ""
