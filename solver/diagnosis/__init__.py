"""Why a gang waits, and what would let it start, tried out.

Codes, for ever: GW101 queue capability, GW102 not enough free, GW103 no node holds a pod, GW104 no domain has room,
GW105 others go first, GW106 kept for guarantees, GW107 no node is open to it, GW108 the empty cluster cannot hold it,
GW109 no whole subgroups, GW110 limit reached, GW112 the queue's proportional share is used up, GW113 the queue takes
nothing new, GW117 pods that may not be beside others, or must be, GW118 no cell has room, GW119 the free room is in
pieces, GW120 too few nodes are open to a role, GW121 its own pods stand where the rest finds no room, GW122 nodes are
away (GW111 is the compiler's). Repairs: GR101 more capability, GR102 a higher tier, GR104 more nodes, GR105 fewer pods,
GR106 smaller subgroups, GR107 a wish instead of a limit, GR108 a smaller guarantee of another queue, GR109 the end of
others, GR110 more weight, GR111 an open queue, GR112 one more kind of node, GR113 to start anew, GR114 a higher
priority, GR115 smaller pods, GR116 nodes that come back (GR103: pods that are no gang's to end).

`facts` finds the smallest set of facts that suffices: `families` are the obstacles on nodes, `queues` those of queues,
`blame` names gangs. `world` asks whether a gang fits with something out of the way. `repairs` tries what would help, in
a `trial`: changes of the gang (`spec`), of the queues (`limits`), of the nodes (`machines`), and waiting (`waits`).
"""

from __future__ import annotations

from solver.diagnosis.facts import gang_facts
from solver.diagnosis.repairs import gang_repairs
from solver.diagnosis.world import DiagnosisState, GangDiagnosis, anonymous_gang
from solver.facts import Fact
from solver.problem import Gang
from solver.repairs import Repair

__all__ = ["DiagnosisState", "diagnosis_class", "explain"]

Explanation = tuple[tuple[Fact, ...], tuple[Repair, ...]]


def explain(state: DiagnosisState, j: int) -> Explanation:
    """Facts and repairs of a gang that waits. A pure function of what can be sent to another process."""
    case = GangDiagnosis(
        state, state.problem.gangs[j], state.options.budget.fact_models, state.exclusions.get(j, frozenset())
    )
    found = gang_facts(case)
    return found, gang_repairs(case, found)


def diagnosis_class(state: DiagnosisState, j: int) -> tuple[Gang, int, int, int | None]:
    """Gangs of one kind wait for one reason: of one make, one queue and one priority, and where nodes close of one
    duration."""
    gang = state.problem.gangs[j]
    return anonymous_gang(gang), gang.queue, gang.priority, gang.duration if state.has_maintenance else None
