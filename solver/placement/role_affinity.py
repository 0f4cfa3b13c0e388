"""Roles that like to share a node, or not to: the last step inside each leaf, after everything that is decided by
objectives.

Only pods of one gang change places, on nodes of one leaf that the gang has anyway, so that no objective notices. After
Volcano's plugin task-topology, which prefers and never forbids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from solver.options import Budget
from solver.problem import Gang, Placement, Problem
from solver.semantics.placement_cost import BoolArray
from solver.semantics.placements import Placements, merge_placements, new_placements
from solver.state.free_nodes import FreeNodes

Step = tuple[int, int, int, int | None]
"""(role, from node, to node, role that comes back in exchange or None)"""


def improve_role_affinity(
    problem: Problem, room: FreeNodes, placements: Placements, unopened: BoolArray, budget: Budget
) -> dict[int, tuple[Placement, ...]]:
    """The same pods per role and leaf, nearer to what their gangs like. room: what is free beside these placements,
    kept up to date.

    whole: node -> whether it was whole before the plan (`costs.Wholes`): its new pods keep asking for the same
    resources, so that it opens as it did.
    """
    found = dict(placements)
    for j in sorted(placements):
        gang = problem.gangs[j]
        new = new_placements(gang, placements[j])
        if not gang.role_affinities or not new:
            continue
        leaves: dict[int | None, list[Placement]] = {}
        for p in new:
            leaves.setdefault(problem.nodes[p.node].leaf, []).append(p)
        moved = [
            p
            for pods in leaves.values()
            for p in _LeafExchange.from_pods(problem, room, gang, pods, unopened, budget.affinity_exchanges).improve()
        ]
        found[j] = merge_placements([*gang.running, *moved])
    return found


@dataclass
class _LeafExchange:
    """new, all: node -> pods per role of the gang there, without and with those that run. liking: (role, role) -> 1, or
    -1."""

    problem: Problem
    free_nodes: FreeNodes
    gang: Gang
    new_pods: dict[int, list[int]]
    all_pods: dict[int, list[int]]
    role_affinity: Mapping[tuple[int, int], int]
    unopened: BoolArray
    max_exchanges: int
    exchanges_tried: int = 0

    @classmethod
    def from_pods(
        cls,
        problem: Problem,
        room: FreeNodes,
        gang: Gang,
        pods: Sequence[Placement],
        unopened: BoolArray,
        max_exchanges: int,
    ) -> _LeafExchange:
        new = {n: [0] * len(gang.roles) for n in sorted({p.node for p in pods})}
        for p in pods:
            new[p.node][p.role] += p.pods
        both = {n: list(counts) for n, counts in new.items()}
        for p in gang.running:
            if p.node in both:
                both[p.node][p.role] += p.pods
        return cls(
            problem,
            room,
            gang,
            new,
            both,
            {(a, b): value for x, y, value in gang.role_affinities for a, b in ((x, y), (y, x))},
            unopened,
            max_exchanges,
        )

    def improve(self) -> list[Placement]:
        """The best step as long as one helps."""
        while (step := max(self._improving_steps(), key=lambda found: found[0], default=None)) is not None:
            self._apply_step(step[1])
        return [Placement(t, n, pods) for n, counts in self.new_pods.items() for t, pods in enumerate(counts) if pods]

    def _improving_steps(self) -> Iterator[tuple[int, Step]]:
        """Those that help and are possible, with what they gain."""
        roles = [
            t
            for t, role in enumerate(self.gang.roles)
            if not (role.owned_rules or role.selecting_rules or role.slot_requests)
        ]
        for u in self.new_pods:
            for a in (t for t in roles if self.new_pods[u][t]):
                for v in (n for n in self.new_pods if n != u):
                    for b in (None, *(t for t in roles if t != a and self.new_pods[v][t])):
                        self.exchanges_tried += 1
                        if self.exchanges_tried > self.max_exchanges:
                            return
                        step = (a, u, v, b)
                        gain = self._gain(step)
                        if gain > 0 and self._is_possible(step):
                            yield gain, step

    def _gain(self, step: Step) -> int:
        """What the two nodes are worth after the step, less what they are worth now."""
        a, u, v, b = step
        before = self._affinity_score(self.all_pods[u]) + self._affinity_score(self.all_pods[v])
        left, right = list(self.all_pods[u]), list(self.all_pods[v])
        left[a], right[a] = left[a] - 1, right[a] + 1
        if b is not None:
            left[b], right[b] = left[b] + 1, right[b] - 1
        return self._affinity_score(left) + self._affinity_score(right) - before

    def _affinity_score(self, pods: Sequence[int]) -> int:
        """sum over pairs of pods on one node of how their roles like each other"""
        return sum(
            value * (pods[a] * (pods[a] - 1) // 2 if a == b else pods[a] * pods[b])
            for (a, b), value in self.role_affinity.items()
            if a <= b
        )

    def _is_possible(self, step: Step) -> bool:
        """The kinds are open, the room is there, and no node is left by all of the gang: whoever counts opened nodes
        sees the same ones."""
        a, u, v, b = step
        roles = self.gang.roles
        if (b is None and sum(self.new_pods[u]) == 1) or any(
            self.unopened[n] and self._requested_resources(n) != self._requested_resources(n, step) for n in (u, v)
        ):
            return False
        if self.problem.nodes[v].node_class not in roles[a].node_classes or (
            b is not None and self.problem.nodes[u].node_class not in roles[b].node_classes
        ):
            return False
        mark = self.free_nodes.mark()
        try:
            self._move_pods(step)
        except ValueError:
            return False
        finally:
            self.free_nodes.undo(mark)
        return True

    def _requested_resources(self, n: int, step: Step | None = None) -> set[int]:
        """The resources that the gang's new pods on a node ask for, now or after the step."""
        pods = list(self.new_pods[n])
        if step is not None:
            a, u, _, b = step
            sign = -1 if n == u else 1
            pods[a] += sign
            if b is not None:
                pods[b] -= sign
        return {
            r
            for t, number in enumerate(pods)
            if number
            for r, amount in enumerate(self.gang.roles[t].request)
            if amount
        }

    def _move_pods(self, step: Step) -> None:
        """In the room. Raises ValueError where there is too little."""
        a, u, v, b = step
        self.free_nodes.add_pods(u, self.gang.roles[a], -1)
        if b is not None:
            self.free_nodes.add_pods(v, self.gang.roles[b], -1)
            self.free_nodes.add_pods(u, self.gang.roles[b], 1)
        self.free_nodes.add_pods(v, self.gang.roles[a], 1)

    def _apply_step(self, step: Step) -> None:
        a, u, v, b = step
        self._move_pods(step)
        for counts in (self.new_pods, self.all_pods):
            counts[u][a], counts[v][a] = counts[u][a] - 1, counts[v][a] + 1
            if b is not None:
                counts[u][b], counts[v][b] = counts[u][b] + 1, counts[v][b] - 1
