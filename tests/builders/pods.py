"""A pods part before a cluster of four nodes, at whose clock a test turns; and the objects that it sees."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, HOSTNAME_LABEL, SCHEDULING_GATE, is_gated, name_of
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import Effects
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.cluster.write_threads import WriteThreads
from reconciler.inventory.store import Inventory
from reconciler.observation.observe import Observation, Seen
from reconciler.observation.own_writes import OwnWrites
from reconciler.planning.branch import Target
from reconciler.planning.fingerprint import Fingerprint, fingerprint_of
from reconciler.planning.snapshot import Snapshot
from reconciler.pods.departures import PodEvictor
from reconciler.pods.lifts import GateLifter, Orders
from reconciler.pods.part import PodsPart
from reconciler.pods.writes import PodWrites
from tests.builders.fake_cluster import FakeCluster
from tests.builders.live import VOLCANO, live
from tests.builders.observed import observed
from tests.builders.scripted_server import ScriptedAnswer
from tests.builders.threads import HASTY_WRITES, wait_for_answers

GPU, VGPU = "nvidia.com/gpu", "volcano.sh/vgpu-number"
NOTHING, FULL = {"example.com/none": "0"}, {GPU: "8"}
PODS = "/api/v1/namespaces/default/pods/"
PORTS = "all nodes are unavailable: 1 node(s) didn't have free ports for the requested pod ports."
LOST = ScriptedAnswer(200, {}, breaks_off=True)
"""An answer that does not arrive; where it is given instead of the cluster's, nothing was done."""
COMMIT = "c0ffee"
KINDS = frozenset({"Node", "Pod", "Job.batch.volcano.sh", "PodGroup.scheduling.volcano.sh"})
Asked = dict[str, str] | None


def key_of(name: str) -> str:
    return Ref(VOLCANO, "Job", "default", name).key


def planned(name: str, decision: str, evicted_for: tuple[str, ...] = (), **nodes: int) -> Object:
    """A gang of the plan: node -> pods of its one role."""
    return entry(live(VOLCANO, "Job", name), decision, {"w": nodes}, evictedFor=list(evicted_for))


def entry(job: Object, decision: str, pods: Mapping[str, Mapping[str, int]], **more: Any) -> Object:
    """A gang of the plan. pods: role -> node -> number."""
    ref = ref_of(job)
    identity = {"apiVersion": ref.api_version, "kind": ref.kind, "namespace": ref.namespace, "name": ref.name}
    rest: Object = {"queue": "q", "domains": [], "reasons": [], "startsAt": None, "evictedFor": []}
    return {**identity, **rest, "decision": decision, "pods": pods, **more}


def live_job(name: str) -> Object:
    return {**live(VOLCANO, "Job", name, uid=f"job-{name}", annotations={DIGEST_ANNOTATION: name}), "spec": {}}


def plan_of(*gangs: Object) -> Snapshot:
    manifests = tuple(Manifest(5, live_job(gang["name"]), "", gang["name"]) for gang in gangs)
    return Snapshot(COMMIT, True, plan={"gangs": gangs}, manifests=manifests)


def pod(job: str, index: int, node: str = "", *, bound: bool = True, message: str = "", asks: Asked = None) -> Object:
    """A gated pod, or one that was given a node and is bound to it, or waits with the scheduler's message."""
    spec: dict[str, Any] = {"schedulingGates": [{"name": SCHEDULING_GATE}]}
    if node:
        spec = {"nodeSelector": {HOSTNAME_LABEL: node}, **({"nodeName": node} if bound else {})}
    spec["containers"] = [{"name": "c", "resources": {"limits": asks or {GPU: "1"}}}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made = live("v1", "Pod", f"{job}-w-{index}", live_job(job), uid=f"{job}-{index}")
    return {**made, "spec": spec, "status": {"conditions": [condition] if message else []}}


def evicted_pod(job: str, ends_at: str, asks: Asked = None) -> Object:
    """A pod on node n1 that ends by the Eviction API."""
    found = pod(job, 0, "n1", asks=asks)
    found["metadata"]["deletionTimestamp"] = ends_at
    found["status"]["conditions"] = [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]
    return found


def node(name: str, *, is_ready: bool = True, is_named: bool = True, gpus: int = 8) -> Object:
    ready = [{"type": "Ready", "status": "True" if is_ready else "Unknown"}]
    meta = {"name": name, "uid": name, "labels": {HOSTNAME_LABEL: name} if is_named else {}}
    status = {"conditions": ready, "allocatable": {"pods": "1000", GPU: str(gpus), VGPU: "8"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


NODES = [node(name) for name in ("n1", "n2", "n3", "n4")]


@dataclass(frozen=True)
class Acted:
    """What one pass saw and did. unlifted: Ref.key of a job -> why gates of it were not lifted."""

    seen: Seen
    target: Target
    effects: Effects
    unlifted: Mapping[str, str]

    @property
    def observation(self) -> Observation:
        return self.seen.observation

    @property
    def fingerprint(self) -> Fingerprint:
        assert self.target.fingerprint is not None
        return self.target.fingerprint

    @property
    def lifted(self) -> Mapping[str, int]:
        return {key: count for key, count in self.effects.lifted.items() if count}

    @property
    def reasons(self) -> list[str]:
        return [event.reason for event in self.effects.events]


class PodsWorld:
    """saves: how often the inventory was stored. wakes: how often another pass was asked for."""

    def __init__(self, cluster: FakeCluster | None = None, threads: WriteThreads | None = None) -> None:
        self.cluster, self.now, self.wall_now = cluster or FakeCluster(), 0.0, 0.0
        self.inventory, self.saves, self.wakes = Inventory(), 0, 0
        self.threads, self.own = threads or WriteThreads(), OwnWrites()
        client = self.cluster.client()
        self.writes = PodWrites(client, self.threads, self.own, lambda: False)
        self.lifter = GateLifter(self.writes, self._save, lambda: self.clock(), self._wake)
        self.evictor = PodEvictor(self.writes, client, 120.0, 60.0, lambda: self.clock(), self._wake)
        self.part = PodsPart(self.lifter, self.evictor, lambda: self.clock())
        self.snapshot = plan_of()
        self.orders = Orders()
        self.gate = threading.Event()
        self.answer: ScriptedAnswer | None = None

    def clock(self) -> float:
        return self.now

    def _save(self, inventory: Inventory) -> None:
        self.saves += 1

    def _wake(self) -> None:
        self.wakes += 1

    def plan(self, *gangs: Object) -> None:
        self.snapshot = plan_of(*gangs)

    def act(self, *objects: Object, lost: str = "", target: str = COMMIT, unnamed: str = "") -> Acted:
        """One pass over these objects; the plan rests on what is there. unnamed: a node without a hostname label."""
        self.put(*(item for item in objects if item["kind"] == "Pod" and is_gated(item)))
        nodes = [node(name, is_ready=name != lost, is_named=name != unnamed) for name in ("n1", "n2", "n3", "n4")]
        return self.look([*nodes, *objects], target)

    def look(self, objects: Sequence[Object], commit: str = COMMIT, base: Fingerprint | None = None) -> Acted:
        """One pass over all of these objects. base: what the plan was made from, what is there where it is not
        given."""
        settled = self.threads.take_ended()
        observation = observed(self.own, objects, KINDS)
        self.part.observe(observation)
        seen = Seen(self.clock(), self.wall_now, True, observation, self.inventory)
        effects = self.part.settle(settled, seen)
        restrictions = self.part.restrictions(observation, self.snapshot, {}, self.wall_now)
        observation = observation.with_restrictions(restrictions)
        seen = Seen(self.clock(), self.wall_now, True, observation, self.inventory)
        fingerprint = fingerprint_of(observation, self.snapshot, frozenset())
        base = base or fingerprint
        is_fresh = base == fingerprint and commit == self.snapshot.commit
        runs = PlannedRuns(self.snapshot.jobs)
        aim = Target(commit, "", self.snapshot, fingerprint, base, is_fresh, runs)
        effects += self.part.act(seen, aim, self.orders)
        unlifted = {key: known.message for key, known in self.lifter.unlifted.items()}
        return Acted(seen, aim, effects, unlifted)

    @property
    def evicted(self) -> list[str]:
        return [path.split("/")[-2] for _, path in self.cluster.writes if path.endswith("/eviction")]

    def stored(self) -> list[Object]:
        """The pods as the API server holds them, by name."""
        return [item for path, item in sorted(self.cluster.objects.items()) if path.startswith(PODS)]

    def given(self, node: str) -> list[str]:
        """The pods that select this node."""
        return [name_of(item) for item in self.stored() if node in (item["spec"].get("nodeSelector") or {}).values()]

    def put(self, *pods: Object) -> None:
        """Let the API server hold these pods, where it does not yet."""
        for item in pods:
            if (path := f"{PODS}{item['metadata']['name']}") not in self.cluster.objects:
                self.cluster.put(path, item)

    def two_gangs(self) -> list[Object]:
        """The nodes, and g1 and g2, each with a gated pod of eight GPUs, as the watch shows them."""
        pods = [pod("g1", 0, asks=FULL), pod("g2", 0, asks=FULL)]
        self.put(*pods)
        return [*NODES, live_job("g1"), live_job("g2"), *pods]

    def hang(self, part: str, method: str = "") -> None:
        """Let requests wait until `let_go` where the path has this part; a pass leaves them soon."""
        self.threads.timings, self.gate, self.answer = HASTY_WRITES, threading.Event(), None

        def wait(sent: str, path: str, body: Any) -> ScriptedAnswer | None:
            if part not in path or method not in ("", sent):
                return None
            self.gate.wait(10)
            return self.answer

        self.cluster.before = wait

    def let_go(self, answer: ScriptedAnswer | None = None) -> None:
        """Let what hangs have this answer, or the cluster's own, and wait until nothing is under way."""
        self.answer = answer
        self.gate.set()
        wait_for_answers(self.threads)
        self.cluster.recover()
