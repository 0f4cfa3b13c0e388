"""Repairs: changes that would let a waiting gang start beside the plan, tried, each the least of its kind.

One type for each kind of change; its code is stable (docs/reasons.md has the texts). Index fields as in `solver.facts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Repair:
    """rank: the order in which repairs are offered, the cheapest first. also: changes that must come with this one."""

    code: ClassVar[str]
    rank: ClassVar[int] = 5
    also: tuple[Repair, ...] = field(default=(), kw_only=True)


# ---- changes by the gang's owner


@dataclass(frozen=True, slots=True)
class HigherTier(Repair):
    """Topology limit at `tier`, of the gang or of one kind of subgroup."""

    code: ClassVar[str] = "GR102"
    rank: ClassVar[int] = 0
    tier: int
    subgroup: int | None = None


@dataclass(frozen=True, slots=True)
class SmallerSubgroups(Repair):
    """Subgroups of `amount` pods."""

    code: ClassVar[str] = "GR106"
    rank: ClassVar[int] = 0
    subgroup: int
    amount: int
    current_amount: int


@dataclass(frozen=True, slots=True)
class SoftTopology(Repair):
    """A soft topology instead of a hard one, of the gang or of one kind of subgroup."""

    code: ClassVar[str] = "GR107"
    rank: ClassVar[int] = 0
    subgroup: int | None = None


@dataclass(frozen=True, slots=True)
class Restart(Repair):
    """The gang's running pods stop and it starts anew."""

    code: ClassVar[str] = "GR113"
    rank: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class OtherQueue(Repair):
    """Submission to another queue."""

    code: ClassVar[str] = "GR120"
    rank: ClassVar[int] = 0
    queue: int


@dataclass(frozen=True, slots=True)
class ShorterDuration(Repair):
    """An expected duration of at most `seconds`."""

    code: ClassVar[str] = "GR121"
    rank: ClassVar[int] = 0
    seconds: int


@dataclass(frozen=True, slots=True)
class FewerPods(Repair):
    """`amount` pods of the role, or at least `amount` of the whole gang."""

    code: ClassVar[str] = "GR105"
    rank: ClassVar[int] = 2
    role: int | None
    amount: int
    current_amount: int


@dataclass(frozen=True, slots=True)
class HigherPriority(Repair):
    """A priority above `amount`."""

    code: ClassVar[str] = "GR114"
    rank: ClassVar[int] = 3
    amount: int


@dataclass(frozen=True, slots=True)
class SmallerPods(Repair):
    """`amount` of the resource for each pod of the role."""

    code: ClassVar[str] = "GR115"
    role: int
    resource: int
    amount: int
    current_amount: int


@dataclass(frozen=True, slots=True)
class MoreNodeClasses(Repair):
    """Eligibility of the role for nodes like `node`."""

    code: ClassVar[str] = "GR112"
    role: int
    node: int


# ---- waiting


@dataclass(frozen=True, slots=True)
class EndOfPods(Repair):
    """The end of running pods, of which no few gangs are known to suffice."""

    code: ClassVar[str] = "GR103"
    rank: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class EndOfGangs(Repair):
    """The end of `gangs`, expected in `seconds` where all their ends are known."""

    code: ClassVar[str] = "GR109"
    rank: ClassVar[int] = 1
    gangs: tuple[int, ...]
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class StartOfGang(Repair):
    """The start of another gang first, expected in `seconds` where that is known."""

    code: ClassVar[str] = "GR118"
    rank: ClassVar[int] = 1
    gang: int
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class ReturnOfNodes(Repair):
    """The return of nodes that are away."""

    code: ClassVar[str] = "GR116"
    rank: ClassVar[int] = 1
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndOfMaintenance(Repair):
    """The end of maintenance in `seconds`."""

    code: ClassVar[str] = "GR122"
    rank: ClassVar[int] = 1
    seconds: int


# ---- changes of queues


@dataclass(frozen=True, slots=True)
class MoreCapability(Repair):
    """`amount` more capability of the queue."""

    code: ClassVar[str] = "GR101"
    rank: ClassVar[int] = 4
    queue: int
    resource: int
    amount: int


@dataclass(frozen=True, slots=True)
class SmallerGuarantee(Repair):
    """`amount` less guarantee of another queue."""

    code: ClassVar[str] = "GR108"
    rank: ClassVar[int] = 4
    queue: int
    resource: int
    amount: int


@dataclass(frozen=True, slots=True)
class MoreWeight(Repair):
    """A queue weight of `amount`."""

    code: ClassVar[str] = "GR110"
    rank: ClassVar[int] = 4
    queue: int
    amount: int
    current_amount: int


@dataclass(frozen=True, slots=True)
class OpenQueue(Repair):
    """An open queue instead of a closed one."""

    code: ClassVar[str] = "GR111"
    rank: ClassVar[int] = 4
    queue: int


@dataclass(frozen=True, slots=True)
class NoStrictOrder(Repair):
    """The queue without its strict order."""

    code: ClassVar[str] = "GR117"
    rank: ClassVar[int] = 4
    queue: int


@dataclass(frozen=True, slots=True)
class FewerDedicatedDomains(Repair):
    """`amount` fewer domains dedicated to another queue."""

    code: ClassVar[str] = "GR119"
    rank: ClassVar[int] = 4
    queue: int
    amount: int


# ---- changes of the cluster


@dataclass(frozen=True, slots=True)
class MoreNodes(Repair):
    """`amount` more nodes like `node`, under `hypernode` where that matters."""

    code: ClassVar[str] = "GR104"
    node: int
    amount: int
    hypernode: int | None = None
