"""The way back: for each index of the problem, the document and the line that it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from compiler.diagnostics import Position
from compiler.lower.numa import NumaPlan
from compiler.specs import GangSpec, HyperNodeSpec, JobKey, NodeSpec, QueueSpec


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """A time at which something known of time changes by itself. at: seconds since the epoch. gang: of the problem;
    None for nodes."""

    time: int
    cause: Literal["end", "patience", "cooldown", "maintenance", "too late"]
    gang: int | None = None


@dataclass(frozen=True, slots=True)
class Origins:
    """gangs, queues, nodes, hypernodes: as in the problem, index by index; a queue that nobody declared is None.

    done: gangs left out because they finished. set_aside: gangs left out because their owner suspended them or another
    scheduler places them. empty: gangs left out because they have no pods (all replicas are 0). submitted: seconds
    since the epoch for the gangs whose age is known by time. now: from when the plan counts (`lower.moments`), None
    without a state. moments: times to come at which the answer may change although nothing happens. promised: the start
    that an earlier plan promised, as the cluster's job says it. behind: nodes of whose cells the cluster's word is
    older than the pods there; what it says next is news. relations: as in the problem, each in the words of its rule.
    guards: for each of them the pods (namespace/name) of no gang that carry it. unplanned: (gang, role) whose NUMA
    cells are not planned on some nodes. barring: (gang, role) -> its topologyPolicy, where that closes nodes. wholes:
    relation -> (gang, subgroup) of which it says that it must be in one domain.
    """

    gangs: tuple[GangSpec, ...]
    queues: tuple[QueueSpec | None, ...]
    nodes: tuple[NodeSpec, ...]
    hypernodes: tuple[HyperNodeSpec, ...]
    finished_gangs: tuple[GangSpec, ...] = ()
    inactive_gangs: tuple[GangSpec, ...] = ()
    empty_gangs: tuple[GangSpec, ...] = ()
    submission_times: Mapping[JobKey, int] | None = None
    now: int | None = None
    reserved_starts: Mapping[JobKey, str] = field(default_factory=dict)
    rule_texts: tuple[str, ...] = ()
    rule_owner_pods: tuple[tuple[str, ...], ...] = ()
    upcoming_events: tuple[TimedEvent, ...] = ()
    unplanned_numa: Mapping[tuple[int, int], NumaPlan] = field(default_factory=dict)
    excluding_numa_policies: Mapping[tuple[int, int], str] = field(default_factory=dict)
    outdated_nodes: tuple[str, ...] = ()
    subgroup_of_rule: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def position(self, where: tuple[str | int, ...]) -> Position | None:
        """The line for a path of indices such as ("gangs", 3, "roles", 0, "request"); None for what nobody declared."""
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
