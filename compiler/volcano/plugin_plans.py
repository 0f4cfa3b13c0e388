"""The effect of each of Volcano's plugins on a plan, and where Volcano may decide differently (`plugin_plans.toml`)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from compiler.diagnostics.diagnostic import Severity
from compiler.fields.times import go_duration_seconds
from compiler.kubernetes import WAITING_TIME_ANNOTATIONS
from compiler.specs.cluster_spec import PluginSpec, Specs
from compiler.specs.queue_spec import NodeGroupAffinity
from compiler.volcano.node_groups import affinity_owner, node_group_plugin, preference_ranks

Condition = Callable[[Specs, PluginSpec], bool]


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision of Volcano that the plan does not foresee. applies: whether it is possible in this repository; when:
    the same in words. severity: of the diagnostic."""

    text: str
    when: str
    applies: Condition
    severity: Severity = "warning"


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """planned: what the plan makes of the plugin."""

    planned: str
    differences: tuple[Difference, ...] = ()


# ---- conditions


def _always(specs: Specs, plugin: PluginSpec) -> bool:
    return True


def _has_action(name: str) -> Condition:
    return lambda specs, plugin: specs.scheduler is not None and name in specs.scheduler.actions


def _has_values(values: Mapping[str, bool], specs: Specs, plugin: PluginSpec) -> bool:
    written = ((plugin.arguments.get(name), value) for name, value in values.items())
    return any(str(found).lower() == str(value).lower() for found, value in written)


def _has_exclusive_rules(specs: Specs, plugin: PluginSpec) -> bool:
    return bool(plugin.arguments.get("deviceshare.GPUExclusiveRules"))


def _victims_are_shuffled(specs: Specs, plugin: PluginSpec) -> bool:
    return plugin.flags.get("enabledVictim", True) and _has_action("shuffle")(specs, plugin)


def _prefers_groups(specs: Specs, plugin: PluginSpec) -> bool:
    if node_group_plugin(specs.scheduler) is None:
        return False
    affinities = {spec.name: spec.affinity for spec in specs.queues}
    owners = {affinity_owner(plugin, gang.queue, specs.queues) for gang in specs.gangs}
    return any(_has_preference(plugin, found) for found in map(affinities.get, owners))


def _has_preference(plugin: PluginSpec, affinity: NodeGroupAffinity | None) -> bool:
    named = () if affinity is None else (*affinity.required, *affinity.preferred, *affinity.anti_preferred)
    return bool(preference_ranks(plugin, affinity, named))


def _has_waiting_time(specs: Specs, plugin: PluginSpec) -> bool:
    of_all = plugin.arguments.get("sla-waiting-time")
    if isinstance(of_all, str) and go_duration_seconds(of_all):
        return True
    annotations = (gang.document.metadata.get("annotations") or {} for gang in specs.gangs)
    return any(not written.keys().isdisjoint(WAITING_TIME_ANNOTATIONS) for written in annotations)


def _is_proportional(specs: Specs, plugin: PluginSpec) -> bool:
    proportional = plugin.arguments.get("proportional")
    return isinstance(proportional, Mapping) and proportional.get("enable") is True


def _reclaims_along_the_tree(specs: Specs, plugin: PluginSpec) -> bool:
    hierarchical = plugin.flags.get("enableHierarchy", False) and plugin.flags.get("enableReclaimable", True)
    return hierarchical and _has_action("reclaim")(specs, plugin)


def _limits_nothing(specs: Specs, plugin: PluginSpec) -> bool:
    """Return whether the plugin orders queues, or votes on reclaim, without its limit on queues."""
    orders_or_reclaims = plugin.flags.get("enableQueueOrder", True) or plugin.flags.get("enableReclaimable", True)
    return orders_or_reclaims and not plugin.flags.get("enabledAllocatable", True)


def _has_unplanned_needs(specs: Specs, plugin: PluginSpec) -> bool:
    return any(role.pod.has_unplanned_needs for gang in specs.gangs for role in gang.roles)


_CONDITIONS: Mapping[str, Condition] = {
    "always": _always,
    "has exclusive rules": _has_exclusive_rules,
    "has unplanned needs": _has_unplanned_needs,
    "has waiting time": _has_waiting_time,
    "is proportional": _is_proportional,
    "limits nothing": _limits_nothing,
    "prefers groups": _prefers_groups,
    "reclaims along the tree": _reclaims_along_the_tree,
    "victims are shuffled": _victims_are_shuffled,
}


def _condition(written: str | Mapping[str, bool]) -> Condition:
    if isinstance(written, str):
        word, _, name = written.partition(" ")
        return _has_action(name) if word == "action" else _CONDITIONS[written]
    return partial(_has_values, written)


def _unless_off(flag: str, condition: Condition) -> Condition:
    return lambda specs, plugin: plugin.flags.get(flag, True) and condition(specs, plugin)


def _difference(text: str, when: str, applies: str | Mapping[str, bool], flag: str = "", **more: Any) -> Difference:
    return Difference(text, when, _unless_off(flag, _condition(applies)), **more)


def _plugin_plan(row: Mapping[str, Any]) -> PluginPlan:
    return PluginPlan(row["planned"], tuple(_difference(**each) for each in row.get("differences", ())))


_TABLE = tomllib.loads((files("compiler.volcano") / "plugin_plans.toml").read_text("utf-8"))
PLUGIN_PLANS: Mapping[str, PluginPlan] = {name: _plugin_plan(row) for name, row in _TABLE["plugins"].items()}
"""Plugin -> what the plan makes of it, for all plugins of Volcano 1.15 and 1.16."""
ACTION_PLANS: Mapping[str, str] = _TABLE["actions"]
"""Action -> its function, and the plan's treatment of it."""


def planned_text(name: str) -> str:
    """Lines of what the plan makes of a plugin or an action; empty for any other name."""
    if name in ACTION_PLANS:
        return f"  does   {ACTION_PLANS[name]}\n"
    if name not in PLUGIN_PLANS:
        return ""
    plan = PLUGIN_PLANS[name]
    rows = [f"  in the plan: {plan.planned}", *(f"  with {each.when}: {each.text}" for each in plan.differences)]
    return "\n".join(rows) + "\n"
