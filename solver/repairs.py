"""Repairs: changes that would let a waiting gang start next to the plan, tried, each the least of its kind.

One type for each kind of change; its code is stable (texts: compiler.explain). Index fields as in `solver.facts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Repair:
    """rank: the order in which repairs are offered, the cheapest first. also: changes that must come with this one."""

    code: ClassVar[str]
    rank: ClassVar[int]
    also: tuple[Repair, ...] = field(default=(), kw_only=True)

    def __init_subclass__(cls, code: str = "", rank: int = 5) -> None:
        if code:  # `dataclass` makes a class with slots from the class, without its keywords
            cls.code, cls.rank = code, rank


# ---- changes by the gang's owner


@dataclass(frozen=True, slots=True)
class HigherTier(Repair, code="GR102", rank=0):
    """Topology limit at `tier`, of the gang or of one kind of subgroup."""

    tier: int
    subgroup: int | None = None


@dataclass(frozen=True, slots=True)
class SmallerSubgroups(Repair, code="GR106", rank=0):
    """Subgroups of `amount` pods."""

    subgroup: int
    amount: int
    current_amount: int


@dataclass(frozen=True, slots=True)
class SoftTopology(Repair, code="GR107", rank=0):
    """A soft topology instead of a hard one, of the gang or of one kind of subgroup."""

    subgroup: int | None = None


@dataclass(frozen=True, slots=True)
class SoftSeparation(Repair, code="GR126", rank=0):
    """The separations that the gang owns as wishes."""


@dataclass(frozen=True, slots=True)
class Restart(Repair, code="GR113", rank=0):
    """The gang's running pods stop and it starts again."""


@dataclass(frozen=True, slots=True)
class OtherQueue(Repair, code="GR120", rank=0):
    """Submission to another queue."""

    queue: int


@dataclass(frozen=True, slots=True)
class ShorterDuration(Repair, code="GR121", rank=0):
    """An expected duration of at most `seconds`."""

    seconds: int


@dataclass(frozen=True, slots=True)
class FewerPods(Repair, code="GR105", rank=2):
    """`amount` pods of the role, or at least `amount` of the whole gang."""

    role: int | None
    amount: int
    current_amount: int


@dataclass(frozen=True, slots=True)
class HigherPriority(Repair, code="GR114", rank=3):
    """A priority of at least `amount`, which takes the room of `gangs` where they are known; evicts: they run, and are
    evicted for it."""

    amount: int
    gangs: tuple[int, ...] = ()
    evicts: bool = False


@dataclass(frozen=True, slots=True)
class SmallerPods(Repair, code="GR115"):
    """`amount` of the resource for each pod of the role."""

    role: int
    resource: int
    amount: int
    current_amount: int


@dataclass(frozen=True, slots=True)
class MoreNodeClasses(Repair, code="GR112"):
    """Eligibility of the role for nodes like `node`."""

    role: int
    node: int


# ---- waiting


@dataclass(frozen=True, slots=True)
class EndOfPods(Repair, code="GR103", rank=1):
    """The end of running pods, of which no few gangs are known to suffice."""


@dataclass(frozen=True, slots=True)
class EndOfGangs(Repair, code="GR109", rank=1):
    """The end of `gangs`, expected in `seconds` where all their ends are known."""

    gangs: tuple[int, ...]
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class StartOfGang(Repair, code="GR118", rank=1):
    """The start of another gang first, expected in `seconds` where that is known."""

    gang: int
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class ReturnOfNodes(Repair, code="GR116", rank=1):
    """The return of nodes that are away."""

    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EndOfMaintenance(Repair, code="GR122", rank=1):
    """The end of maintenance in `seconds`."""

    seconds: int


# ---- changes of queues


@dataclass(frozen=True, slots=True)
class MoreCapability(Repair, code="GR101", rank=4):
    """`amount` more capability of the queue."""

    queue: int
    resource: int
    amount: int


@dataclass(frozen=True, slots=True)
class SmallerGuarantee(Repair, code="GR108", rank=4):
    """`amount` less guarantee of another queue."""

    queue: int
    resource: int
    amount: int


@dataclass(frozen=True, slots=True)
class MoreWeight(Repair, code="GR110", rank=4):
    """A queue weight of `amount`, which takes the room or the share of `gangs`."""

    queue: int
    amount: int
    current_amount: int
    gangs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MoreDeserved(Repair, code="GR124", rank=4):
    """`amount` more of the resource that the queue deserves, which takes the room of `gangs`."""

    queue: int
    resource: int
    amount: int
    current_amount: int
    gangs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenQueue(Repair, code="GR111", rank=4):
    """An open queue instead of a closed one."""

    queue: int


@dataclass(frozen=True, slots=True)
class NoStrictOrder(Repair, code="GR117", rank=4):
    """The queue without its strict order."""

    queue: int


@dataclass(frozen=True, slots=True)
class AllowEviction(Repair, code="GR125", rank=4):
    """The obstacle of `NobodyEvicted` lifted, so that `gangs` lose pods to the gang."""

    obstacle: str
    gangs: tuple[int, ...]
    queue: int | None = None


@dataclass(frozen=True, slots=True)
class FewerDedicatedDomains(Repair, code="GR119", rank=4):
    """`amount` fewer domains dedicated to another queue."""

    queue: int
    amount: int


@dataclass(frozen=True, slots=True)
class OpenNodeGroups(Repair, code="GR123", rank=4):
    """`node_groups` open to the queue too."""

    queue: int
    node_groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HigherGroupLimit(Repair, code="GR127", rank=4):
    """A limit of `amount` of the resource for the queue in a node group."""

    queue: int
    node_groups: tuple[int, ...]
    resource: int
    amount: int
    current_amount: int


# ---- changes of the cluster


@dataclass(frozen=True, slots=True)
class MoreNodes(Repair, code="GR104"):
    """`amount` more nodes like `node`, under `hypernode` where that matters."""

    node: int
    amount: int
    hypernode: int | None = None
