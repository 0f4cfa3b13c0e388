"""The inputs of the order of gangs: the priorities of their classes, and their ages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.cluster_state.observed import ObservedState
from compiler.kubernetes import SYSTEM_PRIORITIES
from compiler.specs.gang_spec import GangSpec
from compiler.specs.queue_spec import PriorityClassSpec
from compiler.volcano.fairshare import Turn


def class_priorities(classes: Sequence[PriorityClassSpec]) -> tuple[Mapping[str, int], int]:
    """Value by class name, and the value of a job that names none: the global default's (the highest, if several claim
    to be it), else 0."""
    values = {**SYSTEM_PRIORITIES, **{spec.name: spec.value for spec in classes}}
    return values, max((spec.value for spec in classes if spec.global_default), default=0)


def submission_times(gangs: Sequence[GangSpec], observed: ObservedState, dates: Mapping[str, int]) -> Mapping[int, int]:
    """Return seconds since the epoch: the job's own time, else when it was created in the cluster, else in the
    repository."""
    known: dict[int, int] = {}
    for j, spec in enumerate(gangs):
        for time in (spec.times.submitted_at, observed.jobs.creation_times.get(j), dates.get(spec.document.file)):
            if time is not None:
                known[j] = time
                break
    return known


def age_ranks(
    gangs: Sequence[GangSpec], times: Mapping[int, int], turns: Mapping[tuple[str, str], Turn]
) -> Mapping[int, int]:
    """Ranks from 0, the oldest first; gangs of unknown age come last, and equal ones by name.

    turns: (queue, namespace) -> its turn in the queue by the plugin fairshare: the gangs of such a queue share their
    ranks by turn, then age.
    """

    def order(j: int) -> tuple[bool, int, str, str, str]:
        spec = gangs[j]
        return j not in times, times.get(j, 0), spec.namespace, spec.document.name, spec.document.kind

    by_age = sorted(range(len(gangs)), key=order)
    ranks = {j: rank for rank, j in enumerate(by_age)}
    for queue in {queue for queue, _ in turns}:
        members = [j for j in by_age if gangs[j].queue == queue]
        in_turn = sorted(members, key=lambda j: turns[queue, gangs[j].namespace].place)
        ranks |= dict(zip(in_turn, [ranks[j] for j in members], strict=True))
    return ranks
