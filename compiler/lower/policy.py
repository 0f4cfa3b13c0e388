"""The plugins of the scheduler's configuration -> what decides between queues."""

from __future__ import annotations

from compiler.specs import PluginSpec, SchedulerSpec
from solver.problem import Policy

DEFAULT = Policy(proportion=True, drf=True)
"""Of a cluster whose repository says nothing: what Volcano's chart installs (installer/helm/chart/volcano/config/volcano-scheduler.conf)."""


def policy(scheduler: SchedulerSpec | None) -> Policy:
    """A plugin that is switched off for what it would decide here does not decide it. Of a plugin that stands twice the first place counts.

    overcommit is not among them: it decides which waiting jobs get pods at all, not which start (docs/decisions/0005-queues.md).
    """
    if scheduler is None:
        return DEFAULT
    plugins = {plugin.name: plugin for tier in reversed(scheduler.tiers) for plugin in reversed(tier)}
    return Policy(
        capacity=_on(plugins.get("capacity"), "enabledAllocatable"),
        capacity_hierarchy=_on(plugins.get("capacity"), "enabledAllocatable") and _hierarchical(plugins["capacity"]),
        proportion=_on(plugins.get("proportion"), "enabledAllocatable"),
        drf=_on(plugins.get("drf"), "enableJobOrder"),
        drf_hierarchy=_on(plugins.get("drf"), "enableQueueOrder") and _hierarchical(plugins["drf"]),
    )


def _on(plugin: PluginSpec | None, flag: str) -> bool:
    return plugin is not None and plugin.flags.get(flag, True)


def _hierarchical(plugin: PluginSpec) -> bool:
    return plugin.flags.get("enableHierarchy", False)
