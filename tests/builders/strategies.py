"""The one home of the generated worlds: small enough to try everything, odd enough to hit every rule."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from hypothesis import strategies as st

from solver.problem import (
    DeviceSlot,
    Gang,
    GroupQuota,
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
    Vector,
)
from tests.builders.problems import with_fields

RESOURCES = ("cpu", "gpu")
PRIORITIES_FIRST = Policy(order="priorities-first")
"""Of the worlds here: their properties are those of this order; tests/property/test_queues_first.py has the other."""
HYPERNODE_TREES = (
    (),
    (HyperNode("s0", 1), HyperNode("s1", 1)),
    (HyperNode("s0", 1, 2), HyperNode("s1", 1, 2), HyperNode("spine", 2)),
    (HyperNode("s0", 1, 2), HyperNode("s1", 1, 3), HyperNode("left", 2), HyperNode("right", 2)),
    (HyperNode("s0", 1, 1), HyperNode("spine", 2)),
)
"""Nodes may hang on any of them, so that some leaves are of tier 2."""

NODE_CLASS_SETS = (*(frozenset({0, 1}),) * 9, *(frozenset({0}),) * 3, frozenset({1}), frozenset[int]())
"""Mostly open, so that most gangs have somewhere to go."""

RunningMode = Literal["nothing", "whole gangs", "anything"]
Value = TypeVar("Value")


def sampled(values: Sequence[Value]) -> st.SearchStrategy[Value]:
    """`st.sampled_from`, built once for the same values: a quarter of the time of drawing a world."""
    return _sampled(tuple(values), tuple(map(type, values)))


@functools.cache
def _sampled(values: tuple[Value, ...], types: tuple[type, ...]) -> st.SearchStrategy[Value]:
    """types tell (0, 1) from (False, True), which are equal."""
    del types
    return st.sampled_from(values)


@st.composite
def problems(draw: st.DrawFn, *, running: RunningMode = "nothing", elastic: bool = True) -> Problem:
    """At most 4 nodes, 4 gangs, 4 queues in 2 levels (gangs only in leaf queues), 2 tiers.

    running: "whole gangs" are at their minima or above, inside what their nodes have; "anything" may be in the wrong
    place, too many, or a part of its gang. Each gang's minimum is the sum of its roles', and subgroups divide both
    minimum and replicas.
    """
    tree = draw(sampled(HYPERNODE_TREES))
    nodes = tuple(draw(_node(n, len(tree))) for n in range(draw(st.integers(1, 4))))
    queues = draw(_queues())
    leaves = tuple(q for q in range(len(queues)) if all(queue.parent != q for queue in queues))
    gangs = [draw(_gang(g, leaves, elastic)) for g in range(draw(st.integers(1, 4)))]
    if running != "nothing":
        left = [list(node.free) for node in nodes]
        gangs = [draw(_running_gang(gang, left, running)) if draw(st.booleans()) else gang for gang in gangs]
    return Problem(RESOURCES, nodes, tree, queues, tuple(gangs), PRIORITIES_FIRST)


@st.composite
def contended_problems(draw: st.DrawFn) -> Problem:
    """At most 3 open nodes and 4 gangs that mostly fit alone, in 2 or more queues, and ask for more than there is: some
    start, others wait."""
    tree = draw(sampled(HYPERNODE_TREES))
    leaves = (*(0, 1) * 4, len(tree) - 1, None) if tree else (None,)
    nodes = tuple(draw(_contended_node(n, draw(sampled(leaves)))) for n in range(draw(sampled((2, 2, 3)))))
    parents = draw(sampled(((None, None), (None, None), (None, None, None), (None, 0, 0), (None, 0, 0, None))))
    queues = tuple(draw(_contended_queue(q, parent)) for q, parent in enumerate(parents))
    leaf_queues = [q for q in range(len(parents)) if q not in parents]
    gangs = [draw(_contended_gang(g, leaf_queues[g % len(leaf_queues)], nodes)) for g in range(draw(sampled((3, 4))))]
    left = [list(node.free) for node in nodes]
    gangs = [
        draw(_running_gang(gang, left, "whole gangs")) if draw(sampled((*(False,) * 5, True))) else gang
        for gang in gangs
    ]
    return Problem(RESOURCES, nodes, tree, queues, tuple(gangs), PRIORITIES_FIRST)


@functools.cache
@st.composite
def _contended_node(draw: st.DrawFn, n: int, leaf: int | None) -> Node:
    capacity = (draw(sampled((4, 4, 2))), draw(sampled((4, 4, 8))))
    foreign = draw(sampled(((0, 0), (0, 0), (0, 0), (1, 0), (1, 2))))
    free = tuple(max(0, have - taken) for have, taken in zip(capacity, foreign, strict=True))
    return Node(f"n{n}", draw(sampled((0, 0, 0, 0, 0, 1))), leaf, capacity, free)


@functools.cache
@st.composite
def _contended_queue(draw: st.DrawFn, q: int, parent: int | None) -> Queue:
    """Few of these queues have limits, and those are wide."""
    nothing: Limits = (None, None)
    guarantee = draw(sampled((*(nothing,) * 6, (None, 2), (1, None))))
    capability = draw(sampled((*(nothing,) * 7, (None, 6))))
    used = draw(sampled(((0, 0), (0, 0), (0, 0), (1, 0), (1, 2))))
    return Queue(f"q{q}", parent, draw(st.integers(1, 3)), 0, guarantee, nothing, capability, used)


@st.composite
def _contended_gang(draw: st.DrawFn, g: int, queue: int, nodes: tuple[Node, ...]) -> Gang:
    """Pods of which each fits on some open node."""
    unit = draw(sampled((1, 1, 2)))
    most = max(node.capacity[1] for node in nodes)
    roles = []
    for t in range(draw(sampled((1, 1, 1, 2)))):
        minimum = draw(st.integers(1, 2)) * (unit if t == 0 else 1)
        more = draw(sampled((0, 0, unit if t == 0 else 1)))
        request = (draw(sampled((0, 1, 1, 2))), draw(sampled((1, 2, 2, min(4, most)))))
        kinds = draw(sampled((*(frozenset({0, 1}),) * 5, frozenset({0}))))
        roles.append(Role(f"r{t}", minimum + more, minimum, request, kinds))
    topology = draw(sampled((None, None, None, Topology("hard", 1), Topology("hard", 2), Topology("soft", 1))))
    parts = (
        Subgroup(
            "pairs",
            (0,),
            2,
            draw(st.integers(0, 1)),
            Topology(draw(sampled(("soft", "soft", "hard"))), draw(st.integers(1, 2))),
        ),
    )
    return Gang(
        f"g{g}",
        queue,
        draw(sampled((0, 0, 0, 0, 0, 10))),
        g,
        sum(role.minimum for role in roles),
        tuple(roles),
        topology,
        parts if unit == 2 else (),
    )


POLICIES = (
    Policy(),
    Policy(capacity=True),
    Policy(capacity=True, capacity_hierarchy=True),
    Policy(proportion=True),
    Policy(proportion=True, drf=True),
    Policy(drf=True),
    Policy(drf=True, drf_hierarchy=True),
    Policy(capacity=True, proportion=True),
)

HIERARCHY_PATHS = ((), (("x", 2), ("own", 1)), (("x", 2), ("y", 3), ("own", 2)))


@st.composite
def problems_under_policies(draw: st.DrawFn, worlds: st.SearchStrategy[Problem]) -> Problem:
    """The same worlds under any of Volcano's queue plugins: with what queues deserve, queue priorities, weights
    along a hierarchy, closed queues; and with what makes a node whole."""
    world, policy = draw(worlds), draw(sampled(POLICIES))
    queues = tuple(
        replace(
            queue,
            priority=draw(st.integers(0, 1)),
            deserved=draw(st.tuples(sampled((None, 1, 4)), sampled((None, 0, 4)))),
            open=draw(sampled((*(True,) * 9, False))),
            hierarchy=draw(sampled(HIERARCHY_PATHS)) if policy.drf_hierarchy else (),
        )
        for queue in world.queues
    )
    devices, scatter = draw(sampled(((), (1,)))), draw(sampled((False, False, True)))
    policy = replace(policy, spread_pods=scatter, order="priorities-first")
    return replace(world, queues=queues, device_resources=devices, policy=policy)


@st.composite
def problems_with_slots(draw: st.DrawFn, *, running: RunningMode = "nothing") -> Problem:
    """The same worlds, nodes divided into two devices with half of the GPUs each (1, 2 or 4 units) and some into two
    NUMA cells of half their CPUs; pods take their GPUs from one device or half of them from each of two, and some take
    CPU and GPU from one NUMA cell."""
    return draw(with_slots(draw(problems(running=running))))


@st.composite
def with_slots(draw: st.DrawFn, world: Problem) -> Problem:
    """The same world, its nodes divided into device slots."""
    nodes = tuple(replace(node, slots=tuple(draw(_slots(node)))) for node in world.nodes)
    gangs = tuple(
        replace(
            gang, roles=tuple(replace(role, slot_requests=draw(_slot_requests(role.request))) for role in gang.roles)
        )
        for gang in world.gangs
    )
    return replace(world, nodes=nodes, gangs=gangs, slot_groups=("device", "numa"))


@st.composite
def _slots(draw: st.DrawFn, node: Node) -> list[DeviceSlot]:
    cpu, gpu = node.capacity
    found = [DeviceSlot(0, (0, gpu // 2), (0, draw(st.integers(gpu // 4, gpu // 2)))) for _ in range(2)]
    numa = [DeviceSlot(1, (cpu // 2, gpu // 2), (draw(st.integers(cpu // 4, cpu // 2)), gpu // 2)) for _ in range(2)]
    return found + (numa if draw(st.booleans()) else [])


@functools.cache
@st.composite
def _slot_requests(draw: st.DrawFn, request: Vector) -> tuple[SlotRequest, ...]:
    cpu, gpu = request
    halves = [(SlotRequest(0, 2, (0, gpu // 2)),)] if gpu and gpu % 2 == 0 else []
    one = [(SlotRequest(0, 1, (0, gpu)),)] * 2 if gpu else []
    numa = [(SlotRequest(1, 1, request),), (SlotRequest(1, 1, (cpu, 0)),)] if cpu else []
    return draw(sampled((*halves, *one, *numa, *(single + aligned for single in halves for aligned in numa), ())))


@functools.cache
@st.composite
def _node(draw: st.DrawFn, n: int, hypernodes: int) -> Node:
    capacity = (draw(sampled((2, 4, 8))), draw(sampled((0, 2, 4, 8))))
    foreign = draw(sampled(((0, 0), (0, 0), (1, 0), (1, 2))))
    free = tuple(max(0, have - taken) for have, taken in zip(capacity, foreign, strict=True))
    leaf = draw(sampled((*(0, 1) * 3, *range(hypernodes), None) if hypernodes else (None,)))
    return Node(f"n{n}", draw(sampled((0, 0, 1))), leaf, capacity, free)


@functools.cache
def _queue_limits(*amounts: int) -> st.SearchStrategy[Limits]:
    return st.one_of(st.just((None, None)), st.tuples(sampled((None, *amounts)), sampled((None, *amounts))))


@functools.cache
@st.composite
def _queues(draw: st.DrawFn) -> tuple[Queue, ...]:
    parents: tuple[int | None, ...] = draw(
        sampled(((None,), (None, None), (None, 0), (None, 0, 0), (1, None, 1, None)))
    )
    queues = []
    for q, parent in enumerate(parents):
        guarantee, capability = draw(_queue_limits(0, 2, 4)), draw(_queue_limits(2, 4, 8, 12))
        used = draw(sampled(((0, 0), (0, 0), (1, 0), (1, 2))))
        queues.append(Queue(f"q{q}", parent, draw(st.integers(1, 3)), 0, guarantee, (None, None), capability, used))
    return tuple(queues)


TOPOLOGIES = st.one_of(st.none(), st.builds(Topology, sampled(("hard", "hard", "soft")), st.integers(1, 3)))
SUBGROUP_TOPOLOGIES = st.builds(Topology, sampled(("hard", "soft")), st.integers(1, 3))
"""Built once, as by `sampled`."""


@functools.cache
@st.composite
def _gang(draw: st.DrawFn, g: int, leaves: tuple[int, ...], elastic: bool) -> Gang:
    unit = draw(sampled((1, 1, 1, 2)))
    count = draw(sampled((1, 1, 2)))
    roles = []
    for t in range(count):
        most = 2 if unit == 2 or count == 2 else 4
        minimum = draw(st.integers(1, most))
        replicas = draw(st.integers(minimum, most)) if elastic else minimum
        request = (draw(st.integers(0, 2)), draw(sampled((0, 1, 2, 4))))
        kinds = draw(sampled(NODE_CLASS_SETS))
        roles.append(
            Role(
                f"r{t}", replicas * unit if t == 0 else replicas, minimum * unit if t == 0 else minimum, request, kinds
            )
        )
    topology = draw(TOPOLOGIES)
    subgroups = (Subgroup("pairs", (0,), 2, draw(st.integers(0, 1)), draw(SUBGROUP_TOPOLOGIES)),)
    priority = draw(sampled((0, 0, 10)))
    minimum = sum(role.minimum for role in roles)
    return Gang(
        f"g{g}", draw(sampled(leaves)), priority, g, minimum, tuple(roles), topology, subgroups if unit == 2 else ()
    )


@st.composite
def _running_gang(draw: st.DrawFn, gang: Gang, left: list[list[int]], running: RunningMode) -> Gang:
    placements: list[Placement] = []
    for t, role in enumerate(gang.roles):
        for n in range(len(left)):
            pods = draw(st.integers(0, 2)) if running == "anything" else 0
            if running == "whole gangs":
                missing = role.minimum - sum(place.pods for place in placements if place.role == t)
                pods = min([missing, *(have // ask for have, ask in zip(left[n], role.request, strict=True) if ask)])
            if pods > 0:
                left[n] = [max(0, have - pods * ask) for have, ask in zip(left[n], role.request, strict=True)]
                placements.append(Placement(t, n, pods))
    whole = sum(place.pods for place in placements) == gang.minimum
    started = tuple(placements) if whole or running == "anything" else ()
    return Gang(
        gang.name, gang.queue, gang.priority, gang.age, gang.minimum, gang.roles, gang.topology, gang.subgroups, started
    )


@st.composite
def problems_with_pod_rules(draw: st.DrawFn, *, running: RunningMode = "nothing", elastic: bool = False) -> Problem:
    """As `problems`, with at most 3 gangs, and 1 or 2 relations that some of their roles carry or are counted by."""
    world = draw(problems(running=running, elastic=elastic))
    return draw(with_pod_rules(replace(world, gangs=world.gangs[:3])))


@st.composite
def with_pod_rules(draw: st.DrawFn, world: Problem) -> Problem:
    """The same world with 1 or 2 relations that some of its roles carry or are counted by."""
    relations = tuple(draw(_pod_rule(len(world.nodes))) for _ in range(draw(st.integers(1, 2))))
    separations = {rho for rho, relation in enumerate(relations) if relation.rule_kind == "separation"}
    gangs = []
    for gang in world.gangs:
        roles = []
        for role in gang.roles:
            ties = [draw(sampled(("", "", "b", "m", "bm", "bm"))) for _ in relations]
            bears, matches = (tuple(rho for rho, tie in enumerate(ties) if mark in tie) for mark in "bm")
            roles.append(replace(role, owned_rules=bears, selecting_rules=matches))
        gang = replace(gang, roles=tuple(roles))
        if not separations.isdisjoint(rho for role in roles for rho in role.owned_rules):
            gang = replace(gang, topology_without_rules=gang.topology or Topology("soft", 1))
        gangs.append(gang)
    return replace(world, gangs=tuple(gangs), pod_rules=relations)


@st.composite
def problems_with_quotas(draw: st.DrawFn, *, related: bool = False, elastic: bool = False) -> Problem:
    """As `problems` with running gangs, at most 3, and limits of node groups; related: under pod rules too."""
    world = draw(problems(running="whole gangs", elastic=elastic))
    world = replace(world, gangs=world.gangs[:3])
    return draw(with_quotas(draw(with_pod_rules(world)) if related else world))


@st.composite
def with_quotas(draw: st.DrawFn, world: Problem) -> Problem:
    """The same world with node groups, and 1 or 2 limits of queues on one of them."""
    groups = draw(st.lists(sampled((0, 1, 1)), min_size=len(world.nodes), max_size=len(world.nodes)))
    nodes = tuple(replace(node, node_group=group) for node, group in zip(world.nodes, groups, strict=True))
    world = replace(world, nodes=nodes, node_groups=("(none)", "g1"))
    for _ in range(draw(st.integers(1, 2))):
        queue, resource = draw(st.integers(0, len(world.queues) - 1)), draw(st.integers(0, len(world.resources) - 1))
        present = (draw(sampled((0, 0, 1))),) if 1 in groups else ()
        quota = GroupQuota(queue, 1, resource, draw(st.integers(0, 6)))
        world = with_quota(world, quota, present)
    return world


def with_quota(world: Problem, quota: GroupQuota, present: tuple[int, ...]) -> Problem:
    """The same world with the quota, which selects every role that it counts."""
    rho, domains = len(world.pod_rules), [0 if n.node_group == quota.node_group else None for n in world.nodes]

    def counted(gang: Gang, role: Role) -> Role:
        if gang.queue != quota.queue or not role.request[quota.resource]:
            return role
        return replace(role, selecting_rules=(*role.selecting_rules, rho))

    gangs = (replace(gang, roles=tuple(counted(gang, role) for role in gang.roles)) for gang in world.gangs)
    rule = PodRule("quota", tuple(domains), present, quota=quota)
    return replace(world, gangs=tuple(gangs), pod_rules=(*world.pod_rules, rule))


@functools.cache
@st.composite
def _pod_rule(draw: st.DrawFn, nodes: int) -> PodRule:
    """Hosts, or a partition of the nodes, some of them perhaps outside; now and then pods of others."""
    label = sampled((0, 0, 1, 1, None))
    said = draw(st.one_of(st.just(list(range(nodes))), st.lists(label, min_size=nodes, max_size=nodes)))
    known = sorted({d for d in said if d is not None})
    kinds: tuple[RuleKind, ...] = ("anti-affinity", "separation", "affinity", "spread")
    kind = draw(sampled(kinds))
    counts = sampled((0, 0, 0, 1, 2))
    present = tuple(draw(counts) for _ in known)
    guards = tuple(draw(counts) for _ in known) if kind == "anti-affinity" and draw(st.booleans()) else ()
    domains = tuple(None if d is None else known.index(d) for d in said)
    return PodRule(kind, domains, present, guards, draw(st.integers(1, 2)), draw(sampled((1, 1, 1, 2, 5))))


@st.composite
def mixed_problems(draw: st.DrawFn) -> Problem:
    """Any policy, and on top of it any of: cells, relations (then at most 3 rigid gangs), strict queues, a domain that
    a queue keeps, nodes that close for gangs of known duration. Nobody is evicted or overdue."""
    related = draw(st.booleans())
    world = draw(problems_under_policies(problems(running="whole gangs", elastic=not related)))
    if related:
        world = draw(with_pod_rules(replace(world, gangs=world.gangs[:3])))
    if draw(st.booleans()):
        world = draw(with_slots(world))
    if draw(st.booleans()):
        world = replace(world, queues=tuple(replace(queue, strict_order=draw(st.booleans())) for queue in world.queues))
    if draw(st.booleans()) and world.hypernodes:
        keeper, domain = draw(st.integers(0, len(world.queues) - 1)), draw(st.integers(0, len(world.hypernodes) - 1))
        world = replace(
            world,
            queues=tuple(
                replace(queue, dedicated_domains=(domain,)) if q == keeper else queue
                for q, queue in enumerate(world.queues)
            ),
        )
    if draw(st.booleans()):
        nodes = tuple(replace(node, maintenance_in=draw(sampled((None, None, 0, 2)))) for node in world.nodes)
        gangs = tuple(with_fields(gang, duration=draw(sampled((None, 2, 2, 3)))) for gang in world.gangs)
        world = replace(world, nodes=nodes, gangs=gangs)
    return world
