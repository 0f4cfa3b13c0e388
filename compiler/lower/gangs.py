"""Gangs of the specs as gangs of the problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement

from compiler.kubernetes import TASK_AFFINITY_ANNOTATION, TASK_ANTI_AFFINITY_ANNOTATION, annotations_of
from compiler.lower.inputs import LoweringInputs, age_ranks, class_priorities, gang_times
from compiler.lower.queues import lower_policy
from compiler.lower.resources import vector
from compiler.lower.slot_groups import SlotGroups
from compiler.lower.subgroups import SubgroupDemand
from compiler.lower.topology import TierNames
from compiler.lower.victims import eviction_terms, non_preempting_classes
from compiler.run_kinds import PLANNED_RUN_KINDS, run_kind_of
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.eligibility import NearKinds, NodeClasses
from compiler.specs.gang_spec import GangSpec, RoleSpec, SubgroupSpec
from compiler.volcano.full_starts import has_lower_minima, is_enqueued_first, starts_in_full
from compiler.volcano.metax import requesting_annotation
from compiler.volcano.task_topology import task_groups, wrong_names
from solver.problem import ClusterEntry, EvictionTerms, Gang, Placement, Role, SlotHold, Subgroup


@dataclass(frozen=True)
class GangLowering:
    """Turns gangs into the problem's terms; holds what all of them share."""

    inputs: LoweringInputs
    resource_names: Sequence[str]
    queue_index: Mapping[str, int]
    node_classes: NodeClasses
    slot_groups: SlotGroups
    near_kinds: NearKinds

    @cached_property
    def _tiers(self) -> TierNames:
        return TierNames(self.inputs.observed.hypernodes)

    @cached_property
    def _node_indices(self) -> Mapping[str, int]:
        return {node.name: n for n, node in enumerate(self.inputs.observed.nodes)}

    @cached_property
    def _priorities(self) -> tuple[Mapping[str, int], int]:
        return class_priorities(self.inputs.specs.priority_classes)

    @cached_property
    def _ages(self) -> Mapping[int, int]:
        return age_ranks(self.inputs.specs.gangs, self.inputs.submission_times, self.inputs.turns)

    @cached_property
    def _share_may_bind(self) -> bool:
        """Return whether the plugin proportion divides the cluster between several queues."""
        specs = self.inputs.specs
        several = len({specs.gangs[j].queue for j in self.inputs.gang_indices}) > 1
        return several and lower_policy(specs.scheduler, specs.cluster.order).proportion

    @cached_property
    def _eviction_terms(self) -> Mapping[int, EvictionTerms]:
        return eviction_terms(self.inputs.gang_indices, self.inputs.specs, self.inputs.observed)

    @cached_property
    def _non_preempting(self) -> frozenset[str]:
        return non_preempting_classes(self.inputs.specs.priority_classes)

    def lower_gang(self, j: int, demand: SubgroupDemand, slot_holds: tuple[SlotHold, ...]) -> Gang:
        """Gang j of the specs. One of minimum 0 starts with its first pod: a start without pods would mean nothing."""
        specs, observed = self.inputs.specs, self.inputs.observed
        spec, (priorities, default_priority) = specs.gangs[j], self._priorities
        running = _placements(observed.running_pods.get(j, {}))
        is_whole = not running and starts_in_full(spec, specs.scheduler)
        if is_whole:
            all_pods = {t: role.replicas for t, role in enumerate(spec.roles)}
            # Volcano requires idle room in sum, on any nodes, and then starts the needed pods.
            is_stricter = demand.over_constrained or has_lower_minima(spec)
            minimum = sum(all_pods.values())
            demand = replace(demand, minimum=minimum, role_minima=all_pods, over_constrained=is_stricter)
        roles = tuple(self._lower_role(role, demand.role_minima.get(t, 0)) for t, role in enumerate(spec.roles))
        return Gang(
            name=f"{spec.namespace}/{spec.document.name}",
            queue=self.queue_index.get(observed.live_queue(j, spec), self.queue_index[spec.queue]),
            priority=priorities.get(spec.priority_class or "", default_priority),
            age=self._ages[j],
            minimum=max(1, demand.minimum),
            roles=roles,
            topology=self._tiers.lower_topology(spec.topology) if spec.topology else None,
            subgroups=tuple(self._lower_subgroup(subgroup, spec) for subgroup in demand.subgroups),
            running=running,
            former=self._former_places(j),
            slot_holds=slot_holds,
            growth_unit=tuple(role.unit for role in spec.roles) if spec.controller.grows_in_units else (),
            eviction=replace(
                self._eviction_terms.get(j, EvictionTerms()),
                may_lose_all=not demand.minimum and not any(role.minimum for role in roles),
                may_evict=spec.priority_class not in self._non_preempting
                and _enough_pods_may_evict(spec, roles, demand),
            ),
            times=gang_times(j, spec, observed, self.inputs.submission_times.get(j), specs.cluster.patience),
            entry=self._entry(j, is_whole),
            role_affinities=role_affinities(spec, specs.scheduler),
            over_constrained=demand.over_constrained or self.slot_groups.is_over_constrained(spec),
        )

    def _entry(self, j: int, is_whole: bool) -> ClusterEntry:
        """is_whole: it starts with all its pods at once."""
        spec, observed = self.inputs.specs.gangs[j], self.inputs.observed
        is_enqueued = not is_whole and is_enqueued_first(spec, self.inputs.specs.scheduler)
        is_planned = run_kind_of(spec.document.data) in PLANNED_RUN_KINDS
        return ClusterEntry(
            enqueued_first=is_enqueued and j not in observed.jobs.with_pods,
            may_be_held=self._share_may_bind and is_planned and j not in observed.jobs.present,
        )

    def _former_places(self, j: int) -> tuple[Placement, ...]:
        """Where the plan in force has its pods, on nodes and of roles that there still are; nothing where as many
        run."""
        spec, observed = self.inputs.specs.gangs[j], self.inputs.observed
        places = observed.jobs.former_places.get(spec.key)
        if not places or observed.running_pod_count(j) >= sum(sum(at.values()) for at in places.values()):
            return ()
        pods: dict[tuple[int, int], int] = {}
        for t, role in enumerate(spec.roles):
            for name, number in places.get(role.name, {}).items():
                if number > 0 and name in self._node_indices:
                    pods[t, self._node_indices[name]] = number
        return _placements(pods)

    def _lower_role(self, spec: RoleSpec, subgroup_minimum: int) -> Role:
        """subgroup_minimum: the pods that the subgroups need of this role."""
        classes = self.node_classes.classes_by_requirement[self.slot_groups.node_requirement(spec.pod)]
        return Role(
            spec.name,
            spec.replicas,
            max(spec.minimum, subgroup_minimum),
            vector(spec.pod.requests, self.resource_names),
            classes,
            near_kinds=self.near_kinds.of(spec.pod, classes),
            slot_requests=self.slot_groups.slot_requests(spec.pod, self.resource_names),
            names_nodes=spec.pod.names_nodes,
        )

    def _lower_subgroup(self, subgroup: SubgroupSpec, gang: GangSpec) -> Subgroup:
        index = {role.name: t for t, role in enumerate(gang.roles)}
        return Subgroup(
            subgroup.name,
            tuple(index[name] for name in subgroup.roles),
            subgroup.size,
            subgroup.minimum,
            self._tiers.lower_topology(subgroup.topology),
            tier_is_editable=requesting_annotation(subgroup) is None,
        )


def _enough_pods_may_evict(spec: GangSpec, roles: Sequence[Role], demand: SubgroupDemand) -> bool:
    """Return whether the minima can be met by pods that may have others evicted for them (not preemptionPolicy
    Never)."""
    may = 0
    for role, part in zip(roles, spec.roles, strict=True):
        if not part.pod.never_preempts:
            may += role.replicas
        elif role.minimum:
            return False
    return may >= max(1, demand.minimum)


def _placements(pods: Mapping[tuple[int, int], int]) -> tuple[Placement, ...]:
    """(role, node) -> pods, as the problem has it."""
    return tuple([Placement(t, n, number) for (t, n), number in sorted(pods.items())])


def role_affinities(gang: GangSpec, scheduler: SchedulerSpec | None) -> tuple[tuple[int, int, int], ...]:
    """(role, role, 1 or -1), where the plugin is on.

    As in the plugin: an unknown role, or one twice, in a group or in the order of the roles voids all groups; for a
    role with itself anti-affinity precedes affinity, between two roles affinity precedes.
    """
    if scheduler is None or not _is_enabled(scheduler):
        return ()
    index = {role.name: t for t, role in enumerate(gang.roles)}
    annotations = annotations_of(gang.document.data)
    if any(wrong_names(annotations, index)):
        return ()
    affinity = task_groups(annotations, TASK_AFFINITY_ANNOTATION)
    anti_affinity = task_groups(annotations, TASK_ANTI_AFFINITY_ANNOTATION)
    near, far = (
        {pair for group in groups for pair in _role_pairs(group, index)} for groups in (affinity, anti_affinity)
    )
    near -= {(a, b) for a, b in near & far if a == b}
    return tuple(sorted([(a, b, 1) for a, b in near] + [(a, b, -1) for a, b in far - near]))


def _is_enabled(scheduler: SchedulerSpec) -> bool:
    plugins = (plugin for tier in scheduler.tiers for plugin in tier)
    return any(plugin.name == "task-topology" and plugin.flags.get("enableNodeOrder", True) for plugin in plugins)


def _role_pairs(group: Sequence[str], index: Mapping[str, int]) -> Iterable[tuple[int, int]]:
    """Return the role with itself for a group of one, else each pair of its roles in order."""
    roles = sorted(index[name] for name in group if name)
    return combinations_with_replacement(roles, 2) if len(group) == 1 else combinations(roles, 2)
