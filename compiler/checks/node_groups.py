"""Checks of the node groups that queues name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from compiler.checks.check import CheckInput, Finding, ModelOf, check
from compiler.diagnostics.diagnostic import suggestion
from compiler.fields.quantity import named_amount
from compiler.kinds.common.resource_lists import PLAIN_RESOURCES
from compiler.kubernetes import NODE_GROUP_LABEL, NODE_GROUP_LIMITS_ANNOTATION
from compiler.specs.eligibility import NodeMasks, node_requirement
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import FieldPath
from compiler.volcano.node_groups import (
    LIMITS_SINCE,
    affinity_owner,
    group_limits,
    has_readable_limits,
    may_use,
    node_group_plugin,
)

if TYPE_CHECKING:
    from compiler.kinds.queue import Queue

QUEUE: ModelOf[Queue] = ModelOf("Queue.scheduling.volcano.sh")


@check("GP431", "node group that no node has", "warning")
def unknown_node_groups(check_input: CheckInput) -> Iterator[Finding]:
    """spec.affinity of a Queue names node groups: values of the node label volcano.sh/nodegroup-name. Fix: correct the
    name, or label the nodes."""
    nodes = check_input.specs.nodes
    groups = {node.labels[NODE_GROUP_LABEL] for node in nodes if NODE_GROUP_LABEL in node.labels}
    if not nodes or node_group_plugin(check_input.specs.scheduler) is None:
        return
    for document, queue in check_input.documents_of(QUEUE):
        for path, name in queue.node_groups():
            if name not in groups:
                help = suggestion(name, sorted(groups), f"label nodes with {NODE_GROUP_LABEL}: {name}")
                yield Finding(document, path, f"no node is in group {name!r}", help)


@check("GP445", "limits of node groups that limit nothing, or that no pod fits", "warning")
def idle_node_group_limits(check_input: CheckInput) -> Iterator[Finding]:
    """Only the plugin nodegroup reads the annotation volcano.sh/nodegroup-resource-limits of a Queue. A limit has no
    effect on a group without nodes (label volcano.sh/nodegroup-name), or on a resource that its nodes lack. A pod that
    asks for more than the limit never runs in the group. Source: nodegroup.go of Volcano's master. Fix: add the plugin,
    or correct the name or the amount."""
    specs = check_input.specs
    groups = {node.labels[NODE_GROUP_LABEL] for node in specs.nodes if NODE_GROUP_LABEL in node.labels}
    if specs.cluster.volcano.minor < LIMITS_SINCE or specs.scheduler is None or specs.scheduler.is_partial:
        return
    for queue in specs.queues:
        limited = list(group_limits(queue)) if has_readable_limits(queue) else []
        path = ("metadata", "annotations", NODE_GROUP_LIMITS_ANNOTATION)
        if limited and node_group_plugin(specs.scheduler) is None:
            message = "the scheduler configuration lacks the plugin nodegroup, so that nothing reads the limits"
            yield Finding(queue.document, path, message, "add the plugin")
            continue
        for name in limited if specs.nodes else ():
            if name not in groups:
                help = suggestion(name, sorted(groups), f"label nodes with {NODE_GROUP_LABEL}: {name}")
                yield Finding(queue.document, path, f"no node is in group {name!r}, so that it limits nothing", help)
            yield from (Finding(queue.document, path, *each) for each in _absent_resources(check_input, queue, name))
        for message in _impossible_limits(check_input, queue) if limited else ():
            yield Finding(queue.document, path, message, "raise the limit, or leave the group to other queues")


def _absent_resources(check_input: CheckInput, queue: QueueSpec, group: str) -> Iterator[tuple[str, str]]:
    """(message, help) for each limited resource that no node of the group has; none where no node is in it."""
    nodes = [node for node in check_input.specs.nodes if node.labels.get(NODE_GROUP_LABEL) == group]
    offered = sorted({name for node in nodes for name in node.allocatable})
    for name in group_limits(queue)[group] if nodes else ():
        if name not in offered and name not in PLAIN_RESOURCES:
            message = f"no node of group {group!r} has {name}, so that its limit does nothing"
            yield message, suggestion(name, offered, "correct the name")


def _impossible_limits(check_input: CheckInput, queue: QueueSpec) -> Iterator[str]:
    """For each limit the first job of the queue of which one pod exceeds it on nodes that it may use."""
    gangs = [gang for gang in check_input.jobs if gang.queue == queue.name]
    roles = [(gang, role.pod) for gang in gangs for role in gang.roles]
    for group, amounts in group_limits(queue).items():
        masks = NodeMasks([node for node in check_input.specs.nodes if node.labels.get(NODE_GROUP_LABEL) == group])
        for resource, limit in amounts.items():
            asking = (each for each in roles if each[1].requests.get(resource, 0) > limit)
            found = next((each for each in asking if masks.nodes_matching(node_requirement(each[1]))), None)
            if found is not None:
                gang, pod = found
                asked, most = (named_amount(resource, amount) for amount in (pod.requests[resource], limit))
                yield f"no pod of {gang.document.display_name} runs in group {group!r}: it asks for {asked} of {most}"


@check("GP432", "queue that may use no node", "warning")
def queues_without_nodes(check_input: CheckInput) -> Iterator[Finding]:
    """With the plugin nodegroup a queue uses the groups of its spec.affinity only; one without affinity uses nodes
    without a group, and none at all where the plugin is strict, which is the default. Anti-affinity alone opens no
    group. Fix: name groups in nodeGroupAffinity, or set strict: false."""
    specs = check_input.specs
    groups = {node.labels.get(NODE_GROUP_LABEL) for node in specs.nodes}
    if (plugin := node_group_plugin(specs.scheduler)) is None or not groups:
        return
    asking, affinities = {gang.queue for gang in specs.gangs}, {spec.name: spec.affinity for spec in specs.queues}
    for queue in specs.queues:
        affinity = affinities.get(affinity_owner(plugin, queue.name, specs.queues))
        if queue.name in asking and not any(may_use(plugin, affinity, group) for group in groups):
            path: FieldPath = ("spec", "affinity") if queue.affinity is not None else ("metadata", "name")
            message = f"the plugin nodegroup lets queue {queue.name!r} use no node"
            help = (
                "set enableHierarchy or strict: false"
                if queue.namespace
                else "name node groups in its nodeGroupAffinity"
            )
            yield Finding(queue.document, path, message, help)
