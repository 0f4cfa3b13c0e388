"""Effects of a change of the scheduler's configuration on its behaviour, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.comparison.edits import paired
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.volcano.plugin_plans import PLUGIN_PLANS

_TierPlugin = tuple[int, PluginSpec]
"""Tier, from 1, and the plugin."""
_ALIKE_IN_EACH_TIER = frozenset(
    ["binpack", "deviceshare", "nodegroup", "nodeorder", "numaaware", "predicates", "resource-strategy-fit", "usage"]
)
"""Plugins that register only filters, which all must pass, and scores, which are added up (Volcano 1.15.1)."""
ACTION_MEANINGS = {
    "enqueue": "admits jobs only while the cluster and their queue have room for their minimum",
    "allocate": "gives pods their nodes",
    "backfill": "places pods that ask for nothing",
    "preempt": "evicts pods of lower priority inside a queue",
    "reclaim": "takes back what other queues borrowed",
    "gangpreempt": "evicts whole gangs of lower priority inside a queue, along the topology",
    "gangreclaim": "takes back what other queues borrowed in whole gangs, along the topology",
    "shuffle": "evicts pods that a plugin wants to run elsewhere",
}


def behaviour_changes(before: SchedulerSpec | None, after: SchedulerSpec | None) -> Iterator[str]:
    """One sentence for each action, plugin, flag and argument that differs, and for another ConfigMap or metrics."""
    if before is None or after is None:
        if before is not after:
            word = "no longer declared" if after is None else "declared now"
            yield f"the scheduler's configuration is {word}"
        return
    old_map, new_map = (f"{each.namespace}/{each.name}" for each in (before, after))
    if old_map != new_map and before.is_emitted and after.is_emitted:
        yield f"ConfigMap {old_map} -> {new_map}: it has no effect until Volcano's scheduler mounts that one"
    yield from _action_changes(before.actions, after.actions)
    yield from _plugin_changes(before, after)
    yield from _value_changes("metrics", before.metrics, after.metrics)
    for action in sorted(before.configurations.keys() | after.configurations.keys()):
        old, new = before.configurations.get(action, {}), after.configurations.get(action, {})
        yield from _value_changes(f"action {action}", old, new)


def _action_changes(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[str]:
    for name in after:
        if name not in before:
            yield f"action {name} added: it {ACTION_MEANINGS.get(name, 'does what its vendor means')}"
    for name in before:
        if name not in after:
            yield f"action {name} removed (it {ACTION_MEANINGS.get(name, 'does what its vendor means')})"
    common = [name for name in before if name in after]
    if common != [name for name in after if name in before]:
        yield f"actions run in another order: {', '.join(after)}"


def _plugin_changes(before: SchedulerSpec, after: SchedulerSpec) -> Iterator[str]:
    old, new = _plugins_by_name(before), _plugins_by_name(after)
    yield from _order_changes(old, new)
    added, removed, common = paired(old, new)
    for name, (tier, _) in added.items():
        yield f"plugin {name} added in tier {tier}{_effect_text(name)}"
    for name in old:
        if name in removed:
            yield f"plugin {name} removed{_effect_text(name)}"
            continue
        (tier, plugin), (new_tier, changed) = common[name]
        if new_tier != tier:
            alike = name in _ALIKE_IN_EACH_TIER
            effect = "it filters and scores nodes alike in each" if alike else "the first tier with an answer decides"
            yield f"plugin {name} moves from tier {tier} to tier {new_tier}: {effect}"
        yield from _value_changes(f"plugin {name}", plugin.flags, changed.flags)
        yield from _value_changes(f"plugin {name}", plugin.arguments, changed.arguments)


def _effect_text(plugin: str) -> str:
    plan = PLUGIN_PLANS.get(plugin)
    return f" (its effect on the plan: {plan.planned})" if plan else ""


def _order_changes(old: Mapping[str, _TierPlugin], new: Mapping[str, _TierPlugin]) -> Iterator[str]:
    """One sentence for each tier whose common plugins are called in another order, where the order decides."""
    common = [name for name in new if name in old]
    ordered = [name for name in common if name not in _ALIKE_IN_EACH_TIER]
    stay = [name for name in ordered if old[name][0] == new[name][0]]
    for tier in sorted({new[name][0] for name in stay}):
        after = [name for name in stay if new[name][0] == tier]
        before = [name for name in old if name in after]
        if before != after:
            text = f"{', '.join(after)} (before: {', '.join(before)})"
            yield f"tier {tier} calls its plugins in another order: {text}; the first with an answer decides"


def _plugins_by_name(scheduler: SchedulerSpec) -> dict[str, _TierPlugin]:
    """Name -> tier (from 1) and plugin; of one that is listed twice the first counts."""
    found: dict[str, _TierPlugin] = {}
    for number, tier in enumerate(scheduler.tiers, start=1):
        for plugin in tier:
            found.setdefault(plugin.name, (number, plugin))
    return found


def _value_changes(where: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{where}: {name} {_shown(before.get(name))} -> {_shown(after.get(name))}"


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
