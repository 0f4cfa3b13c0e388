"""Checks of jobs of every kind: their device claims (DRA) and the LimitRanges of their namespace too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from compiler import kubernetes as k8s
from compiler.checks.check import CheckInput, DocumentInput, Finding, ModelOf, check, checks
from compiler.checks.volcano_job import dependency_cycle, shown_cycle
from compiler.diagnostics.diagnostic import did_you_mean, one_of, suggestion
from compiler.fields.quantity import exact_amount, integer_amounts
from compiler.kinds.common.limit_ranges import limit_ranges, refusals
from compiler.specs.gang_spec import GangSpec
from compiler.specs.pod_groups import group_key, named_group, pods_by_group, subgroup_key
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at
from compiler.validation.judge import items, mapping
from compiler.volcano import metax

if TYPE_CHECKING:
    from compiler.kinds.pod_group import PodGroup
    from compiler.kinds.volcano_job import JobFlow, VolcanoJob
    from compiler.specs.drafts import PodGroupDraft


POD_GROUP: ModelOf[PodGroup] = ModelOf("PodGroup.scheduling.volcano.sh")
JOB_FLOW: ModelOf[JobFlow] = ModelOf("JobFlow.flow.volcano.sh")
JOB_TEMPLATE: ModelOf[VolcanoJob] = ModelOf("JobTemplate.flow.volcano.sh")


@check("GP320", "unknown priority class", folds=True, on_partial=True)
def unknown_priority_class(check_input: CheckInput) -> Iterator[Finding]:
    """The priority class of a job and of its pod templates must exist in the cluster; every cluster has the two system
    classes. The API server refuses pods of an unknown one. Fix: correct the name, or add the class."""
    known = {found.name for found in check_input.specs.priority_classes} | k8s.SYSTEM_PRIORITIES.keys()
    failed = check_input.failed_names("PriorityClass.scheduling.k8s.io")
    named = [each for gang in check_input.jobs_and_services for each in _priority_classes(gang)]
    with_pods = {gang.document.identity for gang in check_input.jobs}
    for document, group in check_input.documents_of(POD_GROUP):
        if (name := group.spec.priority_class_name) and document.identity not in with_pods:
            named.append((name, document, ("spec", "priorityClassName")))
    for name, document, path in named:
        if name not in known and name not in failed:
            own = sorted(known - k8s.SYSTEM_PRIORITIES.keys())
            help = suggestion(name, known, f"add the PriorityClass{f', or {one_of(own)}' if own else ''}")
            yield Finding(document, path, f"there is no priority class {name!r}", help)


def _priority_classes(gang: GangSpec) -> Iterator[tuple[str, Document, FieldPath]]:
    """The priority classes that a job and its pod templates name, each with its place."""
    own = gang.field_paths.get("priority_class", ())
    if gang.priority_class:
        yield gang.priority_class, gang.document, own
    for role in gang.roles:
        document, path = gang.pod_spec_of(role)
        at = (*(path if role.template_path or role.pod_documents else role.path), "priorityClassName")
        if role.pod.priority_class and at != own:
            yield role.pod.priority_class, document, at


@check("GP321", "two default priority classes")
def several_default_priority_classes(check_input: CheckInput) -> Iterator[Finding]:
    """One PriorityClass at most has globalDefault: true; Kubernetes refuses a second. Fix: set it on one only."""
    defaults = [found for found in check_input.specs.priority_classes if found.global_default]
    for found in defaults[1:]:
        message = f"{defaults[0].name!r} is the default too"
        help = "set globalDefault on one class only"
        yield Finding(found.document, ("globalDefault",), message, help, (defaults[0].document, ("globalDefault",)))


@check("GP323", "minimum above the replicas of the whole job")
def minimum_above_replicas(check_input: CheckInput) -> Iterator[Finding]:
    """A job that needs more pods than it has replicas never starts; nor does a PodGroup that needs more of a role
    (minTaskMember) than its pods have in volcano.sh/task-spec. Fix: lower the minimum, or raise the replicas."""
    jobs = check_input.jobs
    for gang in jobs:
        total = sum(role.replicas for role in gang.roles)
        if gang.minimum > total:
            message = f"the job needs {gang.minimum} pods to start, but has {total}"
            yield Finding(
                gang.document, gang.field_paths["minimum"], message, "lower the minimum, or raise the replicas"
            )
    group_pods, of_jobs = pods_by_group(check_input.bare_pods), {(each.namespace, named_group(each)) for each in jobs}
    for draft in _pod_groups(check_input):
        key = group_key(draft.gang.document)
        of_role = Counter(pod.role for pod in group_pods.get(key, ()))
        if key in of_jobs or draft.gang.minimum < sum(draft.role_minimums.values()):
            continue  # Volcano asks for the roles' minima only where minMember is at least their sum
        for role, minimum in draft.role_minimums.items() if of_role else ():
            if minimum > of_role[role]:
                message = f"task {role!r} has {of_role[role]} of {minimum} pods needed to start"
                help = suggestion(role, [name for name in of_role if name], "lower it, or add pods")
                yield Finding(draft.gang.document, ("spec", "minTaskMember", role), message, help)


def _pod_groups(check_input: CheckInput) -> Iterator[PodGroupDraft]:
    from compiler.kinds.pod_group import specs

    for document, group in check_input.documents_of(POD_GROUP):
        yield from specs(document, group)


@check("GP337", "pods that Volcano does not schedule", "warning")
def not_scheduled_by_volcano(check_input: CheckInput) -> Iterator[Finding]:
    """Only pods with schedulerName: volcano are scheduled as a gang and counted in their queue. A Volcano Job has it by
    default, and binding writes it into pod templates where nothing names a scheduler. A job of another scheduler is
    left out of the plan. The pods of a TrainJob are planned whatever its runtime names, but where that is nothing
    Kubernetes' default scheduler starts them one by one. Fix: write schedulerName: volcano in the pod template, which a
    TrainJob has in its runtime."""
    for gang in check_input.volcano_jobs:
        of_job = gang.scheduling.scheduler_name
        if of_job and of_job != k8s.VOLCANO_SCHEDULER:
            message = f"the job is for the scheduler {of_job!r} and is left out of the plan"
            help = f"write schedulerName: {k8s.VOLCANO_SCHEDULER}, or remove the field"
            yield Finding(gang.document, gang.field_paths.get("scheduler", ()), message, help)
            continue
        for role in gang.roles:
            name = role.pod.scheduler_name
            if name != k8s.VOLCANO_SCHEDULER and (name or not of_job):
                what = f"is for the scheduler {name!r}" if name else "names no scheduler"
                runtime = gang.field_paths.get("runtime")
                path = runtime or (*role.template_path, "spec", "schedulerName")
                message = f"the pod template of {role.name} {what}"
                where = "in the pod template of the runtime" if runtime else "in its spec"
                yield Finding(gang.document, path, message, f"write schedulerName: {k8s.VOLCANO_SCHEDULER} {where}")
    for gang in check_input.unbound_gangs:
        for role in gang.roles:
            name = role.pod.scheduler_name
            if role.template_path and name != k8s.VOLCANO_SCHEDULER and did_you_mean(name, [k8s.VOLCANO_SCHEDULER]):
                document, path = gang.pod_spec_of(role)
                help = f"did you mean {k8s.VOLCANO_SCHEDULER!r}?"
                yield Finding(
                    document, (*path, "schedulerName"), f"role {role.name} is for the scheduler {name!r}", help
                )


@check("GP338", "pod without requests", "warning")
def missing_requests(check_input: CheckInput) -> Iterator[Finding]:
    """A pod that requests nothing counts as best effort: Volcano places it outside topology and quota, and it takes
    from its neighbours. Fix: give every container resources.requests (limits will do)."""
    for gang in check_input.volcano_jobs:
        for role in gang.roles:
            if role.replicas and not any(name != "pods" for name in role.pod.requests):
                path = (*role.template_path, "spec", "containers") if role.template_path else ("spec", "minMember")
                message = f"the pods of {role.name} request nothing"
                yield Finding(gang.document, path, message, "add resources.requests to the containers")


@check("GP366", "pods pinned by nodeName", "warning")
def pinned_by_node_name(check_input: CheckInput) -> Iterator[Finding]:
    """spec.nodeName in a template puts every replica on one node, past every scheduler and every check. Fix: remove
    it; use a node selector if the job must be on certain nodes."""
    for gang in check_input.jobs:
        for role in gang.roles:
            if role.pod.node_name:
                path = (*role.template_path, "spec", "nodeName")
                message = f"every pod of {role.name} is pinned to node {role.pod.node_name!r}"
                yield Finding(gang.document, path, message, "remove nodeName")


@checks(dict.fromkeys(("GP339", "GP340", "GP341", "GP342"), "error"))
def metax_groups(check_input: CheckInput) -> Iterator[Finding]:
    """Report the contradictions of the annotations of MetaX's groups."""
    for gang in check_input.jobs:
        for code, path, message, help in metax.annotation_problems(gang.roles):
            yield Finding(gang.document, path, message, help, code=code)


@check("GP343", "MetaX annotation without effect", "warning")
def metax_annotation_without_effect(check_input: CheckInput) -> Iterator[Finding]:
    """The group annotations work on the pod template of one role, and only for pods that Volcano schedules
    (schedulerName: volcano). On the job's own metadata they do nothing. Fix: move the annotation into a pod template;
    name the scheduler."""
    for gang in check_input.jobs:
        for key in (k8s.METAX_GROUP_SIZE_ANNOTATION, k8s.METAX_ATOMIC_GROUP_SIZE_ANNOTATION):
            if (gang.document.metadata.get("annotations") or {}).get(
                key
            ) is not None and gang.document.kind != "PodGroup":
                message = f"{key} does nothing here"
                help = "move it into the pod template of one role"
                yield Finding(gang.document, ("metadata", "annotations", key), message, help)
            for role in gang.roles:
                if (
                    key in role.annotations
                    and (gang.scheduling.scheduler_name or role.pod.scheduler_name) != k8s.VOLCANO_SCHEDULER
                ):
                    path = (*role.template_path, "metadata", "annotations", key)
                    message = f"{key} needs schedulerName: {k8s.VOLCANO_SCHEDULER}"
                    help = f"write schedulerName: {k8s.VOLCANO_SCHEDULER} in the pod template"
                    yield Finding(gang.document, path, message, help)


@check("GP356", "unknown pod group", "warning")
def unknown_pod_group(check_input: CheckInput) -> Iterator[Finding]:
    """The annotation scheduling.k8s.io/group-name of a pod, or of the template of a job whose controller makes no
    PodGroup, names a PodGroup of its namespace; without it the pod never starts. Fix: correct the name, or add the
    PodGroup."""
    groups = {(d.namespace or "default", d.name) for d in check_input.specs.documents if d.kind == "PodGroup"}
    path: FieldPath = ("metadata", "annotations", k8s.GROUP_NAME_ANNOTATION)
    naming = [(pod.document, path, pod.pod_group) for pod in check_input.bare_pods]
    by_template = ((gang, name) for gang in check_input.jobs if (name := named_group(gang)))
    naming += [(g.document, (*at, *path), name) for g, name in by_template if (at := g.roles[0].template_path)]
    for document, at, name in naming:
        space = document.namespace or "default"
        if name and (space, name) not in groups:
            near = [other for namespace, other in groups if namespace == space]
            yield Finding(document, at, f"there is no PodGroup {name!r}", suggestion(name, near, "add the PodGroup"))


@check("GP364", "unknown step of a job flow", "warning")
def unknown_flow_step(check_input: CheckInput) -> Iterator[Finding]:
    """Each step of a JobFlow has the name of a JobTemplate of its namespace, and waits for steps of its own flow.
    Volcano never creates the Job of any other, nor Jobs that wait for it. A flow without any JobTemplate is not planned
    (GP220). Fix: correct the name, or add the JobTemplate."""
    found = ((document.namespace or "default", document.name) for document, _ in check_input.documents_of(JOB_TEMPLATE))
    templates = {*found, *(each[1:] for each in check_input.failed_objects if each[0] == "JobTemplate.flow.volcano.sh")}
    for document, flow in check_input.documents_of(JOB_FLOW):
        space = document.namespace or "default"
        steps = flow.flows
        names = [step.name for step in steps]
        is_planned = any((space, name) in templates for name in names)
        for index, step in enumerate(steps):
            path = ("spec", "flows", index)
            if is_planned and (space, step.name) not in templates:
                near = [name for namespace, name in templates if namespace == space]
                elsewhere = [namespace for namespace, name in sorted(templates) if name == step.name]
                add = f"add it, as namespace {elsewhere[0]} has it" if elsewhere else "add the JobTemplate"
                help = add if elsewhere else suggestion(step.name, sorted(near), add)
                yield Finding(document, (*path, "name"), f"there is no JobTemplate {step.name!r} in {space}", help)
            for number, target in enumerate(step.awaited):
                if target not in names:
                    help = suggestion(target, names, "name a step of this flow")
                    at = (*path, "dependsOn", "targets", number)
                    yield Finding(document, at, f"the flow has no step {target!r}", help)


@check("GP365", "steps of a job flow form a cycle", "warning", of_document=True)
def circular_flow(check_input: DocumentInput) -> Iterator[Finding]:
    """Steps of a JobFlow must not wait for one another in a cycle. Volcano never creates the Jobs of a cycle, nor
    those that wait for them, so the flow never ends; where its admission looks at JobFlows it refuses this one.
    Fix: remove one dependency."""
    for document, flow in check_input.documents_of(JOB_FLOW):
        steps = flow.flows
        needs = {step.name: step.awaited for step in steps}
        if circle := dependency_cycle(needs):
            name, awaited, *_ = circle
            index = max(at for at, step in enumerate(steps) if step.name == name)
            path = ("spec", "flows", index, "dependsOn", "targets", needs[name].index(awaited))
            yield Finding(document, path, f"steps wait in a circle: {shown_cycle(circle)}", "remove one dependency")


@check("GP363", "too few pods for a pod group's subgroups", "warning")
def too_few_subgroup_pods(check_input: CheckInput) -> Iterator[Finding]:
    """subGroupPolicy of a bare PodGroup divides its pods by their labels. A subgroup is ready with subGroupSize pods,
    and minSubGroups of them must be, or Volcano starts none of the pods. One with fewer pods than that is never ready.
    Fix: label more pods, or lower the numbers."""
    group_pods = pods_by_group(check_input.bare_pods)
    for draft in _pod_groups(check_input):
        document = draft.gang.document
        pods_in = Counter(subgroup_key(draft.policies, pod.labels) for pod in group_pods.get(group_key(document), ()))
        sizes_by_policy: dict[int, dict[tuple[str, ...], int]] = {}
        for key, pods in pods_in.items():
            if key is not None:
                sizes_by_policy.setdefault(key[0], {})[key[1]] = pods
        for index, policy in enumerate(draft.policies):
            sizes = sizes_by_policy.get(index, {})
            ready = sum(pods >= policy.subgroup_size for pods in sizes.values())
            if pods_in and ready < policy.min_subgroups:
                wanted = f"{policy.min_subgroups} subgroups of {policy.subgroup_size} pods"
                message = f"{wanted} must be ready, and the pods make {ready}"
                yield Finding(document, policy.path, message, "label more pods, or lower minSubGroups or subGroupSize")
            elif ready < len(sizes):
                values, pods = min((values, pods) for values, pods in sizes.items() if pods < policy.subgroup_size)
                name = "/".join((policy.name, *values))
                message = f"subgroup {name} is ready with {policy.subgroup_size} pods, and has {pods}"
                yield Finding(document, policy.path, message, "label more pods, or lower subGroupSize")


@check("GP354", "depends on an object with errors")
def depends_on_failed_object(check_input: CheckInput) -> Iterator[Finding]:
    """A job whose queue or priority class, or a queue whose parent, has errors cannot be planned, even if it is
    valid itself. Fix: correct the errors of the other object."""
    queues = check_input.failed_names("Queue.scheduling.volcano.sh")
    classes = check_input.failed_names("PriorityClass.scheduling.k8s.io")
    for gang in check_input.jobs:
        yield from _failed_dependency(gang, "queue", gang.queue, queues)
        yield from _failed_dependency(gang, "priority_class", gang.priority_class, classes)
    for queue in check_input.specs.queues:
        if queue.parent in queues:
            message, cause = f"queue {queue.parent!r} has errors", f"Queue {queue.parent}"
            yield Finding(queue.document, ("spec", "parent"), message, "correct that queue", cause=cause)


def _failed_dependency(gang: GangSpec, field: str, name: str | None, failed: set[str]) -> Iterator[Finding]:
    if name in failed:
        cause = f"{'Queue' if field == 'queue' else 'PriorityClass'} {name}"
        message = f"{field.replace('_', ' ')} {name!r} has errors"
        yield Finding(gang.document, gang.field_paths[field], message, "correct that object", cause=cause)


@check("GP399", "duplicate role name")
def two_roles_of_one_name(check_input: CheckInput) -> Iterator[Finding]:
    """Replicated Jobs of a JobSet, worker groups of Ray and roles of a declared kind have names of their own: the API
    server or the operator refuses the job. Fix: rename one."""
    for gang in check_input.jobs_and_services:
        seen: set[str] = set()
        for role in gang.roles if gang.document.group != "batch.volcano.sh" else ():
            if role.name in seen:
                message = f"the name {role.name!r} is here twice"
                yield Finding(gang.document, role.path, message, "rename one of the two")
            seen.add(role.name)


_TEXTS = {
    "max": ("allows {what} {bound} {name} at most, as a limit", "write a limit of {bound} at most"),
    "min": ("asks {what} for {bound} {name} at least", "ask for {bound} at least"),
    "ratio": ("allows {what} a limit of {bound} times the request of {name}", "raise the request, or lower the limit"),
}


@check("GP367", "pod that a LimitRange refuses")
def refused_by_limit_range(check_input: CheckInput) -> Iterator[Finding]:
    """The API server refuses a pod outside `max`, `min` or `maxLimitRequestRatio` of a LimitRange of its namespace.
    Each container is checked, or their sum (type Pod); for `max` each needs a limit, for `min` a request, for the ratio
    both. Its defaults count as if they were written. Fix: see the message, or change the LimitRange."""
    ranges = limit_ranges(check_input.specs.documents)
    for gang in check_input.jobs_and_services if ranges else ():
        for document, refused in refusals(gang, ranges):
            name, what = refused.resource, "the containers of a pod together" if refused.is_of_pod else "a container"
            bound = f"{float(refused.bound):g}"
            if refused.word != "ratio":
                bound = exact_amount(name, integer_amounts({name: refused.bound}, "down").get(name, 0))
            message, help = (text.format(what=what, bound=bound, name=name) for text in _TEXTS[refused.word])
            see = (refused.range.document, ("spec", "limits"))
            path = refused.path if refused.is_of_pod else (*refused.path, "resources")
            yield Finding(document, path, f"LimitRange {refused.range.document.name} {message}", help, see)


_RUNTIME_CLASS = "RuntimeClass"
_NAMED = {"resourceClaimTemplateName": "ResourceClaimTemplate", "resourceClaimName": "ResourceClaim"}
"""Field of a claim of a pod -> the kind of the object that it names."""


@check("GP359", "unknown device claim or runtime class", "warning", folds=True)
def unknown_objects_of_pods(check_input: CheckInput) -> Iterator[Finding]:
    """A pod names a ResourceClaim or ResourceClaimTemplate that the repository does not have, and nearly one that it
    has in the same namespace: without it the pod is never scheduled. The same of a RuntimeClass, without which the API
    server refuses the pod. Fix: correct the name."""
    known: dict[tuple[str, str], set[str]] = {}
    for document in check_input.specs.documents:
        if document.group in ("resource.k8s.io", "node.k8s.io"):
            namespace = "" if document.kind == _RUNTIME_CLASS else document.namespace or "default"
            known.setdefault((document.kind, namespace), set()).add(document.name)
    for gang in check_input.jobs_and_services if known else ():
        for role in gang.roles:
            document, path = gang.pod_spec_of(role)
            for at, kind, name in _named_objects(value_at(document.data, path)):
                names = known.get((kind, "" if kind == _RUNTIME_CLASS else gang.namespace), set())
                if isinstance(name, str) and name not in names and did_you_mean(name, names):
                    message, help = f"there is no {kind} {name!r}", suggestion(name, names, "")
                    yield Finding(document, (*path, *at), message, help)


def _named_objects(pod: Any) -> Iterator[tuple[FieldPath, str, Any]]:
    """Yield the field, the kind and the name of each object that the spec of a pod names."""
    yield ("runtimeClassName",), _RUNTIME_CLASS, mapping(pod).get("runtimeClassName")
    for number, claim in items(pod, "resourceClaims"):
        for field, kind in _NAMED.items():
            yield ("resourceClaims", number, field), kind, claim.get(field)
