"""Nodes that are closed to some gangs. A gang is kept off a node by making the node of another kind, so no row of the
model knows of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from solver.problem import Gang, Problem
from solver.semantics.eviction_rights import may_borrow_domains
from solver.semantics.priorities import expected_end
from solver.semantics.queue_limits import queue_path
from solver.semantics.topology import TopologyTree

NodeSet = frozenset[int]


def exclude_nodes(problem: Problem, exclusions: Mapping[int, NodeSet]) -> Problem:
    """The same problem, in which gang j gets no new pod on the nodes shut[j]. Its indices stay what they are; kinds are
    numbered anew, those of nodes that come back (`Node.back`) too.

    kind'(n) = (kind(n), which of the sets n is in)        kinds'_j = { kind' : its kind in kinds_j, n not in shut[j] }
    """
    sets = tuple(dict.fromkeys(nodes for nodes in exclusions.values() if nodes))
    if not sets:
        return problem
    inside_of = [tuple(n in nodes for nodes in sets) for n in range(len(problem.nodes))]
    number: dict[tuple[int, tuple[bool, ...]], int] = {}

    def renumbered(kind: int, n: int) -> int:
        return number.setdefault((kind, inside_of[n]), len(number))

    kind_of = [renumbered(node.node_class, n) for n, node in enumerate(problem.nodes)]
    back_of = [
        None if node.returning is None else replace(node.returning, node_class=renumbered(node.returning.node_class, n))
        for n, node in enumerate(problem.nodes)
    ]
    known: dict[tuple[frozenset[int], int | None], frozenset[int]] = {}

    def kinds(old: frozenset[int], which: int | None) -> frozenset[int]:
        if (old, which) not in known:
            known[old, which] = frozenset(
                new for (kind, inside), new in number.items() if kind in old and (which is None or not inside[which])
            )
        return known[old, which]

    gangs = []
    for j, gang in enumerate(problem.gangs):
        which = sets.index(exclusions[j]) if exclusions.get(j) else None
        gangs.append(
            replace(
                gang, roles=tuple(replace(role, node_classes=kinds(role.node_classes, which)) for role in gang.roles)
            )
        )
    nodes = tuple(
        replace(node, node_class=kind, returning=back)
        for node, kind, back in zip(problem.nodes, kind_of, back_of, strict=True)
    )
    return replace(problem, nodes=nodes, gangs=tuple(gangs))


def exclude_for_gang(
    problem: Problem, tree: TopologyTree, j: int, nodes: Collection[int]
) -> tuple[Problem, TopologyTree]:
    """The world for gang j, which is kept off these nodes by that nothing is free there. Pods that ask for nothing need
    nothing free: to those the nodes are closed."""
    if not nodes or all(any(role.request) for role in problem.gangs[j].roles):
        return problem, tree
    other = exclude_nodes(problem, {j: frozenset(nodes)})
    return other, TopologyTree(other)


def with_fixed_exclusions(problem: Problem, lending: bool = True) -> Problem:
    """The problem with every node closed to whom it is closed whatever the plan: in a domain that another queue keeps,
    or soon in maintenance. lending: domains are open to those who may borrow them."""
    return exclude_nodes(
        problem, merge_exclusions(dedicated_exclusions(problem, lending=lending), maintenance_exclusions(problem))
    )


def merge_exclusions(one: Mapping[int, NodeSet], other: Mapping[int, NodeSet]) -> dict[int, NodeSet]:
    """What is closed for one reason or another."""
    return {j: one.get(j, frozenset()) | other.get(j, frozenset()) for j in sorted(one.keys() | other.keys())}


def maintenance_conflicts(problem: Problem, gang: Gang, start: int | None) -> list[int]:
    """Nodes that close before the gang would have ended, were it to start then; start None: nobody knows when, so all
    that ever close."""
    done = None if start is None or gang.duration is None else start + gang.duration
    return [
        n
        for n, node in enumerate(problem.nodes)
        if node.maintenance_in is not None and (done is None or node.maintenance_in < done)
    ]


def maintenance_exclusions(problem: Problem) -> dict[int, NodeSet]:
    """Gang -> the nodes that are closed before it would have ended: closes_in < end, or an end that nobody knows."""
    times = sorted({node.maintenance_in for node in problem.nodes if node.maintenance_in is not None})
    if not times:
        return {}
    before = {
        t: frozenset(
            n for n, node in enumerate(problem.nodes) if node.maintenance_in is not None and node.maintenance_in < t
        )
        for t in times
    }
    every = frozenset(n for n, node in enumerate(problem.nodes) if node.maintenance_in is not None)
    found = {}
    for j in range(len(problem.gangs)):
        ends = expected_end(problem, j)
        # Gangs that end between the same two closings are kept off the same nodes.
        nodes = every if ends is None or ends > times[-1] else before[next(t for t in times if ends <= t)]
        if nodes:
            found[j] = nodes
    return found


def dedicated_exclusions(
    problem: Problem, owners: frozenset[int] | None = None, lending: bool = True
) -> dict[int, NodeSet]:
    """Gang -> the nodes of domains that a queue keeps which is neither the gang's own nor above it. keepers: only those
    queues; None for all. lending: none for a gang that may borrow them."""
    inside = dedicated_nodes(problem)
    if not inside:
        return {}
    of_queue = {}
    for q in range(len(problem.queues)):
        others = [
            nodes
            for keeper, nodes in inside.items()
            if keeper not in queue_path(problem, q) and (owners is None or keeper in owners)
        ]
        of_queue[q] = frozenset().union(*others)
    return {
        j: of_queue[gang.queue]
        for j, gang in enumerate(problem.gangs)
        if of_queue[gang.queue] and not (lending and may_borrow_domains(problem, j))
    }


def dedicated_nodes(problem: Problem) -> dict[int, NodeSet]:
    """Queue that keeps domains -> their nodes."""
    if not any(queue.dedicated_domains for queue in problem.queues):
        return {}
    tree = TopologyTree(problem)
    return {
        q: frozenset(
            n
            for n, node in enumerate(problem.nodes)
            if not set(tree.path(node.leaf)).isdisjoint(queue.dedicated_domains)
        )
        for q, queue in enumerate(problem.queues)
        if queue.dedicated_domains
    }


def accessible_dedicated_nodes(problem: Problem) -> dict[int, NodeSet]:
    """Queue -> the nodes of domains that it keeps, or one above it."""
    inside = dedicated_nodes(problem)
    found = (
        {
            q: frozenset[int]().union(*(inside.get(a, frozenset()) for a in queue_path(problem, q)))
            for q in range(len(problem.queues))
        }
        if inside
        else {}
    )
    return {q: nodes for q, nodes in found.items() if nodes}
