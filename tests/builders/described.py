"""Worlds and statements as data files describe them, by the arguments of `tests.builders.problems`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import solver.facts
import solver.repairs
from solver.problem import DisruptionBudget, EvictionVotes, Placement, Policy, Problem, SlotHold, Topology
from tests.builders.problems import (
    GangSpec,
    QueueSpec,
    gang,
    nodes,
    pod_rule,
    problem,
    queue,
    role,
    subgroup,
    supernodes,
)
from tests.builders.problems import two_supernodes as two_small_supernodes

_PLACED = frozenset({"running", "former", "protected", "slot_holds"})
_VOTES = ("preempt_votes", "reclaim_votes")
_PLACES = {"supernodes": supernodes, "two small supernodes": two_small_supernodes}
_KINDS: dict[str, Any] = vars(solver.facts) | vars(solver.repairs)


def world_of(
    *,
    queues: Mapping[str, Mapping[str, Any]] | None = None,
    gangs: Mapping[str, Mapping[str, Any]] | None = None,
    **more: Any,
) -> Problem:
    """queues, gangs: name -> arguments. nodes: arguments of each call. place: instead of nodes, where they are. The
    others are those of `problem`, votes on evictions, and disruption budgets: [name, allowed, [gang, role] of each]."""
    things: list[QueueSpec | GangSpec] = [*queues_of(queues or {})]
    things += [_gang(name, **said) for name, said in (gangs or {}).items()]
    if "place" in more:
        return _PLACES[more["place"]](*things)
    machines = [nodes(**said) for said in more.pop("nodes", ())]
    if "policy" in more:
        more["policy"] = Policy(**more["policy"])
    if "pod_rules" in more:
        more["pod_rules"] = tuple(pod_rule(**said) for said in more["pod_rules"])
    votes: dict[str, Any] = {key: EvictionVotes(**more.pop(key)) for key in _VOTES if key in more}
    budgets = (DisruptionBudget(*frozen(said)) for said in more.pop("disruption_budgets", ()))
    return replace(problem(*machines, *things, **_frozen(more)), disruption_budgets=tuple(budgets), **votes)


def queues_of(described: Mapping[str, Mapping[str, Any]]) -> list[QueueSpec]:
    """described: name -> arguments."""
    return [queue(name, **_frozen(said)) for name, said in described.items()]


def _gang(name: str, *, roles: Iterable[Mapping[str, Any]], **more: Any) -> GangSpec:
    """running, former, protected: [role, node, pods] of each; slot_holds: [role, node, slot, pods]. topology: [mode,
    tier]."""
    for field in _PLACED & more.keys():
        more[field] = tuple((SlotHold if field == "slot_holds" else Placement)(*place) for place in more[field])
    if "topology" in more:
        more["topology"] = Topology(*more["topology"])
    if "subgroups" in more:
        more["subgroups"] = tuple(subgroup(**_frozen(said)) for said in more["subgroups"])
    return gang(name, *(role(**said) for said in roles), **_frozen(more))


def statements(
    described: Iterable[Mapping[str, Mapping[str, Any]]], others: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """described: the name of each type with its fields. others: types that are not the solver's, by name."""
    kinds = {**_KINDS, **(others or {})}
    made = []
    for each in described:
        for name, said in each.items():
            fields = _frozen(said)
            if "also" in said:
                fields["also"] = statements(said["also"])
            made.append(kinds[name](**fields))
    return tuple(made)


def _frozen(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: frozen(each) for name, each in said.items()}


def frozen(value: Any) -> Any:
    """The value with tuples for lists."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value
