"""Job documents -> gangs: priority, age, roles with the kinds of node open to them, subgroups, and the pods that run
already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.lower.device_slots import Divisions
from compiler.lower.eligibility import Eligibility
from compiler.lower.live import Live
from compiler.lower.origins import namespace_of
from compiler.lower.resources import vector
from compiler.lower.subgroups import Parts, settled
from compiler.lower.task_topology import affinities
from compiler.lower.time import Times
from compiler.lower.topology import Tiers
from compiler.specs import GangSpec, HyperNodeSpec, PriorityClassSpec, RoleSpec, SchedulerSpec
from compiler.volcano.metax import asked_by
from solver.problem import Gang, Hold, Placement, Role, Subgroup

SYSTEM_PRIORITIES: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The two classes that every Kubernetes cluster has."""


class GangLowering:
    """Turns one gang after another into the problem's terms; holds what all of them share."""

    def __init__(
        self,
        names: Sequence[str],
        queues: Mapping[str, int],
        nodes: Mapping[str, int],
        hypernodes: Sequence[HyperNodeSpec],
        open_to: Eligibility,
        parted: Divisions,
        scheduler: SchedulerSpec | None = None,
    ) -> None:
        self.names, self.queues, self.nodes, self.open_to, self.parted = names, queues, nodes, open_to, parted
        self.tiers = Tiers(hypernodes)
        self.scheduler = scheduler

    def gang(
        self,
        spec: GangSpec,
        *,
        priority: int,
        age: int,
        running: Mapping[tuple[int, str], int],
        loss: int | None = None,
        preempts: bool = True,
        holds: tuple[Hold, ...] = (),
        known: Times | None = None,
        parts: Parts | None = None,
    ) -> Gang:
        """A gang of minimum 0 starts with its first pod: "starts" with none would say nothing. loss: None for one that
        may not be evicted."""
        parts = parts or settled(spec, running)
        index = {role.name: t for t, role in enumerate(spec.roles)}
        known = known or Times()
        return Gang(
            name=f"{namespace_of(spec)}/{spec.document.name}",
            queue=self.queues[spec.queue],
            priority=priority,
            age=age,
            minimum=max(1, parts.minimum),
            roles=tuple(self.role(role, parts.least.get(t, 0)) for t, role in enumerate(spec.roles)),
            topology=self.tiers.topology(spec.topology) if spec.topology else None,
            subgroups=tuple(
                Subgroup(
                    part.name,
                    tuple(index[name] for name in part.roles),
                    part.size,
                    part.minimum,
                    self.tiers.topology(part.topology),
                    tiered=asked_by(part) is None,
                )
                for part in parts.subgroups
            ),
            running=tuple(
                Placement(t, n, pods)
                for t, n, pods in sorted((t, self.nodes[name], pods) for (t, name), pods in running.items())
            ),
            evictable=loss is not None,
            loss=loss or 0,
            preempts=preempts,
            affinities=affinities(spec, self.scheduler),
            duration=known.duration,
            ends=known.ends,
            overdue=known.overdue,
            holds=holds,
            narrowed=parts.narrowed or self.parted.narrowed(spec),
        )

    def role(self, spec: RoleSpec, least: int = 0) -> Role:
        """least: a minimum that its subgroups ask for."""
        kinds = self.open_to.of_requirement[self.parted.requirement(spec.pod)]
        portions = self.parted.portions(spec.pod, self.names)
        return Role(
            spec.name,
            spec.replicas,
            max(spec.minimum, least),
            vector(spec.pod.requests, self.names),
            kinds,
            portions=portions,
        )


def priorities(classes: Sequence[PriorityClassSpec]) -> tuple[Mapping[str, int], int]:
    """Value by class name, and the value of a job that names none: the global default's (the highest, if several claim
    to be it), else 0."""
    values = {**SYSTEM_PRIORITIES, **{spec.name: spec.value for spec in classes}}
    return values, max((spec.value for spec in classes if spec.global_default), default=0)


def submitted(gangs: Sequence[GangSpec], live: Live, dates: Mapping[str, int]) -> Mapping[int, int]:
    """Seconds since the epoch: what the job says, else when the cluster got it, else when the repository did."""
    known: dict[int, int] = {}
    for j, spec in enumerate(gangs):
        for time in (spec.submitted_at, live.created.get(j), dates.get(spec.document.file)):
            if time is not None:
                known[j] = time
                break
    return known


def ages(gangs: Sequence[GangSpec], times: Mapping[int, int]) -> Mapping[int, int]:
    """Ranks from 0, the oldest first; gangs of unknown age come last, and equal ones by name."""

    def order(j: int) -> tuple[bool, int, str, str, str]:
        spec = gangs[j]
        return j not in times, times.get(j, 0), namespace_of(spec), spec.document.name, spec.document.kind

    return {j: rank for rank, j in enumerate(sorted(range(len(gangs)), key=order))}
