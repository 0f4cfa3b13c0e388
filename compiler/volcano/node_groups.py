"""The plugin nodegroup: which nodes a queue may use by their groups (Volcano, pkg/scheduler/plugins/nodegroup)."""

from __future__ import annotations

from compiler.specs import NodeGroupAffinity, PluginSpec, SchedulerSpec

NO_AFFINITY = NodeGroupAffinity()


def node_group_plugin(scheduler: SchedulerSpec | None) -> PluginSpec | None:
    """The plugin where it decides which nodes are open; of a plugin that is listed twice the first counts."""
    plugins = () if scheduler is None else scheduler.plugins
    found = next((plugin for plugin in plugins if plugin.name == "nodegroup"), None)
    return found if found is not None and found.flags.get("enablePredicate", True) else None


def inherits_affinity(plugin: PluginSpec) -> bool:
    """Whether a queue without spec.affinity has that of the nearest queue above it. An empty one is one of its own."""
    return plugin.flags.get("enableHierarchy", False)


def may_use(plugin: PluginSpec, affinity: NodeGroupAffinity | None, group: str | None) -> bool:
    """Whether a queue with this affinity may use the nodes of a group; None: nodes without a group.

    A queue without affinity may use no group, and one with anti-affinity alone only what it would rather not use.
    Strict, which is the default, it needs affinity for nodes without a group too, and these are closed to all.
    """
    if affinity is None or affinity == NO_AFFINITY:
        return group is None and plugin.arguments.get("strict", True) is False
    if group in affinity.anti_preferred:
        return True
    return group in (*affinity.required, *affinity.preferred) and group not in affinity.anti_required
