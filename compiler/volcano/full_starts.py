"""Jobs and subgroups that Volcano starts with all their pods or not at all, whatever their minima are; and jobs that
get no pods before its action enqueue lets them in."""

from __future__ import annotations

from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.gang_spec import GangSpec, SubgroupSpec


def starts_in_full(gang: GangSpec, scheduler: SchedulerSpec | None) -> bool:
    """Return whether the gang, while no pod of it runs, needs a domain with room for all replicas.

    network-topology-aware admits a job with a hard topology to a hypernode only if the idle room there holds all its
    pending pods, including those above the minima and gated ones, so that a smaller start would never be bound. It
    compares sums of all nodes there, so that a gang may start with less where its pods cannot use some of them. Source:
    hyperNodeGradientFn of pkg/scheduler/plugins/network-topology-aware, GetMinResources of SubJobInfo (v1.15); seen on
    the real one.
    """
    hard = gang.topology is not None and gang.topology.mode == "hard" and not gang.subgroups
    return hard and _is_topology_aware(scheduler)


def subgroup_starts_in_full(subgroup: SubgroupSpec, scheduler: SchedulerSpec | None) -> bool:
    """The same of a subgroup, by the same rule, while none of its pods runs."""
    return subgroup.topology.mode == "hard" and _is_topology_aware(scheduler)


def _is_topology_aware(scheduler: SchedulerSpec | None) -> bool:
    return scheduler is not None and scheduler.plugin("network-topology-aware") is not None


def has_lower_minima(gang: GangSpec) -> bool:
    """Return whether the gang is declared to start with less than all its replicas."""
    replicas = sum(role.replicas for role in gang.roles)
    return gang.minimum < replicas and any(role.minimum < role.replicas for role in gang.roles)


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
