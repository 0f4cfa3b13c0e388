"""The problem: what there is (nodes, hypernodes, queues) and what is asked for (gangs), as plain integers.

Everything refers to everything else by index into the tuples of `Problem`; names are carried only so that a plan can be
read. A resource vector has one entry per name in `Problem.resources`, in that resource's own unit (cpu: millicores,
memory: bytes, devices and pods: a count). Nothing here knows YAML, Kubernetes, files or a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

Vector = tuple[int, ...]
"""An amount of every resource, in the order of `Problem.resources`."""

Limits = tuple[int | None, ...]
"""As `Vector`, with None where nothing limits the resource."""

MAX_AMOUNT = 2**62
"""The largest amount, also of a sum over the cluster or all gangs: it fits a signed 64-bit integer with room to add."""

TopologyMode = Literal["hard", "soft"]
RuleKind = Literal["anti-affinity", "affinity", "spread"]


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A network domain. `tier` 1 is the tightest; a parent has a higher tier than its children."""

    name: str
    tier: int
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceSlot:
    """A part of a node: a NUMA cell, a device. division: index into `Problem.divisions`.

    capacity: of the empty cell. free: less whatever runs there, the pods in `Gang.running` included (unlike
    `Node.free`).
    """

    slot_group: int
    capacity: Vector
    free: Vector


@dataclass(frozen=True, slots=True, order=True)
class SlotRequest:
    """Of what a pod asks for, `share` has to come from each of `number` different cells of one division of its node."""

    slot_group: int
    number: int
    share: Vector


@dataclass(frozen=True, slots=True, order=True)
class PodRequest:
    """What one pod takes: `request` from its node as a whole, and of that its portions from cells, at most one portion
    for each division."""

    amounts: Vector
    slot_requests: tuple[SlotRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class ReturningNode:
    """What a node that is away for now (not ready, cordoned) will be once it is back: as in `Node`."""

    node_class: int
    capacity: Vector
    free: Vector
    slots: tuple[DeviceSlot, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A machine.

    kind: nodes of one kind are open to exactly the same roles (selectors, affinity, taints are settled before the
    solver). leaf: the hypernode that directly holds the node; None for a node outside the topology. capacity:
    allocatable. free: capacity less the pods that belong to no gang of the problem; the pods in `Gang.running` are not
    taken off. cells: the parts of the node that pods take portions from; a node without cells of a division has no room
    for a pod with such a portion. closes_in: seconds from now until nothing may run there for a while (maintenance); 0
    where it is so now, None where nobody plans it. windows: all times as far as they are known at which nothing may run
    there, (from, to) in seconds from now; only reasons look beyond the first. back: of a node that is away for now; no
    plan uses it, but nothing that it would hold is said to fit never.
    """

    name: str
    node_class: int
    leaf: int | None
    capacity: Vector
    free: Vector
    slots: tuple[DeviceSlot, ...] = ()
    maintenance_in: int | None = None
    returning: ReturningNode | None = None
    maintenance_windows: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """guarantee <= deserved <= capability, each per resource and each optional. `used`: by pods that belong to no gang
    of the problem.

    The limits hold for the queue together with all its descendants. open: a queue that is not, or that is below one
    that is not, takes nothing new. hierarchy: the way from the root to this queue as (name, weight) pairs, for
    `Policy.drf_hierarchy`; () stands right below the root with the queue's own name and weight. Two queues may share
    the beginning of their ways, and the first one's weights count. reclaimable: gangs of other queues may evict from
    it. strict: its waiting gangs start in their order, none before an earlier one. kept: hypernodes that are guaranteed
    to the queue and its descendants; no other gang gets new pods there. With fewer the last ones would go.
    """

    name: str
    parent: int | None
    weight: int
    priority: int
    guarantee: Limits
    deserved: Limits
    capability: Limits
    used: Vector
    open: bool = True
    hierarchy: tuple[tuple[str, int], ...] = ()
    reclaimable: bool = True
    strict_order: bool = False
    dedicated_domains: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """What decides between queues, named after Volcano's plugins, and how nodes are filled.

    Where nothing is chosen: the limits of `Queue`, and fair shares by weight.

    capacity: a queue is measured by what it holds of what it deserves. capacity_hierarchy: along the tree of parents.
    proportion: no queue holds more than its part of the cluster by weight. drf: of the gangs of a queue the one that
    holds least is next. drf_hierarchy: fair shares along `Queue.hierarchy`. With capacity or proportion queues of
    higher priority are served first.

    scatter: the pods in one supernode go to its least loaded nodes, and whole nodes are not saved. Otherwise they fill
    the fullest first.

    reclaim_levels: with capacity_hierarchy, how many queues above a victim's and a winner's are asked as well
    (`ancestorReclaimLevel`).
    """

    capacity: bool = False
    capacity_hierarchy: bool = False
    proportion: bool = False
    drf: bool = False
    drf_hierarchy: bool = False
    spread_pods: bool = False
    ancestor_reclaim_levels: int = 0

    @property
    def hierarchical(self) -> bool:
        """Whether queues are compared along the tree of their parents."""
        return self.capacity and self.capacity_hierarchy


@dataclass(frozen=True, slots=True)
class Topology:
    """hard: everything it covers sits under one hypernode of tier <= `tier`. soft: the lower the common tier, the
    better.

    A tier above the highest hypernode's means the whole cluster, nodes outside the topology included.
    """

    mode: TopologyMode
    tier: int


@dataclass(frozen=True, slots=True)
class PodRule:
    """A rule between pods, about the domains of one partition of the nodes. Roles carry it (`Role.bears`), or are
    counted by it (`Role.matches`).

    apart: a domain that holds a pod that carries the rule holds no other pod that it counts. together: a domain with a
    pod that carries the rule holds one that it counts, which does not carry it or is there already. Where there is no
    such pod anywhere, all that carry the rule share one domain, and one of them must be counted itself. even: a domain
    with a pod that carries the rule holds at most `skew` counted pods more than the domain with the fewest; with less
    than `least_domains` domains at most `skew`.

    All of this is said of the final state, and of new pods: what runs may break it. domains: node -> its domain; None
    for a node outside the partition, where apart asks for nothing and the other two allow no pod that carries the rule.
    present: domain -> counted pods that belong to no gang of the problem. guards: the same of pods that carry the rule;
    only apart minds them, and () means none. own: no pods but those of the gang that carries it are ever counted, so
    that nobody who comes or goes makes it easier.
    """

    rule_kind: RuleKind
    domains: tuple[int | None, ...]
    selected_present: tuple[int, ...]
    owners_present: tuple[int, ...] = ()
    max_skew: int = 1
    min_domains: int = 1
    own_gang_only: bool = False


@dataclass(frozen=True, slots=True)
class Role:
    """`minimum` <= placed pods <= `replicas` once the gang is admitted; each pod needs `request` on a node whose kind
    is in `kinds`, and its `portions` from that node's cells.

    bears, matches: the relations that its pods carry, and those that count them (indices into `Problem.relations`,
    ascending).
    """

    name: str
    replicas: int
    minimum: int
    request: Vector
    node_classes: frozenset[int]
    owned_rules: tuple[int, ...] = ()
    selecting_rules: tuple[int, ...] = ()
    slot_requests: tuple[SlotRequest, ...] = ()

    @property
    def pod_request(self) -> PodRequest:
        """What one pod takes."""
        return PodRequest(self.request, self.slot_requests)


@dataclass(frozen=True, slots=True)
class Subgroup:
    """The pods of `roles` are divided into parts of exactly `size` pods; at least `minimum` parts are formed, and only
    whole ones.

    Each part obeys `topology`. Several subgroups of one gang may cover the same roles (a 4-pod unit that prefers one
    domain, made of 2-pod units that must have one). tiered: whether its owner can choose another tier; if not, no
    repair says so.
    """

    name: str
    roles: tuple[int, ...]
    size: int
    minimum: int
    topology: Topology
    tier_is_editable: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """`pods` pods of role `role` (index into the gang's roles) on node `node` (index into `Problem.nodes`)."""

    role: int
    node: int
    pods: int


@dataclass(frozen=True, slots=True)
class SlotHold:
    """Of the running pods of role `role` on node `node`, `pods` hold their share of its cell `cell` (index into
    `Node.cells`)."""

    role: int
    node: int
    slot: int
    pods: int


@dataclass(frozen=True, slots=True)
class Gang:
    """Starts whole or not at all: at least `minimum` pods over all roles and each role's own minimum.

    priority: higher first. age: smaller is older, unique only by convention (ties fall to the index). running: pods
    that run already; they stay where they are, and the gang may grow beside them up to its replicas. A gang whose
    running pods reach its minima is kept; one whose pods do not (it lost a node) is to be completed or waits for the
    rest.

    evictable: running pods may be stopped for another gang, by the rules of `solver.semantics.eviction_rights`. loss:
    seconds that one of them has run. affinities: (role, role, 1 or -1): their pods like to share a node, or not to; the
    same role twice is its pods among themselves. A wish only. preempts: others may be evicted for this gang (false:
    priority class with preemptionPolicy Never). holds: which cells the running pods have, sorted by (role, node, cell),
    each once, as far as anybody knows: cells come back for others only of those. All of it is off `Cell.free`.

    duration: seconds that it is expected to run in all. ends: of a gang with running pods, seconds from now until it is
    expected to end. None where nobody knows, or where it should have ended already. overdue: it waited longer than it
    should have to, and is decided before the others of its priority; who is overdue is for those who have a clock to
    say.

    narrowed: it is held to more than it has to be, because the problem cannot say what it has to be: it may fit where
    the problem has no room for it.
    """

    name: str
    queue: int
    priority: int
    age: int
    minimum: int
    roles: tuple[Role, ...]
    topology: Topology | None = None
    subgroups: tuple[Subgroup, ...] = ()
    running: tuple[Placement, ...] = ()
    evictable: bool = False
    loss: int = 0
    may_evict: bool = True
    duration: int | None = None
    ends_in: int | None = None
    overdue: bool = False
    role_affinities: tuple[tuple[int, int, int], ...] = ()
    slot_holds: tuple[SlotHold, ...] = ()
    over_constrained: bool = False


@dataclass(frozen=True, slots=True)
class EvictionVotes:
    """What the scheduler's plugins let one of its actions evict, beside what `solver.semantics.eviction_rights` asks
    for in any case.

    whole: a gang may go whole; otherwise it gives only what it has above its minima (plugin gang votes). shares: what
    is left of the victim has no smaller dominant share than the gang that it goes for gets (plugin drf votes).
    """

    whole_gangs: bool = True
    compare_shares: bool = False


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Of the running pods of `roles`, pairs of a gang and one of its roles, at most `allowed` may be evicted
    (PodDisruptionBudget)."""

    name: str
    allowed: int
    roles: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Problem:
    """The whole input of `solver.solve`.

    preempt: a gang may evict gangs of its own queue that have a lower priority. reclaim: it may evict gangs of other
    queues that hold more than they deserve. preempting, reclaiming: how the plugins vote on that. devices: the
    resources by which nodes are kept whole, see `costs.Wholes`; () for all of them. divisions: names of the ways in
    which nodes are divided into cells.
    """

    resources: tuple[str, ...]
    nodes: tuple[Node, ...]
    hypernodes: tuple[HyperNode, ...]
    queues: tuple[Queue, ...]
    gangs: tuple[Gang, ...]
    policy: Policy = Policy()
    preempt_enabled: bool = False
    reclaim_enabled: bool = False
    pod_rules: tuple[PodRule, ...] = ()
    device_resources: tuple[int, ...] = ()
    slot_groups: tuple[str, ...] = ()
    preempt_votes: EvictionVotes = EvictionVotes()
    reclaim_votes: EvictionVotes = EvictionVotes()
    disruption_budgets: tuple[DisruptionBudget, ...] = ()

    @cached_property
    def totals(self) -> Vector:
        """Allocatable amounts of the whole cluster."""
        return (
            tuple(map(sum, zip(*(node.capacity for node in self.nodes), strict=True)))
            if self.nodes
            else (0,) * len(self.resources)
        )

    def with_queues(self, queues: tuple[Queue, ...]) -> Problem:
        """The same with other queues; what is known of the nodes stays known."""
        other = replace(self, queues=queues)
        vars(other)["totals"] = self.totals
        return other


class InvalidProblemError(ValueError):
    """The problem contradicts itself. `where` is the path of indices to the culprit, e.g. ("gangs", 3, "roles", 0,
    "request")."""

    def __init__(self, where: tuple[str | int, ...], what: str) -> None:
        self.where = where
        super().__init__(f"{'.'.join(map(str, where))}: {what}")
