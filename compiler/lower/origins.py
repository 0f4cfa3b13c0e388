"""Origins: for each index of the problem, its document and line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from compiler.cluster_state.run_records import StartPromise
from compiler.diagnostics.diagnostic import Position
from compiler.lower.reserved_room import ReservedRoom
from compiler.lower.slot_groups import NumaPlan
from compiler.specs.gang_spec import GangSpec, GroupTerm, JobKey
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.volcano.fairshare import Turn
from solver.forecast import PastRuns


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """A time, in seconds since the epoch, at which the answer may change by itself. gang: of the problem; None for
    nodes."""

    time: int
    cause: Literal["end", "patience", "cooldown", "maintenance"]
    gang: int | None = None


@dataclass(frozen=True, slots=True)
class RuleOrigins:
    """Origins of the problem's pod rules. texts: in the user's words, rule by rule. fields: of the pods whose rule it
    is. owner_pods: rule by rule the foreign pods (namespace/name) that own it. subgroups: rule -> (gang, subgroup) that
    it keeps in one domain. terms: rule -> (gang, the term of its PodGroup that it is)."""

    texts: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    owner_pods: tuple[tuple[str, ...], ...] = ()
    subgroups: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    terms: Mapping[int, tuple[int, GroupTerm]] = field(default_factory=dict)

    def followed_by(self, texts: Sequence[str], **more: Any) -> RuleOrigins:
        """These, and after them rules that no foreign pod owns. more: fields as they are then."""
        owner_pods = (*self.owner_pods, *(() for _ in texts))
        return replace(self, texts=(*self.texts, *texts), owner_pods=owner_pods, **more)


@dataclass(frozen=True, slots=True)
class LeftOutGangs:
    """The gangs that are in no problem: because they finished, because their owner suspended them or another scheduler
    places them, because their pods go where their scheduler puts them, or because they have no pods. held_jobs: job ->
    why it is held; these are among the inactive ones."""

    finished: tuple[GangSpec, ...] = ()
    inactive: tuple[GangSpec, ...] = ()
    unbound: tuple[GangSpec, ...] = ()
    empty: tuple[GangSpec, ...] = ()
    held_jobs: Mapping[JobKey, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AnnouncedStarts:
    """reserved, promises: the start that an earlier plan reserved for a job, and its first window, from the cluster's
    job. past_runs: None where no run is recorded."""

    reserved: Mapping[JobKey, str] = field(default_factory=dict)
    promises: Mapping[JobKey, StartPromise] = field(default_factory=dict)
    past_runs: PastRuns | None = None


@dataclass(frozen=True, slots=True)
class Origins:
    """gangs, queues, nodes, hypernodes: as in the problem, index by index; an undeclared queue is None.

    now: from when the plan counts (`timed_events`), None without a state. upcoming_events: times at which the answer
    may change although nothing happens. unplanned_numa: (gang, role) whose NUMA nodes are not planned on some nodes.
    excluding_numa_policies: (gang, role) -> its topologyPolicy, where that excludes nodes. outdated_nodes: nodes whose
    report of their slots is older than the pods there. affinity_owners: queue -> the queue whose spec.affinity it has,
    by index. priority_classes: name -> value. reserved_rooms: room kept for declared pods that the plan binds to no
    node. turns: as of `compiler.lower.inputs.age_ranks`. refused_queues: as of `ObservedState`.
    """

    gangs: tuple[GangSpec, ...]
    queues: tuple[QueueSpec | None, ...]
    nodes: tuple[NodeSpec, ...]
    hypernodes: tuple[HyperNodeSpec, ...]
    left_out: LeftOutGangs = LeftOutGangs()
    rules: RuleOrigins = RuleOrigins()
    now: int | None = None
    starts: AnnouncedStarts = AnnouncedStarts()
    upcoming_events: tuple[TimedEvent, ...] = ()
    unplanned_numa: Mapping[tuple[int, int], NumaPlan] = field(default_factory=dict)
    excluding_numa_policies: Mapping[tuple[int, int], str] = field(default_factory=dict)
    outdated_nodes: tuple[str, ...] = ()
    affinity_owners: tuple[int, ...] = ()
    priority_classes: Mapping[str, int] = field(default_factory=dict)
    reserved_rooms: tuple[ReservedRoom, ...] = ()
    turns: Mapping[tuple[str, str], Turn] = field(default_factory=dict)
    refused_queues: Mapping[str, str] = field(default_factory=dict)

    def position(self, where: tuple[str | int, ...]) -> Position | None:
        """Return the line for a path of indices such as ("gangs", 3, "roles", 0, "request"); None without a
        declaration."""
        match where:
            case ("gangs", int(j), "roles", int(t), *_):
                gang = self.gangs[j]
                return gang.document.position(*gang.roles[t].path)
            case ("gangs", int(j), *rest):
                gang = self.gangs[j]
                return gang.document.position(*gang.field_paths.get(str(rest[0]) if rest else "", ()))
            case ("nodes", int(i), *_):
                return self.nodes[i].document.position("metadata", "name")
            case ("hypernodes", int(h), *_):
                return self.hypernodes[h].document.position("metadata", "name")
            case ("queues", int(q), *rest):
                queue = self.queues[q]
                return queue.document.position("spec", *map(str, rest[:1])) if queue else None
        return None
