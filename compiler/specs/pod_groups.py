"""Gangs of several documents: bare PodGroups with the pods that name them, and steps of JobFlows, which are Jobs that
Volcano makes from JobTemplates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from compiler.fields.label_selector import selector_matches
from compiler.kubernetes import GROUP_NAME_ANNOTATION
from compiler.specs.drafts import JobFlowDraft, JobTemplateDraft, PodDraft, PodGroupDraft, SubgroupPolicyDraft
from compiler.specs.gang_spec import FlowStep, GangSpec, RoleSpec, SubgroupSpec
from compiler.syntax.documents import Document

_GROUPLESS = ("", "apps", "batch", "jobset.x-k8s.io")
"""API groups of the kinds whose pods Volcano puts into a PodGroup of its own making unless they name one."""
SubgroupKey = tuple[int, tuple[str, ...]]
"""A subgroup: (index of its policy, values of the policy's labels)."""


def pod_group_gangs(groups: Iterable[PodGroupDraft], pods: Iterable[PodDraft]) -> list[GangSpec]:
    """One gang for each PodGroup that pods among the documents name; a group whose pods a controller creates has none.

    Pods of one role (annotation volcano.sh/task-spec) and one subgroup with equal requirements form one RoleSpec. As in
    Volcano, the roles' minima (minTaskMember) do not count when minMember is below their sum.
    """
    by_group = pods_by_group(pods)
    gangs = []
    for draft in groups:
        if group_pods := by_group.get(group_key(draft.gang.document)):
            relaxed = draft.gang.minimum < sum(draft.role_minimums.values())
            named = _roles(draft.policies, group_pods, {} if relaxed else dict(draft.role_minimums))
            gangs.append(
                replace(
                    draft.gang,
                    roles=tuple(role for _, role in named),
                    subgroups=tuple(_subgroups(draft.policies, named)),
                )
            )
    return gangs


def with_named_groups(gangs: Sequence[GangSpec], groups: Iterable[PodGroupDraft]) -> list[GangSpec]:
    """Return the jobs; one whose pod templates name a PodGroup of its namespace has that one's minimum, queue, priority
    class, topology and anti-affinity, if no other job names it."""
    by_key = {group_key(draft.gang.document): draft.gang for draft in groups}
    keys = [(gang.namespace, named_group(gang)) for gang in gangs] if by_key else []
    number = Counter(keys)
    found = []
    for gang, key in zip(gangs, keys, strict=True) if by_key else ():
        is_named = key in by_key and number[key] == 1
        found.append(_with_group(gang, by_key[key]) if is_named else gang)
    return found or list(gangs)


def named_group(gang: GangSpec) -> str:
    """Return the PodGroup that all pod templates of a job name, whose controller makes none of its own; "" for none."""
    if gang.document.group not in _GROUPLESS:
        return ""
    names = {role.annotations.get(GROUP_NAME_ANNOTATION) or "" for role in gang.roles}
    return names.pop() if len(names) == 1 else ""


def _with_group(gang: GangSpec, group: GangSpec) -> GangSpec:
    path = (*gang.roles[0].template_path, "metadata", "annotations", GROUP_NAME_ANNOTATION)
    roles = gang.roles
    if len(roles) == 1:
        roles = (replace(roles[0], minimum=min(group.minimum, roles[0].replicas)),)
    return replace(
        gang,
        roles=roles,
        minimum=group.minimum,
        queue=group.queue or gang.queue,
        priority_class=group.priority_class or gang.priority_class,
        topology=group.topology,
        pod_group=group.pod_group,
        field_paths={**gang.field_paths, "minimum": path, "queue": path, "topology": path},
    )


def group_key(document: Document) -> tuple[str, str]:
    """(namespace, name) of a PodGroup."""
    return document.namespace or "default", document.name


def pods_by_group(pods: Iterable[PodDraft]) -> dict[tuple[str, str], list[PodDraft]]:
    """`group_key` of a PodGroup -> the pods that name it, sorted by name."""
    found: dict[tuple[str, str], list[PodDraft]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.document.namespace, pod.document.name)):
        found.setdefault((pod.document.namespace or "default", pod.pod_group), []).append(pod)
    return found


def subgroup_key(policies: Sequence[SubgroupPolicyDraft], labels: Mapping[str, str]) -> SubgroupKey | None:
    """Return the subgroup of a pod: by the first policy that selects it and whose labels it has, none of them empty."""
    for index, policy in enumerate(policies):
        if selector_matches(policy.label_expressions, labels) and all(labels.get(key) for key in policy.label_keys):
            return index, tuple(labels[key] for key in policy.label_keys)
    return None


def _roles(
    policies: Sequence[SubgroupPolicyDraft], pods: Iterable[PodDraft], minimums: dict[str, int]
) -> list[tuple[SubgroupKey | None, RoleSpec]]:
    """(subgroup, role) pairs. Pods of one role with different requirements or in different subgroups become separate
    roles, which share the role's minimum in order."""
    equal_pods: dict[tuple[str, SubgroupKey | None, str], list[PodDraft]] = {}
    for pod in pods:
        equal_pods.setdefault((pod.role, subgroup_key(policies, pod.labels), repr(pod.pod)), []).append(pod)
    parts = Counter(role for role, _, _ in equal_pods)
    roles: list[tuple[SubgroupKey | None, RoleSpec]] = []
    roles_of_name: dict[str, int] = {}
    for (role, subgroup, _), same in equal_pods.items():
        name = role or "pods"
        number = roles_of_name.get(name, 0)
        roles_of_name[name] = number + 1
        minimum = min(minimums.get(role, 0), len(same))
        minimums[role] = minimums.get(role, 0) - minimum
        role_name = f"{name}-{number}" if number else name
        documents = tuple(pod.document for pod in same)
        shared = {
            key: value for key, value in same[0].labels.items() if all(pod.labels.get(key) == value for pod in same)
        }
        spec = RoleSpec(role_name, len(same), minimum, same[0].pod, (), (), same[0].annotations, documents, shared)
        path = ("spec", "minTaskMember", role) if parts[role] == 1 else ()
        roles.append((subgroup, replace(spec, minimum_path=path)))
    return roles


def _subgroups(
    policies: Sequence[SubgroupPolicyDraft], roles: Sequence[tuple[SubgroupKey | None, RoleSpec]]
) -> Iterable[SubgroupSpec]:
    """One subgroup for each combination of label values, with all its pods."""
    for key in sorted({key for key, _ in roles if key is not None}):
        index, values = key
        policy, members = policies[index], [role for other, role in roles if other == key]
        namesakes = sum(other.name == policy.name for other in policies[:index])
        name = "/".join((f"{policy.name}-{namesakes}" if namesakes else policy.name, *values))
        size = sum(role.replicas for role in members)
        names = tuple(role.name for role in members)
        yield SubgroupSpec(
            name, names, size, 0, policy.topology, policy.path, policy.subgroup_size, policy.min_subgroups
        )


def job_flow_gangs(flows: Iterable[JobFlowDraft], templates: Iterable[JobTemplateDraft]) -> Iterator[GangSpec]:
    """One for each step whose template is among the documents; its lines are the template's."""
    by_name = {(_namespace(template.document), template.document.name): template for template in templates}
    for flow in flows:
        for step, targets in flow.steps.items():
            if (template := by_name.get((_namespace(flow.document), step))) is not None:
                yield _step_gang(flow, template, step, targets)


def step_name(flow: str, step: str) -> str:
    """Return the name of the Job that the controller makes."""
    return f"{flow}-{step}"


def _step_gang(flow: JobFlowDraft, template: JobTemplateDraft, step: str, targets: Iterable[str]) -> GangSpec:
    written = template.gang.document
    name = step_name(flow.document.name, step)
    data = {**written.data, "metadata": {"name": name, "namespace": _namespace(flow.document)}}
    item_path = (*written.item_path, "flow", flow.document.name)  # no document of a file has it
    document = Document(written.file, written.line, written.text, data, written.positions, item_path)
    return replace(
        template.gang,
        document=document,
        step=FlowStep(flow.document, tuple(step_name(flow.document.name, target) for target in targets)),
    )


def _namespace(document: Document) -> str:
    return document.namespace or "default"
