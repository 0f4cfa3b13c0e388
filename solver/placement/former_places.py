"""Former places: what the plan in force gave a gang, and whether it can have that again (docs/develop/model.md, Former
places)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from solver.problem import Gang, Placement
from solver.semantics.gang_classes import GangClass, breaks_topology, has_partial_subgroup, pods_per_role
from solver.semantics.placements import merge_placements, new_placements, subtract_placements
from solver.state.state import Pods, State


def unused_former_places(gang: Gang, placed: Iterable[Placement]) -> Pods:
    """Return the gang's former places that these pods do not use."""
    return tuple([p for p in subtract_placements(gang.former, placed) if p.pods > 0])


def keeps_former_places(gang: Gang, pods: Iterable[Placement]) -> bool:
    """Return whether it has former places, and all new pods among these are there."""
    if not gang.former:
        return False
    allowed = Counter({(p.role, p.node): p.pods for p in unused_former_places(gang, gang.running)})
    return all(p.pods <= allowed[p.role, p.node] for p in new_placements(gang, pods))


def take_former_places(state: State, j: int, gang_class: GangClass, obey_rules: bool = True) -> Pods | None:
    """Return the new pods of gang j, of this class, at its former places, and their room taken from the nodes. None,
    and nothing taken, where they are too few or not as they were. obey_rules: nor where pods that are there or taken
    break a pod rule next to them."""
    gang, tree, mark = state.problem.gangs[j], state.tree, state.free_nodes.mark()
    chosen = _chosen_places(gang, gang_class)
    if chosen is None or not all(_is_open(state, p, gang_class) for p in chosen):
        return None
    pods = merge_placements([*gang_class.running_pods, *chosen])
    if breaks_topology(tree, gang, pods) or has_partial_subgroup(tree, gang, pods):
        return None
    try:
        state.free_nodes.add_gang_pods(gang, chosen)
    except ValueError:
        state.free_nodes.undo(mark)
        return None
    if obey_rules and gang_class.has_pod_rules and state.free_nodes.breaks_pod_rules:
        state.free_nodes.undo(mark)
        return None
    return chosen


def _is_open(state: State, place: Placement, gang_class: GangClass) -> bool:
    return state.problem.nodes[place.node].node_class in gang_class.roles[place.role].node_classes


def _chosen_places(gang: Gang, gang_class: GangClass) -> Pods | None:
    """Return the former places of its new pods; where there are more of them, those on nodes that it has already, then
    those with most pods. None where there are too few."""
    own, left = {p.node for p in gang_class.running_pods}, gang_class.smallest_mix()
    unused = unused_former_places(gang, gang_class.running_pods)
    chosen = []
    for p in sorted(unused, key=lambda p: (p.node not in own, -p.pods, p.node, p.role)):
        if pods := min(p.pods, left[p.role]):
            chosen.append(Placement(p.role, p.node, pods))
            left[p.role] -= pods
    return None if any(left) else merge_placements(chosen)


def has_no_choice(gang: Gang, gang_class: GangClass) -> bool:
    """Return whether its former places are just as many as its new pods."""
    unused = unused_former_places(gang, gang_class.running_pods)
    return pods_per_role(len(gang.roles), unused) == gang_class.smallest_mix()


def must_move(state: State, gang: Gang, gang_class: GangClass) -> bool:
    """Return whether its former places provably cannot hold its new pods. By nodes and amounts only: pods under rules,
    or with shared devices, may fit after other pods."""
    room, left = Counter[int](), gang_class.smallest_mix()
    for p in unused_former_places(gang, gang_class.running_pods):
        if _is_open(state, p, gang_class):
            fits = state.fit_counts_on(np.array([p.node], dtype=np.intp), gang_class.roles[p.role])
            room[p.role] += min(p.pods, int(fits[0]))
    return any(room[t] < pods for t, pods in enumerate(left))
