"""The greedy that gives the incumbent and the floor: gang by gang, the tightest domain that holds it, best fit inside.

After Kueue's topology-aware best fit and Volcano's hypernode gradient, described in docs/model.md; exact integers,
always feasible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from solver.greedy.fragmentation import Fragmentation
from solver.greedy.pod_by_pod import PodByPodPlacer
from solver.options import Budget
from solver.problem import Gang, Placement, Subgroup, Topology, Vector
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import GangClass, breaks_topology, has_partial_subgroup, waiting_class
from solver.semantics.placement_cost import split_subgroups
from solver.semantics.placements import merge_placements
from solver.semantics.priorities import precedence
from solver.semantics.share_measures import gang_dominant_share, queue_priority
from solver.semantics.topology import ROOT
from solver.state.state import State


class GreedyPlacer:
    """Places gangs one after another and takes their room from the state."""

    def __init__(
        self,
        state: State,
        fragmentation: Fragmentation | None = None,
        largest_first: bool = False,
        budget: Budget | None = None,
    ) -> None:
        """fragmentation: of the same state; pods then go where they cause least of it, not where fewest still fit.
        largest_first: gangs of a queue are served by size, not by age."""
        self.state, self.fragmentation, self.largest_first = state, fragmentation, largest_first
        self.problem, self.tree, self.free_nodes = state.problem, state.tree, state.free_nodes
        self.budget = budget or Budget()

    def serving_order(self, gangs: Iterable[int]) -> Iterable[int]:
        """The gangs by precedence, priority of the queue, share of the queue at that moment, what the gang holds (drf),
        size where the largest come first, and age. A queue with strict order serves by age alone.

        Charge the queues between two of them.
        """
        totals = self.problem.totals
        waiting: dict[tuple[int, int], dict[int, list[int]]] = {}
        for j in sorted(
            gangs, key=lambda j: (*self._share_and_size(j, totals), self.problem.gangs[j].age, j), reverse=True
        ):
            queue = self.problem.gangs[j].queue
            waiting.setdefault(
                (-precedence(self.problem.gangs[j]), -queue_priority(self.problem, queue)), {}
            ).setdefault(queue, []).append(j)
        for p in sorted(waiting):
            queues = waiting[p]
            while queues:
                q = min(queues, key=self.state.queue_books.share_order_key)
                yield queues[q].pop()
                if not queues[q]:
                    del queues[q]

    def _share_and_size(self, j: int, totals: Vector) -> tuple[float, float]:
        """What comes before age in a queue: what drf says of what the gang holds, and the part of the cluster that it
        asks for."""
        gang = self.problem.gangs[j]
        if self.problem.queues[gang.queue].strict_order:
            return 0.0, 0.0
        asked = waiting_class(j, gang).min_demand(len(totals)) if self.largest_first else (0,) * len(totals)
        return gang_dominant_share(self.problem, gang, gang.running, totals), -max(
            (a / t for a, t in zip(asked, totals, strict=True) if t), default=0.0
        )

    def place_gang(self, index: int, shape: GangClass | None = None) -> tuple[Placement, ...] | None:
        """The new pods of a gang at their nodes, taken from the room; None (and nothing taken) when this greedy finds
        no way."""
        gang = self.problem.gangs[index]
        shape = shape or waiting_class(index, gang)
        if not shape.has_valid_size or (shape.running_pods and breaks_topology(self.tree, gang, shape.running_pods)):
            return None
        want = shape.smallest_mix()
        reach = [self.tree.domain_sum_array(self._fit_counts(shape, t)) for t in range(len(shape.roles))]
        steps = [gang] if self._is_rule_bound(shape) else [*self._tighter_variants(gang, shape), gang]
        best: tuple[int, tuple[Placement, ...]] | None = None
        for h in self._distinct_domains(shape, self._nearest_first(shape, self._candidate_domains(shape, want, reach))):
            mark = self.free_nodes.mark()
            left = list(want)
            placed = tuple(p for step in steps for p in self._place_in_domain(h, step, shape, left))
            cost = split_subgroups(self.tree, gang, placed) if len(steps) > 1 else 0
            done = not any(left) and not (
                shape.running_pods and has_partial_subgroup(self.tree, gang, [*shape.running_pods, *placed])
            )
            if done and not cost:
                return placed
            self.free_nodes.undo(mark)
            if done and (best is None or cost < best[0]):
                best = cost, placed
        if best is None:
            return None
        self.free_nodes.add_gang_pods(gang, best[1])
        return best[1]

    def _tighter_variants(self, gang: Gang, shape: GangClass) -> list[Gang]:
        """The gang with its subgroups bound to ever higher tiers: first as many parts as can be are whole in a domain
        of the lowest tier, then of the next one, and only the rest obeys no more than it must. None where all obey the
        lowest tier anyway, or pods run already."""
        if shape.running_pods:
            return []
        found = []
        for tier in self.tree.tiers:
            parts = tuple(
                s if s.topology.mode == "hard" and s.topology.tier <= tier else self._with_hard_tier(s, tier)
                for s in gang.subgroups
            )
            if parts == gang.subgroups:
                break
            found.append(replace(gang, subgroups=parts))
        return found

    @staticmethod
    def _with_hard_tier(subgroup: Subgroup, tier: int) -> Subgroup:
        return replace(subgroup, topology=Topology("hard", tier))

    def max_pods_in_domain(self, index: int, shape: GangClass) -> int:
        """The most pods of the gang that this greedy gets into one of its domains, short of all of them; the room stays
        as it was."""
        best, want = 0, shape.smallest_mix()
        reach = [self.fit_counts_by_domain(shape, t) for t in range(len(shape.roles))]
        domains = self.tree.domains_at_tier(shape.hard_tier) if shape.hard_tier is not None else (ROOT,)
        count = {h: sum(min(below[h], pods) for below, pods in zip(reach, want, strict=True)) for h in domains}
        for h in self._distinct_domains(shape, sorted(domains, key=lambda h: (-count[h], h))):
            if count[h] <= best:
                break
            mark, left = self.free_nodes.mark(), list(want)
            self._place_in_domain(h, self.problem.gangs[index], shape, left, all_or_nothing=False)
            self.free_nodes.undo(mark)
            best = max(best, sum(want) - sum(left))
        return min(best, shape.min_pods - 1)

    def _distinct_domains(self, shape: GangClass, domains: Iterable[int]) -> Iterator[int]:
        """The domains without those that are built alike and have the same free, node by node, as one before: what
        fails there fails here."""
        alike = (
            not shape.running_pods
            and self.free_nodes.rule_counts is None
            and not any(role.pod_request.slot_requests for role in shape.roles)
        )
        seen: set[object] = set()
        for h in domains:
            if alike:
                nodes = self.tree.nodes_in_tree_order(h)
                free = self.free_nodes.vectors.at_nodes(nodes)
                key = (
                    self.tree.structure(h),
                    self.tree.node_class_of[nodes].tobytes(),
                    free.amounts.tobytes(),
                    free.slots.tobytes(),
                )
                if key in seen:
                    continue
                seen.add(key)
            yield h

    def _is_rule_bound(self, shape: GangClass) -> bool:
        """Whether relations ask where its pods are."""
        return shape.has_pod_rules and self.free_nodes.rule_counts is not None

    def _place_in_domain(
        self, h: int, gang: Gang, shape: GangClass, unplaced: list[int], all_or_nothing: bool = True
    ) -> tuple[Placement, ...]:
        """As many of `left` under h as fit, pod by pod where relations ask who is where; counts `left` down. whole:
        less than all is of no use."""
        if shape.has_pod_rules and self.free_nodes.rule_counts is not None:
            open_to = [self.tree.class_mask(role.node_classes) for role in shape.roles]
            one_by_one = PodByPodPlacer(self.state, gang, shape, open_to, self.budget.subgroup_tries)
            return (
                ()
                if all_or_nothing and one_by_one.is_forbidden_by_rules(h, unplaced)
                else merge_placements(one_by_one.place_pods(h, unplaced))
            )
        return self._place_whole_subgroups(h, gang, shape, unplaced)

    def fit_counts_by_domain(self, shape: GangClass, t: int) -> dict[int, int]:
        """Domain -> pods of role t that fit under it by number."""
        return self.tree.sum_per_domain(self._fit_counts(shape, t))

    def _fit_counts(self, shape: GangClass, t: int) -> np.ndarray:
        """Pods of role t that each node holds."""
        role = shape.roles[t]
        found = np.where(self.tree.class_mask(role.node_classes), self.free_nodes.fit_counts(role.pod_request), 0)
        return found if self.free_nodes.rule_counts is None else self.free_nodes.rule_counts.cap_fit_counts(role, found)

    def _fit_counts_on(self, nodes: np.ndarray, shape: GangClass, t: int) -> np.ndarray:
        """The same of these nodes only."""
        if self.free_nodes.rule_counts is not None:
            return np.asarray(self._fit_counts(shape, t)[nodes])
        role = shape.roles[t]
        found: IntArray = np.where(
            self.tree.class_mask(role.node_classes)[nodes], self.free_nodes.fit_counts(role.pod_request)[nodes], 0
        )
        return found

    def _candidate_domains(self, shape: GangClass, want: list[int], reach: list[IntArray]) -> list[int]:
        """Domains in which every role fits by number: lowest tier first; room to grow first, then least left over."""
        holding, found = self._fits_by_number(shape, want, reach), list[int]()
        tries = (
            None
            if shape.running_pods
            else self.budget.domain_tries_with_rules
            if shape.has_pod_rules
            else self.budget.domain_tries
        )
        for tier in self.tree.tiers:
            here = np.flatnonzero(holding & (self.tree.tier_of == tier))
            found += self._best_fit_order(here, shape, want, reach)[:tries]
        if (shape.hard_tier is None or shape.hard_tier > self.tree.highest_tier) and all(
            s[0] >= n for s, n in zip(reach, want, strict=True)
        ):
            found.append(ROOT)
        return found

    def _fits_by_number(self, shape: GangClass, want: list[int], reach: list[IntArray]) -> np.ndarray:
        """Per hypernode, whether the wanted pods of each role fit by number where the gang may be."""
        fits = self.tree.tier_of <= (self.tree.highest_tier if shape.hard_tier is None else shape.hard_tier)
        for slots, n in zip(reach, want, strict=True):
            fits &= slots[1:] >= n
        homes = (
            {self.tree.enclosing_domain(self.problem.nodes[p.node].leaf, shape.hard_tier) for p in shape.running_pods}
            if shape.hard_tier is not None
            else set()
        )
        if homes:
            fits &= np.array([bool(homes & set(self.tree.path(h))) for h in range(len(fits))], dtype=np.bool_)
        return fits

    @staticmethod
    def _best_fit_order(domains: np.ndarray, shape: GangClass, want: list[int], reach: list[IntArray]) -> list[int]:
        """The domains sorted: first those in which the gang could grow to its most, then by the slots that it would
        leave over."""
        cramped, over = np.zeros(len(domains), dtype=np.bool_), np.zeros(len(domains), dtype=np.int64)
        for slots, role, n in zip(reach, shape.roles, want, strict=True):
            cramped |= slots[1:][domains] < role.max_pods
            over += slots[1:][domains] if n else 0
        order: list[int] = domains[np.lexsort((domains, over, cramped))].tolist()
        return order

    def _nearest_first(self, shape: GangClass, candidates: list[int]) -> list[int]:
        """Pods that join others go where they spread the gang least; without any, the order stands."""
        leaves = {self.problem.nodes[p.node].leaf for p in shape.running_pods}
        return (
            sorted(candidates, key=lambda h: self.tree.tier_span({*leaves, None if h == ROOT else h}))
            if leaves
            else candidates
        )

    def _place_whole_subgroups(
        self, h: int, gang: Gang, shape: GangClass, unplaced: list[int]
    ) -> tuple[Placement, ...]:
        """Put as many of `left` under h as fit, whole subgroups only; counts `left` down."""
        mark, before = self.free_nodes.mark(), list(unplaced)
        placed = self._place_ignoring_subgroups(h, gang, shape, unplaced)
        for part in self._subgroups_confined_to(h, gang):
            excess = (sum(before[t] - unplaced[t] for t in part.roles) + self._running_pods(shape, part, h)) % part.size
            if excess:
                self.free_nodes.undo(mark)
                unplaced[:] = before
                capped = list(before)
                self._trim_wanted(capped, part, sum(p.pods for p in placed if p.role in part.roles) - excess)
                spare = [b - c for b, c in zip(before, capped, strict=True)]
                placed = self._place_ignoring_subgroups(h, gang, shape, capped)
                unplaced[:] = [c + s for c, s in zip(capped, spare, strict=True)]
                if (sum(before[t] - unplaced[t] for t in part.roles) + self._running_pods(shape, part, h)) % part.size:
                    self.free_nodes.undo(mark)
                    unplaced[:] = before
                    return ()
        return placed

    @staticmethod
    def _trim_wanted(want: list[int], subgroup: Subgroup, total: int) -> None:
        """Lower the wants of the part's roles, the last first, until they sum up to `total`."""
        excess = sum(want[t] for t in subgroup.roles) - max(0, total)
        for t in reversed(subgroup.roles):
            cut = min(excess, want[t])
            want[t] -= cut
            excess -= cut

    def _place_ignoring_subgroups(
        self, h: int, gang: Gang, shape: GangClass, unplaced: list[int]
    ) -> tuple[Placement, ...]:
        placed = self._place_on_nodes(h, gang, shape, unplaced)
        parts, nodes, starts = self.tree.children_with_nodes(h)
        if parts and any(unplaced):
            children = list(parts)
            below = [
                np.add.reduceat(self._fit_counts_on(nodes, shape, t), starts).tolist() if unplaced[t] else None
                for t in range(len(shape.roles))
            ]
            reach = [None if sums is None else dict(zip(parts, sums, strict=True)) for sums in below]
            while children and any(unplaced):
                amount = {c: [min(unplaced[t], r[c]) if r else 0 for t, r in enumerate(reach)] for c in children}
                room = {c: sum(r[c] for r in reach if r) for c in children}
                whole = [c for c in children if amount[c] == unplaced]
                # The smallest child that holds all that is left; else the one that holds most of it.
                c = (
                    min(whole, key=lambda c: (room[c], c))
                    if whole
                    else max(children, key=lambda c: (sum(amount[c]), -c))
                )
                children.remove(c)
                if sum(amount[c]):
                    placed += self._place_whole_subgroups(c, gang, shape, unplaced)
        return placed

    def _subgroups_confined_to(self, h: int, gang: Gang) -> list[Subgroup]:
        """The hard subgroups for which h is a maximal domain."""
        if h == ROOT:
            return []
        return [
            s
            for s in gang.subgroups
            if s.topology.mode == "hard"
            and s.topology.tier <= self.tree.highest_tier
            and h in self.tree.domains_at_tier(s.topology.tier)
        ]

    def _running_pods(self, shape: GangClass, subgroup: Subgroup, h: int) -> int:
        leaves = {p.node: self.problem.nodes[p.node].leaf for p in shape.running_pods}
        return sum(
            p.pods for p in shape.running_pods if p.role in subgroup.roles and h in self.tree.path(leaves[p.node])
        )

    def _place_on_nodes(self, h: int, gang: Gang, shape: GangClass, unplaced: list[int]) -> tuple[Placement, ...]:
        """Pods onto the nodes that h itself holds: large requests first, the fullest nodes first."""
        nodes = self.tree.direct_nodes[h]
        if not len(nodes):
            return ()
        # Outside every domain of a hard subgroup there is no place for its pods.
        barred = {
            t
            for s in gang.subgroups
            for t in s.roles
            if s.topology.mode == "hard"
            and self.tree.enclosing_domain(None if h == ROOT else h, s.topology.tier) is None
        }
        placed: list[Placement] = []
        for t in sorted(
            (t for t in range(len(unplaced)) if unplaced[t] and t not in barred),
            key=lambda t: shape.roles[t].pod_request,
            reverse=True,
        ):
            ask, fits = shape.roles[t].pod_request, self._fit_counts_on(nodes, shape, t)
            open_to, fits = nodes[fits > 0], fits[fits > 0]
            order = (
                np.argsort(fits, kind="stable")
                if self.fragmentation is None
                else self.fragmentation.positions_by_increase(ask, open_to)
            )
            taken = self.free_nodes.fill_nodes(open_to[order], fits[order], ask, unplaced[t])
            placed += [
                Placement(t, node, pods)
                for node, pods in zip(open_to[order].tolist(), taken.tolist(), strict=True)
                if pods
            ]
            unplaced[t] -= int(taken.sum())
        return tuple(placed)
