"""The inputs of every part of lowering: the specs, the cluster's state related to them, the time of the plan, and the
priorities and ages by which gangs are ordered.

The gate of the plugin fairshare keeps jobs out at the action enqueue. Volcano asks in each session. A plan asks once:
with the pods running when it begins, as the session in which it is put into force does. Source: JobEnqueueableFn of
fairshare.go of Volcano 1.16's branch, with the later test of jobs without pods.

Times of gangs and nodes are in seconds from now, with the moments at which a plan's answer may change although nothing
happens. Now is when the cluster was read, or the newest event if that is later. A plan depends on it through
comparisons: has this maintenance ended, has that job waited too long? Each of them turns at one moment, at which
another plan is made.
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
from compiler.kubernetes import SYSTEM_PRIORITIES, Object, status_of
from compiler.lower.origins import TimedEvent
from compiler.lower.reserved_room import ReservedRoom, reserve_room
from compiler.lower.victims import cooldown_ends
from compiler.session import Session
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import PodSpec
from compiler.specs.queue_spec import PriorityClassSpec
from compiler.volcano.fairshare import FairShare, Turn, fair_share, namespace_turns, shares_reached
from solver.problem import GangTimes


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


def gang_times(j: int, spec: GangSpec, observed: ObservedState, submitted_at: int | None, patience: int) -> GangTimes:
    """Return the times of a gang. duration: as the job declares. ends_in: so long after its first pod started; None
    once it should have ended.

    overdue: it does not run at its minimum, and it is promised or has waited longer than the patience. Without a state
    there is no present time, and no gang is overdue. promised: an earlier plan reserved a start, or the plan in force
    has begun to start it.
    """
    running, now = observed.running_pod_count(j), observed.now
    is_late = submitted_at is not None and now is not None and now - submitted_at > patience
    is_waiting = running < max(1, spec.minimum)
    ends_in = _remaining_seconds(j, spec, observed) if running else None
    has_begun = running > 0 and spec.key in observed.jobs.former_places
    promised = is_waiting and (has_begun or j in observed.jobs.reserved_starts)
    return GangTimes(spec.times.expected_duration, ends_in, (is_waiting and is_late) or promised, promised)


def _remaining_seconds(j: int, spec: GangSpec, observed: ObservedState) -> int | None:
    start = observed.started_at(j)
    if start is None or spec.times.expected_duration is None or observed.now is None:
        return None
    remaining = start + spec.times.expected_duration - observed.now
    return remaining if remaining > 0 else None


def maintenance_in(windows: Sequence[tuple[int, int]]) -> int | None:
    """Seconds until the next maintenance of a node with these windows, 0 during one; None if none is to come."""
    return min(start for start, _ in windows) if windows else None


def maintenance_windows(node: NodeSpec, now: int | None) -> tuple[tuple[int, int], ...]:
    """Return the node's maintenance from now on, (from, to) in seconds from now; none without a now."""
    if now is None or not node.maintenance_windows:
        return ()
    return tuple((max(0, start - now), end - now) for start, end in node.maintenance_windows if end > now)


# ---- timed events


def timed_events(
    specs: Specs, observed: ObservedState, gang_indices: Sequence[int], submission_times: Mapping[int, int]
) -> tuple[TimedEvent, ...]:
    """All events, past and to come, in order; their gangs are indices of the problem.

    A gang is overdue the second after its patience is over, and no earlier.
    """
    found = {TimedEvent(end, "maintenance") for node in observed.nodes for _, end in node.maintenance_windows}
    for g, j in enumerate(gang_indices):
        spec, start = specs.gangs[j], observed.started_at(j)
        if start is not None and spec.times.expected_duration is not None:
            found.add(TimedEvent(start + spec.times.expected_duration, "end", g))
        is_waiting = observed.running_pod_count(j) < max(1, spec.minimum)
        if is_waiting and j in submission_times and j not in observed.jobs.reserved_starts:
            found.add(TimedEvent(submission_times[j] + specs.cluster.patience + 1, "patience", g))
        found |= {TimedEvent(end, "cooldown", g) for end in cooldown_ends(j, spec, observed, specs.scheduler)}
    return tuple(sorted(found, key=lambda event: (event.time, event.cause, -1 if event.gang is None else event.gang)))


def upcoming_events(events: Sequence[TimedEvent], now: int | None) -> tuple[TimedEvent, ...]:
    """Return the events after `now` at which a waiting gang may start; none without a `now`."""
    return () if now is None else tuple(event for event in events if event.time > now)
