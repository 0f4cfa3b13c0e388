"""Facts: why a gang waits. One type for each obstacle; its code is stable (docs/reasons.md has the texts).

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


@dataclass(frozen=True, slots=True)
class Shortage(Fact):
    """More is asked for than is available."""

    asked: int
    available: int


# ---- resources


@dataclass(frozen=True, slots=True)
class ResourceShortage(Shortage):
    """Too little of a resource is free on the nodes eligible for the role, or for any role."""

    code: ClassVar[str] = "GW102"
    resource: int
    role: int | None = None


@dataclass(frozen=True, slots=True)
class OversizedPod(Shortage):
    """No eligible node has enough of a resource for one pod of the role."""

    code: ClassVar[str] = "GW103"
    role: int
    resource: int


@dataclass(frozen=True, slots=True)
class UnmatchedPod(Fact):
    """No eligible node has enough of all resources together for one pod of the role."""

    code: ClassVar[str] = "GW103"
    role: int


@dataclass(frozen=True, slots=True)
class OversizedGang(Shortage):
    """The empty cluster has too little of a resource for the whole gang."""

    code: ClassVar[str] = "GW108"
    resource: int


@dataclass(frozen=True, slots=True)
class Fragmentation(Shortage):
    """Enough is free in sum, but the nodes hold too few pods of the role, or of the gang."""

    code: ClassVar[str] = "GW119"
    role: int | None = None


@dataclass(frozen=True, slots=True)
class OversizedSlotRequest(Shortage):
    """No device slot has enough of a resource free for one pod. limit: most that a slot has when empty."""

    code: ClassVar[str] = "GW118"
    role: int
    resource: int
    limit: int


@dataclass(frozen=True, slots=True)
class SlotShortage(Shortage):
    """The device slots hold too few pods of the role, although their nodes have enough in sum."""

    code: ClassVar[str] = "GW118"
    role: int


@dataclass(frozen=True, slots=True)
class NoEligibleNode(Fact):
    """No node is eligible for the role."""

    code: ClassVar[str] = "GW107"
    role: int


@dataclass(frozen=True, slots=True)
class EligibleNodeShortage(Shortage):
    """The eligible nodes hold too few pods of the role even when empty."""

    code: ClassVar[str] = "GW120"
    role: int


@dataclass(frozen=True, slots=True)
class OwnRunningPods(Shortage):
    """The missing pods find no room beside the gang's running ones; the whole gang would fit anew."""

    code: ClassVar[str] = "GW121"


@dataclass(frozen=True, slots=True)
class AwayNodes(Fact):
    """The gang would fit with nodes that are not ready or cordoned."""

    code: ClassVar[str] = "GW122"
    nodes: tuple[int, ...]


# ---- topology


@dataclass(frozen=True, slots=True)
class DomainShortage(Shortage):
    """No domain of the allowed tier holds the gang. hypernode: the best domain, with room for `available` pods."""

    code: ClassVar[str] = "GW104"
    tier: int
    hypernode: int | None = None


@dataclass(frozen=True, slots=True)
class SubgroupShortage(Fact):
    """The domains of the tier hold too few subgroups. limit: pods of one subgroup; available: None where unknown."""

    code: ClassVar[str] = "GW109"
    subgroup: int
    tier: int
    asked: int
    available: int | None
    limit: int


# ---- queues


@dataclass(frozen=True, slots=True)
class CapabilityLimit(Shortage):
    """The queue's capability is used up, by `gangs` where the plan starts any."""

    code: ClassVar[str] = "GW101"
    queue: int
    resource: int
    limit: int
    gangs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareLimit(Shortage):
    """The queue's proportional share is used up, by `gangs` where the plan starts any."""

    code: ClassVar[str] = "GW112"
    queue: int
    resource: int
    limit: int
    gangs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GuaranteeReserve(Shortage):
    """What is free is reserved for the guarantees of `queues`."""

    code: ClassVar[str] = "GW106"
    queue: int
    resource: int
    queues: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DedicatedDomains(Fact):
    """The room is in domains of the tier that are dedicated to another queue."""

    code: ClassVar[str] = "GW106"
    queue: int
    tier: int


@dataclass(frozen=True, slots=True)
class ClosedQueue(Fact):
    """The queue accepts no gangs."""

    code: ClassVar[str] = "GW113"
    queue: int


# ---- order and time


@dataclass(frozen=True, slots=True)
class PrecedingGangs(Shortage):
    """The gang fits alone, but the plan starts `gangs` before it in that room."""

    code: ClassVar[str] = "GW105"
    gangs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StrictOrder(Fact):
    """An earlier gang of its strictly ordered queue waits."""

    code: ClassVar[str] = "GW115"
    queue: int
    gang: int


@dataclass(frozen=True, slots=True)
class ReservedNodes(Fact):
    """The gang would not end before `gang` needs the nodes reserved for it."""

    code: ClassVar[str] = "GW114"
    gang: int


@dataclass(frozen=True, slots=True)
class Maintenance(Fact):
    """The nodes with room close for maintenance before the gang would end."""

    code: ClassVar[str] = "GW116"


@dataclass(frozen=True, slots=True)
class Undecided(Fact):
    """A limit of the solver was reached before it was proved whether the gang fits."""

    code: ClassVar[str] = "GW110"


# ---- relations between pods


@dataclass(frozen=True, slots=True)
class PodRuleConflict(Fact):
    """The gang fits without the pod rule, which the role owns or which selects it."""

    code: ClassVar[str] = "GW117"
    role: int
    pod_rule: int
