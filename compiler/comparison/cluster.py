"""Effects of a change on the cluster itself: its nodes and their amounts, network domains, priorities, rules of queues
in addition to their amounts, policy, and the behaviour of the scheduler. All in sentences.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from compiler.comparison.edits import paired
from compiler.explain.closed_nodes import taint_text
from compiler.fields.quantity import rounded_amount, unit_heading
from compiler.fields.texts import compact_names, count_text
from compiler.fields.times import duration_text, rfc3339
from compiler.lower.inputs import class_priorities
from compiler.specs.cluster_spec import ClusterSpec, PluginSpec, SchedulerSpec, Specs
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.specs.queue_spec import PriorityClassSpec, QueueSpec
from compiler.volcano.plugin_plans import PLUGIN_PLANS

MAX_NAMES = 4
_IDENTITY = {"document", "name"}
_Named = ClusterSpec | HyperNodeSpec | NodeSpec | PriorityClassSpec | QueueSpec
N = TypeVar("N", HyperNodeSpec, NodeSpec, PriorityClassSpec, QueueSpec)


def cluster_changes(before: Specs, after: Specs, now: int | None) -> Iterator[str]:
    """One sentence for each difference. now: from when the plans count; None: they know no time."""
    yield from _node_changes(before.nodes, after.nodes)
    if now is None and _maintenance(before.nodes) != _maintenance(after.nodes):
        yield "maintenance closes no node here: only a state has a time (--state)"
    new, gone, common = paired(_by_name(before.hypernodes), _by_name(after.hypernodes))
    changed = [name for name, pair in common.items() if _changed_fields(*pair)]
    for word, names in (("new", new), ("gone", gone), ("changed", changed)):
        yield from _listing(f"network domain {word}", list(names))
    yield from _priority_changes(before.priority_classes, after.priority_classes)
    yield from _jobs_of_other_priority(before, after)
    for name, (old, queue) in paired(_by_name(before.queues), _by_name(after.queues))[2].items():
        alike = replace(old, guarantee=queue.guarantee, deserved=queue.deserved, capability=queue.capability)
        yield from _value_changes(f"Queue {name}", alike, queue)
    yield from _value_changes("Cluster", before.cluster, after.cluster)


def _by_name(items: Iterable[N]) -> dict[str, N]:
    return {item.name: item for item in items}


def _listing(what: str, names: Sequence[str]) -> Iterator[str]:
    """Yield "2 nodes gone: gpu-0, gpu-1". what: the noun in the singular, and its change."""
    if names:
        noun, _, word = what.rpartition(" ")
        yield f"{count_text(len(names), noun)} {word}: {compact_names(names, MAX_NAMES)}"


def _node_changes(before: Sequence[NodeSpec], after: Sequence[NodeSpec]) -> Iterator[str]:
    new, gone, common = paired(_by_name(before), _by_name(after))
    yield from _listing("node new", list(new))
    yield from _listing("node gone", list(gone))
    unpadded = [{re.sub(r"-0+(?=\d+\Z)", "-", name) for name in names} for names in (gone, new)]
    if renamed := unpadded[0] & unpadded[1]:
        yield f"{count_text(len(renamed), 'node')} renamed: count decides the digits; names: [a-[00-15]] keeps them"
    changed: dict[tuple[str, ...], list[str]] = {}
    for name, pair in common.items():
        if texts := tuple(_change_texts(_changed_fields(*pair))):
            changed.setdefault(texts, []).append(name)
    for texts, listed in changed.items():
        yield f"{count_text(len(listed), 'node')}: {', '.join(texts)}: {compact_names(listed, MAX_NAMES)}"
    totals = _totals(before), _totals(after)
    resources = (totals[0].keys() | totals[1].keys()) - {"pods"}
    for resource in sorted(resources):
        amounts = [total[resource] for total in totals]
        if amounts[0] != amounts[1]:
            shown = [rounded_amount(resource, amount) for amount in amounts]
            yield f"in all {shown[0]} -> {shown[1]} {unit_heading(resource, resources)}"


def _maintenance(nodes: Sequence[NodeSpec]) -> dict[str, object]:
    return {node.name: node.maintenance_windows for node in nodes if node.maintenance_windows}


def _change_texts(changed: Mapping[str, tuple[Any, Any]]) -> Iterator[str]:
    """Yield the fields of a node that differ; for labels and amounts the keys that do, for taints and maintenance the
    added and removed ones."""
    for field, (old, new) in changed.items():
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for key in dict.fromkeys((*old, *new)):
                if old.get(key) != new.get(key):
                    yield _key_text(field, key, old.get(key), new.get(key))
        elif field in _LISTED:
            for word, items, others in (("removed", old, new), ("added", new, old)):
                yield from (f"{_LISTED[field](item)} {word}" for item in items if item not in others)
        else:
            yield f"{_field_text(field)} changed"


def _window_text(window: tuple[int, int]) -> str:
    start, end = window
    return f"maintenance from {rfc3339(start)} for {duration_text(end - start)}"


_LISTED: Mapping[str, Callable[[Any], str]] = {
    "taints": lambda it: f"taint {taint_text(it)}{' (evicts pods without toleration)' * (it.effect == 'NoExecute')}",
    "maintenance_windows": _window_text,
}


def _key_text(field: str, key: str, old: Any, new: Any) -> str:
    if field == "allocatable":
        values = [None if amount is None else rounded_amount(key, amount) for amount in (old, new)]
        return _value_text(key, *values)
    return _value_text(f"{_field_text(field).removesuffix('s')} {key}", old, new)


def _value_text(name: str, old: Any, new: Any) -> str:
    return f"{name} {'unset' if old is None else old} -> {'unset' if new is None else new}"


def _totals(nodes: Sequence[NodeSpec]) -> Counter[str]:
    """Return the amounts of the open nodes."""
    total: Counter[str] = Counter()
    for node in nodes:
        total.update({} if node.unschedulable else node.allocatable)
    return total


def _priority_changes(before: Sequence[PriorityClassSpec], after: Sequence[PriorityClassSpec]) -> Iterator[str]:
    new, gone, common = paired(_by_name(before), _by_name(after))
    for word, listed in (("new", new), ("gone", gone)):
        yield from (f"PriorityClass {name} is {word}: value {found.value}" for name, found in listed.items())
    for name, pair in common.items():
        yield from _value_changes(f"PriorityClass {name}", *pair)


def _jobs_of_other_priority(before: Specs, after: Specs) -> Iterator[str]:
    """Yield the jobs that name the same class, or none, and have another priority by it."""
    (old, old_default), (new, new_default) = (class_priorities(specs.priority_classes) for specs in (before, after))
    named = {gang.key: gang.priority_class for gang in before.gangs}
    changed: dict[tuple[int, int], list[str]] = {}
    for gang in after.gangs:
        name = gang.priority_class
        values = old.get(name or "", old_default), new.get(name or "", new_default)
        if values[0] != values[1] and gang.key in named and named[gang.key] == name:
            changed.setdefault(values, []).append(f"{gang.namespace}/{gang.document.name}")
    for (was, now), jobs in sorted(changed.items()):
        yield f"{count_text(len(jobs), 'job')}: priority {was} -> {now}: {compact_names(sorted(jobs), MAX_NAMES)}"


def _value_changes(name: str, before: _Named, after: _Named) -> Iterator[str]:
    """One sentence for each field that differs."""
    for field, (old, new) in _changed_fields(before, after).items():
        old, new = (str(value).lower() if isinstance(value, bool) else value for value in (old, new))
        is_shown = not any(isinstance(value, Mapping) or is_dataclass(value) for value in (old, new))
        yield f"{name}: {_value_text(_field_text(field), old, new) if is_shown else f'{_field_text(field)} changed'}"


def _changed_fields(before: _Named, after: _Named) -> dict[str, tuple[Any, Any]]:
    """Return the fields that differ, with both values, without the document and its place."""
    names = [field.name for field in fields(after) if field.name not in _IDENTITY]
    values = {name: (getattr(before, name), getattr(after, name)) for name in names}
    return {name: pair for name, pair in values.items() if pair[0] != pair[1]}


def _field_text(name: str) -> str:
    return name.replace("_", " ")


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
    keys = [each.base_path[-1] for each in (before, after) if each.raw_text is not None]
    if len(set(keys)) > 1:
        yield f"key {keys[0]} -> {keys[1]} of the ConfigMap: it has no effect until --scheduler-conf names that one"
    yield from _action_changes(before.actions, after.actions)
    yield from _plugin_changes(before, after)
    yield from _setting_changes("metrics", before.metrics, after.metrics)
    for action in sorted(before.configurations.keys() | after.configurations.keys()):
        old, new = before.configurations.get(action, {}), after.configurations.get(action, {})
        yield from _setting_changes(f"action {action}", old, new)


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
        yield from _setting_changes(f"plugin {name}", plugin.flags, changed.flags)
        yield from _setting_changes(f"plugin {name}", plugin.arguments, changed.arguments)


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


def _setting_changes(where: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{where}: {name} {_shown(before.get(name))} -> {_shown(after.get(name))}"


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)
