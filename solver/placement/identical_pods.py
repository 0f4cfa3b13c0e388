"""Neighbourhood: gangs with identical pods are placed again together, inside one domain or in two, by the model of
pieces (`solver.models.identical_pods`)."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from solver.greedy.fragmentation import PodClass
from solver.mip.engine import FEASIBILITY_TOLERANCE, solve_model
from solver.models import identical_pods
from solver.models.identical_pods import IdenticalPodsGang, LeafCapacity, LeafPods, Region
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import bounds
from solver.placement.task import PlacementTask
from solver.problem import Placement
from solver.search import Incumbent, Limits, Moves, Work, improve
from solver.semantics.gang_classes import ClassRole, GangClass
from solver.semantics.placement_cost import tier_span
from solver.semantics.placements import Placements, dominant_share, merge_placements
from solver.semantics.topology import ROOT
from solver.state.free_nodes import FreeNodes
from solver.state.state import Pods


@dataclass(frozen=True, slots=True)
class JointBounds:
    """class_bounds: pod class -> least span of its gangs together. spread_bound: least span of all gangs together.
    is_single_class: whether all gangs are of one pod class."""

    gangs_by_class: Mapping[PodClass, Mapping[int, IdenticalPodsGang]]
    class_bounds: Mapping[PodClass, int]
    spread_bound: int
    is_single_class: bool


def joint_bounds(s: Sets, gang_classes: Mapping[int, GangClass], options: Options) -> JointBounds:
    """Return bounds on the span of these gangs, wherever they are."""
    known = {gang_class: pod_class_of(s, gang_class) for gang_class in dict.fromkeys(gang_classes.values())}
    groups: dict[PodClass, dict[int, IdenticalPodsGang]] = {}
    for j, gang_class in sorted(gang_classes.items()):
        if s.tree.tiers and (pod_class := known[gang_class]) is not None:
            groups.setdefault(pod_class, {})[j] = _identical_pods_gang(s, j, gang_class, pod_class)
    alone = {j: bounds.min_tier_span(s, gang_class) for j, gang_class in gang_classes.items()}
    found = {
        pod_class: max(_joint_lower_bound(s, pod_class, gangs, options), sum(alone[j] for j in gangs))
        for pod_class, gangs in groups.items()
    }
    others = alone.keys() - {j for gangs in groups.values() for j in gangs}
    total = sum(found.values()) + sum(alone[j] for j in others)
    return JointBounds(groups, found, total, len(groups) == 1 and not others)


def improve_spread(task: PlacementTask, placements: Placements, known_bounds: JointBounds) -> Placements:
    """Placements with no larger span, pod class after pod class."""
    budget, work = task.options.budget, Work(task.options.budget.class_total_variables)
    limits = Limits(task.options.clock, tries=budget.class_domain_sets, failures=budget.class_failures)
    for pod_class, gangs in known_bounds.gangs_by_class.items():
        search = IdenticalPods(task, pod_class, gangs, work)
        least = known_bounds.class_bounds[pod_class]
        placements = improve(placements, search.total_span, search.moves, limits, least.__ge__)
    return placements


def pod_class_of(s: Sets, gang_class: GangClass) -> PodClass | None:
    """Return the class of the pods that make up most of the gang; its other pods follow them to their leaves. None for
    a gang with pod rules, subgroups, device slots or running pods."""
    bound = gang_class.running_pods or gang_class.has_pod_rules or gang_class.subgroups
    if bound or not gang_class.min_pods or any(role.pod_request.slot_requests for role in gang_class.roles):
        return None
    weight: dict[PodClass, float] = {}
    for role in gang_class.roles:
        share = dominant_share((a * role.min_pods for a in role.request), s.problem.totals)
        weight[role.pod_request, role.node_classes] = weight.get((role.pod_request, role.node_classes), 0.0) + share
    return max(weight, key=lambda pod_class: weight[pod_class])


def _identical_pods_gang(s: Sets, j: int, gang_class: GangClass, pod_class: PodClass) -> IdenticalPodsGang:
    pods = sum(gang_class.roles[t].min_pods for t in _roles_of_class(gang_class, pod_class))
    level = None
    if gang_class.hard_tier is not None and gang_class.hard_tier <= s.tree.highest_tier:
        level = max(level for level, tier in enumerate(s.tree.tiers) if tier <= gang_class.hard_tier)
    fewest = (max(1, bounds.domains_needed(pods, domains)) for domains in s.domain_capacities(*pod_class))
    return IdenticalPodsGang(j, pods, level, tuple(fewest))


def _roles_of_class(gang_class: GangClass, pod_class: PodClass) -> list[int]:
    """Return the roles whose pods are of this class."""
    roles = ((t, role) for t, role in enumerate(gang_class.roles) if role.min_pods)
    return [t for t, role in roles if (role.pod_request, role.node_classes) == pod_class]


def leaf_capacity(s: Sets, free: FreeNodes, pod_class: PodClass, leaves: Iterable[int], max_pods: int) -> LeafCapacity:
    """Return how many pods of the class these leaves hold, none more than `max_pods`."""
    request, node_classes = pod_class
    fits = np.where(s.tree.class_mask(node_classes), free.fit_counts(request), 0)
    per_leaf = np.bincount(s.tree.leaf_of - ROOT, weights=fits, minlength=len(s.problem.hypernodes) - ROOT)
    found: dict[Region, dict[int, int]] = {}
    for leaf in leaves:
        if number := min(max_pods, int(per_leaf[leaf - ROOT])):
            found.setdefault(_region(s, leaf), {})[leaf] = number
    return LeafCapacity(found, s.tree.tier_weights)


def _region(s: Sets, leaf: int) -> Region:
    """Nodes below no domain of a level, or outside the topology, are closed to gangs that such a domain must hold."""
    own = math.inf if leaf == ROOT else s.problem.hypernodes[leaf].tier
    above = s.tree.domains_by_tier(None if leaf == ROOT else leaf)[1:]
    return Region(above, frozenset(level for level, tier in enumerate(s.tree.tiers) if own > tier))


def leaves_of(s: Sets) -> list[int]:
    return sorted({ROOT if bucket.leaf is None else bucket.leaf for bucket in s.buckets})


def _joint_lower_bound(s: Sets, pod_class: PodClass, gangs: Mapping[int, IdenticalPodsGang], options: Options) -> int:
    """Return the least span of these gangs together: the model of pieces in the free nodes, relaxed and rounded up.

    Where it is too large, as if all leaves were below one domain, plus each gang's own least of the domains above;
    without the first part where that is too large as well.
    """
    every, most = list(gangs.values()), options.budget.class_relaxed_variables
    capacity, above = leaf_capacity(s, s.free_nodes(), pod_class, leaves_of(s), sum(gang.pods for gang in every)), 0
    if identical_pods.variable_count(every, capacity) > most:
        weights = capacity.tier_weights[1:]
        above = sum(w * (m - 1) for gang in every for w, m in zip(weights, gang.min_domains[1:], strict=True))
        capacity, every = capacity.at_leaf_level(), [gang.at_leaf_level() for gang in every]
    return (
        above
        if identical_pods.variable_count(every, capacity) > most
        else above + _relaxed_bound(every, capacity, options)
    )


def _relaxed_bound(gangs: list[IdenticalPodsGang], capacity: LeafCapacity, options: Options) -> int:
    answer = solve_model(identical_pods.build_model(gangs, capacity, {}).model, options, relaxation=True)
    return math.ceil(answer.value - FEASIBILITY_TOLERANCE) if answer.status == "optimal" else 0


@dataclass
class IdenticalPods:
    """The gangs of one pod class, in the domains right above the leaves. work: variables of models that may be solved
    yet."""

    task: PlacementTask
    pod_class: PodClass
    gangs: Mapping[int, IdenticalPodsGang]
    work: Work
    _asked: set[tuple[frozenset[int], tuple[int, ...]]] = field(default_factory=set)

    def total_span(self, placements: Placements) -> int:
        return sum(tier_span(self.task.s.tree, placements[j]) for j in self.gangs)

    def moves(self, incumbent: Incumbent[Placements]) -> Moves[Placements]:
        """Return every set of domains with the gangs that are nowhere else."""
        for domains in self._domain_sets(incumbent.solution):
            placements = incumbent.solution
            movers = tuple(self.gangs)
            if domains:
                movers = tuple(j for j in self.gangs if self._touched_domains(placements[j]) <= domains)
            if (domains, movers) not in self._asked:
                self._asked.add((domains, movers))
                yield partial(self._place_again, placements, domains, movers)

    def _domain_sets(self, placements: Placements) -> Iterator[frozenset[int]]:
        """Yield domains one by one, then in pairs, those with most excess span first; an empty set for all leaves."""
        tree = self.task.s.tree
        if len(tree.tiers) < 2:
            yield frozenset()
            return
        excess_inside = Counter[frozenset[int]]()
        for j, gang in self.gangs.items():
            least = sum(w * (m - 1) for w, m in zip(tree.tier_weights, gang.min_domains, strict=True))
            excess_inside[self._touched_domains(placements[j])] += tier_span(tree, placements[j]) - least
        above = sorted({self._domain_above(leaf) for leaf in leaves_of(self.task.s)})
        for number in (1, 2):
            excess = {}
            for of in map(frozenset, itertools.combinations(above, number)):
                parts = {of, *(frozenset((domain,)) for domain in of)}
                excess[of] = sum(excess_inside[part] for part in parts)
            yield from sorted((of for of in excess if excess[of]), key=lambda of: (-excess[of], sorted(of)))

    def _domain_above(self, leaf: int | None) -> int:
        return self.task.s.tree.domains_by_tier(None if leaf == ROOT else leaf)[1]

    def _touched_domains(self, pods: Pods) -> frozenset[int]:
        return frozenset(self._domain_above(self.task.s.problem.nodes[p.node].leaf) for p in pods)

    def _place_again(
        self, placements: Placements, domains: frozenset[int], movers: tuple[int, ...]
    ) -> Placements | None:
        """Return the movers placed again in these domains; None where a bound proves that their span cannot be smaller,
        or the model is too large."""
        options, s, gangs = self.task.options, self.task.s, [self.gangs[j] for j in movers]
        free = self.task.state_after(placements).without({j: placements[j] for j in movers}).free_nodes
        leaves = leaves_of(s)
        if domains:
            leaves = [leaf for leaf in leaves if self._domain_above(leaf) in domains]
        capacity = leaf_capacity(s, free, self.pod_class, leaves, sum(gang.pods for gang in gangs))
        size = identical_pods.variable_count(gangs, capacity)
        now = sum(tier_span(s.tree, placements[j]) for j in movers)
        is_too_large = size > min(options.budget.class_variables, self.work.left)
        if is_too_large or _relaxed_bound(gangs, capacity, options) >= now:
            return None
        self.work.spend(size)
        wanted: LeafPods = {j: self._pods_by_leaf(j, placements[j]) for j in movers}
        x = identical_pods.build_model(gangs, capacity, wanted)
        limited = replace(options, max_nodes=min(options.max_nodes, options.budget.class_nodes))
        answer = solve_model(x.model, limited, x.start, skip_presolve=True)
        if answer.values:
            wanted = identical_pods.read_solution(x, capacity, answer.values)
        found = self._place_on_nodes(free, gangs, wanted)
        return placements if found is None else {j: found.get(j, pods) for j, pods in placements.items()}

    def _pods_by_leaf(self, j: int, pods: Pods) -> dict[int, int]:
        """Leaf -> the gang's identical pods there."""
        roles, found = _roles_of_class(self.task.gang_classes[j], self.pod_class), Counter[int]()
        for p in pods:
            if p.role in roles:
                found[int(self.task.s.tree.leaf_of[p.node])] += p.pods
        return found

    def _place_on_nodes(
        self, free: FreeNodes, gangs: list[IdenticalPodsGang], wanted: Mapping[int, Mapping[int, int]]
    ) -> dict[int, Pods] | None:
        """Return gang -> its pods on nodes: the identical ones in the wanted leaves, the others next to them. None
        where those do not fit there."""
        s, found = self.task.s, dict[int, list[Placement]]()
        for gang in gangs:
            gang_class = self.task.gang_classes[gang.gang]
            left = {t: gang_class.roles[t].min_pods for t in _roles_of_class(gang_class, self.pod_class)}
            pods = found[gang.gang] = []
            for leaf, number in sorted(wanted[gang.gang].items()):
                for t in left:
                    some = min(number, left[t])
                    pods += _fill_nodes(s, free, (t, gang_class.roles[t]), s.tree.direct_nodes[leaf], some)
                    left[t], number = left[t] - some, number - some
        for gang in gangs:
            gang_class = self.task.gang_classes[gang.gang]
            nodes = np.concatenate([s.tree.direct_nodes[leaf] for leaf in sorted(wanted[gang.gang])])
            for t, role in enumerate(gang_class.roles):
                if t not in _roles_of_class(gang_class, self.pod_class):
                    found[gang.gang] += _fill_nodes(s, free, (t, role), nodes, role.min_pods)
            if sum(p.pods for p in found[gang.gang]) < gang_class.min_pods:
                return None
        return {j: merge_placements(pods) for j, pods in found.items()}


def _fill_nodes(
    s: Sets, free: FreeNodes, indexed_role: tuple[int, ClassRole], nodes: np.ndarray, pods: int
) -> list[Placement]:
    """As many pods of the role as fit on the nodes, the fullest first."""
    t, role = indexed_role
    is_open = s.tree.class_mask(role.node_classes)[nodes]
    fits = np.where(is_open, free.fit_counts(role.pod_request)[nodes], 0)
    order = nodes[np.argsort(fits, kind="stable")]
    taken = free.fill_nodes(order, np.sort(fits, kind="stable"), role.pod_request, pods)
    return [Placement(t, node, number) for node, number in zip(order.tolist(), taken.tolist(), strict=True) if number]
