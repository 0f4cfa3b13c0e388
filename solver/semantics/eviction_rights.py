"""Who may be evicted for whom, and how much of a gang: the rules of Volcano's preempt and reclaim as pure functions
(volcano.sh, actions preempt, reclaim, gangpreempt, gangreclaim; plugins gang, priority and capacity).
`solver.verify.evictions` says them a second time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from solver.problem import EvictionVotes, Gang, Limits, Placement, Problem, Vector
from solver.semantics import queue_limits
from solver.semantics.gang_classes import breaks_topology, has_partial_subgroup, waiting_class
from solver.semantics.gang_sizes import required_pods
from solver.semantics.placements import add_vectors, placed_demand
from solver.semantics.slot_holdings import HeldShare
from solver.semantics.topology import TopologyTree

SHARE_DELTA = Fraction(1, 1_000_000)
"""Dominant shares that differ by no more are the same to Volcano (shareDelta of pkg/scheduler/plugins/drf)."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may lose pods for the sake of another one.

    running: what it still has. surplus: per role, pods that may go while it stays; spare: how many of them in sum (0:
    it only goes whole). whole: whether it may go whole. keeps: of one resource at least that much stays its own; () for
    nothing. gates: the queues that have to be able to spare what it loses; none where it goes for its own queue. holds:
    what its pods hold of cells.
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


def allows_eviction(problem: Problem) -> bool:
    """Whether the problem allows any eviction at all."""
    return (problem.preempt_enabled or problem.reclaim_enabled) and any(
        gang.evictable and gang.running for gang in problem.gangs
    )


def may_preempt(problem: Problem, j: int, v: int) -> bool:
    """Inside one queue: the victim's priority is strictly lower (Volcano, action preempt with the plugin priority)."""
    winner, victim = problem.gangs[j], problem.gangs[v]
    return (
        problem.preempt_enabled
        and winner.may_evict
        and victim.evictable
        and winner.queue == victim.queue
        and victim.priority < winner.priority
    )


def may_reclaim(problem: Problem, j: int, v: int) -> bool:
    """Across queues: the victim's queue lets itself be reclaimed (Volcano, action reclaim), and the victim's priority
    is not higher.

    Volcano asks for no priority here. Our batches do, in all queues: the next plan would give a victim of higher
    priority its room back, and the one after would evict it again, for ever. How much of the queue may go is `exposed`,
    whether the winner may take it is `entitled`.
    """
    winner, victim = problem.gangs[j], problem.gangs[v]
    allowed = problem.reclaim_enabled and winner.may_evict and victim.evictable and victim.priority <= winner.priority
    return allowed and winner.queue != victim.queue and problem.queues[victim.queue].reclaimable


def may_borrow_domains(problem: Problem, j: int) -> bool:
    """Whether gang j may start in domains that queues of others keep: whoever owns one can have it evicted whole at
    once, since `lendable` says so and no disruption budget covers a role of it."""
    return is_reclaimable_whole(problem, problem.gangs[j]) and all(
        g != j for budget in problem.disruption_budgets for g, _ in budget.roles
    )


def is_reclaimable_whole(problem: Problem, gang: Gang) -> bool:
    """Reclaim is on, no plugin votes against it, and the gang and its queue let it happen."""
    return (
        problem.reclaim_enabled
        and problem.reclaim_votes == EvictionVotes()
        and gang.evictable
        and problem.queues[gang.queue].reclaimable
    )


def may_reclaim_domain(problem: Problem, dedicated_nodes: Mapping[int, frozenset[int]], j: int, v: int) -> bool:
    """Whether gang v goes for gang j because it runs in a domain that j's queue, or one above it, keeps and v's does
    not (`closing.owned`). What either queue deserves and their priorities are not asked: the domain is j's queue's own.
    kept: queue -> nodes that it may take back."""
    winner, victim = problem.gangs[j], problem.gangs[v]
    allowed = (
        problem.reclaim_enabled and winner.may_evict and victim.evictable and problem.queues[victim.queue].reclaimable
    )
    mine = dedicated_nodes.get(winner.queue, frozenset()) - dedicated_nodes.get(victim.queue, frozenset())
    return allowed and winner.queue != victim.queue and any(p.node in mine for p in victim.running)


def deserved_limits(problem: Problem) -> tuple[Limits, ...]:
    """What each queue deserves, None where nothing is said: the share by weight with Volcano's plugin proportion, else
    what is written, as the plugin capacity reads it. The number of pods is never asked."""
    if problem.policy.proportion:
        found: Sequence[Limits] = [
            share or (0,) * len(problem.resources) for share in queue_limits.water_filled_shares(problem)
        ]
    else:
        found = queue_limits.capacity_deserved(problem)
    return tuple(
        tuple(None if name == queue_limits.PODS else d for name, d in zip(problem.resources, due, strict=True))
        for due in found
    )


def reclaim_ancestors(problem: Problem, q: int) -> tuple[int, ...]:
    """The queues above q that are asked as well, the nearest first: as many as `Policy.reclaim_levels` says, with
    capacity's hierarchy."""
    number = problem.policy.ancestor_reclaim_levels if problem.policy.hierarchical else 0
    return tuple(queue_limits.queue_path(problem, q)[1 : 1 + number])


def queues_to_check(problem: Problem, home: int, q: int) -> tuple[int, ...]:
    """The queues that have to be able to spare what a gang of queue q loses to one of queue `home`: q, and those above
    it that are asked, but for the ones that stand as high above `home` (Volcano, plugin capacity,
    getReclaimeeAncestorToCheck)."""
    beside = reclaim_ancestors(problem, home)
    return (q, *(a for k, a in enumerate(reclaim_ancestors(problem, q)) if k >= len(beside) or beside[k] != a))


def is_entitled_to_reclaim(
    problem: Problem, held: Sequence[Vector], home: int, deserved: Sequence[Limits], amount: Vector
) -> bool:
    """Whether a gang of queue `home` that asks for `amount` may reclaim: on some resource that it asks for, the queue,
    or one above it that is asked, stays within what it deserves.

    held_q[r] + amount[r] <= due_q[r]       for one r with amount[r] > 0        (Volcano, plugin capacity, Preemptive)
    """
    return any(
        a and d is not None and h + a <= d
        for q in (home, *reclaim_ancestors(problem, home))
        for a, h, d in zip(amount, held[q], deserved[q], strict=True)
    )


def contend_without_entitlement(
    problem: Problem, home: int, q: int, deserved: Sequence[Limits], amount: Vector
) -> bool:
    """Whether two queues below one that is asked contend for what neither of them deserves anything of: then nobody
    takes from the other (Volcano, plugin capacity, sharesAnyNonRootAncestorWithinLevel)."""
    if set(reclaim_ancestors(problem, home)).isdisjoint(reclaim_ancestors(problem, q)):
        return False
    return all(deserved[home][r] is None and deserved[q][r] is None for r, a in enumerate(amount) if a)


def eviction_votes(problem: Problem, preemptor: int, v: int) -> EvictionVotes:
    """The votes that count when gang v goes for this winner."""
    return problem.preempt_votes if problem.gangs[preemptor].queue == problem.gangs[v].queue else problem.reclaim_votes


def min_retained_amounts(problem: Problem, preemptors: Iterable[int], v: int) -> Vector:
    """What gang v must keep of one resource where drf votes: the dominant share of each gang that it goes for; () where
    nothing.

    left_v[r] / total_r >= max_j share_j - 1e-6    for one r,      share_j = max_r demand_j[r] / total_r, with all that
    j starts with at most

    Volcano compares pod after pod, with what the winner has until then; in any order the last comparison is this one.
    Source: preemptableFn of pkg/scheduler/plugins/drf.
    """
    asking = [j for j in preemptors if eviction_votes(problem, j, v).compare_shares]
    if not asking:
        return ()
    whole, share = queue_limits.cluster_totals(problem), Fraction(0)
    for j in asking:
        shape = waiting_class(j, problem.gangs[j])
        asked = add_vectors(
            shape.max_demand(len(whole)), placed_demand(problem.gangs[j], shape.running_pods, len(whole))
        )
        share = max(share, *(Fraction(a, t) for a, t in zip(asked, whole, strict=True) if t))
    least = share - SHARE_DELTA
    return tuple(-(-least.numerator * t // least.denominator) for t in whole) if least > 0 else ()


def reclaimable_amounts(
    problem: Problem, q: int, held: Vector, deserved: Limits, requested: Sequence[int]
) -> dict[int, int]:
    """Resource -> how much of it other queues' gangs may take from queue q so that it stays at what it deserves, for
    the resources `asked` for of which it holds more. Where it deserves none of them by name, for whatever it deserves;
    where that is nothing at all, all that is asked for is free to take. Empty while a guarantee is not met.

    Volcano lets a queue fall below what it deserves by its last pod; staying at it is within that rule, and does not
    make two queues take the same pods from each other in turn.
    """
    if any((g or 0) > h for g, h in zip(problem.queues[q].guarantee, held, strict=True)):
        return {}
    wanted = [r for r, a in enumerate(requested) if a and problem.resources[r] != queue_limits.PODS]
    named = (
        [r for r in wanted if deserved[r] is not None] or [r for r, d in enumerate(deserved) if d is not None] or wanted
    )
    return {r: held[r] - (deserved[r] or 0) for r in named if held[r] > (deserved[r] or 0)}


def surplus_pods(
    problem: Problem, tree: TopologyTree, v: int, running: tuple[Placement, ...], below_minima: bool
) -> tuple[tuple[int, ...], int]:
    """(per role, in sum) what gang v may lose of the pods it has above the minima of roles, subgroups and gang. The
    last pod is none: whoever loses it goes whole.

    whole: it does not hold its minima, so that nothing of it is surplus. So it is where a subgroup spans roles or has
    lost a part.
    """
    gang = problem.gangs[v]
    have = [0] * len(gang.roles)
    for p in running:
        have[p.role] += p.pods
    need, least = required_pods(gang, [0] * len(gang.roles))
    if (
        below_minima
        or any(len(s.roles) > 1 for s in gang.subgroups)
        or (gang.subgroups and (breaks_topology(tree, gang, running) or has_partial_subgroup(tree, gang, running)))
    ):
        need, least = tuple(have), sum(have)
    spared = tuple(max(0, h - n) for h, n in zip(have, need, strict=True))
    return spared, min(max(0, sum(have) - max(1, least)), sum(spared))


def loss_per_pod(gang: Gang) -> int:
    """What one evicted pod costs: the seconds that it has run, at least 1."""
    return max(1, gang.loss)


def freed_amounts(problem: Problem, v: int, pods: tuple[Placement, ...]) -> Vector:
    return placed_demand(problem.gangs[v], pods, len(problem.resources))
