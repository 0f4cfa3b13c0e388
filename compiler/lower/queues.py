"""Queues as a tree, with the two that Volcano creates by itself."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cluster_state.observed import ObservedState
from compiler.kubernetes import DEFAULT_QUEUE, ROOT_QUEUE
from compiler.lower.resources import limits, vector
from compiler.specs.cluster_spec import Specs
from compiler.specs.namespace_queues import lacks_cluster_queues, queues_not_ready
from compiler.specs.queue_spec import QueueSpec
from solver.problem import Queue, Vector


def lower_queues(
    specs: Specs, observed: ObservedState, names: Sequence[str]
) -> tuple[tuple[Queue, ...], tuple[QueueSpec | None, ...]]:
    """Return the declared queues in order, then `root` and the default queue if undeclared, each with its spec.

    Volcano creates both at its start; a queue without a parent is below the root. Queues that the cluster has closed
    are closed whatever their documents declare, and so are NamespaceQueues that do not become ready, or below such. In
    the repository of a tenant the queues of the cluster that jobs name count as undeclared. Weights of a hierarchy are
    counted in thousandths.
    """
    declared = [spec.name for spec in specs.queues]
    elsewhere = (gang.queue for gang in specs.gangs if gang.queue) if lacks_cluster_queues(specs.queues) else ()
    created = dict.fromkeys((ROOT_QUEUE, DEFAULT_QUEUE, specs.cluster.default_queue, *elsewhere))
    implied = [name for name in created if name not in declared]
    index = {name: q for q, name in enumerate([*declared, *implied])}

    def used(name: str) -> Vector:
        # Lighter pods may leave more of their role's requests than others use: a queue uses no less than 0.
        return tuple(max(0, amount) for amount in vector(observed.foreign.queue_used.get(name, {}), names))

    not_ready = queues_not_ready(specs.queues)
    local = {spec.name: spec for spec in specs.queues if spec.namespace}

    def is_open(spec: QueueSpec) -> bool:
        is_shut = not spec.open or spec.name in not_ready or spec.name in observed.closed_queues
        above = local.get(spec.parent or "") if spec.namespace else None
        return not is_shut and (above is None or is_open(above))

    queues = [
        Queue(
            spec.name,
            None if spec.name == ROOT_QUEUE else index.get(spec.parent or ROOT_QUEUE, index[ROOT_QUEUE]),
            spec.weight,
            spec.priority,
            limits(spec.guarantee, names),
            limits(spec.deserved, names),
            limits(spec.capability, names),
            used(spec.name),
            is_open(spec),
            _hierarchy_path(spec, specs.queues),
            spec.reclaimable,
            spec.strict_order,
        )
        for spec in specs.queues
    ]
    unset = (None,) * len(names)
    for name in implied:
        parent = None if name == ROOT_QUEUE else index[ROOT_QUEUE]
        accepts = name not in observed.closed_queues
        queues.append(Queue(name, parent, 1, 0, unset, unset, unset, used(name), accepts))
    return tuple(queues), (*specs.queues, *(None for _ in implied))


def _hierarchy_path(spec: QueueSpec, specs: Sequence[QueueSpec]) -> tuple[tuple[str, int], ...]:
    """As declared; among queues with a hierarchy, one without is a child of the root with its own weight."""
    if not any(other.hierarchy for other in specs):
        return ()
    return tuple((name, round(1000 * weight)) for name, weight in spec.hierarchy or ((spec.name, spec.weight),))
