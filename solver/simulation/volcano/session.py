"""The cluster in the eyes of one of Volcano's cycles: who has lost pods, and who has got their room.

A pod goes to the node with the highest sum of the scores of nodeorder and binpack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solver.problem import Problem, Role, Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.entitlements import FloatArray
from solver.simulation.room import Holds
from solver.simulation.site import Site
from solver.simulation.volcano.queues import QueueAccounts
from solver.simulation.workload import VolcanoScheduler

Pod = tuple[int, int]
"""(job, number of the pod in it)."""


@dataclass(frozen=True, slots=True)
class JobState:
    """came: when its podgroup was created. made: the cycle after which its pods were created. holds, nodes: where it
    runs, and the node of each pod."""

    came: int
    made: int = 0
    holds: Holds = ()
    nodes: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A pod is evicted from the node (times = -1), or gets room there once that is free (times = 1)."""

    pod: Pod
    node: int
    times: int


class Session:
    """counted: node -> what nodeorder counts its pods as. left: job -> its pods. held: queue -> node -> what those of
    its pods hold that may go. done: in order. Source: framework/statement."""

    def __init__(
        self,
        site: Site,
        accounts: QueueAccounts,
        scores: NodeScores,
        running: Mapping[int, JobState],
        counted: IntArray,
    ) -> None:
        self.site, self._accounts, self._scores = site, accounts, scores
        self.running, self.counted = running, counted.copy()
        self._freed = np.zeros_like(site.room.free.amounts)
        self.left = Counter({j: len(state.nodes) for j, state in running.items()})
        self.held: dict[int, IntArray] = {}
        self.done: list[Operation] = []
        self._on: dict[int, list[Pod]] = {}

    @property
    def future(self) -> IntArray:
        """Return node -> what will be free."""
        return self.site.room.free.amounts + self._freed

    def open_to_eviction(self, jobs: Collection[int]) -> None:
        """Only these of the running jobs may lose pods."""
        for j in jobs:
            held = self.held.setdefault(self.site.job(j).queue, np.zeros_like(self._freed))
            for k, node in enumerate(self.running[j].nodes):
                self._on.setdefault(node, []).append((j, k))
                held[node] += self.request(j)

    def pods_on(self, node: int, queues: Collection[int]) -> list[Pod]:
        """Return the pods of these queues that may be evicted from the node."""
        return [pod for pod in self._on.get(node, ()) if self.site.job(pod[0]).queue in queues]

    def role(self, j: int) -> Role:
        return self.site.job(j).role

    def request(self, j: int) -> IntArray:
        """Return the request of each pod of the job."""
        return np.array(self.role(j).request, dtype=np.int64)

    def pods_without_room(self, j: int) -> list[Pod]:
        """Return the pods of a waiting job that have not got any."""
        given = {each.pod for each in self.done if each.times > 0}
        return [(j, k) for k in range(self.role(j).replicas) if (j, k) not in given]

    def evict(self, pod: Pod, node: int) -> None:
        self._do(Operation(pod, node, -1))

    def give(self, pod: Pod, node: int) -> None:
        """Give a waiting pod its room."""
        self._do(Operation(pod, node, 1))

    def _do(self, each: Operation) -> None:
        self.done.append(each)
        self._change(each, each.times)
        if each.times < 0:
            self._on[each.node].remove(each.pod)

    def undo(self, mark: int = 0) -> None:
        """Take back all but the first so many operations."""
        while len(self.done) > mark:
            each = self.done.pop()
            self._change(each, -each.times)
            if each.times < 0:
                self._on[each.node].append(each.pod)

    def _change(self, each: Operation, times: int) -> None:
        j, role = each.pod[0], self.role(each.pod[0])
        self._freed[each.node] -= times * self.request(j)
        self.counted[each.node] += times * self._scores.counted_request(role.request)
        self._accounts.take(self.site.job(j).queue, role.request, times)
        self.left[j] += times


BEST = 100
"""MaxNodeScore of Kubernetes."""
LEAST_REQUEST = {"cpu": 100, "memory": 200 * 1024 * 1024}
"""Counted request of a pod without one (k8s.io/kubernetes pkg/scheduler/util/pod_resources.go)."""
ROUNDING = 1e-9
BALANCED = ("cpu", "memory", "nvidia.com/gpu")


class NodeScores:
    """Sources: plugins/nodeorder, plugins/binpack, and Kubernetes' noderesources (1.35). Scores of nodeorder that are
    equal on all nodes for pods without affinity, images and tolerations are left out."""

    def __init__(self, scheduler: VolcanoScheduler, cluster: Problem) -> None:
        self.capacity: IntArray = np.array([node.capacity for node in cluster.nodes], dtype=np.int64)
        index = {name: r for r, name in enumerate(cluster.resources)}
        order, pack = (scheduler.voter("enableNodeOrder", name) for name in ("nodeorder", "binpack"))
        self._least = 0 if order is None else order.whole("leastrequested.weight", 1)
        self._most = 0 if order is None else order.whole("mostrequested.weight", 0)
        self._balanced = 0 if order is None else order.whole("balancedresource.weight", 1)
        self._packed = 0 if pack is None else pack.whole("binpack.weight", 1)
        weights = {} if pack is None else {name: pack.whole(f"binpack.{name}", 1) for name in LEAST_REQUEST}
        for name in [] if pack is None else str(pack.arguments.get("binpack.resources", "")).split(","):
            if name.strip() and pack is not None:
                weights[name.strip()] = pack.whole(f"binpack.resources.{name.strip()}", 1)
        self._pack_weights = {index[name]: max(0, weight) for name, weight in weights.items() if name in index}
        self.counted = [(index[name], least) for name, least in LEAST_REQUEST.items() if name in index]
        self._balanced_by = [index[name] for name in BALANCED if name in index]
        self._always = dict.fromkeys((r for r, _ in self.counted), True)

    def counted_request(self, request: Vector) -> IntArray:
        """Return the request that nodeorder counts for a pod, for each of `counted`."""
        return np.array([request[r] or least for r, least in self.counted], dtype=np.int64)

    def of_nodes(self, request: Vector, nodes: IntArray, free: IntArray, counted: IntArray) -> FloatArray:
        """Return the score of each of these nodes for one more pod. free, counted: each node's free amounts, and the
        requests that nodeorder counts there."""
        whole = self.capacity[nodes]
        used = whole - free + np.array(request, dtype=np.int64)
        score = np.zeros(len(nodes))
        if self._least or self._most:
            score += self._by_load(whole, counted + self.counted_request(request))
        if self._balanced:
            score += self._balanced * self._by_balance(request, whole, used)
        return score + self._by_fullness(request, whole, used) if self._packed else score

    def _by_load(self, whole: IntArray, counted: IntArray) -> FloatArray:
        """LeastAllocated and MostAllocated: the mean over CPU and memory, in whole points."""
        least, most, known = (np.zeros(len(whole), dtype=np.int64) for _ in range(3))
        for at, (r, _) in enumerate(self.counted):
            most_r, own = np.maximum(whole[:, r], 1), counted[:, at]
            has = whole[:, r] > 0
            least += np.where(has & (own <= most_r), (most_r - own) * BEST // most_r, 0)
            most += np.where(has, np.minimum(own, most_r) * BEST // most_r, 0)
            known += has
        known = np.maximum(known, 1)
        return (self._least * (least // known) + self._most * (most // known)).astype(np.double)

    def _by_balance(self, request: Vector, whole: IntArray, used: IntArray) -> FloatArray:
        """BalancedAllocation: 100 less the standard deviation of how full the resources are; of devices only where the
        pod asks for some."""
        if not any(request[r] for r in self._balanced_by):
            return np.zeros(len(whole))
        rows = [r for r in self._balanced_by if self._always.get(r, request[r])]
        has = whole[:, rows] > 0
        full = np.where(has, np.minimum(used[:, rows] / np.maximum(whole[:, rows], 1), 1.0), 0.0)
        number = np.maximum(has.sum(axis=1), 1)
        mean = full.sum(axis=1) / number
        spread = np.sqrt((np.where(has, full - mean[:, np.newaxis], 0.0) ** 2).sum(axis=1) / number)
        return np.asarray(np.trunc((1 - spread) * BEST + ROUNDING), dtype=np.double)

    def _by_fullness(self, request: Vector, whole: IntArray, used: IntArray) -> FloatArray:
        """binpack: how full the resources that the pod asks for would be, weighted."""
        weights = {r: weight for r, weight in self._pack_weights.items() if request[r]}
        if not (total := sum(weights.values())):
            return np.zeros(len(whole))
        full = sum(weight * used[:, r] / np.maximum(whole[:, r], 1) for r, weight in weights.items())
        return np.asarray(full / total * BEST * self._packed, dtype=np.double)
