"""Repairs by more nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from solver.diagnosis.case import GangDiagnosis
from solver.diagnosis.world import Step, StepSequence, World
from solver.problem import Gang
from solver.repairs import MoreNodes


def node_addition_steps(case: GangDiagnosis, t: World) -> list[Sequence[Step]]:
    """More nodes like an eligible one, under its leaf; for a gang with a hard topology under the leaf where it comes
    nearest. Like none that is excluded: more of them might be so too."""
    gang, state = t.gang, case.state
    if state.after.rule_counts is not None or state.problem.slot_groups:
        return []
    pods = sum(role.minimum for role in gang.roles) or gang.minimum
    eligible = {node_class for role in gang.roles for node_class in role.node_classes}
    confined = _has_hard_topology(gang)
    makes: dict[tuple[int, tuple[int, ...]], int] = {}
    for n in _nearest_nodes(case, t) if confined else range(len(state.problem.nodes)):
        node = state.problem.nodes[n]
        if node.node_class in eligible and n not in case.excluded_nodes:
            makes.setdefault((node.node_class, node.capacity), n)
    budget = state.options.budget
    # Shares by weight may also become smaller, where with more nodes other gangs count that were too large.
    grows = bool(makes) and (state.problem.policy.proportion or not case.fits_queues(t))
    counts = range(1, min(pods, budget.added_nodes) + 1)
    return [
        StepSequence(counts, partial(partial, _add_nodes, case, n, confined, grows))
        for n in list(makes.values())[: budget.added_node_types]
    ]


def _has_hard_topology(gang: Gang) -> bool:
    topologies = (gang.topology, *(part.topology for part in gang.subgroups))
    return any(topology is not None and topology.is_hard for topology in topologies)


def _nearest_nodes(case: GangDiagnosis, t: World) -> list[int]:
    """Nodes, those of the leaf that holds most of the gang's pods first."""
    q = case.question(t)
    reach, roles, nodes = q.fit_counts(), q.gang_class.roles, q.state.problem.nodes

    def pods(leaf: int | None) -> int:
        return -1 if leaf is None else sum(min(r[leaf], role.min_pods) for r, role in zip(reach, roles, strict=True))

    return sorted(range(len(nodes)), key=lambda n: (-pods(nodes[n].leaf), n))


def _add_nodes(case: GangDiagnosis, like: int, confined: bool, grows: bool, count: int, t: World) -> World:
    """grows: whether what the queues may hold is worked out again."""
    leaf = t.limits_problem.nodes[like].leaf
    added, repair = (like, leaf, count), MoreNodes(like, count, leaf if confined else None)
    if not grows:
        return t.with_change(repair, added_nodes=added)
    return t.with_change(repair, added_nodes=added, limits_problem=case.state.enlarged_problem(added))
