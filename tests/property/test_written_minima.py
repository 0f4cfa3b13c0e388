"""A minimum means the same however it is written: of the gang (minMember alone), or of its only role as well
(minTaskMember)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from compiler.cluster_state.cluster_state import ClusterState
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from tests.builders.depth import sample
from tests.property.plan_events import rare_events

Requests = Mapping[str, int]
PRIORITIES = {"high": 100, "low": 10}
PLUGINS: list[dict[str, Any]] = [
    {"name": "priority"},
    {"name": "gang", "enablePreemptable": False, "enableReclaimable": False},
    {"name": "conformance"},
    {"name": "capacity"},
    {"name": "predicates"},
    {"name": "nodeorder"},
]
ACTIONS = (["allocate", "reclaim"], ["allocate", "preempt", "reclaim"], ["allocate", "gangreclaim", "gangpreempt"])


def test_plans_are_worth_the_same_whether_the_minimum_is_the_gangs_or_its_roles() -> None:
    """In none of these worlds are two victims equal for one gang and not for the next one, which then pays for it."""
    seen, worths = Counter[str](), {}
    for seed in range(50, 50 + sample(24)):
        worths[seed] = [worth(planned(seed, of_role=of_role)) for of_role in (False, True)]
        seen["evicts"] += worths[seed][0][1] > 0
    assert {seed: found for seed, found in worths.items() if found[0] != found[1]} == {}
    assert rare_events(seen, evicts=3) == {}


def worth(outcome: Outcome) -> tuple[list[tuple[str, int, int]], int]:
    """((queue, priority, pods) of each gang that has pods, the loss), whichever of equal gangs these are."""
    decisions = outcome.decisions
    placed = sorted(
        (d.gang.queue, PRIORITIES[d.gang.priority_class or "low"], d.pod_count) for d in decisions if d.pod_count
    )
    return placed, sum(d.evicted_count * max(1, d.seconds_run) for d in decisions)


def planned(seed: int, *, of_role: bool) -> Outcome:
    """The plan of a world of up to three nodes, in which gangs of one role run and wait in three queues."""
    made = _World(random.Random(seed), of_role)  # noqa: S311  - not a secret
    cluster, jobs = list(made.cluster()), [*made.running(), *made.waiting()]
    files = {"cluster-specs/c/all.yaml": cluster, "jobs/all.yaml": list(map(_declared, jobs))}
    texts = {path: yaml.safe_dump_all(documents).encode() for path, documents in files.items()}
    live = [each for each in (*cluster, *jobs) if each["kind"] in ("Queue", "PodGroup", "Pod", "Node")]
    outcome = compile_repository(Repository(texts), state=ClusterState.from_objects(live))
    assert [finding for finding in outcome.diagnostics if finding.severity == "error"] == []
    return outcome


def _declared(document: dict[str, Any]) -> dict[str, Any]:
    """As it was before it ran."""
    spec = {key: value for key, value in document["spec"].items() if key != "nodeName"}
    return {key: value for key, value in document.items() if key != "status"} | {"spec": spec}


class _World:
    """Draws documents, the same for both ways to write the minima."""

    def __init__(self, rng: random.Random, of_role: bool) -> None:
        self.rng, self.of_role = rng, of_role
        sizes = [{"cpu": rng.choice((8, 16, 32)), "nvidia.com/gpu": 4} for _ in range(rng.randint(1, 3))]
        self.free = {f"n{n}": dict(size) for n, size in enumerate(sizes)}

    def cluster(self) -> Iterator[dict[str, Any]]:
        own, scheduling = "gangplan.dev/v1alpha1", "scheduling.volcano.sh/v1beta1"
        yield _object(own, "Cluster", "c", {})
        spec = {"actions": self.rng.choice(ACTIONS), "tiers": [{"plugins": PLUGINS}]}
        yield _object(own, "SchedulerConfiguration", "volcano-scheduler-configmap", spec)
        for name, value in PRIORITIES.items():
            yield _object("scheduling.k8s.io/v1", "PriorityClass", name, None, value=value)
        for name, size in self.free.items():
            labels = {"kubernetes.io/hostname": name}
            status = {"allocatable": {"pods": 110, **size}}
            yield _object("v1", "Node", name, {}, labels=labels, status=status)
        for name in "abc":
            deserved = {"cpu": self.rng.choice((0, 2, 8, 16)), "nvidia.com/gpu": self.rng.choice((0, 2, 4, 6))}
            named = {resource: amount for resource, amount in deserved.items() if amount}
            yield _object(scheduling, "Queue", name, {"deserved": named})

    def running(self) -> Iterator[dict[str, Any]]:
        for g in range(self.rng.randint(2, 6)):
            request, pods = self._request(), self.rng.randint(1, 2)
            nodes = [node for _ in range(pods) if (node := self._take(request))]
            if len(nodes) == pods:
                yield from self._gang(f"r{g}", request, nodes)

    def waiting(self) -> Iterator[dict[str, Any]]:
        for g in range(self.rng.randint(1, 3)):
            yield from self._gang(f"w{g}", self._request(), [""] * self.rng.randint(1, 3))

    def _request(self) -> dict[str, int]:
        gpus = self.rng.choice((0, 1, 2, 4))
        return {"cpu": self.rng.choice((1, 2, 4, 8)), **({"nvidia.com/gpu": gpus} if gpus else {})}

    def _take(self, request: Requests) -> str:
        """A node with room for the pod, which is taken; "" for none."""
        fitting = [name for name, free in self.free.items() if all(free[r] >= n for r, n in request.items())]
        if not fitting:
            return ""
        name = self.rng.choice(fitting)
        self.free[name].update({r: self.free[name][r] - n for r, n in request.items()})
        return name

    def _gang(self, name: str, request: Requests, nodes: list[str]) -> Iterator[dict[str, Any]]:
        minimum, start = self.rng.randint(1, len(nodes)), f"2026-01-01T0{self.rng.randint(0, 9)}:00:00Z"
        spec = {
            "queue": self.rng.choice("abc"),
            "priorityClassName": self.rng.choice(tuple(PRIORITIES)),
            "minMember": minimum,
            **({"minTaskMember": {"x": minimum}} if self.of_role else {}),
        }
        yield _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, spec, namespace="t")
        gpus = {"limits": {"nvidia.com/gpu": request["nvidia.com/gpu"]}} if "nvidia.com/gpu" in request else {}
        container = {"name": "main", "image": "a", "resources": {"requests": dict(request), **gpus}}
        for i, node in enumerate(nodes):
            pod = {"schedulerName": "volcano", "containers": [container], **({"nodeName": node} if node else {})}
            yield _object(
                "v1",
                "Pod",
                f"{name}-{i}",
                pod,
                namespace="t",
                labels={"volcano.sh/task-spec": "x"},
                annotations={"scheduling.k8s.io/group-name": name},
                status={"phase": "Running", "startTime": start} if node else {"phase": "Pending"},
            )


METADATA = ("namespace", "labels", "annotations")


def _object(version: str, kind: str, name: str, spec: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **{key: more.pop(key) for key in METADATA if key in more}}
    body = {} if spec is None else {"spec": spec}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body, **more}
