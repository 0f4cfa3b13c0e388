"""Role affinities by Volcano's plugin task-topology: which roles of a job prefer to share a node, and which avoid it.

Source: annotations of the Job, copied to its PodGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, combinations_with_replacement

from compiler.kubernetes import TASK_AFFINITY_ANNOTATION, TASK_ANTI_AFFINITY_ANNOTATION, annotations_of
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.gang_spec import GangSpec
from compiler.volcano.task_topology import task_groups, wrong_names


def role_affinities(gang: GangSpec, scheduler: SchedulerSpec | None) -> tuple[tuple[int, int, int], ...]:
    """(role, role, 1 or -1), where the plugin is on.

    As in the plugin: an unknown role, or one twice, in a group or in the order of the roles voids all groups; for a
    role with itself anti-affinity precedes affinity, between two roles affinity precedes.
    """
    if scheduler is None or not _is_enabled(scheduler):
        return ()
    index = {role.name: t for t, role in enumerate(gang.roles)}
    annotations = annotations_of(gang.document.data)
    if any(wrong_names(annotations, index)):
        return ()
    affinity = task_groups(annotations, TASK_AFFINITY_ANNOTATION)
    anti_affinity = task_groups(annotations, TASK_ANTI_AFFINITY_ANNOTATION)
    near, far = (
        {pair for group in groups for pair in _role_pairs(group, index)} for groups in (affinity, anti_affinity)
    )
    near -= {(a, b) for a, b in near & far if a == b}
    return tuple(sorted([(a, b, 1) for a, b in near] + [(a, b, -1) for a, b in far - near]))


def _is_enabled(scheduler: SchedulerSpec) -> bool:
    plugins = (plugin for tier in scheduler.tiers for plugin in tier)
    return any(plugin.name == "task-topology" and plugin.flags.get("enableNodeOrder", True) for plugin in plugins)


def _role_pairs(group: Sequence[str], index: Mapping[str, int]) -> Iterable[tuple[int, int]]:
    """Return the role with itself for a group of one, else each pair of its roles in order."""
    roles = sorted(index[name] for name in group if name)
    return combinations_with_replacement(roles, 2) if len(group) == 1 else combinations(roles, 2)
