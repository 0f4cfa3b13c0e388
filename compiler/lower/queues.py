"""Queue documents -> the queue tree, with the two queues that Volcano makes by itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from compiler.lower.resources import limits, vector
from compiler.specs import Amounts, QueueSpec
from solver.problem import Queue

ROOT, DEFAULT = "root", "default"


def queues(
    specs: Sequence[QueueSpec],
    default: str,
    used: Mapping[str, Amounts],
    names: Sequence[str],
    closed: Collection[str] = (),
) -> tuple[tuple[Queue, ...], tuple[QueueSpec | None, ...]]:
    """The declared queues in their order, then `root` and the default queue if nobody declared them.

    Volcano creates both at its start; a queue without a parent hangs under the root. Second result: where each came
    from. closed: queues that the cluster has closed, whatever their documents say. Weights of a hierarchy are counted
    in thousandths.
    """
    declared = {spec.name for spec in specs}
    implied = [name for name in dict.fromkeys((ROOT, DEFAULT, default)) if name not in declared]
    index = {name: q for q, name in enumerate([*(spec.name for spec in specs), *implied])}
    made = [
        Queue(
            spec.name,
            None if spec.name == ROOT else index.get(spec.parent or ROOT, index[ROOT]),
            spec.weight,
            spec.priority,
            limits(spec.guarantee, names),
            limits(spec.deserved, names),
            limits(spec.capability, names),
            vector(used.get(spec.name, {}), names),
            spec.open and spec.name not in closed,
            _hierarchy(spec, specs),
            spec.reclaimable,
            spec.strict,
        )
        for spec in specs
    ]
    unset = (None,) * len(names)
    made += [
        Queue(
            name,
            None if name == ROOT else index[ROOT],
            1,
            0,
            unset,
            unset,
            unset,
            vector(used.get(name, {}), names),
            name not in closed,
        )
        for name in implied
    ]
    return tuple(made), (*specs, *(None for _ in implied))


def _hierarchy(spec: QueueSpec, specs: Sequence[QueueSpec]) -> tuple[tuple[str, int], ...]:
    """As written; beside queues that have a way, one without stands right below the root with its own weight."""
    if not any(other.hierarchy for other in specs):
        return ()
    return tuple((name, round(1000 * weight)) for name, weight in spec.hierarchy or ((spec.name, spec.weight),))
