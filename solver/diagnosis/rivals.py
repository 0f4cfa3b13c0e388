"""Rivals for added nodes: waiting gangs that may start there instead of the gang for which they are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from solver.diagnosis.case import GangDiagnosis, diagnosis_class
from solver.diagnosis.diagnosis_state import DiagnosisState
from solver.diagnosis.precedence import is_decided_by_entitlement
from solver.diagnosis.question import ModelBudget
from solver.diagnosis.world import World
from solver.semantics.gang_classes import elastic_roles, meets_minima
from solver.semantics.order import serving_order_key


def others_may_start_instead(case: GangDiagnosis, w: World) -> bool:
    """Return whether a gang of another class, which may be decided first, starts on the added nodes as well, or one of
    another queue grows there first. Of its own class one starts."""
    if w.added_nodes is None:
        return False
    state = case.state
    if _others_grow_first(case, w, w.added_nodes[0]):
        return True
    own = diagnosis_class(state, case.index)
    others = (i for i in _waiting_gangs(state) if diagnosis_class(state, i) != own)
    earlier = (i for i in others if _may_precede(case, i))
    rivals = (i for i in earlier if _may_use(state, i, w.added_nodes[0]))
    return any(_starts_too(state, i, w) for i in islice(rivals, state.options.budget.rivals))


def _others_grow_first(case: GangDiagnosis, w: World, n: int) -> bool:
    """Return whether the gang would borrow, and one of another queue may get more pods on nodes like this one within
    what that queue is entitled to."""
    state, books, home = case.state, case.ledger(w), case.gang.queue
    if not is_decided_by_entitlement(state.problem) or books.is_entitled(home, case.demand(w)):
        return False
    placed = (*state.kept_placements.items(), *state.started_placements.items())
    others = [(i, pods) for i, pods in placed if state.problem.gangs[i].queue != home]
    gangs = ((state.problem.gangs[i], pods) for i, pods in others)
    roles = ((gang.queue, role) for gang, pods in gangs for role in elastic_roles(gang, pods))
    node_class = state.problem.nodes[n].node_class
    return any(node_class in role.node_classes and books.is_growth_entitled(q, role.request) for q, role in roles)


def _waiting_gangs(state: DiagnosisState) -> Sequence[int]:
    """Return one of each class, in serving order."""

    def make() -> Sequence[int]:
        gangs, first = state.problem.gangs, dict[object, int]()
        new = (i for i in range(len(gangs)) if i not in state.started_placements)
        waiting = (i for i in new if not meets_minima(gangs[i]))
        for i in sorted(waiting, key=lambda i: serving_order_key(state.problem, i)):
            first.setdefault(diagnosis_class(state, i), i)
        return tuple(first.values())

    return state.memoize("waiting classes", make)


def _may_precede(case: GangDiagnosis, i: int) -> bool:
    """Return whether gang i may be decided first. A lower priority never is in one queue, nor in others unless
    entitlements decide. With equal priority in one queue a younger gang may be, which fills the room better, but not
    one of the same size."""
    gang, other = case.gang, case.state.problem.gangs[i]
    if other.queue != gang.queue:
        return other.priority >= gang.priority or is_decided_by_entitlement(case.state.problem)
    is_later = other.priority == gang.priority and (other.age, i) > (gang.age, case.index)
    if is_later and case.state.before.queue_books.min_demand(i) == case.remaining_demand:
        return False
    return other.priority >= gang.priority


def _may_use(state: DiagnosisState, i: int, n: int) -> bool:
    node_class = state.problem.nodes[n].node_class
    return any(node_class in role.node_classes for role in state.problem.gangs[i].roles)


def _starts_too(state: DiagnosisState, i: int, w: World) -> bool:
    case = GangDiagnosis(state, i, ModelBudget(0), ModelBudget(0), questions=1)
    there = replace(case.tried_world, added_nodes=w.added_nodes)
    return case.lets_start(replace(there, limits_nodes=w.limits_nodes, queue_changes=w.queue_changes))
