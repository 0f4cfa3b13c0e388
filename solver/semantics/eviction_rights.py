"""Eviction rights: which gang may lose pods to which, and how many. The rules of Volcano's preempt and reclaim as pure
functions (volcano.sh, actions preempt, reclaim, gangpreempt, gangreclaim; plugins gang, priority and capacity).
`solver.verify.evictions` states them a second time."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from solver.problem import EvictionVotes, Gang, Limits, Placement, Problem, Vector
from solver.semantics import entitlements, queues
from solver.semantics.device_slots import HeldShare, IntArray
from solver.semantics.gang_classes import GangClass, breaks_topology, has_partial_subgroup, waiting_class
from solver.semantics.gang_sizes import required_pods
from solver.semantics.placements import add_vectors, placed_demand, requested_resources, subtract_placements
from solver.semantics.topology import TopologyTree

SHARE_DELTA = Fraction(1, 1_000_000)
"""Dominant shares that differ by no more are the same to Volcano (shareDelta of pkg/scheduler/plugins/drf)."""


ReclaimRight = Literal["none", "partial", "full"]


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may lose pods to another one.

    running: its pods. surplus_per_role, max_surplus: pods that may be evicted while it stays, per role and in sum (0:
    only the whole gang). retained_amounts: of one resource it must keep at least that much; () for nothing.
    checked_queues: the queues that must be able to spare its loss; none where it is evicted for its own queue. right:
    to reclaim, of the gangs that it is evicted for. held_shares: device slots that its pods hold.
    """

    gang: int
    running: tuple[Placement, ...]
    surplus_per_role: tuple[int, ...]
    max_surplus: int
    may_go_whole: bool = True
    retained_amounts: Vector = ()
    checked_queues: tuple[int, ...] = ()
    right: ReclaimRight = "full"
    held_shares: tuple[HeldShare, ...] = ()


@dataclass(frozen=True, slots=True)
class EvictedUnit:
    """Pods that are evicted at once: one that its gang can spare, or a whole gang. returned: their amounts. last: the
    part of these that may be evicted although the queue then has less than it deserves."""

    returned: Vector
    last: Vector


# ---- which gang may lose pods to which


def allows_eviction(problem: Problem) -> bool:
    """Return whether the problem allows any eviction at all."""
    enabled = problem.preempt_enabled or problem.reclaim_enabled
    return enabled and any(gang.eviction.evictable and gang.running for gang in problem.gangs)


def has_eviction_right(problem: Problem, j: int, v: int) -> bool:
    """Return whether gang j may evict gang v by any rule."""
    return may_preempt(problem, j, v) or may_reclaim(problem, j, v)


def may_preempt(problem: Problem, j: int, v: int) -> bool:
    """Inside one queue: the victim's priority is strictly lower (Volcano, action preempt with the plugin priority)."""
    preemptor, victim = problem.gangs[j], problem.gangs[v]
    allowed = problem.preempt_enabled and preemptor.eviction.may_evict and victim.eviction.evictable
    return allowed and preemptor.queue == victim.queue and victim.priority < preemptor.priority


def may_reclaim(problem: Problem, j: int, v: int) -> bool:
    """Return whether a gang may be evicted across queues: reclaim is on, and both gangs and the victim's queue allow
    it, whatever their priorities (Volcano, action reclaim). `ReclaimLimits` limits the queue's loss, `reclaim_right`
    the preemptor's right."""
    preemptor, victim = problem.gangs[j], problem.gangs[v]
    allowed = problem.reclaim_enabled and preemptor.eviction.may_evict and victim.eviction.evictable
    return allowed and preemptor.queue != victim.queue and problem.queues[victim.queue].reclaimable


def may_reclaim_domain(problem: Problem, dedicated_nodes: Mapping[int, frozenset[int]], j: int, v: int) -> bool:
    """Return whether gang v is evicted for gang j because it runs in a dedicated domain that j's queue has access to
    and v's has not. Deserved amounts and priorities do not matter: the domain is j's queue's own.

    dedicated_nodes: queue -> nodes that it may take back (`accessible_dedicated_nodes`).
    """
    if not may_reclaim(problem, j, v):
        return False
    none, victim = frozenset[int](), problem.gangs[v]
    own = dedicated_nodes.get(problem.gangs[j].queue, none) - dedicated_nodes.get(victim.queue, none)
    return any(p.node in own for p in victim.running)


def may_borrow_domains(problem: Problem, j: int) -> bool:
    """Return whether gang j may start in dedicated domains of other queues: their owners can have it evicted whole at
    once, since it is reclaimable and no disruption budget covers a role of it."""
    return is_reclaimable_whole(problem, problem.gangs[j]) and j not in problem.budgeted_gangs


def is_reclaimable_whole(problem: Problem, gang: Gang) -> bool:
    """Reclaim is on, no plugin votes against it, and the gang and its queue let it happen."""
    unvoted = problem.reclaim_enabled and problem.reclaim_votes == EvictionVotes()
    may_go_whole = gang.eviction.evictable and not gang.eviction.protected
    return unvoted and may_go_whole and problem.queues[gang.queue].reclaimable


def eviction_votes(problem: Problem, preemptor: int, v: int) -> EvictionVotes:
    """Return the votes that count when gang v is evicted for this preemptor."""
    same_queue = problem.gangs[preemptor].queue == problem.gangs[v].queue
    return problem.preempt_votes if same_queue else problem.reclaim_votes


# ---- what queues may take from one another


def deserved_limits(problem: Problem) -> tuple[Limits, ...]:
    """Return each queue's deserved amounts, None where undeclared: the share by weight with Volcano's plugin
    proportion, else the declared amounts as the plugin capacity reads them, with 0 for undeclared. The number of pods
    never counts."""
    if problem.policy.proportion:
        found: Sequence[Limits] = [
            share or (0,) * len(problem.resources) for share in entitlements.water_filled_shares(problem)
        ]
    else:
        found = [tuple(d or None for d in due) for due in entitlements.capacity_deserved(problem)]
    return tuple(
        tuple(None if name == queues.PODS else d for name, d in zip(problem.resources, due, strict=True))
        for due in found
    )


def reclaim_ancestors(problem: Problem, q: int) -> tuple[int, ...]:
    """Return the queues above q that are checked as well, nearest first: `Policy.ancestor_reclaim_levels` of them, with
    capacity's hierarchy."""
    number = problem.policy.ancestor_reclaim_levels if problem.policy.hierarchical else 0
    return tuple(queues.queue_path(problem, q)[1 : 1 + number])


def queues_to_check(problem: Problem, home: int, q: int) -> tuple[int, ...]:
    """Return the queues that must be able to spare the loss of a gang of queue q to one of queue `home`: q, and its
    ancestors to check except those at the same height above `home` (Volcano, plugin capacity,
    getReclaimeeAncestorToCheck)."""
    own, other = reclaim_ancestors(problem, q), reclaim_ancestors(problem, home)
    pairs = zip(own, itertools.chain(other, itertools.repeat(None)), strict=False)
    return (q, *(a for a, b in pairs if a != b))


@dataclass(slots=True)
class ShortResources:
    """Resources that waiting gangs lack before the plan. free: node x resource, at least 0. node_classes: of the nodes.
    missing: gang -> the pods that it misses of its minima. known: answers so far."""

    problem: Problem
    free: IntArray
    node_classes: IntArray = field(init=False)
    missing: dict[int, GangClass] = field(default_factory=dict)
    known: dict[object, tuple[frozenset[int], frozenset[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.node_classes = np.array([node.node_class for node in self.problem.nodes], dtype=np.int64)

    def of_gang(self, j: int) -> frozenset[int]:
        """Return the resources of which there is too little on the nodes that gang j may use, whichever pods it takes
        to reach its minima: for the pods of one role, node by node, or for the cheapest mix of roles in sum. All that
        any mix asks for where there is enough of each (but nowhere enough of all)."""
        missing = self._missing_pods(j)
        asked, lacked = self._lacked(missing, missing, slice(None))
        return lacked or asked

    def lacks_room(self, j: int, domain: int, nodes: IntArray) -> bool:
        """Return whether gang j lacks a resource other than the number of pods among these nodes, all under the
        domain."""
        missing = self._missing_pods(j)
        _, lacked = self._lacked((domain, missing), missing, nodes)
        return any(self.problem.resources[r] != queues.PODS for r in lacked)

    def _missing_pods(self, j: int) -> GangClass:
        """Return the pods that gang j misses of its minima, of roles that these leave open; subgroups are not
        completed."""
        if j not in self.missing:
            found = waiting_class(j, replace(self.problem.gangs[j], subgroups=()))
            if found.is_rigid:
                found = found.with_fixed_mix([role.min_pods for role in found.roles])
            self.missing[j] = replace(found, only_gang=None, running_pods=())
        return self.missing[j]

    def _lacked(
        self, key: object, missing: GangClass, nodes: slice | IntArray
    ) -> tuple[frozenset[int], frozenset[int]]:
        """(the resources that any mix of the pods asks for, those of them that are lacked among these nodes)."""
        if key not in self.known:
            least = missing.min_demand_by_resource(len(self.problem.resources))
            asked = frozenset(requested_resources([least]))
            self.known[key] = asked, frozenset(r for r in asked if self._is_short(missing, r, nodes))
        return self.known[key]

    def _is_short(self, missing: GangClass, r: int, nodes: slice | IntArray) -> bool:
        """Return whether no mix of the pods finds enough of resource r, that one alone looked at."""
        free, classes = self.free[nodes, r], self.node_classes[nodes]
        open_to, room = np.zeros(len(free), dtype=bool), [role.max_pods for role in missing.roles]
        for t, role in enumerate(missing.roles):
            if role.request[r] and role.max_pods:
                eligible = np.isin(classes, sorted(role.node_classes))
                room[t] = min(role.max_pods, int((free[eligible] // role.request[r]).sum()))
                open_to |= eligible
        if sum(room) < missing.min_pods or any(n < role.min_pods for n, role in zip(room, missing.roles, strict=True)):
            return True
        least = missing.within(room).min_demand_by_resource(len(self.problem.resources))[r]
        return int(free[open_to].sum()) < least


def reclaim_right(
    problem: Problem,
    held: Sequence[Vector],
    deserved: Sequence[Limits],
    homes: tuple[int, int],
    amount: Vector,
    short: Set[int],
) -> ReclaimRight:
    """Return the right to reclaim of a gang that requests `amount` (`GangClass.certain_demand`) and lacks the resources
    `short`. homes: its queue, and the victim's. held: per queue.

        held_q[r] + amount[r] <= deserved_q[r]      q: its queue, or an ancestor to check that is not above both

    Partial where that holds of some r, full where of each, in one q. Of the r that it asks for and q deserves by name
    those count that are short, if any are. No gang has a right to take back what another gets by a full right.
    (Volcano, plugin capacity, Preemptive: any r that it asks for.)
    """
    home, other = homes
    found: ReclaimRight = "none"
    above_both = queues.queue_path(problem, other)
    for q in (home, *(a for a in reclaim_ancestors(problem, home) if a not in above_both)):
        asked = ((r, held[q][r] + a, deserved[q][r]) for r, a in enumerate(amount) if a)
        within = {r: total <= most for r, total, most in asked if most is not None}
        counted = [within[r] for r in within.keys() & short or within]
        if counted and all(counted):
            return "full"
        found = "partial" if any(counted) else found
    return found


def contend_without_entitlement(
    problem: Problem, home: int, q: int, deserved: Sequence[Limits], amount: Vector
) -> bool:
    """Return whether two queues below one ancestor to check contend for what neither deserves anything of: then neither
    takes from the other (Volcano, plugin capacity, sharesAnyNonRootAncestorWithinLevel)."""
    if set(reclaim_ancestors(problem, home)).isdisjoint(reclaim_ancestors(problem, q)):
        return False
    return all(deserved[home][r] is None and deserved[q][r] is None for r, a in enumerate(amount) if a)


@dataclass(frozen=True, slots=True)
class ReclaimLimits:
    """The most that gangs of other queues may take from one queue.

    asked: resources that the gangs request. short: those of them that they lack. named: resources with a deserved
    amount of the queue. measured: resources by which it was measured before in this plan. above_deserved: resource ->
    the queue's usage beyond its deserved amount (0: no further evictions by it). above_guarantee: resource -> the most
    that may be evicted in all.
    """

    asked: frozenset[int]
    short: frozenset[int]
    named: frozenset[int]
    measured: frozenset[int]
    above_deserved: Mapping[int, int]
    above_guarantee: Mapping[int, int]

    def conditions(self, amount: Vector, right: ReclaimRight) -> list[frozenset[int]]:
        """Return sets of resources: the queue must hold too much of one resource in each set for this amount to be
        evicted.

        A full right requires one of the queue's named resources (of the short ones, if any), a partial right all of
        them, so that the queue has no right to take this back. No condition where it deserves none; one that never
        holds where nothing requested is returned.
        """
        if not any(amount[r] for r in self.asked):
            return [frozenset()]
        touched = frozenset(r for r in self.named if amount[r])
        if right == "partial":
            return [frozenset([r]) for r in sorted(touched)]
        return [touched & self.short or touched] if touched else []

    def allow(self, amount: Vector, right: ReclaimRight) -> bool:
        """Return whether this may be the first to go."""
        return all(any(self.above_deserved.get(r) for r in one) for one in self.conditions(amount, right))


# ---- how much of a gang may go


def min_retained_amounts(problem: Problem, preemptors: Iterable[int], v: int) -> Vector:
    """Return the amount of one resource that gang v must keep where drf votes: the largest dominant share of its
    preemptors; () for nothing.

    left_v[r] / total_r >= max_j share_j - 1e-6  for one r,  share_j = max_r demand_j[r] / total_r, of j's largest start

    Volcano compares pod after pod, with what the preemptor has until then; in any order the last comparison is this
    one. Source: preemptableFn of pkg/scheduler/plugins/drf.
    """
    asking = [j for j in preemptors if eviction_votes(problem, j, v).compare_shares]
    if not asking:
        return ()
    totals, share = problem.totals, Fraction(0)
    for j in asking:
        gang = problem.gangs[j]
        new, running = waiting_class(j, gang).max_demand(len(totals)), placed_demand(gang, gang.running, len(totals))
        share = max(share, *(Fraction(a, t) for a, t in zip(add_vectors(new, running), totals, strict=True) if t))
    least = share - SHARE_DELTA
    return tuple(-(-least.numerator * t // least.denominator) for t in totals) if least > 0 else ()


def may_go_whole(problem: Problem, preemptor: int, v: int) -> bool:
    """Return whether gang v may lose all of its pods to this preemptor."""
    terms = problem.gangs[v].eviction
    return not terms.protected and (terms.may_lose_all or eviction_votes(problem, preemptor, v).whole_gangs)


def evictable_placements(gang: Gang, running: Iterable[Placement]) -> tuple[Placement, ...]:
    """Return the gang's running pods that are not protected."""
    return tuple(p for p in subtract_placements(running, gang.eviction.protected) if p.pods > 0)


def surplus_pods(
    problem: Problem, tree: TopologyTree, v: int, running: tuple[Placement, ...], below_minima: bool
) -> tuple[tuple[int, ...], int]:
    """Return (per role, in sum) the pods that gang v may lose above the minima of roles, subgroups and gang. Its last
    pod is not surplus: a gang that loses it is evicted whole.

    below_minima: nothing of it is surplus; nor is there surplus where it grows by units of several pods, or a subgroup
    spans roles or is incomplete.
    """
    gang = problem.gangs[v]
    have = [0] * len(gang.roles)
    for p in running:
        have[p.role] += p.pods
    need, least = required_pods(gang, [0] * len(gang.roles))
    spans_roles = any(len(s.roles) > 1 for s in gang.subgroups)
    broken = breaks_topology(tree, gang, running) or has_partial_subgroup(tree, gang, running)
    if below_minima or spans_roles or sum(gang.growth_unit) > 1 or (gang.subgroups and broken):
        need, least = tuple(have), sum(have)
    surplus = tuple(max(0, h - n) for h, n in zip(have, need, strict=True))
    return surplus, min(max(0, sum(have) - max(1, least)), sum(surplus))


def loss_per_pod(gang: Gang) -> int:
    """Return seconds that one pod has run, at least 1."""
    return max(1, gang.eviction.loss)


def units_lost(gang: Gang, victim: Victim, gone: tuple[Placement, ...], whole: bool) -> list[EvictedUnit]:
    """Return the units in which the victim loses these pods: all of them at once if it is evicted whole, else pods."""
    if whole:
        return [whole_unit(gang, victim)]
    return [EvictedUnit(gang.roles[t].request, gang.roles[t].request) for t in sorted({p.role for p in gone})]


def whole_unit(gang: Gang, victim: Victim) -> EvictedUnit:
    """Return the unit of a gang that is evicted whole. The last part, of each resource: the pods that remain after
    evicting the largest as surplus, or the largest one if that is more; all of them where it has subgroups."""
    pods = Counter[int]()
    for p in victim.running:
        pods[p.role] += p.pods
    returned = placed_demand(gang, victim.running, len(gang.roles[0].request))
    last = list(returned)
    for r in range(len(returned) if not gang.subgroups else 0):
        spare = victim.max_surplus
        for t in sorted(pods, key=lambda t: -gang.roles[t].request[r]):
            number = min(victim.surplus_per_role[t], spare)
            spare -= number
            last[r] -= number * gang.roles[t].request[r]
        last[r] = max(last[r], *(gang.roles[t].request[r] for t in pods))
    return EvictedUnit(returned, tuple(last))
