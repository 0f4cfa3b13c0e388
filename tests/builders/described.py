"""Worlds and statements as data files describe them, by the arguments of `tests.builders.problems`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import compiler.explain.lost_starts
import solver.facts
import solver.repairs
from solver.problem import Placement, Policy, Problem, Topology
from tests.builders.problems import GangSpec, QueueSpec, gang, nodes, problem, queue, role, subgroup, supernodes
from tests.builders.problems import two_supernodes as two_small_supernodes

_PLACES = {"supernodes": supernodes, "two small supernodes": two_small_supernodes}
_KINDS: dict[str, Any] = {}
for _room in (solver.facts, solver.repairs, compiler.explain.lost_starts):
    _KINDS |= vars(_room)


def world_of(
    *,
    queues: Mapping[str, Mapping[str, Any]] | None = None,
    gangs: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> Problem:
    """queues, gangs: name -> arguments. nodes: arguments of each call. place: instead of nodes, where they are. The
    others are those of `problem`."""
    things: list[QueueSpec | GangSpec] = [*queues_of(queues or {})]
    things += [_gang(name, **said) for name, said in (gangs or {}).items()]
    if "place" in more:
        return _PLACES[more["place"]](*things)
    machines = [nodes(**said) for said in more.pop("nodes", ())]
    if "policy" in more:
        more["policy"] = Policy(**more["policy"])
    return problem(*machines, *things, **more)


def queues_of(described: Mapping[str, Mapping[str, Any]]) -> list[QueueSpec]:
    """described: name -> arguments."""
    return [queue(name, **_frozen(said)) for name, said in described.items()]


def _gang(name: str, *, roles: Iterable[Mapping[str, Any]], **more: Any) -> GangSpec:
    """running: [role, node, pods] of each. topology: [mode, tier]."""
    if "running" in more:
        more["running"] = tuple(Placement(*place) for place in more["running"])
    if "topology" in more:
        more["topology"] = Topology(*more["topology"])
    if "subgroups" in more:
        more["subgroups"] = tuple(subgroup(**_frozen(said)) for said in more["subgroups"])
    return gang(name, *(role(**said) for said in roles), **more)


def statements(described: Iterable[Mapping[str, Mapping[str, Any]]]) -> tuple[Any, ...]:
    """described: the name of each type with its fields."""
    return tuple(_statement(name, said) for each in described for name, said in each.items())


def _statement(name: str, said: Mapping[str, Any]) -> Any:
    fields = _frozen(said)
    if "also" in said:
        fields["also"] = statements(said["also"])
    return _KINDS[name](**fields)


def _frozen(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _tuples(each) for name, each in said.items()}


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
