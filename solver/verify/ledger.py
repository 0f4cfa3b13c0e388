"""The verifier's ledger: problem and plan side by side, with the sums that several rules need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from solver.plan import Decision, Plan
from solver.problem import Gang, Placement, Problem, Topology, Vector
from solver.verify import quotas

Where = tuple[str | int, ...]
"""The path of indices into the plan (or, for a node or queue, the problem)."""
Findings = Iterator[tuple[Where, str]]
"""What a rule finds: where, and what is wrong there."""
Counts = Mapping[tuple[int, int], int]
"""Pods by (role, node)."""


def needs(problem: Problem, holdings: Sequence[Vector]) -> list[Vector]:
    """What has to be kept for each queue, its descendants included, when queue q itself (without descendants) holds
    `holdings[q]`.

        need(q) = max(guarantee(q), holding(q) + sum of need(c) over the children c of q)        per resource

    An unused part of a guarantee counts as taken, and a child's guarantee counts inside its parent's. A guarantee not
    given is 0.
    """
    need = [list(held) for held in holdings]
    for q in reversed(_top_down([queue.parent for queue in problem.queues])):
        queue = problem.queues[q]
        need[q] = [max(guarantee or 0, amount) for guarantee, amount in zip(queue.guarantee, need[q], strict=True)]
        if queue.parent is not None:
            add(need[queue.parent], need[q])
    return [tuple(amounts) for amounts in need]


def _top_down(parents: Sequence[int | None]) -> list[int]:
    """The indices, each after its parent."""
    children = defaultdict(list)
    for child, parent in enumerate(parents):
        children[parent].append(child)
    order = list(children[None])
    for index in order:
        order += children[index]
    return order


def _counts(placements: Iterable[Placement]) -> Counts:
    counts: dict[tuple[int, int], int] = {}
    for place in placements:
        spot = place.role, place.node
        counts[spot] = counts.get(spot, 0) + place.pods
    return counts


class Ledger:
    """Problem and plan side by side, with the sums that several rules need. Placements that point nowhere are left to
    rule `decisions`."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self.decisions: dict[int, Decision] = {}
        for decision in plan.decisions:
            if 0 <= decision.gang < len(problem.gangs):
                self.decisions.setdefault(decision.gang, decision)
        self.running = [_counts(gang.running) for gang in problem.gangs]
        self.gone = [self._gone(g) for g in range(len(problem.gangs))]
        self.stays: list[Counts] = [
            {key: left for key, pods in running.items() if (left := pods - gone.get(key, 0)) > 0} if gone else running
            for running, gone in zip(self.running, self.gone, strict=True)
        ]
        self.placed = [self._placed(g) for g in range(len(problem.gangs))]
        self.new: list[Counts] = [
            {key: pods - running.get(key, 0) for key, pods in sorted(placed.items()) if pods > running.get(key, 0)}
            if placed != running
            else {}
            for placed, running in zip(self.placed, self.running, strict=True)
        ]
        self.highest_tier = max((hypernode.tier for hypernode in problem.hypernodes), default=0)
        self._domains: dict[tuple[int | None, int], int | None] = {}
        self._choices: dict[int | None, list[list[int]]] = {}

    def _placed(self, gang: int) -> Counts:
        if gang not in self.decisions:
            return self.running[gang]
        return _counts(place for place in self.decisions[gang].placements if self.points_somewhere(gang, place))

    def _gone(self, gang: int) -> Counts:
        """Running pods that the plan evicts; what never ran is left to rule `evictions`."""
        if gang not in self.decisions or not self.decisions[gang].evicted:
            return {}
        evicted = _counts(place for place in self.decisions[gang].evicted if self.points_somewhere(gang, place))
        return {
            key: min(pods, self.running[gang][key])
            for key, pods in sorted(evicted.items())
            if key in self.running[gang]
        }

    def points_somewhere(self, gang: int, place: Placement) -> bool:
        return (
            place.pods > 0
            and 0 <= place.node < len(self.problem.nodes)
            and 0 <= place.role < len(self.problem.gangs[gang].roles)
        )

    def admitted(self) -> Iterator[tuple[int, Gang, Decision]]:
        """The gangs that start or are kept."""
        for g, decision in sorted(self.decisions.items()):
            if decision.action in ("start", "keep"):
                yield g, self.problem.gangs[g], decision

    def per_role(self, gang: int, counts: Counts) -> list[int]:
        pods = [0] * len(self.problem.gangs[gang].roles)
        for (role, _), amount in counts.items():
            pods[role] += amount
        return pods

    def meets_minima(self, gang: int, counts: Counts) -> bool:
        """Whether the pods reach the minimum of the gang, of each role and, as a total, of each subgroup."""
        spec, pods = self.problem.gangs[gang], self.per_role(gang, counts)
        return (
            sum(pods) >= spec.minimum
            and all(amount >= role.minimum for amount, role in zip(pods, spec.roles, strict=True))
            and all(sum(pods[t] for t in part.roles) >= part.minimum * part.size for part in spec.subgroups)
        )

    def binds(self, topology: Topology | None) -> bool:
        """Whether the topology restricts anything: it is hard, and not wider than the widest hypernode."""
        return topology is not None and topology.mode == "hard" and topology.tier <= self.highest_tier

    def domain(self, node: int, tier: int) -> int | None:
        """The maximal domain of a node: the highest hypernode above it that is reached from its leaf through tiers <=
        `tier` only."""
        leaf = self.problem.nodes[node].leaf
        if (leaf, tier) not in self._domains:
            found, above = None, leaf
            while above is not None and self.problem.hypernodes[above].tier <= tier:
                found, above = above, self.problem.hypernodes[above].parent
            self._domains[leaf, tier] = found
        return self._domains[leaf, tier]

    def choices(self, topology: Topology | None) -> list[list[int]]:
        """The sets of nodes of which a gang with this topology needs one."""
        tier = topology.tier if topology is not None and self.binds(topology) else None
        if tier not in self._choices:
            inside = defaultdict(list)
            for n in range(len(self.problem.nodes)):
                inside[self.domain(n, tier) if tier is not None else 0].append(n)
            self._choices[tier] = [nodes for domain, nodes in inside.items() if domain is not None]
        return self._choices[tier]

    def demand(self, counts: Sequence[Counts]) -> list[Vector]:
        """What these pods request in each queue, descendants not included."""
        total = [[0] * len(self.problem.resources) for _ in self.problem.queues]
        for g, (gang, pods) in enumerate(zip(self.problem.gangs, counts, strict=True)):
            if pods:
                for role, amount in zip(gang.roles, self.per_role(g, pods), strict=True):
                    add(total[gang.queue], role.request, amount)
        return [tuple(amounts) for amounts in total]

    def with_descendants(self, own: Sequence[Vector]) -> list[Vector]:
        total = [list(vector) for vector in own]
        for q in reversed(_top_down([queue.parent for queue in self.problem.queues])):
            parent = self.problem.queues[q].parent
            if parent is not None:
                add(total[parent], total[q])
        return [tuple(amounts) for amounts in total]

    def needs(self, own: Sequence[Vector]) -> list[Vector]:
        return needs(self.problem, own)

    @cached_property
    def totals(self) -> Vector:
        """The capacity of all nodes."""
        return quotas.cluster(self.problem)

    @cached_property
    def deserved(self) -> list[quotas.Amounts]:
        """`quotas.deserved`"""
        return quotas.deserved(self.problem)

    @cached_property
    def own_before(self) -> list[Vector]:
        """What each queue itself holds before the plan: `used` and its gangs' running pods."""
        running = self.demand(self.running)
        return [plus(queue.used, held) for queue, held in zip(self.problem.queues, running, strict=True)]

    @cached_property
    def own_new(self) -> list[Vector]:
        return self.demand(self.new)

    @cached_property
    def own_gone(self) -> list[Vector]:
        return self.demand(self.gone)

    @cached_property
    def before(self) -> list[Vector]:
        return self.with_descendants(self.own_before)

    @cached_property
    def added(self) -> list[Vector]:
        return self.with_descendants(self.own_new)

    @cached_property
    def lost(self) -> list[Vector]:
        """What evicted pods give back, in each queue with its descendants."""
        return self.with_descendants(self.own_gone)


def add(total: list[int], vector: Iterable[int], times: int = 1) -> None:
    for r, amount in enumerate(vector):
        total[r] += amount * times


def plus(left: Vector, right: Vector, times: int = 1) -> Vector:
    return tuple(a + b * times for a, b in zip(left, right, strict=True))
