"""Small worlds in one line: `problem(nodes(4, gpu=8), gang("a", role(5, gpu=8)))`.

Amounts are given by name; the resources of a problem are the names used anywhere in it, sorted. Queues and hypernodes
are referred to by name, a node's hypernodes by a path from its leaf upwards. What is not said is plain: one queue
"default" without limits, no topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
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
    """more: fields of the node as they are."""

    capacity: Amounts
    free: Amounts
    leaf: str | None
    slots: tuple[tuple[str, Amounts, Amounts], ...]
    more: Mapping[str, Any]


@dataclass(frozen=True)
class QueueSpec:
    """dedicated_domains: names of hypernodes. more: fields of the queue as they are."""

    name: str
    parent: str | None
    limits: Mapping[str, Amounts]
    used: Amounts
    dedicated_domains: tuple[str, ...]
    more: Mapping[str, Any]


@dataclass(frozen=True)
class RoleSpec:
    """more: fields of the role as they are."""

    replicas: int
    minimum: int
    request: Amounts
    node_classes: frozenset[int]
    slot_requests: tuple[tuple[str, int, Amounts], ...]
    more: Mapping[str, Any]


@dataclass(frozen=True)
class GangSpec:
    """more: fields of the gang as they are."""

    name: str
    roles: tuple[RoleSpec, ...]
    queue: str
    minimum: int | None
    loss: int | None
    more: Mapping[str, Any]


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
    """slots: made by `device_slots`."""
    more = {"node_class": node_class, "maintenance_in": maintenance_in, "node_group": node_group}
    return [NodeSpec(capacity, capacity if free is None else free, leaf, tuple(slots), more)] * count


def device_slots(
    slot_group: str, count: int, free: Amounts | None = None, **capacity: int
) -> list[tuple[str, Amounts, Amounts]]:
    return [(slot_group, capacity, capacity if free is None else free)] * count


def queue(
    name: str,
    parent: str | None = None,
    *,
    guarantee: Amounts | None = None,
    deserved: Amounts | None = None,
    capability: Amounts | None = None,
    used: Amounts | None = None,
    dedicated_domains: tuple[str, ...] = (),
    **more: Any,
) -> QueueSpec:
    """more: fields of the queue as they are; weight 1 and priority 0 where they are not given."""
    limits = {"guarantee": guarantee or {}, "deserved": deserved or {}, "capability": capability or {}}
    return QueueSpec(name, parent, limits, used or {}, dedicated_domains, {"weight": 1, "priority": 0, **more})


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
    """slot_requests: (slot group, number of slots, share of each)."""
    least = replicas if minimum is None else minimum
    more = {"owned_rules": tuple(owned_rules), "selecting_rules": tuple(selecting_rules)}
    return RoleSpec(replicas, least, request, frozenset(node_classes), tuple(slot_requests), more)


def pod_rule(
    rule_kind: RuleKind,
    domains: Iterable[int | None],
    *,
    selected_present: Mapping[int, int] | None = None,
    max_skew: int = 1,
    min_domains: int = 1,
) -> PodRule:
    """selected_present: domain -> counted pods of others."""
    at = tuple(domains)
    known = {d for d in at if d is not None}
    present = tuple((selected_present or {}).get(d, 0) for d in range(len(known)))
    return PodRule(rule_kind, at, present, (), max_skew, min_domains)


def gang(
    name: str,
    *roles: RoleSpec,
    queue: str = "default",
    minimum: int | None = None,
    loss: int | None = None,
    **more: Any,
) -> GangSpec:
    """loss: seconds run, of a gang that may be evicted. more: fields of the gang as they are; priority 0 where it is
    not given."""
    return GangSpec(name, roles, queue, minimum, loss, {"priority": 0, **more})


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
    tier_is_editable: bool = True,
) -> Subgroup:
    topology = Topology(mode, tier)
    return Subgroup(name or f"parts-of-{size}-in-{tier}", roles, size, minimum, topology, tier_is_editable)


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
    queues = [thing for thing in specs if isinstance(thing, QueueSpec)] or [queue("default")]
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
        slots = tuple(
            DeviceSlot(self.slot_groups.index(name), self.vector(whole), self.vector(free))
            for name, whole, free in spec.slots
        )
        leaf = None if spec.leaf is None else self.hypernodes[spec.leaf]
        amounts = self.vector(spec.capacity), self.vector(spec.free)
        return Node(name=f"n{n}", leaf=leaf, capacity=amounts[0], free=amounts[1], slots=slots, **spec.more)

    def queue(self, spec: QueueSpec) -> Queue:
        limits: dict[str, Any] = {name: self.limits(amounts) for name, amounts in spec.limits.items()}
        return Queue(
            name=spec.name,
            parent=None if spec.parent is None else self.queues[spec.parent],
            used=self.vector(spec.used),
            dedicated_domains=tuple(self.hypernodes[name] for name in spec.dedicated_domains),
            **limits,
            **spec.more,
        )

    def gang(self, age: int, spec: GangSpec) -> Gang:
        minimum = sum(role.minimum for role in spec.roles) if spec.minimum is None else spec.minimum
        roles = tuple(self.role(t, role) for t, role in enumerate(spec.roles))
        plain = Gang(spec.name, self.queues[spec.queue], 0, age, minimum, roles)
        return with_fields(plain, evictable=spec.loss is not None, loss=spec.loss or 0, **spec.more)

    def role(self, t: int, spec: RoleSpec) -> Role:
        slot_requests = tuple(
            SlotRequest(self.slot_groups.index(name), number, self.vector(share))
            for name, number, share in spec.slot_requests
        )
        request = self.vector(spec.request)
        more = {"slot_requests": slot_requests, **spec.more}
        return Role(f"r{t}", spec.replicas, spec.minimum, request, spec.node_classes, **more)


def _resources(machines: list[NodeSpec], queues: list[QueueSpec], gangs: list[GangSpec]) -> tuple[str, ...]:
    used: list[Amounts] = [amounts for node in machines for amounts in (node.capacity, node.free)]
    used += [amounts for spec in queues for amounts in (*spec.limits.values(), spec.used)]
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


def with_fields(gang: Gang, **changes: Any) -> Gang:
    """The gang with fields changed, those of its groups (`eviction`, `times`, `entry`) among them by their names."""
    for group in ("eviction", "times", "entry"):
        old = getattr(gang, group)
        own = {field.name: changes.pop(field.name) for field in fields(old) if field.name in changes}
        changes |= {group: replace(old, **own)} if own else {}
    return replace(gang, **changes)


def edit(item: Any, path: tuple[str | int, ...], value: object) -> Any:
    """A copy of `item` with `value` at `path`, whose steps are field names and indices as in
    InvalidProblemError.where."""
    if not path:
        return value
    step, *rest = path
    if isinstance(step, int):
        return (*item[:step], edit(item[step], tuple(rest), value), *item[step + 1 :])
    return replace(item, **{step: edit(getattr(item, step), tuple(rest), value)})


def single_pod_gang(name: str, node: int, *, loss: int | None = 60, gpu: int = 8, **more: Any) -> GangSpec:
    """A gang of one running pod."""
    return gang(name, role(1, gpu=gpu), running=(running_pods(0, node, 1),), loss=loss, **more)


def busy_gang(name: str, node: int, pods: int = 1, gpu: int = 8, **more: Any) -> GangSpec:
    """A gang whose pods all run on one node."""
    return gang(name, role(pods, gpu=gpu), running=(running_pods(0, node, pods),), **more)


def preemptor(pods: int, *, gpu: int = 8, priority: int = 10, **more: Any) -> GangSpec:
    """The waiting gang "winner" of high priority."""
    return gang("winner", role(pods, gpu=gpu), priority=priority, **more)


def two_supernodes(*things: list[NodeSpec] | QueueSpec | GangSpec) -> Problem:
    """Nodes 0 and 1 in s0, 2 and 3 in s1, 8 GPUs each, under one spine, and node 4 outside the topology."""
    inside = (*nodes(2, leaf="s0", gpu=8), *nodes(2, leaf="s1", gpu=8))
    return problem(list(inside), nodes(1, gpu=8), *things, hypernodes=SPINE_OF_TWO)


SPINE_OF_TWO = {"s0": (1, "spine"), "s1": (1, "spine"), "spine": (2, None)}
"""Two supernodes under one spine."""


def supernodes(*things: list[NodeSpec] | QueueSpec | GangSpec) -> Problem:
    """Two supernodes of four nodes with 8 GPUs each, under one spine."""
    return problem(nodes(4, leaf="s0", gpu=8), nodes(4, leaf="s1", gpu=8), *things, hypernodes=SPINE_OF_TWO)


def one_pod_gangs(count: int, of: str, **request: Any) -> list[GangSpec]:
    """`count` gangs of one pod in queue `of`, which requests 1 GPU unless told otherwise."""
    one = role(1, **request) if request else role(1, gpu=1)
    return [gang(f"{of}{i}", one, queue=of) for i in range(count)]
