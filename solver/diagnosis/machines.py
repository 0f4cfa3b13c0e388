"""What more nodes would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from solver.diagnosis.trial import Bench, Step, Steps, Trial
from solver.placement.fit import reaches
from solver.plan import Repair

MODELS = 3
"""Makes of nodes that are tried."""
MOST = 4_096
"""Nodes that are added at most: whoever lacks more has asked for another cluster."""


def more_nodes(bench: Bench, t: Trial) -> list[Sequence[Step]]:
    """GR104: nodes like one that is there, under its leaf; for a gang that must sit together under the leaf where it
    comes nearest. Like none that is closed to it: more of them might be so too."""
    gang, world = t.setting.gang, bench.case.world
    pods = sum(role.minimum for role in gang.roles) or gang.minimum
    open_to = {kind for role in gang.roles for kind in role.kinds}
    if world.neighbours is not None or world.problem.divisions:
        return []
    makes: dict[tuple[int, tuple[int, ...]], int] = {}
    tight = any(
        x is not None and x.mode == "hard" for x in (gang.topology, *(part.topology for part in gang.subgroups))
    )
    for n in _nearest(bench, t) if tight else range(len(world.problem.nodes)):
        node = world.problem.nodes[n]
        if node.kind in open_to and n not in bench.case.shut:
            makes.setdefault((node.kind, node.capacity), n)
    return [Steps(range(1, min(pods, MOST) + 1), partial(_adding, n, tight)) for n in list(makes.values())[:MODELS]]


def _nearest(bench: Bench, t: Trial) -> list[int]:
    """Nodes, those of the leaf that holds most of the gang's pods first."""
    q = bench.question(t)
    reach = reaches(q.problem, q.tree, q.shape, q.free)
    nodes = q.problem.nodes
    room = [
        -1
        if node.leaf is None
        else sum(min(r[node.leaf], role.need) for r, role in zip(reach, q.shape.roles, strict=True))
        for node in nodes
    ]
    return sorted(range(len(nodes)), key=lambda n: (-room[n], n))


def _adding(like: int, tight: bool, count: int) -> Step:
    return partial(_added, like, count, tight)


def _added(like: int, count: int, tight: bool, t: Trial) -> Trial:
    leaf = t.limits.nodes[like].leaf
    repair = Repair("GR104", nodes=(like,), amount=count, hypernode=leaf if tight else None)
    return replace(t, added=(like, leaf, count), changes=(*t.changes, repair))
