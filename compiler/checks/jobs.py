"""Rules of jobs of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compiler.checks import Finding, Reading, check
from compiler.diagnostics import did_you_mean
from compiler.kinds.common.jobs import VOLCANO, annotation
from compiler.kinds.pod_group import PodGroup, specs
from compiler.specs import GangSpec
from compiler.specs.pod_groups import group_key, members, part_of
from compiler.volcano import metax

SYSTEM_CLASSES = frozenset(("system-cluster-critical", "system-node-critical"))


@check("GP320", "unknown priority class")
def priority_class_known(reading: Reading) -> Iterator[Finding]:
    """A job's priority class is a PriorityClass of the cluster, or one of the two that every cluster has. The API
    server refuses pods of an unknown one. Mend: correct the name, or add the class."""
    known = {found.name for found in reading.specs.priority_classes} | SYSTEM_CLASSES
    broken = reading.broken_names("PriorityClass.scheduling.k8s.io")
    for gang in reading.specs.gangs:
        name = gang.priority_class
        if name and name not in known and name not in broken:
            near = did_you_mean(name, known)
            help = (
                f"did you mean {near!r}?"
                if near
                else "add the PriorityClass, or use one of " + ", ".join(sorted(known))
            )
            yield Finding(gang.document, gang.paths["priority_class"], f"there is no priority class {name!r}", help)


@check("GP321", "two default priority classes", "warning")
def one_default(reading: Reading) -> Iterator[Finding]:
    """One PriorityClass at most has globalDefault: true; Kubernetes refuses a second. Mend: set it on one only."""
    defaults = [found for found in reading.specs.priority_classes if found.global_default]
    for found in defaults[1:]:
        message = f"{defaults[0].name!r} is the default too"
        yield Finding(
            found.document,
            ("globalDefault",),
            message,
            "set globalDefault on one class only",
            (defaults[0].document, ("globalDefault",)),
        )


@check("GP323", "minimum above the replicas of the whole job")
def minimum_within_replicas(reading: Reading) -> Iterator[Finding]:
    """A job that needs more pods than it has replicas never starts. Mend: lower the minimum, or raise the replicas."""
    for gang in reading.specs.gangs:
        total = sum(role.replicas for role in gang.roles)
        if gang.minimum > total:
            message = f"the job needs {gang.minimum} pods to start, but has {total}"
            yield Finding(gang.document, gang.paths["minimum"], message, "lower the minimum, or raise the replicas")


@check("GP337", "pods that Volcano does not schedule", "warning")
def scheduler_named(reading: Reading) -> Iterator[Finding]:
    """Only pods with schedulerName: volcano are scheduled as a gang. A Volcano Job has it by default, other kinds say
    it in each pod template. A job of another scheduler is left out of the plan; one that names none is planned, but
    Kubernetes' default scheduler would start its pods one by one. Mend: write schedulerName: volcano in each pod
    template."""
    for gang in reading.specs.gangs:
        if gang.scheduler:
            if gang.scheduler != VOLCANO:
                message = f"the job is for the scheduler {gang.scheduler!r} and is left out of the plan"
                yield Finding(
                    gang.document,
                    gang.paths.get("scheduler", ()),
                    message,
                    f"write schedulerName: {VOLCANO}, or remove the field",
                )
            continue
        for role in gang.roles:
            if role.pod.scheduler != VOLCANO:
                what = f"is for the scheduler {role.pod.scheduler!r}" if role.pod.scheduler else "names no scheduler"
                path = (*role.template, "spec", "schedulerName")
                yield Finding(
                    gang.document,
                    path,
                    f"the pod template of {role.name} {what}",
                    f"write schedulerName: {VOLCANO} in its spec",
                )


@check("GP338", "pod without requests", "warning")
def requests_given(reading: Reading) -> Iterator[Finding]:
    """A pod that requests nothing counts as best effort: Volcano places it outside topology and quota, and it takes
    from its neighbours. Mend: give every container resources.requests (limits will do)."""
    for gang in reading.specs.gangs:
        for role in gang.roles:
            if role.replicas and not any(name != "pods" for name in role.pod.requests):
                path = (*role.template, "spec", "containers") if role.template else ("spec", "minMember")
                yield Finding(
                    gang.document,
                    path,
                    f"the pods of {role.name} request nothing",
                    "add resources.requests to the containers",
                )


@check("GP366", "pods pinned by nodeName", "warning")
def not_pinned(reading: Reading) -> Iterator[Finding]:
    """spec.nodeName in a template puts every replica on one node, past every scheduler and every check. Mend: remove
    it; use a node selector if the job must be on certain nodes."""
    for gang in reading.specs.gangs:
        for role in gang.roles:
            if role.pod.node_name:
                path = (*role.template, "spec", "nodeName")
                yield Finding(
                    gang.document,
                    path,
                    f"every pod of {role.name} is pinned to node {role.pod.node_name!r}",
                    "remove nodeName",
                )


def _metax(reading: Reading, kinds: tuple[str, ...]) -> Iterator[Finding]:
    for gang in reading.specs.gangs:
        for problem in metax.problems(gang.roles):
            if problem.kind in kinds:
                yield Finding(gang.document, problem.path, problem.message, problem.help)


@check("GP339", "MetaX group size is no number of GPUs")
def group_is_a_number(reading: Reading) -> Iterator[Finding]:
    """metax-tech.com/gpu-group-size and atomic-gpu-group-size are whole numbers of GPUs, 1 or more, and the same
    wherever a job says them; one role is enough. Mend: correct the number, or keep the annotation on one role."""
    yield from _metax(reading, ("size", "roles"))


@check("GP340", "MetaX group does not fit the pods")
def group_fits_pods(reading: Reading) -> Iterator[Finding]:
    """A group is made of whole pods: its size is a multiple of the GPUs of one pod, and all GPU pods of the job have
    the same number. Mend: change the size or the pods' GPUs."""
    yield from _metax(reading, ("pod",))


@check("GP341", "MetaX groups do not fill the job")
def groups_fill_job(reading: Reading) -> Iterator[Finding]:
    """The job's GPUs are a multiple of the group's. Mend: change the size or the replicas."""
    yield from _metax(reading, ("total",))


@check("GP342", "MetaX atomic group does not divide the group")
def atomic_divides(reading: Reading) -> Iterator[Finding]:
    """gpu-group-size is a multiple of atomic-gpu-group-size. Mend: use a divisor."""
    yield from _metax(reading, ("atomic",))


@check("GP343", "MetaX annotation without effect", "warning")
def metax_effective(reading: Reading) -> Iterator[Finding]:
    """The group annotations work on the pod template of one role, and only for pods that Volcano schedules
    (schedulerName: volcano). On the job's own metadata they do nothing. Mend: move the annotation into a pod template;
    name the scheduler."""
    for gang in reading.specs.gangs:
        for key in (metax.GROUP, metax.ATOMIC):
            if annotation(gang.document, key) is not None and gang.document.kind != "PodGroup":
                yield Finding(
                    gang.document,
                    ("metadata", "annotations", key),
                    f"{key} does nothing here",
                    "move it into the pod template of one role",
                )
            for role in gang.roles:
                if key in role.annotations and (gang.scheduler or role.pod.scheduler) != VOLCANO:
                    path = (*role.template, "metadata", "annotations", key)
                    yield Finding(
                        gang.document,
                        path,
                        f"{key} needs schedulerName: {VOLCANO}",
                        f"write schedulerName: {VOLCANO} in the pod template",
                    )


@check("GP356", "unknown pod group", "warning")
def pod_group_known(reading: Reading) -> Iterator[Finding]:
    """The annotation scheduling.k8s.io/group-name of a pod names a PodGroup of its namespace; without it the pod never
    starts. Mend: correct the name, or add the PodGroup."""
    groups = {(d.namespace or "default", d.name) for d in reading.specs.documents if d.kind == "PodGroup"}
    for pod in reading.pods:
        space = pod.document.namespace or "default"
        if pod.group and (space, pod.group) not in groups:
            near = did_you_mean(pod.group, [name for where, name in groups if where == space])
            path = ("metadata", "annotations", "scheduling.k8s.io/group-name")
            yield Finding(
                pod.document,
                path,
                f"there is no PodGroup {pod.group!r}",
                f"did you mean {near!r}?" if near else "add the PodGroup",
            )


@check("GP363", "too few pods for a pod group's subgroups", "warning")
def pod_group_subgroups(reading: Reading) -> Iterator[Finding]:
    """subGroupPolicy of a bare PodGroup divides its pods by their labels. A subgroup is ready with subGroupSize pods,
    and minSubGroups of them must be, or Volcano starts none of the pods. One with fewer pods than that is never ready.
    Mend: label more pods, or lower the numbers."""
    mine = members(reading.pods)
    for document, group in reading.of(PodGroup):
        for draft in specs(document, group):
            parts = Counter(part_of(draft.policies, pod.labels) for pod in mine.get(group_key(document), ()))
            for index, policy in enumerate(draft.policies):
                sizes = {part[1]: pods for part, pods in parts.items() if part is not None and part[0] == index}
                ready = sum(pods >= policy.size for pods in sizes.values())
                if parts and ready < policy.minimum:
                    message = (
                        f"{policy.minimum} subgroups of {policy.size} pods must be ready, and the pods make {ready}"
                    )
                    yield Finding(
                        document, policy.path, message, "label more pods, or lower minSubGroups or subGroupSize"
                    )
                elif ready < len(sizes):
                    values, pods = min((values, pods) for values, pods in sizes.items() if pods < policy.size)
                    message = (
                        f"subgroup {'/'.join((policy.name, *values))} is ready with {policy.size} pods, and has {pods}"
                    )
                    yield Finding(document, policy.path, message, "label more pods, or lower subGroupSize")


@check("GP354", "depends on an object with errors")
def nothing_broken_below(reading: Reading) -> Iterator[Finding]:
    """A job whose queue or priority class, or a queue whose parent, has errors cannot be planned, however right it is
    itself. Mend: the errors of the other object."""
    queues = reading.broken_names("Queue.scheduling.volcano.sh")
    classes = reading.broken_names("PriorityClass.scheduling.k8s.io")
    for gang in reading.specs.gangs:
        yield from _broken(gang, "queue", gang.queue, queues)
        yield from _broken(gang, "priority_class", gang.priority_class, classes)
    for queue in reading.specs.queues:
        if queue.parent in queues:
            yield Finding(queue.document, ("spec", "parent"), f"queue {queue.parent!r} has errors", "mend that queue")


def _broken(gang: GangSpec, field: str, name: str | None, broken: set[str]) -> Iterator[Finding]:
    if name in broken:
        yield Finding(
            gang.document, gang.paths[field], f"{field.replace('_', ' ')} {name!r} has errors", "mend that object"
        )
