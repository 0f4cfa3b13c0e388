"""What one reconciler is made of: its parts, its hands and its voices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reconciler.cluster.client import Client
from reconciler.cluster.lease import Fence, Lease
from reconciler.inventory.keeper import InventoryKeeper
from reconciler.objects.part import ObjectsPart
from reconciler.observation.informers import InformerSet
from reconciler.ownership.part import OwnershipPart
from reconciler.part import Part
from reconciler.planning.controller import PlanningPart
from reconciler.pods.part import PodsPart
from reconciler.report.events import EventWriter
from reconciler.report.metrics import Metrics
from reconciler.report.status import StatusPublisher
from reconciler.report.tracing import Tracing
from reconciler.requests.part import RequestsPart
from reconciler.runs.part import RunsPart
from reconciler.scheduler.part import SchedulerPart
from reconciler.settings import Settings
from reconciler.threads.heartbeat import LoopPulse
from reconciler.threads.rest import Interval
from reconciler.threads.wake import WakeEvent
from reconciler.timings import Timings


@dataclass(frozen=True, slots=True)
class Hands:
    """What the loop works with. clock: seconds, of this process. wall_clock: seconds since the epoch."""

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
    """Only the loop, what is above it, and the assembly know them all."""

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
