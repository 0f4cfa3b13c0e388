"""Everything that one reconciler holds: its settings, its connections and its memory. The phases of a pass are in
`reconciler.loop`."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reconciler import guard
from reconciler.act import ChangeResult, ClusterWriter, WriterMemory
from reconciler.cluster.client import Client, Resource
from reconciler.cluster.inventory import Inventory, InventoryStore
from reconciler.cluster.lease import Lease
from reconciler.cluster.objects import CLUSTER_LABEL, Object, Ref, ref_of
from reconciler.cluster.watch import Informer
from reconciler.compile_child import CompileProcess, Snapshot
from reconciler.diff import Change, DesiredObject
from reconciler.git.mirror import Mirror
from reconciler.git.poller import GitPoller
from reconciler.observe import STATE_KINDS, Fingerprint, Observation
from reconciler.publish.status import Metrics, StatusPublisher

log = logging.getLogger(__name__)

CLEANUP_MARGIN = 0.5


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator says. Times in seconds. allow_prune, allow_rewrite: a commit that may delete beyond the limit,
    or replace another history."""

    repo: str
    branch: str
    cluster: str
    namespace: str
    data: Path
    auth: Path | None = None
    poll: float = 30.0
    bind_timeout: float = 120.0
    allow_prune: str = ""
    allow_rewrite: str = ""
    listen: str = ""
    executor: str = "processes"


@dataclass(slots=True)
class InformerSet:
    """An informer for each kind of the state, and one, with our label, for each other kind that a plan holds."""

    client: Client
    cluster: str
    wake: Callable[[], None]
    informers: dict[str, Informer] = field(default_factory=dict)
    deleted_objects: list[tuple[Object, bool]] = field(default_factory=list)

    def start(self) -> None:
        for api, kind in STATE_KINDS:
            self._add_informer(self.client.resource(api, kind), "")

    def watch_kinds_of(self, refs: set[Ref]) -> None:
        """Watch the kinds of these objects as well. Raises NotFound for a kind that is not served."""
        for api, kind in sorted({(ref.api_version, ref.kind) for ref in refs}):
            if Ref(api, kind, "", "").group_kind not in self.informers:
                informer = self._add_informer(self.client.resource(api, kind), f"{CLUSTER_LABEL}={self.cluster}")
                informer.wait_for_list(10)

    def _add_informer(self, resource: Resource, selector: str) -> Informer:
        informer = Informer(
            self.client, resource, self.wake, selector, lambda thing, seen: self.deleted_objects.append((thing, seen))
        )
        self.informers[Ref(resource.api_version, resource.kind, "", "").group_kind] = informer
        informer.start()
        return informer

    def wait_for_lists(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for informer in self.informers.values():
            informer.wait_for_list(max(0.0, deadline - time.monotonic()))

    def observe(self, suspects: frozenset[str]) -> Observation:
        objects: dict[str, Object] = {}
        problems = []
        for kind, informer in sorted(self.informers.items()):
            if not informer.health.is_synced:
                problems.append(f"{kind} cannot be read: {informer.health.problem or 'no list has come yet'}")
            for thing in informer.items().values():
                objects[ref_of(thing).key] = thing
        read = frozenset(kind for kind, informer in self.informers.items() if informer.health.is_synced)
        return Observation(objects, read, tuple(problems), suspects)

    def stop(self) -> None:
        for informer in self.informers.values():
            informer.stop()


@dataclass(frozen=True, slots=True)
class Rejection:
    """What a commit's compile came to that gave no plan to apply. since: when; at: when it may be tried again although
    nothing changed, both on the clock.

    rested: what it rested on in the cluster, and the moment that had come.
    """

    snapshot: Snapshot
    rejected_at: float
    retry_at: float
    rests_on: tuple[Fingerprint | None, int | None]

    @property
    def first_error(self) -> Mapping[str, Any] | None:
        """The first one."""
        return next((found for found in self.snapshot.diagnostics if found["severity"] == "error"), None)


@dataclass(slots=True)
class PlanningState:
    """The plan in force and what is known about others.

    snapshot: the last good one. base: what its plan rests on. under_way: what the compile that runs was begun for:
    commit, sight, finished jobs, and the moment that had come. rejected: by commit. digests: job -> digest of its run
    in the newest commit that compiled. wanted: what the manifests of `wanted_of` come to, by their id(). calm: object
    -> for which wish and sight of it there was nothing to do.
    """

    snapshot: Snapshot | None = None
    base_fingerprint: Fingerprint | None = None
    running_compile: tuple[str, Observation, frozenset[str], int | None] | None = None
    rejections: dict[str, Rejection] = field(default_factory=dict)
    run_digests: dict[str, str] = field(default_factory=dict)
    desired_snapshot: Snapshot | None = None
    desired_objects: dict[int, DesiredObject] = field(default_factory=dict)
    unchanged: dict[str, tuple[DesiredObject, tuple[object, ...]]] = field(default_factory=dict)


@dataclass(slots=True)
class Reconciler:
    settings: Settings
    client: Client
    mirror: Mirror
    poller: GitPoller
    watches: InformerSet
    store: InventoryStore
    writer: ClusterWriter
    lease: Lease
    compiler: CompileProcess
    publisher: StatusPublisher
    metrics: Metrics
    wake_event: threading.Event
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    """Seconds since the epoch; only to see which of a plan's moments have come."""
    planning: PlanningState = field(default_factory=PlanningState)
    inventory: Inventory | None = None
    unbound_since: dict[str, float] = field(default_factory=dict)
    suspect_nodes: dict[str, float] = field(default_factory=dict)
    departed_jobs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Job -> when it was seen to be gone, and when the last of its pods was seen (on the clock)."""
    last_good_pass: float = 0.0
    was_holder: bool = False
    """Whether the lease was ours when the last pass began; the inventory is read afresh until then."""


@dataclass(slots=True)
class Pass:
    """What the phases of one pass hand to one another."""

    observation: Observation
    inventory: Inventory
    target_commit: str = ""
    rewrite_message: str = ""
    snapshot: Snapshot | None = None
    current_fingerprint: Fingerprint | None = None
    desired_objects: list[DesiredObject] = field(default_factory=list)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    former_job_keys: set[str] = field(default_factory=set)
    results: list[ChangeResult] = field(default_factory=list)
    held_changes: list[Change] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    prune_plan: guard.PrunePlan = field(default_factory=guard.PrunePlan)
    lifted_gates: dict[str, int] = field(default_factory=dict)
    evicted_pods: list[str] = field(default_factory=list)
    events: list[tuple[Object, str, str, bool]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def build_reconciler(settings: Settings, client: Client, identity: str) -> Reconciler:
    """Put the parts together; nothing is started and nothing is sent yet. Raises GitError for an address that git is
    never given."""
    woken, metrics = threading.Event(), Metrics()
    mirror = Mirror(settings.repo, settings.branch, settings.data / "mirror.git", settings.auth)
    lease = Lease(
        client, settings.namespace, f"gangplan-{settings.cluster}", identity, on_change=lambda held: woken.set()
    )
    store = InventoryStore(client, settings.namespace, settings.cluster)
    return Reconciler(
        settings=settings,
        client=client,
        mirror=mirror,
        poller=GitPoller(mirror, settings.poll, woken.set),
        watches=InformerSet(client, settings.cluster, woken.set),
        store=store,
        writer=ClusterWriter(client, store, lease.is_held, time.monotonic, WriterMemory()),
        lease=lease,
        compiler=CompileProcess(settings.data / "compile", woken.set),
        publisher=StatusPublisher(client, settings.namespace, settings.cluster, identity),
        metrics=metrics,
        wake_event=woken,
    )


def load_identity(data: Path) -> str:
    """Names this reconciler to the lease. It lives in the data folder, which one process holds alone: a restart there
    goes on at once, while a replica with another folder waits until the lease has run out."""
    import socket
    import uuid

    path = data / "identity"
    try:
        return str(json.loads(path.read_text()))
    except (OSError, ValueError):
        name = f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(name))
        return name


def is_plan_fresh(w: Reconciler, p: Pass) -> bool:
    return (
        p.snapshot is not None
        and p.snapshot.commit == p.target_commit
        and p.current_fingerprint == w.planning.base_fingerprint
        and due_moment(w) is None
    )


def due_moment(w: Reconciler) -> int | None:
    """The latest moment that has come since the plan was made at which the answer may have changed although nothing
    happened."""
    moments = w.planning.snapshot.moments if w.planning.snapshot else ()
    return max((at for at in moments if at <= w.wall_clock()), default=None)


def recreate_time(gone: float, last_pod: float) -> float:
    """When a job may be created again under the name of one that is gone.

    Volcano's job controller retries its clean-up of a deleted job with doubling pauses, so one more retry may come as
    long after the last pod as the pods took to end, and it would make the controller forget a new job of the same name
    (pkg/controllers/cache, processCleanupJob).
    """
    return last_pod + (last_pod - gone) + CLEANUP_MARGIN
