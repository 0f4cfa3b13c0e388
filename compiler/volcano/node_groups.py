"""The plugin nodegroup: which nodes a queue may use by their groups (Volcano, pkg/scheduler/plugins/nodegroup)."""

from __future__ import annotations

from collections.abc import Iterable

from compiler.kubernetes import ROOT_QUEUE
from compiler.specs import NodeGroupAffinity, PluginSpec, QueueSpec, SchedulerSpec


def node_group_plugin(scheduler: SchedulerSpec | None) -> PluginSpec | None:
    """The plugin where it decides which nodes are open."""
    found = None if scheduler is None else scheduler.plugin("nodegroup")
    return found if found is not None and found.flags.get("enablePredicate", True) else None


def affinity_owner(plugin: PluginSpec, name: str, queues: Iterable[QueueSpec]) -> str:
    """The queue whose affinity the queue has: its own; or with enableHierarchy that of the nearest queue which has one,
    this one included. An empty affinity is one of its own."""
    specs, at, seen = {spec.name: spec for spec in queues}, name, set[str]()
    while plugin.flags.get("enableHierarchy", False) and at not in seen:
        spec = specs.get(at)
        if spec is not None and spec.affinity is not None:
            return at
        seen.add(at)
        at = (spec.parent if spec else None) or ROOT_QUEUE
    return name


def may_use(plugin: PluginSpec, affinity: NodeGroupAffinity | None, group: str | None) -> bool:
    """Whether a queue with this affinity may use the nodes of a group; None: nodes without a group.

    A queue without affinity may use no group, and one with anti-affinity alone only what it would rather not use.
    Strict, which is the default, it needs affinity for nodes without a group too, and these are closed to all.
    """
    if affinity is None or affinity == NodeGroupAffinity():
        return group is None and plugin.arguments.get("strict", True) is False
    if group in affinity.anti_preferred:
        return True
    return group in (*affinity.required, *affinity.preferred) and group not in affinity.anti_required


def has_preference(plugin: PluginSpec, affinity: NodeGroupAffinity) -> bool:
    """Whether Volcano prefers some of the groups that are open to a queue with this affinity to others."""
    if not plugin.flags.get("enableNodeOrder", True):
        return False
    named = {*affinity.required, *affinity.preferred, *affinity.anti_preferred}
    return len({_rank(plugin, affinity, group) for group in named if may_use(plugin, affinity, group)}) > 1


def _rank(plugin: PluginSpec, affinity: NodeGroupAffinity, group: str) -> tuple[bool, bool, int]:
    """Equal for groups of one score."""
    if group in affinity.anti_preferred:
        return False, False, -1
    ordered = plugin.arguments.get("enablePreferredOrder") is True and group in affinity.preferred
    return group in affinity.required, group in affinity.preferred, affinity.preferred.index(group) if ordered else 0
