"""The inputs of every part of lowering: the specs, the cluster's state related to them, and the time of the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.observed import ObservedState, observe_state
from compiler.kubernetes import Object
from compiler.lower.enqueue_gate import Amounts, gated_gangs
from compiler.lower.gang_order import submission_times
from compiler.lower.origins import TimedEvent
from compiler.lower.reserved_room import ReservedRoom, reserve_room
from compiler.lower.time import timed_events
from compiler.session import Session
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec
from compiler.specs.pod_spec import PodSpec
from compiler.volcano.fairshare import Turn, fair_share, namespace_turns


@dataclass(frozen=True)
class LoweringInputs:
    """gang_indices: the gangs of the problem, as indices into `specs.gangs`. submission_times: index into `specs.gangs`
    -> seconds since the epoch. events: all times at which something changes by itself. reserved_rooms: room kept for
    declared pods that no plan places, counted in `observed` as held. turns: as of `age_ranks`. run_records: as of
    `ClusterState`."""

    specs: Specs
    observed: ObservedState
    gang_indices: tuple[int, ...]
    submission_times: Mapping[int, int]
    events: tuple[TimedEvent, ...]
    reserved_rooms: tuple[ReservedRoom, ...] = ()
    turns: Mapping[tuple[str, str], Turn] = field(default_factory=dict)
    run_records: Sequence[Object] = ()
    session: Session = field(default_factory=Session)

    @cached_property
    def gangs(self) -> tuple[GangSpec, ...]:
        """Return the gangs of the problem."""
        return tuple(self.specs.gangs[j] for j in self.gang_indices)

    def pods(self) -> Iterator[PodSpec]:
        for gang in self.gangs:
            for role in gang.roles:
                yield role.pod


def lowering_inputs(specs: Specs, state: ClusterState | None, dates: Mapping[str, int]) -> LoweringInputs:
    """Return the state observed. Gangs that finished, are held, suspended or have no pods are left out."""
    state = state or ClusterState()
    observed = observe_state(specs, state)
    rooms = reserve_room(specs, observed)
    left_out = observed.jobs.finished | observed.jobs.held.keys()
    plannable = (j for j, gang in enumerate(specs.gangs) if is_plannable(gang))
    chosen = tuple(j for j in plannable if j not in left_out)
    submitted = submission_times(specs.gangs, observed, dates)
    turns: Mapping[tuple[str, str], Turn] = {}
    if (plugin := fair_share(specs.cluster, specs.scheduler)) is not None:
        running = _running_amounts(specs, observed)
        observed.jobs.hold(gated := gated_gangs(plugin, specs, state, observed, running, chosen))
        chosen = tuple(j for j in chosen if j not in gated)
        if plugin.orders_jobs:
            turns = namespace_turns(plugin, state.config_maps, running, observed.now)
    events = timed_events(specs, observed, chosen, submitted)
    return LoweringInputs(specs, observed, chosen, submitted, events, rooms, turns, state.run_records, state.session)


def _running_amounts(specs: Specs, observed: ObservedState) -> Amounts:
    """Return the requests of pods on nodes, by queue and namespace."""
    running = {(gang.queue, gang.namespace): Counter[str]() for gang in specs.gangs}
    for j, places in observed.running_pods.items():
        gang = specs.gangs[j]
        for (t, _), pods in places.items():
            requests = gang.roles[t].pod.requests
            running[gang.queue, gang.namespace].update({name: pods * amount for name, amount in requests.items()})
    for key, amounts in observed.foreign.namespace_used.items():
        running.setdefault(key, Counter()).update(amounts)
    return running


def is_plannable(gang: GangSpec) -> bool:
    """Return whether its owner lets it run, under this scheduler, and it has pods."""
    return gang.scheduling.schedulable and any(role.replicas for role in gang.roles)
