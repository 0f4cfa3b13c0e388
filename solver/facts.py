"""Facts: why a gang waits. One type for each obstacle; its code is stable (compiler.explain has the texts).

A field named role, queue, resource, hypernode, subgroup, pod_rule, gang(s) or node(s) holds indices of the problem,
subgroup and role indices of the gang. Amounts are in the resource's own unit; without a resource they are pods.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Fact:
    """never: whether the obstacle holds on the empty cluster too, so that waiting cannot help."""

    code: ClassVar[str]
    never: bool = field(default=False, kw_only=True)

    def __init_subclass__(cls, code: str = "") -> None:
        if code:  # `dataclass` makes a class with slots from the class, without its keywords
            cls.code = code


@dataclass(frozen=True, slots=True)
class Shortage(Fact):
    """More is asked for than is available."""

    asked: int
    available: int


# ---- resources


@dataclass(frozen=True, slots=True)
class ResourceShortage(Shortage, code="GW102"):
    """Too little of a resource is free on the nodes eligible for the role, or for any role."""

    resource: int
    role: int | None = None


@dataclass(frozen=True, slots=True)
class OversizedPod(Shortage, code="GW103"):
    """No eligible node has enough of a resource for one pod of the role."""

    role: int
    resource: int


@dataclass(frozen=True, slots=True)
class UnmatchedPod(Fact, code="GW103"):
    """No eligible node has enough of all resources together for one pod of the role."""

    role: int


@dataclass(frozen=True, slots=True)
class OversizedGang(Shortage, code="GW108"):
    """The empty cluster has too little of a resource for the whole gang."""

    resource: int


@dataclass(frozen=True, slots=True)
class Fragmentation(Shortage, code="GW119"):
    """Enough is free in sum, but the nodes hold too few pods of the role, or of the gang. scarce: the resource of which
    alone they hold too few. pieces: (what nodes have of it, how many nodes have that), the most first."""

    role: int | None = None
    scarce: int | None = None
    pieces: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SlotShortage(Shortage, code="GW118"):
    """The device slots hold too few pods of the role, although their nodes have enough in sum. resource: no slot has
    enough of it free for one pod; limit: the most that a slot has when empty."""

    role: int
    resource: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class NoEligibleNode(Fact, code="GW107"):
    """No node is eligible for the role."""

    role: int


@dataclass(frozen=True, slots=True)
class EligibleNodeShortage(Shortage, code="GW120"):
    """The eligible nodes hold too few pods of the role even when empty."""

    role: int


@dataclass(frozen=True, slots=True)
class OwnRunningPods(Shortage, code="GW121"):
    """The missing pods find no room next to the gang's running ones; the whole gang would fit from scratch."""


@dataclass(frozen=True, slots=True)
class AwayNodes(Fact, code="GW122"):
    """The gang would fit with nodes that are not ready or cordoned."""

    nodes: tuple[int, ...]


# ---- topology


@dataclass(frozen=True, slots=True)
class DomainShortage(Shortage, code="GW104"):
    """No domain of the allowed tier holds the gang. hypernode: the best domain, with room for `available` pods."""

    tier: int
    hypernode: int | None = None


@dataclass(frozen=True, slots=True)
class SubgroupShortage(Fact, code="GW109"):
    """The domains of the tier hold too few subgroups. limit: pods of one subgroup; available: None where unknown."""

    subgroup: int
    tier: int
    asked: int
    available: int | None
    limit: int


# ---- queues


@dataclass(frozen=True, slots=True)
class CapabilityLimit(Shortage, code="GW101"):
    """The queue's capability is used up, by `gangs` where the plan starts any. queues: for whose guarantees so much of
    it is kept that waiting cannot help."""

    queue: int
    resource: int
    limit: int
    gangs: tuple[int, ...] = ()
    queues: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareLimit(Shortage, code="GW112"):
    """The queue's proportional share is used up, by `gangs` where the plan starts any."""

    queue: int
    resource: int
    limit: int
    gangs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GuaranteeReserve(Shortage, code="GW106"):
    """The free amounts are reserved for the guarantees of `queues`."""

    queue: int
    resource: int
    queues: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DedicatedDomains(Fact, code="GW106"):
    """The room is in domains of the tier that are dedicated to another queue."""

    queue: int
    tier: int


@dataclass(frozen=True, slots=True)
class ClosedQueue(Fact, code="GW113"):
    """The queue accepts no gangs."""

    queue: int


@dataclass(frozen=True, slots=True)
class ClosedNodeGroups(Fact, code="GW123"):
    """The room is in node groups that the queue may not use."""

    queue: int
    node_groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeGroupLimit(Shortage, code="GW128"):
    """The queue holds all but `available` of its limit on a resource in a node group, and without it the gang fits."""

    queue: int
    node_groups: tuple[int, ...]
    resource: int
    limit: int


# ---- order and time


@dataclass(frozen=True, slots=True)
class PrecedingGangs(Shortage, code="GW105"):
    """The gang fits alone, but the plan starts `gangs` before it in that room."""

    gangs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Borrowing(Shortage, code="GW124"):
    """The gang fits alone, but would borrow: of what the queue is entitled to `limit`, it holds `held`, and `gangs`,
    not all of its queue, go first."""

    queue: int
    resource: int
    limit: int
    held: int
    gangs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StrictOrder(Fact, code="GW115"):
    """An earlier gang of its strictly ordered queue waits."""

    queue: int
    gang: int


@dataclass(frozen=True, slots=True)
class ReservedNodes(Fact, code="GW114"):
    """The gang would not end before `gang` needs the nodes reserved for it."""

    gang: int


@dataclass(frozen=True, slots=True)
class Maintenance(Fact, code="GW116"):
    """The nodes with room close for maintenance before the gang would end."""


@dataclass(frozen=True, slots=True)
class Undecided(Fact, code="GW110"):
    """A limit of the solver was reached before it was proved whether the gang fits."""


@dataclass(frozen=True, slots=True)
class NobodyEvicted(Fact, code="GW127"):
    """Running pods of `gangs` would be evicted for the gang without this obstacle. It explains the other facts and is
    not one of the sufficient set. queue: the one whose pods the obstacle keeps."""

    obstacle: str
    gangs: tuple[int, ...] = ()
    queue: int | None = None


# ---- relations between pods


@dataclass(frozen=True, slots=True)
class PodRuleConflict(Fact, code="GW117"):
    """The gang fits without the pod rule, which the role owns or which selects it."""

    role: int
    pod_rule: int
