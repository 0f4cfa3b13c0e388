"""Small worlds in one line: `problem(nodes(4, gpu=8), gang("a", role(5, gpu=8)))`.

Amounts are given by name; the resources of a problem are the names used anywhere in it, sorted. Queues and hypernodes
are referred to by name, a node's hypernodes by a path from its leaf upwards. What is not said is plain: one queue
"default" without limits, no topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from solver.facts import Undecided
from solver.plan import Action, Batch, Decision, Objective, Plan, QueueUse
from solver.problem import (
    DeviceSlot,
    Gang,
    HyperNode,
    Limits,
    Node,
    Placement,
    PodRule,
    Policy,
    Problem,
    Queue,
    Role,
    RuleKind,
    SlotHold,
    SlotRequest,
    Subgroup,
    Topology,
    TopologyMode,
    Vector,
)
from solver.semantics.entitlements import deserved_amounts

Amounts = Mapping[str, int]


@dataclass(frozen=True)
class NodeSpec:
    capacity: Amounts
    free: Amounts
    node_class: int
    leaf: str | None
    slots: tuple[tuple[str, Amounts, Amounts], ...] = ()
    maintenance_in: int | None = None
    node_group: int = 0


@dataclass(frozen=True)
class QueueSpec:
    name: str
    parent: str | None = None
    weight: int = 1
    priority: int = 0
    guarantee: Amounts = field(default_factory=dict)
    deserved: Amounts = field(default_factory=dict)
    capability: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    open: bool = True
    hierarchy: tuple[tuple[str, int], ...] = ()
    reclaimable: bool = True
    strict_order: bool = False
    dedicated_domains: tuple[str, ...] = ()
    closed_node_groups: tuple[int, ...] = ()
    node_group_ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class RoleSpec:
    replicas: int
    minimum: int
    request: Amounts
    node_classes: frozenset[int]
    owned_rules: tuple[int, ...] = ()
    selecting_rules: tuple[int, ...] = ()
    slot_requests: tuple[tuple[str, int, Amounts], ...] = ()


@dataclass(frozen=True)
class GangSpec:
    name: str
    roles: tuple[RoleSpec, ...]
    queue: str
    priority: int
    minimum: int | None
    topology: Topology | None
    subgroups: tuple[Subgroup, ...]
    running: tuple[Placement, ...]
    loss: int | None = None
    may_evict: bool = True
    duration: int | None = None
    ends_in: int | None = None
    overdue: bool = False
    slot_holds: tuple[SlotHold, ...] = ()
    protected: tuple[Placement, ...] = ()
    may_lose_all: bool = False
    tells_checkpoint: bool = False


def nodes(
    count: int,
    *,
    leaf: str | None = None,
    node_class: int = 0,
    free: Amounts | None = None,
    slots: Iterable[tuple[str, Amounts, Amounts]] = (),
    maintenance_in: int | None = None,
    node_group: int = 0,
    **capacity: int,
) -> list[NodeSpec]:
    """cells: made by `cells` below."""
    amounts = capacity, capacity if free is None else free
    return [NodeSpec(*amounts, node_class, leaf, tuple(slots), maintenance_in, node_group)] * count


def device_slots(
    slot_group: str, count: int, free: Amounts | None = None, **capacity: int
) -> list[tuple[str, Amounts, Amounts]]:
    return [(slot_group, capacity, capacity if free is None else free)] * count


def queue(
    name: str,
    parent: str | None = None,
    *,
    weight: int = 1,
    priority: int = 0,
    guarantee: Amounts | None = None,
    deserved: Amounts | None = None,
    capability: Amounts | None = None,
    used: Amounts | None = None,
    is_closed: bool = False,
    hierarchy: tuple[tuple[str, int], ...] = (),
    reclaimable: bool = True,
    strict_order: bool = False,
    dedicated_domains: tuple[str, ...] = (),
    closed_node_groups: tuple[int, ...] = (),
    node_group_ranks: tuple[int, ...] = (),
) -> QueueSpec:
    """dedicated_domains: names of hypernodes."""
    limits = guarantee or {}, deserved or {}, capability or {}, used or {}
    domains, groups = dedicated_domains, closed_node_groups
    switches = not is_closed, hierarchy, reclaimable, strict_order
    return QueueSpec(name, parent, weight, priority, *limits, *switches, domains, groups, node_group_ranks)


def role(
    replicas: int,
    *,
    minimum: int | None = None,
    node_classes: Iterable[int] = (0,),
    owned_rules: Iterable[int] = (),
    selecting_rules: Iterable[int] = (),
    slot_requests: Iterable[tuple[str, int, Amounts]] = (),
    **request: int,
) -> RoleSpec:
    """portions: (division, number of cells, share of each)."""
    least = replicas if minimum is None else minimum
    return RoleSpec(
        replicas,
        least,
        request,
        frozenset(node_classes),
        tuple(owned_rules),
        tuple(selecting_rules),
        tuple(slot_requests),
    )


def pod_rule(
    rule_kind: RuleKind,
    domains: Iterable[int | None],
    *,
    selected_present: Mapping[int, int] | None = None,
    max_skew: int = 1,
    min_domains: int = 1,
) -> PodRule:
    """present: domain -> counted pods of others."""
    at = tuple(domains)
    known = {d for d in at if d is not None}
    return PodRule(
        rule_kind, at, tuple((selected_present or {}).get(d, 0) for d in range(len(known))), (), max_skew, min_domains
    )


def gang(
    name: str,
    *roles: RoleSpec,
    queue: str = "default",
    priority: int = 0,
    minimum: int | None = None,
    topology: Topology | None = None,
    subgroups: tuple[Subgroup, ...] = (),
    running: tuple[Placement, ...] = (),
    loss: int | None = None,
    may_evict: bool = True,
    duration: int | None = None,
    ends_in: int | None = None,
    overdue: bool = False,
    slot_holds: tuple[SlotHold, ...] = (),
    protected: tuple[Placement, ...] = (),
    may_lose_all: bool = False,
    tells_checkpoint: bool = False,
) -> GangSpec:
    """loss: seconds run, of a gang that may be evicted."""
    return GangSpec(
        name,
        roles,
        queue,
        priority,
        minimum,
        topology,
        subgroups,
        running,
        loss,
        may_evict,
        duration,
        ends_in,
        overdue,
        slot_holds,
        protected,
        may_lose_all,
        tells_checkpoint,
    )


def hard_topology(tier: int) -> Topology:
    return Topology("hard", tier)


def soft_topology(tier: int) -> Topology:
    return Topology("soft", tier)


def subgroup(
    size: int,
    *,
    minimum: int = 0,
    mode: TopologyMode = "hard",
    tier: int = 1,
    roles: tuple[int, ...] = (0,),
    name: str = "",
) -> Subgroup:
    return Subgroup(name or f"parts-of-{size}-in-{tier}", roles, size, minimum, Topology(mode, tier))


def running_pods(role: int, node: int, pods: int) -> Placement:
    return Placement(role, node, pods)


def problem(
    *specs: list[NodeSpec] | QueueSpec | GangSpec,
    hypernodes: Mapping[str, tuple[int, str | None]] | None = None,
    policy: Policy | None = None,
    preempt_enabled: bool = False,
    reclaim_enabled: bool = False,
    pod_rules: tuple[PodRule, ...] = (),
    node_groups: tuple[str, ...] = (),
) -> Problem:
    """hypernodes: name -> (tier, parent's name)."""
    machines = [node for thing in specs if isinstance(thing, list) for node in thing]
    queues = [thing for thing in specs if isinstance(thing, QueueSpec)] or [QueueSpec("default")]
    gangs = [thing for thing in specs if isinstance(thing, GangSpec)]
    names = _NameIndex(
        _resources(machines, queues, gangs),
        tuple(dict.fromkeys(name for spec in machines for name, _, _ in spec.slots)),
        {name: h for h, name in enumerate(hypernodes or {})},
        {queue.name: q for q, queue in enumerate(queues)},
    )
    return Problem(
        names.resources,
        tuple(names.node(n, spec) for n, spec in enumerate(machines)),
        tuple(
            HyperNode(name, tier, None if parent is None else names.hypernodes[parent])
            for name, (tier, parent) in (hypernodes or {}).items()
        ),
        tuple(names.queue(spec) for spec in queues),
        tuple(names.gang(age, spec) for age, spec in enumerate(gangs)),
        policy or Policy(),
        preempt_enabled,
        reclaim_enabled,
        pod_rules=pod_rules,
        slot_groups=names.slot_groups,
        node_groups=node_groups,
    )


@dataclass(frozen=True)
class _NameIndex:
    """What the names of a world stand for."""

    resources: tuple[str, ...]
    slot_groups: tuple[str, ...]
    hypernodes: Mapping[str, int]
    queues: Mapping[str, int]

    def vector(self, amounts: Amounts) -> Vector:
        return tuple(amounts.get(name, 0) for name in self.resources)

    def limits(self, amounts: Amounts) -> Limits:
        return tuple(amounts.get(name) for name in self.resources)

    def node(self, n: int, spec: NodeSpec) -> Node:
        return Node(
            f"n{n}",
            spec.node_class,
            None if spec.leaf is None else self.hypernodes[spec.leaf],
            self.vector(spec.capacity),
            self.vector(spec.free),
            tuple(
                DeviceSlot(self.slot_groups.index(name), self.vector(whole), self.vector(free))
                for name, whole, free in spec.slots
            ),
            spec.maintenance_in,
            node_group=spec.node_group,
        )

    def queue(self, spec: QueueSpec) -> Queue:
        return Queue(
            spec.name,
            None if spec.parent is None else self.queues[spec.parent],
            spec.weight,
            spec.priority,
            self.limits(spec.guarantee),
            self.limits(spec.deserved),
            self.limits(spec.capability),
            self.vector(spec.used),
            spec.open,
            spec.hierarchy,
            spec.reclaimable,
            spec.strict_order,
            tuple(self.hypernodes[name] for name in spec.dedicated_domains),
            spec.closed_node_groups,
            spec.node_group_ranks,
        )

    def gang(self, age: int, spec: GangSpec) -> Gang:
        return Gang(
            spec.name,
            self.queues[spec.queue],
            spec.priority,
            age,
            sum(role.minimum for role in spec.roles) if spec.minimum is None else spec.minimum,
            tuple(self.role(t, role) for t, role in enumerate(spec.roles)),
            spec.topology,
            spec.subgroups,
            spec.running,
            spec.loss is not None,
            spec.loss or 0,
            spec.may_evict,
            spec.duration,
            spec.ends_in,
            spec.overdue,
            slot_holds=spec.slot_holds,
            protected=spec.protected,
            may_lose_all=spec.may_lose_all,
            tells_checkpoint=spec.tells_checkpoint,
        )

    def role(self, t: int, spec: RoleSpec) -> Role:
        portions = tuple(
            SlotRequest(self.slot_groups.index(name), number, self.vector(share))
            for name, number, share in spec.slot_requests
        )
        return Role(
            f"r{t}",
            spec.replicas,
            spec.minimum,
            self.vector(spec.request),
            spec.node_classes,
            spec.owned_rules,
            spec.selecting_rules,
            portions,
        )


def _resources(machines: list[NodeSpec], queues: list[QueueSpec], gangs: list[GangSpec]) -> tuple[str, ...]:
    used: list[Amounts] = [amounts for node in machines for amounts in (node.capacity, node.free)]
    used += [amounts for spec in queues for amounts in (spec.guarantee, spec.deserved, spec.capability, spec.used)]
    used += [role.request for spec in gangs for role in spec.roles]
    return tuple(sorted({name for amounts in used for name in amounts}))


def plan_with(world: Problem, placements: Mapping[int, Iterable[tuple[int, int, int]]]) -> Plan:
    """The plan that gives each gang the (role, node, pods) named; a gang not named waits with what it runs. Actions and
    sums follow; nothing is proven."""
    decisions = []
    for g, spec in enumerate(world.gangs):
        action: Action = "wait"
        places = tuple(sorted(spec.running, key=lambda place: (place.role, place.node)))
        if g in placements:
            action = "keep" if _meets_minima(spec) else "start"
            places = tuple(Placement(*place) for place in sorted(placements[g]))
        leaves = {world.nodes[place.node].leaf for place in places}
        facts = (Undecided(),) if action == "wait" else ()
        decisions.append(Decision(g, action, places, tuple(sorted(leaf for leaf in leaves if leaf is not None)), facts))
    objective = Objective("admitted", float(len(placements)), float(len(placements)), 0.0, "limit reached")
    batch = Batch(tuple(range(len(world.gangs))), "limit reached", (objective,), 0.0)
    return Plan(tuple(decisions), (batch,), queue_uses(world, decisions))


def _meets_minima(spec: Gang) -> bool:
    pods = [sum(place.pods for place in spec.running if place.role == t) for t in range(len(spec.roles))]
    return (
        sum(pods) >= spec.minimum
        and all(have >= role.minimum for have, role in zip(pods, spec.roles, strict=True))
        and all(sum(pods[t] for t in part.roles) >= part.size * part.minimum for part in spec.subgroups)
    )


def queue_uses(world: Problem, decisions: Iterable[Decision]) -> tuple[QueueUse, ...]:
    """Written the long way round (every queue asks every gang), so that it is no copy of what it helps to test."""
    placed = {decision.gang: decision.placements for decision in decisions}
    uses = []
    for q, (spec, deserved) in enumerate(zip(world.queues, deserved_amounts(world), strict=True)):
        family = [other for other in range(len(world.queues)) if q in _queue_path(world, other)]
        allocated, whole, share = [], [], 0.0
        for r in range(len(world.resources)):
            members = [(g, member) for g, member in enumerate(world.gangs) if member.queue in family]
            used = sum(world.queues[other].used[r] for other in family)
            allocated.append(
                used + sum(p.pods * member.roles[p.role].request[r] for _, member in members for p in member.running)
            )
            whole.append(
                used + sum(p.pods * member.roles[p.role].request[r] for g, member in members for p in placed[g])
            )
            if total := sum(node.capacity[r] for node in world.nodes):
                share = max(share, whole[r] / total / spec.weight)
        uses.append(
            QueueUse(
                q,
                tuple(allocated),
                tuple(after - before for after, before in zip(whole, allocated, strict=True)),
                share,
                deserved,
            )
        )
    return tuple(uses)


def _queue_path(world: Problem, queue: int | None) -> list[int]:
    path = []
    while queue is not None:
        path.append(queue)
        queue = world.queues[queue].parent
    return path


def edit(item: Any, path: tuple[str | int, ...], value: object) -> Any:
    """A copy of `item` with `value` at `path`, whose steps are field names and indices as in
    InvalidProblemError.where."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        return (*item[:step], edit(item[step], tuple(rest), value), *item[step + 1 :])
    return replace(item, **{step: edit(getattr(item, step), tuple(rest), value)})


def single_pod_gang(
    name: str, node: int, *, loss: int | None = 60, priority: int = 0, gpu: int = 8, queue: str = "default"
) -> GangSpec:
    """A gang of one running pod."""
    return gang(name, role(1, gpu=gpu), running=(running_pods(0, node, 1),), loss=loss, priority=priority, queue=queue)


def busy_gang(name: str, node: int, pods: int = 1, gpu: int = 8, **more: int | bool | str | None) -> GangSpec:
    """A gang whose pods all run on one node."""
    return gang(name, role(pods, gpu=gpu), running=(running_pods(0, node, pods),), **more)  # type: ignore[arg-type]


def preemptor(pods: int, *, gpu: int = 8, priority: int = 10, **more: object) -> GangSpec:
    """The waiting gang "winner" of high priority."""
    return gang("winner", role(pods, gpu=gpu), priority=priority, **more)  # type: ignore[arg-type]


def two_supernodes(*things: object) -> Problem:
    """Nodes 0 and 1 in s0, 2 and 3 in s1, 8 GPUs each, under one spine, and node 4 outside the topology."""
    inside = (*nodes(2, leaf="s0", gpu=8), *nodes(2, leaf="s1", gpu=8))
    tree = {"s0": (1, "spine"), "s1": (1, "spine"), "spine": (2, None)}
    return problem(list(inside), nodes(1, gpu=8), *things, hypernodes=tree)  # type: ignore[arg-type]


def one_pod_gangs(count: int, of: str, **request: Any) -> list[GangSpec]:
    """`count` gangs of one pod in queue `of`, which requests 1 GPU unless told otherwise."""
    one = role(1, **request) if request else role(1, gpu=1)
    return [gang(f"{of}{i}", one, queue=of) for i in range(count)]
