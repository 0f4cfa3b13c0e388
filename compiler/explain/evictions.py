"""What keeps pods from eviction, and the edit that lets them go, in the user's words."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.kubernetes import COOLDOWN_ANNOTATION, PREEMPTABLE_ANNOTATION, SYSTEM_PRIORITIES
from compiler.specs.gang_spec import GangSpec
from solver.facts import NobodyEvicted
from solver.problem import Problem
from solver.repairs import AllowEviction

_SWITCHED = {"preempt": "preempts", "reclaim": "reclaims"}
_RULES = {
    "minima": "the plugin gang lets no job fall below its minimum",
    "shares": "the plugin drf keeps jobs whose share is no larger",
    "budget": "PodDisruptionBudgets keep the pods",
    "policy": "its priority class has preemptionPolicy Never",
}


def obstacle_names(fact: NobodyEvicted, problem: Problem, specs: Sequence[GangSpec]) -> dict[str, str]:
    """The name that chooses the text of the fact."""
    if fact.obstacle in _SWITCHED:
        return {"action": _SWITCHED[fact.obstacle]}
    if fact.queue is not None:
        return {"nonreclaimable": f"queue {problem.queues[fact.queue].name}"}
    if fact.obstacle == "protected":
        return {"protection": _protection([specs[v] for v in fact.gangs])}
    return {"rule": _RULES[fact.obstacle]} if fact.obstacle in _RULES else {}


def _protection(victims: Sequence[GangSpec]) -> str:
    """By what their pods are protected."""
    if any(spec.namespace == "kube-system" for spec in victims):
        return "pods in kube-system are protected"
    if any(spec.priority_class in SYSTEM_PRIORITIES for spec in victims):
        return "pods of a system priority class are protected"
    texts = [(role.annotations, role.labels) for spec in victims for role in spec.roles]
    if any(COOLDOWN_ANNOTATION in annotations or COOLDOWN_ANNOTATION in labels for annotations, labels in texts):
        return f"pods that run for less than their {COOLDOWN_ANNOTATION} are protected"
    return f'pods with {PREEMPTABLE_ANNOTATION}: "false" are protected'


def eviction_edit(repair: AllowEviction, problem: Problem, specs: Sequence[GangSpec], j: int) -> str:
    """What to write so that the pods may go."""
    match repair.obstacle:
        case "preempt" | "reclaim":
            return f"add {repair.obstacle} to the scheduler's actions"
        case "queue" if repair.queue is not None:
            return f"reclaimable: true for queue {problem.queues[repair.queue].name}"
        case "minima":
            own = {problem.gangs[v].queue for v in repair.gangs} == {problem.gangs[j].queue}
            return f"{'enablePreemptable' if own else 'enableReclaimable'}: false for the plugin gang"
        case "shares":
            return "enablePreemptable: false for the plugin drf"
        case "budget":
            return "a PodDisruptionBudget that lets more pods go"
        case "policy":
            return f"preemptionPolicy: PreemptLowerPriority for PriorityClass {specs[j].priority_class}"
        case _:
            return f'{PREEMPTABLE_ANNOTATION}: "true" on the pods that run'
