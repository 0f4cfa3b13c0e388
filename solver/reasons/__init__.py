"""Why a gang waits, and what would let it start, tried out.

Codes, for ever: GW101 queue capability, GW102 not enough free, GW103 no node holds a pod, GW104 no domain has room, GW105 others go first,
GW106 kept for guarantees, GW107 no node is open to it, GW108 the empty cluster cannot hold it, GW109 no whole subgroups, GW110 limit reached,
GW112 the queue's proportional share is used up, GW113 the queue takes nothing new, GW117 pods that may not be beside others, or must be,
GW118 no cell has room, GW119 the free room is in pieces, GW120 too few nodes are open to a role, GW121 its own pods stand where the rest finds
no room (GW111 is the compiler's).

`facts` finds the smallest set of facts that suffices: `families` are the obstacles on nodes, `queues` those of queues, `blame` names gangs.
`world` asks whether a gang fits with something out of the way. `repairs` tries what would help.
"""

from __future__ import annotations

from solver.plan import Fact, Repair
from solver.problem import Gang
from solver.reasons.facts import facts
from solver.reasons.repairs import repairs
from solver.reasons.world import Case, World, plain

__all__ = ["World", "explain", "kind"]

MODELS = 12
"""Exact models asked for one kind of gang that waits."""

Explanation = tuple[tuple[Fact, ...], tuple[Repair, ...]]


def explain(world: World, j: int) -> Explanation:
    """Facts and repairs of a gang that waits. A pure function of what can be sent to another process."""
    case = Case(world, world.problem.gangs[j], MODELS)
    found = facts(case)
    return found, tuple(repairs(case, found))


def kind(world: World, j: int) -> tuple[Gang, int, int]:
    """Gangs of one kind wait for one reason: of one make, one queue and one priority."""
    gang = world.problem.gangs[j]
    return plain(gang), gang.queue, gang.priority
