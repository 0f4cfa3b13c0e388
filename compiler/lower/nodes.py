"""Nodes of the specs as nodes of the problem: classes, capacities, and what other pods leave free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import sub

from compiler.kubernetes import ALWAYS_COMPARED, DEFAULT_PODS_PER_NODE
from compiler.lower.device_slots import SlotHolder, node_slots
from compiler.lower.inputs import LoweringInputs, maintenance_in, maintenance_windows
from compiler.lower.resources import vector, vector_sum
from compiler.lower.slot_groups import SlotGroups
from compiler.lower.topology import leaf_by_node
from compiler.specs.eligibility import NodeClasses, classify_nodes, is_away, node_kinds, returned_node
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Amounts
from solver.problem import MAX_AMOUNT, Node, ReturningNode, Vector

SlotHolders = Mapping[int, tuple[SlotHolder, ...]]
"""Node -> the pods that certainly hold certain of its slots."""


def node_classes(inputs: LoweringInputs, slot_groups: SlotGroups) -> NodeClasses:
    """Return the classes of the nodes as they are and, after them, of those that are away after their return."""
    nodes = inputs.observed.nodes
    returned = [returned_node(node) for node in nodes if is_away(node)]
    requirements = map(slot_groups.node_requirement, inputs.pods())
    return classify_nodes((*nodes, *returned), requirements, slot_groups.numa_aware)


def lower_nodes(
    inputs: LoweringInputs, classes: NodeClasses, slot_groups: SlotGroups, names: Sequence[str]
) -> tuple[tuple[Node, ...], SlotHolders]:
    """Capacity less what other pods hold; and the certain holders of device slots.

    A node may have less than our running pods hold. One that is not ready offers what they fill of what it has.
    """
    room = _NodeRoom(inputs, names)
    if slot_groups.names:
        return _lower_nodes(inputs, classes, slot_groups, room)
    observed = inputs.observed
    has_windows = any(spec.maintenance_windows for spec in observed.nodes)
    parts = (
        *(observed.nodes, observed.hypernodes, observed.foreign.amounts, observed.unready_nodes),
        *(observed.now if has_windows else None, room.held_by_gangs, tuple(names)),
        *(classes.class_by_node, classes.classes_by_requirement.keys()),
    )
    return inputs.session.last("lowered nodes", parts, lambda: _lower_nodes(inputs, classes, slot_groups, room))


def _lower_nodes(
    inputs: LoweringInputs, classes: NodeClasses, slot_groups: SlotGroups, room: _NodeRoom
) -> tuple[tuple[Node, ...], SlotHolders]:
    specs, leaf = inputs.observed.nodes, leaf_by_node(inputs.observed.hypernodes)
    returning = (spec.name for spec in specs if is_away(spec))
    class_when_back = dict(zip(returning, classes.class_by_node[len(specs) :], strict=True))
    kinds, names = node_kinds(specs, classes), room.names
    nodes: list[Node] = []
    holders: dict[int, tuple[SlotHolder, ...]] = {}
    for n, (spec, node_class) in enumerate(zip(specs, classes.class_by_node, strict=False)):
        capacity, free = room.capacity_and_free(n, spec)
        slots, holding = node_slots(slot_groups, spec, inputs.observed.pods_on(n), names)
        back = None
        if is_away(spec):
            back = ReturningNode(class_when_back[spec.name], capacity, free, slots)
        if spec.name in inputs.observed.unready_nodes:
            free = capacity = tuple(map(min, room.amounts_held(n), capacity))
            slots = tuple(replace(slot, free=(0,) * len(names)) for slot in slots)
        elif holding:
            holders[n] = holding
        windows = maintenance_windows(spec, inputs.observed.now)
        nodes.append(
            Node(
                spec.name,
                node_class,
                leaf.get(spec.name),
                capacity,
                free,
                slots,
                maintenance_in(windows),
                back,
                windows,
                kind=kinds[n],
            )
        )
    return tuple(nodes), holders


class _NodeRoom:
    """Capacities and free amounts; nodes with equal amounts, of which a pool has thousands, are computed once."""

    def __init__(self, inputs: LoweringInputs, names: Sequence[str]) -> None:
        self.names, self.foreign_amounts = names, inputs.observed.foreign.amounts
        self._nothing = vector({}, names)
        # Sums over the cluster stay below it: what one node has beyond its part of that is more than any job asks for.
        self._most = MAX_AMOUNT // max(1, len(inputs.observed.nodes))
        self.held_by_gangs = _gang_amounts_by_node(inputs, names)
        self._capacities: dict[tuple[tuple[str, int], ...], Vector] = {}
        self._known: dict[tuple[Vector, Vector, Vector], tuple[Vector, Vector]] = {}
        self._always_compared = [r for r, name in enumerate(names) if name in ALWAYS_COMPARED]
        self._pods = [r for r, name in enumerate(names) if name == "pods"]

    def amounts_held(self, n: int) -> Vector:
        """Return the amounts that the running pods of the problem's gangs hold there."""
        return self.held_by_gangs.get(n, self._nothing)

    def capacity_and_free(self, n: int, spec: NodeSpec) -> tuple[Vector, Vector]:
        """Return what the node has, as Volcano sums it for queues, and what other pods leave of it. Less than our
        running pods hold where a device was lost under them: what one of them returns pays for that first. Both are
        more than the node has where our pods request less than their roles, by whose sizes they count.

        Where all pods hold more CPU or memory than there is, Volcano binds no pod, also none that asks for neither
        (`Resource.LessEqual` of pkg/scheduler/api): no more pods fit than run.
        """
        capacity, held, foreign = self._capacity(spec.allocatable), self.amounts_held(n), self._nothing
        if n in self.foreign_amounts:
            foreign = vector(self.foreign_amounts[n], self.names)
        key = capacity, held, foreign
        if key not in self._known:
            left = tuple(map(sub, capacity, foreign))
            is_full = any(left[r] < held[r] for r in self._always_compared if capacity[r])
            cut = self._pods if is_full else ()
            free = tuple(max(0, min(left[r], held[r]) if r in cut else left[r]) for r in range(len(left)))
            self._known[key] = tuple(map(max, capacity, free)), free
        return self._known[key]

    def _capacity(self, allocatable: Amounts) -> Vector:
        key = tuple(allocatable.items())
        if key not in self._capacities:
            amounts = vector({"pods": DEFAULT_PODS_PER_NODE, **allocatable}, self.names)
            self._capacities[key] = tuple(min(max(0, amount), self._most) for amount in amounts)
        return self._capacities[key]


def _gang_amounts_by_node(inputs: LoweringInputs, names: Sequence[str]) -> dict[int, Vector]:
    """Node -> what the running pods of the problem's gangs hold there."""
    held: dict[int, Vector] = {}
    products: dict[tuple[Vector, int], Vector] = {}
    nothing = vector({}, names)
    for gang, j in zip(inputs.gangs, inputs.gang_indices, strict=True):
        running = inputs.observed.running_pods.get(j)
        if running is None:
            continue
        requests = [vector(role.pod.requests, names) for role in gang.roles]
        for (t, n), pods in running.items():
            key = requests[t], pods
            if key not in products:
                products[key] = vector_sum(nothing, *key)
            held[n] = vector_sum(held[n], products[key], 1) if n in held else products[key]
    return held
