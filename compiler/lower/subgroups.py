"""Subgroups of bare PodGroups: which a gang needs, with how many pods, and which must each lie in one domain.

Volcano (reference: 4.2 and 4.8): a subgroup is ready with `subGroupSize` of its pods, `minSubGroups` of a policy must
be ready, and all pods of one lie inside one domain of its tier. A subgroup of the problem has a fixed size. So one that
may start with fewer pods than it has becomes minima of its roles and a pod rule for its domain; of interchangeable
subgroups the first are needed, running ones before all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.cluster_state.observed import ObservedState
from compiler.lower.pod_relations import LoweredRules
from compiler.lower.topology import TierNames, leaf_by_node, lower_hypernodes
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.eligibility import node_requirement
from compiler.specs.gang_spec import GangSpec, RoleSpec, SubgroupSpec, TopologySpec
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.volcano.full_starts import subgroup_starts_in_full
from solver.problem import PodRule

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
