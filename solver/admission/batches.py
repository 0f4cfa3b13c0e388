"""The gangs that are decided by one model."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from math import inf

from solver.admission.greedy_floor import GreedyFloor
from solver.options import Budget, Options
from solver.problem import Gang, Problem
from solver.semantics.gang_classes import GangClass, may_go_anywhere, waiting_class
from solver.semantics.order import precedence
from solver.state.queue_books import QueueBooks

BatchGroup = list[list[int]]
"""Batches that together start no less than the greedy alone."""


def gangs_of(groups: Iterable[BatchGroup]) -> list[int]:
    """Return the gangs of all batches of the groups, in order."""
    return [j for batch in itertools.chain.from_iterable(groups) for j in batch]


def split_into_batches(
    problem: Problem, waiting: list[int], options: Options, compute_floor: Callable[[], GreedyFloor]
) -> tuple[list[BatchGroup], GreedyFloor | None]:
    """(groups of batches in order, the joint floor, if computed). All gangs are in one batch where its model is small;
    else, queues first, in serving order as many to a batch as one model holds, each batch a group; priorities first see
    `precedence_groups`."""
    if _size(problem, waiting) <= options.budget.joint_variables:
        return ([[sorted(waiting)]] if waiting else []), None
    if not problem.policy.queues_first:
        return precedence_groups(problem, waiting, options, compute_floor)
    floor = compute_floor()
    found = _batches_by_size(problem, _by_turn(waiting, floor), _max_variables(problem, waiting, options.budget))
    return [[sorted(batch)] for batch in found], floor


def precedence_groups(
    problem: Problem, waiting: Iterable[int], options: Options, compute_floor: Callable[[], GreedyFloor]
) -> tuple[list[BatchGroup], GreedyFloor | None]:
    """(a group for each precedence, the highest first, the joint floor, if computed). A precedence is several batches
    in serving order where one model does not hold it."""
    by_precedence: dict[int, list[int]] = {}
    for j in waiting:
        by_precedence.setdefault(precedence(problem.gangs[j]), []).append(j)
    groups, floor = list[BatchGroup](), None
    for _, gangs in sorted(by_precedence.items(), reverse=True):
        most = _max_variables(problem, gangs, options.budget)
        if _size(problem, gangs) > most:
            floor = floor or compute_floor()
            gangs = _by_turn(gangs, floor)
        groups.append([sorted(batch) for batch in _batches_by_size(problem, gangs, most)])
    return groups, floor


EntitlementTurn = tuple[int, int, int, int]
"""(-precedence, age, index, queue) of a gang: the smallest is first."""


def entitlement_turn(j: int, gang: Gang) -> EntitlementTurn:
    return -precedence(gang), gang.age, j, gang.queue


def entitled_gangs(books: QueueBooks, gangs: Iterable[int]) -> list[int]:
    """Return the gangs of each queue up to the first one, by precedence and age, that its entitlement does not cover.
    One that the entitlement could never cover is passed over by gangs of its precedence."""
    return entitled_in_turn(books, sorted(entitlement_turn(j, books.problem.gangs[j]) for j in gangs))


def entitled_in_turn(books: QueueBooks, turns: Sequence[EntitlementTurn]) -> list[int]:
    """As `entitled_gangs`, of gangs in order."""
    rules = books.queue_rules
    paths = {queue: rules.comparison_paths[queue] for queue in {turn[3] for turn in turns}}
    room: dict[int, dict[int, int]] = {}
    for q in set().union(*paths.values()):
        amounts = zip(rules.entitled[q], books.compared_amount(q), strict=True)
        room[q] = {r: max(0, most - held) for r, (most, held) in enumerate(amounts) if most is not None}
    whole = {q: dict(amounts) for q, amounts in room.items()}
    limits_of = {queue: [(q, r) for q in path for r in room[q]] for queue, path in paths.items()}
    last_turn, found = dict[int, float](), list[int]()  # queue -> the last precedence, negated, that may claim
    for turn, _, j, q in turns:
        if turn > last_turn.get(q, inf):
            continue
        demand = books.min_demand(j)
        if all(demand[r] <= room[of][r] for of, r in limits_of[q]):
            found.append(j)
            for of, r in limits_of[q]:
                room[of][r] -= demand[r]
        elif all(demand[r] <= whole[of][r] for of, r in limits_of[q]):
            last_turn[q] = -inf
        else:
            last_turn[q] = turn
    return found


def _by_turn(gangs: Iterable[int], floor: GreedyFloor) -> list[int]:
    """Return the gangs in the greedy's serving order; unserved gangs are last."""
    turn = {j: position for position, j in enumerate(floor.serving_order)}
    return sorted(gangs, key=lambda j: turn.get(j, len(turn)))


def _max_variables(problem: Problem, gangs: Iterable[int], budget: Budget) -> int:
    """Return the most pod variables in one batch of these gangs."""
    return budget.free_batch_variables if may_go_anywhere(problem, gangs) else budget.batch_variables


def _size(problem: Problem, gangs: Iterable[int]) -> int:
    """Return the number of pod variables in a model of these gangs."""
    buckets = _bucket_count(problem)
    return sum(_variable_count(each, buckets) for each in {waiting_class(j, problem.gangs[j]) for j in gangs})


def _bucket_count(problem: Problem) -> int:
    return len({(n.leaf, n.node_class) for n in problem.nodes})


def _variable_count(gang_class: GangClass, buckets: int) -> int:
    return buckets * max(1, len(gang_class.roles))


def _batches_by_size(problem: Problem, gangs: Iterable[int], max_variables: int) -> list[list[int]]:
    """Return the gangs in this order, as many to a batch as it has variables for."""
    found: list[list[int]] = [[]]
    known, size, buckets = set[GangClass](), 0, _bucket_count(problem)
    for j in gangs:
        gang_class = waiting_class(j, problem.gangs[j])
        more = 0 if gang_class in known else _variable_count(gang_class, buckets)
        if found[-1] and more and size + more > max_variables:
            found.append([])
            known, size, more = set(), 0, _variable_count(gang_class, buckets)
        size += more
        known.add(gang_class)
        found[-1].append(j)
    return found
