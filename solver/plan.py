"""The plan: what `solver.solve` answers. Indices refer to the problem's tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from solver.facts import Fact
from solver.problem import Limits, Placement, Vector
from solver.repairs import Repair

Action = Literal["start", "keep", "wait", "evict"]
Verdict = Literal["proven", "within gap", "limit reached"]


@dataclass(frozen=True, slots=True)
class SlotUse:
    """`pods` of the new pods of role `role` on node `node` take their share from its slot `slot` (index into
    `Node.slots`)."""

    role: int
    node: int
    slot: int
    pods: int


@dataclass(frozen=True, slots=True)
class UnlocatedHolder:
    """Pods of `gang` hold device slots of `slot_group` on `node`; which ones is unknown."""

    gang: int
    node: int
    slot_group: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one gang.

    placements: all its pods, running ones included, sorted by (role, node); only running ones when it waits.
    evicted_pods: evicted running pods, sorted likewise: all of them (action "evict"), or surplus ones of a kept gang.
    evicted_for: the gangs that start because of it, sorted. slot_uses: the device slots of the new pods, sorted: one
    assignment, which shows that they fit. starts_in: seconds until a waiting gang is expected to start; only of the
    gang with the reservation, and only where known. held: it waits and is to be kept out of the cluster, so that with
    the plugin proportion its unusable share is given to other queues.
    """

    gang: int
    action: Action
    placements: tuple[Placement, ...]
    domains: tuple[int, ...]
    """The leaves that the gang touches, in order of index."""
    facts: tuple[Fact, ...] = ()
    repairs: tuple[Repair, ...] = ()
    evicted_pods: tuple[Placement, ...] = ()
    evicted_for: tuple[int, ...] = ()
    slot_uses: tuple[SlotUse, ...] = ()
    starts_in: int | None = None
    unlocated_holders: tuple[UnlocatedHolder, ...] = ()
    """For a gang that waits for device slots: gangs that it could evict if their slots were known."""
    held: bool = False


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes reserved for one waiting gang until it starts there. placements: its pods beyond its running ones, sorted
    by (role, node).

    starts_in: seconds until all of `awaited_gangs` are expected to have ended; None where one of them has no known end.
    Until then only `gangs_before`, which were decided before it, and gangs that are expected to end before get new pods
    on these nodes.
    """

    gang: int
    starts_in: int | None
    placements: tuple[Placement, ...]
    awaited_gangs: tuple[int, ...]
    gangs_before: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective of a batch: the value reached, the best bound proved, the gap |bound - value| / max(1, |value|),
    and the verdict."""

    name: str
    value: float
    bound: float
    gap: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Batch:
    """The gangs decided by one model, and how well. `seconds` is for people and no part of the plan's identity."""

    gangs: tuple[int, ...]
    verdict: Verdict
    objectives: tuple[Objective, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class QueueUse:
    """A queue's usage, descendants included. allocated: before the plan. admitted: added by the plan, less its
    evictions (then it may be negative). share: weighted dominant share after it. deserved: with the plugin proportion
    the queue's water-filled share, None for a share of 0; else the declared amounts as read by the plugin capacity."""

    queue: int
    allocated: Vector
    admitted: Vector
    share: float
    deserved: Limits


@dataclass(frozen=True, slots=True)
class Plan:
    decisions: tuple[Decision, ...]
    """One for each gang, in the problem's order."""
    batches: tuple[Batch, ...]
    queues: tuple[QueueUse, ...]
    """One for each queue, in the problem's order."""
    reservation: Reservation | None = None
    hit_time_limit: bool = False
    """Whether the time limit ended a solve before its deterministic limits did: then the same problem may give another
    plan."""
