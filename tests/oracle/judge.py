"""The oracle as a process of its own (`python -m tests.oracle.judge`): a line with plans as JSON in, a line with what
is wrong with each out.

Of its own because OR-tools and highspy each bring a libhighs.so.1, and a process can only load one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from tests.oracle.documents import World, read_world
from tests.oracle.model import ImpossibleError, Model, best, can_start, overtaken

Sizes = Mapping[str, list[int]]
"""Job -> pods of each role."""


def mistakes(
    files: Mapping[str, bytes], started: Collection[str], reached: Mapping[str, float], grown: Sizes
) -> list[str]:
    """What is wrong when these jobs start and these values of objectives are called proven; nothing where all is right
    once some elastic jobs need more pods than written: growth that is entitled comes before what is lent. No job waits
    that could start next to the others, as large as they are."""
    world = read_world(files)
    found = _mistakes(world, started, reached)
    is_right = found and any(
        not _mistakes(larger, started, reached) for larger in _larger_worlds(world, started, grown)
    )
    return idle_room(world, started, grown) + ([] if is_right else found)


def idle_room(world: World, started: Collection[str], grown: Sizes) -> list[str]:
    """The jobs that wait although all that start, with the pods that they get, leave room for their minima."""
    waiting = sorted({job.name for job in world.jobs} - set(started))
    as_planned = _with_sizes(world, grown)
    return [
        f"{name} waits, and would start next to the plan" for name in waiting if can_start(as_planned, {*started, name})
    ]


def _larger_worlds(world: World, started: Collection[str], grown: Sizes) -> Iterator[World]:
    """The worlds in which elastic jobs need more pods than written: those that start no more than they get."""
    written = {job.name: [role.pods for role in job.roles] for job in world.jobs}
    most = {job.name: [role.replicas for role in job.roles] for job in world.jobs if job.name not in started}
    most |= grown
    choices = (
        product(*(range(high, low - 1, -1) for low, high in zip(written[name], pods, strict=True)))
        for name, pods in most.items()
    )
    for sizes in product(*choices):
        yield _with_sizes(world, dict(zip(most, map(list, sizes), strict=True)))


def _with_sizes(world: World, sizes: Sizes) -> World:
    """The world in which these jobs need so many pods of each role."""
    jobs = []
    for job in world.jobs:
        least = sizes.get(job.name, [role.pods for role in job.roles])
        roles = (replace(role, pods=pods) for role, pods in zip(job.roles, least, strict=True))
        jobs.append(replace(job, roles=tuple(roles)))
    return replace(world, jobs=tuple(jobs))


def _mistakes(world: World, started: Collection[str], reached: Mapping[str, float]) -> list[str]:
    own = sorted(started)
    try:
        values = Model(world, own).decide()
    except ImpossibleError:
        return [f"{own} cannot start together"]
    if world.queues_first and (found := overtaken(world, own)):
        return [f"{job.name} waits although it could start without {sorted(lower)}" for job, lower in found]
    most, instead = best(world)
    if values != most:
        name = next(name for name, value in most.items() if values.get(name) != value)
        return [f"{name}: {values[name]} with {own}, {most[name]} with {sorted(instead)}"]
    values |= Model(world, own).least_cost()
    return [
        f"{name}: the plan says {value}, it is {values[name]}"
        for name, value in reached.items()
        if name in values and abs(float(values[name]) - value) > 1e-6
    ]


def _answer(plan: Mapping[str, Any]) -> list[str]:
    files = {path: text.encode() for path, text in plan["files"].items()}
    return mistakes(
        files, plan["started"], {name: float(value) for name, value in plan["reached"].items()}, plan["grown"]
    )


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps([_answer(plan) for plan in json.loads(line)]), flush=True)
