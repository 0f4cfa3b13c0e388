"""Single pods one after another, oldest first: best fit, and fragmentation gradient descent.

Best fit: of the nodes that hold the pod the one with least left over, summed over resources as parts of the largest
node; on it the devices with least free that hold the pod's share.

Fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23): the GPUs of a node that a pod of
the workload cannot use are fragments to it; the expectation over a pod drawn from the workload is the node's
fragmentation. A pod goes where it makes that rise least: of every node each device that holds its share is tried.

    F(node) = sum over the workload's pods m of     all that is free of the node's GPUs                   where it cannot hold m
                                                    what is free on devices with less than m asks of one  else (not divided by their number)

Pods without GPUs see every GPU as a fragment on every node alike, so that they make no difference to the choice.
The workload is known beforehand, as in the paper, where it is taken from the past.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from bench.baselines.site import Placements, Site
from solver.problem import Placement, PodRequest, Problem, Role, Vector
from solver.semantics.device_slots import IntArray

Devices = tuple[int, ...]
"""What is free of the GPU on each device of a node, ascending; () where the node's GPUs are not told apart."""

State = tuple[int, Vector, Devices]
"""(kind of the node, what is free on it, its devices): nodes of one state are as good as one another."""


def _one_pod(problem: Problem, j: int) -> Role:
    gang = problem.gangs[j]
    if len(gang.roles) != 1 or gang.minimum != 1 or gang.topology is not None:
        raise ValueError(f"gang {gang.name} is more than one pod, or has a topology")
    return gang.roles[0]


def _fill(problem: Problem, choose: Callable[[Site, Role], int | None]) -> Placements:
    """choose(site, role) -> the node that takes the pod, from whose room it is taken already; None where no node holds
    it."""
    site = Site(problem)
    waiting = (j for j in range(len(problem.gangs)) if j not in site.placements)
    for j in sorted(waiting, key=lambda j: (-problem.gangs[j].priority, problem.gangs[j].age, j)):
        role = _one_pod(problem, j)
        node = choose(site, role) if site.allows(j) else None
        if node is not None:
            site.start(j, (Placement(0, node, 1),))
    return site.placements


def best_fit(problem: Problem) -> Placements:
    largest = np.maximum(np.array([n.capacity for n in problem.nodes]).max(axis=0), 1)

    def choose(site: Site, role: Role) -> int | None:
        nodes = np.flatnonzero(site.slots(role))
        if not len(nodes):
            return None
        node = int(nodes[np.argmin((site.room.vectors.amounts[nodes] / largest).sum(axis=1))])
        site.room.take_pods(node, role.pod_request, 1)
        return node

    return _fill(problem, choose)


def gradient_descent(problem: Problem, gpu: str) -> Placements:
    """gpu: the resource whose fragments count. Raises ValueError for pods that take portions of another resource, which
    it does not know."""
    return _fill(problem, Gradient(problem, problem.resources.index(gpu)))


class Gradient:
    """F and its rises by state of a node; a cluster has few states, and only the node that took the last pod has a new
    one.

    The devices of a node are kept in its state, since the pod goes to the devices that the descent chose.
    """

    def __init__(self, problem: Problem, gpu: int) -> None:
        self.problem, self.gpu = problem, gpu
        asked = Counter(
            (role.pod_request, role.node_classes)
            for j in range(len(problem.gangs))
            if (role := _one_pod(problem, j)).request[gpu]
        )
        if any(
            portion.share[r]
            for ask, _ in asked
            for portion in ask.slot_requests
            for r in range(len(problem.resources))
            if r != gpu
        ):
            raise ValueError("gradient descent knows portions of one resource only")
        self.requests = np.array([ask.amounts for ask, _ in asked], dtype=np.int64).reshape(
            len(asked), len(problem.resources)
        )
        self.devices = np.array([self._wanted(ask) for ask, _ in asked], dtype=np.int64).reshape(len(asked), 2)
        self.numbers = np.array(list(asked.values()), dtype=np.int64)
        self.open = {
            kind: np.array([kind in kinds for _, kinds in asked])
            for kind in {node.node_class for node in problem.nodes}
        }
        self.states: dict[State, int] = {}
        self.known: list[State] = []
        self.at: IntArray | None = None
        self._levels: dict[State, int] = {}
        self._rises: dict[tuple[int, PodRequest], tuple[int, Devices] | None] = {}

    def _wanted(self, ask: PodRequest) -> tuple[int, int]:
        """(how many devices, how much of each); (0, 0) where the GPUs of a node are not told apart."""
        return next(((portion.number, portion.share[self.gpu]) for portion in ask.slot_requests), (0, 0))

    def __call__(self, site: Site, role: Role) -> int | None:
        if self.at is None:
            self.at = np.array(
                [self._number(self._before(site, n)) for n in range(len(self.problem.nodes))], dtype=np.int64
            )
        whole = PodRequest(role.request)
        nodes = np.flatnonzero(site.open_to(role) & (site.room.fit_counts(whole) > 0))
        found, first = np.unique(self.at[nodes], return_index=True)
        rises = (
            (self._rise(state, role.pod_request), state, n)
            for state, n in zip(found.tolist(), first.tolist(), strict=True)
        )
        best = min(
            ((rise[0], self._fullest(state), int(nodes[n]), rise[1]) for rise, state, n in rises if rise is not None),
            default=None,
        )
        if best is None:
            return None
        _, _, node, devices = best
        site.room.take_pods(node, whole, 1)
        self.at[node] = self._number(
            (self.problem.nodes[node].node_class, tuple(site.room.vectors.amounts[node].tolist()), devices)
        )
        return node

    def _before(self, site: Site, n: int) -> State:
        node = self.problem.nodes[n]
        devices = tuple(sorted(cell.free[self.gpu] for cell in node.slots if cell.capacity[self.gpu]))
        return node.node_class, tuple(site.room.vectors.amounts[n].tolist()), devices

    def _number(self, state: State) -> int:
        if state not in self.states:
            self.states[state] = len(self.known)
            self.known.append(state)
        return self.states[state]

    def _fullest(self, number: int) -> tuple[int, ...]:
        """What settles ties, of which the paper says nothing: the least GPUs free, then the least of the rest."""
        kind, free, _ = self.known[number]
        return free[self.gpu], *(amount for r, amount in enumerate(free) if r != self.gpu), kind

    def _rise(self, number: int, ask: PodRequest) -> tuple[int, Devices] | None:
        """(the least rise of F over all choices of devices, the devices after it); None where they do not hold the pod."""
        if (number, ask) not in self._rises:
            before = kind, free, devices = self.known[number]
            amounts = tuple(have - amount for have, amount in zip(free, ask.amounts, strict=True))
            rises = [
                (self.level((kind, amounts, after)) - self.level(before), after)
                for after in self._choices(devices, *self._wanted(ask))
            ]
            self._rises[number, ask] = min(rises, default=None)
        return self._rises[number, ask]

    @staticmethod
    def _choices(devices: Devices, number: int, share: int) -> Iterable[Devices]:
        """The devices after each way to take the shares, as far as they differ: from neighbours in the order of what is
        free."""
        fits = [d for d, have in enumerate(devices) if have >= share]
        for chosen in sorted({tuple(devices[d] for d in fits[i : i + number]) for i in range(len(fits) - number + 1)}):
            left = Counter(devices) - Counter(chosen)
            yield tuple(sorted([*left.elements(), *(have - share for have in chosen)]))

    def level(self, state: State) -> int:
        """F of a node in this state."""
        if state not in self._levels:
            kind, free, devices = state
            number, share = self.devices.T
            have = np.array(devices, dtype=np.int64)[:, None]
            useful = np.where(number > 0, (have * (have >= share)).sum(axis=0), free[self.gpu])
            holds = (
                (np.array(free) >= self.requests).all(axis=1)
                & self.open[kind]
                & ((have >= share).sum(axis=0) >= number)
            )
            self._levels[state] = int(((free[self.gpu] - holds * useful) * self.numbers).sum())
        return self._levels[state]
