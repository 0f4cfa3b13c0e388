"""Schedules by seed for the pods part: late watches, hanging, lost and late patches, plans in flight, flapping nodes,
hand-overs and kills, on an API server of one dictionary. What was given is looked at after every request.

The planner is the adversary: it may place waiting gangs anew each time, in any order, on what it was shown.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

from compiler.kubernetes import is_gated, is_terminating, name_of
from reconciler.changes.planned import PlannedRuns
from reconciler.cluster.objects import Object, Ref, ref_of, version_number
from reconciler.cluster.write_threads import NO_ANSWER, Task, WriteThreads
from reconciler.observation.memory import ObservationMemory
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.observe import Observation, Seen
from reconciler.planning.branch import Target
from reconciler.planning.fingerprint import Fingerprint, fingerprint_of
from reconciler.planning.snapshot import Snapshot
from tests.builders.fake_cluster import FakeCluster
from tests.builders.pods import COMMIT, GPU, KINDS, PodsWorld, key_of, live_job, node, plan_of, planned, pod
from tests.builders.scripted_server import ScriptedAnswer

CAPACITY = 8
PODS_PATH = "/api/v1/namespaces/default/pods/"
STEPS = 14
QUIET_STEPS = 14
STEPS_AT_REST = 4
"""Without a change, in peace: then nothing more comes."""
HANGS, LOSES, LANDS_LATE = 0.12, 0.08, 0.08
"""Shares of patches that hang, whose answer is lost, and that land after their answer was given up."""


@cache
def _node(name: str, is_ready: bool) -> Object:
    """The same object each time, as a cache of a watch holds it."""
    return node(name, is_ready=is_ready)


_job = cache(live_job)


class OverbookedError(AssertionError):
    """A node was given more than it has."""


class SimulatedWrites(WriteThreads):
    """Runs writes one after the other, without threads; some hang until they are let go."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.dice, self.hangs = dice, HANGS
        self.hanging: dict[str, Task] = {}
        self.ended: list[Any] = []

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        return [self._run(task) for task in tasks]

    def _run(self, task: Task) -> Any:
        if self.dice.random() < self.hangs:
            self.hanging[task.ref.key] = task
            return task.unanswered("left", NO_ANSWER)
        return task.send(lambda: None)()

    def let_go(self, share: float) -> None:
        """Let so many of those that hang have their answer."""
        for key in sorted(self.hanging):
            if self.dice.random() < share:
                self.ended.append(self.hanging.pop(key).send(lambda: None)())

    def take_ended(self) -> list[Any]:
        ended, self.ended = self.ended, []
        return ended

    def is_open(self, key: str) -> bool:
        return key in self.hanging

    def must_wait(self, ref: Ref) -> bool:
        return self.is_open(ref.key)


@dataclass(frozen=True)
class Compile:
    """A plan in the making. seen: what it is made from. ready_at: the step at which it is there."""

    seen: Observation
    ready_at: int


class Schedule:
    """One cluster and its history. shown: how much of the history of pods the watch has shown. watched: path ->
    Ref.key and object, of the pods that it shows. reached: the newest version that it has shown."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311  - not a secret
        self.cluster, self.late = FakeCluster(), list[tuple[str, Any]]()
        self.lag, self.faults = self.dice.choice((0, 2, 6, 30)), 1.0
        self.history: list[tuple[int, str, Object | None]] = []
        self.shown, self.reached = 0, 0
        self.watched: dict[str, tuple[str, Object]] = {}
        self.step_number = 0
        self.nodes = [f"n{at}" for at in range(1, self.dice.randint(2, 4) + 1)]
        self.unready: set[str] = set()
        self.sizes = {f"g{at}": self._gang_size() for at in range(self.dice.randint(2, 5))}
        self.cluster.before, self.cluster.after = self._before, self._after
        self.created: set[str] = set()
        self.snapshot, self.base = plan_of(), Fingerprint()
        self.running: Compile | None = None
        self.leader = self._new_leader()
        self.has_plan = False

    def _gang_size(self) -> tuple[int, int]:
        """Pods, and GPUs of each."""
        gpus = self.dice.choice((1, 2, 4, 8))
        return self.dice.randint(1, max(1, min(4, 16 // gpus))), gpus

    # ---- the API server

    def _before(self, method: str, path: str, body: Any) -> ScriptedAnswer | None:
        path = path.partition("?")[0]
        if path.endswith("/eviction"):
            self._evict(path.removesuffix("/eviction"))
        elif method == "PATCH" and path.startswith(PODS_PATH):
            roll = self.dice.random() / max(self.faults, 1e-9)
            if roll < LANDS_LATE:
                self.late.append((path, body))
                return ScriptedAnswer(200, {}, breaks_off=True)
            if path not in self.cluster.objects:
                return None
        return None

    def _after(self, method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if method == "PATCH" and path.startswith(PODS_PATH):
            self._record(path.partition("?")[0])
            if self.dice.random() / max(self.faults, 1e-9) < LOSES:
                return ScriptedAnswer(200, {}, breaks_off=True)
        return None

    def _record(self, path: str) -> None:
        """Add what an object is now to the history, and look at what was given."""
        item = self.cluster.objects.get(path)
        if item is None or any(item is known for _, _, known in self.history[-8:]):
            return
        self.history.append((version_number(item), path, item))
        self.check()

    def land_late(self) -> None:
        """Let one of the patches that got no answer be made after all, where its tests still hold."""
        path, body = self.late.pop(self.dice.randrange(len(self.late)))
        found = self.cluster.objects.get(path)
        if found is not None and is_gated(found):
            self.cluster.json_patch(path, found, body)
            self._record(path)

    def _create_pod(self, gang: str, at: int) -> None:
        item = pod(gang, at, asks={GPU: str(self.sizes[gang][1])})
        path = f"{PODS_PATH}{gang}-w-{at}"
        del item["metadata"]["uid"]
        self.cluster.put(path, item)
        self._record(path)

    def _evict(self, path: str) -> None:
        """The pod goes, and the job's controller makes another, gated."""
        if (item := self.cluster.objects.pop(path, None)) is not None:
            self.cluster.version += 1
            self.history.append((self.cluster.version, path, None))
            gang, _, at = name_of(item).split("-")
            self._create_pod(gang, int(at))

    def check(self) -> None:
        """Raise OverbookedError where a node was given more than it has."""
        given: Counter[str] = Counter()
        for path, item in self.cluster.objects.items():
            if path.startswith(PODS_PATH) and (where := self.node_of(item)):
                given[where] += self.sizes[name_of(item).split("-")[0]][1]
        over = {name: amount for name, amount in given.items() if amount > CAPACITY}
        if over:
            raise OverbookedError(f"GPUs given of {CAPACITY}: {over}")

    def node_of(self, item: Object) -> str | None:
        spec = item["spec"]
        return spec.get("nodeName") or (spec.get("nodeSelector") or {}).get("kubernetes.io/hostname")

    def bind(self) -> None:
        """The scheduler binds some of the pods that were given a node."""
        for path, item in sorted(self.cluster.objects.items()):
            is_waiting = path.startswith(PODS_PATH) and self.node_of(item) and "nodeName" not in item["spec"]
            if is_waiting and self.dice.random() < 0.5:
                metadata = {**item["metadata"], "resourceVersion": str(self.cluster.version + 1)}
                bound = {**item["spec"], "nodeName": self.node_of(item)}
                self.cluster.put(path, {**item, "metadata": metadata, "spec": bound})
                self._record(path)

    # ---- the watch

    def move_watch(self) -> None:
        behind = len(self.history) - self.shown
        more = behind if not self.lag else max(0, min(behind, self.dice.randint(0, self.lag)))
        for version, path, item in self.history[self.shown : self.shown + more]:
            self.reached = max(self.reached, version)
            self.watched.pop(path, None)
            if item is not None:
                self.watched[path] = ref_of(item).key, item
        self.shown += more

    def shown_pods(self) -> dict[str, Object]:
        """Ref.key -> pod, as far as the watch has come."""
        return dict(sorted(self.watched.values(), key=itemgetter(0)))

    def observation(self, world: PodsWorld) -> Observation:
        """What the watch shows, with the leader's own writes laid over it."""
        nodes = [_node(name, name not in self.unready) for name in self.nodes]
        by_kind = {
            "Node": {ref_of(item).key: item for item in nodes},
            "Pod": world.own.laid_over("Pod", self.shown_pods(), self.reached),
            "Job.batch.volcano.sh": {key_of(name): _job(name) for name in sorted(self.created)},
        }
        everything = {key: item for kind in by_kind.values() for key, item in kind.items()}
        return Observation(everything, KINDS, by_kind=by_kind, memory=self.memory)

    # ---- the planner

    def plan(self, seen: Observation) -> Snapshot:
        """A plan of what was shown: what has begun is finished, the others start somewhere, or wait."""
        index = seen.node_index({})
        pods = seen.pods_by_job[0]
        free = dict.fromkeys(self.nodes, CAPACITY)
        for item in seen.objects_of_kind("Pod"):
            if where := index.node_of(item):
                free[where] -= self.sizes[name_of(item).split("-")[0]][1]
        begun = {name: self._given(index, pods.get(key_of(name), ())) for name in sorted(self.sizes)}
        order = sorted(self.sizes, key=lambda name: (not begun[name], self.dice.random()))
        gangs = {name: self._place(name, begun[name], free) for name in order}
        return plan_of(*(gangs[name] for name in sorted(gangs)))

    def _given(self, index: NodeIndex, pods: Sequence[Object]) -> Counter[str]:
        alive = (item for item in pods if not is_terminating(item))
        return Counter(filter(None, map(index.node_of, alive)))

    def _place(self, name: str, begun: Mapping[str, int], free: dict[str, int]) -> Object:
        count, gpus = self.sizes[name]
        places, left = Counter(begun), dict(free)
        for _ in range(count - sum(places.values())):
            open_nodes = [at for at in self.nodes if left[at] >= gpus and at not in self.unready]
            if not open_nodes:
                return planned(name, "wait") if not begun else planned(name, "keep", (), **begun)
            chosen = self.dice.choice(open_nodes)
            left[chosen] -= gpus
            places[chosen] += 1
        free.update(left)
        return planned(name, "keep" if sum(begun.values()) == count else "start", (), **places)

    # ---- the leader

    def _new_leader(self) -> PodsWorld:
        """A process that begins to lead: it reads all pods before it gives."""
        self.writes, self.memory = SimulatedWrites(self.dice), ObservationMemory()
        world = PodsWorld(self.cluster, self.writes)
        pods = [item for path, item in sorted(self.cluster.objects.items()) if path.startswith(PODS_PATH)]
        world.own.record_reads("Pod", pods, self.shown_pods())
        return world

    def hand_over(self) -> None:
        """The leader is killed. What was under way is made or not before its lease has run out."""
        self.writes.let_go(0.5)
        while self.late:
            self.land_late()
        self.running = None
        self.leader = self._new_leader()

    def do_pass(self) -> None:
        """One pass: take up what has ended, observe, plan where the plan rests on something else, act."""
        world = self.leader
        world.now, settled = float(self.step_number), self.writes.take_ended()
        observation = self.observation(world)
        world.part.observe(observation)
        seen = Seen(world.now, world.now, True, observation, world.inventory)
        world.part.settle(settled, seen)
        observation = observation.with_restrictions(world.part.restrictions(observation, self.snapshot, {}, world.now))
        seen = Seen(world.now, world.now, True, observation, world.inventory)
        self._take_plan()
        fingerprint = fingerprint_of(observation, self.snapshot, frozenset())
        is_fresh = self.has_plan and fingerprint == self.base
        if not is_fresh and self.running is None and not world.part.awaits_evictions:
            self.running = Compile(observation, self.step_number + self.dice.randint(0, 3))
        if self.has_plan:
            runs = PlannedRuns(self.snapshot.jobs)
            target = Target(COMMIT, "", self.snapshot, fingerprint, self.base, is_fresh, runs)
            world.part.act(seen, target, world.orders)

    def _take_plan(self) -> None:
        if self.running is not None and self.step_number >= self.running.ready_at:
            self.snapshot = self.plan(self.running.seen)
            self.base = fingerprint_of(self.running.seen, self.snapshot, frozenset())
            self.running, self.has_plan = None, True

    def happen(self) -> None:
        """What happens between two passes."""
        for name, (count, _) in sorted(self.sizes.items()):
            if name not in self.created and self.dice.random() < 0.6:
                self.created.add(name)
                for at in range(count):
                    self._create_pod(name, at)
        if self.dice.random() < 0.3 * self.faults:
            self.unready = {self.dice.choice(self.nodes)} if self.dice.random() < 0.5 else set()
        if self.late and self.dice.random() < 0.4:
            self.land_late()
        self.writes.let_go(0.4)
        self.bind()
        if self.dice.random() < 0.08 * self.faults:
            self.hand_over()
        self.move_watch()

    def run(self) -> None:
        """All steps, and then as many in peace, until nothing changes."""
        for self.step_number in range(STEPS):
            self.happen()
            self.do_pass()
        self.faults, self.lag, self.unready = 0.0, 0, set()
        self.writes.hangs = 0.0
        changed, length = STEPS, 0
        for self.step_number in range(STEPS, STEPS + QUIET_STEPS):
            self.writes.let_go(1.0)
            self.happen()
            self.do_pass()
            if length != len(self.history) or self.running is not None or self.created != self.sizes.keys():
                changed, length = self.step_number, len(self.history)
            elif self.step_number - changed >= STEPS_AT_REST:
                return

    def stranded(self) -> list[str]:
        """Gangs that the last plan starts or keeps and that have gated pods, with no reason reported."""
        reported = self.leader.lifter.unlifted
        found = []
        for key, gang in self.snapshot.gangs.items():
            pods = [item for path, item in self.cluster.objects.items() if path.startswith(PODS_PATH)]
            of_gang = [item for item in pods if name_of(item).split("-")[0] == gang.job.name]
            if gang.decision != "wait" and any(map(is_gated, of_gang)) and key not in reported:
                found.append(gang.job.name)
        return found
