"""What may keep a gang from finding room: for each family of obstacles the gang or the world without it, and the fact
that says it with its numbers.

A new kind of obstacle is one more `Family` in `now` or `never`, and a function that makes its fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from solver.diagnosis.blockers import FEW, blockers
from solver.diagnosis.minimal import spared
from solver.diagnosis.world import Case, Question, Setting
from solver.greedy.best_fit import Greedy
from solver.placement.fit import domain_shortage, found, parts_wanted, reaches, subgroup_shortage, total_shortage
from solver.plan import Fact
from solver.problem import Ask, Gang, Role, Topology
from solver.semantics.device_slots import Free
from solver.semantics.topology import ROOT
from solver.state.room import Room

ANYWHERE = Topology("soft", 1)


@dataclass(frozen=True)
class Family:
    """relax: the setting without this obstacle. fact: what to say of it, given a setting in which all else that is
    blamed is out of the way."""

    relax: Callable[[Setting], Setting]
    fact: Callable[[Setting], Fact]


def now(case: Case) -> list[Family]:
    """What may be in the way now of a gang that the empty cluster holds, anew or beside its pods that run; whom to
    blame first stands first."""
    *first, last = of_the_world(case)
    first = [*first, *company(case)]
    anew = [Family(_anew, partial(own_pods, case))] if case.gang.running and case.fits(case.empty) is not False else []
    return [*first, *topologies(case, case.gang), *divided(case, case.gang), last, *anew]


def of_the_world(case: Case) -> list[Family]:
    """What does not lie in the gang itself."""
    away = [Family(partial(_back, case.world.away), partial(nodes_away, case))] if case.world.away else []
    return [*away, Family(_without_running, partial(no_room, case))]


def never(case: Case) -> list[Family]:
    """What may be in the way of a gang even on the empty cluster."""
    gang = case.empty.gang
    roles = range(len(gang.roles))
    made = [*company(case), *topologies(case, gang), *divided(case, gang)]
    made += [Family(partial(_resized, (t,)), partial(pod_too_large, case, t)) for t in oversized(case, case.empty)]
    made += [Family(partial(_opened, case, t), partial(not_open, case, t)) for t in roles]
    return [*made, Family(partial(_resized, roles), partial(too_large, case))]


def company(case: Case) -> list[Family]:
    """What the gang's pods say of others, and others of them."""
    related = case.world.neighbours is not None and any(role.bears or role.matches for role in case.gang.roles)
    return [Family(_alone, partial(not_beside, case))] if related else []


def topologies(case: Case, gang: Gang) -> list[Family]:
    """The hard topology of the whole gang, and that of each kind of subgroup."""
    made = []
    top = case.world.tree.top
    if gang.topology is not None and gang.topology.mode == "hard" and gang.topology.tier <= top:
        made.append(Family(_scattered, partial(no_domain, case)))
    for i, part in enumerate(gang.subgroups):
        if part.topology.mode == "hard" and part.topology.tier <= top:
            made.append(Family(partial(_loosened, i), partial(no_parts, case, i)))
    return made


def divided(case: Case, gang: Gang) -> list[Family]:
    """The cells of the nodes, for each role whose pods take portions of them."""
    return [
        Family(partial(_undivided, t), partial(cells_too_small, case, t))
        for t, role in enumerate(gang.roles)
        if role.portions
    ]


# ---- what is taken away


def _back(nodes: tuple[int, ...], s: Setting) -> Setting:
    return replace(s, back=nodes)


def _without_running(s: Setting) -> Setting:
    return replace(s, running=False)


def _alone(s: Setting) -> Setting:
    """Nobody asks who is where."""
    return replace(s, related=False)


def _anew(s: Setting) -> Setting:
    """The gang's own pods stop, and all of it is placed together."""
    return replace(s, gang=replace(s.gang, running=()))


def _scattered(s: Setting) -> Setting:
    return replace(s, gang=replace(s.gang, topology=ANYWHERE))


def _loosened(i: int, s: Setting) -> Setting:
    """Subgroups of kind i are still whole, but anywhere."""
    parts = tuple(replace(part, topology=ANYWHERE) if k == i else part for k, part in enumerate(s.gang.subgroups))
    return replace(s, gang=replace(s.gang, subgroups=parts))


def _undivided(t: int, s: Setting) -> Setting:
    """The nodes of role t are not divided: what its pods ask for may come from anywhere in a node."""
    return replace(
        s,
        gang=replace(
            s.gang, roles=tuple(replace(role, portions=()) if i == t else role for i, role in enumerate(s.gang.roles))
        ),
    )


def _resized(roles: Iterable[int], s: Setting) -> Setting:
    """The pods of these roles ask for nothing, as though every node that is open to them were large enough."""
    nothing = tuple(
        replace(role, request=(0,) * len(role.request), portions=()) if t in roles else role
        for t, role in enumerate(s.gang.roles)
    )
    return replace(s, gang=replace(s.gang, roles=nothing))


def _opened(case: Case, t: int, s: Setting) -> Setting:
    """All nodes are open to role t."""
    kinds = frozenset(node.kind for node in case.world.nodes(s.back)[0])
    return replace(
        s,
        gang=replace(
            s.gang, roles=tuple(replace(role, kinds=kinds) if i == t else role for i, role in enumerate(s.gang.roles))
        ),
    )


def oversized(case: Case, s: Setting) -> list[int]:
    """Roles of which no open node holds a single pod, although there are open nodes."""
    q = case.question(s)
    large = []
    for t, role in enumerate(s.gang.roles):
        nodes = _open_to(q, (role,))
        if q.shape.roles[t].need and len(nodes.amounts) and not nodes.slots(Ask(role.request)).any():
            large.append(t)
    return large


# ---- what is said


def others_first(case: Case, s: Setting) -> Fact:
    """GW105: the gangs of the plan without which it would fit, none of them to spare."""
    most, gangs = blockers(case, s)
    return Fact("GW105", asked=case.question(s).shape.least, available=most, gangs=gangs)


def not_beside(case: Case, s: Setting) -> Fact:
    """GW117: a relation between pods. Named is one without which alone the greedy finds room, else the first."""
    q = case.question(s)
    bound = sorted({rho for role in s.gang.roles for rho in (*role.bears, *role.matches)})
    tried = ((rho, q.neighbours.only(q.neighbours.enforced - {rho})) for rho in bound if q.neighbours is not None)
    chosen = next(
        (rho for rho, others in tried if found(q.problem, q.tree, 0, q.shape, q.free, others) is not None), bound[0]
    )
    bears = [t for t, role in enumerate(s.gang.roles) if chosen in role.bears]
    matches = [t for t, role in enumerate(s.gang.roles) if chosen in role.matches]
    return Fact("GW117", role=[*bears, *matches][0], relation=chosen)


def no_domain(case: Case, s: Setting) -> Fact:
    """GW104: no domain of the allowed tier has room. available: pods that the best one holds, as far as counting or the
    greedy tell.

    A gang that runs in part has no choice of domain any more.
    """
    q = case.question(s)
    reach = reaches(q.problem, q.tree, q.shape, q.free)
    if q.shape.fixed and q.shape.tier is not None:
        home = q.tree.domain(q.problem.nodes[q.shape.fixed[0].node].leaf, q.shape.tier)
        pods = (
            sum(min(r[home], role.need) for r, role in zip(reach, q.shape.roles, strict=True))
            if home is not None
            else 0
        )
        return Fact(
            "GW104",
            tier=q.shape.tier,
            hypernode=home,
            asked=q.shape.least,
            available=max(0, min(pods, q.shape.least - 1)),
        )
    short = domain_shortage(q.tree, q.shape, reach)
    if short is not None:
        return Fact("GW104", tier=short.tier, hypernode=short.hypernode, asked=short.asked, available=short.available)
    return Fact("GW104", tier=q.shape.tier, asked=q.shape.least, available=_most(q))


def no_parts(case: Case, i: int, s: Setting) -> Fact:
    """GW109: the domains of the tier hold too few whole parts. asked, available: parts; limit: pods of one."""
    q, part = case.question(s), s.gang.subgroups[i]
    short = subgroup_shortage(q.tree, q.shape, part, reaches(q.problem, q.tree, q.shape, q.free))
    available = None if short is None else short.available
    return Fact(
        "GW109",
        tier=part.topology.tier,
        asked=parts_wanted(q.shape, part),
        available=available,
        limit=part.size,
        subgroup=i,
    )


def cells_too_small(case: Case, t: int, s: Setting) -> Fact:
    """GW118: the nodes have room for the role in sum, their cells have not. available: pods of it that the cells hold.

    Where no cell at all has room for the share of one pod: a resource of the share, the roomiest (available) and the
    largest cell (limit).
    """
    q, role = case.question(s), s.gang.roles[t]
    free = _open_to(q, (role,))
    large = case.world.capacity.at(np.isin(q.tree.kinds, sorted(role.kinds)))
    for portion in role.portions:
        for r, amount in enumerate(portion.share):
            if amount > (most := _largest(free, portion.division, r)):
                return Fact(
                    "GW118",
                    role=t,
                    resource=r,
                    asked=amount,
                    available=most,
                    limit=_largest(large, portion.division, r),
                )
    held, asked = int(free.slots(role.ask).sum()), _asked(q, t)
    return Fact("GW118", role=t, asked=asked, available=min(held, asked - 1))


def _largest(free: Free, division: int, r: int) -> int:
    """Most of a resource in one cell of a division."""
    return int(free.cells[:, division, :, r].max(initial=0))


def no_room(case: Case, s: Setting) -> Fact:
    """What runs takes the room, wherever the gang may be: GW102 too little is free, GW119 enough, but in pieces."""
    for i in range(len(s.gang.subgroups)):
        s = _loosened(i, s)
    return _short(case.question(_scattered(s)))


def own_pods(case: Case, s: Setting) -> Fact:
    """GW121: beside the pods that run already the rest finds no room, and elsewhere all of it would. asked: the pods
    that are missing."""
    q = case.question(s)
    return Fact("GW121", asked=q.shape.least, available=_most(q))


def nodes_away(case: Case, s: Setting) -> Fact:
    """GW122: nodes that are away for now, none of them to spare, with which it would fit."""
    q = case.question(_back(case.world.away, s))
    placed = found(q.problem, q.tree, 0, q.shape, q.free)
    used = case.world.away if placed is None else tuple(n for n in case.world.away if n in {p.node for p in placed})
    return Fact(
        "GW122", nodes=spared(used, lambda nodes: case.fits(_back(nodes, s)) is True) if len(used) <= FEW else used
    )


def pod_too_large(case: Case, t: int, s: Setting) -> Fact:
    """GW103: no open node, empty, holds one pod of the role. No resource is named where it is two together that no node
    has."""
    role = s.gang.roles[t]
    most = _open_to(case.question(s), (role,)).amounts.max(axis=0)
    r = next((r for r, a in enumerate(role.request) if a > most[r]), None)
    if r is None:
        return Fact("GW103", role=t)
    return Fact("GW103", role=t, resource=r, asked=role.request[r], limit=int(most[r]), available=int(most[r]))


def not_open(case: Case, t: int, s: Setting) -> Fact:
    """GW107: no node is open to the role. GW120: some are, but too few."""
    q, role = case.question(s), s.gang.roles[t]
    nodes = _open_to(q, (role,))
    if not len(nodes.amounts):
        return Fact("GW107", role=t)
    held, asked = int(nodes.slots(role.ask).sum()), _asked(q, t)
    return Fact("GW120", role=t, asked=asked, available=min(held, asked - 1))


def _asked(q: Question, t: int) -> int:
    """Pods that are asked of a role: as many as it needs; where that is none, as many as it may have of what the gang
    needs in all."""
    role = q.shape.roles[t]
    return role.need or max(1, min(role.room, q.shape.least))


def too_large(case: Case, s: Setting) -> Fact:
    """GW108: the cluster, empty, has less of a resource than the gang asks for. GW102: the nodes open to it have.
    GW119: enough, but in pieces."""
    q = case.question(s)
    asked, total = q.shape.demand(q.free.amounts.shape[1]), _sum(q.free)
    r = _scarce(asked, total)
    return _short(q) if r is None else Fact("GW108", resource=r, asked=asked[r], available=total[r], limit=total[r])


def _short(q: Question) -> Fact:
    """Too little of a resource on the nodes that are open to a role, or to the whole gang (GW102); else the pieces are
    too small (GW119)."""
    reach = reaches(q.problem, q.tree, q.shape, q.free)
    (gang,) = q.problem.gangs
    for t, role in enumerate(q.shape.roles):
        if reach[t][ROOT] < role.need:
            r = _scarce([a * role.need for a in role.request], total := _sum(_open_to(q, (gang.roles[t],))))
            if r is not None:
                return Fact("GW102", role=t, resource=r, asked=role.request[r] * role.need, available=total[r])
            return Fact("GW119", role=t, asked=role.need, available=reach[t][ROOT])
    asked = q.shape.demand(q.free.amounts.shape[1])
    r = _scarce(asked, total := _sum(_open_to(q, gang.roles)))
    if r is not None:
        return Fact("GW102", resource=r, asked=asked[r], available=total[r])
    short = total_shortage(q.shape, reach)
    return Fact("GW119", asked=q.shape.least, available=_most(q) if short is None else short.available)


def _scarce(asked: Iterable[int], total: list[int]) -> int | None:
    """The resource of which least is there, measured by what is asked; None where all of them suffice."""
    short = [(total[r] / a, r) for r, a in enumerate(asked) if a > total[r]]
    return min(short)[1] if short else None


def _open_to(q: Question, roles: Iterable[Role]) -> Free:
    """What is free on each of the nodes that are open to one of the roles."""
    return q.free.at(np.isin(q.tree.kinds, sorted({kind for role in roles for kind in role.kinds})))


def _sum(free: Free) -> list[int]:
    return [int(x) for x in free.amounts.sum(axis=0)]


def _most(q: Question) -> int:
    """Pods of the gang that the greedy gets in, short of all of them."""
    return Greedy(q.problem, q.tree, Room(q.free)).most(0, q.shape)
