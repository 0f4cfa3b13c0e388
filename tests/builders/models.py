"""What the models of a world are made from: sets of all its gangs, and the task of placing them."""

from __future__ import annotations

from solver.models.sets import Sets, coarsest_buckets
from solver.options import Options
from solver.placement.batch import batch_sets
from solver.placement.task import PlacementTask
from solver.problem import Problem
from solver.semantics.gang_classes import gangs_by_class, waiting_class
from solver.state.state import State


def sets_of(world: Problem) -> Sets:
    waiting = gangs_by_class(world, range(len(world.gangs)))
    shapes = tuple(dict.fromkeys(shape for _, _, shape in waiting))
    by_class = {(q, p, shapes.index(shape)): js for (q, p, shape), js in waiting.items()}
    state = State.initial(world)
    return Sets(state, coarsest_buckets(state.tree), shapes, by_class)


def task_of(world: Problem) -> PlacementTask:
    gangs = range(len(world.gangs))
    classes = {j: waiting_class(j, world.gangs[j]) for j in gangs}
    return PlacementTask(batch_sets(State.initial(world), gangs), classes, Options())
