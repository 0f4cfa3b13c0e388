"""Gang classes: gangs that no constraint distinguishes, which models count instead of naming them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from solver.problem import Gang, Placement, PodRequest, Problem, Role, Subgroup, Vector
from solver.semantics.gang_sizes import least_amount, most_amount, required_pods, role_mix
from solver.semantics.order import precedence
from solver.semantics.placements import add_vectors
from solver.semantics.topology import ROOT, TopologyTree


@dataclass(frozen=True, slots=True)
class ClassRole:
    """The pods of one role still to be placed for one gang: min_pods to max_pods; other fields as in `Role`."""

    min_pods: int
    max_pods: int
    pod_request: PodRequest
    node_classes: frozenset[int]
    owned_rules: tuple[int, ...] = ()
    selecting_rules: tuple[int, ...] = ()

    @property
    def request(self) -> Vector:
        """Return the request of one pod to its node."""
        return self.pod_request.amounts


@dataclass(frozen=True, slots=True)
class GangClass:
    """min_pods <= new pods per gang <= max_pods. hard_tier: of the whole gang, None for none. running_pods: only in a
    class of one gang. only_gang: the gang's index, where it must not be counted together with others.
    """

    roles: tuple[ClassRole, ...]
    min_pods: int
    max_pods: int
    hard_tier: int | None
    subgroups: tuple[Subgroup, ...]
    running_pods: tuple[Placement, ...] = ()
    only_gang: int | None = None

    @property
    def is_rigid(self) -> bool:
        """Return whether every gang of the class places the same number of pods of each role."""
        return self.min_pods == self.max_pods == sum(r.min_pods for r in self.roles)

    @property
    def has_pod_rules(self) -> bool:
        """Return whether pod rules bind or select its pods."""
        return any(role.owned_rules or role.selecting_rules for role in self.roles)

    def needed_pods(self, t: int) -> int:
        """Return new pods of role t that every gang has: its minimum, or what all other roles together leave of
        min_pods."""
        others = sum(role.max_pods for role in self.roles) - self.roles[t].max_pods
        return max(self.roles[t].min_pods, self.min_pods - others)

    def running_per_role(self) -> list[int]:
        """Return running pods of each role."""
        return pods_per_role(len(self.roles), self.running_pods)

    @property
    def has_valid_size(self) -> bool:
        """Return whether some number of pods per role makes a gang: within the replicas, enough in sum, whole
        subgroups."""
        want, have = self.smallest_mix(), self.running_per_role()
        return (
            sum(want) >= self.min_pods
            and all(n <= role.max_pods for n, role in zip(want, self.roles, strict=True))
            and all(sum(want[t] + have[t] for t in s.roles) % s.size == 0 for s in self.subgroups)
        )

    def smallest_mix(self) -> list[int]:
        """Return new pods per role, min_pods in sum, whole subgroups only."""
        least, most = [r.min_pods for r in self.roles], [r.max_pods for r in self.roles]
        return role_mix(least, most, self.running_per_role(), self.subgroups, self.min_pods)

    def with_fixed_mix(self, pods: Sequence[int]) -> GangClass:
        """Return the class with exactly these new pods per role."""
        roles = tuple(replace(r, min_pods=n, max_pods=n) for n, r in zip(pods, self.roles, strict=True))
        return replace(self, roles=roles, min_pods=sum(pods), max_pods=sum(pods))

    def within(self, room: Sequence[int]) -> GangClass:
        """Return the class with no more pods of a role than there is room for; as it is where these would not be
        enough."""
        pods = [max(role.min_pods, min(role.max_pods, n)) for role, n in zip(self.roles, room, strict=True)]
        if sum(pods) < self.min_pods:
            return self
        return replace(self, roles=tuple(replace(r, max_pods=n) for r, n in zip(self.roles, pods, strict=True)))

    def min_demand(self, width: int) -> Vector:
        """Return the least request of one gang: its roles' minima, then the cheapest pods up to min_pods. Exact for a
        rigid class. width: number of resources."""
        total, missing = self._role_minima(width)
        for role in sorted(self.roles, key=lambda r: (sum(1 for x in r.request if x), r.request)):
            extra = min(missing, role.max_pods - role.min_pods)
            total, missing = add_vectors(total, role.request, extra), missing - extra
        return total

    def min_demand_by_resource(self, width: int) -> Vector:
        """Return the least of each resource by itself that one gang requests, whichever roles its pods up to min_pods
        are of."""
        return tuple(least_amount(self.min_pods, self._requests_of(r)) for r in range(width))

    def certain_demand(self, width: int) -> Vector:
        """Return, for each resource that one gang requests with any choice of roles up to min_pods, the most that it
        may request; 0 for the others."""
        least = self.min_demand_by_resource(width)
        return tuple(most_amount(self.min_pods, self._requests_of(r)) if n else 0 for r, n in enumerate(least))

    def _requests_of(self, r: int) -> list[tuple[int, int, int]]:
        return [(role.request[r], role.min_pods, role.max_pods) for role in self.roles]

    def max_demand(self, width: int) -> Vector:
        """Return the most that one gang may request to start, resource by resource; exact for a rigid class."""
        total, missing = self._role_minima(width)
        open_roles = [role.request for role in self.roles if role.max_pods > role.min_pods]
        largest = tuple(max((request[r] for request in open_roles), default=0) for r in range(width))
        return add_vectors(total, largest, missing + self.max_pods - self.min_pods)

    def _role_minima(self, width: int) -> tuple[Vector, int]:
        """(what the roles' minima request, pods missing from min_pods in addition to them)"""
        total: Vector = (0,) * width
        for role in self.roles:
            total = add_vectors(total, role.request, role.min_pods)
        return total, self.min_pods - sum(role.min_pods for role in self.roles)


def hard_tier(gang: Gang) -> int | None:
    """Return the tier that the whole gang must sit under; None for none."""
    return gang.topology.tier if gang.topology is not None and gang.topology.is_hard else None


def pods_per_role(roles: int, placed: Iterable[Placement]) -> list[int]:
    """Return role -> pods placed."""
    have = [0] * roles
    for p in placed:
        have[p.role] += p.pods
    return have


def elastic_roles(gang: Gang, placed: Iterable[Placement]) -> list[Role]:
    """Return the roles of which the gang has fewer pods than replicas."""
    have = pods_per_role(len(gang.roles), placed)
    return [role for role, pods in zip(gang.roles, have, strict=True) if pods < role.replicas]


def meets_minima(gang: Gang) -> bool:
    """Return whether the running pods alone meet every minimum."""
    if not gang.running:
        return False
    running = pods_per_role(len(gang.roles), gang.running)
    if sum(running) < gang.minimum:
        return False
    for have, role in zip(running, gang.roles, strict=True):  # asked of every gang, several times for each plan
        if have < role.minimum:
            return False
    return not gang.subgroups or all(sum(running[t] for t in s.roles) >= s.minimum * s.size for s in gang.subgroups)


@lru_cache(maxsize=1 << 16)
def waiting_class(index: int, gang: Gang) -> GangClass:
    """Return the class of a waiting gang; kept, since every step asks for it again."""
    need, least = required_pods(gang, pods_per_role(len(gang.roles), gang.running))
    return _gang_class(index, gang, gang.running, need, least, least)


def growing_class(index: int, gang: Gang, placed: Sequence[Placement]) -> GangClass:
    """Return the class of an admitted gang that may take more pods in addition to those it has."""
    return _gang_class(index, gang, tuple(placed), (0,) * len(gang.roles), 0, sum(r.replicas for r in gang.roles))


def _gang_class(
    index: int, gang: Gang, fixed: tuple[Placement, ...], need: Sequence[int], least: int, most: int
) -> GangClass:
    have = pods_per_role(len(gang.roles), fixed)
    roles = tuple(
        ClassRole(
            max(0, n - h), max(0, r.replicas - h), r.pod_request, r.node_classes, r.owned_rules, r.selecting_rules
        )
        for n, h, r in zip(need, have, gang.roles, strict=True)
    )
    least = max(least - sum(have), sum(r.min_pods for r in roles), 0)
    most = max(most - sum(have), least)
    found = GangClass(roles, least, most, hard_tier(gang), gang.subgroups, fixed)
    # Summed over gangs, the pods of several roles in one subgroup and an open mix of roles cannot be separated again;
    # and a pod rule needs to know where each gang is.
    distinct = bool(fixed) or not found.is_rigid or found.has_pod_rules or any(len(s.roles) > 1 for s in gang.subgroups)
    return replace(found, only_gang=index) if distinct else found


def breaks_topology(tree: TopologyTree, gang: Gang, placed: Iterable[Placement]) -> bool:
    """Return whether these pods break the gang's hard topology, so that no further pod may join them."""
    placed = tuple(placed)
    tier = hard_tier(gang)
    if tier is not None and placed:
        at = {tree.enclosing_domain(tree.problem.nodes[p.node].leaf, tier) for p in placed}
        if len(at) > 1 or None in at:
            return True
    return any(None in subgroup_pods_by_domain(tree, s, placed) for s in gang.subgroups)


def has_partial_subgroup(tree: TopologyTree, gang: Gang, placed: Iterable[Placement]) -> bool:
    """Return whether a subgroup is incomplete: such a gang may be completed, but grows no further."""
    placed = tuple(placed)
    return any(pods % s.size for s in gang.subgroups for pods in subgroup_pods_by_domain(tree, s, placed).values())


def subgroup_pods_by_domain(
    tree: TopologyTree, subgroup: Subgroup, placed: Iterable[Placement]
) -> dict[int | None, int]:
    """Return domain of the subgroup's tier -> its pods there; None for pods outside every domain, ROOT if soft."""
    count: dict[int | None, int] = {}
    hard, tier = subgroup.topology.is_hard, subgroup.topology.tier
    for p in placed:
        if p.role in subgroup.roles:
            domain = tree.enclosing_domain(tree.problem.nodes[p.node].leaf, tier) if hard else ROOT
            count[domain] = count.get(domain, 0) + p.pods
    return count


def may_go_anywhere(problem: Problem, gangs: Iterable[int]) -> bool:
    """Return whether nothing binds these gangs to domains, nor pods to other pods: then there is no more to choose than
    a node for each pod."""
    for j in gangs:
        gang = problem.gangs[j]
        if hard_tier(gang) is not None or gang.subgroups or waiting_class(j, gang).has_pod_rules:
            return False
    return True


def gangs_by_class(problem: Problem, gangs: Iterable[int]) -> dict[tuple[int, int, GangClass], tuple[int, ...]]:
    """Return (queue, precedence, class) -> its gangs, oldest first. Keys are in the order of first appearance."""
    found: dict[tuple[int, int, GangClass], list[int]] = {}
    for j in gangs:
        gang = problem.gangs[j]
        found.setdefault((gang.queue, precedence(gang), waiting_class(j, gang)), []).append(j)
    return {key: tuple(sorted(js, key=lambda j: (problem.gangs[j].age, j))) for key, js in found.items()}
