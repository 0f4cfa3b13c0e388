"""Gangs of the specs as gangs of the problem.

Of subgroups of bare PodGroups, those that a gang needs, with how many pods, and which must each lie in one domain.
Volcano (reference: 4.2 and 4.8): a subgroup is ready with `subGroupSize` of its pods, `minSubGroups` of a policy must
be ready, and all pods of one lie inside one domain of its tier. A subgroup of the problem has a fixed size. So one that
may start with fewer pods than it has becomes minima of its roles and a pod rule for its domain; of interchangeable
subgroups the first are needed, running ones before all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement

from compiler.cluster_state.observed import ObservedState
from compiler.kubernetes import TASK_AFFINITY_ANNOTATION, TASK_ANTI_AFFINITY_ANNOTATION, annotations_of
from compiler.lower.inputs import LoweringInputs, age_ranks, class_priorities, gang_times
from compiler.lower.pod_relations import LoweredRules
from compiler.lower.queues import lower_policy
from compiler.lower.resources import vector
from compiler.lower.slot_groups import SlotGroups
from compiler.lower.topology import TierNames, leaf_by_node, lower_hypernodes
from compiler.lower.victims import eviction_terms, non_preempting_classes
from compiler.run_kinds import PLANNED_RUN_KINDS, run_kind_of
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.eligibility import NearKinds, NodeClasses, node_requirement
from compiler.specs.gang_spec import GangSpec, RoleSpec, SubgroupSpec, TopologySpec
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.volcano.full_starts import has_lower_minima, is_enqueued_first, starts_in_full, subgroup_starts_in_full
from compiler.volcano.metax import requesting_annotation
from compiler.volcano.task_topology import task_groups, wrong_names
from solver.problem import ClusterEntry, EvictionTerms, Gang, Placement, PodRule, Role, SlotHold, Subgroup


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


RunningPods = Mapping[tuple[int, int], int]
"""(Role, node) -> pods."""

NO_TOPOLOGY_LIMIT = TopologySpec("soft")


@dataclass(frozen=True, slots=True)
class SubgroupDemand:
    """subgroups: as in the spec, index by index. minimum: of the gang. role_minima: role -> its minimum.
    single_domain_subgroups: subgroups that must lie in one domain each although `subgroups` does not require it.
    over_constrained: the gang is held to more than Volcano holds it to."""

    subgroups: tuple[SubgroupSpec, ...]
    minimum: int
    role_minima: Mapping[int, int] = field(default_factory=dict)
    single_domain_subgroups: tuple[int, ...] = ()
    over_constrained: bool = False


def subgroup_demand(spec: GangSpec, running: RunningPods, scheduler: SchedulerSpec | None = None) -> SubgroupDemand:
    """Return the requirements of a gang's subgroups. Only those of PodGroups have a policy that needs
    interpretation."""
    if not spec.subgroups:
        return SubgroupDemand((), spec.minimum)
    running_roles = {t for t, _ in running}
    bound = (s for s, subgroup in enumerate(spec.subgroups) if subgroup_starts_in_full(subgroup, scheduler))
    starting_whole = [s for s in bound if running_roles.isdisjoint(_subgroup_roles(spec, s))]
    # Volcano requires idle room in sum, on any nodes, and then starts the needed pods.
    is_stricter = any(0 < spec.subgroups[s].ready_pods < spec.subgroups[s].size for s in starting_whole)
    spec = replace(spec, subgroups=_with_full_starts(spec.subgroups, starting_whole))
    demand = SubgroupDemand(spec.subgroups, spec.minimum, over_constrained=is_stricter)
    for path in dict.fromkeys(subgroup.path for subgroup in spec.subgroups if subgroup.ready_pods):
        indices = [s for s, subgroup in enumerate(spec.subgroups) if subgroup.path == path]
        demand = _with_policy_demand(spec, running, demand, indices)
    return demand


def _with_full_starts(subgroups: tuple[SubgroupSpec, ...], whole: Sequence[int]) -> tuple[SubgroupSpec, ...]:
    """Return the subgroups, where these are ready with all their pods only; those with too few pods to be ready stay
    so."""
    return tuple(
        replace(subgroup, ready_pods=max(subgroup.ready_pods, subgroup.size))
        if s in whole and subgroup.ready_pods
        else subgroup
        for s, subgroup in enumerate(subgroups)
    )


def _with_policy_demand(
    spec: GangSpec, running: RunningPods, demand: SubgroupDemand, indices: Sequence[int]
) -> SubgroupDemand:
    """Add one policy's subgroups, indices into the gang's. Those with too few pods to be ready count only without any
    others (GP363 warns)."""
    min_ready = spec.subgroups[indices[0]].min_ready_subgroups
    able = [s for s in indices if spec.subgroups[s].size >= spec.subgroups[s].ready_pods]
    if min_ready < len(able) and _pods_count_subgroups(spec, indices):
        optional = {s: replace(spec.subgroups[s], minimum=0) for s in indices}
        ready_pods = spec.subgroups[indices[0]].ready_pods
        return replace(_with_subgroups(demand, optional), minimum=max(demand.minimum, min_ready * ready_pods))
    roles = {s: _subgroup_roles(spec, s) for s in indices}
    running_pods = {s: sum(pods for (t, _), pods in running.items() if t in roles[s]) for s in indices}
    by_need = [*sorted(able, key=lambda s: -running_pods[s]), *(s for s in indices if s not in able)]
    needed = by_need[:min_ready]
    is_choice_open = any(running_pods.values()) or len({_interchange_key(spec, s) for s in able}) > 1
    over_constrained = demand.over_constrained or (len(needed) < len(able) and is_choice_open)
    lowered, role_minima, single_domain = {}, dict(demand.role_minima), list(demand.single_domain_subgroups)
    for s in indices:
        subgroup, ready_pods = spec.subgroups[s], spec.subgroups[s].ready_pods
        lowered[s] = _lowered_subgroup(subgroup, needed=s in needed)
        if s in needed:
            for t, pods in _distributed_pods(spec, roles[s], min(ready_pods, subgroup.size)):
                role_minima[t] = max(role_minima.get(t, 0), pods)
        if subgroup.size > ready_pods and s in needed:
            over_constrained |= len(roles[s]) > 1
        elif subgroup.size > ready_pods:
            over_constrained |= lowered[s].size > 1 and max(1, demand.minimum) > min_ready * ready_pods
        if lowered[s].topology is NO_TOPOLOGY_LIMIT and subgroup.topology.mode == "hard":
            single_domain.append(s)
    return replace(
        _with_subgroups(demand, lowered),
        role_minima=role_minima,
        single_domain_subgroups=tuple(single_domain),
        over_constrained=over_constrained,
    )


def _lowered_subgroup(subgroup: SubgroupSpec, *, needed: bool) -> SubgroupSpec:
    """Return a needed subgroup grows pod by pod above its roles' minima. Another one grows by what makes it ready or,
    where that does not divide its size, starts with all pods at once."""
    if subgroup.size <= subgroup.ready_pods:
        return replace(subgroup, minimum=int(needed))
    unit = 1 if needed else subgroup.ready_pods
    if subgroup.size % unit:
        return replace(subgroup, minimum=0)
    return replace(subgroup, size=unit, minimum=0, topology=NO_TOPOLOGY_LIMIT)


def _pods_count_subgroups(spec: GangSpec, indices: Sequence[int]) -> bool:
    """Return whether the number of the gang's pods determines how many of these subgroups have started: each has
    exactly its ready size, the same for all, and no pods are outside."""
    inside = {name for s in indices for name in spec.subgroups[s].roles}
    are_exact = all(spec.subgroups[s].size == spec.subgroups[s].ready_pods for s in indices)
    are_equal = len({spec.subgroups[s].ready_pods for s in indices}) == 1
    return are_exact and are_equal and all(role.name in inside for role in spec.roles)


def _subgroup_roles(spec: GangSpec, s: int) -> list[int]:
    return [t for t, role in enumerate(spec.roles) if role.name in spec.subgroups[s].roles]


def _distributed_pods(spec: GangSpec, roles: Sequence[int], pods: int) -> Iterator[tuple[int, int]]:
    """(role, how many of the pods), the first roles taking most."""
    for t in roles:
        some = min(pods, spec.roles[t].replicas)
        pods -= some
        yield t, some


def _interchange_key(spec: GangSpec, s: int) -> object:
    """Equal for interchangeable subgroups; of a gang with pod rules none are."""
    if any(role.pod.pod_rules for role in spec.roles):
        return s
    return frozenset(Counter(_role_key(spec.roles[t]) for t in _subgroup_roles(spec, s)).items())


def _role_key(role: RoleSpec) -> object:
    pod = role.pod
    requests = tuple(sorted(pod.requests.items()))
    return requests, pod.vgpu_requests, node_requirement(pod), role.replicas, role.minimum


def _with_subgroups(demand: SubgroupDemand, subgroups: Mapping[int, SubgroupSpec]) -> SubgroupDemand:
    return replace(demand, subgroups=tuple(subgroups.get(s, part) for s, part in enumerate(demand.subgroups)))


def with_subgroup_rules(
    rules: LoweredRules, gangs: Sequence[GangSpec], demands: Sequence[SubgroupDemand], observed: ObservedState
) -> LoweredRules:
    """Return the rules, and after them one for each single-domain subgroup: its pods share a domain of its tier."""
    tiers = TierNames(observed.hypernodes)
    pod_rules, rules_of_role = list(rules.pod_rules), dict(rules.rules_of_role)
    subgroup_of_rule: dict[int, tuple[int, int]] = {}
    texts: list[str] = []
    rule_of_tier: dict[int, PodRule] = {}
    for j, (spec, demand) in enumerate(zip(gangs, demands, strict=True)):
        for s in demand.single_domain_subgroups:
            tier = tiers.lower_topology(spec.subgroups[s].topology).tier
            if tier >= tiers.root_tier:
                continue
            if tier not in rule_of_tier:
                rule_of_tier[tier] = _single_domain_rule(observed, tier)
            number = len(pod_rules)
            for t in _subgroup_roles(spec, s):
                owned, selecting = rules_of_role.get((j, t), ((), ()))
                rules_of_role[j, t] = (*owned, number), (*selecting, number)
            pod_rules.append(rule_of_tier[tier])
            subgroup_of_rule[number] = j, s
            texts.append(f"inside one tier-{tier} domain")
    return LoweredRules(tuple(pod_rules), rules_of_role, rules.origins.followed_by(texts, subgroups=subgroup_of_rule))


def _single_domain_rule(observed: ObservedState, tier: int) -> PodRule:
    domains = _domain_by_node(observed.hypernodes, observed.nodes, tier)
    count = len({domain for domain in domains if domain is not None})
    return PodRule("affinity", domains, (0,) * count, own_gang_only=True)


def _domain_by_node(
    hypernode_specs: Sequence[HyperNodeSpec], nodes: Sequence[NodeSpec], tier: int
) -> tuple[int | None, ...]:
    """Node -> its highest domain of a tier up to this one, numbered by their first nodes."""
    hypernodes, leaf = lower_hypernodes(hypernode_specs), leaf_by_node(hypernode_specs)

    def domain(h: int | None) -> int | None:
        if h is None or hypernodes[h].tier > tier:
            return None
        while (parent := hypernodes[h].parent) is not None and hypernodes[parent].tier <= tier:
            h = parent
        return h

    found = [domain(leaf.get(node.name)) for node in nodes]
    number = {h: d for d, h in enumerate(dict.fromkeys(h for h in found if h is not None))}
    return tuple(None if h is None else number[h] for h in found)
