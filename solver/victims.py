"""Who may be evicted for whom, and how much of a gang: the rules of Volcano's preempt and reclaim as pure functions (volcano.sh, actions
preempt, reclaim, gangpreempt, gangreclaim; plugins gang, priority and capacity). `solver.verify.victims` says them a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solver import quotas
from solver.problem import Gang, Limits, Placement, Problem, Vector
from solver.room import Ledger, demand
from solver.shapes import broken, uneven
from solver.tree import Tree
from solver.units import required


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may lose pods for the sake of another one.

    running: what it still has. surplus: per role, pods that may go while it stays; spare: how many of them in sum (0: it only goes whole).
    """

    gang: int
    running: tuple[Placement, ...]
    surplus: tuple[int, ...]
    spare: int

    @property
    def pods(self) -> int:
        return sum(p.pods for p in self.running)


def anybody(problem: Problem) -> bool:
    """Whether the problem allows any eviction at all."""
    return (problem.preempt or problem.reclaim) and any(gang.evictable and gang.running for gang in problem.gangs)


def may_preempt(problem: Problem, j: int, v: int) -> bool:
    """Inside one queue: the victim's priority is strictly lower (Volcano, action preempt with the plugin priority)."""
    winner, victim = problem.gangs[j], problem.gangs[v]
    return problem.preempt and winner.preempts and victim.evictable and winner.queue == victim.queue and victim.priority < winner.priority


def may_reclaim(problem: Problem, j: int, v: int) -> bool:
    """Across queues: the victim's queue lets itself be reclaimed (Volcano, action reclaim), and the victim's priority is not higher.

    Volcano asks for no priority here. Our batches do, in all queues: the next plan would give a victim of higher priority its room back,
    and the one after would evict it again, for ever.
    How much of the queue may go is `exposed`, whether the winner may take it is `entitled`.
    """
    winner, victim = problem.gangs[j], problem.gangs[v]
    allowed = problem.reclaim and winner.preempts and victim.evictable and victim.priority <= winner.priority
    return allowed and winner.queue != victim.queue and problem.queues[victim.queue].reclaimable


def deserved(problem: Problem) -> tuple[Limits, ...]:
    """What each queue deserves, None where nothing is said: the share by weight with Volcano's plugin proportion, else what is written, as the
    plugin capacity reads it. The number of pods is never asked."""
    if problem.policy.proportion:
        found: Sequence[Limits] = [share or (0,) * len(problem.resources) for share in quotas.water_filling(problem)]
    else:
        found = quotas.deserved(problem)
    return tuple(tuple(None if name == quotas.PODS else d for name, d in zip(problem.resources, due, strict=True)) for due in found)


def entitled(ledger: Ledger, q: int, due: Limits, amount: Vector) -> bool:
    """Whether a gang of queue q that asks for `amount` may reclaim: on some resource that it asks for, the queue stays within what it deserves.

    held_q[r] + amount[r] <= due[r]       for one r with amount[r] > 0          (Volcano, plugin capacity, Preemptive)
    """
    return any(a and d is not None and held + a <= d for a, held, d in zip(amount, ledger.held[q], due, strict=True))


def exposed(problem: Problem, ledger: Ledger, q: int, due: Limits, asked: Sequence[int]) -> dict[int, int]:
    """Resource -> how much of it other queues' gangs may take from queue q so that it stays at what it deserves, for the resources `asked`
    for of which it holds more. Where it deserves none of them by name, all of them are free to take. Empty while a guarantee is not met.

    Volcano lets a queue fall below what it deserves by its last pod; staying at it is within that rule, and does not make two queues
    take the same pods from each other in turn.
    """
    held = ledger.held[q]
    if any((g or 0) > h for g, h in zip(problem.queues[q].guarantee, held, strict=True)):
        return {}
    wanted = [r for r, a in enumerate(asked) if a and problem.resources[r] != quotas.PODS]
    named = [r for r in wanted if due[r] is not None] or wanted
    return {r: held[r] - (due[r] or 0) for r in named if held[r] > (due[r] or 0)}


def victim(problem: Problem, tree: Tree, v: int, running: tuple[Placement, ...], whole: bool) -> Victim:
    """What gang v may lose of the pods it has: its surplus above the minima of roles, subgroups and gang, or everything.

    whole: it does not hold its minima, so that nothing of it is surplus. So it is where a subgroup spans roles or has lost a part.
    """
    gang = problem.gangs[v]
    have = [0] * len(gang.roles)
    for p in running:
        have[p.role] += p.pods
    need, least = required(gang, [0] * len(gang.roles))
    if whole or any(len(s.roles) > 1 for s in gang.subgroups) or (gang.subgroups and (broken(tree, gang, running) or uneven(tree, gang, running))):
        need, least = tuple(have), sum(have)
    surplus = tuple(max(0, h - n) for h, n in zip(have, need, strict=True))
    return Victim(v, running, surplus, min(max(0, sum(have) - least), sum(surplus)))


def loss(gang: Gang) -> int:
    """What one evicted pod costs: the seconds that it has run, at least 1."""
    return max(1, gang.loss)


def freed(problem: Problem, v: int, pods: tuple[Placement, ...]) -> Vector:
    return demand(problem.gangs[v], pods, len(problem.resources))
