"""Single pods one after another, oldest first: best fit, and fragmentation gradient descent.

Best fit: of the nodes that hold the pod the one with least left over, summed over resources as parts of the largest node.

Fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23): the GPUs of a node that a pod of the workload cannot use
are fragments to it; the expectation over a pod drawn from the workload is the node's fragmentation. A pod goes where it makes that rise least.

    F(node) = sum over the workload's pods m of (free GPUs of the node if it cannot hold m, else 0)         whole GPUs; not divided by their number

Pods without GPUs see every GPU as a fragment on every node alike, so that they make no difference to the choice.
The workload is known beforehand, as in the paper, where it is taken from the past.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from bench.baselines.site import Placements, Site
from solver.cells import Ints
from solver.problem import Placement, Problem, Role, Vector

State = tuple[int, Vector]
"""(kind of the node, what is free on it): nodes of one state are as good as one another."""


def _one_pod(problem: Problem, j: int) -> Role:
    gang = problem.gangs[j]
    if len(gang.roles) != 1 or gang.minimum != 1 or gang.topology is not None:
        raise ValueError(f"gang {gang.name} is more than one pod, or has a topology")
    return gang.roles[0]


def _fill(problem: Problem, choose: Callable[[Site, Role, Ints], int]) -> Placements:
    """choose(site, role, nodes that hold the pod) -> one of them."""
    site = Site(problem)
    waiting = (j for j in range(len(problem.gangs)) if j not in site.placements)
    for j in sorted(waiting, key=lambda j: (-problem.gangs[j].priority, problem.gangs[j].age, j)):
        role = _one_pod(problem, j)
        nodes = np.flatnonzero(site.slots(role))
        if len(nodes) and site.allows(j):
            node = choose(site, role, nodes)
            site.room.take(node, role.ask, 1)
            site.start(j, (Placement(0, node, 1),))
    return site.placements


def best_fit(problem: Problem) -> Placements:
    largest = np.maximum(np.array([n.capacity for n in problem.nodes]).max(axis=0), 1)
    return _fill(problem, lambda site, role, nodes: int(nodes[np.argmin((site.room.free.amounts[nodes] / largest).sum(axis=1))]))


def gradient_descent(problem: Problem, gpu: str) -> Placements:
    """gpu: the resource whose fragments count."""
    return _fill(problem, Gradient(problem, problem.resources.index(gpu)))


class Gradient:
    """F and its rises by state of a node; a cluster has few states, and only the node that took the last pod has a new one."""

    def __init__(self, problem: Problem, gpu: int) -> None:
        self.problem, self.gpu = problem, gpu
        asked = Counter((role.request, role.kinds) for j in range(len(problem.gangs)) if (role := _one_pod(problem, j)).request[gpu])
        self.requests = np.array([request for request, _ in asked], dtype=np.int64).reshape(len(asked), len(problem.resources))
        self.numbers = np.array(list(asked.values()), dtype=np.int64)
        self.open = {kind: np.array([kind in kinds for _, kinds in asked]) for kind in {node.kind for node in problem.nodes}}
        self.states: dict[State, int] = {}
        self.known: list[State] = []
        self.at: Ints | None = None
        self.last = -1
        self._levels: dict[State, int] = {}
        self._rises: dict[tuple[int, Vector], int] = {}

    def __call__(self, site: Site, role: Role, nodes: Ints) -> int:
        if self.at is None:
            self.at = np.array([self._state(site, n) for n in range(len(self.problem.nodes))], dtype=np.int64)
        elif self.last >= 0:
            self.at[self.last] = self._state(site, self.last)
        found, first = np.unique(self.at[nodes], return_index=True)
        self.last = min((self._rise(state, role.request), int(nodes[n])) for state, n in zip(found.tolist(), first.tolist(), strict=True))[1]
        return self.last

    def _state(self, site: Site, n: int) -> int:
        state = self.problem.nodes[n].kind, tuple(site.room.free.amounts[n].tolist())
        if state not in self.states:
            self.states[state] = len(self.known)
            self.known.append(state)
        return self.states[state]

    def _rise(self, number: int, request: Vector) -> int:
        if (number, request) not in self._rises:
            kind, free = self.known[number]
            after = kind, tuple(have - ask for have, ask in zip(free, request, strict=True))
            self._rises[number, request] = self.level(after) - self.level((kind, free))
        return self._rises[number, request]

    def level(self, state: State) -> int:
        """F of a node in this state."""
        if state not in self._levels:
            kind, free = state
            holds = (np.array(free) >= self.requests).all(axis=1) & self.open[kind]
            self._levels[state] = free[self.gpu] * int(self.numbers[~holds].sum())
        return self._levels[state]
