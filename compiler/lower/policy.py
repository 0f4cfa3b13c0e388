"""The policy of the problem: which plugins of the scheduler decide between queues, and how nodes are filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from solver.problem import Policy, QuotaOrder

DEFAULT_POLICY = Policy(proportion=True, drf=True)
"""Without a scheduler's configuration in the repository: what Volcano's chart installs
(installer/helm/chart/volcano/config/volcano-scheduler.conf)."""


def lower_policy(scheduler: SchedulerSpec | None, order: QuotaOrder) -> Policy:
    """Return the policy. A plugin whose relevant function is disabled decides nothing. For a plugin that is listed
    twice the first counts.

    overcommit is not among them: it decides which waiting jobs get pods at all, not which start
    (docs/develop/decisions/0005-queues.md).
    """
    if scheduler is None:
        return replace(DEFAULT_POLICY, order=order)
    plugins = {plugin.name: plugin for tier in reversed(scheduler.tiers) for plugin in reversed(tier)}
    capacity, proportion = (_divides(scheduler, plugins.get(name)) for name in ("capacity", "proportion"))
    return Policy(
        capacity=capacity,
        capacity_hierarchy=capacity and _is_hierarchical(plugins["capacity"]),
        proportion=proportion,
        drf=_is_enabled(plugins.get("drf"), "enableJobOrder"),
        drf_hierarchy=_is_enabled(plugins.get("drf"), "enableQueueOrder") and _is_hierarchical(plugins["drf"]),
        spread_pods=_spreads_pods(plugins) and not _packs_nodes(plugins),
        ancestor_reclaim_levels=_ancestor_reclaim_levels(plugins.get("capacity")),
        order=order,
    )


def _divides(scheduler: SchedulerSpec, plugin: PluginSpec | None) -> bool:
    """Return whether a plugin limits queues (enabledAllocatable), or has excess usage reclaimed, since it votes on an
    action that reclaims."""
    reclaims = _is_enabled(plugin, "enableReclaimable") and "reclaim" in scheduler.actions
    return reclaims or _is_enabled(plugin, "enabledAllocatable")


def _ancestor_reclaim_levels(capacity: PluginSpec | None) -> int:
    """`ancestorReclaimLevel`; it needs the hierarchy, and anything but a whole number above 0 is 0 to Volcano."""
    levels = (
        capacity.arguments.get("ancestorReclaimLevel", 0) if capacity is not None and _is_hierarchical(capacity) else 0
    )
    return max(0, levels) if type(levels) is int else 0


def _spreads_pods(plugins: Mapping[str, PluginSpec]) -> bool:
    """Return whether the configuration explicitly prefers the least loaded node. The default of nodeorder
    (leastrequested.weight 1) is not explicit: it is the score of one plugin among many."""
    order = _scoring_arguments(plugins.get("nodeorder"))
    least, most = (_argument_number(order.get(f"{which}requested.weight", 0)) for which in ("least", "most"))
    return least > most or "LeastAllocated" in _fit_strategies(plugins)


def _packs_nodes(plugins: Mapping[str, PluginSpec]) -> bool:
    """Return whether it prefers full nodes: binpack, MetaX's gpu-aware with a loss weight, or MostAllocated of a
    device."""
    fit = plugins.get("binpack")
    binpack = (
        fit is not None
        and fit.flags.get("enableNodeOrder", True)
        and _argument_number(fit.arguments.get("binpack.weight", 1)) > 0
    )
    aware = _argument_number(_scoring_arguments(plugins.get("gpu-aware")).get("loss.weight", 0)) > 0
    return binpack or aware or "MostAllocated" in _fit_strategies(plugins)


def _fit_strategies(plugins: Mapping[str, PluginSpec]) -> set[str]:
    """Return the types by which resource-strategy-fit scores the devices that it names."""
    rows = _scoring_arguments(plugins.get("resource-strategy-fit")).get("resources", {})
    if not isinstance(rows, Mapping):
        return set()
    devices = (row for name, row in rows.items() if "/" in name)
    return {str(row.get("type")) for row in devices if isinstance(row, Mapping)}


def _scoring_arguments(plugin: PluginSpec | None) -> Mapping[str, Any]:
    """Return the arguments of a plugin that scores nodes; none of one that does not."""
    return plugin.arguments if plugin is not None and plugin.flags.get("enableNodeOrder", True) else {}


def _argument_number(value: object) -> float:
    """Return the argument as a number; 0 if it is not a number, which the check of arguments reports."""
    try:
        return float(str(value))
    except ValueError:
        return 0.0


def _is_enabled(plugin: PluginSpec | None, flag: str) -> bool:
    return plugin is not None and plugin.flags.get(flag, True)


def _is_hierarchical(plugin: PluginSpec) -> bool:
    return plugin.flags.get("enableHierarchy", False)
