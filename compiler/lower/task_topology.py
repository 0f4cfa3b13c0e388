"""Volcano's plugin task-topology: which roles of a job like to share a node, and which do not (annotations of the Job,
copied to its PodGroup)."""

from __future__ import annotations

from compiler.kubernetes import TASK_AFFINITY_ANNOTATION, TASK_ANTI_AFFINITY_ANNOTATION
from compiler.specs import GangSpec, SchedulerSpec
from compiler.volcano.task_topology import task_groups


def role_affinities(gang: GangSpec, scheduler: SchedulerSpec | None) -> tuple[tuple[int, int, int], ...]:
    """(role, role, 1 or -1), where the plugin is on. What names a role that does not exist, or one twice in a group, is
    ignored as a whole, as the plugin does; a role's wish to keep its own pods apart outweighs the contrary one, between
    roles it is the other way round (its priorities)."""
    if scheduler is None or not any(
        plugin.name == "task-topology" and plugin.flags.get("enableNodeOrder", True)
        for t in scheduler.tiers
        for plugin in t
    ):
        return ()
    notes = gang.document.data.get("metadata", {}).get("annotations") or {}
    found = task_groups(notes, TASK_AFFINITY_ANNOTATION), task_groups(notes, TASK_ANTI_AFFINITY_ANNOTATION)
    index = {role.name: t for t, role in enumerate(gang.roles)}
    if any(not set(group) <= index.keys() or len(set(group)) < len(group) for side in found for group in side):
        return ()
    near, far = (
        {(min(a, b), max(a, b)) for group in side for a, b in _role_pairs([index[name] for name in group])}
        for side in found
    )
    own = {pair for pair in near if pair[0] == pair[1]} & far
    return tuple(sorted([(a, b, 1) for a, b in near - own] + [(a, b, -1) for a, b in far - (near - own)]))


def _role_pairs(group: list[int]) -> list[tuple[int, int]]:
    """Of one role its pods among themselves, of several each two of them."""
    return [(group[0], group[0])] if len(group) == 1 else [(a, b) for i, a in enumerate(group) for b in group[i + 1 :]]
