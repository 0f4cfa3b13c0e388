"""The node groups of the plugin nodegroup: closed to queues, or preferred by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compiler.kubernetes import NODE_GROUP_LABEL
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.node_spec import NodeSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.volcano.node_groups import affinity_owner, may_use, node_group_plugin, preference_ranks
from solver.problem import Problem

UNGROUPED = "(none)"
"""The name of the nodes without a group; no label can have it."""


def with_node_groups(
    problem: Problem,
    queue_specs: Sequence[QueueSpec | None],
    nodes: Sequence[NodeSpec],
    scheduler: SchedulerSpec | None,
) -> tuple[Problem, tuple[int, ...]]:
    """Return the problem with the closed and the preferred node groups of its queues, none without the plugin; and for
    each queue the one whose affinity it has."""
    own = tuple(range(len(problem.queues)))
    if (plugin := node_group_plugin(scheduler)) is None:
        return problem, own
    group_by_node = [node.labels.get(NODE_GROUP_LABEL) for node in nodes]
    groups = [None, *sorted({group for group in group_by_node if group is not None})]
    index_by_name = {queue.name: q for q, queue in enumerate(problem.queues)}
    declared = [spec for spec in queue_specs if spec is not None]
    owners = tuple(index_by_name[affinity_owner(plugin, queue.name, declared)] for queue in problem.queues)
    queues = []
    for queue, owner in zip(problem.queues, owners, strict=True):
        spec = queue_specs[owner]
        affinity = None if spec is None else spec.affinity
        closed = tuple(g for g, group in enumerate(groups) if not may_use(plugin, affinity, group))
        ranks = preference_ranks(plugin, affinity, groups)
        queues.append(replace(queue, closed_node_groups=closed, node_group_ranks=ranks))
    index = {group: g for g, group in enumerate(groups)}
    labelled = zip(problem.nodes, group_by_node, strict=True)
    grouped = replace(
        problem,
        nodes=tuple(replace(node, node_group=index[group]) for node, group in labelled),
        queues=tuple(queues),
        node_groups=(UNGROUPED, *(group for group in groups if group is not None)),
    )
    return grouped, owners
