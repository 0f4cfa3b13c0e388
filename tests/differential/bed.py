"""One control plane for many worlds: a world is laid out while the scheduler has nothing to do, then its actions are
switched on at once, by its configuration file, and what is there at rest is read."""

from __future__ import annotations

import dataclasses
import functools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from tests.builders.declared import Object
from tests.controlplane import ApiError, ControlPlane
from tests.differential.world import (
    GROUP,
    MODEL,
    QueueData,
    Where,
    World,
    hypernode_objects,
    job_object,
    node_amounts,
    node_labels,
    priority_class_objects,
    queue_object,
    scheduler_conf,
)

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
POD_GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
PODS = "/api/v1/namespaces/default/pods"
HOSTNAME = "kubernetes.io/hostname"
IDLE = "backfill"
"""Of all actions, the one that does nothing for pods that ask for something."""
IDLE_SCHEDULER: Object = {"actions": IDLE, "tiers": [{"plugins": [{"name": "gang"}]}]}
LOADED = b"Finished loading scheduler config"
ENQUEUE_CYCLES = 3
REST_CYCLES = 6
UNSETTLED_CYCLES = 30
"""Of stillness, while evicted pods are still ending or their jobs' controller has not replaced them."""
RESTLESS_CYCLES = 90
CYCLE = 0.2
"""Seconds between two cycles of the scheduler: more looks see nothing more."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What is there at rest. running: (job, task, node) -> pods. evicted: the same of the pods that ran at first and
    are gone. phases: podgroup phase of each job. at_rest: whether it came to rest. before_open: what ran before the
    last gates were lifted, where they were."""

    running: Mapping[Where, int]
    evicted: Mapping[Where, int]
    phases: Mapping[str, str]
    at_rest: bool
    before_open: Mapping[Where, int] | None = None

    def held(self, world: World) -> dict[str, int]:
        """Queue -> GPUs that its pods hold."""
        return held_amounts(world, self.running)


def held_amounts(world: World, running: Mapping[Where, int]) -> dict[str, int]:
    """Queue -> GPUs that these pods hold."""
    found = {queue.name: 0 for queue in world.queues}
    for (name, task, _), number in running.items():
        job = world.job(name)
        found[job.queue] += number * job.task(task).request.get("gpu", 0)
    return found


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to run and what is to go, as in `Outcome`."""

    running: Mapping[Where, int]
    evicted: Mapping[Where, int]


class Bed:
    """`with Bed() as bed: outcome = bed.run(world)`."""

    def __init__(self) -> None:
        self.plane = ControlPlane()
        self._threads = ThreadPoolExecutor(4)
        self._count = 0
        self._prefix = ""
        self.seconds: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self.plane.start()
        self._configure_text(json.dumps(IDLE_SCHEDULER))
        self._each(
            lambda thing: self.plane.api("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", thing),
            priority_class_objects(),
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown()
        self.plane.stop()

    def run(self, world: World, plan: Plan | None = None, *, then_open: bool = False) -> Outcome:
        """Lay it out, let the scheduler work until it rests, and clear the cluster. With a plan all pods come gated,
        and what the reconciler would do is done: victims are evicted, planned pods lose their gate for their node.

        then_open: at rest all other pods lose their gates too, and the scheduler works until it rests again."""
        self._count += 1
        self._prefix = f"w{self._count}-"
        try:
            with self._timed("nodes"):
                self._set_nodes(world)
            with self._timed("queues"):
                self._create_queues(world)
            with self._timed("jobs"):
                self._create_jobs(world, gated=plan is not None)
            with self._timed("start"):
                initial = self._start_running(world)
            with self._timed("enqueue"):
                if plan is not None:
                    self._evict(plan.evicted, initial)
                self._enqueue(world)
            with self._timed("rest"):
                self._configure(world)
                at_rest = self._wait_for_rest(
                    REST_CYCLES, look=lambda: self._lift_gates(plan), is_settled=lambda: self._is_settled(world)
                )
            outcome = self._read(initial, at_rest)
            if then_open:
                with self._timed("opened"):
                    self._open_gates()
                    at_rest = self._wait_for_rest(REST_CYCLES, is_settled=lambda: self._is_settled(world))
                outcome = dataclasses.replace(self._read(initial, at_rest), before_open=outcome.running)
            return outcome
        finally:
            self._configure(world, (IDLE,))
            with self._timed("clear"):
                self._clear()

    def _timed(self, what: str) -> _Timer:
        return _Timer(self.seconds, what)

    # --- laying out

    def _each(self, do: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
        return list(self._threads.map(do, things))

    def _configure_text(self, text: str) -> None:
        aside = self.plane.work_folder / "next.conf"
        aside.write_text(text)
        log = self.plane.work_folder / "logs" / "volcano-scheduler.log"
        before = log.stat().st_size
        aside.replace(self.plane.scheduler_conf)

        def since_then() -> bytes:
            with log.open("rb") as file:
                file.seek(before)
                return file.read()

        self.plane.wait_until(since_then, lambda said: LOADED in said, what="a new configuration")

    def _configure(self, world: World, actions: tuple[str, ...] | None = None) -> None:
        self._configure_text(scheduler_conf(world, actions))

    def _set_nodes(self, world: World) -> None:
        """The world's nodes and no others; those that are there get its amounts."""
        wanted = node_amounts(world)
        there = {node["metadata"]["name"] for node in self.plane.api("GET", "/api/v1/nodes")["items"]}
        for name in there - wanted.keys():
            self.plane.remove_node(name)
        for name in wanted.keys() - there:
            self.plane.add_nodes([name], capacity=wanted[name])

        def resize(name: str) -> None:
            sized = {"status": {"capacity": wanted[name], "allocatable": wanted[name]}}
            self.plane.api("PATCH", f"/api/v1/nodes/{name}/status", sized)

        self._each(resize, wanted.keys() & there)
        for name, labels in node_labels(world).items():
            said = {MODEL: None, GROUP: None} | labels
            self.plane.api("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": said}})
        self._each(lambda thing: self.plane.api("POST", HYPERNODES, thing), hypernode_objects(world))

    def _create_queues(self, world: World) -> None:
        left = list(world.queues)
        while left:  # parents first
            names = {queue.name for queue in left}
            ready = [queue for queue in left if queue.parent not in names]
            self._each(self._create_queue, ready)
            left = [queue for queue in left if queue not in ready]
        self.plane.wait_until(
            lambda: [each.get("status", {}).get("state") for each in self._objects(QUEUES)],
            lambda states: len(states) == len(world.queues) and set(states) == {"Open"},
            what="open queues",
        )

    def _create_queue(self, queue: QueueData) -> None:
        # The webhook looks for the parent in a cache of its own, which may not hold it yet.
        create = functools.partial(self.plane.api, "POST", QUEUES, queue_object(queue, self._prefix))
        self.plane.wait_until(create, what=f"queue {queue.name}, accepted")

    def _create_jobs(self, world: World, *, gated: bool) -> None:
        for job in world.jobs:  # one after the other: their age decides between equals
            create = functools.partial(self.plane.api, "POST", JOBS, job_object(job, self._prefix, gated=gated))
            # The webhook looks at queues in a cache of its own, which may still hold a queue that is not open.
            self.plane.wait_until(create, what=f"job {job.name}, accepted")
        self.plane.wait_until(
            self._groups,
            lambda groups: (
                len(groups) == len(world.jobs)
                and all(group.get("status", {}).get("phase") for group in groups.values())
            ),
            what="podgroups",
        )

    def _start_running(self, world: World) -> dict[str, Where]:
        """Bind what runs already; the uid of each such pod -> where it runs."""
        started = [job for job in world.jobs if job.running]
        self._admit([job.name for job in started])
        self._wait_for_pods(world)
        found: dict[str, Where] = {}
        bindings = []
        pods = sorted(self._objects(PODS), key=lambda pod: int(pod["metadata"]["annotations"]["volcano.sh/task-index"]))
        for job in started:
            for task, node, number in job.running:
                mine = [pod for pod in pods if self._job_and_task(pod) == (job.name, task)]
                for pod in [pod for pod in mine if pod["metadata"]["uid"] not in found][:number]:
                    found[pod["metadata"]["uid"]] = (job.name, task, node)
                    bindings.append((pod["metadata"]["name"], node))

        gated = {pod["metadata"]["name"] for pod in pods if pod["spec"].get("schedulingGates")}

        def bind(binding: tuple[str, str]) -> None:
            name, node = binding
            if name in gated:
                self.plane.api("PATCH", f"{PODS}/{name}", [{"op": "remove", "path": "/spec/schedulingGates"}])
            target = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
            self.plane.api("POST", f"{PODS}/{name}/binding", target)

        self._each(bind, bindings)
        names = [job.name for job in started]
        self.plane.wait_until(
            lambda: (
                [pod["metadata"]["uid"] for pod in self._objects(PODS) if pod["status"]["phase"] == "Running"],
                {name: group["status"]["phase"] for name, group in self._groups().items() if name in names},
            ),
            lambda seen: len(seen[0]) == len(found) and "Pending" not in seen[1].values(),
            what="running pods",
        )
        return found

    def _admit(self, names: Iterable[str]) -> None:
        """Let Volcano's controllers create the pods of these jobs."""
        groups = self._groups()

        def patch(name: str) -> None:
            path = f"{POD_GROUPS}/{groups[name]['metadata']['name']}"
            self.plane.api("PATCH", path, {"status": {"phase": "Inqueue"}})

        self._each(patch, names)

    def _enqueue(self, world: World) -> None:
        """Jobs that Volcano's enqueue lets in have their pods before anything is allocated."""
        if "enqueue" in world.actions:
            self._configure(world, ("enqueue",))
            self._wait_for_rest(ENQUEUE_CYCLES)
        else:
            waiting = [name for name, group in self._groups().items() if group["status"]["phase"] == "Pending"]
            self._admit(waiting)
        self._wait_for_pods(world)

    def _evict(self, evicted: Mapping[Where, int], initial: Mapping[str, Where]) -> None:
        """Evict so many of the pods that ran at first, and wait until others stand in their place, gated."""
        left = Counter(evicted)
        names = []
        for pod in self._objects(PODS):
            where = initial.get(pod["metadata"]["uid"])
            if where is not None and left[where]:
                left[where] -= 1
                names.append(pod["metadata"]["name"])
        self._each(lambda name: self.plane.api("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0"), names)
        stays = len(initial) - len(names)
        self.plane.wait_until(
            lambda: sum(pod["metadata"]["uid"] in initial for pod in self._objects(PODS)),
            lambda number: number == stays,
            what="the victims' end",
        )

    def _lift_gates(self, plan: Plan | None) -> None:
        """Give each planned pod that waits behind its gate a node and take the gate away."""
        if plan is None:
            return
        free = Counter(plan.running)
        gated = []
        for pod in self._objects(PODS):
            node = pod["spec"].get("nodeName") or pod["spec"].get("nodeSelector", {}).get(HOSTNAME)
            if node is not None:
                free[(*self._job_and_task(pod), node)] -= 1
            elif pod["spec"].get("schedulingGates"):
                gated.append(pod)
        for pod in gated:
            role = self._job_and_task(pod)
            where = next((each for each, number in free.items() if each[:2] == role and number > 0), None)
            if where is not None:
                free[where] -= 1
                selector = pod["spec"].get("nodeSelector", {}) | {HOSTNAME: where[2]}
                patch = [
                    {"op": "add", "path": "/spec/nodeSelector", "value": selector},
                    {"op": "remove", "path": "/spec/schedulingGates"},
                ]
                self.plane.api("PATCH", f"{PODS}/{pod['metadata']['name']}", patch)

    def _open_gates(self) -> None:
        """Let the scheduler have all pods."""
        gated = [pod["metadata"]["name"] for pod in self._objects(PODS) if pod["spec"].get("schedulingGates")]
        lifted = [{"op": "remove", "path": "/spec/schedulingGates"}]
        self._each(lambda name: self.plane.api("PATCH", f"{PODS}/{name}", lifted), gated)

    def _wait_for_pods(self, world: World) -> None:
        self.plane.wait_until(
            lambda: self._missing_pods(world), lambda seen: not seen, what="pods of the admitted jobs"
        )

    def _missing_pods(self, world: World) -> dict[str, int]:
        """Admitted jobs that have not the pods that they want -> how many those are."""
        have = Counter(self._job_and_task(pod)[0] for pod in self._objects(PODS))
        admitted = [name for name, group in self._groups().items() if group["status"]["phase"] != "Pending"]
        wanted = {name: sum(task.replicas for task in world.job(name).tasks) for name in admitted}
        return {name: number for name, number in wanted.items() if have[name] != number}

    # --- reading

    def _objects(self, path: str) -> list[Object]:
        """The world's own objects."""
        items: list[Object] = self.plane.api("GET", f"{path}?resourceVersion=0")["items"]
        return [each for each in items if each["metadata"]["name"].startswith(self._prefix)]

    def _groups(self) -> dict[str, Object]:
        """Job -> its podgroup."""
        return {
            group["metadata"]["ownerReferences"][0]["name"].removeprefix(self._prefix): group
            for group in self._objects(POD_GROUPS)
        }

    def _job_and_task(self, pod: Object) -> tuple[str, str]:
        notes = pod["metadata"]["annotations"]
        return notes["volcano.sh/job-name"].removeprefix(self._prefix), notes["volcano.sh/task-spec"]

    def _wait_for_rest(
        self, cycles: int, look: Callable[[], None] = lambda: None, is_settled: Callable[[], bool] = lambda: True
    ) -> bool:
        """Whether nothing changed for so many cycles of the scheduler, before it went through very many."""
        begin = since = self.plane.scheduling_cycles()
        seen = self._state()
        while since - begin < RESTLESS_CYCLES:
            time.sleep(CYCLE)
            look()
            cycle, now = self.plane.scheduling_cycles(), self._state()
            if now != seen:
                seen, since = now, cycle
            elif cycle - since >= (cycles if is_settled() else UNSETTLED_CYCLES):
                return True
        return False

    def _is_settled(self, world: World) -> bool:
        """Whether no pod is on its way out and each admitted job has all its pods. On a slow machine Volcano's
        controllers take more cycles of the scheduler for that than it needs to find places."""
        is_ending = any("deletionTimestamp" in pod["metadata"] for pod in self._objects(PODS))
        return not is_ending and not self._missing_pods(world)

    def _state(self) -> object:
        pods = {
            (pod["metadata"]["uid"], pod["spec"].get("nodeName"), pod["status"].get("phase"))
            for pod in self._objects(PODS)
        }
        return pods, {name: group["status"]["phase"] for name, group in self._groups().items()}

    def _read(self, initial: Mapping[str, Where], at_rest: bool) -> Outcome:
        running: Counter[Where] = Counter()
        kept = set()
        for pod in self._objects(PODS):
            if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                running[(*self._job_and_task(pod), pod["spec"]["nodeName"])] += 1
                kept.add(pod["metadata"]["uid"])
        evicted = Counter(where for uid, where in initial.items() if uid not in kept)
        phases = {name: group["status"]["phase"] for name, group in self._groups().items()}
        return Outcome(dict(running), dict(evicted), phases, at_rest)

    # --- clearing

    def _clear(self) -> None:
        def gone(path: str) -> None:
            try:
                self.plane.api("DELETE", path)
            except ApiError as error:
                if error.status != 404:
                    raise

        everything = "gracePeriodSeconds=0&propagationPolicy=Background"
        gone(f"{JOBS}?{everything}")
        gone(f"{PODS}?{everything}")
        self.plane.wait_until(
            lambda: [*self._objects(PODS), *self._objects(JOBS), *self._objects(POD_GROUPS)],
            lambda left: not left,
            what="an empty cluster",
        )
        self._each(
            lambda each: gone(f"{HYPERNODES}/{each['metadata']['name']}"), self.plane.api("GET", HYPERNODES)["items"]
        )
        while left := self._objects(QUEUES):
            parents = {each["spec"].get("parent") for each in left}
            for name in sorted({each["metadata"]["name"] for each in left} - parents):
                # The webhook's own cache may still hold children that are gone.
                delete = functools.partial(gone, f"{QUEUES}/{name}")
                self.plane.wait_until(delete, lambda _: True, what=f"queue {name}, deleted")


class _Timer:
    """Adds the time of a block to a counter."""

    def __init__(self, counter: Counter[str], what: str) -> None:
        self._counter, self._what, self._begin = counter, what, 0.0

    def __enter__(self) -> None:
        self._begin = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._counter[self._what] += time.monotonic() - self._begin  # type: ignore[assignment]
