"""The hypernodes that are dedicated to queues which are guaranteed whole ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.specs.cluster_spec import Specs
from compiler.specs.hypernode_tree import tier_of
from compiler.specs.node_spec import HyperNodeSpec
from solver.problem import Problem

HypernodeSet = set[int]


def with_dedicated_domains(problem: Problem, specs: Specs, hypernode_specs: Sequence[HyperNodeSpec]) -> Problem:
    """Return the problem with `Queue.dedicated_domains` chosen, queue by queue; domains do not overlap.

    Preferred are domains with most running pods of the queue and its descendants, then with fewest pods of others that
    it could not have evicted, then with fewest pods of others, then with most nodes: so the choice is stable from plan
    to plan. Fewer than the queue asks for are chosen where there are no more.
    """
    requests = {q: spec.dedicated_domains for q, spec in enumerate(specs.queues) if spec.dedicated_domains}
    if not requests:
        return problem
    ancestors = [_hypernode_and_ancestors(problem, h) for h in range(len(problem.hypernodes))]
    sizes = _node_counts(problem, ancestors)
    taken: HypernodeSet = set()
    queues = list(problem.queues)
    for q, (count, tier_or_name) in requests.items():
        tier = tier_of(tier_or_name, hypernode_specs)
        mine, others, firm = _running_pod_counts(problem, ancestors, _queue_and_descendants(problem, q))
        of_tier = (h for h, node in enumerate(problem.hypernodes) if node.tier == tier)
        free = [h for h in of_tier if not _overlaps(h, taken, ancestors)]
        chosen = sorted(free, key=lambda h: (-mine[h], firm[h], others[h], -sizes[h], h))[:count]
        taken.update(chosen)
        queues[q] = replace(queues[q], dedicated_domains=tuple(chosen))
    return replace(problem, queues=tuple(queues))


def _overlaps(h: int, taken: HypernodeSet, ancestors: Sequence[HypernodeSet]) -> bool:
    """Return whether hypernode h lies inside one that is taken, or the other way round."""
    return not taken.isdisjoint(ancestors[h]) or any(h in ancestors[other] for other in taken)


def _hypernode_and_ancestors(problem: Problem, h: int | None) -> HypernodeSet:
    """Return the hypernode and those it lies in."""
    found = set()
    while h is not None:
        found.add(h)
        h = problem.hypernodes[h].parent
    return found


def _queue_and_descendants(problem: Problem, q: int) -> set[int]:
    """Return the queue and those below it."""
    found, size = {q}, 0
    while len(found) > size:
        size = len(found)
        found |= {c for c, queue in enumerate(problem.queues) if queue.parent in found}
    return found


def _running_pod_counts(
    problem: Problem, ancestors: Sequence[HypernodeSet], queues: set[int]
) -> tuple[list[int], list[int], list[int]]:
    """Running pods under each hypernode: of gangs in these queues, of others, and of those others whom the queues could
    not have evicted."""
    mine, others, firm = ([0] * len(ancestors) for _ in range(3))
    for gang in problem.gangs:
        may_go_whole = gang.eviction.evictable and not gang.eviction.protected
        goes = problem.reclaim_enabled and may_go_whole and problem.queues[gang.queue].reclaimable
        counts = [mine] if gang.queue in queues else [others] if goes else [others, firm]
        for place in gang.running:
            leaf = problem.nodes[place.node].leaf
            for h in ancestors[leaf] if leaf is not None else ():
                for count in counts:
                    count[h] += place.pods
    return mine, others, firm


def _node_counts(problem: Problem, ancestors: Sequence[HypernodeSet]) -> list[int]:
    """Nodes that offer anything, under each hypernode."""
    size = [0] * len(ancestors)
    for node in problem.nodes:
        for h in ancestors[node.leaf] if node.leaf is not None and any(node.free) else ():
            size[h] += 1
    return size
