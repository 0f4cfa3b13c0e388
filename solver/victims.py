"""Who may be evicted for whom, and how much of a gang: the rules of Volcano's preempt and reclaim as pure functions (volcano.sh, actions
preempt, reclaim, gangpreempt, gangreclaim; plugins gang, priority and capacity). `solver.verify_victims` says them a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solver.problem import Gang, Placement, Problem, Queue, Vector
from solver.room import Ledger, demand
from solver.shapes import broken, required
from solver.tree import Tree


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
    """Across queues: the victim's queue lets itself be reclaimed; priorities are not asked (Volcano, action reclaim).

    How much of the queue may go is `exposed`, whether the winner may take it is `entitled`.
    """
    winner, victim = problem.gangs[j], problem.gangs[v]
    return problem.reclaim and winner.preempts and victim.evictable and winner.queue != victim.queue and problem.queues[victim.queue].reclaimable


def deserved(queue: Queue) -> Vector:
    """max(min(deserved, capability), guarantee) per resource; nothing said is 0 (Volcano, plugin capacity)."""
    return tuple(
        max(d or 0 if c is None else min(d or 0, c), g or 0) for d, c, g in zip(queue.deserved, queue.capability, queue.guarantee, strict=True)
    )


def entitled(problem: Problem, ledger: Ledger, j: int, amount: Vector) -> bool:
    """Whether gang j, asking for `amount`, may reclaim: on some resource that it asks for, its queue stays within what it deserves.

    held_q[r] + amount[r] <= deserved_q[r]       for one r with amount[r] > 0          (Volcano, plugin capacity, Preemptive)
    """
    q = problem.gangs[j].queue
    return any(a and held + a <= most for a, held, most in zip(amount, ledger.held[q], deserved(problem.queues[q]), strict=True))


def exposed(problem: Problem, ledger: Ledger, q: int, asked: Sequence[int]) -> dict[int, int]:
    """Resource -> how much of it other queues' gangs may take from queue q so that it stays at what it deserves, for the resources `asked`
    for of which it holds more. Empty while any guarantee of the queue is not met.

    Volcano lets a queue fall below what it deserves by its last pod; staying at it is within that rule, and does not make two queues
    take the same pods from each other in turn.
    """
    queue, held = problem.queues[q], ledger.held[q]
    if any((g or 0) > h for g, h in zip(queue.guarantee, held, strict=True)):
        return {}
    most = deserved(queue)
    return {r: held[r] - most[r] for r, a in enumerate(asked) if a and held[r] > most[r]}


def victim(problem: Problem, tree: Tree, v: int, running: tuple[Placement, ...], whole: bool) -> Victim:
    """What gang v may lose of the pods it has: its surplus above the minima of roles, subgroups and gang, or everything.

    whole: it does not hold its minima, so that nothing of it is surplus. So it is where a subgroup spans roles or has lost a part.
    """
    gang = problem.gangs[v]
    have = [0] * len(gang.roles)
    for p in running:
        have[p.role] += p.pods
    need, least = required(gang)
    if whole or any(len(s.roles) > 1 for s in gang.subgroups) or (gang.subgroups and broken(tree, gang, running)):
        need, least = tuple(have), sum(have)
    surplus = tuple(max(0, h - n) for h, n in zip(have, need, strict=True))
    return Victim(v, running, surplus, min(max(0, sum(have) - least), sum(surplus)))


def loss(gang: Gang) -> int:
    """What one evicted pod costs: the seconds that it has run, at least 1."""
    return max(1, gang.loss)


def freed(problem: Problem, v: int, pods: tuple[Placement, ...]) -> Vector:
    return demand(problem.gangs[v], pods, len(problem.resources))
