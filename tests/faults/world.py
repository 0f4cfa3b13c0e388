"""A small cluster, a small repository and a reconciler behind a proxy; what is to be there at rest, and what is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from compiler.kubernetes import DIGEST_ANNOTATION, PLACEMENT_ANNOTATION, annotations_of, labels_of
from tests.builders.declared import priority_class
from tests.controlplane import ApiError, ControlPlane, NotSeenError
from tests.e2e.stories.story import (
    CLUSTER,
    EVICTING,
    QUEUES_PATH,
    VOLCANO_JOBS_PATH,
    GitRepository,
    Object,
    is_gated,
    node_pool,
    queue,
    role,
    volcano_job,
)
from tests.faults.git_faults import SlowGit
from tests.faults.nodes import DOMAIN, GPUS, NAMES, NODES, bring_back, take_out
from tests.faults.process import ReconcilerUnderTest
from tests.faults.proxy import FaultProxy, Request
from tests.faults.starvation import Starvation, times_of
from tests.faults.witness import PODS_PATH, Cause, Witness, gang_of, granted_evictions, owner_uids, wrong_evictions

CONFIGMAPS_PATH = "/api/v1/namespaces/default/configmaps"
LEASES_PATH = "/apis/coordination.k8s.io/v1/namespaces/gangplan-system/leases"
OWN_PATH = "/api/v1/namespaces/gangplan-system/configmaps"
REPORT_PATTERN = r"/(leases|events)(/|$)|-status$"
"""Writes that go on at rest, or that no object depends on."""
LOOK_PAUSE = 0.4
"""Seconds between two looks at the cluster: each is work for the API server that the reconciler does not make."""
QUIET_SECONDS = 1.0
"""So long nothing else may be written before a cluster is at rest."""
PARTIAL_WINDOW = 5.0
"""Seconds for which some pods of a gang may have lost their gates and others not, while no fault is at work; without
what a new process takes for its first plan: twice as long as the first rest took."""
COMMIT_GRACE = 10.0
"""Seconds for which a delete may still be on its way that an older commit asked for."""

DESERVED = {"team": 16, "owner": 16}
"""GPUs that each queue deserves; what one does not use the other borrows, and gives back when it is wanted."""
OPTIONS = ("--node-timeout", "2")

Numbers = Mapping[str, Mapping[str, object]]


def config_map(name: str, mode: str) -> Object:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"mode": mode}}


def _queue(name: str, weight: int) -> Object:
    found = queue(name, weight=weight)
    if name in DESERVED:
        found["spec"]["deserved"] = {"nvidia.com/gpu": DESERVED[name]}
    return found


class ViolationError(AssertionError):
    """An invariant did not hold."""


class EndedError(AssertionError):
    """A reconciler's process is over, and no test ended it."""


@dataclass(frozen=True)
class JobSpec:
    """A gang. seconds: how long its pods run, 0 for ever. ttl: seconds for which it stays after its end, None for ever.
    label: may change without a new run; what is over is not touched for it. takes_room: it is made so that it finds
    room, if others have to go for it."""

    pods: int
    gpus: int = 1
    seconds: float = 0.0
    ttl: int | None = None
    label: str = "a"
    queue: str = "team"
    priority: str = ""
    in_one_domain: bool = False

    @property
    def takes_room(self) -> bool:
        return bool(self.priority) or self.queue == "owner"

    def manifest(self, name: str) -> Object:
        worker = role("worker", self.pods, gpus=self.gpus, run_for=f"{self.seconds:g}s" if self.seconds else "")
        rest: Object = {} if self.ttl is None else {"ttlSecondsAfterFinished": self.ttl}
        if self.in_one_domain:
            rest["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        if self.priority:
            rest["priorityClassName"] = self.priority
        job = volcano_job(name, worker, queue=self.queue, **rest)
        job["metadata"]["labels"] = {"revision": self.label}
        return job


@dataclass
class Declared:
    """What the repository declares. weights, modes: of each queue and ConfigMap."""

    jobs: dict[str, JobSpec] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=lambda: dict.fromkeys(DESERVED, 3))
    modes: dict[str, str] = field(default_factory=dict)
    extra: dict[str, Object] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[str, list[str | Object]]]:
        queues = [_queue(name, weight) for name, weight in sorted(self.weights.items())]
        pool = node_pool("gpu", NODES, gpus=GPUS, supernode=DOMAIN)
        yield "cluster-specs/test/cluster.yaml", [CLUSTER, EVICTING, pool, *queues, priority_class("urgent", 1000)]
        for name, job in self.jobs.items():
            yield f"jobs/{name}.yaml", [job.manifest(name)]
        for name, mode in self.modes.items():
            yield f"jobs/map-{name}.yaml", [config_map(name, mode)]
        for name, thing in self.extra.items():
            yield f"jobs/extra-{name}.yaml", [thing]

    def keys(self) -> frozenset[str]:
        """plural/name of what may be deleted by mistake."""
        named: dict[str, Iterable[str]] = {"jobs": self.jobs, "queues": self.weights, "configmaps": self.modes}
        return frozenset(f"{plural}/{name}" for plural, names in named.items() for name in names)


@dataclass
class Commit:
    """made_at: on the monotonic clock. declares: as `Declared.keys`."""

    made_at: float
    sha: str
    declares: frozenset[str]


class World:
    """`with World(plane, folder) as world:`. returning_jobs: those that the story itself deletes, for which a second
    object of the same run is right. replaced_jobs: those with another specification, of which the old object goes.
    nodes_out: node -> the way in which it went. causes: of evictions, since the rest at rested_at. urgent_jobs: for
    which others go, and that go for none."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        *options: str,
        numbers: Numbers | None = None,
        roll: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.plane, self.folder, self.options, self.numbers = plane, folder, (*OPTIONS, *options), numbers
        self.repository = GitRepository(folder / "repo")
        self.proxy = FaultProxy(plane.kubeconfig_for("gangplan"), folder / "proxy", roll=roll)
        self.proxies = [self.proxy]
        self.declared = Declared()
        self.commits: list[Commit] = []
        self.returning_jobs: set[str] = set()
        self.replaced_jobs: set[str] = set()
        self.nodes_out: dict[str, str] = {}
        self.causes: list[Cause] = []
        self.rested_at = 0.0
        self.urgent_jobs: set[str] = set()
        self.starvation = Starvation(lambda: times_of(os.getpid()))
        self.witness = Witness(plane, self.starvation.seconds)
        self.slow_git = SlowGit(folder / "bin")
        self.reconciler = self.new_reconciler("one", self.proxy, self.slow_git.environment)
        self.reconcilers = [self.reconciler]
        self.calm_seconds = 0.0

    def new_reconciler(
        self, name: str, proxy: FaultProxy, environment: Mapping[str, str] | None = None
    ) -> ReconcilerUnderTest:
        return ReconcilerUnderTest(
            self.repository.folder,
            proxy.kubeconfig,
            self.folder / name,
            *self.options,
            numbers=self.numbers,
            environment=environment,
        )

    def restart_reconciler(self) -> None:
        """Until it has spoken to the API server: without a good kubeconfig a process ends at its start, and here is
        nobody who starts another."""
        self.reconciler.restart()
        since = time.monotonic()
        self.wait(lambda: any(request.at >= since for request in list(self.proxy.log)), what="its first request")

    @contextlib.contextmanager
    def replica(self) -> Iterator[ReconcilerUnderTest]:
        """A second reconciler behind a proxy of its own, for the length of a block."""
        with FaultProxy(self.plane.kubeconfig_for("gangplan"), self.folder / "proxy-2") as proxy:
            self.proxies.append(proxy)
            with self.new_reconciler("two", proxy) as replica:
                self.reconcilers.append(replica)
                yield replica
                self.reconcilers.remove(replica)
                replica.terminate()

    def __enter__(self) -> Self:
        self._make_bystander()  # first: where the API server does not answer, nothing else has begun
        self.proxy.__enter__()
        self.starvation.start()
        self.witness.start()
        return self

    def _make_bystander(self) -> None:
        """What is not ours. The start of another world may have made it and not heard of it."""
        try:
            self.plane.api("POST", CONFIGMAPS_PATH, config_map("bystander", "theirs"))
        except ApiError as error:
            if error.status != 409:
                raise

    def begin(self) -> None:
        """The first commit, a reconciler, and the first rest; what that takes is what this machine takes today."""
        began = time.monotonic()
        self.declared.jobs = {
            "long-0": JobSpec(4, 2, ttl=60),
            "long-1": JobSpec(2, 4, in_one_domain=True),
            "short-0": JobSpec(2, seconds=1.0),
        }
        self.declared.modes = {"settings": "fast"}
        self.commit("begin")
        self.reconciler.start()
        self.wait_for_rest(bar=300)
        self.calm_seconds = time.monotonic() - began

    def settle(self, own: float = 0.0) -> float:
        """Wait for rest within `own` seconds and what a slow machine adds; then nothing that must not be may have been.
        Returns the seconds."""
        self.witness.calm_since = min(self.witness.calm_since, time.monotonic())
        seconds = self.wait_for_rest(bar=self.bar(own))
        if violations := self.violations():
            raise ViolationError("\n".join(violations))
        self.causes.clear()
        self.rested_at = time.monotonic()
        return seconds

    def bar(self, own: float = 0.0) -> float:
        collection = 60 if "deleted" in self.nodes_out.values() else 0  # of the pods of a node that is no more
        return 30 + own + collection + 4 * self.calm_seconds

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.witness.stop()
        self.starvation.stop()
        for reconciler in self.reconcilers:
            reconciler.__exit__(kind, error, trace)
        for proxy in self.proxies:
            proxy.__exit__(kind, error, trace)
            if error is not None:
                error.add_note("the end of a proxy's log:\n" + proxy.log_text())
        for node in list(self.nodes_out):
            self.bring_back(node)

    # --- the story

    def commit(self, message: str = "change") -> str:
        """Write what is declared, and commit."""
        files = dict(self.declared.files())
        for file in self.repository.folder.glob("jobs/*.yaml"):
            if f"jobs/{file.name}" not in files:
                file.unlink()
        for path, pieces in files.items():
            self.repository.write_file(path, *pieces)
        sha = self.repository.commit(message)
        self.commits.append(Commit(time.monotonic(), sha, self.declared.keys()))
        return sha

    def take_out(self, node: str, way: str) -> None:
        self.causes.append(Cause(time.monotonic()))
        self.nodes_out[node] = way
        take_out(self.plane, node, way)

    def bring_back(self, node: str) -> None:
        """Unless it is back already."""
        if way := self.nodes_out.pop(node, None):
            bring_back(self.plane, node, way)

    @property
    def usable_nodes(self) -> list[str]:
        return [name for name in NAMES if name not in self.nodes_out]

    def free_gpus(self, for_urgent: bool = False) -> dict[str, int]:
        """Usable node -> GPUs that no pod has there now. for_urgent: or only one that goes for what takes room."""
        free = dict.fromkeys(self.usable_nodes, GPUS)
        for pod in self.plane.api("GET", PODS_PATH)["items"]:
            node, job = pod["spec"].get("nodeName"), self.declared.jobs.get(gang_of(pod["metadata"]["name"]))
            if for_urgent and not (job and job.takes_room):
                continue
            if node in free and pod.get("status", {}).get("phase") in ("Pending", "Running"):
                requests = pod["spec"]["containers"][0]["resources"].get("requests", {})
                free[node] -= int(requests.get("nvidia.com/gpu", 0))
        return free

    @property
    def head(self) -> str:
        return (self.repository.folder / ".git" / "refs" / "heads" / "main").read_text().strip()

    # --- what is seen

    def status(self) -> Object:
        found: Object = json.loads(self.plane.api("GET", f"{OWN_PATH}/gangplan-test-status")["data"]["status.json"])
        return found

    def condition(self, kind: str) -> Object:
        unknown = {"type": kind, "status": "Unknown", "reason": "", "message": ""}
        return next((each for each in self.status()["conditions"] if each["type"] == kind), unknown)

    def wait(
        self, look: Callable[[], Any], until: Callable[[Any], object] = bool, what: str = "", bar: float = 60
    ) -> Any:
        """Wait for `bar` seconds, in addition to those in which the bed waited for a core (three times as many at
        most)."""
        began = time.monotonic()

        def look_at_both() -> Any:
            for reconciler in self.reconcilers:
                if reconciler.has_ended:
                    raise EndedError(f"the reconciler ended by itself while the test waited for {what}")
            return look()

        end = began + bar
        while True:
            left = end - time.monotonic()
            try:
                return self.plane.wait_until(look_at_both, until, timeout=left, what=what, pause=LOOK_PAUSE)
            except NotSeenError as error:
                now = time.monotonic()
                is_over, starved = now >= end, self.starvation.seconds(began, now)
                end = began + bar + min(starved, 3 * bar)
                if not is_over or end - now <= 1:
                    error.add_note(f"after {now - began:.0f} s, in {starved:.0f} of which the bed waited for a core")
                    raise

    def wait_for_rest(self, bar: float = 120.0) -> float:
        """Wait until the cluster is as declared and nothing is written any more; how long that took."""
        began = time.monotonic()
        self.wait(self.differences, lambda seen: not seen, "the cluster as declared", bar)
        matched = time.monotonic() - began
        self.wait(
            lambda: [*self._recent_writes(), *self.differences()], lambda seen: not seen, "an end of the writes", bar
        )
        return matched

    def _recent_writes(self) -> list[str]:
        since = time.monotonic() - QUIET_SECONDS
        return [str(each) for proxy in self.proxies for each in proxy.writes(since=since) if not _is_report(each)]

    def differences(self) -> list[str]:
        """In what the cluster is not as declared."""
        status = self.status()
        if (commit := status.get("commit")) != self.head:
            return [f"commit {commit} in force, not {self.head}"]
        found: list[str] = []
        weights = {each["metadata"]["name"]: each["spec"]["weight"] for each in self._items(QUEUES_PATH)}
        modes = {each["metadata"]["name"]: each["data"]["mode"] for each in self._items(CONFIGMAPS_PATH)}
        for what, seen, wanted in (
            ("queue weights", weights, self.declared.weights),
            ("config maps", modes, {**self.declared.modes, "bystander": "theirs"}),
        ):
            if seen != wanted:
                found.append(f"{what} {seen}, not {wanted}")
        waiting = {gang["name"] for gang in status["gangs"] if gang["decision"] == "wait"}
        return [*found, *self._job_differences(waiting)]

    def _items(self, path: str) -> list[Object]:
        return [each for each in self.plane.api("GET", path)["items"] if each["metadata"]["name"] not in _GIVEN]

    def _job_differences(self, waiting: set[str]) -> Iterator[str]:
        jobs = {each["metadata"]["name"]: each for each in self.plane.api("GET", VOLCANO_JOBS_PATH)["items"]}
        pods = self.plane.api("GET", PODS_PATH)["items"]
        for name in jobs.keys() - self.declared.jobs.keys():
            yield f"job {name}, which nothing declares"
        for name, spec in self.declared.jobs.items():
            job = jobs.get(name)
            if job is None:
                if not spec.seconds or spec.ttl is None or not any(seen == name for seen, _ in self.witness.uids):
                    yield f"no job {name}"
            elif not spec.seconds and labels_of(job).get("revision") != spec.label:
                yield f"job {name} has labels {labels_of(job)}"
            elif (problem := _run_difference(job, spec, pods)) and not (
                name in waiting and self._may_wait(job, spec, pods)
            ):
                yield f"job {name} {problem}"
            elif not spec.seconds and (left := self._left_behind(job, pods)):
                yield f"job {name} has pods on {sorted(left)}, which are gone"

    def _left_behind(self, job: Object, pods: list[Object]) -> set[str]:
        """The nodes without a kubelet on which pods of a job are."""
        gone = {node for node, way in self.nodes_out.items() if way != "cordoned"}
        return gone & {pod["spec"].get("nodeName", "") for pod in pods if job["metadata"]["uid"] in owner_uids(pod)}

    def _may_wait(self, job: Object, spec: JobSpec, pods: list[Object]) -> bool:
        """Whether nothing of the gang has started, and there is no room for it."""
        if spec.takes_room and not self.nodes_out:
            return False
        own = [pod for pod in pods if job["metadata"]["uid"] in owner_uids(pod)]
        places: Counter[int] = Counter()
        for node, free in self.free_gpus(for_urgent=spec.takes_room).items():
            places[_domain_of(node) if spec.in_one_domain else 0] += free // spec.gpus
        return all(map(is_gated, own)) and max(places.values()) < spec.pods

    # --- invariants

    def violations(self) -> list[str]:
        """What must never be, and was."""
        return [
            *self._doubled_runs(),
            *self._wrong_deletes(),
            *wrong_evictions(
                granted_evictions(self.proxies, self.rested_at), self.causes, self.urgent_jobs, self.witness
            ),
            *(f"node {node} was given {more} GPUs more than it has" for node, more in self.witness.overbooked.items()),
            *(
                f"gang {name} was partly started for {seconds:.1f} s"
                for name, seconds in self.witness.longest_partial.items()
                if seconds > PARTIAL_WINDOW + 2 * self.calm_seconds
            ),
        ]

    def creates(self) -> Counter[tuple[str, str]]:
        """(job, digest of the run) -> how often the reconcilers created it."""
        found: Counter[tuple[str, str]] = Counter()
        for proxy in self.proxies:
            for request in proxy.writes(path=f"{VOLCANO_JOBS_PATH}[/?]"):
                if request.upstream == 201 and request.found:
                    digest = annotations_of(request.found).get(DIGEST_ANNOTATION, "")
                    found[request.found["metadata"]["name"], digest] += 1
        return found

    def _doubled_runs(self) -> Iterator[str]:
        for (name, digest), number in self.creates().items():
            if number > 1 and name not in self.returning_jobs:
                yield f"job {name} was created {number} times for run {digest}"
        for (name, digest), uids in self.witness.uids.items():
            if len(uids) > 1 and name not in self.returning_jobs:
                yield f"job {name} was seen as {len(uids)} objects of run {digest}"

    def _wrong_deletes(self) -> Iterator[str]:
        for proxy in self.proxies:
            for request in proxy.writes("DELETE"):
                *_, plural, name = request.path.split("/")
                if plural == "jobs" and name in self.returning_jobs | self.replaced_jobs:
                    continue
                if not self._may_be_deleted(f"{plural}/{name}", request.at):
                    yield f"deleted although declared, or not ours: {request}"

    def _may_be_deleted(self, key: str, at: float) -> bool:
        """Whether it was declared once, and a commit that was the head shortly before `at` does not declare it."""
        heads = [commit for commit in self.commits if commit.made_at <= at]
        recent = [commit for commit in heads[:-1] if commit.made_at >= at - COMMIT_GRACE] + heads[-1:]
        return any(key in commit.declares for commit in heads) and any(key not in each.declares for each in recent)


def _domain_of(node: str) -> int:
    return NAMES.index(node) // DOMAIN


_GIVEN = ("root", "default", "kube-root-ca.crt")


def _is_report(request: Request) -> bool:
    return re.search(REPORT_PATTERN, request.path) is not None


def _run_difference(job: Object, spec: JobSpec, pods: list[Object]) -> str:
    """In what a job is not as far as it is to get."""
    phase = job.get("status", {}).get("state", {}).get("phase", "")
    if spec.seconds:
        return "" if phase == "Completed" else f"is {phase}, not Completed"
    own = [pod for pod in pods if job["metadata"]["uid"] in owner_uids(pod)]
    running = [pod for pod in own if pod.get("status", {}).get("phase") == "Running"]
    if len(running) != spec.pods or len(own) != spec.pods:
        return f"has {len(running)} of {len(own)} pods running, not {spec.pods}"
    placement = json.loads(annotations_of(job).get(PLACEMENT_ANNOTATION, "{}")).get("worker", {})
    bound = dict(Counter(pod["spec"]["nodeName"] for pod in own))
    if spec.in_one_domain and len({_domain_of(node) for node in bound}) > 1:
        return f"is split over domains: {bound}"
    return "" if bound == placement else f"runs on {bound}, planned {placement}"
