"""The plugin nodegroup: which nodes a queue may use by their groups (Volcano, pkg/scheduler/plugins/nodegroup)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from compiler.fields.quantity import integer_amounts, parse_quantity
from compiler.kubernetes import NODE_GROUP_LIMITS_ANNOTATION as LIMITS_ANNOTATION
from compiler.kubernetes import ROOT_QUEUE
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.specs.pod_spec import Amounts
from compiler.specs.queue_spec import NodeGroupAffinity, QueueSpec

LIMITS_SINCE = 16
"""The first minor version of Volcano whose plugin reads limits of node groups."""


def group_limits(queue: QueueSpec) -> Mapping[str, Amounts]:
    """Node group -> resource -> what the queue may hold there. Raises AttributeError, TypeError or ValueError where the
    annotation cannot be read. A NamespaceQueue has none. As Go reads JSON, null is an empty mapping, or an amount of
    0."""
    text = "" if queue.namespace else (queue.document.metadata.get("annotations") or {}).get(LIMITS_ANNOTATION)
    limits = _filled(json.loads(text, parse_int=str, parse_float=str) if text else None)
    return {group: integer_amounts(_amounts(_filled(resources)), "up") for group, resources in limits.items()}


def _filled(value: Any) -> Any:
    return {} if value is None else value


def _amounts(resources: Mapping[str, object]) -> dict[str, Fraction]:
    texts = {name: value.strip() if isinstance(value, str) else value for name, value in resources.items()}
    return {name: parse_quantity(0 if value is None else value) for name, value in texts.items()}


def has_readable_limits(queue: QueueSpec) -> bool:
    """Return whether the queue's limits of node groups, if it has any, are group -> resource -> amount."""
    try:
        group_limits(queue)
    except (AttributeError, TypeError, ValueError):
        return False
    return True


def node_group_plugin(scheduler: SchedulerSpec | None) -> PluginSpec | None:
    """Return the plugin where it decides which nodes are open."""
    found = None if scheduler is None else scheduler.plugin("nodegroup")
    return found if found is not None and found.flags.get("enablePredicate", True) else None


def affinity_owner(plugin: PluginSpec, name: str, queues: Iterable[QueueSpec]) -> str:
    """Return the queue whose affinity the queue has: its own; or with enableHierarchy that of the nearest queue which
    has one, this one included. An empty affinity is one of its own."""
    specs, at, seen = {spec.name: spec for spec in queues}, name, set[str]()
    while plugin.flags.get("enableHierarchy", False) and at not in seen:
        spec = specs.get(at)
        if spec is not None and spec.affinity is not None:
            return at
        seen.add(at)
        at = (spec.parent if spec else None) or ROOT_QUEUE
    return name


def may_use(plugin: PluginSpec, affinity: NodeGroupAffinity | None, group: str | None) -> bool:
    """Return whether a queue with this affinity may use the nodes of a group; None: nodes without a group.

    A queue without affinity may use no group, and one with anti-affinity alone only its unwanted ones. In strict mode,
    the default, it needs affinity for nodes without a group too, and these are closed to all.
    """
    if affinity is None or affinity == NodeGroupAffinity():
        return group is None and plugin.arguments.get("strict", True) is False
    if group in affinity.anti_preferred:
        return True
    return group in (*affinity.required, *affinity.preferred) and group not in affinity.anti_required


def preference_ranks(
    plugin: PluginSpec, affinity: NodeGroupAffinity | None, groups: Sequence[str | None]
) -> tuple[int, ...]:
    """Return how much Volcano prefers each of the groups for a queue with this affinity, 0 the most; () where all that
    are open to it have one score."""
    if affinity is None or not plugin.flags.get("enableNodeOrder", True):
        return ()
    open_groups = [group for group in groups if may_use(plugin, affinity, group)]
    scores = sorted({_score(plugin, affinity, group) for group in open_groups}, reverse=True)
    if len(scores) < 2:
        return ()
    rank = {group: scores.index(_score(plugin, affinity, group)) for group in open_groups}
    return tuple(rank.get(group, 0) for group in groups)


def _score(plugin: PluginSpec, affinity: NodeGroupAffinity, group: str | None) -> Fraction:
    """Volcano's score of a node, in parts of what a required group gets; a preferred one gets half of it, or with
    enablePreferredOrder the less the later it is named."""
    if group in affinity.anti_preferred:
        return Fraction(-1, 100)
    score = Fraction(group in affinity.required)
    if group in affinity.preferred:
        places = {name: place for place, name in enumerate(affinity.preferred)}
        behind = places[group] if plugin.arguments.get("enablePreferredOrder") is True else 0
        score += Fraction(len(places) - behind, 2 * len(places))
    return score
