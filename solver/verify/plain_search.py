"""A plain search for room: one gang's minima next to given pods, node by node, within what queues may hold."""

from __future__ import annotations

from collections.abc import Sequence

from solver.problem import Gang, Vector
from solver.verify.checked_plan import CheckedPlan, PodCounts, add_vector, fitting_pods, has_plain_minima
from solver.verify.queues import guarantee_shortfalls
from solver.verify.time import excluded_nodes


def take_pods(free: list[list[int]], gang: Gang, pods: PodCounts, times: int = 1) -> None:
    for (role, node), number in pods.items():
        add_vector(free[node], gang.roles[role].request, -times * number)


def queues_allow(
    x: CheckedPlan, own: Sequence[Vector], starting_queues: set[int], before: Sequence[Vector] | None = None
) -> bool:
    """Return whether this usage respects the ceilings of the queues in which gangs start, and guarantees. A limit that
    was broken before counts as broken, so that this errs towards no; guarantees only beyond the usage `before`."""
    held, paths = x.with_descendants(own), {above for home in starting_queues for above in x.queue_path(home)}
    for field, q, r, most, tree in x.queue_limits:
        if (field == "guarantee" or q in paths) and (held if tree else own)[q][r] > most:
            return False
    return not any(guarantee_shortfalls(x, before, own))


def place_gang(x: CheckedPlan, free: list[list[int]], j: int) -> bool:
    """Place the gang's minima inside one of its domains, role by role, node by node, where no other rule excludes
    it. False proves nothing: only gangs with plain minima and without running pods are tried."""
    gang = x.problem.gangs[j]
    if gang.running or not has_plain_minima(gang):
        return False
    excluded = excluded_nodes(x, j)
    for nodes in x.domain_node_sets(gang.topology):
        found = _first_fit(x, free, gang, [n for n in nodes if n not in excluded])
        if found is not None:
            take_pods(free, gang, found)
            return True
    return False


def _first_fit(x: CheckedPlan, free: Sequence[Sequence[int]], gang: Gang, nodes: Sequence[int]) -> PodCounts | None:
    left = {n: list(free[n]) for n in nodes}
    found = {}
    for t, role in sorted(enumerate(gang.roles), key=lambda item: item[1].request, reverse=True):
        missing = role.minimum
        for n in nodes:
            if not missing or x.problem.nodes[n].node_class not in role.node_classes:
                continue
            if (pods := fitting_pods(left[n], role.request, missing)) > 0:
                add_vector(left[n], role.request, -pods)
                found[t, n] = pods
                missing -= pods
        if missing:
            return None
    return found
