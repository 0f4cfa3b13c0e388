"""Gangs that no constraint can tell apart are one shape: the model counts them instead of naming them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from solver.problem import Ask, Gang, Placement, Problem, Subgroup, Vector
from solver.semantics.gang_sizes import mix, required
from solver.semantics.priorities import urgency
from solver.semantics.topology import ROOT, Tree
from solver.state.room import add


@dataclass(frozen=True, slots=True)
class ShapeRole:
    """Pods still to be placed for one gang: at least `need`, at most `room`, each taking `ask` on a node of `kinds`; as
    in `Role`."""

    need: int
    room: int
    ask: Ask
    kinds: frozenset[int]
    bears: tuple[int, ...] = ()
    matches: tuple[int, ...] = ()

    @property
    def request(self) -> Vector:
        """What one pod asks of the node as a whole."""
        return self.ask.request


@dataclass(frozen=True, slots=True)
class Shape:
    """least <= pods placed per gang <= most, running pods not counted. tier: hard limit for the whole gang, None for
    none.

    fixed: the pods that run already, which only a shape of one gang has. alone: a mark that keeps gangs apart which
    must not be counted together.
    """

    roles: tuple[ShapeRole, ...]
    least: int
    most: int
    tier: int | None
    subgroups: tuple[Subgroup, ...]
    fixed: tuple[Placement, ...] = ()
    alone: int | None = None

    @property
    def rigid(self) -> bool:
        """Whether every gang of the shape places the same pods of each role."""
        return self.least == self.most == sum(r.need for r in self.roles)

    @property
    def related(self) -> bool:
        """Whether relations bind its pods, or count them."""
        return any(role.bears or role.matches for role in self.roles)

    def running(self) -> list[int]:
        """Pods per role that run already."""
        have = [0] * len(self.roles)
        for p in self.fixed:
            have[p.role] += p.pods
        return have

    @property
    def possible(self) -> bool:
        """Whether numbers of pods alone, wherever they lie, can be a gang: inside the replicas, `least` in sum, whole
        subgroups."""
        want, have = self.mixed(), self.running()
        return (
            sum(want) >= self.least
            and all(n <= role.room for n, role in zip(want, self.roles, strict=True))
            and all(sum(want[t] + have[t] for t in s.roles) % s.size == 0 for s in self.subgroups)
        )

    def mixed(self) -> list[int]:
        """New pods per role, `least` in sum, whole subgroups only."""
        return mix(
            [r.need for r in self.roles], [r.room for r in self.roles], self.running(), self.subgroups, self.least
        )

    def pinned(self, pods: Sequence[int]) -> Shape:
        """The same shape with its mix of roles settled."""
        roles = tuple(replace(r, need=n, room=n) for n, r in zip(pods, self.roles, strict=True))
        return Shape(roles, sum(pods), sum(pods), self.tier, self.subgroups, self.fixed, self.alone)

    def demand(self, width: int) -> Vector:
        """What one gang asks for at least, in resources: the needs, then the cheapest pods up to `least`. Exact for a
        rigid shape."""
        total: Vector = (0,) * width
        for role in self.roles:
            total = add(total, role.request, role.need)
        missing = self.least - sum(r.need for r in self.roles)
        for role in sorted(self.roles, key=lambda r: (sum(1 for x in r.request if x), r.request)):
            extra = min(missing, role.room - role.need)
            total, missing = add(total, role.request, extra), missing - extra
        return total

    def dearest(self, width: int) -> Vector:
        """The most that one gang may ask for to start, resource by resource; exact for a rigid shape."""
        total: Vector = (0,) * width
        for role in self.roles:
            total = add(total, role.request, role.need)
        open_roles = [role.request for role in self.roles if role.room > role.need]
        most = tuple(max((request[r] for request in open_roles), default=0) for r in range(width))
        return add(total, most, self.most - sum(role.need for role in self.roles))


def hard_tier(gang: Gang) -> int | None:
    return gang.topology.tier if gang.topology is not None and gang.topology.mode == "hard" else None


def _per_role(gang: Gang, placed: Iterable[Placement]) -> list[int]:
    have = [0] * len(gang.roles)
    for p in placed:
        have[p.role] += p.pods
    return have


def satisfied(gang: Gang) -> bool:
    """Whether the running pods alone meet every minimum."""
    running = _per_role(gang, gang.running)
    return (
        bool(gang.running)
        and sum(running) >= gang.minimum
        and all(have >= role.minimum for have, role in zip(running, gang.roles, strict=True))
        and all(sum(running[t] for t in s.roles) >= s.minimum * s.size for s in gang.subgroups)
    )


def shape_of(index: int, gang: Gang) -> Shape:
    """The shape of a gang that waits."""
    need, least = required(gang, _per_role(gang, gang.running))
    return _shape(index, gang, gang.running, need, least, least)


def growing_shape(index: int, gang: Gang, placed: Sequence[Placement]) -> Shape:
    """The shape of an admitted gang that may take more pods beside those it has."""
    return _shape(index, gang, tuple(placed), (0,) * len(gang.roles), 0, sum(r.replicas for r in gang.roles))


def _shape(index: int, gang: Gang, fixed: tuple[Placement, ...], need: Sequence[int], least: int, most: int) -> Shape:
    have = _per_role(gang, fixed)
    roles = tuple(
        ShapeRole(max(0, n - h), max(0, r.replicas - h), r.ask, r.kinds, r.bears, r.matches)
        for n, h, r in zip(need, have, gang.roles, strict=True)
    )
    least, most = max(0, least - sum(have)), max(0, most - sum(have))
    least = max(least, sum(r.need for r in roles))
    shape = Shape(roles, least, max(least, most), hard_tier(gang), gang.subgroups, fixed)
    # Pods of several roles in one subgroup, and pods whose mix is open, cannot be told apart again once they are summed
    # over gangs; and a relation asks of each gang where it is.
    apart = bool(fixed) or not shape.rigid or shape.related or any(len(s.roles) > 1 for s in gang.subgroups)
    return Shape(shape.roles, shape.least, shape.most, shape.tier, shape.subgroups, fixed, index if apart else None)


def broken(tree: Tree, gang: Gang, placed: Iterable[Placement]) -> bool:
    """Whether these pods break the gang's own hard topology for good: then no further pod may join them."""
    placed = tuple(placed)
    tier = hard_tier(gang)
    if tier is not None and placed:
        at = {tree.domain(tree.problem.nodes[p.node].leaf, tier) for p in placed}
        if len(at) > 1 or None in at:
            return True
    return any(None in _parts(tree, s, placed) for s in gang.subgroups)


def uneven(tree: Tree, gang: Gang, placed: Iterable[Placement]) -> bool:
    """Whether a subgroup is not whole: such a gang may be completed, but grows no further."""
    placed = tuple(placed)
    return any(pods % s.size for s in gang.subgroups for pods in _parts(tree, s, placed).values())


def _parts(tree: Tree, part: Subgroup, placed: Iterable[Placement]) -> dict[int | None, int]:
    """Domain of the subgroup's tier -> pods of its roles there; None for pods outside every domain, ROOT for a soft
    one."""
    count: dict[int | None, int] = {}
    for p in placed:
        if p.role in part.roles:
            domain = (
                tree.domain(tree.problem.nodes[p.node].leaf, part.topology.tier)
                if part.topology.mode == "hard"
                else ROOT
            )
            count[domain] = count.get(domain, 0) + p.pods
    return count


def classes(problem: Problem, gangs: Iterable[int]) -> dict[tuple[int, int, Shape], tuple[int, ...]]:
    """(queue, urgency, shape) -> its gangs, oldest first. Order of keys: first appearance among `gangs`."""
    found: dict[tuple[int, int, Shape], list[int]] = {}
    for j in gangs:
        gang = problem.gangs[j]
        found.setdefault((gang.queue, urgency(gang), shape_of(j, gang)), []).append(j)
    return {key: tuple(sorted(js, key=lambda j: (problem.gangs[j].age, j))) for key, js in found.items()}
