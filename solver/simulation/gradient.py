"""Fragmentation gradient descent (Weng et al., Beware of Fragmentation, USENIX ATC'23).

The GPUs of a node that a pod of the workload cannot use are fragments to it; the expectation over a pod drawn from the
workload is the node's fragmentation. A pod is placed where that rises least: on every node each device that holds its
share is tried.

    F(node) = sum over the workload's pods m of
        all that is free of the node's GPUs                    where it cannot hold m
        what is free on devices with less than m asks of one   else (not divided by their number)

Pods without GPUs see every GPU as a fragment on every node alike, so they do not affect the choice.
The workload is known beforehand, as in the paper, where it is taken from the past.

Nodes are compared as the paper's scheduler does, by a whole number from 0 to 100:

    score = floor(100 / (1 + exp(rise / GPU)))        rise: of the expectation

Of equal scores the node with the least free GPUs counts. The exact rise instead of the score allocates 0.5 % less on
openb than the paper, and this as much (`python -m bench --only replay-openb`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from solver.problem import PodRequest, Problem, Role, Vector
from solver.semantics.device_slots import IntArray
from solver.simulation.room import Hold, Holds, Room

NodeState = tuple[int, Vector, Vector]
"""(node class, free amounts, free GPU amount of each device, ascending): nodes of one state are equally good. No
devices where only their number counts."""


class FragmentationGradient:
    """F and its rises by state of a node; a cluster has few states, and only nodes that changed have a new one.

    Raises ValueError for pods that take shares of another resource than the GPU.
    """

    def __init__(self, cluster: Problem, roles: Sequence[Role], gpu: int, unit: int) -> None:
        """gpu: index of the resource, of which `unit` is one device."""
        self.gpu, self.unit = gpu, unit
        asked = Counter[tuple[PodRequest, frozenset[int]]]()
        for role in roles:
            asked[role.pod_request, role.node_classes] += role.replicas if role.request[gpu] else 0
        asked = +asked
        slots = [slot for request, _ in asked for slot in request.slot_requests]
        if any(sum(slot.share) != slot.share[gpu] for slot in slots):
            raise ValueError("fragmentation gradient descent knows shares of GPUs only")
        width = len(cluster.resources)
        self._requests = np.array([request.amounts for request, _ in asked], dtype=np.int64).reshape(len(asked), width)
        self._on_devices = np.array([self._device_request(request) for request, _ in asked], dtype=np.int64)
        self._on_devices = self._on_devices.reshape(len(asked), 2)
        self._times = np.array(list(asked.values()), dtype=np.int64)
        self._pods = max(1, sum(asked.values()))
        classes = sorted({node.node_class for node in cluster.nodes})
        self._open_to = {c: np.array([c in open_classes for _, open_classes in asked], dtype=bool) for c in classes}
        self._devices_of = [sum(1 for slot in node.slots if slot.capacity[gpu]) for node in cluster.nodes]
        self._numbers: dict[NodeState, int] = {}
        self._states: list[NodeState] = []
        self._fragmentation_of: dict[NodeState, int] = {}
        self._rise_of: dict[tuple[int, PodRequest], tuple[int, Vector] | None] = {}
        self._room: Room | None = None
        self._seen = 0
        self._state_of: IntArray = np.zeros(0, dtype=np.int64)

    def __call__(self, room: Room, role: Role) -> Holds | None:
        """Where the pods go, one after another, and on which devices; None where they do not fit together."""
        found = list[Hold]()
        while len(found) < role.replicas and (hold := self._place(room, role)) is not None:
            room.take(role, (hold,))
            found.append(hold)
        room.give(role, tuple(found))
        return _by_node(found) if len(found) == role.replicas else None

    def _place(self, room: Room, role: Role) -> Hold | None:
        """Return the place of one pod."""
        self._follow(room)
        nodes = np.flatnonzero(room.fit_counts(role))
        states, first = np.unique(self._state_of[nodes], return_index=True)
        found = (
            (-self._score(rise[0]), self._tie_break(state), int(nodes[n]), rise[1])
            for state, n in zip(states.tolist(), first.tolist(), strict=True)
            if (rise := self._least_rise(state, role.pod_request)) is not None
        )
        best = min(found, default=None)
        return None if best is None else self._hold(room, role, best[2], best[3])

    def _score(self, rise: int) -> int:
        """Return a node's score when F, summed over the workload's pods, rises by so much."""
        return int(100 / (1 + math.exp(rise / self._pods / self.unit)))

    def _device_request(self, request: PodRequest) -> tuple[int, int]:
        """(how many devices, how much of each); (0, 0) where only their number counts."""
        return next(((slot.number, slot.share[self.gpu]) for slot in request.slot_requests), (0, 0))

    # ---- states of nodes

    def _follow(self, room: Room) -> None:
        """Bring the states of the nodes up to date."""
        if self._room is not room:
            self._room, self._state_of = room, np.zeros(len(room.classes), dtype=np.int64)
            changed: Iterable[int] = range(len(room.classes))
        else:
            changed = room.changed_since(self._seen)
        self._seen = room.version
        for node in changed:
            state = int(room.classes[node]), tuple(room.free.amounts[node].tolist()), self._free_devices(room, node)
            self._state_of[node] = self._number(state)

    def _free_devices(self, room: Room, node: int) -> Vector:
        slots = room.free.slots[node, :, :, self.gpu].reshape(-1)
        return tuple(sorted(slots[: self._devices_of[node]].tolist()))

    def _number(self, state: NodeState) -> int:
        if state not in self._numbers:
            self._numbers[state] = len(self._states)
            self._states.append(state)
        return self._numbers[state]

    def _tie_break(self, number: int) -> tuple[int, ...]:
        """Return the key that settles ties, which the paper leaves open: the least GPUs free, then the least of the
        rest."""
        node_class, free, _ = self._states[number]
        return free[self.gpu], *(amount for r, amount in enumerate(free) if r != self.gpu), node_class

    # ---- fragmentation

    def _least_rise(self, number: int, request: PodRequest) -> tuple[int, Vector] | None:
        """(the least rise of F over all choices of devices, the devices after it); None where they do not hold the
        pod."""
        if (number, request) not in self._rise_of:
            before = node_class, free, devices = self._states[number]
            amounts = tuple(have - amount for have, amount in zip(free, request.amounts, strict=True))
            rises = (
                (self.fragmentation((node_class, amounts, after)) - self.fragmentation(before), after)
                for after in _devices_after(devices, *self._device_request(request))
            )
            self._rise_of[number, request] = min(rises, default=None)
        return self._rise_of[number, request]

    def fragmentation(self, state: NodeState) -> int:
        """F of a node in this state."""
        if state not in self._fragmentation_of:
            node_class, free, devices = state
            number, share = self._on_devices.T
            have = np.array(devices, dtype=np.int64)[:, None]
            useful = np.where(number > 0, (have * (have >= share)).sum(axis=0), free[self.gpu])
            holds = (
                (np.array(free) >= self._requests).all(axis=1)
                & self._open_to[node_class]
                & ((have >= share).sum(axis=0) >= number)
            )
            self._fragmentation_of[state] = int(((free[self.gpu] - holds * useful) * self._times).sum())
        return self._fragmentation_of[state]

    def _hold(self, room: Room, role: Role, node: int, after: Vector) -> Hold:
        """Return the pod on the devices that lose its share between now and `after`."""
        if not role.slot_requests:
            return Hold(node, 1)
        (request,) = role.slot_requests
        free = room.free.slots[node, request.slot_group, :, self.gpu].tolist()
        lost = Counter(self._states[int(self._state_of[node])][2]) - Counter(after)
        counts = []
        for have in free:
            counts.append(1 if lost[have] > 0 else 0)
            lost[have] -= counts[-1]
        return Hold(node, 1, (tuple(counts),))


def _by_node(holds: Sequence[Hold]) -> Holds:
    """The same, with one hold a node."""
    found: dict[int, Hold] = {}
    for hold in holds:
        have = found.get(hold.node, Hold(hold.node, 0, tuple((0,) * len(slots) for slots in hold.slots)))
        slots = tuple(tuple(map(sum, zip(*both, strict=True))) for both in zip(have.slots, hold.slots, strict=True))
        found[hold.node] = Hold(hold.node, have.pods + hold.pods, slots)
    return tuple(found[node] for node in sorted(found))


def _devices_after(devices: Vector, number: int, share: int) -> Iterator[Vector]:
    """Yield the devices after each different way to take the shares: from neighbours in the order of free amounts."""
    fits = [d for d, have in enumerate(devices) if have >= share]
    for chosen in sorted({tuple(devices[d] for d in fits[i : i + number]) for i in range(len(fits) - number + 1)}):
        left = Counter(devices) - Counter(chosen)
        yield tuple(sorted([*left.elements(), *(have - share for have in chosen)]))
