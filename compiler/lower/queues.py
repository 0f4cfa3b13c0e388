"""Queue documents -> the queue tree, with the two queues that Volcano makes by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from compiler.lower.resources import limits, vector
from compiler.specs import Amounts, QueueSpec
from solver.problem import Queue

ROOT_QUEUE, DEFAULT_QUEUE = "root", "default"


def lower_queues(
    specs: Sequence[QueueSpec],
    default_queue: str,
    used_by_queue: Mapping[str, Amounts],
    names: Sequence[str],
    closed_queues: Collection[str] = (),
) -> tuple[tuple[Queue, ...], tuple[QueueSpec | None, ...]]:
    """The declared queues in their order, then `root` and the default queue if nobody declared them.

    Volcano creates both at its start; a queue without a parent hangs under the root. Second result: where each came
    from. closed: queues that the cluster has closed, whatever their documents say. Weights of a hierarchy are counted
    in thousandths.
    """
    declared = {spec.name for spec in specs}
    implied = [name for name in dict.fromkeys((ROOT_QUEUE, DEFAULT_QUEUE, default_queue)) if name not in declared]
    index = {name: q for q, name in enumerate([*(spec.name for spec in specs), *implied])}
    made = [
        Queue(
            spec.name,
            None if spec.name == ROOT_QUEUE else index.get(spec.parent or ROOT_QUEUE, index[ROOT_QUEUE]),
            spec.weight,
            spec.priority,
            limits(spec.guarantee, names),
            limits(spec.deserved, names),
            limits(spec.capability, names),
            vector(used_by_queue.get(spec.name, {}), names),
            spec.open and spec.name not in closed_queues,
            _hierarchy_path(spec, specs),
            spec.reclaimable,
            spec.strict_order,
        )
        for spec in specs
    ]
    unset = (None,) * len(names)
    made += [
        Queue(
            name,
            None if name == ROOT_QUEUE else index[ROOT_QUEUE],
            1,
            0,
            unset,
            unset,
            unset,
            vector(used_by_queue.get(name, {}), names),
            name not in closed_queues,
        )
        for name in implied
    ]
    return tuple(made), (*specs, *(None for _ in implied))


def _hierarchy_path(spec: QueueSpec, specs: Sequence[QueueSpec]) -> tuple[tuple[str, int], ...]:
    """As written; beside queues that have a way, one without stands right below the root with its own weight."""
    if not any(other.hierarchy for other in specs):
        return ()
    return tuple((name, round(1000 * weight)) for name, weight in spec.hierarchy or ((spec.name, spec.weight),))
