"""The problem: supply (nodes, hypernodes, queues) and demand (gangs), as plain integers.

Everything refers to everything else by index into the tuples of `Problem`; names are only for people. A resource vector
has one entry per name in `Problem.resources`, in that resource's own unit (cpu: millicores, memory: bytes, devices and
pods: a count). Nothing here knows YAML, Kubernetes, files or a clock. All times are seconds from now.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

T = TypeVar("T")
UNKNOWN: Any = object()
"""In place of an answer that is not remembered."""

Vector = tuple[int, ...]
"""An amount of every resource, in the order of `Problem.resources`."""

Limits = tuple[int | None, ...]
"""As `Vector`, with None where nothing limits the resource."""

MAX_AMOUNT = 2**62
"""The largest amount, also of a sum over the cluster or all gangs: it fits a signed 64-bit integer with room to add."""

TopologyMode = Literal["hard", "soft"]
RuleKind = Literal["anti-affinity", "separation", "affinity", "spread", "quota"]
QuotaOrder = Literal["queues-first", "priorities-first"]


@dataclass(frozen=True, slots=True)
class HyperNode:
    """A network domain. Tier 1 is the tightest; a parent's tier is higher."""

    name: str
    tier: int
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceSlot:
    """A NUMA node or a device of a node. slot_group: index into `Problem.slot_groups`. capacity: of the empty slot.
    free: what no pod holds; unlike `Node.free`, without the pods in `Gang.running`."""

    slot_group: int
    capacity: Vector
    free: Vector


@dataclass(frozen=True, slots=True, order=True)
class SlotRequest:
    """A part of a pod's request: `share` from each of `number` different device slots of one group of its node."""

    slot_group: int
    number: int
    share: Vector


@dataclass(frozen=True, slots=True, order=True)
class PodRequest:
    """The request of one pod: `amounts` from its node, and of these its slot requests, at most one for each slot
    group."""

    amounts: Vector
    slot_requests: tuple[SlotRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class ReturningNode:
    """A node that is away for now (not ready, cordoned), as it will be once it is back; fields as in `Node`."""

    node_class: int
    capacity: Vector
    free: Vector
    slots: tuple[DeviceSlot, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A machine.

    node_class: nodes of one class are open to the same roles (selectors, affinity, taints). leaf: the hypernode that
    directly holds the node; None outside the topology. capacity: allocatable. free: capacity less the pods of no gang
    of the problem; those in `Gang.running` are not subtracted. maintenance_in: until the next maintenance, in which
    nothing may run there; 0 during one, None if none is planned. maintenance_windows: all known ones, (from, to); only
    diagnosis looks beyond the first. returning: of a node that is away; only diagnosis uses it, for what can ever fit.
    node_group: index into `Problem.node_groups`. kind: numbers the nodes of one class that differ in labels or taints;
    only diagnosis uses it.
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
    node_group: int = 0
    kind: int = 0


@dataclass(frozen=True, slots=True)
class Queue:
    """guarantee <= deserved <= capability, each per resource and optional, of the queue with all its descendants.

    used: by pods of no gang of the problem. open: a closed queue takes nothing new, nor do its descendants. hierarchy:
    the path from the root to this queue as (name, weight) pairs, for `Policy.drf_hierarchy`; () is directly below the
    root with the queue's own name and weight. Where paths begin alike, the first queue's weights count. reclaimable:
    gangs of other queues may evict from it. strict_order: none of its gangs starts before an earlier one.
    dedicated_domains: hypernodes in which no gang outside the queue and its descendants gets new pods.
    closed_node_groups: in whose nodes its gangs get no new pods, ascending; a child's are its own. node_group_ranks:
    how much it prefers each of `Problem.node_groups`, 0 the most; () where it makes no difference.
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
    closed_node_groups: tuple[int, ...] = ()
    node_group_ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """The scheduler's plugins that decide between queues, and how nodes are filled. Without plugins queues have their
    limits and fair shares by weight; with capacity or proportion those of higher priority are served first.

    capacity: a queue is measured by its held part of its deserved amount. capacity_hierarchy: along the tree of
    parents. proportion: no queue holds more than its share of the cluster by weight. drf: of the gangs of a queue the
    one that holds least is next. drf_hierarchy: fair shares along `Queue.hierarchy`. spread_pods: pods go to the least
    loaded nodes of a supernode, else to the fullest. ancestor_reclaim_levels: with capacity_hierarchy, how many
    queues above a victim's and a preemptor's must agree as well (`ancestorReclaimLevel`). order: queues-first fills
    every queue up to its entitlement before any borrows, and priorities decide inside a queue; priorities-first decides
    priority by priority, and shares between queues only within one.
    """

    capacity: bool = False
    capacity_hierarchy: bool = False
    proportion: bool = False
    drf: bool = False
    drf_hierarchy: bool = False
    spread_pods: bool = False
    ancestor_reclaim_levels: int = 0
    order: QuotaOrder = "queues-first"

    @property
    def queues_first(self) -> bool:
        """Return whether entitlements of queues precede priorities."""
        return self.order == "queues-first"

    @property
    def hierarchical(self) -> bool:
        """Return whether queues are compared along the tree of their parents."""
        return self.capacity and self.capacity_hierarchy


@dataclass(frozen=True, slots=True)
class Topology:
    """hard: all pods that it covers lie under one hypernode of tier <= `tier`. soft: the lower the common tier, the
    better. A tier above the highest hypernode's means the whole cluster, nodes outside the topology included."""

    mode: TopologyMode
    tier: int

    @property
    def is_hard(self) -> bool:
        return self.mode == "hard"


@dataclass(frozen=True, slots=True)
class GroupQuota:
    """`queue` holds at most `limit` of the resource on the nodes of a node group."""

    queue: int
    node_group: int
    resource: int
    limit: int


@dataclass(frozen=True, slots=True)
class PodRule:
    """A rule between pods about the domains of one partition of the nodes. Roles own it (`Role.owned_rules`), or their
    pods are selected by it (`Role.selecting_rules`).

    anti-affinity: a domain that holds an owner holds no other pod that the rule selects. separation: the same of new
    owners alone: one that runs keeps nobody away, and evicted pods count as staying. affinity: a domain that holds an
    owner holds a selected pod that is not an owner, or exists already; where there is no such pod anywhere, all owners
    share one domain, and one of them must be selected itself. spread: a domain that holds an owner holds at most
    `max_skew` selected pods more than the domain with the fewest; with less than `min_domains` domains at most
    `max_skew`. quota: no role owns it; a domain that gets selected pods holds at most `quota.limit` of what they
    request of its resource. `selected_present` is such an amount too, and evicted pods count as staying.

    Rules bind new pods in the final state; running pods may break them. domains: node -> its domain; None for a
    node outside the partition, which anti-affinity ignores and where the others allow no owner. selected_present:
    domain -> selected pods of no gang of the problem. owners_present: the same of owners; only anti-affinity needs it,
    and () means none. own_gang_only: only pods of the owner's gang are selected, so that no other gang makes it easier.
    tier: of a separation, the tier whose domains these are; `Gang.topology` of its owners keeps each in one of them.
    """

    rule_kind: RuleKind
    domains: tuple[int | None, ...]
    selected_present: tuple[int, ...]
    owners_present: tuple[int, ...] = ()
    max_skew: int = 1
    min_domains: int = 1
    own_gang_only: bool = False
    tier: int | None = None
    quota: GroupQuota | None = None

    @property
    def keeps_apart(self) -> bool:
        """Return whether owners and selected pods are in no domain together."""
        return self.rule_kind in ("anti-affinity", "separation")

    @property
    def only_forbids(self) -> bool:
        """Return whether other pods never make it easier."""
        return self.keeps_apart or self.rule_kind == "quota"


@dataclass(frozen=True, slots=True)
class SeparationWish:
    """A gang prefers not to have new pods in a hypernode of exactly this tier that holds pods of these gangs, none of
    them itself, or that is one of `present`, which hold such pods of no gang of the problem. Each costs `weight`."""

    tier: int
    gangs: frozenset[int]
    present: frozenset[int]
    weight: int


@dataclass(frozen=True, slots=True)
class Role:
    """minimum <= placed pods <= replicas once the gang starts. Each pod takes `request` from a node of one of
    `node_classes`, and of that its `slot_requests` from the node's device slots. owned_rules, selecting_rules: the pod
    rules that its pods own, and those that select them, ascending. near_kinds: (node class, `Node.kind`) of nodes that
    were probably intended, the likeliest first; repairs open these before others. names_nodes: it wants nodes of given
    names, so that no added node is one of them."""

    name: str
    replicas: int
    minimum: int
    request: Vector
    node_classes: frozenset[int]
    owned_rules: tuple[int, ...] = ()
    selecting_rules: tuple[int, ...] = ()
    slot_requests: tuple[SlotRequest, ...] = ()
    near_kinds: tuple[tuple[int, int], ...] = ()
    names_nodes: bool = False

    @property
    def pod_request(self) -> PodRequest:
        """Return the request of one pod."""
        return PodRequest(self.request, self.slot_requests)


@dataclass(frozen=True, slots=True)
class Subgroup:
    """The pods of `roles` are divided into parts of exactly `size` pods, at least `minimum`, none incomplete; each
    obeys `topology`. Subgroups of one gang may cover the same roles (a 4-pod unit that prefers one domain, made of
    2-pod units that must have one). tier_is_editable: whether the user, and so a repair, can choose another tier."""

    name: str
    roles: tuple[int, ...]
    size: int
    minimum: int
    topology: Topology
    tier_is_editable: bool = True


@dataclass(frozen=True, slots=True)
class Placement:
    """`pods` pods of role `role` (index into the gang's roles) on node `node`."""

    role: int
    node: int
    pods: int


@dataclass(frozen=True, slots=True)
class SlotHold:
    """`pods` of the running pods of role `role` on node `node` hold their share of slot `Node.slots[slot]`."""

    role: int
    node: int
    slot: int
    pods: int


@dataclass(frozen=True, slots=True)
class EvictionTerms:
    """The conditions on which a gang's pods may be evicted, and others for it (`solver.semantics.eviction_rights`).

    evictable: running pods may be stopped for another gang, except the protected ones. may_lose_all: its minima are 0,
    so that it may be evicted whole also where the plugin gang votes. loss: seconds that one of its pods has run, since
    its last checkpoint where it reports one. reports_checkpoint: among choices that are equal in all else, a gang
    without reports is evicted. may_evict: others may be evicted for this gang (not with preemptionPolicy Never).
    """

    evictable: bool = False
    loss: int = 0
    protected: tuple[Placement, ...] = ()
    may_lose_all: bool = False
    reports_checkpoint: bool = False
    may_evict: bool = True


@dataclass(frozen=True, slots=True)
class GangTimes:
    """Times in seconds from now, and the effects of waiting on a gang's order.

    duration: expected run time. ends_in: until the running gang is expected to end. None where unknown, or where it
    should have ended already. overdue: it has waited longer than its patience and precedes the others of its priority;
    the caller, who has a clock, decides that. promised: overdue, and an earlier plan announced its start: it precedes
    the other overdue ones of its priority.
    """

    duration: int | None = None
    ends_in: int | None = None
    overdue: bool = False
    promised: bool = False


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """How a gang gets into the cluster.

    enqueued_first: it has no pods before Volcano's action enqueue lets it in, and asks for nothing until then.
    may_be_held: it is not in the cluster, and may be kept out of it while its queue's share cannot take it.
    """

    enqueued_first: bool = False
    may_be_held: bool = False


@dataclass(frozen=True, slots=True)
class Gang:
    """A job that starts with at least `minimum` pods over all roles and each role's own minimum, or not at all.

    priority: higher first. age: smaller is older, unique only by convention (ties fall to the index). running: pods
    that run already and stay where they are. A gang whose running pods reach its minima is kept and may grow up to its
    replicas; another (it lost a node) is completed, or waits for the rest. former: where the plan in force has all its
    pods, running ones among them; it keeps these places where that costs no start. role_affinities: (role, role, 1 or
    -1): their pods prefer to share a node, or not to; the same role twice is its pods among themselves. A wish only.

    slot_holds: the device slots that running pods are known to hold, sorted by (role, node, slot); only these return
    when the pods go. All that is held is missing in `DeviceSlot.free`.

    over_constrained: stricter than the real rules, so infeasibility proves nothing.

    growth_unit: pods of each role that it takes together above its minima; () for pod by pod. Of several pods it is a
    gang of its own, and which running pods belong to it is not known: none of them is surplus.

    topology_without_rules: what `topology` would be without the separations that it owns; None where it owns none.
    separation_wishes: which starts never depends on.
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
    former: tuple[Placement, ...] = ()
    slot_holds: tuple[SlotHold, ...] = ()
    growth_unit: tuple[int, ...] = ()
    eviction: EvictionTerms = EvictionTerms()
    times: GangTimes = GangTimes()
    entry: ClusterEntry = ClusterEntry()
    role_affinities: tuple[tuple[int, int, int], ...] = ()
    over_constrained: bool = False
    topology_without_rules: Topology | None = None
    separation_wishes: tuple[SeparationWish, ...] = ()


@dataclass(frozen=True, slots=True)
class EvictionVotes:
    """Evictions by one of the scheduler's actions that its plugins allow, beyond `solver.semantics.eviction_rights`.

    whole_gangs: a gang may be evicted whole; else only its surplus above the minima (plugin gang votes).
    compare_shares: the victim's rest has no smaller dominant share than the preemptor gets (plugin drf votes).
    """

    whole_gangs: bool = True
    compare_shares: bool = False


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """Of the running pods of `roles`, (gang, role) pairs, at most `allowed` may be evicted (PodDisruptionBudget)."""

    name: str
    allowed: int
    roles: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Problem:
    """The whole input of `solver.solve`.

    preempt_enabled: a gang may evict gangs of its own queue that have a lower priority. reclaim_enabled: it may evict
    gangs of other queues that hold more than they deserve. preempt_votes, reclaim_votes: how the plugins vote on that.
    addable_evictions: of "preempt" and "reclaim" those that are off and would evict, with these votes, were they on.
    device_resources: the resources that decide whether a node is unopened (`semantics.placement_cost`); () for all.
    slot_groups: names of the ways in which nodes are divided into device slots. node_groups: names of the parts of the
    cluster that are open to some queues only; the first represents the nodes in no group, which are closed to every
    queue that names groups. () where the scheduler knows no groups. has_other_resources: nodes have more than
    `resources` and pods, of which nobody asks for anything.
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
    node_groups: tuple[str, ...] = ()
    has_other_resources: bool = False
    addable_evictions: tuple[str, ...] = ()

    @cached_property
    def totals(self) -> Vector:
        """Allocatable amounts of the whole cluster."""
        nothing = (0,) * len(self.resources)
        return tuple(map(sum, zip(nothing, *(node.capacity for node in self.nodes), strict=True)))

    @cached_property
    def gang_answers(self) -> dict[Hashable, Any]:
        """Memoization of `memoize`: question -> answer."""
        return {}

    def memoize(self, question: Hashable, make: Callable[[], T]) -> T:
        """Return the answer of `make`, computed once for each question. It follows from gangs, resources and what the
        question names, and is not changed afterwards."""
        found: T = self.gang_answers.get(question, UNKNOWN)
        if found is UNKNOWN:
            found = self.gang_answers[question] = make()
        return found

    @cached_property
    def has_separation_wishes(self) -> bool:
        return any(gang.separation_wishes for gang in self.gangs)

    @cached_property
    def budgeted_gangs(self) -> frozenset[int]:
        """Return the gangs of which a disruption budget covers a role."""
        return frozenset(j for budget in self.disruption_budgets for j, _ in budget.roles)

    def with_queues(self, queues: tuple[Queue, ...], gangs: tuple[Gang, ...] | None = None) -> Problem:
        """Return the same with other queues, and gangs where they are given; cached facts about nodes and gangs are
        kept."""
        other = replace(self, queues=queues, gangs=self.gangs if gangs is None else gangs)
        vars(other)["totals"] = self.totals
        if other.gangs is self.gangs:
            vars(other)["gang_answers"] = self.gang_answers
        return other

    def with_nodes_like(self, like: int, leaf: int | None, count: int) -> Problem:
        """Return the same with so many more nodes like one of them, all of them empty, under the leaf."""
        node = self.nodes[like]
        names = (f"{node.name} again {n}" for n in range(count))
        more = tuple(Node(name, node.node_class, leaf, node.capacity, node.capacity) for name in names)
        other = replace(self, nodes=(*self.nodes, *more))
        vars(other)["totals"] = tuple(have + count * a for have, a in zip(self.totals, node.capacity, strict=True))
        return other


class InvalidProblemError(ValueError):
    """The problem contradicts itself. where: path of indices to the error, e.g. ("gangs", 3, "roles", 0, "request")."""

    def __init__(self, where: tuple[str | int, ...], what: str) -> None:
        self.where = where
        super().__init__(f"{'.'.join(map(str, where))}: {what}")
