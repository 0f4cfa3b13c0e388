"""The greedy that gives the incumbent and the floor: gang by gang, the tightest domain that holds it, best fit inside.

After Kueue's topology-aware best fit and Volcano's hypernode gradient, described in docs/develop/model.md; exact
integers, always feasible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from solver.greedy.domain_filler import DomainFiller
from solver.greedy.fragmentation import Fragmentation
from solver.greedy.pod_by_pod import PodByPodPlacer
from solver.options import Budget
from solver.problem import Gang, Placement, Topology
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import GangClass, breaks_topology, has_partial_subgroup, waiting_class
from solver.semantics.placement_cost import split_subgroups
from solver.semantics.placements import dominant_share, merge_placements
from solver.semantics.priorities import precedence
from solver.semantics.share_measures import gang_dominant_share, queue_priority, serving_rounds
from solver.semantics.topology import ROOT
from solver.state.state import Pods, State

BUDGET = Budget()


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
        self.budget = budget or BUDGET
        self.placed: dict[int, Pods] = {}

    # ---- which gang is next

    def serving_order(self, gangs: Iterable[int]) -> Iterator[int]:
        """Yield the gangs by precedence, priority of the queue, share of the queue at that moment, the gang's usage
        (drf), size where the largest are first, and age. A queue with strict order serves by age alone.

        Queues first: before that, in the same order, the gangs covered by their queue's entitlement, up to the queue's
        first one that is not; then announced starts, and the others queue by queue, the lowest share first, in it by
        precedence.

        Charge the queues between two of them.
        """
        waiting: dict[int, list[int]] = {}
        for j in sorted(
            gangs, key=lambda j: (-precedence(self.problem.gangs[j]), self._order_in_queue(j)), reverse=True
        ):
            waiting.setdefault(self.problem.gangs[j].queue, []).append(j)
        if not self.problem.policy.queues_first:
            yield from self._serve_lowest(waiting, by_precedence=True)
            return
        priorities = {q: queue_priority(self.problem, q) for q in waiting}
        for served in serving_rounds(self.problem, priorities.values()):
            together = {q: stack for q, stack in waiting.items() if priorities[q] in served}
            yield from self._serve_entitled(together)
            yield from self._serve_lowest(together, by_precedence=False)

    def _serve_entitled(self, waiting: dict[int, list[int]]) -> Iterator[int]:
        """Takes out of the stacks, the next gang of each queue on top, what the entitlements cover."""
        books, width = self.state.queue_books, len(self.problem.resources)
        covered = {q: list(stack) for q, stack in waiting.items()}
        for q in self._turns(covered, by_precedence=True):
            j = covered[q].pop()
            if books.is_entitled(q, waiting_class(j, self.problem.gangs[j]).min_demand(width)):
                waiting[q].pop()
                yield j
            else:
                covered[q].clear()

    def _serve_lowest(self, waiting: dict[int, list[int]], by_precedence: bool) -> Iterator[int]:
        """Empty the stacks, the queue with the lowest share first, but before it one whose next gang has an announced
        start."""
        for q in self._turns(waiting, by_precedence):
            yield waiting[q].pop()

    def _turns(self, stacks: dict[int, list[int]], by_precedence: bool) -> Iterator[int]:
        """Yield the queues in turn, as long as they have gangs. Between two of them the first one and those above it
        may hold more, and the turns change of all that are compared by what these hold."""
        books, paths = self.state.queue_books, self.state.queue_books.queue_rules.comparison_paths
        related = {q: [of for of in stacks if not set(paths[of]).isdisjoint(books.path(q))] for q in stacks}
        turns, changed = dict[int, tuple[object, ...]](), list(stacks)
        while True:
            for q in changed:
                turns.pop(q, None)
                if stacks[q]:
                    turns[q] = self._turn_of(q, stacks[q][-1], by_precedence)
            if not turns:
                return
            q = min(turns, key=turns.__getitem__)
            yield q
            changed = related[q]

    def _turn_of(self, q: int, head: int, by_precedence: bool) -> tuple[object, ...]:
        """The smaller, the sooner the queue with this gang at its head is served."""
        gang = self.problem.gangs[head]
        level = -precedence(gang) if by_precedence or gang.times.promised else 0
        is_late = not by_precedence and not gang.times.promised
        return is_late, level, -queue_priority(self.problem, q), self.state.queue_books.share_order_key(q)

    def _order_in_queue(self, j: int) -> tuple[float, float, int, int]:
        gang, totals = self.problem.gangs[j], self.problem.totals
        if self.problem.queues[gang.queue].strict_order:
            return 0.0, 0.0, gang.age, j
        size = 0.0
        if self.largest_first:
            size = dominant_share(waiting_class(j, gang).min_demand(len(totals)), totals)
        return gang_dominant_share(self.problem, gang, gang.running, totals), -size, gang.age, j

    # ---- placement

    def place_gang(self, index: int, gang_class: GangClass | None = None) -> Pods | None:
        """Return the new pods of a gang, taken from the state; None, and nothing taken, when this greedy finds no
        room."""
        gang = self.problem.gangs[index]
        gang_class = gang_class or waiting_class(index, gang)
        running = gang_class.running_pods
        if not gang_class.has_valid_size or (running and breaks_topology(self.tree, gang, running)):
            return None
        want = gang_class.smallest_mix()
        best: tuple[int, Pods] | None = None
        for h in self._distinct_domains(gang_class, self._candidate_domains(gang, gang_class, want)):
            mark, left = self.free_nodes.mark(), list(want)
            placed = self._place_in_domain(h, gang, gang_class, left)
            complete = not any(left) and not (running and has_partial_subgroup(self.tree, gang, (*running, *placed)))
            cost = 0 if running else split_subgroups(self.tree, gang, placed)
            if complete and (not cost or self._is_rule_bound(gang_class)):
                self.placed[index] = placed
                return placed
            self.free_nodes.undo(mark)
            if complete and (best is None or cost < best[0]):
                best = cost, placed
        if best is None:
            return None
        self.free_nodes.add_gang_pods(gang, best[1])
        self.placed[index] = best[1]
        return best[1]

    def max_pods_in_domain(self, index: int, gang_class: GangClass) -> int:
        """Return the most pods of the gang that this greedy gets into one of its domains, short of all of them. Takes
        nothing."""
        best, want, gang = 0, gang_class.smallest_mix(), self.problem.gangs[index]
        domains = self.tree.domains_at_tier(gang_class.hard_tier) if gang_class.hard_tier is not None else (ROOT,)
        count = dict.fromkeys(domains, 0)
        for role, pods in zip(gang_class.roles, want, strict=True):
            below = self.tree.sum_per_domain(self.state.fit_counts(role))
            for h in domains:
                count[h] += min(below[h], pods)
        for h in self._distinct_domains(gang_class, sorted(domains, key=lambda h: (-count[h], h))):
            if count[h] <= best:
                break
            mark, left = self.free_nodes.mark(), list(want)
            self._filler(gang, gang_class).place_pods(h, left)
            self.free_nodes.undo(mark)
            best = max(best, sum(want) - sum(left))
        return min(best, gang_class.min_pods - 1)

    def _place_in_domain(self, h: int, gang: Gang, gang_class: GangClass, unplaced: list[int]) -> Pods:
        """Return the unplaced pods (per role, counted down) that fit under h; none where pod rules forbid all of them
        together."""
        filler, placed = self._filler(gang, gang_class), list[Placement]()
        if isinstance(filler, PodByPodPlacer):
            forbidden = filler.is_forbidden_by_rules(h, unplaced)
            return () if forbidden else merge_placements(filler.place_pods(h, unplaced))
        for variant in (*self._tighter_variants(gang, gang_class), gang):
            placed += self._filler(variant, gang_class).place_pods(h, unplaced)
        return tuple(placed)

    def _is_rule_bound(self, gang_class: GangClass) -> bool:
        """Return whether pod rules restrict the nodes of its pods."""
        return gang_class.has_pod_rules and self.state.rule_counts is not None

    def _filler(self, gang: Gang, gang_class: GangClass) -> PodByPodPlacer | DomainFiller:
        if self._is_rule_bound(gang_class):
            return PodByPodPlacer(self.state, gang, gang_class, self.budget.subgroup_tries)
        return DomainFiller(self.state, gang, gang_class, self.fragmentation)

    def _tighter_variants(self, gang: Gang, gang_class: GangClass) -> list[Gang]:
        """Return the gang with its subgroups bound to ever higher tiers: first as many as possible lie in a domain of
        the lowest tier, then of the next one, and only the rest obeys no more than it must. None where all obey the
        lowest tier anyway, or pods run already."""
        found: list[Gang] = []
        for tier in () if gang_class.running_pods else self.tree.tiers:
            wider = [s.topology.mode == "soft" or s.topology.tier > tier for s in gang.subgroups]
            if not any(wider):
                break
            bound = (
                replace(s, topology=Topology("hard", tier)) if w else s
                for s, w in zip(gang.subgroups, wider, strict=True)
            )
            found.append(replace(gang, subgroups=tuple(bound)))
        return found

    # ---- which domains are tried

    def _distinct_domains(self, gang_class: GangClass, domains: Iterable[int]) -> Iterator[int]:
        """Yield the domains without those that equal an earlier one in structure and free amounts, node by node: they
        would fail as well."""
        has_slots = any(role.pod_request.slot_requests for role in gang_class.roles)
        comparable = not gang_class.running_pods and self.state.rule_counts is None and not has_slots
        seen: set[object] = set()
        for h in domains:
            if comparable:
                nodes = self.tree.nodes_in_tree_order(h)
                free, classes = self.state.free.at_nodes(nodes), self.tree.node_class_of[nodes]
                arrays = (classes.tobytes(), free.amounts.tobytes(), free.slots.tobytes())
                key = self.tree.structure(h), arrays
                if key in seen:
                    continue
                seen.add(key)
            yield h

    def _candidate_domains(self, gang: Gang, gang_class: GangClass, want: list[int]) -> list[int]:
        """Return the domains in which every role fits by number: lowest tier first; then those without unwanted
        company, with room to grow, with the smallest remainder. Pods that join running ones go where they spread the
        gang least."""
        reach = [self.tree.domain_sum_array(self.state.fit_counts(role)) for role in gang_class.roles]
        holding, found = self._fits_by_number(gang_class, want, reach), list[int]()
        ranks = self.tree.node_group_ranks(gang.queue)
        unwanted = self.tree.domain_sum_array(ranks)[1:] if len(ranks) else None
        held = self.state.held_domains.with_pods(self.placed) if gang.separation_wishes else None
        shared = None if held is None else held.node_costs(gang)
        tries = self.budget.domain_tries_with_rules if gang_class.has_pod_rules else self.budget.domain_tries
        for tier in self.tree.tiers:
            domains = np.flatnonzero(holding & (self.tree.tier_of == tier))
            company = np.zeros(len(domains), dtype=np.int64)
            if shared is not None:
                company[:] = [shared[self.tree.nodes_under(h)].min() for h in domains.tolist()]
            found += _best_fit_order(domains, gang_class, want, reach, unwanted, company)[
                : None if gang_class.running_pods else tries
            ]
        unbound = gang_class.hard_tier is None or gang_class.hard_tier > self.tree.highest_tier
        if unbound and all(fits[0] >= n for fits, n in zip(reach, want, strict=True)):
            found.append(ROOT)
        leaves = {self.problem.nodes[p.node].leaf for p in gang_class.running_pods}
        if leaves:
            found.sort(key=lambda h: self.tree.tier_span({*leaves, None if h == ROOT else h}))
        return found

    def _fits_by_number(self, gang_class: GangClass, want: list[int], reach: list[IntArray]) -> np.ndarray:
        """Hypernode -> whether the wanted pods of each role fit by number, where the gang may be."""
        tier = gang_class.hard_tier
        found = self.tree.tier_of <= (self.tree.highest_tier if tier is None else tier)
        for fits, n in zip(reach, want, strict=True):
            found &= fits[1:] >= n
        if tier is not None and gang_class.running_pods:
            leaves = {self.problem.nodes[p.node].leaf for p in gang_class.running_pods}
            homes = {self.tree.enclosing_domain(leaf, tier) for leaf in leaves}
            found &= np.array([bool(homes & set(self.tree.path(h))) for h in range(len(found))], dtype=np.bool_)
        return found


def _best_fit_order(
    domains: np.ndarray,
    gang_class: GangClass,
    want: list[int],
    reach: list[IntArray],
    unwanted: IntArray | None,
    company: IntArray,
) -> list[int]:
    """Return the domains: least unwanted company first, then room for the gang's full growth, then the fewest remaining
    fits, then the fewest unwanted nodes. unwanted: hypernode -> the sum of its nodes' ranks, where the queue prefers
    some groups. company: each domain's cost of company."""
    cramped, over = np.zeros(len(domains), dtype=np.bool_), np.zeros(len(domains), dtype=np.int64)
    for fits, role, n in zip(reach, gang_class.roles, want, strict=True):
        cramped |= fits[1:][domains] < role.max_pods
        over += fits[1:][domains] if n else 0
    tie = np.zeros(len(domains), dtype=np.int64) if unwanted is None else unwanted[domains]
    order: list[int] = domains[np.lexsort((domains, tie, over, cramped, company))].tolist()
    return order
