"""The inputs of every part of lowering: the specs, the cluster's state related to them, and the time of the plan.

The gate of the plugin fairshare keeps jobs out at the action enqueue. Volcano asks in each session. A plan asks once:
with the pods running when it begins, as the session in which it is put into force does. Source: JobEnqueueableFn of
fairshare.go of Volcano 1.16's branch, with the later test of jobs without pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.observed import ObservedState, observe_state
from compiler.cluster_state.pod_records import gang_identity, group_identities
from compiler.fields.quantity import amounts_sum, rounded_amount
from compiler.kubernetes import Object, status_of
from compiler.lower.gang_order import submission_times
from compiler.lower.origins import TimedEvent
from compiler.lower.reserved_room import ReservedRoom, reserve_room
from compiler.lower.time import timed_events
from compiler.session import Session
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec
from compiler.specs.pod_spec import PodSpec
from compiler.volcano.fairshare import FairShare, Turn, fair_share, namespace_turns, shares_reached


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


Amounts = dict[tuple[str, str], Counter[str]]
"""(queue, namespace) -> resource -> amount."""


def gated_gangs(
    plugin: FairShare,
    specs: Specs,
    state: ClusterState,
    observed: ObservedState,
    running: Amounts,
    candidates: Collection[int],
) -> Mapping[int, str]:
    """Gang -> why the gate keeps it out, of those without pods on nodes that no session has admitted yet.

    running: of each queue and namespace. candidates: the gangs that are planned.
    """
    if not plugin.gates:
        return {}
    asked = _asked(specs.gangs, observed, candidates)
    reached = shares_reached(plugin, asked, running, _totals(specs, observed, plugin, asked))
    admitted = _admitted(specs.gangs, state)
    found = {}
    for j in candidates:
        gang = specs.gangs[j]
        share = reached.get((gang.queue, gang.namespace))
        if share is None or j in admitted or observed.running_pod_count(j):
            continue
        if not any(role.pod.requests.get(share.resource) for role in gang.roles if role.replicas):
            continue
        held, most = (rounded_amount(share.resource, amount) for amount in (share.running, int(share.share)))
        found[j] = (
            f"the gate of fairshare keeps it out: namespace {gang.namespace} runs {held} {share.resource} "
            f"in queue {gang.queue}, and its share is {most}"
        )
    return found


def _asked(gangs: tuple[GangSpec, ...], observed: ObservedState, candidates: Iterable[int]) -> Amounts:
    """Return the requests of pods on no node: all of a job whose pods exist, else those of its minimum."""
    found: Amounts = {}
    for j in candidates:
        gang, running = gangs[j], Counter[int]()
        for (t, _), pods in observed.running_pods.get(j, {}).items():
            running[t] += pods
        amounts = found.setdefault((gang.queue, gang.namespace), Counter())
        for t, role in enumerate(gang.roles):
            pods = (role.replicas if j in observed.jobs.with_pods else role.minimum) - running[t]
            amounts.update({name: max(0, pods) * amount for name, amount in role.pod.requests.items()})
    return found


def _totals(specs: Specs, observed: ObservedState, plugin: FairShare, asked: Amounts) -> Mapping[str, int]:
    """Queue -> its capability of the resource that the plugin counts, where it has one above 0, else the cluster's."""
    limits = {queue.name: queue.capability for queue in specs.queues}
    whole: Mapping[str, int] = {}
    for node in observed.nodes:
        whole = amounts_sum(whole, node.allocatable)
    resources = {queue: plugin.resource_of(queue) for queue, _ in asked}
    return {queue: limits.get(queue, {}).get(name) or whole.get(name, 0) for queue, name in resources.items()}


def _admitted(gangs: tuple[GangSpec, ...], state: ClusterState) -> set[int]:
    """Return the gangs whose PodGroup is past the action enqueue."""
    index = {gang_identity(gang): j for j, gang in enumerate(gangs)}
    past = (group for group in state.pod_groups if status_of(group).get("phase") not in (None, "", "Pending"))
    owners = (owner for group in past for owner in group_identities(group))
    return {index[owner] for owner in owners if owner in index}
