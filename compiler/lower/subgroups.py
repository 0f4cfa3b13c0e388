"""The subgroups of bare PodGroups: which of them a gang needs, with how many pods, and which must each stay in one
domain.

Volcano (reference: 4.2 and 4.8): a subgroup is ready with `subGroupSize` of its pods, `minSubGroups` of a policy have
to be, and all pods of one sit inside one domain of its tier. The problem's subgroups have parts of one size only. So a
subgroup that may start with fewer pods than it has is said by the minima of its roles, and its domain by a relation; of
subgroups that are alike the first ones are needed, those that run before all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler.cluster_state.observed import ObservedState
from compiler.lower.eligibility import node_requirement
from compiler.lower.pod_rules import LoweredRules
from compiler.lower.topology import TierNames, leaf_by_node, lower_hypernodes
from compiler.specs import GangSpec, HyperNodeSpec, NodeSpec, SubgroupSpec, TopologySpec
from solver.problem import PodRule

RunningPods = Mapping[tuple[int, str], int]
"""(Role, node name) -> pods."""

NO_TOPOLOGY_LIMIT = TopologySpec("soft")


@dataclass(frozen=True, slots=True)
class SubgroupDemand:
    """subgroups: as in the spec, index by index. least: role -> its minimum. minimum: of the gang. whole: indices of
    subgroups that must be in one domain each, which `subgroups` does not say. narrowed: the gang is held to more than
    Volcano holds it to."""

    subgroups: tuple[SubgroupSpec, ...]
    minimum: int
    role_minima: Mapping[int, int] = field(default_factory=dict)
    single_domain_subgroups: tuple[int, ...] = ()
    over_constrained: bool = False


def subgroup_demand(spec: GangSpec, running: RunningPods) -> SubgroupDemand:
    """What a gang's subgroups ask for. Of other kinds than PodGroup they are settled already."""
    parts = SubgroupDemand(spec.subgroups, spec.minimum)
    for path in dict.fromkeys(part.path for part in spec.subgroups if part.ready_pods):
        parts = _with_policy_demand(
            spec, running, parts, [s for s, part in enumerate(spec.subgroups) if part.path == path]
        )
    return parts


def _with_policy_demand(
    spec: GangSpec, running: RunningPods, demand: SubgroupDemand, indices: Sequence[int]
) -> SubgroupDemand:
    """One policy's subgroups, indices into the gang's. Those with too few pods to be ready count only where there are
    no others (GP363 warns)."""
    first, size = spec.subgroups[indices[0]], {s: spec.subgroups[s].size for s in indices}
    able = [s for s in indices if size[s] >= first.ready_pods]
    if first.min_ready_subgroups < len(able) and _pods_count_subgroups(spec, indices):
        none = {s: replace(spec.subgroups[s], minimum=0) for s in indices}
        return replace(
            _with_subgroups(demand, none), minimum=max(demand.minimum, first.min_ready_subgroups * first.ready_pods)
        )
    roles = {s: _subgroup_roles(spec, s) for s in indices}
    runs = {s: sum(pods for (t, _), pods in running.items() if t in roles[s]) for s in indices}
    needed = [*sorted(able, key=lambda s: -runs[s]), *(s for s in indices if s not in able)][
        : first.min_ready_subgroups
    ]
    narrowed = len(needed) < len(able) and (any(runs.values()) or len({_interchange_key(spec, s) for s in able}) > 1)
    made, least, whole = {}, dict(demand.role_minima), list(demand.single_domain_subgroups)
    for s in indices:
        made[s] = part = _lowered_subgroup(spec.subgroups[s], needed=s in needed)
        if s in needed:
            for t, pods in _distributed_pods(spec, roles[s], min(first.ready_pods, size[s])):
                least[t] = max(least.get(t, 0), pods)
        if size[s] > first.ready_pods:
            narrowed |= (
                len(roles[s]) > 1
                if s in needed
                else part.size > 1 and demand.minimum > first.min_ready_subgroups * first.ready_pods
            )
        if part.topology is NO_TOPOLOGY_LIMIT and spec.subgroups[s].topology.mode == "hard":
            whole.append(s)
    return replace(
        _with_subgroups(demand, made),
        role_minima=least,
        single_domain_subgroups=tuple(whole),
        over_constrained=demand.over_constrained or narrowed,
    )


def _lowered_subgroup(subgroup: SubgroupSpec, *, needed: bool) -> SubgroupSpec:
    """A needed subgroup grows pod by pod above its roles' minima; another one has none of its pods or is ready: it
    grows by what makes it ready, or, where that does not divide it, starts as a whole."""
    if subgroup.size <= subgroup.ready_pods:
        return replace(subgroup, minimum=int(needed))
    unit = 1 if needed else subgroup.ready_pods
    return (
        replace(subgroup, minimum=0)
        if subgroup.size % unit
        else replace(subgroup, size=unit, minimum=0, topology=NO_TOPOLOGY_LIMIT)
    )


def _pods_count_subgroups(spec: GangSpec, indices: Sequence[int]) -> bool:
    """Whether the gang's pods tell how many of these subgroups have started: all have the size that makes them ready,
    and no pods are outside."""
    inside = {name for s in indices for name in spec.subgroups[s].roles}
    return all(spec.subgroups[s].size == spec.subgroups[s].ready_pods for s in indices) and all(
        role.name in inside for role in spec.roles
    )


def _subgroup_roles(spec: GangSpec, s: int) -> list[int]:
    return [t for t, role in enumerate(spec.roles) if role.name in spec.subgroups[s].roles]


def _distributed_pods(spec: GangSpec, roles: Sequence[int], pods: int) -> Iterator[tuple[int, int]]:
    """(role, how many of the pods), the first roles taking most."""
    for t in roles:
        some = min(pods, spec.roles[t].replicas)
        pods -= some
        yield t, some


def _interchange_key(spec: GangSpec, s: int) -> object:
    """Equal for subgroups that may stand for one another; with rules about other pods none may."""
    mine = [spec.roles[t] for t in _subgroup_roles(spec, s)]
    if any(role.pod.pod_rules for role in spec.roles):
        return s
    rows = (
        (tuple(sorted(r.pod.requests.items())), r.pod.vgpu_requests, node_requirement(r.pod), r.replicas, r.minimum)
        for r in mine
    )
    return frozenset(Counter(rows).items())


def _with_subgroups(demand: SubgroupDemand, subgroups: Mapping[int, SubgroupSpec]) -> SubgroupDemand:
    return replace(demand, subgroups=tuple(subgroups.get(s, part) for s, part in enumerate(demand.subgroups)))


def with_subgroup_rules(
    rules: LoweredRules, gangs: Sequence[GangSpec], demands: Sequence[SubgroupDemand], observed: ObservedState
) -> LoweredRules:
    """The rules, and after them one for each single-domain subgroup: its pods share a domain of its tier."""
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
    return LoweredRules(
        tuple(pod_rules),
        (*rules.texts, *texts),
        rules_of_role,
        (*rules.owner_pods, *(() for _ in texts)),
        subgroup_of_rule,
    )


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
