"""Neighbourhood: pods of one gang change nodes inside a leaf, so that roles that prefer each other share nodes.

After Volcano's plugin task-topology, which prefers and never forbids. The last step: pods stay in their leaf, on nodes
that the gang has anyway, so that no objective changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from solver.options import Options
from solver.problem import Gang, Placement, Problem
from solver.search import Incumbent, Limits, Moves, improve
from solver.semantics.placement_cost import BoolArray
from solver.semantics.placements import Placements, merge_placements, new_placements, requested_resources
from solver.state.free_nodes import FreeNodes

Step = tuple[int, int, int, int | None]
"""(role, from node, to node, role returned in exchange or None)"""


def improve_role_affinity(
    problem: Problem, free: FreeNodes, placements: Placements, unopened: BoolArray, options: Options
) -> dict[int, tuple[Placement, ...]]:
    """Return the same pods per role and leaf, with more role affinity. free: next to these placements, changed with
    them.

    unopened: node -> whether it was unopened before the plan. Its new pods keep requesting the same resources, so that
    it counts as opened as before.
    """
    found = dict(placements)
    for j in sorted(placements):
        gang = problem.gangs[j]
        if not gang.role_affinities:
            continue
        leaves: dict[int | None, list[Placement]] = {}
        for p in new_placements(gang, placements[j]):
            leaves.setdefault(problem.nodes[p.node].leaf, []).append(p)
        moved = list(gang.running)
        for pods in leaves.values():
            exchange = LeafExchange(problem, free, gang, unopened, options.budget.affinity_exchanges)
            exchange.add_pods(pods)
            limits = Limits(options.clock)
            moved += improve(exchange, lambda solution: -solution.score, exchange.moves, limits).placements
        found[j] = merge_placements(moved)
    return found


@dataclass
class LeafExchange:
    """The pods of a gang in one leaf; a solution that its own moves change in place, to a higher score.

    steps_left: that may be looked at. new_pods, all_pods: node -> pods per role, without and with running ones.
    """

    problem: Problem
    free_nodes: FreeNodes
    gang: Gang
    unopened: BoolArray
    steps_left: int
    new_pods: dict[int, list[int]] = field(default_factory=dict)
    all_pods: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._affinity = {(min(a, b), max(a, b)): value for a, b, value in self.gang.role_affinities}

    def add_pods(self, pods: Sequence[Placement]) -> None:
        """The gang's new pods in the leaf, and next to them its running ones on the same nodes."""
        roles = len(self.gang.roles)
        for node in sorted({p.node for p in pods}):
            self.new_pods[node], self.all_pods[node] = [0] * roles, [0] * roles
        for p in pods:
            self.new_pods[p.node][p.role] += p.pods
        for p in (*pods, *(p for p in self.gang.running if p.node in self.all_pods)):
            self.all_pods[p.node][p.role] += p.pods

    @property
    def placements(self) -> list[Placement]:
        every = (Placement(t, n, pods) for n, counts in self.new_pods.items() for t, pods in enumerate(counts))
        return [p for p in every if p.pods]

    @property
    def score(self) -> int:
        return sum(self._score_of(pods) for pods in self.all_pods.values())

    def _score_of(self, pods: Sequence[int]) -> int:
        """Sum over pairs of pods on one node of how their roles prefer each other: 1, -1 or 0."""
        return sum(
            value * (pods[a] * (pods[a] - 1) // 2 if a == b else pods[a] * pods[b])
            for (a, b), value in self._affinity.items()
        )

    def moves(self, incumbent: Incumbent[LeafExchange]) -> Moves[LeafExchange]:
        """Return the possible step with the largest gain."""
        best = max(self._improving_steps(), key=lambda found: found[0], default=None)
        if best is not None:
            yield partial(self._make_step, best[1])

    def _improving_steps(self) -> Iterator[tuple[int, Step]]:
        """Yield (gain, step) of possible steps with a gain."""
        for step in self._steps():
            self.steps_left -= 1
            if self.steps_left < 0:
                return
            _, u, v, _ = step
            before = self._score_of(self.all_pods[u]) + self._score_of(self.all_pods[v])
            gain = sum(self._score_of(pods) for pods in _after_step(step, self.all_pods)) - before
            if gain > 0 and self._is_possible(step):
                yield gain, step

    def _steps(self) -> Iterator[Step]:
        bound = [role.owned_rules or role.selecting_rules or role.slot_requests for role in self.gang.roles]
        roles = [t for t, is_bound in enumerate(bound) if not is_bound]
        for u, here in self.new_pods.items():
            for a in (t for t in roles if here[t]):
                others = [b for b in roles if b != a]
                for v, there in self.new_pods.items():
                    if v != u:
                        yield a, u, v, None
                        yield from ((a, u, v, b) for b in others if there[b])

    def _is_possible(self, step: Step) -> bool:
        """Return whether node classes and free amounts allow it; the gang leaves no node and opens its nodes by the
        same resources."""
        a, u, v, b = step
        for t, node in ((a, v), (b, u)):
            if t is not None and self.problem.nodes[node].node_class not in self.gang.roles[t].node_classes:
                return False
        if b is None and (sum(self.new_pods[u]) == 1 or self._ranks_differ(u, v)):
            return False
        for n, after in zip((u, v), _after_step(step, self.new_pods), strict=True):
            if self.unopened[n] and self._resources_of(self.new_pods[n]) != self._resources_of(after):
                return False
        mark = self.free_nodes.mark()
        try:
            self._move_pods(step)
        except ValueError:
            return False
        finally:
            self.free_nodes.undo(mark)
        return True

    def _ranks_differ(self, u: int, v: int) -> bool:
        """Return whether the queue prefers the node group of one node to that of the other."""
        ranks, nodes = self.problem.queues[self.gang.queue].node_group_ranks, self.problem.nodes
        return bool(ranks) and ranks[nodes[u].node_group] != ranks[nodes[v].node_group]

    def _resources_of(self, pods: Sequence[int]) -> set[int]:
        """Return the resources that pods per role request."""
        return requested_resources(role.request for role, number in zip(self.gang.roles, pods, strict=True) if number)

    def _move_pods(self, step: Step) -> None:
        """Move the step's pods on the free nodes. Raises ValueError where there is too little free."""
        a, u, v, b = step
        self.free_nodes.add_pods(u, self.gang.roles[a], -1)
        if b is not None:
            self.free_nodes.add_pods(v, self.gang.roles[b], -1)
            self.free_nodes.add_pods(u, self.gang.roles[b], 1)
        self.free_nodes.add_pods(v, self.gang.roles[a], 1)

    def _make_step(self, step: Step) -> LeafExchange:
        self._move_pods(step)
        _, u, v, _ = step
        for counts in (self.new_pods, self.all_pods):
            counts[u], counts[v] = _after_step(step, counts)
        return self


def _after_step(step: Step, pods: Mapping[int, Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return pods per role on the two nodes of the step after it."""
    a, u, v, b = step
    left, right = list(pods[u]), list(pods[v])
    left[a], right[a] = left[a] - 1, right[a] + 1
    if b is not None:
        left[b], right[b] = left[b] + 1, right[b] - 1
    return left, right
