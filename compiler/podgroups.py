"""A PodGroup and the bare pods that name it, as one gang."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compiler.drafts import PodDraft, PodGroupDraft
from compiler.specs import GangSpec, RoleSpec


def assemble(groups: Iterable[PodGroupDraft], pods: Iterable[PodDraft]) -> list[GangSpec]:
    """One gang for each PodGroup that has pods among the documents; a group whose pods others create is no gang of ours.

    Pods of one role (annotation volcano.sh/task-spec) that ask for the same are one RoleSpec. Volcano's rule: minima of roles
    (minTaskMember) are skipped when minMember is below their sum.
    """
    by_group: dict[tuple[str, str], list[PodDraft]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.document.namespace, pod.document.name)):
        if pod.group:
            by_group.setdefault((pod.document.namespace or "default", pod.group), []).append(pod)
    gangs = []
    for draft in groups:
        document = draft.gang.document
        if members := by_group.get((document.namespace or "default", document.name)):
            relaxed = draft.gang.minimum < sum(draft.minimums.values())
            gangs.append(replace(draft.gang, roles=_roles(members, {} if relaxed else dict(draft.minimums))))
    return gangs


def _roles(members: list[PodDraft], minimums: dict[str, int]) -> tuple[RoleSpec, ...]:
    """Pods of one role that ask for different things become roles of their own, the first taking as much of the minimum as it has pods."""
    alike: dict[tuple[str, str], list[PodDraft]] = {}
    for pod in members:
        alike.setdefault((pod.role, repr(pod.pod)), []).append(pod)
    roles: list[RoleSpec] = []
    taken: dict[str, int] = {}
    for (role, _), same in alike.items():
        name = role or "pods"
        number = taken.get(name, 0)
        taken[name] = number + 1
        least = min(minimums.get(role, 0), len(same))
        minimums[role] = minimums.get(role, 0) - least
        title = f"{name}-{number}" if number else name
        roles.append(RoleSpec(title, len(same), least, same[0].pod, (), (), same[0].annotations, tuple(pod.document for pod in same)))
    return tuple(roles)
