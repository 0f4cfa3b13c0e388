"""Tiny problems solved by trying everything: slow, obvious, and written from the specification alone.

It shares no code with the verifier either; the tests hold all three (solver, verifier, this) against one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

from solver.problem import DeviceSlot, Gang, Node, Problem, SlotRequest, Topology, Vector

RoleOnNode = tuple[int, int]
"""(role, node)"""
PodCounts = Mapping[RoleOnNode, int]


def running_pods(gang: Gang) -> Counter[RoleOnNode]:
    pods: Counter[RoleOnNode] = Counter()
    for place in gang.running:
        pods[place.role, place.node] += place.pods
    return pods


def meets_minima_now(gang: Gang) -> bool:
    return _meets_minima(gang, running_pods(gang))


def _meets_minima(gang: Gang, pods: PodCounts) -> bool:
    of_role = [sum(n for (t, _), n in pods.items() if t == role) for role in range(len(gang.roles))]
    if sum(of_role) < gang.minimum or any(n < role.minimum for n, role in zip(of_role, gang.roles, strict=True)):
        return False
    return all(sum(of_role[t] for t in part.roles) >= part.minimum * part.size for part in gang.subgroups)


def new_pod_sets(problem: Problem, g: int) -> list[Counter[RoleOnNode]]:
    """All sets of new pods with which gang g may be admitted as far as it alone is concerned (no capacity, no
    queues)."""
    gang, found = problem.gangs[g], []
    have = running_pods(gang)
    for choice in product(*(_role_pod_sets(problem, gang, role) for role in range(len(gang.roles)))):
        new = Counter(spot for spots in choice for spot in spots)
        if _meets_minima(gang, have + new) and (not new or _fits_topology(problem, gang, have + new)):
            found.append(new)
    return found


def _role_pod_sets(problem: Problem, gang: Gang, role: int) -> Iterator[tuple[RoleOnNode, ...]]:
    spec = gang.roles[role]
    room = max(0, spec.replicas - sum(n for (t, _), n in running_pods(gang).items() if t == role))
    spots = [(role, n) for n, node in enumerate(problem.nodes) if node.node_class in spec.node_classes]
    for count in range(room + 1):
        yield from combinations_with_replacement(spots, count)


def _domain(problem: Problem, node: int, topology: Topology) -> int | None:
    """0 for every node where the topology asks for nothing; None where it lets no pod be."""
    if topology.mode == "soft" or topology.tier > max((h.tier for h in problem.hypernodes), default=0):
        return 0
    here, best = problem.nodes[node].leaf, None
    while here is not None:
        hypernode = problem.hypernodes[here]
        if hypernode.tier > topology.tier:
            break
        best, here = here, hypernode.parent
    return best


def home_nodes(problem: Problem, gang: Gang, node: int) -> set[int]:
    """The nodes around this one on which all pods of the gang have to be."""
    topology = gang.topology or Topology("soft", 1)
    home = _domain(problem, node, topology)
    return {n for n in range(len(problem.nodes)) if _domain(problem, n, topology) == home}


def _fits_topology(problem: Problem, gang: Gang, pods: PodCounts) -> bool:
    if gang.topology is not None:
        domains = {_domain(problem, node, gang.topology) for _, node in pods}
        if None in domains or len(domains) > 1:
            return False
    for part in gang.subgroups:
        inside: Counter[int | None] = Counter()
        for (role, node), n in pods.items():
            if role in part.roles:
                inside[_domain(problem, node, part.topology)] += n
        if inside.pop(None, 0) or any(n % part.size for n in inside.values()):
            return False
    return True


def minimal_sets(options: Sequence[Counter[RoleOnNode]]) -> list[Counter[RoleOnNode]]:
    """Those that contain no other one; whatever admits a larger one has room for the smaller."""
    known = {frozenset(option.items()) for option in options}

    def contains_another(option: Counter[RoleOnNode]) -> bool:
        spots = sorted(option)
        for counts in product(*(range(option[spot] + 1) for spot in spots)):
            inner = frozenset((spot, n) for spot, n in zip(spots, counts, strict=True) if n)
            if inner in known and inner != frozenset(option.items()):
                return True
        return False

    return [option for option in options if not contains_another(option)]


class FreeCapacity:
    """What may still be added next to everything that runs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.resource_range = range(len(problem.resources))
        self.roots = [q for q, queue in enumerate(problem.queues) if queue.parent is None]
        self.children = {
            q: [c for c, queue in enumerate(problem.queues) if queue.parent == q] for q in range(len(problem.queues))
        }
        self.free = [list(node.free) for node in problem.nodes]
        self.held = [list(queue.used) for queue in problem.queues]
        for gang in problem.gangs:
            for place in gang.running:
                for r in self.resource_range:
                    amount = place.pods * gang.roles[place.role].request[r]
                    self.free[place.node][r] -= amount
                    self.held[gang.queue][r] += amount
        lost = [[max(0, -amount) for amount in left] for left in self.free]
        parts = [*(node.free for node in problem.nodes), *lost, *(queue.used for queue in problem.queues)]
        self.total = [sum(part[r] for part in parts) for r in self.resource_range]

        self.slot_roles = [
            (g, t) for g, gang in enumerate(problem.gangs) for t, role in enumerate(gang.roles) if role.slot_requests
        ]
        self.empty_use: tuple[Vector, ...] = ((0,) * (len(problem.resources) + len(self.slot_roles)),) * len(
            problem.nodes
        )
        self._known: dict[tuple[int, Vector], bool] = {}

    def use_of(self, g: int, new: PodCounts) -> tuple[Vector, ...]:
        """What the new pods of gang g take from each node: of each resource, and how many there are of each role with
        portions."""
        use = [list(amounts) for amounts in self.empty_use]
        for (role, node), pods in new.items():
            for r in self.resource_range:
                use[node][r] += pods * self.problem.gangs[g].roles[role].request[r]
            if (g, role) in self.slot_roles:
                use[node][len(self.resource_range) + self.slot_roles.index((g, role))] += pods
        return tuple(map(tuple, use))

    def fits_nodes(self, use: Sequence[Vector]) -> bool:
        whole = all(use[n][r] <= max(0, self.free[n][r]) for n in range(len(self.free)) for r in self.resource_range)
        return whole and all(self._fits_slots(n, amounts[len(self.resource_range) :]) for n, amounts in enumerate(use))

    def _fits_slots(self, n: int, pods: Vector) -> bool:
        """Whether so many pods of each role with portions find their cells on node n: pod after pod, every choice of
        cells."""
        if (n, pods) not in self._known:
            queue = [
                portion
                for (g, t), number in zip(self.slot_roles, pods, strict=True)
                for portion in self.problem.gangs[g].roles[t].slot_requests * number
            ]
            self._known[n, pods] = _has_slot_assignment(
                [list(cell.free) for cell in self.problem.nodes[n].slots], self.problem.nodes[n], queue
            )
        return self._known[n, pods]

    def fits_queues(self, added: Sequence[Vector]) -> bool:
        return all(self._fits_queue_limits(added, r) for r in self.resource_range)

    def _fits_queue_limits(self, added: Sequence[Vector], r: int) -> bool:
        before = [held[r] for held in self.held]
        after = [held + new[r] for held, new in zip(before, added, strict=True)]
        guaranteed = any(queue.guarantee[r] for queue in self.problem.queues)
        for q, queue in enumerate(self.problem.queues):
            limit = queue.capability[r]
            if limit is None:
                continue
            if self.held_below(q, after) > max(limit, self.held_below(q, before)):
                return False
            if guaranteed and self.guaranteed_below(q, after, r) > max(limit, self.guaranteed_below(q, before, r)):
                return False
        need, needed = (sum(self.guaranteed_below(q, held, r) for q in self.roots) for held in (after, before))
        return not guaranteed or need <= max(self.total[r], needed)

    def held_below(self, q: int, held: Sequence[int]) -> int:
        return held[q] + sum(self.held_below(child, held) for child in self.children[q])

    def guaranteed_below(self, q: int, held: Sequence[int], r: int) -> int:
        return max(
            self.problem.queues[q].guarantee[r] or 0,
            held[q] + sum(self.guaranteed_below(child, held, r) for child in self.children[q]),
        )


def _has_slot_assignment(free: list[list[int]], node: Node, queue: Sequence[SlotRequest]) -> bool:
    if not queue:
        return True
    portion, *rest = queue
    for chosen in combinations(
        [c for c, cell in enumerate(node.slots) if cell.slot_group == portion.slot_group], portion.number
    ):
        left = [
            [f - (s if c in chosen else 0) for f, s in zip(amounts, portion.share, strict=True)]
            for c, amounts in enumerate(free)
        ]
        if all(amount >= 0 for c in chosen for amount in left[c]) and _has_slot_assignment(left, node, rest):
            return True
    return False


_ClusterUse = tuple[tuple[Vector, ...], tuple[Vector, ...]]
"""What new pods take from each node, and from each queue."""


def feasible_sets(problem: Problem) -> list[frozenset[int]]:
    """Every set of gangs that can be admitted together, the kept ones always among them, in a fixed order."""
    room = FreeCapacity(problem)
    kept = frozenset(g for g, gang in enumerate(problem.gangs) if meets_minima_now(gang))
    nothing = (0,) * len(problem.resources)
    start: _ClusterUse = (room.empty_use, (nothing,) * len(problem.queues))
    reached: dict[frozenset[int], set[_ClusterUse]] = {kept: {start}}
    for g, gang in enumerate(problem.gangs):
        if g in kept:
            continue
        uses = {room.use_of(g, option) for option in minimal_sets(new_pod_sets(problem, g))}
        for admitted, states in list(reached.items()):
            more: set[_ClusterUse] = set()
            for (use, added), extra in product(states, uses):
                both = tuple(vector_sum(a, b) for a, b in zip(use, extra, strict=True))
                demand = tuple(sum(column) for column in zip(*extra, strict=True))[: len(nothing)] if extra else nothing
                charged = tuple(
                    vector_sum(vector, demand) if q == gang.queue else vector for q, vector in enumerate(added)
                )
                if (both, charged) not in more and room.fits_nodes(both) and room.fits_queues(charged):
                    more.add((both, charged))
            if more:
                reached[admitted | {g}] = more
    return sorted(reached, key=sorted)


def vector_sum(left: Vector, right: Vector) -> Vector:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def alone_on_empty_cluster(problem: Problem, g: int) -> Problem:
    """Gang g alone, with nothing running, on the cluster without any other pod."""
    gang = problem.gangs[g]
    alone = Gang(
        gang.name, gang.queue, gang.priority, gang.age, gang.minimum, gang.roles, gang.topology, gang.subgroups
    )
    nodes = tuple(
        type(node)(
            node.name,
            node.node_class,
            node.leaf,
            node.capacity,
            node.capacity,
            tuple(DeviceSlot(c.slot_group, c.capacity, c.capacity) for c in node.slots),
        )
        for node in problem.nodes
    )
    unused = (0,) * len(problem.resources)
    queues = tuple(
        type(queue)(
            queue.name,
            queue.parent,
            queue.weight,
            queue.priority,
            queue.guarantee,
            queue.deserved,
            queue.capability,
            unused,
        )
        for queue in problem.queues
    )
    return Problem(problem.resources, nodes, problem.hypernodes, queues, (alone,), slot_groups=problem.slot_groups)


AdmissionScore = tuple[tuple[bool, tuple[Fraction, ...], Fraction, int], ...]


def admission_score(problem: Problem, admitted: frozenset[int]) -> AdmissionScore:
    """The objectives that decide who is admitted, for priorities from the highest, in each first those who are overdue:
    the weighted dominant shares, ascending, of the queues with gangs that ask to start at this priority; the sum of
    these gangs' own dominant shares; their number. Shares do not matter where all of these gangs start, nor to a queue
    that asks alone: the sum says what it gets.

    Shares count what the queues hold already and the minima of all that is admitted at this priority or above it.
    """
    totals = [sum(node.capacity[r] for node in problem.nodes) for r in range(len(problem.resources))]
    held = [list(vector) for vector in FreeCapacity(problem).held]
    asking = [g for g, gang in enumerate(problem.gangs) if not meets_minima_now(gang)]
    levels = []
    for step in precedence_levels(problem):
        level = [g for g in asking if (problem.gangs[g].priority, problem.gangs[g].times.overdue) == step]
        placed = Fraction(0)
        for g in sorted(admitted & set(level)):
            demand = _minimum_demand(problem.gangs[g], len(totals))
            held[problem.gangs[g].queue] = [
                have + more for have, more in zip(held[problem.gangs[g].queue], demand, strict=True)
            ]
            placed += max(
                (Fraction(amount, total) for amount, total in zip(demand, totals, strict=True) if total),
                default=Fraction(0),
            )
        shares = []
        queues = {problem.gangs[g].queue for g in level}
        everyone = admitted.issuperset(level)
        for q in queues if len(queues) > 1 and not everyone else ():
            parts = [Fraction(amount, total) for amount, total in zip(held[q], totals, strict=True) if total]
            shares.append(max(parts, default=Fraction(0)) / problem.queues[q].weight)
        levels.append((everyone, tuple(sorted(shares)), placed, len(admitted & set(level))))
    return tuple(levels)


def precedence_levels(problem: Problem) -> list[tuple[int, bool]]:
    """(priority, overdue) of the gangs that ask to start, in the order in which they are served."""
    return sorted(
        {(gang.priority, gang.times.overdue) for gang in problem.gangs if not meets_minima_now(gang)}, reverse=True
    )


def keeps_strict_order(problem: Problem, admitted: frozenset[int]) -> bool:
    """Whether in each queue with strict order those who start come before those who wait."""
    for q, queue in enumerate(problem.queues):
        mine = [g for g, gang in enumerate(problem.gangs) if gang.queue == q and not meets_minima_now(gang)]
        mine.sort(key=lambda g: (-problem.gangs[g].priority, not problem.gangs[g].times.overdue, problem.gangs[g].age))
        starts = [g in admitted for g in mine]
        if queue.strict_order and starts != sorted(starts, reverse=True):
            return False
    return True


def _minimum_demand(gang: Gang, resources: int) -> list[int]:
    return [sum(role.minimum * role.request[r] for role in gang.roles) for r in range(resources)]
