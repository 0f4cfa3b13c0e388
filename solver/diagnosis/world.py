"""A world: what the plan and the cluster leave to one waiting gang once some things are changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from solver.problem import Gang, GangTimes, Placement, Problem, Topology
from solver.repairs import Repair

Step = TypeVar("Step")
NodeKind = tuple[int, int]
"""(node class, number among the kinds of its nodes)."""
AddedNodes = tuple[int, int | None, int]
"""(a node, a leaf, how many like that node are added there)."""
QueueChange = tuple[int, str, object]


@dataclass(frozen=True)
class World:
    """A gang, as written or changed, and its possible obstacles: gangs that the plan starts, all running pods, pod
    rules.

    Worlds are equal where their nodes hold the same. own_running: its real running pods; where `gang.running` is
    empty their room is free again. returned_nodes: nodes that are away now and are back. split_kinds: (class, kind)
    of nodes that form a class of their own, numbered from `DiagnosisState.split_class` on. quota_limits: (pod rule,
    another limit of it). held_back: gangs to which the plan gives nothing; or ended_gangs: gangs that ended with
    all their pods. start_delay: seconds until the gang starts, by which nodes may have closed. excluded: nodes on
    which it gets no pods. served_first: another waiting gang, which gets these pods before it. is_tried: whether it
    is a real start: not on nodes that are reserved for another gang, and once running pods have ended next to pods
    that it needs, which may exist by then.

    queue: the gang's. queue_changes: (queue, field, its value), one after another; limits_nodes: added nodes that raise
    what queues may hold. changes: the repairs that made it.
    """

    gang: Gang
    queue: int = field(compare=False)
    own_running: tuple[Placement, ...] = ()
    with_started: bool = True
    with_running: bool = True
    returned_nodes: tuple[int, ...] = ()
    with_pod_rules: bool = True
    split_kinds: tuple[NodeKind, ...] = ()
    quota_limits: tuple[tuple[int, int], ...] = ()
    held_back: tuple[int, ...] = ()
    ended_gangs: tuple[int, ...] = ()
    start_delay: int = 0
    added_nodes: AddedNodes | None = None
    excluded: frozenset[int] = frozenset()
    served_first: tuple[int, tuple[Placement, ...]] | None = None
    is_tried: bool = False
    queue_changes: tuple[QueueChange, ...] = field(default=(), compare=False)
    limits_nodes: AddedNodes | None = field(default=None, compare=False)
    changes: tuple[Repair, ...] = field(default=(), compare=False)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Worked out once: many answers are remembered by world."""
        cluster = self.own_running, self.with_started, self.with_running, self.returned_nodes, self.with_pod_rules
        return hash((self.gang, *cluster, self.split_kinds, self.held_back, self.ended_gangs, self.added_nodes))

    @property
    def changes_limits(self) -> bool:
        """Return whether queues may hold other amounts."""
        return bool(self.queue_changes) or self.limits_nodes is not None

    def with_change(self, repair: Repair, **changes: Any) -> World:
        """Return the world after one more change."""
        return replace(self, changes=(*self.changes, repair), **changes)

    def with_queue(self, repair: Repair, q: int, name: str, value: object) -> World:
        """Return the world after one more change, of a field of queue q."""
        return self.with_change(repair, queue_changes=(*self.queue_changes, (q, name, value)))


@dataclass(frozen=True, eq=False)
class Family(Generic[Step]):
    """One kind of change. steps: how much of it, the least first. make: the world after a step; later steps help no
    less. kind: of several families of one kind the first that suffices is offered; else `change` is the kind. finish:
    the world in which the change takes no more from others than it needs and names them; None where that is too much.
    leaves_nodes: it changes only what queues may hold, so that nodes are asked before it is made."""

    change: type[Repair]
    steps: Sequence[Step]
    make: Callable[[World, Step], World]
    kind: object = None
    finish: Callable[[World], World | None] = lambda w: w
    leaves_nodes: bool = False

    @property
    def key(self) -> object:
        return self.kind or self.change

    @property
    def cost(self) -> int:
        """Return the order in which changes are tried, and the sum of which orders sets of them."""
        return self.change.rank


# ---- gangs with something changed


def anonymous_gang(gang: Gang) -> Gang:
    """Return the gang without what its facts do not depend on, so that gangs of one class are equal."""
    return replace(gang, name="", queue=0, priority=0, age=0, times=GangTimes(), role_affinities=(), former=())


def gang_kinds(problem: Problem) -> Sequence[int]:
    """Return gang -> a number, the same for gangs that differ in nothing but what `anonymous_gang` leaves out."""

    def make() -> Sequence[int]:
        numbers = dict[Gang, int]()
        return [numbers.setdefault(anonymous_gang(gang), len(numbers)) for gang in problem.gangs]

    return problem.memoize("kinds", make)


def with_role(gang: Gang, t: int, **changes: Any) -> Gang:
    """Return the gang with role t changed."""
    return replace(gang, roles=tuple(replace(r, **changes) if k == t else r for k, r in enumerate(gang.roles)))


def with_subgroup(gang: Gang, i: int, **changes: Any) -> Gang:
    """Return the gang with its subgroup i changed."""
    parts = tuple(replace(part, **changes) if k == i else part for k, part in enumerate(gang.subgroups))
    return replace(gang, subgroups=parts)


def topology_of(gang: Gang, i: int | None) -> Topology | None:
    """Return the topology of the gang, or of its subgroups i."""
    return gang.topology if i is None else gang.subgroups[i].topology


def with_topology(gang: Gang, i: int | None, topology: Topology) -> Gang:
    """Return the gang with another topology, of its own or of its subgroups i."""
    return replace(gang, topology=topology) if i is None else with_subgroup(gang, i, topology=topology)


def has_pod_rules(gang: Gang) -> bool:
    """Return whether its pods own pod rules, or are selected by some."""
    return any(role.owned_rules or role.selecting_rules for role in gang.roles)
