"""The problem's resources in their order, and named amounts as vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from compiler.fields.quantity import is_device
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Amounts
from compiler.specs.queue_spec import QueueSpec
from solver.problem import MAX_AMOUNT, Limits, Vector

EPHEMERAL_STORAGE = "ephemeral-storage"
LEADING_RESOURCES = ("cpu", "memory")
"""First in the order of resources; the others follow by name."""


def resource_names(
    gangs: Iterable[GangSpec], queues: Iterable[QueueSpec], nodes: Iterable[NodeSpec], extra: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the resources that a gang requests or a queue limits, and `extra`. Others would only make equal nodes
    differ. Each real node has ephemeral-storage, so it is unknown, and not counted, where none of `nodes` names it."""
    named: set[str] = set(extra)
    for gang in gangs:
        for role in gang.roles:
            named |= role.pod.requests.keys()
    for queue in queues:
        named |= queue.guarantee.keys() | queue.deserved.keys() | queue.capability.keys()
    if not any(EPHEMERAL_STORAGE in node.allocatable for node in nodes):
        named.discard(EPHEMERAL_STORAGE)
    return tuple(sorted(named, key=lambda name: (name not in LEADING_RESOURCES, name)))


def device_resources(names: Sequence[str]) -> tuple[int, ...]:
    """Return indices of the extended resources, whose names have a vendor's domain. They decide whether a node counts
    as unopened, whatever daemons take of the rest."""
    return tuple(r for r, name in enumerate(names) if is_device(name))


def has_other_resources(nodes: Iterable[NodeSpec], names: Collection[str]) -> bool:
    """Return whether some node has a resource outside of `names`, pods aside."""
    known = {*names, "pods"}
    return any(amount and name not in known for node in nodes for name, amount in node.allocatable.items())


def vector(amounts: Amounts, names: Sequence[str]) -> Vector:
    return tuple([amounts.get(name, 0) for name in names])


def limits(amounts: Amounts, names: Sequence[str]) -> Limits:
    """Return the limits, None for an unnamed resource. A limit beyond `MAX_AMOUNT` is cut to it."""
    return tuple(min(amounts[name], MAX_AMOUNT) if name in amounts else None for name in names)


def vector_sum(left: Vector, right: Vector, times: int) -> Vector:
    return tuple([a + times * b for a, b in zip(left, right, strict=True)])
