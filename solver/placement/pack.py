"""Stage C: pods of a place onto its nodes. Largest first is exact where pod sizes divide one another; else a small
exact model decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pulp

from solver.mip.engine import solve_model
from solver.mip.rows import Terms, add_rows, at_least, at_most
from solver.models.device_slots import by_slot_group, slot_capacity_rows, slot_variables
from solver.models.sets import Bucket
from solver.options import Options
from solver.problem import Placement, PodRequest, Problem, Role, SlotRequest
from solver.semantics.device_slots import UNLIMITED
from solver.semantics.placement_cost import UnopenedCapacity
from solver.state.free_nodes import FreeNodes
from solver.state.pod_rules import PodRuleCounts

GangRole = tuple[int, int]
"""(gang, role)."""


def pack_bucket(
    problem: Problem, room: FreeNodes, bucket: Bucket, wanted_pods: Mapping[GangRole, int], options: Options
) -> dict[int, list[Placement]] | None:
    """Gang -> its pods on the nodes of one place, taken from the room. None, and nothing taken, when they provably do
    not fit, when the model that would tell is too large, or when relations between pods on several of the nodes were
    not kept one pod after another: the place is too coarse."""
    mark = room.mark()
    roles = {wish: problem.gangs[wish[0]].roles[wish[1]] for wish in wanted_pods}
    asks = {wish: role.pod_request for wish, role in roles.items()}
    found: dict[int, list[Placement]] = {}
    nodes = np.array(bucket.nodes, dtype=np.intp)
    bound: list[GangRole] = []
    if room.rule_counts is not None and (minded := straddling_rules(room.rule_counts, nodes)):
        bound = [
            wish
            for wish in sorted(wanted_pods)
            if minded.intersection((*roles[wish].owned_rules, *roles[wish].selecting_rules))
        ]
        for wish in bound:
            if not (
                beside := _place_one_by_one(room, room.rule_counts, nodes, roles[wish], wish, wanted_pods[wish], minded)
            ):
                room.undo(mark)
                return None
            found.setdefault(wish[0], []).extend(beside)
    for wish in sorted(
        wanted_pods.keys() - set(bound), key=lambda w: (pod_size(room, nodes, asks[w]), w), reverse=True
    ):
        left = wanted_pods[wish]
        fits = room.fit_counts(asks[wish])[nodes]
        for at in np.argsort(fits, kind="stable"):
            pods = min(int(fits[at]), left)
            if pods:
                room.add_pods(int(nodes[at]), roles[wish], pods)
                found.setdefault(wish[0], []).append(Placement(wish[1], int(nodes[at]), pods))
                left -= pods
            if not left:
                break
        if left:
            room.undo(mark)
            size_of = len({*asks.values()}) * len(nodes) * max(1, room.vectors.slots.shape[2])
            return (
                None
                if bound or size_of > options.budget.pack_pairs
                else pack_exactly(problem, room, bucket, wanted_pods, options)
            )
    return found


def straddling_rules(neighbours: PodRuleCounts, nodes: np.ndarray) -> frozenset[int]:
    """The relations of which these nodes are in several domains: only of them the model of aggregated places knows too
    little."""
    return frozenset(
        rho for rho in neighbours.enforced_rules if len(np.unique(neighbours.existing_pods.partitions[rho][nodes])) > 1
    )


def _place_one_by_one(
    room: FreeNodes,
    neighbours: PodRuleCounts,
    nodes: np.ndarray,
    role: Role,
    gang_role: GangRole,
    pods: int,
    minded_rules: frozenset[int],
) -> list[Placement]:
    """The fullest node that these relations leave open, pod after pod; empty where for one none is left. What is placed
    stays."""
    found = []
    for _ in range(pods):
        fits = np.where(neighbours.allowed_nodes(role, minded_rules), room.fit_counts(role.pod_request), 0)[nodes]
        if not fits.any():
            return []
        at = int(nodes[int(np.argmin(np.where(fits > 0, fits, UNLIMITED + 1)))])
        room.add_pods(at, role, 1)
        found.append(Placement(gang_role[1], at, 1))
    return found


def pod_size(room: FreeNodes, nodes: np.ndarray, ask: PodRequest) -> float:
    """The largest part of any resource of the place that one pod takes."""
    free = room.vectors.amounts[nodes].sum(axis=0)
    return max((a / int(f) for a, f in zip(ask.amounts, free, strict=True) if a and f), default=0.0)


def pack_exactly(
    problem: Problem,
    room: FreeNodes,
    bucket: Bucket,
    wanted_pods: Mapping[GangRole, int],
    options: Options,
    wholes: UnopenedCapacity | None = None,
) -> dict[int, list[Placement]] | None:
    """As `pack`, by a model in which pods of equal asks are one variable per node. wholes: and as few whole nodes are
    opened as can be.

    min sum_v w[v] sum_{nodes v} n[a,v] >= wished_a        sum_a a_r * n[a,v] <= free[v,r]        ... <= free[v,r] *
    w[v] where v is whole and counts by r and on the cells of v as `solver.semantics.device_slots.rows`
    """
    asks = {wish: problem.gangs[wish[0]].roles[wish[1]].pod_request for wish in wanted_pods}
    wished: dict[PodRequest, int] = {}
    for wish, pods in wanted_pods.items():
        wished[asks[wish]] = wished.get(asks[wish], 0) + pods
    model = pulp.LpProblem("pack", pulp.LpMinimize)
    kinds = sorted(wished)
    n = {
        (a, v): model.add_variable(f"n_{a}_{v}", 0, min(wished[ask], int(room.fit_counts(ask)[v])), cat=pulp.LpInteger)
        for a, ask in enumerate(kinds)
        for v in bucket.nodes
    }
    w = {
        v: model.add_variable(f"w_{v}", 0, 1, cat=pulp.LpInteger)
        for v in bucket.nodes
        if wholes is not None and wholes.unopened_nodes[v]
    }
    for a, ask in enumerate(kinds):
        model.addConstraint(at_least([(n[a, v], 1) for v in bucket.nodes], wished[ask]), f"wished_{a}")
    for v in bucket.nodes:
        for r, free in enumerate(room.vectors.amounts[v]):
            unit = int(np.gcd.reduce([ask.amounts[r] for ask in kinds if ask.amounts[r]] or [0]))
            if unit:
                taken: list[tuple[pulp.LpVariable, float]] = [
                    (n[a, v], ask.amounts[r] // unit) for a, ask in enumerate(kinds) if ask.amounts[r]
                ]
                closed = wholes is not None and v in w and bool(wholes.counted_resources[v, r])
                most = int(free) // unit
                model.addConstraint(
                    at_most([*taken, (w[v], -most)], 0) if closed else at_most(taken, most), f"free_{v}_{r}"
                )
        _add_slot_rows(model, room, v, [(ask, n[a, v]) for a, ask in enumerate(kinds)])
    model.setObjective(pulp.lpSum(w.values()))
    answer = solve_model(model, options)
    if not answer.values:
        return None
    left = {(ask, v): round(answer.values[n[a, v].name]) for a, ask in enumerate(kinds) for v in bucket.nodes}
    found: dict[int, list[Placement]] = {}
    for wish in sorted(wanted_pods):
        pods = wanted_pods[wish]
        for v in bucket.nodes:
            some = min(pods, left[asks[wish], v])
            if some:
                room.add_pods(v, problem.gangs[wish[0]].roles[wish[1]], some)
                left[asks[wish], v] -= some
                pods -= some
                found.setdefault(wish[0], []).append(Placement(wish[1], v, some))
    return found


def _add_slot_rows(
    model: pulp.LpProblem, room: FreeNodes, v: int, users: Iterable[tuple[PodRequest, pulp.LpVariable]]
) -> None:
    pods: dict[SlotRequest, Terms] = {}
    for ask, n in users:
        for request in ask.slot_requests:
            pods.setdefault(request, []).append((n, 1.0))
    for group, own in by_slot_group(pods):
        slots = room.vectors.slots[v, group]
        m = slot_variables(model, f"m_{v}", slots, [(a, sum(n.upBound for n, _ in terms)) for a, terms in own.items()])
        add_rows(model, slot_capacity_rows(slots, {a: (terms, 0) for a, terms in own.items()}, m, (v, group)))
