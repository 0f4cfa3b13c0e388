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

from compiler.repository import Repository
from reconciler import guard
from reconciler.apply import Actor, Done, Memory
from reconciler.compile_child import Compiler, Snapshot
from reconciler.drift import Change, Wanted
from reconciler.git import GitError, Mirror
from reconciler.inventory import Inventory, Store
from reconciler.kube import Client, Resource
from reconciler.lease import Lease
from reconciler.objects import CLUSTER_LABEL, Object, Ref, ref_of
from reconciler.observe import STATE_KINDS, Fingerprint, Seen
from reconciler.report import Metrics, Publisher
from reconciler.watch import Informer

log = logging.getLogger(__name__)

SETTLE = 0.5


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


@dataclass(frozen=True, slots=True)
class Head:
    """The branch as last fetched. problem: why it could not be fetched; commit and tree are then the last that could."""

    commit: str = ""
    tree: Repository | None = None
    problem: str = ""


class Poller:
    """A thread that fetches the branch again and again; `wake` is called when the head or the problem changes."""

    def __init__(self, mirror: Mirror, every: float, wake: Callable[[], None]) -> None:
        self.mirror, self.every, self.wake = mirror, every, wake
        self.head = Head()
        self.first = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="git", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def poll(self) -> None:
        before = self.head
        try:
            commit = self.mirror.fetch()
            fresh = before if commit == before.commit and not before.problem else Head(commit, self.mirror.read(commit))
        except (GitError, OSError) as error:
            fresh = Head(before.commit, before.tree, str(error))
        self.head = fresh
        self.first.set()
        if fresh != before:
            self.wake()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.poll()
            self._stop.wait(self.every)


@dataclass(slots=True)
class Watches:
    """An informer for each kind of the state, and one, with our label, for each other kind that a plan holds."""

    client: Client
    cluster: str
    wake: Callable[[], None]
    informers: dict[str, Informer] = field(default_factory=dict)
    vanished: list[tuple[Object, bool]] = field(default_factory=list)

    def start(self) -> None:
        for api, kind in STATE_KINDS:
            self._add(self.client.resource(api, kind), "")

    def cover(self, refs: set[Ref]) -> None:
        """Watch the kinds of these objects as well. Raises NotFound for a kind that is not served."""
        for api, kind in sorted({(ref.api_version, ref.kind) for ref in refs}):
            if Ref(api, kind, "", "").group_kind not in self.informers:
                informer = self._add(self.client.resource(api, kind), f"{CLUSTER_LABEL}={self.cluster}")
                informer.wait(10)

    def _add(self, resource: Resource, selector: str) -> Informer:
        informer = Informer(
            self.client, resource, self.wake, selector, lambda thing, seen: self.vanished.append((thing, seen))
        )
        self.informers[Ref(resource.api_version, resource.kind, "", "").group_kind] = informer
        informer.start()
        return informer

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for informer in self.informers.values():
            informer.wait(max(0.0, deadline - time.monotonic()))

    def look(self, suspects: frozenset[str]) -> Seen:
        objects: dict[str, Object] = {}
        problems = []
        for kind, informer in sorted(self.informers.items()):
            if not informer.health.synced:
                problems.append(f"{kind} cannot be read: {informer.health.problem or 'no list has come yet'}")
            for thing in informer.items().values():
                objects[ref_of(thing).key] = thing
        read = frozenset(kind for kind, informer in self.informers.items() if informer.health.synced)
        return Seen(objects, read, tuple(problems), suspects)

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
    since: float
    at: float
    rested: tuple[Fingerprint | None, int | None]

    @property
    def error(self) -> Mapping[str, Any] | None:
        """The first one."""
        return next((found for found in self.snapshot.diagnostics if found["severity"] == "error"), None)


@dataclass(slots=True)
class Planning:
    """The plan in force and what is known about others.

    snapshot: the last good one. base: what its plan rests on. under_way: what the compile that runs was begun for:
    commit, sight, finished jobs, and the moment that had come. rejected: by commit. digests: job -> digest of its run
    in the newest commit that compiled. wanted: what the manifests of `wanted_of` come to, by their id(). calm: object
    -> for which wish and sight of it there was nothing to do.
    """

    snapshot: Snapshot | None = None
    base: Fingerprint | None = None
    under_way: tuple[str, Seen, frozenset[str], int | None] | None = None
    rejected: dict[str, Rejection] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    wanted_of: Snapshot | None = None
    wanted: dict[int, Wanted] = field(default_factory=dict)
    calm: dict[str, tuple[Wanted, tuple[object, ...]]] = field(default_factory=dict)


@dataclass(slots=True)
class World:
    settings: Settings
    client: Client
    mirror: Mirror
    poller: Poller
    watches: Watches
    store: Store
    actor: Actor
    lease: Lease
    compiler: Compiler
    publisher: Publisher
    metrics: Metrics
    woken: threading.Event
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Seconds since the epoch; only to see which of a plan's moments have come."""
    planning: Planning = field(default_factory=Planning)
    inventory: Inventory | None = None
    unbound_since: dict[str, float] = field(default_factory=dict)
    suspects: dict[str, float] = field(default_factory=dict)
    departed: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Job -> when it was seen to be gone, and when the last of its pods was seen (on the clock)."""
    last_good: float = 0.0
    holder: bool = False
    """Whether the lease was ours when the last pass began; the inventory is read afresh until then."""


@dataclass(slots=True)
class Pass:
    """What the phases of one pass hand to one another."""

    seen: Seen
    inventory: Inventory
    target: str = ""
    rewritten: str = ""
    snapshot: Snapshot | None = None
    current: Fingerprint | None = None
    wanted: list[Wanted] = field(default_factory=list)
    pods: dict[str, list[Object]] = field(default_factory=dict)
    former: set[str] = field(default_factory=set)
    done: list[Done] = field(default_factory=list)
    held: list[Change] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    prunes: guard.Prunes = field(default_factory=guard.Prunes)
    lifted: dict[str, int] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)
    events: list[tuple[Object, str, str, bool]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def build(settings: Settings, client: Client, identity: str) -> World:
    """Put the parts together; nothing is started and nothing is sent yet. Raises GitError for an address that git is
    never given."""
    woken, metrics = threading.Event(), Metrics()
    mirror = Mirror(settings.repo, settings.branch, settings.data / "mirror.git", settings.auth)
    lease = Lease(
        client, settings.namespace, f"gangplan-{settings.cluster}", identity, changed=lambda held: woken.set()
    )
    store = Store(client, settings.namespace, settings.cluster)
    return World(
        settings=settings,
        client=client,
        mirror=mirror,
        poller=Poller(mirror, settings.poll, woken.set),
        watches=Watches(client, settings.cluster, woken.set),
        store=store,
        actor=Actor(client, store, lease.held, time.monotonic, Memory()),
        lease=lease,
        compiler=Compiler(settings.data / "compile", woken.set),
        publisher=Publisher(client, settings.namespace, settings.cluster, identity),
        metrics=metrics,
        woken=woken,
    )


def identity(data: Path) -> str:
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


def fresh(w: World, p: Pass) -> bool:
    return p.snapshot is not None and p.snapshot.commit == p.target and p.current == w.planning.base and due(w) is None


def due(w: World) -> int | None:
    """The latest moment that has come since the plan was made at which the answer may have changed although nothing
    happened."""
    moments = w.planning.snapshot.moments if w.planning.snapshot else ()
    return max((at for at in moments if at <= w.wall()), default=None)


def settled(gone: float, last_pod: float) -> float:
    """When a job may be created again under the name of one that is gone.

    Volcano's job controller retries its clean-up of a deleted job with doubling pauses, so one more retry may come as
    long after the last pod as the pods took to end, and it would make the controller forget a new job of the same name
    (pkg/controllers/cache, processCleanupJob).
    """
    return last_pod + (last_pod - gone) + SETTLE
