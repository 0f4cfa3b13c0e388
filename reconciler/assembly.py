"""Puts a reconciler together: makes its parts, and gives each its client, clock, writer and timings."""

from __future__ import annotations

import time
from functools import partial

from reconciler.changes.desired import DesiredManifests
from reconciler.cluster.client import Client
from reconciler.cluster.lease import Fence, Lease
from reconciler.cluster.rate import RateLimit
from reconciler.cluster.write_threads import WriteThreads
from reconciler.git.mirror import GitPoller, Mirror
from reconciler.inventory.keeper import InventoryKeeper
from reconciler.inventory.store import InventoryStore
from reconciler.loop import Hands, Parts, Voices
from reconciler.objects.differ import Differ
from reconciler.objects.part import Corrections, ObjectsPart
from reconciler.objects.writer import ClusterWriter
from reconciler.observation.informers import InformerSet
from reconciler.observation.own_writes import OwnWrites
from reconciler.ownership.part import OwnershipPart
from reconciler.planning.branch import Branch
from reconciler.planning.candidate import Candidacy
from reconciler.planning.cluster_copy import PlanCopy
from reconciler.planning.compile.process import CompileProcess, WorkerState
from reconciler.planning.controller import PlanningGiven, PlanningPart
from reconciler.planning.dry_run import DryRun
from reconciler.planning.namespace_use import NamespaceUse
from reconciler.pods.departures import PodEvictor
from reconciler.pods.lifts import GateLifter
from reconciler.pods.part import PodsPart
from reconciler.pods.writes import PodWrites
from reconciler.report.events import EventWriter
from reconciler.report.metrics import Metrics
from reconciler.report.status import StatusPublisher
from reconciler.report.tracing import open_tracing
from reconciler.requests.part import RequestsPart, RequestStore
from reconciler.runs.part import RunsPart
from reconciler.scheduler.configuration import SchedulerProbe
from reconciler.scheduler.part import SchedulerPart
from reconciler.settings import Settings
from reconciler.threads.heartbeat import Heartbeat, LoopPulse
from reconciler.threads.rest import Interval, WakeEvent
from reconciler.timings import TIMINGS, Timings


def build_parts(settings: Settings, client: Client, identity: str, timings: Timings = TIMINGS) -> Parts:
    """Put the parts together; nothing is started or sent. Raises GitError for an address that git is never given."""
    wake, clock = WakeEvent(), time.monotonic
    name = f"gangplan-{settings.cluster}"
    lease = Lease(client, settings.namespace, name, identity, timings.lease, on_change=lambda _: wake.set())
    fence = Fence(lease)
    client.ask_before_writes(fence.check)
    store = InventoryStore(client, settings.namespace, settings.cluster, timings.inventory)
    own = OwnWrites()
    watching = Client(client.connect, timings.client)
    watches = InformerSet(watching, settings.cluster, wake.set, wake.stirred.set, own=own, timings=timings.watch)
    keeper = InventoryKeeper(store, lease, fence, clock)
    pulse = LoopPulse(Heartbeat("loop", timings.loop.heartbeat_limit))
    housekeeping = Interval(timings.housekeeping, clock)
    hands = Hands(settings, timings, client, watches, lease, fence, keeper, wake, pulse, housekeeping, clock, time.time)
    threads = WriteThreads(timings.writes, wake.set)
    writer = ClusterWriter(client, store, clock, own, timings=timings.objects, threads=threads)
    event_rate = RateLimit(timings.report.events_per_second, timings.report.event_burst, timings=timings.rate)
    event_client = side_client(hands, event_rate)
    publisher = StatusPublisher(client, settings.namespace, settings.cluster, timings=timings.report)
    events = EventWriter(event_client, identity, timings.report)
    voices = Voices(publisher, events, Metrics(), open_tracing(settings.traces, settings.cluster))
    desired = DesiredManifests(client, settings.cluster)
    planning = make_planning(hands, voices, desired)
    request_store = RequestStore(side_client(hands), settings.namespace, settings.cluster)
    requests = RequestsPart(request_store, wake.set, timings.requests)
    probe = SchedulerProbe(settings.scheduler_metrics, wake.set, timings=timings.scheduler)
    corrections = Corrections(watches, writer, wake.set, partial(voices.metrics.time_phase, "drift"))
    return Parts(
        planning,
        requests,
        RunsPart(client.find, clock, wake.set, timings.runs, timings.look_ups),
        OwnershipPart(
            settings.cluster,
            client.find,
            writer,
            lambda: planning.branch.head,
            publisher.ref,
            publisher.read_annotations,
            requests.hold_reason,
            clock,
            timings.ownership,
            timings.look_ups,
        ),
        SchedulerPart(probe, settings.scheduler_timeout, timings.scheduler),
        make_pods(hands, writer),
        ObjectsPart(writer, Differ(desired, writer, watches), corrections, wake.set),
        hands,
        voices,
    )


def make_planning(hands: Hands, voices: Voices, desired: DesiredManifests) -> PlanningPart:
    settings, timings, wake = hands.settings, hands.timings, hands.wake
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

    def note_compile(commit: str, seconds: float, result: str) -> None:
        voices.metrics.record_compile(seconds, result)
        voices.tracing.record("compile", seconds, commit=commit)

    use = NamespaceUse(side_client(hands).find_by_list)
    poller = GitPoller(mirror, settings.poll, wake.set, voices.metrics.record_fetch, timings.git)
    return PlanningPart(
        PlanningGiven(
            settings.cluster,
            settings.executor,
            hands.wall_clock,
            note_compile,
            wake.hurry,
            use,
            hands.watches.hold_out,
            timings.planning,
        ),
        Branch(
            poller,
            mirror,
            voices.publisher.read_annotations,
            voices.publisher.remove_annotation,
            voices.publisher.ref.name,
        ),
        CompileProcess(settings.data / "compile", wake.hurry, timings.compile, pages=settings.pages),
        Candidacy(partial(DryRun, side_client(hands), wake.hurry, timings=timings.dry_run), desired),
        PlanCopy(side_client(hands), settings.namespace, settings.cluster, timings.plan_copy),
        worker_state=WorkerState(timings.compile),
    )


def make_pods(hands: Hands, writer: ClusterWriter) -> PodsPart:
    settings, timings, wake = hands.settings, hands.timings.pods, hands.wake.set
    writes = PodWrites(hands.client, writer.threads, writer.own, writer.is_out_of_time)
    lifter = GateLifter(writes, writer.try_to_save, hands.clock, wake, timings)
    patience = settings.bind_timeout, settings.node_timeout
    return PodsPart(lifter, PodEvictor(writes, hands.client, *patience, hands.clock, wake, timings), hands.clock)


def side_client(hands: Hands, rate: RateLimit | None = None) -> Client:
    """Return a client of the same server, as fenced, for a thread other than the loop's."""
    client = hands.client
    return Client(client.connect, hands.timings.client, fence=hands.fence.check, rate=rate or client.rate)
