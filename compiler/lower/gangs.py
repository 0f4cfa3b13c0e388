"""Job documents -> gangs: priority, age, roles with the kinds of node open to them, subgroups, and the pods that run
already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.cluster_state.observed import ObservedState
from compiler.lower.device_slots import SlotGroups
from compiler.lower.eligibility import NodeClasses
from compiler.lower.resources import vector
from compiler.lower.subgroups import SubgroupDemand, subgroup_demand
from compiler.lower.task_topology import role_affinities
from compiler.lower.time import GangTimes
from compiler.lower.topology import TierNames
from compiler.specs import GangSpec, HyperNodeSpec, PriorityClassSpec, RoleSpec, SchedulerSpec
from compiler.volcano.metax import requesting_annotation
from solver.problem import Gang, Placement, Role, SlotHold, Subgroup

SYSTEM_PRIORITIES: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The two classes that every Kubernetes cluster has."""


class GangLowering:
    """Turns one gang after another into the problem's terms; holds what all of them share."""

    def __init__(
        self,
        resource_names: Sequence[str],
        queues: Mapping[str, int],
        nodes: Mapping[str, int],
        hypernodes: Sequence[HyperNodeSpec],
        node_classes: NodeClasses,
        slot_groups: SlotGroups,
        scheduler: SchedulerSpec | None = None,
    ) -> None:
        self.resource_names, self.queues, self.nodes, self.node_classes, self.slot_groups = (
            resource_names,
            queues,
            nodes,
            node_classes,
            slot_groups,
        )
        self.tiers = TierNames(hypernodes)
        self.scheduler = scheduler

    def lower_gang(
        self,
        spec: GangSpec,
        *,
        priority: int,
        age: int,
        running: Mapping[tuple[int, str], int],
        loss: int | None = None,
        may_evict: bool = True,
        slot_holds: tuple[SlotHold, ...] = (),
        times: GangTimes | None = None,
        demand: SubgroupDemand | None = None,
    ) -> Gang:
        """A gang of minimum 0 starts with its first pod: "starts" with none would say nothing. loss: None for one that
        may not be evicted."""
        demand = demand or subgroup_demand(spec, running)
        index = {role.name: t for t, role in enumerate(spec.roles)}
        times = times or GangTimes()
        return Gang(
            name=f"{spec.namespace}/{spec.document.name}",
            queue=self.queues[spec.queue],
            priority=priority,
            age=age,
            minimum=max(1, demand.minimum),
            roles=tuple(self.lower_role(role, demand.role_minima.get(t, 0)) for t, role in enumerate(spec.roles)),
            topology=self.tiers.lower_topology(spec.topology) if spec.topology else None,
            subgroups=tuple(
                Subgroup(
                    part.name,
                    tuple(index[name] for name in part.roles),
                    part.size,
                    part.minimum,
                    self.tiers.lower_topology(part.topology),
                    tier_is_editable=requesting_annotation(part) is None,
                )
                for part in demand.subgroups
            ),
            running=tuple(
                Placement(t, n, pods)
                for t, n, pods in sorted((t, self.nodes[name], pods) for (t, name), pods in running.items())
            ),
            evictable=loss is not None,
            loss=loss or 0,
            may_evict=may_evict,
            role_affinities=role_affinities(spec, self.scheduler),
            duration=times.duration,
            ends_in=times.ends_in,
            overdue=times.overdue,
            slot_holds=slot_holds,
            over_constrained=demand.over_constrained or self.slot_groups.is_over_constrained(spec),
        )

    def lower_role(self, spec: RoleSpec, minimum: int = 0) -> Role:
        """least: a minimum that its subgroups ask for."""
        kinds = self.node_classes.classes_by_requirement[self.slot_groups.node_requirement(spec.pod)]
        portions = self.slot_groups.slot_requests(spec.pod, self.resource_names)
        return Role(
            spec.name,
            spec.replicas,
            max(spec.minimum, minimum),
            vector(spec.pod.requests, self.resource_names),
            kinds,
            slot_requests=portions,
        )


def class_priorities(classes: Sequence[PriorityClassSpec]) -> tuple[Mapping[str, int], int]:
    """Value by class name, and the value of a job that names none: the global default's (the highest, if several claim
    to be it), else 0."""
    values = {**SYSTEM_PRIORITIES, **{spec.name: spec.value for spec in classes}}
    return values, max((spec.value for spec in classes if spec.global_default), default=0)


def submission_times(gangs: Sequence[GangSpec], live: ObservedState, dates: Mapping[str, int]) -> Mapping[int, int]:
    """Seconds since the epoch: what the job says, else when the cluster got it, else when the repository did."""
    known: dict[int, int] = {}
    for j, spec in enumerate(gangs):
        for time in (spec.submitted_at, live.creation_times.get(j), dates.get(spec.document.file)):
            if time is not None:
                known[j] = time
                break
    return known


def age_ranks(gangs: Sequence[GangSpec], times: Mapping[int, int]) -> Mapping[int, int]:
    """Ranks from 0, the oldest first; gangs of unknown age come last, and equal ones by name."""

    def order(j: int) -> tuple[bool, int, str, str, str]:
        spec = gangs[j]
        return j not in times, times.get(j, 0), spec.namespace, spec.document.name, spec.document.kind

    return {j: rank for rank, j in enumerate(sorted(range(len(gangs)), key=order))}
