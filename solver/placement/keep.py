"""Stage B, first: gangs keep the places of the plan in force, and the others are placed next to them
(docs/develop/model.md, Former places)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Set
from dataclasses import replace

import numpy as np

from solver.placement.improve import improve_placements
from solver.placement.task import PlacementTask
from solver.problem import Gang, Placement
from solver.semantics.gang_classes import GangClass, breaks_topology, has_partial_subgroup, pods_per_role
from solver.semantics.order import precedence
from solver.semantics.placement_cost import PlacementCost
from solver.semantics.placements import Placements, merge_placements, new_placements, subtract_placements
from solver.state.state import Pods, State


def kept_placements(task: PlacementTask) -> dict[int, Pods]:
    """Return gang -> all its pods, of the task's gangs that can have their former places together; earlier gangs choose
    first."""
    gangs, state = task.s.problem.gangs, task.s.state_after({})
    named = [j for j in task.gang_classes if gangs[j].former]
    order = sorted(named, key=lambda j: (-precedence(gangs[j]), gangs[j].age, j))
    return _without_rule_breakers(state, task, _keep_in(state, task, order, obey_rules=False))


def _keep_in(state: State, task: PlacementTask, gangs: Iterable[int], obey_rules: bool = True) -> dict[int, Pods]:
    """Return the gangs that find their former places in this state, and take these from it."""
    found: dict[int, Pods] = {}
    for j in gangs:
        gang_class = task.gang_classes[j]
        if (pods := take_former_places(state, j, gang_class, obey_rules)) is not None:
            found[j] = merge_placements([*gang_class.running_pods, *pods])
    return found


def _without_rule_breakers(state: State, task: PlacementTask, kept: dict[int, Pods]) -> dict[int, Pods]:
    """Return the kept gangs, taken from the state, that break no pod rule together. The last gang of a broken rule is
    dropped, until no rule is broken. Gangs cannot be checked one by one: one may allow the other."""
    while state.rule_counts is not None and (broken := {rho for rho, _ in state.rule_counts.violations()}):
        last = next((j for j in reversed(kept) if _is_bound_by(task.gang_classes[j], broken)), None)
        if last is None:
            return {}
        state.stop_gang(last, kept[last])
        kept = {j: pods for j, pods in kept.items() if j != last}
    return kept


def _is_bound_by(gang_class: GangClass, rules: Set[int]) -> bool:
    return any(not rules.isdisjoint((*role.owned_rules, *role.selecting_rules)) for role in gang_class.roles)


def place_beside_kept(task: PlacementTask, kept: Placements) -> tuple[Placements, PlacementCost] | None:
    """Return (placements that keep the places of as many of these gangs as found, a lower bound on their cost given
    those). None where the greedy finds no room for all. Where the others find none, one of the kept gangs, the last,
    gives up its place, then two, four, until they do."""
    order, given_up = list(kept), 0
    while True:
        staying = {j: kept[j] for j in order[: len(order) - given_up]}
        if (found := _place_others(task, staying, order[len(staying) :])) is not None:
            return found
        if not staying:
            return None
        given_up = min(len(order), max(1, 2 * given_up))


def _place_others(
    task: PlacementTask, staying: Placements, leaving: Collection[int]
) -> tuple[Placements, PlacementCost] | None:
    """Place the task's gangs, of which some stay. First gangs that neither stay nor leave are placed; leaving ones keep
    their places after all where these are still free."""
    movers = task.gang_classes.keys() - staying.keys() - set(leaving)
    before = task.s.state_after(staying)
    for held_back in (True, False):
        state = before.copy()
        if held_back and not (movers and _hold_back(state, task, staying)):
            continue
        placed = task.place_greedily(state, movers)
        if placed is None:
            continue
        kept = {**staying, **_keep_in(state, task, leaving)}
        rest = task.place_greedily(state, set(leaving) - kept.keys())
        if rest is not None:
            return _improve_beside(task, kept, {**placed, **rest}, held_back)
    return None


def _hold_back(state: State, task: PlacementTask, staying: Placements) -> bool:
    """Take the room of former places that are not assigned yet: of gangs decided later, and of staying ones that may
    grow. Return whether there are any. Pod rules do not count them, since they may not be used."""
    gangs, nodes, mark = state.problem.gangs, state.free_nodes, state.free_nodes.mark()
    places = {j: unused_former_places(gangs[j], staying.get(j, gangs[j].running)) for j in (*staying, *task.s.later)}
    for j, pods in places.items():
        before = nodes.mark()
        try:
            for p in pods:
                nodes.take_pods(p.node, gangs[j].roles[p.role].pod_request, p.pods)
        except ValueError:
            nodes.undo(before)
    return nodes.mark() > mark


def _improve_beside(
    task: PlacementTask, kept: Placements, placed: Placements, held_back: bool
) -> tuple[Placements, PlacementCost]:
    """Improve these placements of the other gangs next to the kept ones, and return them with the least cost of all."""
    state, least = task.s.state_after(kept), PlacementCost()
    if held_back:
        _hold_back(state, task, kept)
    if placed:
        placed, least = improve_placements(task.with_started(kept, state), placed)
    # Rooms held back, and the device slots of kept pods, are choices that other placements need not make.
    is_choice = held_back or bool(task.s.problem.slot_groups)
    return dict(sorted({**kept, **placed}.items())), _least_cost(task, kept, placed, None if is_choice else least)


def _least_cost(
    task: PlacementTask, kept: Placements, others: Placements, beside_kept: PlacementCost | None
) -> PlacementCost:
    """Return a lower bound on what placements with as few moves cost. beside_kept: of the others where the kept gangs
    are; None where it is not known. Where no gang moves that need not, the same ones keep their places in all of
    them."""
    state, gangs = task.s.state, task.s.problem.gangs
    if not all(must_move(state, gangs[j], task.gang_classes[j]) for j in others if gangs[j].former):
        return task.lower_bound
    fixed = {j: pods for j, pods in kept.items() if has_no_choice(gangs[j], task.gang_classes[j])}
    if beside_kept is not None and len(fixed) == len(kept):
        return PlacementCost(*(a + b for a, b in zip(task.cost(kept).values, beside_kept.values, strict=True)))
    free = [j for j in task.gang_classes if j not in fixed]
    own, split, span = task.cost(fixed), *(sum(task.min_costs[j][entry] for j in free) for entry in range(2))
    apart, groups = (
        sum(least.get(j, 0) for j in free) for least in (task.min_separation_costs, task.min_node_group_costs)
    )
    return replace(
        task.lower_bound,
        subgroups=own.subgroups + split,
        spread=own.spread + span,
        separations=own.separations + apart,
        node_groups=own.node_groups + groups,
    )


def count_moves(task: PlacementTask, placements: Placements) -> tuple[int, int]:
    """(gangs that leave the places of the plan in force, how many do for certain)."""
    gangs = task.s.problem.gangs
    named = {j: pods for j, pods in placements.items() if gangs[j].former}
    moved = [j for j, pods in named.items() if not keeps_former_places(gangs[j], pods)]
    return len(moved), sum(must_move(task.s.state, gangs[j], task.gang_classes[j]) for j in moved)


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
