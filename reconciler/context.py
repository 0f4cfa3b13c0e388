"""Everything that one reconciler holds: its settings, its connections and its memory. The phases of a pass are in
`reconciler.loop`."""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from compiler.emit.manifest import Manifest
from reconciler.changes.allowed import Allowed, Changes, PrunePlan
from reconciler.changes.desired import DesiredManifests
from reconciler.changes.diff import Change
from reconciler.changes.effects import Effects
from reconciler.changes.events import ObjectEvent
from reconciler.changes.planned_runs import PlannedRuns
from reconciler.changes.results import ChangeResult
from reconciler.cluster.client import REQUEST_LIMITS, Client
from reconciler.cluster.lease import Fence, Lease
from reconciler.cluster.objects import Object, Ref
from reconciler.cluster.rate import RateLimit
from reconciler.git.mirror import Mirror
from reconciler.git.poller import GitPoller
from reconciler.inventory.keeper import InventoryKeeper
from reconciler.inventory.store import Inventory, InventoryStore
from reconciler.objects.pace import CorrectionPace, StartPace
from reconciler.objects.writer import MANY_CHANGES, ClusterWriter
from reconciler.observation.informers import InformerSet
from reconciler.observation.observe import Observation
from reconciler.observation.own_writes import OwnWrites
from reconciler.observation.seen import Seen
from reconciler.ownership.part import OwnershipPart, Releases
from reconciler.part import Part
from reconciler.planning.branch import Branch
from reconciler.planning.candidate import Candidacy
from reconciler.planning.cluster_copy import PlanCopy
from reconciler.planning.compile.process import CompileProcess
from reconciler.planning.compile.worker_state import WorkerState
from reconciler.planning.controller import PlanningGiven, PlanningPart
from reconciler.planning.dry_run import DryRun
from reconciler.planning.snapshot import Snapshot
from reconciler.planning.target import Target
from reconciler.pods.departures import PodEvictor
from reconciler.pods.lifts import GateLifter
from reconciler.pods.part import PodsPart
from reconciler.pods.writes import PodWrites
from reconciler.report.events import EventWriter
from reconciler.report.metrics import Metrics
from reconciler.report.status import StatusPublisher
from reconciler.report.tracing import Tracing, open_tracing
from reconciler.requests.part import RequestsPart
from reconciler.requests.store import Requests, RequestStore
from reconciler.runs.part import RunsPart
from reconciler.scheduler.part import SchedulerPart
from reconciler.scheduler.probe import SchedulerProbe
from reconciler.threads.heartbeat import Heartbeat
from reconciler.threads.wake import WakeEvent
from reconciler.timings import TIMINGS, Timings

LOOP_LIMIT = 150.0
"""Seconds within which the loop shows that it turns: between two passes, two phases, and two writes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's options; times in seconds. git_max_size: MiB. git_trusted_keys, git_ignored_faults: as in
    `reconciler.git.mirror.Mirror`."""

    repo: str
    branch: str
    cluster: str
    namespace: str
    data: Path
    auth: Path | None = None
    poll: float = 30.0
    bind_timeout: float = 120.0
    node_timeout: float = 60.0
    listen: str = ""
    executor: str = "processes"
    git_max_size: int = 512
    git_trusted_keys: Path | None = None
    git_ignored_faults: tuple[str, ...] = ()
    webhook: str = ""
    webhook_secret: Path | None = None
    scheduler_metrics: str = ""
    scheduler_timeout: float = 180.0
    traces: str = ""


@dataclass(frozen=True, slots=True)
class DriftBasis:
    """What the last pass found, by which single objects are put back before the next one. targets: Ref.key -> the
    manifest of an object that was as planned; others are left to a pass."""

    snapshot: Snapshot
    inventory: Inventory
    requests: Requests
    targets: Mapping[str, Manifest]


@dataclass(slots=True)
class Reconciler:
    """One reconciler: its parts, and what it remembers between passes.

    wall_clock: seconds since the epoch, only to see which of a plan's moments have come.
    drift_basis: None while only a pass may write. correction_pace: of objects that are put back between passes.
    other_heartbeats: of threads that are no parts of it.
    """

    settings: Settings
    timings: Timings
    client: Client
    watches: InformerSet
    store: InventoryStore
    keeper: InventoryKeeper
    writer: ClusterWriter
    lease: Lease
    fence: Fence
    planning: PlanningPart
    desired: DesiredManifests
    requests: RequestsPart
    scheduler: SchedulerPart
    pods: PodsPart
    runs: RunsPart
    ownership: OwnershipPart
    publisher: StatusPublisher
    event_writer: EventWriter
    metrics: Metrics
    tracing: Tracing
    wake_event: WakeEvent
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    pace: StartPace = field(default_factory=StartPace)
    drift_basis: DriftBasis | None = None
    correction_pace: CorrectionPace = field(default_factory=lambda: CorrectionPace(MANY_CHANGES))
    last_good_pass: float = 0.0
    heartbeat: Heartbeat = field(default_factory=lambda: Heartbeat("loop", LOOP_LIMIT))
    other_heartbeats: list[Heartbeat] = field(default_factory=list)
    next_housekeeping: float = 0.0

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.planning, self.requests, self.runs, self.ownership, self.scheduler, self.pods

    def allow_corrections(self, basis: DriftBasis) -> None:
        """Let single objects be put back between this pass and the next."""
        self.drift_basis = basis

    def forbid_corrections(self) -> None:
        """Leave all writes to passes."""
        self.drift_basis = None

    def watch_over(self, *heartbeats: Heartbeat) -> None:
        """Count these heartbeats with those of the parts."""
        self.other_heartbeats += heartbeats

    def record_good_pass(self) -> None:
        self.last_good_pass = time.monotonic()

    def begin_housekeeping(self, interval: float) -> bool:
        """Whether a round of housekeeping is due; the next one is after `interval` seconds."""
        if self.clock() < self.next_housekeeping:
            return False
        self.next_housekeeping = self.clock() + interval
        return True


@dataclass(slots=True)
class Pass:
    """The data that the phases of one pass share.

    suspended_keys: Ref.key of what is left alone. manifests: Ref.key -> each of `desired_manifests`. desired_keys: of
    all that the plan declares, also where no manifest of it can be made. pods: Ref.key of a live job -> its pods.
    former_job_keys: of jobs that are gone or were replaced, and still have pods. obstructed_changes: of objects that
    could not be looked at, with the reason in each. unconfirmed_ends: job -> why it is not known whether it is gone.
    standstill: why nothing at all may be written."""

    observation: Observation
    inventory: Inventory
    target: Target = field(default_factory=Target)
    snapshot: Snapshot | None = None
    suspended_keys: set[str] = field(default_factory=set)
    desired_manifests: list[Manifest] = field(default_factory=list)
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    desired_keys: set[str] = field(default_factory=set)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    former_job_keys: set[str] = field(default_factory=set)
    results: list[ChangeResult] = field(default_factory=list)
    held_changes: list[Change] = field(default_factory=list)
    obstructed_changes: list[Change] = field(default_factory=list)
    unconfirmed_ends: dict[str, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    prune_plan: PrunePlan = field(default_factory=PrunePlan)
    lifted_gates: dict[str, int] = field(default_factory=dict)
    evicted_pods: list[str] = field(default_factory=list)
    events: list[ObjectEvent] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    standstill: str = ""

    def look_at_pods(self, observation: Observation) -> None:
        """Go on with what pods and nodes mean for the plan."""
        self.observation = observation
        self.pods, self.former_job_keys = observation.pods_by_job

    def take(self, effects: Effects) -> None:
        """Add what the act of a part did."""
        self.results += effects.results
        self.held_changes += effects.held
        for key, count in effects.lifted.items():
            self.lifted_gates[key] = self.lifted_gates.get(key, 0) + count
        self.evicted_pods += effects.evicted
        self.events += effects.events
        self.problems += effects.problems

    def follow(self, target: Target) -> None:
        """Set what the pass aims at."""
        self.target, self.snapshot = target, target.snapshot
        self.problems = [*dict.fromkeys((*self.problems, *target.problems))]

    def take_manifests(self, refs: Sequence[Ref], manifests: list[Manifest]) -> None:
        """Set what the cluster is to hold."""
        self.desired_manifests = manifests
        self.manifests = {ref.key: manifest for ref, manifest in zip(refs, manifests, strict=True)}
        self.desired_keys |= self.manifests.keys()

    def declare(self, ref: Ref) -> None:
        """Note that the plan has this object, whichever namespace it means by none."""
        self.desired_keys |= {ref.key, ref._replace(namespace=ref.namespace or "default").key}

    def leave_alone(self, keys: set[str]) -> None:
        """Set what is suspended."""
        self.suspended_keys = keys

    def add_change(self, change: Change) -> None:
        """Put a change among those to be written, or those that are held."""
        (self.held_changes if change.action in ("held", "forbidden") else self.changes).append(change)

    def keep_changes(self, changes: list[Change]) -> None:
        """Leave only these of the changes to be written."""
        self.changes = changes

    def obstruct(self, ref: Ref, reason: str, desired: Manifest | None = None) -> None:
        """Hold an object that could not be looked at."""
        self.obstructed_changes.append(Change("held", ref, desired, reason=reason))

    def doubt_end(self, key: str, reason: str) -> None:
        """Note why it is not known whether a job is gone."""
        self.unconfirmed_ends[key] = reason

    def allow(self, allowed: Allowed) -> None:
        """Go on with what may be written."""
        self.changes, self.obstructed_changes = list(allowed.changes.due), list(allowed.changes.obstructed)
        self.prune_plan, self.standstill = allowed.prune_plan, allowed.standstill

    def record_results(self, results: Iterable[ChangeResult]) -> None:
        self.results += results


def build_reconciler(settings: Settings, client: Client, identity: str, timings: Timings = TIMINGS) -> Reconciler:
    """Put the parts together; nothing is started and nothing is sent yet. Raises GitError for an address that git is
    never given, CannotStartError where the packages for traces are missing."""
    wake = WakeEvent()
    metrics = Metrics()
    mirror = Mirror(
        settings.repo,
        settings.branch,
        settings.data / "mirror.git",
        settings.auth,
        size_limit=settings.git_max_size << 20,
        trusted_keys=settings.git_trusted_keys,
        ignored_faults=settings.git_ignored_faults,
        timings=timings.git,
    )
    lease_name = f"gangplan-{settings.cluster}"
    lease = Lease(client, settings.namespace, lease_name, identity, on_change=lambda held: wake.set())
    fence = Fence(lease)
    client.ask_before_writes(fence.check)
    store = InventoryStore(client, settings.namespace, settings.cluster, timings.inventory)
    own = OwnWrites()
    writer = ClusterWriter(client, store, time.monotonic, own)
    writer.threads.tell_ends(wake.set)
    save = partial(_save_inventory, writer)
    pod_writes = PodWrites(client, writer.threads, own, writer.is_out_of_time)
    lifter = GateLifter(pod_writes, save, time.monotonic, wake.set, timings.pods)
    evictor = PodEvictor(
        pod_writes, client, settings.bind_timeout, settings.node_timeout, time.monotonic, wake.set, timings.pods
    )
    poller = GitPoller(mirror, settings.poll, wake.set, metrics.record_fetch, timings.git)
    publisher = StatusPublisher(client, settings.namespace, settings.cluster, timings=timings.report)
    requests = RequestsPart(
        RequestStore(_side_client(client, fence), settings.namespace, settings.cluster), wake.set, timings.requests
    )
    event_client = _side_client(client, fence, RateLimit(timings.report.events_per_second, timings.report.event_burst))
    tracing, desired = open_tracing(settings.traces, settings.cluster), DesiredManifests(client, settings.cluster)

    def note_compile(commit: str, seconds: float, result: str) -> None:
        metrics.record_compile(seconds, result)
        tracing.record("compile", seconds, commit=commit)

    planning = PlanningPart(
        PlanningGiven(
            settings.cluster,
            settings.data / "snapshot.json",
            settings.executor,
            time.time,
            note_compile,
            wake.hurry,
            timings.planning,
        ),
        Branch(poller, mirror, publisher.read_annotations, publisher.ref.name),
        CompileProcess(settings.data / "compile", wake.hurry, timings.compile),
        Candidacy(DryRun(_side_client(client, fence), wake.hurry, timings=timings.dry_run), desired),
        PlanCopy(_side_client(client, fence), settings.namespace, settings.cluster, timings.plan_copy),
        worker_state=WorkerState(timings.compile),
    )
    return Reconciler(
        settings=settings,
        timings=timings,
        client=client,
        watches=InformerSet(client.with_limits(REQUEST_LIMITS), settings.cluster, wake.set, wake.stirred.set, own=own),
        store=store,
        keeper=InventoryKeeper(store, lease, fence, time.monotonic),
        writer=writer,
        lease=lease,
        fence=fence,
        planning=planning,
        desired=desired,
        requests=requests,
        scheduler=SchedulerPart(
            client,
            Ref("v1", "ConfigMap", settings.namespace, f"gangplan-{settings.cluster}-scheduler"),
            settings.cluster,
            SchedulerProbe(settings.scheduler_metrics, wake.set, timings=timings.scheduler),
            settings.scheduler_timeout,
            timings.scheduler,
        ),
        runs=RunsPart(client.find, time.monotonic, wake.set, timings.runs),
        pods=PodsPart(lifter, evictor, time.monotonic),
        ownership=OwnershipPart(
            settings.cluster,
            client.find,
            writer,
            lambda: poller.head,
            Releases(publisher.ref, publisher.read_annotations, mirror.is_parent),
            requests.hold_reason,
            time.monotonic,
            timings.ownership,
        ),
        publisher=publisher,
        event_writer=EventWriter(event_client, identity, lambda: writer.busy_at, timings=timings.report),
        metrics=metrics,
        tracing=tracing,
        wake_event=wake,
    )


def _save_inventory(writer: ClusterWriter, inventory: Inventory) -> ChangeResult | None:
    """Store the inventory; the result where that failed."""
    trouble = writer.save_inventory(inventory)
    return writer.record_failed_save(trouble) if trouble else None


def _side_client(client: Client, fence: Fence, rate: RateLimit | None = None) -> Client:
    """A client of the same server for a thread beside the loop, as fenced as the loop's."""
    return Client(client.connect, REQUEST_LIMITS, fence=fence.check, rate=rate or client.rate)


def load_identity(data: Path) -> str:
    """The name of this reconciler to the lease, made on first use. It lives in the data folder, which one process holds
    alone: a restart there goes on at once, while a replica with another folder waits until the lease has run out."""
    path = data / "identity"
    try:
        return str(json.loads(path.read_text()))
    except (OSError, ValueError):
        name = f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(name))
        return name


def planned_runs(r: Reconciler) -> PlannedRuns:
    """Which run of each job is to be now, by the plan in force."""
    jobs = r.planning.snapshot.jobs if r.planning.snapshot else {}
    over = r.keeper.inventory.last_runs(jobs) if r.keeper.inventory else {}
    return PlannedRuns(jobs, r.requests.current().reruns, over)


def seen_by(r: Reconciler, p: Pass) -> Seen:
    """What the pass has seen, as the parts take it."""
    return Seen(
        r.clock(),
        r.wall_clock(),
        r.keeper.is_leading,
        p.observation,
        p.inventory,
        r.keeper.leads_since,
        p.unconfirmed_ends,
    )


def changes_of(p: Pass) -> Changes:
    """What the pass is to write, as the parts take it."""
    return Changes(tuple(p.changes), tuple(p.held_changes), tuple(p.obstructed_changes), p.desired_keys)


def target_of(r: Reconciler, p: Pass) -> Target:
    """What the pass aims at, as the parts take it."""
    return replace(p.target, snapshot=p.snapshot, problems=tuple(p.problems))
