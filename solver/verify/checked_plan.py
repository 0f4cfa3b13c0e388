"""Problem and plan side by side, with the sums that several rules need."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from solver.plan import Decision, Plan
from solver.problem import Gang, Placement, Problem, Queue, Role, Subgroup, Topology, Vector
from solver.verify import quotas

PlanPath = tuple[str | int, ...]
"""The path of indices into the plan (or, for a node or queue, the problem)."""
Findings = Iterator[tuple[PlanPath, str]]
"""Findings of a rule: where, and the fault."""
PodCounts = Mapping[tuple[int, int], int]
"""Pods by (role, node)."""


def needs(problem: Problem, holdings: Sequence[Vector]) -> list[Vector]:
    """Return the amounts that must stay available to each queue, its descendants included, when queue q itself holds
    `holdings[q]`.

        need(q) = max(guarantee(q), holding(q) + sum of need(c) over the children c of q)        per resource

    An unused part of a guarantee counts as taken, and a child's guarantee counts inside its parent's.
    """
    need = [list(held) for held in holdings]
    for q, queue in _bottom_up_queues(problem):
        need[q] = [max(guarantee or 0, amount) for guarantee, amount in zip(queue.guarantee, need[q], strict=True)]
        if queue.parent is not None:
            add_vector(need[queue.parent], need[q])
    return [tuple(amounts) for amounts in need]


def _bottom_up_queues(problem: Problem) -> list[tuple[int, Queue]]:
    """Return the queues with their indices, each before its parent."""
    return sorted(enumerate(problem.queues), key=lambda item: -len(quotas.queue_path(problem, item[0])))


def at(gang: int, field: str = "placements") -> PlanPath:
    """Return the path of a field of the gang's decision."""
    return "decisions", gang, field


def _pod_counts(placements: Iterable[Placement]) -> PodCounts:
    counts: dict[tuple[int, int], int] = {}
    for place in placements:
        spot = place.role, place.node
        counts[spot] = counts.get(spot, 0) + place.pods
    return counts


def is_sorted(placements: Iterable[Placement]) -> bool:
    """Return whether they are sorted by (role, node), each pair once."""
    pairs = [(place.role, place.node) for place in placements]
    return pairs == sorted(set(pairs))


def _difference(pods: PodCounts, others: PodCounts) -> PodCounts:
    """Return the pods by which `pods` exceed `others`, where they do."""
    if not others or pods is others:
        return pods if not others else {}
    return {spot: more for spot, number in sorted(pods.items()) if (more := number - others.get(spot, 0)) > 0}


class QueueAmounts(NamedTuple):
    """By queue: allocated before the plan, new by it, evicted by it."""

    allocated: list[Vector]
    new: list[Vector]
    evicted: list[Vector]


class _OpenRole(NamedTuple):
    """A role of which a gang misses so many pods, and may take so many more towards its own minimum."""

    role: Role
    missed: int
    optional: int


def _least_request(roles: Iterable[_OpenRole], others: int, r: int) -> int:
    """Return the missed pods' request of resource r, with as many others as the gang's minimum misses, the cheapest."""
    missed, optional = 0, list[int]()
    for role, pods, more in roles:
        missed += pods * role.request[r]
        optional += [role.request[r]] * more
    return missed + sum(sorted(optional)[:others])


class CheckedPlan:
    """Problem and plan side by side. Rule `decisions` reports placements out of range."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        gangs = range(len(problem.gangs))
        self.decisions: dict[int, Decision] = {}
        for decision in plan.decisions:
            if decision.gang in gangs:
                self.decisions.setdefault(decision.gang, decision)
        self.running_pods = [_pod_counts(gang.running) for gang in problem.gangs]
        self.evicted_pods = [self._evicted_pods_of(g) for g in gangs]
        self.remaining_pods = [_difference(self.running_pods[g], self.evicted_pods[g]) for g in gangs]
        self.placed_pods = [self._placed_pods_of(g) for g in gangs]
        self.new_pods = [_difference(self.placed_pods[g], self.running_pods[g]) for g in gangs]
        self.highest_tier = max((hypernode.tier for hypernode in problem.hypernodes), default=0)
        self._domains: dict[tuple[int | None, int], int | None] = {}
        self._domain_node_sets: dict[int | None, list[list[int]]] = {}
        self._lacking: dict[int, set[int]] = {}

    def _placed_pods_of(self, gang: int) -> PodCounts:
        if gang not in self.decisions or self.decisions[gang].placements == self.problem.gangs[gang].running:
            return self.running_pods[gang]
        return _pod_counts(place for place in self.decisions[gang].placements if self.is_valid_placement(gang, place))

    def _evicted_pods_of(self, gang: int) -> PodCounts:
        """Return running pods that the plan evicts; rule `evictions` reports pods that never ran."""
        if gang not in self.decisions or not self.decisions[gang].evicted_pods:
            return {}
        places, running = self.decisions[gang].evicted_pods, self.running_pods[gang]
        evicted = _pod_counts(place for place in places if self.is_valid_placement(gang, place))
        return {spot: min(pods, running[spot]) for spot, pods in sorted(evicted.items()) if spot in running}

    def is_valid_placement(self, gang: int, place: Placement) -> bool:
        return (
            place.pods > 0
            and 0 <= place.node < len(self.problem.nodes)
            and 0 <= place.role < len(self.problem.gangs[gang].roles)
        )

    def admitted_gangs(self) -> Iterator[tuple[int, Gang, Decision]]:
        """Yield the gangs that start or are kept."""
        for g, decision in sorted(self.decisions.items()):
            if decision.action in ("start", "keep"):
                yield g, self.problem.gangs[g], decision

    def pods_per_role(self, gang: int, counts: PodCounts) -> Sequence[int]:
        if counts is self.running_pods[gang]:
            return self._running_per_role[gang]
        return self._sum_by_role(gang, counts)

    @cached_property
    def _running_per_role(self) -> list[list[int]]:
        return [self._sum_by_role(gang, counts) for gang, counts in enumerate(self.running_pods)]

    def _sum_by_role(self, gang: int, counts: PodCounts) -> list[int]:
        pods = [0] * len(self.problem.gangs[gang].roles)
        for (role, _), amount in counts.items():
            pods[role] += amount
        return pods

    def meets_minima(self, gang: int, counts: PodCounts) -> bool:
        """Return whether the pods reach the minimum of the gang, of each role and, as a total, of each subgroup."""
        spec, pods = self.problem.gangs[gang], self.pods_per_role(gang, counts)
        for amount, role in zip(pods, spec.roles, strict=True):
            if amount < role.minimum:
                return False
        if any(sum(pods[t] for t in s.roles) < s.minimum * s.size for s in spec.subgroups):
            return False
        return sum(pods) >= spec.minimum

    def is_binding(self, topology: Topology) -> bool:
        """Return whether the topology restricts anything: it is hard, and not wider than the widest hypernode."""
        return topology.mode == "hard" and topology.tier <= self.highest_tier

    def domain(self, node: int, tier: int) -> int | None:
        """Return the maximal domain of a node: the highest hypernode reached from its leaf through tiers <= `tier`
        only."""
        leaf = self.problem.nodes[node].leaf
        if (leaf, tier) not in self._domains:
            found, above = None, leaf
            while above is not None and self.problem.hypernodes[above].tier <= tier:
                found, above = above, self.problem.hypernodes[above].parent
            self._domains[leaf, tier] = found
        return self._domains[leaf, tier]

    def domain_node_sets(self, topology: Topology | None) -> list[list[int]]:
        """Return the sets of nodes of which one must hold a gang with this topology, in the order of their domains."""
        tier = topology.tier if topology is not None and self.is_binding(topology) else None
        if tier not in self._domain_node_sets:
            inside = defaultdict(list)
            for n in range(len(self.problem.nodes)):
                domain = self.domain(n, tier) if tier is not None else 0
                if domain is not None:
                    inside[domain].append(n)
            self._domain_node_sets[tier] = [inside[domain] for domain in sorted(inside)]
        return self._domain_node_sets[tier]

    def subgroup_pods_by_domain(self, subgroup: Subgroup, counts: PodCounts) -> Counter[int | None]:
        """Return domain (None: none) -> these pods of the subgroup there; all in domain 0 without a binding
        topology."""
        found: Counter[int | None] = Counter()
        binding, tier = self.is_binding(subgroup.topology), subgroup.topology.tier
        for (role, node), pods in counts.items():
            if role in subgroup.roles:
                found[self.domain(node, tier) if binding else 0] += pods
        return found

    def gang_demand(self, gang: int, counts: PodCounts) -> Vector:
        """Return the request of these pods of the gang."""
        total = [0] * len(self.problem.resources)
        for role, pods in zip(self.problem.gangs[gang].roles, self.pods_per_role(gang, counts), strict=True):
            add_vector(total, role.request, pods)
        return tuple(total)

    def demand(self, counts: Sequence[PodCounts]) -> list[Vector]:
        """Return the requests of these pods, by gang, in each queue, descendants not included."""
        total = [[0] * len(self.problem.resources) for _ in self.problem.queues]
        for g, (gang, pods) in enumerate(zip(self.problem.gangs, counts, strict=True)):
            if pods:
                add_vector(total[gang.queue], self.gang_demand(g, pods))
        return [tuple(amounts) for amounts in total]

    def lacking(self, gang: int) -> set[int]:
        """Return the resources of which the gang finds too little before the plan for the pods that it misses of its
        minima: on all nodes that they may use together, or for one role alone. Where the gang's own minimum leaves open
        which roles they are of, the pods count that ask for least. All that it has to ask for where it finds enough of
        each."""
        if gang not in self._lacking:
            spec, have = self.problem.gangs[gang], self.pods_per_role(gang, self.running_pods[gang])
            missed = [max(0, role.minimum - pods) for role, pods in zip(spec.roles, have, strict=True)]
            others = max(0, spec.minimum - sum(have) - sum(missed))
            open_roles = [
                _OpenRole(role, n, max(0, min(others, role.replicas - pods - n)))
                for role, pods, n in zip(spec.roles, have, missed, strict=True)
            ]
            asked = {r for r in range(len(self.problem.resources)) if _least_request(open_roles, others, r)}
            self._lacking[gang] = {r for r in asked if self._finds_too_little(open_roles, others, r)} or asked
        return self._lacking[gang]

    def _finds_too_little(self, roles: Sequence[_OpenRole], others: int, r: int) -> bool:
        open_nodes, limited = set[int](), []
        for role, missed, optional in roles:
            fitting = missed + optional
            if (amount := role.request[r]) and fitting:
                nodes = [n for n, node in enumerate(self.problem.nodes) if node.node_class in role.node_classes]
                fitting = min(fitting, sum(max(0, self.free_amounts[n][r]) // amount for n in nodes))
                open_nodes.update(nodes)
            limited.append(_OpenRole(role, missed, fitting - missed))
        if any(role.optional < 0 for role in limited) or sum(role.optional for role in limited) < others:
            return True
        return sum(max(0, self.free_amounts[n][r]) for n in open_nodes) < _least_request(limited, others, r)

    def dominant_share(self, amounts: Iterable[int]) -> Fraction:
        shares = (Fraction(amount, total) for amount, total in zip(amounts, self.totals, strict=True) if total)
        return max(shares, default=Fraction(0))

    def with_descendants(self, own: Sequence[Vector]) -> list[Vector]:
        total = [list(vector) for vector in own]
        for q, queue in _bottom_up_queues(self.problem):
            if queue.parent is not None:
                add_vector(total[queue.parent], total[q])
        return [tuple(amounts) for amounts in total]

    def queue_path(self, queue: int | None) -> list[int]:
        """Return the queue and its ancestors, the nearest first."""
        return quotas.queue_path(self.problem, queue)

    def is_closed(self, gang: int, node: int) -> bool:
        """Return whether the node is in a node group that the gang's queue may not use."""
        queue = self.problem.queues[self.problem.gangs[gang].queue]
        return self.problem.nodes[node].node_group in queue.closed_node_groups

    def hypernodes_above(self, node: int) -> set[int]:
        found, here = set(), self.problem.nodes[node].leaf
        while here is not None:
            found.add(here)
            here = self.problem.hypernodes[here].parent
        return found

    @cached_property
    def totals(self) -> Vector:
        """Return the capacity of all nodes."""
        return quotas.cluster_totals(self.problem)

    @cached_property
    def free_amounts(self) -> list[list[int]]:
        """Return the free amounts of each node before the plan."""
        free = [list(node.free) for node in self.problem.nodes]
        for gang, pods in zip(self.problem.gangs, self.running_pods, strict=True):
            for (role, node), number in pods.items():
                add_vector(free[node], gang.roles[role].request, -number)
        return free

    @cached_property
    def deserved(self) -> list[quotas.Amounts]:
        return quotas.deserved(self.problem)

    @cached_property
    def queue_limits(self) -> list[tuple[str, int, int, int | Decimal, bool]]:
        """(field of the queue that sets it, queue, resource, the most, whether descendants count) of each limit: the
        capability, what the guarantees of others leave of it, the proportional share."""
        found: list[tuple[str, int, int, int | Decimal, bool]] = []
        for q, queue in enumerate(self.problem.queues):
            found += [("capability", q, r, most, True) for r, most in enumerate(queue.capability) if most is not None]
        found += [("guarantee", *limit) for limit in quotas.real_capability(self.problem)]
        for q, share in sorted(quotas.proportional_shares(self.problem, self.held_gangs).items()):
            below = [(r, most) for r, most in share.items() if most < self.totals[r]]
            found += [("deserved", q, r, most, False) for r, most in below]
        return found

    @property
    def held_gangs(self) -> set[int]:
        """Return gangs that the plan keeps out of the cluster."""
        return {g for g, decision in self.decisions.items() if decision.held}

    @cached_property
    def own(self) -> QueueAmounts:
        """Return the amounts that each queue itself holds before the plan (`used` and its gangs' running pods), gets
        and loses."""
        running = self.demand(self.running_pods)
        held = [vector_sum(queue.used, amounts) for queue, amounts in zip(self.problem.queues, running, strict=True)]
        return QueueAmounts(held, self.demand(self.new_pods), self.demand(self.evicted_pods))

    @cached_property
    def inclusive(self) -> QueueAmounts:
        """Return the amounts of each queue with its descendants."""
        return QueueAmounts(*map(self.with_descendants, self.own))


def add_vector(total: list[int], vector: Iterable[int], times: int = 1) -> None:
    for r, amount in enumerate(vector):
        total[r] += amount * times


def vector_sum(left: Vector, right: Vector, times: int = 1) -> Vector:
    return tuple(a + b * times for a, b in zip(left, right, strict=True))


def has_plain_minima(gang: Gang) -> bool:
    """Return whether the roles' minima are all that the gang needs: no subgroups, pod rules or slot requests."""
    if any(role.owned_rules or role.selecting_rules or role.slot_requests for role in gang.roles):
        return False
    return not gang.subgroups and gang.minimum <= sum(role.minimum for role in gang.roles)


def fitting_pods(free: Iterable[int], request: Vector, most: int) -> int:
    """Return how many pods with this request fit into the free amounts, at most so many."""
    return min([most, *(have // ask for have, ask in zip(free, request, strict=True) if ask)])
