"""Excluded nodes: a gang gets no new pods there. An excluded node gets another node class, so models need no rows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace

from solver.problem import Gang, Problem
from solver.semantics.eviction_rights import may_borrow_domains
from solver.semantics.order import expected_end
from solver.semantics.queues import queue_path
from solver.semantics.topology import TopologyTree

NodeSet = frozenset[int]


def exclude_nodes(problem: Problem, exclusions: Mapping[int, NodeSet]) -> Problem:
    """Return the problem in which gang j gets no new pod on the nodes exclusions[j]. Indices stay; node classes are
    numbered again, those of returning nodes too.

    class'(n) = (class(n), which of the sets n is in)    classes'_j = { class'(n) : class(n) in classes_j, n allowed }
    """
    sets = tuple(dict.fromkeys(nodes for nodes in exclusions.values() if nodes))
    if not sets:
        return problem
    membership = [tuple(n in nodes for nodes in sets) for n in range(len(problem.nodes))]
    distinct, closed = set(membership), {}
    for k, nodes in enumerate(sets):
        closed[nodes] = frozenset(inside for inside in distinct if inside[k])
    excluded = [closed.get(exclusions.get(j, frozenset()), frozenset()) for j in range(len(problem.gangs))]
    return _split_classes(problem, membership, excluded)


def _split_classes(problem: Problem, labels: Sequence[Hashable], closed: Sequence[frozenset[Hashable]]) -> Problem:
    """Split node classes by label as well, numbered by their first node. labels: of each node; closed: labels that gang
    j cannot use."""
    number: dict[tuple[int, Hashable], int] = {}

    def new_class(node_class: int, label: Hashable) -> int:
        return number.setdefault((node_class, label), len(number))

    labelled = zip(problem.nodes, labels, strict=True)
    nodes = [replace(node, node_class=new_class(node.node_class, label)) for node, label in labelled]
    for n, (node, label) in enumerate(zip(nodes, labels, strict=True)):
        if (returning := node.returning) is not None:
            returning = replace(returning, node_class=new_class(returning.node_class, label))
            nodes[n] = replace(node, returning=returning)
    known: dict[tuple[frozenset[int], frozenset[Hashable]], frozenset[int]] = {}

    def open_classes(old: frozenset[int], closed_labels: frozenset[Hashable]) -> frozenset[int]:
        if (old, closed_labels) not in known:
            left = ((of, new) for (of, label), new in number.items() if label not in closed_labels)
            known[old, closed_labels] = frozenset(new for of, new in left if of in old)
        return known[old, closed_labels]

    gangs = []
    for gang, excluded in zip(problem.gangs, closed, strict=True):
        roles = (replace(role, node_classes=open_classes(role.node_classes, excluded)) for role in gang.roles)
        gangs.append(replace(gang, roles=tuple(roles)))
    return replace(problem, nodes=tuple(nodes), gangs=tuple(gangs))


def without_closed_groups(problem: Problem) -> Problem:
    """Return the problem in which no gang gets a new pod in a node group that is closed to its queue. Where groups
    matter to some queue, each node class then lies in one of them."""
    return _split_by_group(problem, [frozenset(queue.closed_node_groups) for queue in problem.queues])


def closed_classes(problem: Problem) -> dict[int, tuple[frozenset[int], ...]]:
    """Return gang -> for each role the node classes of `without_closed_groups` that it could use but for its queue;
    only gangs that have such classes."""
    opened, closed = _split_by_group(problem, [frozenset()] * len(problem.queues)), without_closed_groups(problem)
    found = {}
    for j, (all_open, gang) in enumerate(zip(opened.gangs, closed.gangs, strict=True)):
        roles = zip(all_open.roles, gang.roles, strict=True)
        if any(lost := tuple(wide.node_classes - narrow.node_classes for wide, narrow in roles)):
            found[j] = lost
    return found


def _split_by_group(problem: Problem, closed_by_queue: Sequence[frozenset[Hashable]]) -> Problem:
    if not any(queue.closed_node_groups or queue.node_group_ranks for queue in problem.queues):
        return problem
    closed = [closed_by_queue[gang.queue] for gang in problem.gangs]
    return _split_classes(problem, [node.node_group for node in problem.nodes], closed)


def exclude_for_gang(
    problem: Problem, tree: TopologyTree, j: int, nodes: Collection[int]
) -> tuple[Problem, TopologyTree]:
    """Problem and topology in which gang j cannot use nodes on which nothing is free: only pods that request nothing
    would still fit there."""
    if not nodes or all(any(role.request) for role in problem.gangs[j].roles):
        return problem, tree
    other = exclude_nodes(problem, {j: frozenset(nodes)})
    return other, TopologyTree(other)


def fixed_exclusions(problem: Problem, lending: bool = True) -> dict[int, NodeSet]:
    """Return the exclusions that no plan changes: dedicated domains of other queues, and maintenance. lending: gangs
    that may borrow dedicated domains are not excluded from them."""
    return merge_exclusions(dedicated_exclusions(problem, lending=lending), maintenance_exclusions(problem))


def with_fixed_exclusions(problem: Problem, lending: bool = True) -> Problem:
    return exclude_nodes(problem, fixed_exclusions(problem, lending))


def merge_exclusions(one: Mapping[int, NodeSet], other: Mapping[int, NodeSet]) -> dict[int, NodeSet]:
    """Return the union, gang by gang."""
    return {j: one.get(j, frozenset()) | other.get(j, frozenset()) for j in sorted(one.keys() | other.keys())}


def maintenance_conflicts(problem: Problem, gang: Gang, start: int | None) -> list[int]:
    """Return nodes whose maintenance begins before the gang has ended if it starts then; every node with maintenance
    where the start or the duration is unknown."""
    if start is None or gang.times.duration is None:
        return [n for n, _ in _maintenance(problem)]
    end = start + gang.times.duration
    return [n for n, begins in _maintenance(problem) if begins < end]


def maintenance_exclusions(problem: Problem) -> dict[int, NodeSet]:
    """Return gang -> the nodes whose maintenance begins before its expected end; all of them where that is unknown."""
    upcoming = _maintenance(problem)
    times = sorted({begins for _, begins in upcoming})
    if not times:
        return {}
    # Gangs that end between the same two times are excluded from the same nodes.
    before = {time: frozenset(n for n, begins in upcoming if begins < time) for time in times}
    every = frozenset(n for n, _ in upcoming)
    found = {}
    for j in range(len(problem.gangs)):
        end = expected_end(problem, j)
        nodes = every if end is None or end > times[-1] else before[next(time for time in times if end <= time)]
        if nodes:
            found[j] = nodes
    return found


def _maintenance(problem: Problem) -> list[tuple[int, int]]:
    """(node, seconds until its maintenance begins)"""
    return [(n, node.maintenance_in) for n, node in enumerate(problem.nodes) if node.maintenance_in is not None]


def dedicated_exclusions(
    problem: Problem, owners: frozenset[int] | None = None, lending: bool = True
) -> dict[int, NodeSet]:
    """Return gang -> the nodes dedicated to queues that are neither its own nor above it. owners: only these queues'
    domains; None for all. lending: no exclusions for a gang that may borrow the domains."""
    dedicated = dedicated_nodes(problem)
    if owners is not None:
        dedicated = {q: nodes for q, nodes in dedicated.items() if q in owners}
    if not dedicated:
        return {}
    foreign = []
    for q in range(len(problem.queues)):
        path = queue_path(problem, q)
        foreign.append(frozenset[int]().union(*(nodes for owner, nodes in dedicated.items() if owner not in path)))
    found = {}
    for j, gang in enumerate(problem.gangs):
        if foreign[gang.queue] and not (lending and may_borrow_domains(problem, j)):
            found[j] = foreign[gang.queue]
    return found


def dedicated_nodes(problem: Problem) -> dict[int, NodeSet]:
    """Return queue with dedicated domains -> their nodes."""
    tree, found = TopologyTree(problem), {}
    for q, queue in enumerate(problem.queues):
        if queue.dedicated_domains:
            domains = set(queue.dedicated_domains)
            leaves = {node.leaf for node in problem.nodes if not domains.isdisjoint(tree.path(node.leaf))}
            found[q] = frozenset(n for n, node in enumerate(problem.nodes) if node.leaf in leaves)
    return found


def accessible_dedicated_nodes(problem: Problem) -> dict[int, NodeSet]:
    """Return queue -> the nodes dedicated to it or to a queue above it."""
    dedicated, found = dedicated_nodes(problem), {}
    for q in range(len(problem.queues)) if dedicated else ():
        if nodes := frozenset[int]().union(*(dedicated.get(a, frozenset()) for a in queue_path(problem, q))):
            found[q] = nodes
    return found
