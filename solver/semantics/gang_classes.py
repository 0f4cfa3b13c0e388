"""Gangs that no constraint can tell apart are one shape: the model counts them instead of naming them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from solver.problem import Gang, Placement, PodRequest, Problem, Subgroup, Vector
from solver.semantics.gang_sizes import required_pods, role_mix
from solver.semantics.placements import add_vectors
from solver.semantics.priorities import precedence
from solver.semantics.topology import ROOT, TopologyTree


@dataclass(frozen=True, slots=True)
class ClassRole:
    """Pods still to be placed for one gang: at least `need`, at most `room`, each taking `ask` on a node of `kinds`; as
    in `Role`."""

    min_pods: int
    max_pods: int
    pod_request: PodRequest
    node_classes: frozenset[int]
    owned_rules: tuple[int, ...] = ()
    selecting_rules: tuple[int, ...] = ()

    @property
    def request(self) -> Vector:
        """What one pod asks of the node as a whole."""
        return self.pod_request.amounts


@dataclass(frozen=True, slots=True)
class GangClass:
    """least <= pods placed per gang <= most, running pods not counted. tier: hard limit for the whole gang, None for
    none.

    fixed: the pods that run already, which only a shape of one gang has. alone: a mark that keeps gangs apart which
    must not be counted together.
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
        """Whether every gang of the shape places the same pods of each role."""
        return self.min_pods == self.max_pods == sum(r.min_pods for r in self.roles)

    @property
    def has_pod_rules(self) -> bool:
        """Whether relations bind its pods, or count them."""
        return any(role.owned_rules or role.selecting_rules for role in self.roles)

    def running_per_role(self) -> list[int]:
        """Pods per role that run already."""
        have = [0] * len(self.roles)
        for p in self.running_pods:
            have[p.role] += p.pods
        return have

    @property
    def has_valid_size(self) -> bool:
        """Whether numbers of pods alone, wherever they lie, can be a gang: inside the replicas, `least` in sum, whole
        subgroups."""
        want, have = self.smallest_mix(), self.running_per_role()
        return (
            sum(want) >= self.min_pods
            and all(n <= role.max_pods for n, role in zip(want, self.roles, strict=True))
            and all(sum(want[t] + have[t] for t in s.roles) % s.size == 0 for s in self.subgroups)
        )

    def smallest_mix(self) -> list[int]:
        """New pods per role, `least` in sum, whole subgroups only."""
        return role_mix(
            [r.min_pods for r in self.roles],
            [r.max_pods for r in self.roles],
            self.running_per_role(),
            self.subgroups,
            self.min_pods,
        )

    def with_fixed_mix(self, pods: Sequence[int]) -> GangClass:
        """The same shape with its mix of roles settled."""
        roles = tuple(replace(r, min_pods=n, max_pods=n) for n, r in zip(pods, self.roles, strict=True))
        return GangClass(roles, sum(pods), sum(pods), self.hard_tier, self.subgroups, self.running_pods, self.only_gang)

    def min_demand(self, width: int) -> Vector:
        """What one gang asks for at least, in resources: the needs, then the cheapest pods up to `least`. Exact for a
        rigid shape."""
        total: Vector = (0,) * width
        for role in self.roles:
            total = add_vectors(total, role.request, role.min_pods)
        missing = self.min_pods - sum(r.min_pods for r in self.roles)
        for role in sorted(self.roles, key=lambda r: (sum(1 for x in r.request if x), r.request)):
            extra = min(missing, role.max_pods - role.min_pods)
            total, missing = add_vectors(total, role.request, extra), missing - extra
        return total

    def max_demand(self, width: int) -> Vector:
        """The most that one gang may ask for to start, resource by resource; exact for a rigid shape."""
        total: Vector = (0,) * width
        for role in self.roles:
            total = add_vectors(total, role.request, role.min_pods)
        open_roles = [role.request for role in self.roles if role.max_pods > role.min_pods]
        most = tuple(max((request[r] for request in open_roles), default=0) for r in range(width))
        return add_vectors(total, most, self.max_pods - sum(role.min_pods for role in self.roles))


def hard_tier(gang: Gang) -> int | None:
    return gang.topology.tier if gang.topology is not None and gang.topology.mode == "hard" else None


def _pods_per_role(gang: Gang, placed: Iterable[Placement]) -> list[int]:
    have = [0] * len(gang.roles)
    for p in placed:
        have[p.role] += p.pods
    return have


def meets_minima(gang: Gang) -> bool:
    """Whether the running pods alone meet every minimum."""
    running = _pods_per_role(gang, gang.running)
    return (
        bool(gang.running)
        and sum(running) >= gang.minimum
        and all(have >= role.minimum for have, role in zip(running, gang.roles, strict=True))
        and all(sum(running[t] for t in s.roles) >= s.minimum * s.size for s in gang.subgroups)
    )


def waiting_class(index: int, gang: Gang) -> GangClass:
    """The shape of a gang that waits."""
    need, least = required_pods(gang, _pods_per_role(gang, gang.running))
    return _gang_class(index, gang, gang.running, need, least, least)


def growing_class(index: int, gang: Gang, placed: Sequence[Placement]) -> GangClass:
    """The shape of an admitted gang that may take more pods beside those it has."""
    return _gang_class(index, gang, tuple(placed), (0,) * len(gang.roles), 0, sum(r.replicas for r in gang.roles))


def _gang_class(
    index: int, gang: Gang, fixed: tuple[Placement, ...], need: Sequence[int], least: int, most: int
) -> GangClass:
    have = _pods_per_role(gang, fixed)
    roles = tuple(
        ClassRole(
            max(0, n - h), max(0, r.replicas - h), r.pod_request, r.node_classes, r.owned_rules, r.selecting_rules
        )
        for n, h, r in zip(need, have, gang.roles, strict=True)
    )
    least, most = max(0, least - sum(have)), max(0, most - sum(have))
    least = max(least, sum(r.min_pods for r in roles))
    shape = GangClass(roles, least, max(least, most), hard_tier(gang), gang.subgroups, fixed)
    # Pods of several roles in one subgroup, and pods whose mix is open, cannot be told apart again once they are summed
    # over gangs; and a relation asks of each gang where it is.
    apart = bool(fixed) or not shape.is_rigid or shape.has_pod_rules or any(len(s.roles) > 1 for s in gang.subgroups)
    return GangClass(
        shape.roles, shape.min_pods, shape.max_pods, shape.hard_tier, shape.subgroups, fixed, index if apart else None
    )


def breaks_topology(tree: TopologyTree, gang: Gang, placed: Iterable[Placement]) -> bool:
    """Whether these pods break the gang's own hard topology for good: then no further pod may join them."""
    placed = tuple(placed)
    tier = hard_tier(gang)
    if tier is not None and placed:
        at = {tree.enclosing_domain(tree.problem.nodes[p.node].leaf, tier) for p in placed}
        if len(at) > 1 or None in at:
            return True
    return any(None in _subgroup_pods_by_domain(tree, s, placed) for s in gang.subgroups)


def has_partial_subgroup(tree: TopologyTree, gang: Gang, placed: Iterable[Placement]) -> bool:
    """Whether a subgroup is not whole: such a gang may be completed, but grows no further."""
    placed = tuple(placed)
    return any(pods % s.size for s in gang.subgroups for pods in _subgroup_pods_by_domain(tree, s, placed).values())


def _subgroup_pods_by_domain(tree: TopologyTree, part: Subgroup, placed: Iterable[Placement]) -> dict[int | None, int]:
    """Domain of the subgroup's tier -> pods of its roles there; None for pods outside every domain, ROOT for a soft
    one."""
    count: dict[int | None, int] = {}
    for p in placed:
        if p.role in part.roles:
            domain = (
                tree.enclosing_domain(tree.problem.nodes[p.node].leaf, part.topology.tier)
                if part.topology.mode == "hard"
                else ROOT
            )
            count[domain] = count.get(domain, 0) + p.pods
    return count


def gangs_by_class(problem: Problem, gangs: Iterable[int]) -> dict[tuple[int, int, GangClass], tuple[int, ...]]:
    """(queue, urgency, shape) -> its gangs, oldest first. Order of keys: first appearance among `gangs`."""
    found: dict[tuple[int, int, GangClass], list[int]] = {}
    for j in gangs:
        gang = problem.gangs[j]
        found.setdefault((gang.queue, precedence(gang), waiting_class(j, gang)), []).append(j)
    return {key: tuple(sorted(js, key=lambda j: (problem.gangs[j].age, j))) for key, js in found.items()}
