"""Checks of Volcano Jobs, after Volcano's admission (pkg/webhooks/admission/jobs).

The flags of job plugins are those of pkg/controllers/job/plugins of Volcano 1.15.1 and 1.16; check GP436 compares with
the cluster's release.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from compiler.checks.check import CheckInput, DocumentInput, Finding, ModelOf, check
from compiler.diagnostics.diagnostic import Severity, did_you_mean, suggestion
from compiler.syntax.documents import Document, FieldPath
from compiler.volcano.arguments import TRUTH_WORDS
from compiler.volcano.task_topology import wrong_names

if TYPE_CHECKING:
    from compiler.kinds.volcano_job import Policy, Task, VolcanoJob

VOLCANO_JOB: ModelOf[VolcanoJob] = ModelOf("Job.batch.volcano.sh")

POLICY_EVENTS = ("*", "PodFailed", "PodEvicted", "PodPending", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated")
POLICY_ACTIONS = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
FLAGS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (files("compiler.volcano") / "job_plugins.toml").read_text("utf-8")
)
"""Job plugin -> flag -> bool, int, text, or task (the name of one of the job's tasks)."""
_FLAG = re.compile(r"--?(?P<name>[^-=][^=]*)(?:=(?P<value>.*))?", re.DOTALL)
_INT = re.compile(r"[-+]?(\d+|0[xX][0-9a-fA-F]+)")
MAX_CYCLE_SHOWN = 8


def _tasks(check_input: DocumentInput) -> Iterator[tuple[Document, FieldPath, str, Task]]:
    for document, job in check_input.documents_of(VOLCANO_JOB):
        for index, (name, task) in enumerate(zip(job.spec.task_names, job.spec.tasks, strict=True)):
            yield document, ("spec", "tasks", index), name, task


@check("GP322", "minAvailable above the replicas of a role", of_document=True)
def minimum_above_task_replicas(check_input: DocumentInput) -> Iterator[Finding]:
    """minAvailable of a task is at most its replicas. Volcano's admission refuses the job. Fix: lower it, or raise the
    replicas."""
    for document, path, name, task in _tasks(check_input):
        if task.min_available is not None and task.min_available > (task.replicas or 0):
            message = f"minAvailable {task.min_available} is above the {task.replicas or 0} replicas of task {name!r}"
            help = "lower it, or raise the replicas"
            yield Finding(document, (*path, "minAvailable"), message, help, (document, (*path, "replicas")))


@check("GP324", "duplicate task name", of_document=True)
def duplicate_task_names(check_input: DocumentInput) -> Iterator[Finding]:
    """The tasks of a job have different names; a task without one is called default0, default1 and so on by its place.
    Fix: rename one."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        seen: dict[str, FieldPath] = {}
        for index, name in enumerate(job.spec.task_names):
            path = ("spec", "tasks", index, "name")
            if seen.setdefault(name, path) != path:
                message = f"the task name {name!r} is here twice"
                yield Finding(document, path, message, "rename one of the tasks", (document, seen[name]))


@check("GP325", "policy without a single trigger", of_document=True)
def policy_without_single_trigger(check_input: DocumentInput) -> Iterator[Finding]:
    """A policy reacts either to events or to an exit code; exit code 0 is not a failure. Fix:
    keep one of event, events, exitCode."""
    for document, path, policies in _policies(check_input):
        for index, policy in enumerate(policies):
            at = (*path, index)
            events = bool(policy.event or policy.events)
            if events and policy.exit_code is not None:
                yield Finding(document, (*at, "exitCode"), "event and exitCode are both given", "keep one of the two")
            elif not events and policy.exit_code is None:
                yield Finding(document, at, "the policy has neither event nor exitCode", "add one of the two")
            elif policy.exit_code == 0:
                message = "exit code 0 is not a failure"
                yield Finding(document, (*at, "exitCode"), message, "use another code, or the event TaskCompleted")


def _policies(check_input: DocumentInput) -> Iterator[tuple[Document, FieldPath, list[Policy]]]:
    for document, job in check_input.documents_of(VOLCANO_JOB):
        yield document, ("spec", "policies"), job.spec.policies or []
        for index, task in enumerate(job.spec.tasks):
            yield document, ("spec", "tasks", index, "policies"), task.policies or []


@check("GP326", "unknown policy event", of_document=True)
def unknown_policy_events(check_input: DocumentInput) -> Iterator[Finding]:
    """A policy's event is one of *, PodFailed, PodEvicted, PodPending, Unknown, TaskCompleted, TaskFailed, JobUpdated.
    Fix: correct the spelling."""
    for document, path, policies in _policies(check_input):
        for index, policy in enumerate(policies):
            named = [((*path, index, "event"), policy.event)] if policy.event else []
            named += [((*path, index, "events", number), event) for number, event in enumerate(policy.events or ())]
            for at, event in named:
                if event not in POLICY_EVENTS:
                    yield Finding(document, at, f"there is no event {event!r}", _suggestion(event, POLICY_EVENTS))


@check("GP327", "unknown policy action", of_document=True)
def unknown_policy_actions(check_input: DocumentInput) -> Iterator[Finding]:
    """A policy's action is one of AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob,
    CompleteJob, ResumeJob. Volcano's admission refuses others for an event; for an exit code it accepts and ignores
    them (a warning). Fix: correct the spelling, or add the action."""
    for document, path, policies in _policies(check_input):
        for index, policy in enumerate(policies):
            severity: Severity | None = None if policy.event or policy.events else "warning"
            if policy.action is None:
                message = "the policy has no action"
                help = f"add action, one of {', '.join(POLICY_ACTIONS)}"
                yield Finding(document, (*path, index), message, help, severity=severity)
            elif policy.action not in POLICY_ACTIONS:
                message = f"there is no action {policy.action!r}"
                help = _suggestion(policy.action, POLICY_ACTIONS)
                yield Finding(document, (*path, index, "action"), message, help, severity=severity)


def _suggestion(word: str, known: tuple[str, ...]) -> str:
    return suggestion(word, known, f"use one of {', '.join(known)}")


@check("GP360", "two policies for one trigger", of_document=True)
def duplicate_policy_triggers(check_input: DocumentInput) -> Iterator[Finding]:
    """One list of policies names an event or exit code once; no other event may follow the event *. Volcano's admission
    refuses the job. Fix: remove one."""
    for document, path, policies in _policies(check_input):
        seen: dict[str, FieldPath] = {}
        for index, policy in enumerate(policies):
            triggers = list(dict.fromkeys([*([policy.event] if policy.event else []), *(policy.events or ())]))
            triggers += [] if policy.exit_code is None else [f"exit code {policy.exit_code}"]
            for trigger in triggers:
                if trigger in seen:
                    message = f"{trigger} has a policy already"
                    yield Finding(document, (*path, index), message, "remove one of the two", (document, seen[trigger]))
                seen.setdefault(trigger, (*path, index))
        if "*" in seen and sum(not trigger.startswith("exit code ") for trigger in seen) > 1:
            yield Finding(
                document, seen["*"], "the event * together with other policies", "remove the others, or name the events"
            )


@check("GP328", "dependsOn names an unknown task", of_document=True)
def unknown_dependencies(check_input: DocumentInput) -> Iterator[Finding]:
    """dependsOn.name lists tasks of the same job, each once: Volcano's admission counts a duplicate name as a cycle.
    Fix: correct or remove the name."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        names = job.spec.task_names
        for index, task in enumerate(job.spec.tasks):
            for number, name in enumerate(task.awaited):
                path = ("spec", "tasks", index, "dependsOn", "name", number)
                others = tuple(other for at, other in enumerate(names) if at != index)
                if name not in names:
                    yield Finding(document, path, f"there is no task {name!r}", _other_task(name, others))
                elif name in task.awaited[:number]:
                    yield Finding(document, path, f"the task {name!r} is here twice", "remove one")


def _other_task(name: str, others: tuple[str, ...]) -> str:
    return _suggestion(name, others) if others else "remove dependsOn: the job has no other task"


@check("GP329", "dependsOn forms a cycle", of_document=True)
def cyclic_dependencies(check_input: DocumentInput) -> Iterator[Finding]:
    """Tasks must not wait for one another in a cycle: it never starts. Fix: remove one dependency."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        names = job.spec.task_names
        if circle := dependency_cycle({name: task.awaited for name, task in zip(names, job.spec.tasks, strict=True)}):
            index_of = {name: index for index, name in enumerate(names)}
            path = ("spec", "tasks", index_of[circle[0]], "dependsOn")
            yield Finding(document, path, f"tasks wait in a circle: {shown_cycle(circle)}", "remove one dependency")


def dependency_cycle(needs: dict[str, list[str]]) -> list[str]:
    """Return a cycle of dependencies, its first task at both ends; empty if there is none. Iterative, for jobs of very
    many tasks."""
    done: set[str] = set()
    for start in needs:
        stack = {start: filter(needs.__contains__, needs[start])} if start not in done else {}
        while stack:
            name, unvisited = next(reversed(stack.items()))
            found = next((other for other in unvisited if other not in done), None)
            if found is None:
                done.add(name)
                del stack[name]
            elif found in stack:
                names = list(stack)
                return [*names[names.index(found) :], found]
            else:
                stack[found] = filter(needs.__contains__, needs[found])
    return []


def shown_cycle(cycle: list[str]) -> str:
    return " for ".join(cycle if len(cycle) <= MAX_CYCLE_SHOWN else [*cycle[:MAX_CYCLE_SHOWN], "..."])


@check("GP330", "unknown job plugin", of_document=True)
def unknown_job_plugins(check_input: DocumentInput) -> Iterator[Finding]:
    """plugins of a job is a mapping of env, svc, ssh, pytorch, tensorflow, mpi, ray, hcclrank. Volcano's admission
    refuses others. Fix: correct the name."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        for name in job.spec.plugins or {}:
            if name not in FLAGS:
                message = f"there is no job plugin {name!r}"
                yield Finding(document, ("spec", "plugins", name), message, _suggestion(name, tuple(FLAGS)))


@check("GP369", "argument of a job plugin without effect", "warning", of_document=True)
def unread_plugin_arguments(check_input: DocumentInput) -> Iterator[Finding]:
    """The arguments of a job plugin are its flags, as --name=value; some name a task of the job. Volcano's controller
    logs an unknown flag and ignores those after it. A task that does not exist is ignored too, so the processes never
    find one another. Source: addFlags of pkg/controllers/job/plugins. Fix: correct the flag or the task."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        names = job.spec.task_names
        for plugin, arguments in (job.spec.plugins or {}).items():
            for index, message, help in _flag_flaws(plugin, arguments or (), names) if plugin in FLAGS else ():
                yield Finding(document, ("spec", "plugins", plugin, index), message, help)


def _flag_flaws(plugin: str, arguments: Sequence[str], tasks: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the faults of a plugin's arguments: index, message and help. As in Go's package flag, the first unreadable
    one ends the reading."""
    flags, index = FLAGS[plugin], 0
    while index < len(arguments):
        text, at = arguments[index], index
        index += 1
        match = _FLAG.fullmatch(text)
        if match is None:
            message = f"{text!r} is not a flag, and the plugin {plugin} reads nothing from there on"
            yield at, message, "write --NAME=VALUE, or remove it"
            return
        name, value = match["name"], match["value"]
        if name not in flags:
            known = ", ".join(f"--{flag}" for flag in flags)
            help = suggestion(
                f"--{name}", [f"--{flag}" for flag in flags], f"use one of {known}" if flags else "remove it"
            )
            yield at, f"the plugin {plugin} has no flag --{name}, and reads nothing from there on", help
            return
        if value is None and flags[name] != "bool":
            value = arguments[index] if index < len(arguments) else ""
            index += 1
        yield from _value_flaws(at, name, "true" if value is None else value, flags[name], tasks)


def _value_flaws(at: int, name: str, value: str, kind: str, tasks: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    if kind == "task" and value not in tasks:
        help = suggestion(value, tasks, f"name one of its tasks: {', '.join(tasks)}")
        yield at, f"--{name} names the task {value!r}, which the job does not have", help
    elif kind == "int" and not _INT.fullmatch(value):
        yield at, f"--{name} is {value!r}, not a whole number", "write a whole number"
    elif kind == "bool" and value not in TRUTH_WORDS:
        yield at, f"--{name} is {value!r}, not true or false", "write true or false"


@check("GP331", "partitions do not add up to the replicas", of_document=True)
def partitions_misfit_replicas(check_input: DocumentInput) -> Iterator[Finding]:
    """replicas = totalPartitions * partitionSize, both 1 or more, and minPartitions at most totalPartitions. Fix:
    correct one of them."""
    for document, path, name, task in _tasks(check_input):
        if (policy := task.partition_policy) is None:
            continue
        at = (*path, "partitionPolicy")
        if policy.total_partitions < 1 or policy.partition_size < 1:
            field = "totalPartitions" if policy.total_partitions < 1 else "partitionSize"
            yield Finding(document, (*at, field), f"{field} is less than 1", "use 1 or more")
        elif policy.total_partitions * policy.partition_size != (task.replicas or 0):
            partitions = f"{policy.total_partitions} partitions of {policy.partition_size} pods"
            message = f"{partitions} are not the {task.replicas or 0} replicas of task {name!r}"
            help = "make replicas = totalPartitions * partitionSize"
            yield Finding(document, at, message, help, (document, (*path, "replicas")))
        elif (policy.min_partitions or 0) > policy.total_partitions:
            message = f"minPartitions {policy.min_partitions} is above totalPartitions {policy.total_partitions}"
            yield Finding(document, (*at, "minPartitions"), message, "lower it")


@check("GP332", "minAvailable does not match minPartitions", of_document=True)
def inconsistent_partition_minimum(check_input: DocumentInput) -> Iterator[Finding]:
    """With minPartitions, a task's minAvailable is minPartitions * partitionSize (its default). Fix: leave
    minAvailable out, or correct it."""
    for document, path, _, task in _tasks(check_input):
        policy = task.partition_policy
        if (
            policy is not None
            and policy.min_partitions
            and task.min_available not in (None, policy.min_partitions * policy.partition_size)
        ):
            product = f"minPartitions {policy.min_partitions} * partitionSize {policy.partition_size}"
            message = f"minAvailable {task.min_available} is not {product}"
            yield Finding(document, (*path, "minAvailable"), message, "leave minAvailable out, or correct it")


@check("GP336", "minima of roles without effect", "warning", of_document=True)
def ignored_role_minimums(check_input: DocumentInput) -> Iterator[Finding]:
    """A job's minAvailable below the sum of its tasks' minima makes Volcano ignore those minima (a task without one
    needs all its replicas). Any pods may make up the number, even all of one role. Tasks that depend on others do not
    count, since their pods come later (GP368). Fix: raise the job's minAvailable to the sum or leave it out, or lower
    minAvailable of the tasks."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        first = job.spec.first_tasks
        has_minima = any(task.min_available is not None or task.partition_policy is not None for task in first)
        total = sum(task.attainable_minimum for task in first)
        is_refused = any((task.min_available or 0) > (task.replicas or 0) for task in job.spec.tasks)  # GP322
        if job.spec.minimum < total and not is_refused and (has_minima or len(job.spec.tasks) > 1):
            message = (
                f"minAvailable {job.spec.minimum} is below the {total} that the tasks need together, "
                "so Volcano ignores each task's minimum"
            )
            choices = f"write {total}" if len(first) < len(job.spec.tasks) else f"write {total}, leave it out"
            path = ("spec", "minAvailable")
            yield Finding(document, path, message, f"{choices}, or lower minAvailable of the tasks")


@check("GP368", "minimum of tasks that come later")
def minimum_of_later_tasks(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano creates the pods of a task with dependsOn once the tasks that it names run. The plugin gang starts no pod
    before minAvailable of them exist, so a minimum that counts later tasks is never met. Without minAvailable it is the
    sum of all tasks. Fix: write the minimum of the tasks that come first."""
    if check_input.specs.scheduler is not None and check_input.specs.scheduler.plugin("gang") is None:
        return
    plain = {gang.document.identity for gang in check_input.jobs if not gang.controller.dependent_roles}
    for document, job in check_input.documents_of(VOLCANO_JOB, but=plain):
        first, names = job.spec.first_tasks, {task.name or "" for task in job.spec.tasks}
        later = [task for task in job.spec.tasks if task.awaited]
        if not first or not all(_is_meant(name, names) for task in later for name in task.awaited):
            continue
        there, least = sum(task.replicas or 0 for task in first), sum(task.minimum for task in first)
        counts_later = not job.spec.ignores_role_minimums and any(task.minimum for task in later)
        if later and (job.spec.minimum > there or counts_later):
            waiting = ", ".join(sorted(task.name or "" for task in later))
            message = (
                f"minAvailable {job.spec.minimum} counts {waiting}, whose pods come only once others run: "
                f"the {there} pods that exist at first wait for them for ever"
            )
            path = ("spec", "minAvailable") if job.spec.min_available else ("spec",)
            yield Finding(document, path, message, f"write minAvailable: {least}")


def _is_meant(name: str, names: Collection[str]) -> bool:
    """Whether it is the name of a task, or nearly so, which GP328 reports."""
    return name in names or bool(did_you_mean(name, names))


@check("GP361", "volume without a single source", of_document=True)
def malformed_volumes(check_input: DocumentInput) -> Iterator[Finding]:
    """A volume of a job has a mountPath of its own, and either volumeClaimName or volumeClaim. Volcano's admission
    refuses others. Fix: see the message."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        seen: dict[str, FieldPath] = {}
        for index, volume in enumerate(job.spec.volumes or ()):
            path: FieldPath = ("spec", "volumes", index)
            if not volume.mount_path:
                yield Finding(document, path, "mountPath is missing", "add it")
            elif seen.setdefault(volume.mount_path, path) != path:
                message = f"{volume.mount_path} is mounted twice"
                yield Finding(document, path, message, "use another mountPath", (document, seen[volume.mount_path]))
            if bool(volume.volume_claim_name) == bool(volume.volume_claim):
                message = "volumeClaimName and volumeClaim are " + ("both given" if volume.volume_claim else "missing")
                yield Finding(document, path, message, "give one")


@check("GP390", "task-topology names no task", "warning", of_document=True)
def unknown_task_topology_tasks(check_input: DocumentInput) -> Iterator[Finding]:
    """The groups in volcano.sh/task-topology-affinity and -anti-affinity name tasks of the job, each once in a group:
    "ps,worker;ps,evaluator", and so does volcano.sh/task-topology-task-order. Blanks count. For anything else Volcano's
    plugin task-topology ignores all wishes of the job, and so does the plan. Fix: name the tasks as the job does."""
    for document, job in check_input.documents_of(VOLCANO_JOB):
        names = job.spec.task_names
        for key, wrong in wrong_names(document.metadata.get("annotations") or {}, names):
            message = f"{wrong!r} is twice in a group" if wrong in names else f"the job has no task {wrong!r}"
            yield Finding(
                document, ("metadata", "annotations", key), message, f"name one of its tasks: {', '.join(names)}"
            )
