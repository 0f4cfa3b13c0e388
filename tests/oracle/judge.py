"""The oracle as a process of its own (`python -m tests.oracle.judge`): plans as JSON in, what is wrong with each out.

Of its own because OR-tools and highspy each bring a libhighs.so.1, and a process can only load one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping

from tests.oracle.documents import read_world
from tests.oracle.model import ImpossibleError, Model, best, overtaken


def mistakes(files: Mapping[str, bytes], started: Collection[str], reached: Mapping[str, float]) -> list[str]:
    """What is wrong when these jobs start and these values of objectives are called proven."""
    world, own = read_world(files), sorted(started)
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


def _answer(plan: Mapping[str, dict[str, str]]) -> list[str]:
    files = {path: text.encode() for path, text in plan["files"].items()}
    return mistakes(files, plan["started"], {name: float(value) for name, value in plan["reached"].items()})


if __name__ == "__main__":
    json.dump([_answer(plan) for plan in json.load(sys.stdin)], sys.stdout)
