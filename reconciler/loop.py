"""One pass: observe -> compile -> diff -> guard -> act -> report, all about one observation of the cluster.

Level-triggered: a pass examines the current state, never a change, so it may be repeated, skipped or interrupted
anywhere. Each step takes values and returns one; they share nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from reconciler.changes.results import Allowed, ChangeResult, Changes, Effects
from reconciler.cluster.client import Client
from reconciler.cluster.lease import Fence, Lease
from reconciler.cluster.objects import group_kind_of
from reconciler.inventory.keeper import InventoryKeeper
from reconciler.inventory.store import Inventory
from reconciler.objects.differ import Fates, withhold_waiting_jobs
from reconciler.objects.part import Basis, ObjectsPart
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Restrictions, Seen
from reconciler.ownership.part import OwnershipPart
from reconciler.part import Part
from reconciler.planning.branch import Target
from reconciler.planning.controller import PlanningPart
from reconciler.pods.lifts import Orders
from reconciler.pods.part import PodsPart
from reconciler.report.events import EventWriter
from reconciler.report.metrics import Metrics
from reconciler.report.outcome import Outcome, report_of
from reconciler.report.status import Report, StatusPublisher
from reconciler.report.tracing import Tracing
from reconciler.requests.part import SUSPENDED, RequestsPart
from reconciler.runs.part import RunsPart
from reconciler.scheduler.part import SchedulerPart
from reconciler.settings import Settings
from reconciler.threads.heartbeat import LoopPulse
from reconciler.threads.rest import Interval, WakeEvent
from reconciler.timings import Timings


@dataclass(frozen=True, slots=True)
class Hands:
    """The tools of the loop. clock: seconds, of this process. wall_clock: seconds since the epoch."""

    settings: Settings
    timings: Timings
    client: Client
    watches: InformerSet
    lease: Lease
    fence: Fence
    keeper: InventoryKeeper
    wake: WakeEvent
    pulse: LoopPulse
    housekeeping: Interval
    clock: Callable[[], float]
    wall_clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class Voices:
    publisher: StatusPublisher
    event_writer: EventWriter
    metrics: Metrics
    tracing: Tracing


@dataclass(frozen=True, slots=True)
class Parts:
    """All parts; only the loop, the layers above it, and the assembly know them all."""

    planning: PlanningPart
    requests: RequestsPart
    runs: RunsPart
    ownership: OwnershipPart
    scheduler: SchedulerPart
    pods: PodsPart
    objects: ObjectsPart
    hands: Hands
    voices: Voices

    @property
    def all(self) -> tuple[Part, ...]:
        return self.planning, self.requests, self.runs, self.ownership, self.scheduler, self.pods, self.objects


def reconcile_once(parts: Parts) -> Report:
    """Make one pass. Raises ApiError without an inventory, LostLease when another replica took over."""
    phase = partial(_phase, parts.hands, parts.voices)
    parts.objects.corrections.forbid()
    with phase("observe"):  # 1
        seen, settled = observe(parts)
    with phase("compile"):  # 2
        seen, target = follow(parts, seen)
    with phase("diff"):  # 3
        changes = differ(parts, seen, target)
    with phase("guard"):  # 4
        allowed = parts.ownership.guard(changes, seen, target)
    with phase("act"):  # 5 the only phase that writes
        done = act(parts, _now(parts.hands, seen), target, allowed, settled)
        keep_house(parts, seen, target, allowed)
        parts.objects.corrections.note_pass(basis(parts), allowed, done)
    with phase("report"):  # 6
        parts.voices.metrics.prune_held.set(len(allowed.prune_plan.held_changes))
        parts.voices.metrics.suspects.set(parts.pods.suspects())
        return report(parts, _now(parts.hands, seen), target, allowed, done)


@contextmanager
def _phase(hands: Hands, voices: Voices, name: str) -> Iterator[None]:
    with voices.metrics.time_phase(name), voices.tracing.span(name):
        yield
    hands.pulse.heartbeat.beat()


def _now(hands: Hands, seen: Seen) -> Seen:
    """Return the same at the time that it is now: a step before may have waited for the API server."""
    return replace(seen, now=hands.clock(), wall_now=hands.wall_clock())


# --- 1 observe


def observe(parts: Parts) -> tuple[Seen, Effects]:
    """Return the observation with the inventory updated from it, and the effects of deferred writes."""
    hands, planning = parts.hands, parts.planning
    inventory = hands.keeper.take_up(partial(_go_on_with, parts))
    hands.watches.watch_kinds(kinds_in_use(planning.kinds, inventory), planning.job_kinds)
    hands.watches.expect_kinds({entry.ref.group_kind for entry in inventory.entries.values() if entry.uid})
    ended = parts.objects.writer.settle()  # before the observation: they are laid over it
    observation, now, wall_now = hands.watches.observe(Restrictions()), hands.clock(), hands.wall_clock()
    keeper, snapshot = hands.keeper, planning.snapshot
    seen = Seen(now, wall_now, keeper.is_leading, observation, inventory, keeper.leads_since, keeper.others_led_until)
    parts.pods.observe(observation)
    settled = Effects(tuple(each for each in ended if isinstance(each, ChangeResult))) + parts.pods.settle(ended, seen)
    jobs = [gang.job for gang in snapshot.gangs.values()] if snapshot else []
    held_up = {job.key: observation.held_up[job.key] for job in jobs if job.key in observation.held_up}
    absent = [job.key for job in jobs if job.key not in observation.objects]
    refused = parts.objects.writer.memory.lastingly_refused(absent, now)
    without_pods = parts.pods.missing.with_refusals(parts.runs.lost_jobs.refused_jobs)
    unmarked = parts.objects.unmarked_jobs(jobs, seen)
    held = {**refused, **without_pods, **unmarked, **held_up, **parts.requests.suspended_jobs(jobs)}
    restrictions = parts.pods.restrictions(observation, snapshot, held, wall_now)
    seen = replace(seen, observation=observation.with_restrictions(restrictions))
    runs = planning.runs(inventory, parts.requests.current().reruns)
    parts.runs.record_deletions(seen, runs, hands.watches.take_deletions())
    parts.ownership.confirm_entries(seen, runs)
    parts.runs.record_ends(seen, runs)
    return seen, settled


def _go_on_with(parts: Parts, inventory: Inventory, is_leading: bool) -> None:
    """Restore the state that depends on an inventory just read."""
    parts.pods.lifter.believe_starts()
    parts.planning.take_up(inventory)
    parts.scheduler.recall(inventory)
    if is_leading:
        parts.hands.watches.read_pods()
        parts.voices.publisher.recheck()


def kinds_in_use(declared: Collection[tuple[str, str]], inventory: Inventory) -> frozenset[tuple[str, str]]:
    """Kinds, by (apiVersion, kind), of plans, and of what we have made and no plan has. Where a plan has a kind its
    version counts."""
    known = {group_kind_of(api, kind) for api, kind in declared}
    made = (entry.ref for entry in inventory.entries.values() if entry.uid)
    return frozenset(declared).union((ref.api_version, ref.kind) for ref in made if ref.group_kind not in known)


# --- 2 compile


def follow(parts: Parts, seen: Seen) -> tuple[Seen, Target]:
    """Return the target of the pass; the plan now in force enters runs that ended unobserved."""
    target, reruns = parts.planning.follow(seen), parts.requests.current().reruns
    doubts = parts.runs.record_unobserved_ends(seen, parts.planning.runs(seen.inventory, reruns))
    seen = replace(seen, doubts=doubts)
    is_free = not parts.pods.awaits_evictions
    return seen, parts.planning.renew(seen, target, reruns, parts.runs.lost_jobs.given_up, is_free)


# --- 3 diff


def differ(parts: Parts, seen: Seen, target: Target) -> Changes:
    if target.snapshot is None:
        return Changes()
    diff, lost_jobs = parts.objects.differ, parts.runs.lost_jobs
    wanted = diff.collect(target.snapshot, target.runs, parts.scheduler.standing)
    suspended = parts.requests.suspended_keys({key: each.object for key, each in wanted.manifests.items()})
    parts.runs.observe_lost_jobs(seen, wanted.items)
    parts.scheduler.observe(seen, target, lost_jobs.repeats, parts.pods.evictor.binding.unbound_since)
    fates = Fates(
        lambda job: lost_jobs.message(job, seen.now),
        parts.runs.departed_jobs.times,
        dict.fromkeys(suspended, SUSPENDED),
    )
    return withhold_waiting_jobs(diff.changes(wanted, seen, target, fates), seen, target.snapshot)


# --- 5 act


def act(parts: Parts, seen: Seen, target: Target, allowed: Allowed, settled: Effects) -> Effects:
    """Write to the cluster, and return the effects including the settled ones. LostLease interrupts it anywhere, as a
    kill would."""
    objects, snapshot, done = parts.objects, target.snapshot, settled
    if not seen.is_leading or not parts.hands.fence.is_open() or snapshot is None or allowed.standstill:
        return done
    done += objects.begin(seen, snapshot)
    changes = objects.next_changes(allowed, seen, snapshot)
    parts.ownership.announce_deletions(changes, seen, allowed.prune_plan)
    done += objects.apply(changes, seen, snapshot, done)
    parts.runs.record_results(done.results)
    done += parts.ownership.prune(allowed, seen, done.results)
    done += parts.scheduler.follow(seen, target, done.results)
    is_current = snapshot.gated and not seen.observation.problems
    if is_current and target.fingerprint is not None and target.base is not None:
        retries = parts.requests.current().retries
        left_alone = allowed.changes.suspended | seen.observation.held_up.keys()
        orders = Orders(left_alone, retries, objects.pace.is_holding)
        done += parts.pods.act(_now(parts.hands, seen), target, orders)
    return done + objects.save(seen.inventory)


def keep_house(parts: Parts, seen: Seen, target: Target, allowed: Allowed) -> None:
    """Let the parts forget deleted objects. The holder of the lease stores a copy of the plan, and keeps the inventory
    complete."""
    if target.snapshot is None:
        return
    hands, inventory, declared = parts.hands, seen.inventory, allowed.changes.declared
    acts = seen.is_leading and hands.lease.is_held() and not allowed.standstill
    if acts:
        parts.planning.keep_copy(inventory, hands.clock())
    if not hands.housekeeping.has_come():
        return
    known = declared | inventory.entries.keys() | {hands.keeper.store.ref.key}
    for part in parts.all:
        part.forget_except(known)
    if acts:
        parts.planning.copy.recheck()
        hands.keeper.keep_whole(inventory, declared | seen.observation.objects.keys(), int(hands.wall_clock()))
        parts.voices.publisher.recheck()


def basis(parts: Parts) -> Basis | None:
    """By what single objects may be put back now; None where this replica does not lead, or has no plan."""
    keeper, snapshot = parts.hands.keeper, parts.planning.snapshot
    if snapshot is None or keeper.inventory is None or not keeper.is_leading or not parts.hands.fence.is_open():
        return None
    return Basis(snapshot, keeper.inventory, parts.requests.current())


# --- 6 report


def report(parts: Parts, seen: Seen, target: Target, allowed: Allowed, done: Effects) -> Report:
    observation, requests = seen.observation, parts.requests
    problems = dict.fromkeys((*observation.problems, *target.problems, *parts.planning.problems))
    outcome = Outcome(
        seen,
        parts.planning.verdict(target),
        allowed,
        done,
        parts.objects.writer.memory.failures,
        tuple(parts.pods.unplaced_jobs(observation)),
        parts.scheduler.stalled(seen, target),
        frozenset(requests.current().suspended | allowed.changes.suspended),
        (*problems, *observation.partial_problems, *filter(None, [requests.problem])),
        parts.hands.timings.report,
    )
    conditions = (
        *parts.objects.conditions(seen.now),
        *parts.scheduler.conditions(seen, target),
        *parts.pods.conditions(),
    )
    deadlines = [at for part in parts.all for at in part.deadlines(seen.now)]
    is_busy = parts.planning.is_busy or parts.pods.is_busy() or parts.objects.is_busy(allowed, done.results)
    return report_of(outcome, conditions, deadlines, parts.voices.publisher.event_object, is_busy=is_busy)
