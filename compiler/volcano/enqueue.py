"""Jobs that get no pods before Volcano's action enqueue lets them in."""

from __future__ import annotations

from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.gang_spec import GangSpec


def is_enqueued_first(gang: GangSpec, scheduler: SchedulerSpec | None) -> bool:
    """Return whether the plugin proportion decides if the job gets pods, and requires as much as the gang's own minima.

    The controller creates the pods of a Volcano Job once its PodGroup is admitted; pods of other kinds exist already.
    Its minima are those of its tasks, in partitions or not; a job with a minimum below these may be admitted with less.
    Without a configuration Volcano's chart has both action and plugin. Source: JobEnqueueableFn of
    pkg/scheduler/plugins/proportion, calcPGMinResources of the job controller (v1.15).
    """
    if scheduler is not None:
        proportion = scheduler.plugin("proportion")
        if (
            proportion is None
            or "enqueue" not in scheduler.actions
            or not proportion.flags.get("enableJobEnqueued", True)
        ):
            return False
    is_plain = gang.minimum >= max(1, sum(role.minimum for role in gang.roles))
    return is_plain and gang.document.data.get("apiVersion") == "batch.volcano.sh/v1alpha1"
