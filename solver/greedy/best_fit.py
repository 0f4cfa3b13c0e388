"""The greedy that gives the incumbent and the floor: gang by gang, the tightest domain that holds it, best fit inside.

After Kueue's topology-aware best fit and Volcano's hypernode gradient, described in docs/develop/model.md; exact
integers, always feasible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from solver.greedy.fragmentation import Fragmentation
from solver.greedy.pod_by_pod import PodByPodPlacer
from solver.options import Budget
from solver.problem import Gang, Placement, Subgroup, Topology
from solver.semantics.device_slots import IntArray
from solver.semantics.gang_classes import GangClass, breaks_topology, has_partial_subgroup, waiting_class
from solver.semantics.gang_sizes import hard_subgroup_tiers
from solver.semantics.order import gang_dominant_share, precedence, queue_priority, serving_rounds
from solver.semantics.placement_cost import split_subgroups
from solver.semantics.placements import dominant_share, merge_placements
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


class DomainFiller:
    """gang: whose subgroups to respect; gang_class: its remaining request."""

    def __init__(
        self, state: State, gang: Gang, gang_class: GangClass, fragmentation: Fragmentation | None = None
    ) -> None:
        self.tree, self.free_nodes = state.tree, state.free_nodes
        self.state, self.gang, self.gang_class, self.fragmentation = state, gang, gang_class, fragmentation

    def place_pods(self, h: int, unplaced: list[int]) -> Pods:
        """Return the unplaced pods (per role, counted down) that fit under h, complete subgroups only."""
        mark, before = self.free_nodes.mark(), list(unplaced)
        placed = self._place_ignoring_subgroups(h, unplaced)
        for s in self.gang.subgroups:
            excess = self._pods_inside(s, h, placed) % s.size if self._is_confined_to(s, h) else 0
            if not excess:
                continue
            self.free_nodes.undo(mark)
            wanted = _trim(before, s, sum(p.pods for p in placed if p.role in s.roles) - excess)
            left = list(wanted)
            placed = self._place_ignoring_subgroups(h, left)
            unplaced[:] = [b - w + n for b, w, n in zip(before, wanted, left, strict=True)]
            if self._pods_inside(s, h, placed) % s.size:
                self.free_nodes.undo(mark)
                unplaced[:] = before
                return ()
        return placed

    def _is_confined_to(self, s: Subgroup, h: int) -> bool:
        """Return whether the subgroup is hard, and h one of its maximal domains."""
        return h != ROOT and s.topology.is_hard and h in self.tree.domains_at_tier(s.topology.tier)

    def _pods_inside(self, subgroup: Subgroup, h: int, placed: Pods) -> int:
        """Return the subgroup's pods under h: placed ones, and running ones."""
        under = [p for p in self.gang_class.running_pods if h in self.tree.path(self.state.problem.nodes[p.node].leaf)]
        return sum(p.pods for p in (*placed, *under) if p.role in subgroup.roles)

    def _place_ignoring_subgroups(self, h: int, unplaced: list[int]) -> Pods:
        """Place pods under h: on its own nodes, then in the smallest child that holds all remaining ones, or in the
        child that holds most of them."""
        placed = self._place_on_direct_nodes(h, unplaced)
        children, nodes, starts = self.tree.children_with_nodes(h)
        if not children or not any(unplaced):
            return placed
        asked = [t for t, pods in enumerate(unplaced) if pods]
        counts = [self.state.fit_counts_on(nodes, self.gang_class.roles[t]) for t in asked]
        # Role x child; of equal children the first is taken.
        fits = np.array([np.add.reduceat(of_role, starts) for of_role in counts])
        capacity, is_left = fits.sum(axis=0), np.ones(len(children), dtype=np.bool_)
        while any(unplaced):
            left = np.array([unplaced[t] for t in asked])
            amount = np.minimum(fits, left[:, None]).sum(axis=0) * is_left
            holding_all = np.flatnonzero(amount == left.sum())
            at = holding_all[capacity[holding_all].argmin()] if len(holding_all) else amount.argmax()
            if not amount[at]:
                break
            is_left[at] = False
            placed += self.place_pods(children[at], unplaced)
        return placed

    def _place_on_direct_nodes(self, h: int, unplaced: list[int]) -> Pods:
        """Return pods on the nodes that h itself holds: large requests first, the fullest nodes first, of equal ones
        those of the node groups that the queue wants most."""
        nodes = self.tree.direct_nodes[h]
        if not len(nodes):
            return ()
        roles = self.gang_class.roles
        placed: list[Placement] = []
        missing = [t for t, pods in enumerate(unplaced) if pods]
        for t in sorted(missing, key=lambda t: roles[t].pod_request, reverse=True):
            if self._lacks_domain(h, t):
                continue
            request, fits = roles[t].pod_request, self.state.fit_counts_on(nodes, roles[t])
            eligible, fits = nodes[fits > 0], fits[fits > 0]
            ranks = self.tree.node_group_ranks(self.gang.queue)
            order = np.lexsort((ranks[eligible], fits)) if len(ranks) else np.argsort(fits, kind="stable")
            if self.gang.former and self.gang_class.running_pods:  # it has begun: it is completed where it is
                own = np.isin(eligible[order], [p.node for p in self.gang_class.running_pods])
                order = order[np.argsort(~own, kind="stable")]
            if self.fragmentation is not None:
                order = self.fragmentation.positions_by_increase(request, eligible)
            taken = self.free_nodes.fill_nodes(eligible[order], fits[order], request, unplaced[t])
            placed += [
                Placement(t, n, pods) for n, pods in zip(eligible[order].tolist(), taken.tolist(), strict=True) if pods
            ]
            unplaced[t] -= int(taken.sum())
        return tuple(placed)

    def _lacks_domain(self, h: int, t: int) -> bool:
        """Return whether h is outside every domain of a hard subgroup of the role."""
        leaf = None if h == ROOT else h
        tiers = hard_subgroup_tiers(self.gang.subgroups, t)
        return any(self.tree.enclosing_domain(leaf, tier) is None for tier in tiers)


def _trim(want: list[int], subgroup: Subgroup, total: int) -> list[int]:
    """Return the wanted pods, those of the subgroup's last roles lowered until its sum is `total`."""
    found, excess = list(want), sum(want[t] for t in subgroup.roles) - max(0, total)
    for t in reversed(subgroup.roles):
        cut = min(excess, found[t])
        found[t] -= cut
        excess -= cut
    return found
