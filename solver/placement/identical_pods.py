"""Stage B for gangs whose pods are alike: those of one kind are placed anew together in the room that everybody else
leaves, by the model of pieces (`solver.models.identical_pods`), first inside each domain, then in two domains at
once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from solver.mip.engine import FEASIBILITY_TOLERANCE, solve_model
from solver.models import identical_pods
from solver.models.identical_pods import IdenticalPodsGang, LeafCapacity, LeafPods, Region
from solver.models.sets import Sets
from solver.options import Options
from solver.placement import bounds
from solver.problem import Placement, PodRequest
from solver.semantics.gang_classes import GangClass
from solver.semantics.placement_cost import tier_span
from solver.semantics.placements import Placements, merge_placements
from solver.semantics.topology import ROOT
from solver.state.free_nodes import FreeNodes

PodClass = tuple[PodRequest, frozenset[int]]
"""What one of the alike pods takes, and the kinds of nodes open to it."""


@dataclass(frozen=True, slots=True)
class JointBounds:
    """groups: kind of pods -> its gangs. least: kind -> these gangs cost no less together. others: gangs of
    no kind. spread: nor do all gangs together."""

    gangs_by_class: Mapping[PodClass, Mapping[int, IdenticalPodsGang]]
    class_bounds: Mapping[PodClass, int]
    other_gangs: frozenset[int]
    spread_bound: int

    @property
    def is_single_class(self) -> bool:
        """Whether all gangs are of one kind."""
        return len(self.gangs_by_class) == 1 and not self.other_gangs


def joint_bounds(s: Sets, shapes: Mapping[int, GangClass], options: Options) -> JointBounds:
    """What is known of these gangs, wherever they are."""
    groups, alone = group_by_pod_class(s, shapes), {j: bounds.min_tier_span(s, shape) for j, shape in shapes.items()}
    found = {
        kind: max(_joint_lower_bound(s, kind, parties, options), sum(alone[j] for j in parties))
        for kind, parties in groups.items()
    }
    others = frozenset(alone.keys() - {j for parties in groups.values() for j in parties})
    return JointBounds(groups, found, others, sum(found.values()) + sum(alone[j] for j in others))


def improve_spread(
    s: Sets, shapes: Mapping[int, GangClass], placements: Placements, known_bounds: JointBounds, options: Options
) -> Placements:
    """Placements that are spread no more, kind after kind."""
    room, found, work = s.free_nodes_after(placements), dict(placements), options.budget.class_total_variables
    for kind, parties in known_bounds.gangs_by_class.items():
        work = IdenticalPodSearch(s, shapes, kind, parties, room, found, options, work).improve(
            known_bounds.class_bounds[kind]
        )
    return found


def pod_class_of(s: Sets, shape: GangClass) -> PodClass | None:
    """Of what kind the pods are that make up most of the gang; None for a gang that relations, subgroups, cells or
    running pods bind.

    The pods of its other roles follow those to their leaves.
    """
    if (
        shape.running_pods
        or shape.has_pod_rules
        or shape.subgroups
        or not shape.min_pods
        or any(role.pod_request.slot_requests for role in shape.roles)
    ):
        return None
    weight: dict[PodClass, float] = {}
    for role in shape.roles:
        share = max(
            (a * role.min_pods / t for a, t in zip(role.request, s.cluster_totals, strict=True) if t), default=0.0
        )
        weight[role.pod_request, role.node_classes] = weight.get((role.pod_request, role.node_classes), 0.0) + share
    return max(weight, key=lambda kind: weight[kind])


def group_by_pod_class(s: Sets, shapes: Mapping[int, GangClass]) -> dict[PodClass, dict[int, IdenticalPodsGang]]:
    """Kind of pods -> the gangs of such pods; none where there is no topology, in which nobody is near or far."""
    if not s.tree.tiers:
        return {}
    known = {shape: pod_class_of(s, shape) for shape in dict.fromkeys(shapes.values())}
    found: dict[PodClass, dict[int, IdenticalPodsGang]] = {}
    for j, shape in sorted(shapes.items()):
        if (kind := known[shape]) is not None:
            found.setdefault(kind, {})[j] = _identical_pods_gang(s, j, shape, kind)
    return found


def _identical_pods_gang(s: Sets, j: int, shape: GangClass, pod_class: PodClass) -> IdenticalPodsGang:
    pods = sum(shape.roles[t].min_pods for t in _roles_of_class(shape, pod_class))
    level = None
    if shape.hard_tier is not None and shape.hard_tier <= s.tree.highest_tier:
        level = max(level for level, tier in enumerate(s.tree.tiers) if tier <= shape.hard_tier)
    return IdenticalPodsGang(
        j,
        pods,
        level,
        tuple(max(1, bounds.domains_needed(pods, domains)) for domains in s.domain_capacities(*pod_class)),
    )


def _roles_of_class(shape: GangClass, pod_class: PodClass) -> list[int]:
    """The roles whose pods are of this kind."""
    return [
        t for t, role in enumerate(shape.roles) if (role.pod_request, role.node_classes) == pod_class and role.min_pods
    ]


def leaf_capacity(s: Sets, room: FreeNodes, pod_class: PodClass, leaves: Iterable[int], max_pods: int) -> LeafCapacity:
    """How many pods of the kind these leaves hold, no leaf more than `most`."""
    ask, kinds = pod_class
    fits = np.where(s.tree.class_mask(kinds), room.fit_counts(ask), 0)
    per_leaf = np.bincount(s.tree.leaf_of - ROOT, weights=fits, minlength=len(s.problem.hypernodes) - ROOT)
    found: dict[Region, dict[int, int]] = {}
    for leaf in leaves:
        if number := min(max_pods, int(per_leaf[leaf - ROOT])):
            found.setdefault(_region(s, leaf), {})[leaf] = number
    return LeafCapacity(found, s.tree.tier_weights)


def _region(s: Sets, leaf: int) -> Region:
    """Nodes below no domain of a level, or outside the topology, are closed to gangs that such a domain must hold."""
    own = math.inf if leaf == ROOT else s.problem.hypernodes[leaf].tier
    return Region(
        s.tree.domains_by_tier(None if leaf == ROOT else leaf)[1:],
        frozenset(level for level, tier in enumerate(s.tree.tiers) if own > tier),
    )


def leaves_of(s: Sets) -> list[int]:
    return sorted({ROOT if place.leaf is None else place.leaf for place in s.buckets})


def _joint_lower_bound(s: Sets, pod_class: PodClass, gangs: Mapping[int, IdenticalPodsGang], options: Options) -> int:
    """Together these gangs cost no less, whoever else is there: the model of pieces in the free room, relaxed and
    rounded up.

    Where it is too large, as if all leaves were below one domain, and each gang's own least of the domains above; 0
    where that is too large as well.
    """
    every = list(gangs.values())
    slots, above = leaf_capacity(s, s.free_nodes(), pod_class, leaves_of(s), sum(party.pods for party in every)), 0
    if identical_pods.variable_count(every, slots) > options.budget.class_relaxed_variables:
        above = sum(
            weight * (number - 1)
            for party in every
            for weight, number in zip(slots.tier_weights[1:], party.min_domains[1:], strict=True)
        )
        slots, every = slots.at_leaf_level(), [party.at_leaf_level() for party in every]
    return (
        above + _relaxed_bound(every, slots, options)
        if identical_pods.variable_count(every, slots) <= options.budget.class_relaxed_variables
        else above
    )


def _singles_and_pairs(domains: frozenset[int]) -> list[frozenset[int]]:
    """All subsets of one or two domains, but for the empty one."""
    return [frozenset(part) for size in (1, 2) for part in itertools.combinations(sorted(domains), size)]


def _relaxed_bound(gangs: list[IdenticalPodsGang], capacity: LeafCapacity, options: Options) -> int:
    answer = solve_model(identical_pods.build_model(gangs, capacity, {}).model, options, relaxation=True)
    return math.ceil(answer.value - FEASIBILITY_TOLERANCE) if answer.status == "optimal" else 0


@dataclass
class IdenticalPodSearch:
    """The gangs of one kind of pods. room: what is left beside all gangs. placements: of all gangs, changed in place.
    work: variables of models that may be solved yet."""

    s: Sets
    gang_classes: Mapping[int, GangClass]
    pod_class: PodClass
    gangs: Mapping[int, IdenticalPodsGang]
    free_nodes: FreeNodes
    placements: dict[int, tuple[Placement, ...]]
    options: Options
    budget: int

    def improve(self, lower_bound: int) -> int:
        """Set of domains after set of domains, as long as that helps; the work that is left. low: these gangs are never
        nearer."""
        asked, vain, improved = set[tuple[int, ...]](), self.options.budget.class_failures, True
        while improved:
            improved = False
            for domains in self._domain_sets():
                movers = tuple(j for j in self.gangs if not domains or self._touched_domains(j) <= domains)
                if (
                    len(asked) == self.options.budget.class_domain_sets
                    or not vain
                    or self._total_span(self.gangs) <= lower_bound
                ):
                    return self.budget
                if (*sorted(domains), *movers) not in asked:
                    asked.add((*sorted(domains), *movers))
                    better = self._place_again(domains, movers)
                    improved = improved or bool(better)
                    vain = self.options.budget.class_failures if better else vain if better is None else vain - 1
        return self.budget

    def _domain_sets(self) -> Iterator[frozenset[int]]:
        """The domains right above leaves one by one, then two by two, first where gangs could be much nearer; none for
        all of them."""
        if len(self.s.tree.tiers) < 2:
            yield frozenset()
            return
        apart: dict[frozenset[int], int] = {}
        for j in self.gangs:
            inside = self._touched_domains(j)
            apart[inside] = apart.get(inside, 0) + self._excess_span(j)
        above = sorted({self.s.tree.domains_by_tier(None if leaf == ROOT else leaf)[1] for leaf in leaves_of(self.s)})
        for number in (1, 2):
            excess = {
                of: sum(apart.get(part, 0) for part in _singles_and_pairs(of))
                for of in map(frozenset, itertools.combinations(above, number))
            }
            yield from sorted((of for of in excess if excess[of]), key=lambda of: (-excess[of], sorted(of)))

    def _touched_domains(self, j: int) -> frozenset[int]:
        """The domains right above leaves that the gang touches."""
        leaves = (self.s.problem.nodes[p.node].leaf for p in self.placements[j])
        return frozenset(self.s.tree.domains_by_tier(leaf)[1] for leaf in leaves)

    def _excess_span(self, j: int) -> int:
        return tier_span(self.s.tree, self.placements[j]) - sum(
            w * (m - 1) for w, m in zip(self.s.tree.tier_weights, self.gangs[j].min_domains, strict=True)
        )

    def _total_span(self, gangs: Iterable[int]) -> int:
        return sum(tier_span(self.s.tree, self.placements[j]) for j in gangs)

    def _place_again(self, domains: frozenset[int], movers: tuple[int, ...]) -> bool | None:
        """Place the gangs that are in these domains only anew there: whether they are nearer now; None where a bound
        says that they cannot be, or the model is too large."""
        mark, now, known = self.free_nodes.mark(), self._total_span(movers), {j: self._pods_by_leaf(j) for j in movers}
        for j in movers:
            for p in self.placements[j]:
                self.free_nodes.add_pods(p.node, self.gang_classes[j].roles[p.role], -p.pods)
        parties = [self.gangs[j] for j in movers]
        leaves = [
            leaf
            for leaf in leaves_of(self.s)
            if not domains or self.s.tree.domains_by_tier(None if leaf == ROOT else leaf)[1] in domains
        ]
        slots = leaf_capacity(self.s, self.free_nodes, self.pod_class, leaves, sum(party.pods for party in parties))
        size = identical_pods.variable_count(parties, slots)
        if (
            size > min(self.options.budget.class_variables, self.budget)
            or _relaxed_bound(parties, slots, self.options) >= now
        ):
            self.free_nodes.undo(mark)
            return None
        self.budget -= size
        found = self._place_on_nodes(parties, self._solve_pieces(parties, slots, known))
        if found is None or sum(tier_span(self.s.tree, pods) for pods in found.values()) >= now:
            self.free_nodes.undo(mark)
            return False
        self.placements.update(found)
        return True

    def _pods_by_leaf(self, j: int) -> dict[int, int]:
        """Leaf -> the gang's alike pods there."""
        roles, found = _roles_of_class(self.gang_classes[j], self.pod_class), dict[int, int]()
        for p in self.placements[j]:
            if p.role in roles:
                leaf = int(self.s.tree.leaf_of[p.node])
                found[leaf] = found.get(leaf, 0) + p.pods
        return found

    def _solve_pieces(
        self, gangs: list[IdenticalPodsGang], capacity: LeafCapacity, leaf_pods: LeafPods
    ) -> dict[int, dict[int, int]]:
        """Gang -> leaf -> its alike pods, as the model has them."""
        x = identical_pods.build_model(gangs, capacity, leaf_pods)
        answer = solve_model(
            x.model,
            replace(self.options, max_nodes=min(self.options.max_nodes, self.options.budget.class_nodes)),
            x.start,
            skip_presolve=True,
        )
        return (
            identical_pods.read_solution(x, capacity, answer.values)
            if answer.values
            else {j: dict(leaves) for j, leaves in leaf_pods.items()}
        )

    def _place_on_nodes(
        self, gangs: list[IdenticalPodsGang], wanted: Mapping[int, Mapping[int, int]]
    ) -> dict[int, tuple[Placement, ...]] | None:
        """Gang -> its pods on nodes, taken from the room: the alike ones as wanted, the others beside them. None where
        those find no room there."""
        found: dict[int, list[Placement]] = {}
        for party in gangs:
            shape = self.gang_classes[party.gang]
            left = {t: shape.roles[t].min_pods for t in _roles_of_class(shape, self.pod_class)}
            pods = found[party.gang] = []
            for leaf, number in sorted(wanted[party.gang].items()):
                for t in left:
                    some = min(number, left[t])
                    pods += self._fill_nodes(shape, t, self.s.tree.direct_nodes[leaf], some)
                    left[t], number = left[t] - some, number - some
        for party in gangs:
            shape, nodes = (
                self.gang_classes[party.gang],
                np.concatenate([self.s.tree.direct_nodes[leaf] for leaf in sorted(wanted[party.gang])]),
            )
            for t, role in enumerate(shape.roles):
                if t not in _roles_of_class(shape, self.pod_class):
                    found[party.gang] += self._fill_nodes(shape, t, nodes, role.min_pods)
            if sum(p.pods for p in found[party.gang]) < shape.min_pods:
                return None
        return {j: merge_placements(pods) for j, pods in found.items()}

    def _fill_nodes(self, shape: GangClass, t: int, nodes: np.ndarray, pods: int) -> list[Placement]:
        """As many of these pods as fit on the nodes, the fullest first."""
        role = shape.roles[t]
        fits = np.where(
            self.s.tree.class_mask(role.node_classes)[nodes], self.free_nodes.fit_counts(role.pod_request)[nodes], 0
        )
        order = nodes[np.argsort(fits, kind="stable")]
        taken = self.free_nodes.fill_nodes(order, np.sort(fits, kind="stable"), role.pod_request, pods)
        return [
            Placement(t, node, number) for node, number in zip(order.tolist(), taken.tolist(), strict=True) if number
        ]
