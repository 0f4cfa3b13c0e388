"""What a plan calls never, put to the real Volcano alone on the empty cluster: it must not start there.

Jobs of one world (`edges`) are tried in turns, in each turn one of each cell. To show that the bed would start them,
jobs that the plan starts are tried too.

The scheduler reads once how devices are shared, so it is started again for each world. What this bed cannot serve:
`volcano.sh/vgpu-memory-percentage` and the geometries of MIG, which the scheduler reads from a ConfigMap by a service
account of the cluster that it runs in; Ascend's virtual NPUs by MindCluster, whose device plugin writes ConfigMaps; and
GPUs of NUMA cells, which only the kubelet refuses. ResourceClaims are not planned."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from solver.options import Options
from tests.builders.declared import Object
from tests.builders.plans import without_repairs
from tests.controlplane import ApiError, ControlPlane
from tests.differential.bed import CYCLE, HYPERNODES, IDLE_SCHEDULER, JOBS, POD_GROUPS, PODS, QUEUES, Bed
from tests.differential.edges import EdgeWorld

NODES = "/api/v1/nodes"
NUMATOPOLOGIES = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
PATHS = {"Node": NODES, "Queue": QUEUES, "HyperNode": HYPERNODES, "Numatopology": NUMATOPOLOGIES}
REST_CYCLES = 6
WAITS_FOR_EVER = "GP368"
"""The error of a job whose minimum counts pods that never come: it is left out of the plan."""


@dataclass(frozen=True)
class Claims:
    """never: the jobs that can never start, as gangplan says. start: of each cell the first that it starts; names."""

    never: frozenset[str]
    start: frozenset[str]


def claims(world: EdgeWorld) -> Claims:
    """What gangplan says about the jobs of the world."""
    cluster: list[Object] = [
        {
            "apiVersion": "gangplan.dev/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": "t"},
            "spec": {"binding": "gated"},
        },
        {
            "apiVersion": "gangplan.dev/v1alpha1",
            "kind": "SchedulerConfiguration",
            "metadata": {"name": "volcano-scheduler-configmap"},
            "spec": world.scheduler,
        },
        *world.objects(),
    ]
    jobs = [job for cell in world.cells for job in cell.jobs]
    files = {f"jobs/{job['metadata']['name']}.yaml": json.dumps(job).encode() for job in jobs}
    files["cluster-specs/t/all.yaml"] = "\n---\n".join(map(json.dumps, cluster)).encode()
    compiled = compile_repository(Repository(files), options=without_repairs(Options()))
    errors = [each for each in compiled.diagnostics if each.severity == "error"]
    others = [f"{each.code} {each.message}" for each in errors if each.code != WAITS_FOR_EVER]
    assert not others, others
    hopeless = {each.object.rpartition("/")[2] for each in errors}
    decided = {decision.name.rpartition("/")[2]: decision for decision in compiled.decisions}
    first: dict[str, str] = {}
    for name, decision in decided.items():
        if decision.action == "start":
            first.setdefault(world.cell_of(name).name, name)
    never = (name for name, decision in decided.items() if decision.never)
    return Claims(frozenset({*never, *hopeless}), frozenset(first.values()))


def check_never(bed: Bed, world: EdgeWorld) -> list[str]:
    """The jobs that gangplan says can never start and that do."""
    started = Alone(bed.plane).started(world, claims(world).never)
    return [f"{job}, of {world.cell_of(job).kind}, starts alone, and should never" for job in sorted(started)]


class Alone:
    """A control plane on which jobs are tried. `started` says which of them get pods onto nodes. Afterwards the
    scheduler is idle again, as a `Bed` expects it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def started(self, world: EdgeWorld, names: Iterable[str]) -> set[str]:
        """Of these jobs, each tried alone in its cell, those of which a pod got a node."""
        wanted, found = set(names), set[str]()
        turns = [[job for job in cell.jobs if job["metadata"]["name"] in wanted] for cell in world.cells]
        with ThreadPoolExecutor(4) as threads:
            try:
                self._lay_out(world, functools.partial(_each, threads))
                for turn in range(max(map(len, turns))):
                    jobs = [of_cell[turn] for of_cell in turns if turn < len(of_cell)]
                    found |= self._try(jobs, functools.partial(_each, threads))
            finally:
                self._clear(world, functools.partial(_each, threads))
                self._start_scheduler(IDLE_SCHEDULER)
        return found

    def _lay_out(self, world: EdgeWorld, each: Each) -> None:
        objects = list(world.objects())
        self._start_scheduler(world.scheduler | {"actions": ", ".join(world.scheduler["actions"])})
        each(self._create, [thing for thing in objects if thing["kind"] != "Queue"])
        queues = [thing for thing in objects if thing["kind"] == "Queue"]
        each(self._create, queues)
        names = {queue["metadata"]["name"] for queue in queues}
        self.plane.wait_until(
            lambda: {each["metadata"]["name"] for each in self._items(QUEUES) if _state(each) == "Open"},
            names.issubset,
            what="open queues",
        )
        nodes = {thing["metadata"]["name"] for thing in objects if thing["kind"] == "Node"}
        self.plane.wait_until(
            lambda: {node["metadata"]["name"] for node in self._items(NODES) if _is_ready(node)},
            nodes.issubset,
            what="ready nodes",
        )

    def _start_scheduler(self, spec: Object) -> None:
        """Start the scheduler again, with this configuration."""
        self.plane.kill("volcano-scheduler")
        aside = self.plane.work_folder / "next.conf"
        aside.write_text(json.dumps(spec))
        aside.replace(self.plane.scheduler_conf)
        self.plane.restart("volcano-scheduler")
        self.plane.wait_until(self.plane.scheduling_cycles, what="a cycle of the scheduler")

    def _create(self, thing: Object) -> None:
        # The webhooks look at queues in a cache of their own, which may not hold a new one yet.
        create = functools.partial(self.plane.api, "POST", PATHS.get(thing["kind"], JOBS), thing)
        self.plane.wait_until(create, what=f"{thing['kind']} {thing['metadata']['name']}, accepted")

    def _try(self, jobs: Sequence[Object], each: Each) -> set[str]:
        """Those of these jobs that start, next to one another."""
        each(self._create, jobs)
        names = {job["metadata"]["name"] for job in jobs}
        groups = self.plane.wait_until(
            lambda: {_owner(group): group for group in self._items(POD_GROUPS) if "phase" in group.get("status", {})},
            lambda seen: names <= seen.keys(),
            what="podgroups",
        )

        def admit(name: str) -> None:
            path = f"{POD_GROUPS}/{groups[name]['metadata']['name']}"
            self.plane.api("PATCH", path, {"status": {"phase": "Inqueue"}})

        each(admit, sorted(names))
        first = {job["metadata"]["name"]: sum(_first_pods(job)) for job in jobs}
        self.plane.wait_until(
            lambda: [pod["metadata"]["annotations"]["volcano.sh/job-name"] for pod in self._items(PODS)],
            lambda seen: all(seen.count(name) >= pods for name, pods in first.items()),
            what="pods of all jobs",
        )
        found = self._rest()
        self._remove_jobs()
        return found

    def _rest(self) -> set[str]:
        """The jobs that have a pod on a node after so many cycles in which nothing changed."""
        since, seen = self.plane.scheduling_cycles(), self._bound()

        def look() -> bool:
            nonlocal since, seen
            cycle, now = self.plane.scheduling_cycles(), self._bound()
            if now != seen:
                since, seen = cycle, now
            return cycle - since >= REST_CYCLES

        self.plane.wait_until(look, what="rest", pause=CYCLE)
        return {job for job, _ in seen}

    def _bound(self) -> set[tuple[str, str]]:
        return {
            (pod["metadata"]["annotations"]["volcano.sh/job-name"], pod["metadata"]["name"])
            for pod in self._items(PODS)
            if pod["spec"].get("nodeName")
        }

    def _items(self, path: str) -> list[Object]:
        items: list[Object] = self.plane.api("GET", f"{path}?resourceVersion=0")["items"]
        return items

    # ---- clearing

    def _remove_jobs(self) -> None:
        everything = "gracePeriodSeconds=0&propagationPolicy=Background"
        for path in (JOBS, PODS):
            self.plane.api("DELETE", f"{path}?{everything}")
        self.plane.wait_until(
            lambda: [*self._items(JOBS), *self._items(PODS), *self._items(POD_GROUPS)],
            lambda left: not left,
            what="the jobs' end",
        )

    def _clear(self, world: EdgeWorld, each: Each) -> None:
        self._remove_jobs()

        def remove(thing: Object) -> None:
            path = f"{PATHS[thing['kind']]}/{thing['metadata']['name']}"
            self.plane.wait_until(functools.partial(self._gone, path), what=f"{path}, deleted")

        each(remove, world.objects())

    def _gone(self, path: str) -> bool:
        try:
            self.plane.api("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise
        return True


Each = Callable[[Callable[[Any], Any], Iterable[Any]], None]


def _each(threads: ThreadPoolExecutor, do: Callable[[Any], Any], things: Iterable[Any]) -> None:
    list(threads.map(do, things))


def _first_pods(job: Object) -> Iterator[int]:
    """Of each task the pods that come at once."""
    for each in job["spec"]["tasks"]:
        yield 0 if "dependsOn" in each else each["replicas"]


def _owner(thing: Mapping[str, Any]) -> str:
    return str(thing["metadata"]["ownerReferences"][0]["name"])


def _state(queue: Object) -> object:
    return queue.get("status", {}).get("state")


def _is_ready(node: Object) -> bool:
    keys = {taint["key"] for taint in node["spec"].get("taints", [])}
    ready = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}.get("Ready") == "True"
    return ready and not keys & {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
