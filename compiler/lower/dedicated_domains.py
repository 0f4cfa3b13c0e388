"""Which hypernodes are kept for the queues that are guaranteed whole ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.specs import HyperNodeSpec, QueueSpec
from compiler.specs.hypernode_tree import tier_of
from solver.problem import Problem

HypernodeSet = set[int]


def with_dedicated_domains(
    problem: Problem, queue_specs: Mapping[str, QueueSpec], hypernode_specs: Sequence[HyperNodeSpec]
) -> Problem:
    """The problem with `Queue.kept` chosen, queue by queue, domains that do not overlap: first where the queue and
    those below it run most pods, then where others run fewest that it could not have evicted, then fewest at all, then
    where most nodes are, so that what is kept stays the same from plan to plan. Fewer where there are no more.
    """
    wishes = {
        q: spec.dedicated_domains
        for q, queue in enumerate(problem.queues)
        if (spec := queue_specs.get(queue.name)) is not None and spec.dedicated_domains
    }
    if not wishes:
        return problem
    above = [_hypernode_and_ancestors(problem, h) for h in range(len(problem.hypernodes))]
    taken: HypernodeSet = set()
    queues = list(problem.queues)
    for q, (count, said) in wishes.items():
        tier = tier_of(said, hypernode_specs)
        free = [
            h
            for h, node in enumerate(problem.hypernodes)
            if node.tier == tier and taken.isdisjoint(above[h]) and all(h not in above[t] for t in taken)
        ]
        mine, others, firm = _running_pod_counts(problem, above, _queue_and_descendants(problem, q))
        size = _node_counts(problem, above)
        chosen = sorted(free, key=lambda h: (-mine[h], firm[h], others[h], -size[h], h))[:count]
        taken.update(chosen)
        queues[q] = replace(queues[q], dedicated_domains=tuple(chosen))
    return replace(problem, queues=tuple(queues))


def _hypernode_and_ancestors(problem: Problem, h: int | None) -> HypernodeSet:
    """The hypernode and those it lies in."""
    found = set()
    while h is not None:
        found.add(h)
        h = problem.hypernodes[h].parent
    return found


def _queue_and_descendants(problem: Problem, q: int) -> set[int]:
    """The queue and those below it."""
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
        goes = problem.reclaim_enabled and gang.evictable and problem.queues[gang.queue].reclaimable
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
