"""Whether a problem is well formed. What users write is checked by the compiler, with files and lines; this guards the
solver's own door."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from math import lcm
from operator import le
from typing import Protocol

from solver.problem import (
    Back,
    Cell,
    Gang,
    HyperNode,
    InvalidProblemError,
    Limits,
    Node,
    Problem,
    Queue,
    Relation,
    Role,
    Subgroup,
    Vector,
)
from solver.validation.types import misbuilt

LARGEST = 2**62
"""No amount, and no sum of amounts over the cluster or over all gangs, may be larger: it has to fit a signed 64-bit
integer with room to add."""

MOST_PODS = 2**31 - 1
"""Of a role, or of its running pods on a node: Kubernetes counts them in 32 bits."""

Where = tuple[str | int, ...]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def validate(problem: Problem) -> None:
    """Raises InvalidProblemError, naming the culprit's path of indices, unless

    * everything is of the class that `solver.problem` says, tuples and not lists;
    * every number is an integer within its range, every vector as long as `resources`, every index inside its tuple,
    every name unique
      among its kind (roles and subgroups: in their gang);
    * a hypernode's parent has a higher tier (so there is no loop), and queues have no loop;
    * divisions are named once each; a role has at most one portion of each, and it asks for something;
    * on each node and cell free <= capacity;
    * each role's minimum <= replicas, a gang's minimum and each subgroup's parts within the replicas they cover;
    * a relation has one domain for each node and one count for each domain, no domain is without nodes, skew and
    least_domains are positive, what a
      role bears and matches is ascending, and one that is a gang's own counts nobody else's pods;
    * a budget names roles of gangs;
    * what running pods hold of cells is sorted, of portions of their roles and no more than these ask for, and with
    what is free at most the cell;
    * no role has more than `MOST_PODS` replicas, and no sum of amounts is above `LARGEST`.

    A problem without nodes, hypernodes, queues or gangs is well formed. A gang that cannot fit is well formed too: it
    waits.
    """
    _built(problem)
    _once(("resources",), problem.resources)
    _once(("divisions",), problem.divisions)
    for collection in ("nodes", "hypernodes", "queues", "gangs"):
        _unique((collection,), getattr(problem, collection))
    for h, hypernode in enumerate(problem.hypernodes):
        _hypernode(("hypernodes", h), hypernode, problem)
    _nodes(problem)
    for q, queue in enumerate(problem.queues):
        _queue(("queues", q), queue, problem)
    _no_queue_loop(problem.queues)
    for rho, relation in enumerate(problem.relations):
        _relation(("relations", rho), relation, problem)
    for g, gang in enumerate(problem.gangs):
        _gang(("gangs", g), gang, problem)
    _held(problem)
    for number, r in enumerate(problem.devices):
        _index(("devices", number), r, problem.resources)
    for b, budget in enumerate(problem.budgets):
        _integer(("budgets", b, "allowed"), budget.allowed)
        for k, (g, t) in enumerate(budget.roles):
            _index(("budgets", b, "roles", k), g, problem.gangs)
            _index(("budgets", b, "roles", k), t, problem.gangs[g].roles)
    _integer(("policy", "reclaim_levels"), problem.policy.reclaim_levels)
    _sums(problem)


def _built(problem: Problem) -> None:
    if (fault := misbuilt(problem)) is not None:
        raise InvalidProblemError(*fault)


def _once(where: Where, names: tuple[str, ...]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InvalidProblemError((*where, i), f"{name!r} occurs twice")


def _nodes(problem: Problem) -> None:
    plain = _plain(problem)
    for n, node in enumerate(problem.nodes):
        if not plain or node.cells or node.windows or node.back is not None or node.closes_in is not None:
            _node(("nodes", n), node, problem)


def _plain(problem: Problem) -> bool:
    """Whether nothing is wrong with what every node has: leaf, kind, capacity and free. Looked at all together; `_node`
    finds the culprit."""
    nodes = problem.nodes
    leaves, kinds = [node.leaf for node in nodes if node.leaf is not None], [node.kind for node in nodes]
    pairs = [(node.free, node.capacity) for node in nodes]
    vectors = list(chain.from_iterable(pairs))
    if {*map(type, leaves), *map(type, kinds), *map(type, chain.from_iterable(vectors))} - {int} or set(
        map(len, vectors)
    ) - {len(problem.resources)}:
        return False
    hypernodes, amounts = range(len(problem.hypernodes)), range(LARGEST + 1)
    return (
        all(leaf in hypernodes for leaf in set(leaves))
        and all(kind in amounts for kind in set(kinds))
        and all(amount in amounts for vector in set(vectors) for amount in vector)
        and all(free <= most for pair in set(pairs) for free, most in zip(*pair, strict=True))
    )


def _unique(where: Where, items: Sequence[_Named]) -> None:
    first: dict[str, int] = {}
    if len({item.name for item in items}) == len(items):
        return
    for i, item in enumerate(items):
        if first.setdefault(item.name, i) != i:
            raise InvalidProblemError((*where, i, "name"), f"{item.name!r} is the name of {first[item.name]} already")


def _integer(where: Where, value: object, least: int | None = 0) -> None:
    if type(value) is not int:  # a bool or a float, NaN included, compares like a number but is none of ours
        raise InvalidProblemError(where, f"{value!r} is not an integer")
    if (least is not None and value < least) or abs(value) > LARGEST:
        raise InvalidProblemError(where, f"{value} is outside {-LARGEST if least is None else least} to {LARGEST}")


def _pods(where: Where, number: object, least: int) -> None:
    _integer(where, number, least)
    if isinstance(number, int) and number > MOST_PODS:
        raise InvalidProblemError(where, f"{number} pods are more than the {MOST_PODS} that can be counted")


def _index(where: Where, value: object, items: Sequence[object]) -> None:
    _integer(where, value, None)
    if value not in range(len(items)):
        raise InvalidProblemError(where, f"there is no {value} among {len(items)}")


def _vector(where: Where, vector: Vector | Limits, problem: Problem, *, optional: bool = False) -> None:
    if len(vector) != len(problem.resources):
        raise InvalidProblemError(where, f"has {len(vector)} entries for {len(problem.resources)} resources")
    if all(type(amount) is int and 0 <= amount <= LARGEST for amount in vector):
        return
    for r, amount in enumerate(vector):
        if not (optional and amount is None):
            _integer((*where, r), amount)


def _hypernode(where: Where, hypernode: HyperNode, problem: Problem) -> None:
    _integer((*where, "tier"), hypernode.tier, 1)
    if hypernode.parent is not None:
        _index((*where, "parent"), hypernode.parent, problem.hypernodes)
        parent = problem.hypernodes[hypernode.parent]
        _integer(("hypernodes", hypernode.parent, "tier"), parent.tier, 1)
        if parent.tier <= hypernode.tier:
            raise InvalidProblemError(
                (*where, "parent"), f"its tier {parent.tier} is not above the child's {hypernode.tier}"
            )


def _node(where: Where, node: Node, problem: Problem) -> None:
    if node.leaf is not None:
        _index((*where, "leaf"), node.leaf, problem.hypernodes)
    if node.closes_in is not None:
        _integer((*where, "closes_in"), node.closes_in)
    for w, window in enumerate(node.windows):
        for end, seconds in enumerate(window):
            _integer((*where, "windows", w, end), seconds)
    _room(where, node, problem)
    if node.back is not None:
        _room((*where, "back"), node.back, problem)
        if [cell.division for cell in node.back.cells] != [cell.division for cell in node.cells]:
            raise InvalidProblemError((*where, "back", "cells"), "are not the node's own")


def _room(where: Where, node: Node | Back, problem: Problem) -> None:
    _integer((*where, "kind"), node.kind)
    _vector((*where, "capacity"), node.capacity, problem)
    _vector((*where, "free"), node.free, problem)
    _within_capacity(where, node)
    for c, cell in enumerate(node.cells):
        here = (*where, "cells", c)
        _index((*here, "division"), cell.division, problem.divisions)
        _vector((*here, "capacity"), cell.capacity, problem)
        _vector((*here, "free"), cell.free, problem)
        _within_capacity(here, cell)


def _within_capacity(where: Where, part: Node | Back | Cell) -> None:
    if all(map(le, part.free, part.capacity)):
        return
    for r, (free, capacity) in enumerate(zip(part.free, part.capacity, strict=True)):
        if free > capacity:
            raise InvalidProblemError((*where, "free", r), f"{free} are free of a capacity of {capacity}")


def _portions(where: Where, role: Role, problem: Problem) -> None:
    for k, portion in enumerate(role.portions):
        here = (*where, "portions", k)
        _index((*here, "division"), portion.division, problem.divisions)
        if portion.division in [other.division for other in role.portions[:k]]:
            raise InvalidProblemError((*here, "division"), "there is a portion of this division already")
        _integer((*here, "number"), portion.number, 1)
        _vector((*here, "share"), portion.share, problem)
        if not any(portion.share):
            raise InvalidProblemError((*here, "share"), "asks for nothing")


def _queue(where: Where, queue: Queue, problem: Problem) -> None:
    if queue.parent is not None:
        _index((*where, "parent"), queue.parent, problem.queues)
    _integer((*where, "weight"), queue.weight, 1)
    _integer((*where, "priority"), queue.priority, None)
    for name in ("guarantee", "deserved", "capability"):
        _vector((*where, name), getattr(queue, name), problem, optional=True)
    _vector((*where, "used"), queue.used, problem)
    for k, hypernode in enumerate(queue.kept):
        _index((*where, "kept", k), hypernode, problem.hypernodes)
    for step, (_, weight) in enumerate(queue.hierarchy):
        _integer((*where, "hierarchy", step), weight, 1)


def _no_queue_loop(queues: Sequence[Queue]) -> None:
    for q, queue in enumerate(queues):
        above = queue.parent
        for _ in queues:
            if above is None:
                break
            above = queues[above].parent
        else:
            raise InvalidProblemError(("queues", q, "parent"), "the way up never ends: the queues form a loop")


def _relation(where: Where, relation: Relation, problem: Problem) -> None:
    if relation.kind not in ("apart", "together", "even"):
        raise InvalidProblemError((*where, "kind"), f"{relation.kind!r} is none of apart, together, even")
    if len(relation.domains) != len(problem.nodes):
        raise InvalidProblemError(
            (*where, "domains"), f"has {len(relation.domains)} entries for {len(problem.nodes)} nodes"
        )
    for n, d in enumerate(relation.domains):
        if d is not None:
            _index((*where, "domains", n), d, relation.present)
    if empty := set(range(len(relation.present))) - set(relation.domains):
        raise InvalidProblemError((*where, "present", min(empty)), "no node is in this domain")
    for name in ("present", "guards"):
        for d, pods in enumerate(getattr(relation, name)):
            _integer((*where, name, d), pods)
    if relation.guards and len(relation.guards) != len(relation.present):
        raise InvalidProblemError(
            (*where, "guards"), f"has {len(relation.guards)} entries for {len(relation.present)} domains"
        )
    rho = int(where[-1])
    concerned = (
        {
            g
            for g, gang in enumerate(problem.gangs)
            if any(rho in role.bears or rho in role.matches for role in gang.roles)
        }
        if relation.own
        else {}
    )
    if relation.own and (len(concerned) > 1 or any(relation.present) or any(relation.guards)):
        raise InvalidProblemError((*where, "own"), "is one gang's own, yet others are in it")
    _integer((*where, "skew"), relation.skew, 1)
    _integer((*where, "least_domains"), relation.least_domains, 1)


def _bonds(where: Where, bonds: tuple[int, ...], problem: Problem) -> None:
    for position, rho in enumerate(bonds):
        _index((*where, position), rho, problem.relations)
    if list(bonds) != sorted(set(bonds)):
        raise InvalidProblemError(where, "must be ascending, each relation once")


def _gang(where: Where, gang: Gang, problem: Problem) -> None:
    _index((*where, "queue"), gang.queue, problem.queues)
    for name in ("priority", "age"):
        _integer((*where, name), getattr(gang, name), None)
    _unique((*where, "roles"), gang.roles)
    _unique((*where, "subgroups"), gang.subgroups)
    for t, role in enumerate(gang.roles):
        here = (*where, "roles", t)
        _pods((*here, "replicas"), role.replicas, 0)
        _integer((*here, "minimum"), role.minimum)
        if role.minimum > role.replicas:
            raise InvalidProblemError((*here, "minimum"), f"{role.minimum} is above the {role.replicas} replicas")
        _vector((*here, "request"), role.request, problem)
        _portions(here, role, problem)
        for kind in sorted(role.kinds, key=repr):
            _integer((*here, "kinds"), kind)
        _bonds((*here, "bears"), role.bears, problem)
        _bonds((*here, "matches"), role.matches, problem)
    _integer((*where, "minimum"), gang.minimum)
    _integer((*where, "loss"), gang.loss)
    for name in ("duration", "ends"):
        if getattr(gang, name) is not None:
            _integer((*where, name), getattr(gang, name))
    if gang.ends is not None and not gang.running:
        raise InvalidProblemError((*where, "ends"), "nothing of the gang runs that could end")
    if gang.minimum > sum(role.replicas for role in gang.roles):
        raise InvalidProblemError((*where, "minimum"), f"{gang.minimum} is above the replicas of all roles")
    if gang.topology is not None:
        _integer((*where, "topology", "tier"), gang.topology.tier, 1)
    _subgroups((*where, "subgroups"), gang)
    _affinities((*where, "affinities"), gang)
    _running(where, gang, problem)
    _holds((*where, "holds"), gang, problem)


def _running(where: Where, gang: Gang, problem: Problem) -> None:
    roles, nodes, amounts = range(len(gang.roles)), range(len(problem.nodes)), range(1, MOST_PODS + 1)
    for p, placement in enumerate(gang.running):
        role, node, pods = placement.role, placement.node, placement.pods
        if type(role) is type(node) is type(pods) is int and role in roles and node in nodes and pods in amounts:
            continue
        here = (*where, "running", p)
        _index((*here, "role"), role, gang.roles)
        _index((*here, "node"), node, problem.nodes)
        _pods((*here, "pods"), pods, 1)


def _holds(where: Where, gang: Gang, problem: Problem) -> None:
    pods = {(p.role, p.node): 0 for p in gang.running}
    for p in gang.running:
        pods[p.role, p.node] += p.pods
    taken: dict[tuple[int, int, int], int] = {}
    last = (-1, -1, -1)
    for k, hold in enumerate(gang.holds):
        here, spot = (*where, k), (hold.role, hold.node)
        for name in ("role", "node", "cell"):
            _integer((*here, name), getattr(hold, name))
        _integer((*here, "pods"), hold.pods, 1)
        if spot not in pods or hold.pods > pods[spot]:
            raise InvalidProblemError(here, "no pod of the gang runs there, or not as many")
        _index((*here, "cell"), hold.cell, problem.nodes[hold.node].cells)
        division = problem.nodes[hold.node].cells[hold.cell].division
        number = next((portion.number for portion in gang.roles[hold.role].portions if portion.division == division), 0)
        taken[(*spot, division)] = taken.get((*spot, division), 0) + hold.pods
        if taken[(*spot, division)] > number * pods[spot]:
            raise InvalidProblemError(here, "more than the pods there take of this division")
        if (hold.role, hold.node, hold.cell) <= last:
            raise InvalidProblemError(where, "not sorted by (role, node, cell), or a cell named twice")
        last = hold.role, hold.node, hold.cell


def _held(problem: Problem) -> None:
    """What is said to be held of a cell, and what is free there, are no more than the cell."""
    held: dict[tuple[int, int], list[int]] = {}
    for g, gang in enumerate(problem.gangs):
        for k, hold in enumerate(gang.holds):
            cell = problem.nodes[hold.node].cells[hold.cell]
            (share,) = (
                portion.share for portion in gang.roles[hold.role].portions if portion.division == cell.division
            )
            total = held.setdefault((hold.node, hold.cell), list(cell.free))
            total[:] = [have + hold.pods * amount for have, amount in zip(total, share, strict=True)]
            if any(have > most for have, most in zip(total, cell.capacity, strict=True)):
                raise InvalidProblemError(
                    ("gangs", g, "holds", k), f"more than cell {hold.cell} of node {hold.node} has"
                )


def _affinities(where: Where, gang: Gang) -> None:
    for position, (a, b, value) in enumerate(gang.affinities):
        for role in (a, b):
            _index((*where, position), role, gang.roles)
        if value not in (1, -1):
            raise InvalidProblemError((*where, position), f"{value} is neither 1 nor -1")


def _subgroups(where: Where, gang: Gang) -> None:
    """All sizes first, since each is compared with the others."""
    for k, subgroup in enumerate(gang.subgroups):
        _integer((*where, k, "size"), subgroup.size, 1)
    for k, subgroup in enumerate(gang.subgroups):
        _subgroup((*where, k), subgroup, gang)


def _subgroup(where: Where, subgroup: Subgroup, gang: Gang) -> None:
    _integer((*where, "minimum"), subgroup.minimum)
    _integer((*where, "topology", "tier"), subgroup.topology.tier, 1)
    for role in subgroup.roles:
        _index((*where, "roles"), role, gang.roles)
    if len(set(subgroup.roles)) != len(subgroup.roles) or not subgroup.roles:
        raise InvalidProblemError((*where, "roles"), "must name at least one role, and each once")
    replicas = sum(gang.roles[t].replicas for t in subgroup.roles)
    if subgroup.minimum * subgroup.size > replicas:
        raise InvalidProblemError(
            (*where, "minimum"), f"{subgroup.minimum} parts of {subgroup.size} pods are above the {replicas} replicas"
        )
    # Subgroups of the same roles nest: the pods are a multiple of every size, hence of their least common multiple.
    sizes = [other.size for other in gang.subgroups if set(other.roles) == set(subgroup.roles)]
    if subgroup.minimum and lcm(*sizes) > replicas:
        raise InvalidProblemError(
            (*where, "size"), f"no number of pods up to {replicas} is a multiple of the sizes {sizes}"
        )


def _sums(problem: Problem) -> None:
    """Sums over the whole problem; Python's own integers do not overflow, so they are taken first and judged after."""
    roles = [(g, t, role, gang) for g, gang in enumerate(problem.gangs) for t, role in enumerate(gang.roles)]
    pods = [
        max(role.replicas, sum([place.pods for place in gang.running if place.role == t])) for _, t, role, gang in roles
    ]
    asked = [tuple([number * x for x in role.request]) for number, (_, _, role, _) in zip(pods, roles, strict=True)]
    used = [
        tuple([have + (least or 0) for have, least in zip(q.used, q.guarantee, strict=True)]) for q in problem.queues
    ]
    _sum([node.capacity for node in problem.nodes], lambda n, r: ("nodes", n, "capacity", r))
    _sum(used, lambda q, r: ("queues", q, "used", r))
    _sum(asked, lambda k, r: ("gangs", roles[k][0], "roles", roles[k][1], "request", r))


def _sum(parts: Sequence[Vector], where: Callable[[int, int], Where]) -> None:
    """Raises at the first part with which the sum of a resource is too large. No amount is below 0."""
    for r, column in enumerate(zip(*parts, strict=True)):
        if sum(column) > LARGEST:
            for k, total in enumerate(accumulate(column)):
                _integer(where(k, r), total)
