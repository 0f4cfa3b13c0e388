"""What more nodes would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from solver.diagnosis.trial import Step, StepSequence, Trial, TrialRunner
from solver.placement.fit import fit_counts_by_role
from solver.repairs import MoreNodes


def node_addition_steps(runner: TrialRunner, t: Trial) -> list[Sequence[Step]]:
    """GR104: nodes like one that is there, under its leaf; for a gang that must sit together under the leaf where it
    comes nearest. Like none that is closed to it: more of them might be so too."""
    gang, world = t.scenario.gang, runner.case.state
    pods = sum(role.minimum for role in gang.roles) or gang.minimum
    open_to = {kind for role in gang.roles for kind in role.node_classes}
    if world.rule_counts is not None or world.problem.slot_groups:
        return []
    makes: dict[tuple[int, tuple[int, ...]], int] = {}
    tight = any(
        x is not None and x.mode == "hard" for x in (gang.topology, *(part.topology for part in gang.subgroups))
    )
    for n in _nearest_nodes(runner, t) if tight else range(len(world.problem.nodes)):
        node = world.problem.nodes[n]
        if node.node_class in open_to and n not in runner.case.excluded_nodes:
            makes.setdefault((node.node_class, node.capacity), n)
    return [
        StepSequence(range(1, min(pods, world.options.budget.added_nodes) + 1), partial(_addition_step, n, tight))
        for n in list(makes.values())[: world.options.budget.added_node_types]
    ]


def _nearest_nodes(runner: TrialRunner, t: Trial) -> list[int]:
    """Nodes, those of the leaf that holds most of the gang's pods first."""
    q = runner.question(t)
    reach = fit_counts_by_role(q.state, q.gang_class)
    nodes = q.problem.nodes
    room = [
        -1
        if node.leaf is None
        else sum(min(r[node.leaf], role.min_pods) for r, role in zip(reach, q.gang_class.roles, strict=True))
        for node in nodes
    ]
    return sorted(range(len(nodes)), key=lambda n: (-room[n], n))


def _addition_step(like: int, is_confined: bool, count: int) -> Step:
    return partial(_add_nodes, like, count, is_confined)


def _add_nodes(like: int, count: int, is_confined: bool, t: Trial) -> Trial:
    leaf = t.limits_problem.nodes[like].leaf
    repair = MoreNodes(node=like, amount=count, hypernode=leaf if is_confined else None)
    return replace(t, added_nodes=(like, leaf, count), changes=(*t.changes, repair))
