"""Single pods one after another, oldest first: best fit, and fragmentation gradient descent.

Best fit: of the nodes that hold the pod the one with least left over, summed over resources as parts of the largest
node; on it the devices with least free that hold the pod's share.

Fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23): the GPUs of a node that a pod of
the workload cannot use are fragments to it; the expectation over a pod drawn from the workload is the node's
fragmentation. A pod goes where it makes that rise least: of every node each device that holds its share is tried.

    F(node) = sum over the workload's pods m of
        all that is free of the node's GPUs                    where it cannot hold m
        what is free on devices with less than m asks of one   else (not divided by their number)

Pods without GPUs see every GPU as a fragment on every node alike, so that they make no difference to the choice.
The workload is known beforehand, as in the paper, where it is taken from the past.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from bench.baselines.site import BaselineCluster, Placements
from solver.problem import Placement, PodRequest, Problem, Role, Vector
from solver.semantics.device_slots import IntArray

FreePerDevice = tuple[int, ...]
"""What is free of the GPU on each device of a node, ascending; () where the node's GPUs are not told apart."""

NodeState = tuple[int, Vector, FreePerDevice]
"""(kind of the node, what is free on it, its devices): nodes of one state are as good as one another."""


def _single_pod_role(problem: Problem, j: int) -> Role:
    gang = problem.gangs[j]
    if len(gang.roles) != 1 or gang.minimum != 1 or gang.topology is not None:
        raise ValueError(f"gang {gang.name} is more than one pod, or has a topology")
    return gang.roles[0]


def _place_pods(problem: Problem, choose_node: Callable[[BaselineCluster, Role], int | None]) -> Placements:
    """choose(site, role) -> the node that takes the pod, from whose room it is taken already; None where no node holds
    it."""
    site = BaselineCluster(problem)
    waiting = (j for j in range(len(problem.gangs)) if j not in site.placements)
    for j in sorted(waiting, key=lambda j: (-problem.gangs[j].priority, problem.gangs[j].age, j)):
        role = _single_pod_role(problem, j)
        node = choose_node(site, role) if site.allows_gang(j) else None
        if node is not None:
            site.start_gang(j, (Placement(0, node, 1),))
    return site.placements


def place_by_best_fit(problem: Problem) -> Placements:
    largest = np.maximum(np.array([n.capacity for n in problem.nodes]).max(axis=0), 1)

    def choose(site: BaselineCluster, role: Role) -> int | None:
        nodes = np.flatnonzero(site.fit_counts(role))
        if not len(nodes):
            return None
        node = int(nodes[np.argmin((site.free_nodes.vectors.amounts[nodes] / largest).sum(axis=1))])
        site.free_nodes.take_pods(node, role.pod_request, 1)
        return node

    return _place_pods(problem, choose)


def place_by_gradient(problem: Problem, gpu: str) -> Placements:
    """gpu: the resource whose fragments count. Raises ValueError for pods that take portions of another resource, which
    it does not know."""
    return _place_pods(problem, FragmentationGradient(problem, problem.resources.index(gpu)))


class FragmentationGradient:
    """F and its rises by state of a node; a cluster has few states, and only the node that took the last pod has a new
    one.

    The devices of a node are kept in its state, since the pod goes to the devices that the descent chose.
    """

    def __init__(self, problem: Problem, gpu: int) -> None:
        self.problem, self.gpu = problem, gpu
        asked = Counter(
            (role.pod_request, role.node_classes)
            for j in range(len(problem.gangs))
            if (role := _single_pod_role(problem, j)).request[gpu]
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
        self.device_requests = np.array([self._device_request(ask) for ask, _ in asked], dtype=np.int64).reshape(
            len(asked), 2
        )
        self.role_counts = np.array(list(asked.values()), dtype=np.int64)
        self.open_to = {
            kind: np.array([kind in kinds for _, kinds in asked])
            for kind in {node.node_class for node in problem.nodes}
        }
        self.state_numbers: dict[NodeState, int] = {}
        self.known_states: list[NodeState] = []
        self.state_of_node: IntArray | None = None
        self._fragmentation_of: dict[NodeState, int] = {}
        self._increase_of: dict[tuple[int, PodRequest], tuple[int, FreePerDevice] | None] = {}

    def _device_request(self, pod_request: PodRequest) -> tuple[int, int]:
        """(how many devices, how much of each); (0, 0) where the GPUs of a node are not told apart."""
        return next(((portion.number, portion.share[self.gpu]) for portion in pod_request.slot_requests), (0, 0))

    def __call__(self, site: BaselineCluster, role: Role) -> int | None:
        if self.state_of_node is None:
            self.state_of_node = np.array(
                [self._state_number(self._initial_state(site, n)) for n in range(len(self.problem.nodes))],
                dtype=np.int64,
            )
        whole = PodRequest(role.request)
        nodes = np.flatnonzero(site.open_nodes(role) & (site.free_nodes.fit_counts(whole) > 0))
        found, first = np.unique(self.state_of_node[nodes], return_index=True)
        rises = (
            (self._least_increase(state, role.pod_request), state, n)
            for state, n in zip(found.tolist(), first.tolist(), strict=True)
        )
        best = min(
            (
                (rise[0], self._tie_break_key(state), int(nodes[n]), rise[1])
                for rise, state, n in rises
                if rise is not None
            ),
            default=None,
        )
        if best is None:
            return None
        _, _, node, devices = best
        site.free_nodes.take_pods(node, whole, 1)
        self.state_of_node[node] = self._state_number(
            (self.problem.nodes[node].node_class, tuple(site.free_nodes.vectors.amounts[node].tolist()), devices)
        )
        return node

    def _initial_state(self, site: BaselineCluster, n: int) -> NodeState:
        node = self.problem.nodes[n]
        devices = tuple(sorted(cell.free[self.gpu] for cell in node.slots if cell.capacity[self.gpu]))
        return node.node_class, tuple(site.free_nodes.vectors.amounts[n].tolist()), devices

    def _state_number(self, state: NodeState) -> int:
        if state not in self.state_numbers:
            self.state_numbers[state] = len(self.known_states)
            self.known_states.append(state)
        return self.state_numbers[state]

    def _tie_break_key(self, number: int) -> tuple[int, ...]:
        """What settles ties, of which the paper says nothing: the least GPUs free, then the least of the rest."""
        kind, free, _ = self.known_states[number]
        return free[self.gpu], *(amount for r, amount in enumerate(free) if r != self.gpu), kind

    def _least_increase(self, number: int, pod_request: PodRequest) -> tuple[int, FreePerDevice] | None:
        """(the least rise of F over all choices of devices, the devices after it); None where they do not hold the
        pod."""
        if (number, pod_request) not in self._increase_of:
            before = kind, free, devices = self.known_states[number]
            amounts = tuple(have - amount for have, amount in zip(free, pod_request.amounts, strict=True))
            rises = [
                (self.fragmentation((kind, amounts, after)) - self.fragmentation(before), after)
                for after in self._devices_after_choices(devices, *self._device_request(pod_request))
            ]
            self._increase_of[number, pod_request] = min(rises, default=None)
        return self._increase_of[number, pod_request]

    @staticmethod
    def _devices_after_choices(devices: FreePerDevice, number: int, share: int) -> Iterable[FreePerDevice]:
        """The devices after each way to take the shares, as far as they differ: from neighbours in the order of what is
        free."""
        fits = [d for d, have in enumerate(devices) if have >= share]
        for chosen in sorted({tuple(devices[d] for d in fits[i : i + number]) for i in range(len(fits) - number + 1)}):
            left = Counter(devices) - Counter(chosen)
            yield tuple(sorted([*left.elements(), *(have - share for have in chosen)]))

    def fragmentation(self, state: NodeState) -> int:
        """F of a node in this state."""
        if state not in self._fragmentation_of:
            kind, free, devices = state
            number, share = self.device_requests.T
            have = np.array(devices, dtype=np.int64)[:, None]
            useful = np.where(number > 0, (have * (have >= share)).sum(axis=0), free[self.gpu])
            holds = (
                (np.array(free) >= self.requests).all(axis=1)
                & self.open_to[kind]
                & ((have >= share).sum(axis=0) >= number)
            )
            self._fragmentation_of[state] = int(((free[self.gpu] - holds * useful) * self.role_counts).sum())
        return self._fragmentation_of[state]
