"""The node of a pod: the scores of nodeorder and binpack, summed."""

from __future__ import annotations

import numpy as np

from solver.problem import Problem, Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.entitlements import FloatArray
from solver.simulation.volcano_configuration import VolcanoScheduler

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
