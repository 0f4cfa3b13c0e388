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
from dataclasses import dataclass, field

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


@dataclass
class Gradient:
    """Known rises of the fragmentation by (state, request) are kept: a cluster has few states."""

    problem: Problem
    gpu: int
    rises: dict[tuple[State, Vector], int] = field(default_factory=dict)
    levels: dict[State, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        asked = Counter((role.request, role.kinds) for j in range(len(self.problem.gangs)) if (role := _one_pod(self.problem, j)).request[self.gpu])
        self.workload = [(request, kinds, number) for (request, kinds), number in asked.items()]

    def __call__(self, site: Site, role: Role, nodes: Ints) -> int:
        states: dict[State, int] = {}
        for n in nodes.tolist():
            states.setdefault((self.problem.nodes[n].kind, tuple(site.room.free.amounts[n].tolist())), n)
        return min((self._rise(state, role.request), n) for state, n in states.items())[1]

    def _rise(self, state: State, request: Vector) -> int:
        if (state, request) not in self.rises:
            after = state[0], tuple(have - ask for have, ask in zip(state[1], request, strict=True))
            self.rises[state, request] = self.level(after) - self.level(state)
        return self.rises[state, request]

    def level(self, state: State) -> int:
        """F of a node in this state."""
        if state not in self.levels:
            kind, free = state
            useless = sum(n for request, kinds, n in self.workload if kind not in kinds or any(a > f for a, f in zip(request, free, strict=True)))
            self.levels[state] = free[self.gpu] * useless
        return self.levels[state]
