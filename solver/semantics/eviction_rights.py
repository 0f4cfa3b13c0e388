"""Eviction rights: which gang may lose pods to which, and how many. The rules of Volcano's preempt and reclaim as pure
functions (volcano.sh, actions preempt, reclaim, gangpreempt, gangreclaim; plugins gang, priority and capacity).
`solver.verify.victims` states them a second time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from solver.problem import EvictionVotes, Gang, Limits, Placement, Problem, Vector
from solver.semantics import entitlements, queues
from solver.semantics.gang_classes import breaks_topology, has_partial_subgroup, waiting_class
from solver.semantics.gang_sizes import required_pods
from solver.semantics.placements import add_vectors, placed_demand
from solver.semantics.slot_holdings import HeldShare
from solver.semantics.topology import TopologyTree

SHARE_DELTA = Fraction(1, 1_000_000)
"""Dominant shares that differ by no more are the same to Volcano (shareDelta of pkg/scheduler/plugins/drf)."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may lose pods to another one.

    running: its pods. surplus_per_role, max_surplus: pods that may go while it stays, per role and in sum (0: it only
    goes whole). retained_amounts: of one resource it must keep at least that much; () for nothing. checked_queues: the
    queues that must be able to spare what it loses; none where it goes for its own queue. held_shares: device slots
    that its pods hold.
    """

    gang: int
    running: tuple[Placement, ...]
    surplus_per_role: tuple[int, ...]
    max_surplus: int
    may_go_whole: bool = True
    retained_amounts: Vector = ()
    checked_queues: tuple[int, ...] = ()
    held_shares: tuple[HeldShare, ...] = ()

    @property
    def pod_count(self) -> int:
        return sum(p.pods for p in self.running)


# ---- which gang may lose pods to which


def allows_eviction(problem: Problem) -> bool:
    """Whether the problem allows any eviction at all."""
    enabled = problem.preempt_enabled or problem.reclaim_enabled
    return enabled and any(gang.evictable and gang.running for gang in problem.gangs)


def may_preempt(problem: Problem, j: int, v: int) -> bool:
    """Inside one queue: the victim's priority is strictly lower (Volcano, action preempt with the plugin priority)."""
    preemptor, victim = problem.gangs[j], problem.gangs[v]
    allowed = problem.preempt_enabled and preemptor.may_evict and victim.evictable
    return allowed and preemptor.queue == victim.queue and victim.priority < preemptor.priority


def _allows_reclaim(problem: Problem, j: int, v: int) -> bool:
    """Across queues: reclaim is on, and both gangs and the victim's queue let it happen."""
    preemptor, victim = problem.gangs[j], problem.gangs[v]
    allowed = problem.reclaim_enabled and preemptor.may_evict and victim.evictable
    return allowed and preemptor.queue != victim.queue and problem.queues[victim.queue].reclaimable


def may_reclaim(problem: Problem, j: int, v: int) -> bool:
    """Across queues: the victim's queue is reclaimable (Volcano, action reclaim) and its priority not higher. How much
    of the queue may go is `reclaimable_amounts`, whether the preemptor may take it `is_entitled_to_reclaim`.

    Volcano asks for no priority here. Our batches do, in all queues: the next plan would give a victim of higher
    priority its room back, and the one after would evict it again, for ever.
    """
    return _allows_reclaim(problem, j, v) and problem.gangs[v].priority <= problem.gangs[j].priority


def may_reclaim_domain(problem: Problem, dedicated_nodes: Mapping[int, frozenset[int]], j: int, v: int) -> bool:
    """Whether gang v goes for gang j because it runs in a dedicated domain that j's queue has access to and v's has
    not. What the queues deserve and priorities do not matter: the domain is j's queue's own.

    dedicated_nodes: queue -> nodes that it may take back (`accessible_dedicated_nodes`).
    """
    if not _allows_reclaim(problem, j, v):
        return False
    none, victim = frozenset[int](), problem.gangs[v]
    own = dedicated_nodes.get(problem.gangs[j].queue, none) - dedicated_nodes.get(victim.queue, none)
    return any(p.node in own for p in victim.running)


def may_borrow_domains(problem: Problem, j: int) -> bool:
    """Whether gang j may start in dedicated domains of other queues: their owners can have it evicted whole at once,
    since it is reclaimable and no disruption budget covers a role of it."""
    covered = any(g == j for budget in problem.disruption_budgets for g, _ in budget.roles)
    return is_reclaimable_whole(problem, problem.gangs[j]) and not covered


def is_reclaimable_whole(problem: Problem, gang: Gang) -> bool:
    """Reclaim is on, no plugin votes against it, and the gang and its queue let it happen."""
    unvoted = problem.reclaim_enabled and problem.reclaim_votes == EvictionVotes()
    return unvoted and gang.evictable and problem.queues[gang.queue].reclaimable


def eviction_votes(problem: Problem, preemptor: int, v: int) -> EvictionVotes:
    """The votes that count when gang v goes for this preemptor."""
    same_queue = problem.gangs[preemptor].queue == problem.gangs[v].queue
    return problem.preempt_votes if same_queue else problem.reclaim_votes


# ---- what queues may take from one another


def deserved_limits(problem: Problem) -> tuple[Limits, ...]:
    """What each queue deserves, None where nothing is said: the share by weight with Volcano's plugin proportion, else
    what is written, as the plugin capacity reads it. The number of pods is never asked."""
    if problem.policy.proportion:
        found: Sequence[Limits] = [
            share or (0,) * len(problem.resources) for share in entitlements.water_filled_shares(problem)
        ]
    else:
        found = entitlements.capacity_deserved(problem)
    return tuple(
        tuple(None if name == queues.PODS else d for name, d in zip(problem.resources, due, strict=True))
        for due in found
    )


def reclaim_ancestors(problem: Problem, q: int) -> tuple[int, ...]:
    """The queues above q that are checked as well, nearest first: `Policy.ancestor_reclaim_levels` of them, with
    capacity's hierarchy."""
    number = problem.policy.ancestor_reclaim_levels if problem.policy.hierarchical else 0
    return tuple(queues.queue_path(problem, q)[1 : 1 + number])


def queues_to_check(problem: Problem, home: int, q: int) -> tuple[int, ...]:
    """The queues that must be able to spare what a gang of queue q loses to one of queue `home`: q, and its ancestors
    to check but for those that stand as high above `home` (Volcano, plugin capacity, getReclaimeeAncestorToCheck)."""
    beside = reclaim_ancestors(problem, home)
    return (q, *(a for k, a in enumerate(reclaim_ancestors(problem, q)) if k >= len(beside) or beside[k] != a))


def is_entitled_to_reclaim(
    problem: Problem, held: Sequence[Vector], home: int, deserved: Sequence[Limits], amount: Vector
) -> bool:
    """Whether a gang of queue `home` that asks for `amount` may reclaim: of some resource that it asks for, the queue,
    or an ancestor to check, stays within what it deserves. held: per queue.

    held_q[r] + amount[r] <= deserved_q[r]    for one r with amount[r] > 0    (Volcano, plugin capacity, Preemptive)
    """
    return any(
        a and d is not None and h + a <= d
        for q in (home, *reclaim_ancestors(problem, home))
        for a, h, d in zip(amount, held[q], deserved[q], strict=True)
    )


def contend_without_entitlement(
    problem: Problem, home: int, q: int, deserved: Sequence[Limits], amount: Vector
) -> bool:
    """Whether two queues below one ancestor to check contend for what neither deserves anything of: then neither takes
    from the other (Volcano, plugin capacity, sharesAnyNonRootAncestorWithinLevel)."""
    if set(reclaim_ancestors(problem, home)).isdisjoint(reclaim_ancestors(problem, q)):
        return False
    return all(deserved[home][r] is None and deserved[q][r] is None for r, a in enumerate(amount) if a)


def reclaimable_amounts(
    problem: Problem, q: int, held: Vector, deserved: Limits, requested: Sequence[int]
) -> dict[int, int]:
    """Resource -> how much of it other queues may take from queue q so that it keeps what it deserves, for requested
    resources of which it holds more. Where it deserves none of them by name, for whatever it deserves; where that is
    nothing at all, all that is requested is free to take. Empty while a guarantee is not met.

    Volcano lets a queue fall below what it deserves by its last pod; keeping it is within that rule, and does not make
    two queues take the same pods from each other in turn.
    """
    if any((g or 0) > h for g, h in zip(problem.queues[q].guarantee, held, strict=True)):
        return {}
    wanted = [r for r, a in enumerate(requested) if a and problem.resources[r] != queues.PODS]
    named = [r for r, d in enumerate(deserved) if d is not None]
    counted = [r for r in wanted if deserved[r] is not None] or named or wanted
    return {r: held[r] - (deserved[r] or 0) for r in counted if held[r] > (deserved[r] or 0)}


# ---- how much of a gang may go


def min_retained_amounts(problem: Problem, preemptors: Iterable[int], v: int) -> Vector:
    """What gang v must keep of one resource where drf votes: the largest dominant share of its preemptors; () for
    nothing.

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


def surplus_pods(
    problem: Problem, tree: TopologyTree, v: int, running: tuple[Placement, ...], below_minima: bool
) -> tuple[tuple[int, ...], int]:
    """(per role, in sum) pods that gang v may lose above the minima of roles, subgroups and gang. Its last pod is no
    surplus: a gang that loses it goes whole.

    below_minima: nothing of it is surplus; nor is where a subgroup spans roles or is incomplete.
    """
    gang = problem.gangs[v]
    have = [0] * len(gang.roles)
    for p in running:
        have[p.role] += p.pods
    need, least = required_pods(gang, [0] * len(gang.roles))
    spans_roles = any(len(s.roles) > 1 for s in gang.subgroups)
    broken = breaks_topology(tree, gang, running) or has_partial_subgroup(tree, gang, running)
    if below_minima or spans_roles or (gang.subgroups and broken):
        need, least = tuple(have), sum(have)
    surplus = tuple(max(0, h - n) for h, n in zip(have, need, strict=True))
    return surplus, min(max(0, sum(have) - max(1, least)), sum(surplus))


def loss_per_pod(gang: Gang) -> int:
    """Seconds that one pod has run, at least 1."""
    return max(1, gang.loss)


def freed_amounts(problem: Problem, v: int, pods: tuple[Placement, ...]) -> Vector:
    """What these pods of gang v request."""
    return placed_demand(problem.gangs[v], pods, len(problem.resources))
