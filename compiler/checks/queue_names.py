"""Checks of where jobs name their queue, namespace and minimum: no server reports metadata that nothing reads; and of
the node groups that queues name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from compiler.checks.check import CheckInput, Finding, ModelOf, check
from compiler.diagnostics.diagnostic import suggestion, to_write
from compiler.fields.quantity import named_amount
from compiler.fields.texts import dotted_path, whole_number
from compiler.kinds.common.jobs import annotation_value
from compiler.kinds.common.resource_lists import PLAIN_RESOURCES
from compiler.kubernetes import (
    GROUP_MIN_MEMBER_ANNOTATION,
    KAI_QUEUE_LABEL,
    KUEUE_QUEUE_LABEL,
    NODE_GROUP_LABEL,
    NODE_GROUP_LIMITS_ANNOTATION,
    QUEUE_NAME_ANNOTATION,
)
from compiler.specs.eligibility import NodeMasks, node_requirement
from compiler.specs.gang_spec import GangSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import FieldPath
from compiler.syntax.paths import value_at
from compiler.validation.judge import mapping
from compiler.volcano.node_groups import (
    LIMITS_SINCE,
    affinity_owner,
    group_limits,
    has_readable_limits,
    may_use,
    node_group_plugin,
)

if TYPE_CHECKING:
    from compiler.kinds.queue import Queue

_VOLCANO_DOMAINS = ("volcano.sh", "scheduling.volcano.sh", "batch.volcano.sh", "scheduling.k8s.io")
MIN_SIBLINGS = 3
"""Jobs of a folder from which on one that does what no other does may have forgotten it."""
_WITH_MINIMUM = (
    "Deployment.apps",
    "Job.batch",
    "Pod.",
    "ReplicaSet.apps",
    "ReplicationController.",
    "StatefulSet.apps",
)
"""Kinds of whose objects Volcano reads group-min-member."""
_QUEUE_WORDS = ("queue", "queue-name", "queueName", "queuename", "queue_name")


@check("GP387", "queue, namespace or minimum that nothing reads", "warning", folds=True)
def unread_metadata(check_input: CheckInput) -> Iterator[Finding]:
    """The object names a queue by a label or annotation that its controller does not read, so that the job is in the
    default queue. Each kind has one place: spec.queue of a Volcano Job, schedulingPolicy.queue of Kubeflow's, the label
    volcano.sh/queue-name of Ray's, the annotation scheduling.volcano.sh/queue-name of others. A namespace among the
    labels or annotations is not the object's. Volcano reads scheduling.volcano.sh/group-min-member of batch Jobs,
    Deployments and the like only, as a whole number. Fix: write it where it is read."""
    for gang in check_input.jobs:
        if _names_no_queue(gang, check_input.specs.cluster.default_queue):
            yield from _unread_queue(gang)
        yield from _unread_namespace(gang)
        yield from _unread_minimum(gang)


def _unread_queue(gang: GangSpec) -> Iterator[Finding]:
    for path, value in _queue_like(gang):
        place = gang.field_paths["queue"]
        message = f"nothing reads {path[-1]} among the {path[-2]} of a {gang.document.kind}: queue {gang.queue}"
        yield Finding(gang.document, path, message, to_write(value, *place, help=f"write {_shown(place)}: {value}"))
        return


def _unread_namespace(gang: GangSpec) -> Iterator[Finding]:
    document = gang.document
    for section in ("labels", "annotations"):
        value = (document.metadata.get(section) or {}).get("namespace")
        if isinstance(value, str) and not document.namespace and document.written is document:
            message = f"namespace is among the {section}: the object is in namespace default"
            yield Finding(document, ("metadata", section, "namespace"), message, f"write metadata.namespace: {value}")


def _unread_minimum(gang: GangSpec) -> Iterator[Finding]:
    value = annotation_value(gang.document, GROUP_MIN_MEMBER_ANNOTATION)
    if not isinstance(value, str):
        return
    path = ("metadata", "annotations", GROUP_MIN_MEMBER_ANNOTATION)
    if f"{gang.document.kind}.{gang.document.group}" not in _WITH_MINIMUM:
        message = f"nothing reads {path[-1]} of a {gang.document.kind}"
        yield Finding(gang.document, path, message, "remove it: the kind says what starts together")
    elif whole_number(value) is None:
        message = f"{path[-1]} is {value!r}, no whole number: Volcano takes 1"
        yield Finding(gang.document, path, message, "write a whole number, quoted")


@check("GP388", "job in the default queue while others name one", "info")
def default_queue_beside_others(check_input: CheckInput) -> Iterator[Finding]:
    """The job names no queue, so it is in the default queue, but all other jobs of its folder (three or more) name
    one. Fix: name the queue; nothing if the default is intended."""
    default = check_input.specs.cluster.default_queue
    jobs: dict[str, list[GangSpec]] = {}
    for gang in check_input.specs.gangs:
        if gang.scheduling.schedulable:
            jobs.setdefault(str(PurePosixPath(gang.document.file).parent), []).append(gang)
    for folder, gangs in jobs.items():
        silent = [gang for gang in gangs if _names_no_queue(gang, default)]
        named = len(gangs) - len(silent)
        if len(silent) == 1 and named >= MIN_SIBLINGS and not any(_queue_like(silent[0])):
            message = f"it names no queue and is in {silent[0].queue!r}; the {named} other jobs of {folder} name one"
            help = f"write {_shown(silent[0].field_paths['queue'])}, if that is not meant"
            yield Finding(silent[0].document, ("metadata", "name"), message, help)


@check("GP389", "job that another queueing system admits", "info", folds=True)
def admitted_elsewhere(check_input: CheckInput) -> Iterator[Finding]:
    """The label kueue.x-k8s.io/queue-name hands the job to Kueue, which suspends it until it is admitted;
    kai.scheduler/queue is for the KAI Scheduler. gangplan does not know their queues: it plans the job in the queue of
    Volcano that it names, else in the default queue. Fix: name a queue of Volcano, and let one of the two admit the
    job."""
    for gang in (*check_input.specs.gangs, *check_input.unbound_gangs):
        for label in sorted(mapping(gang.document.metadata, "labels").keys() & _OTHER_QUEUES.keys()):
            message = f"{_OTHER_QUEUES[label]} admits the job too; it is planned "
            message += f"in Volcano's queue {gang.queue!r}" if gang.queue else "without that queue's limits"
            help = "name a queue of Volcano, and let one of the two admit it"
            yield Finding(gang.document, ("metadata", "labels", label), message, help)


_OTHER_QUEUES = {KAI_QUEUE_LABEL: "KAI Scheduler", KUEUE_QUEUE_LABEL: "Kueue"}


def _names_no_queue(gang: GangSpec, default: str) -> bool:
    """Whether the job is in the default queue without naming it; the text of others is not asked for."""
    return gang.queue == default and not value_at(gang.document.data, gang.field_paths.get("queue", ("",)))


def _queue_like(gang: GangSpec) -> Iterator[tuple[FieldPath, str]]:
    """Labels and annotations of the object that look like the name of a queue of Volcano, with their values."""
    for section in ("labels", "annotations"):
        for key, value in (gang.document.metadata.get(section) or {}).items():
            domain, _, word = str(key).rpartition("/")
            if domain in _VOLCANO_DOMAINS and word in _QUEUE_WORDS and isinstance(value, str) and value:
                yield ("metadata", section, key), value


def _shown(path: FieldPath) -> str:
    """ "spec.queue", "the annotation scheduling.volcano.sh/queue-name"."""
    if len(path) > 1 and path[-2] in ("labels", "annotations"):
        inside = "" if path[:-2] == ("metadata",) else f"in {dotted_path(path[:-1])} "
        return f"{inside}the {str(path[-2])[:-1]} {path[-1]}"
    return ".".join(map(str, path)) if path else f"the annotation {QUEUE_NAME_ANNOTATION}"


QUEUE: ModelOf[Queue] = ModelOf("Queue.scheduling.volcano.sh")


@check("GP431", "node group that no node has", "warning")
def unknown_node_groups(check_input: CheckInput) -> Iterator[Finding]:
    """spec.affinity of a Queue names node groups: values of the node label volcano.sh/nodegroup-name. Fix: correct the
    name, or label the nodes."""
    nodes = check_input.specs.nodes
    groups = {node.labels[NODE_GROUP_LABEL] for node in nodes if NODE_GROUP_LABEL in node.labels}
    if not nodes or node_group_plugin(check_input.specs.scheduler) is None:
        return
    for document, queue in check_input.documents_of(QUEUE):
        for path, name in queue.node_groups():
            if name not in groups:
                help = suggestion(name, sorted(groups), f"label nodes with {NODE_GROUP_LABEL}: {name}")
                yield Finding(document, path, f"no node is in group {name!r}", help)


@check("GP445", "limits of node groups that limit nothing, or that no pod fits", "warning")
def idle_node_group_limits(check_input: CheckInput) -> Iterator[Finding]:
    """Only the plugin nodegroup reads the annotation volcano.sh/nodegroup-resource-limits of a Queue. A limit has no
    effect on a group without nodes (label volcano.sh/nodegroup-name), or on a resource that its nodes lack. A pod that
    asks for more than the limit never runs in the group. Source: nodegroup.go of Volcano's master. Fix: add the plugin,
    or correct the name or the amount."""
    specs = check_input.specs
    groups = {node.labels[NODE_GROUP_LABEL] for node in specs.nodes if NODE_GROUP_LABEL in node.labels}
    if specs.cluster.volcano.minor < LIMITS_SINCE or specs.scheduler is None or specs.scheduler.is_partial:
        return
    for queue in specs.queues:
        limited = list(group_limits(queue)) if has_readable_limits(queue) else []
        path = ("metadata", "annotations", NODE_GROUP_LIMITS_ANNOTATION)
        if limited and node_group_plugin(specs.scheduler) is None:
            message = "the scheduler configuration lacks the plugin nodegroup, so that nothing reads the limits"
            yield Finding(queue.document, path, message, "add the plugin")
            continue
        for name in limited if specs.nodes else ():
            if name not in groups:
                help = suggestion(name, sorted(groups), f"label nodes with {NODE_GROUP_LABEL}: {name}")
                yield Finding(queue.document, path, f"no node is in group {name!r}, so that it limits nothing", help)
            yield from (Finding(queue.document, path, *each) for each in _absent_resources(check_input, queue, name))
        for message in _impossible_limits(check_input, queue) if limited else ():
            yield Finding(queue.document, path, message, "raise the limit, or leave the group to other queues")


def _absent_resources(check_input: CheckInput, queue: QueueSpec, group: str) -> Iterator[tuple[str, str]]:
    """(message, help) for each limited resource that no node of the group has; none where no node is in it."""
    nodes = [node for node in check_input.specs.nodes if node.labels.get(NODE_GROUP_LABEL) == group]
    offered = sorted({name for node in nodes for name in node.allocatable})
    for name in group_limits(queue)[group] if nodes else ():
        if name not in offered and name not in PLAIN_RESOURCES:
            message = f"no node of group {group!r} has {name}, so that its limit does nothing"
            yield message, suggestion(name, offered, "correct the name")


def _impossible_limits(check_input: CheckInput, queue: QueueSpec) -> Iterator[str]:
    """For each limit the first job of the queue of which one pod exceeds it on nodes that it may use."""
    gangs = [gang for gang in check_input.jobs if gang.queue == queue.name]
    roles = [(gang, role.pod) for gang in gangs for role in gang.roles]
    for group, amounts in group_limits(queue).items():
        masks = NodeMasks([node for node in check_input.specs.nodes if node.labels.get(NODE_GROUP_LABEL) == group])
        for resource, limit in amounts.items():
            asking = (each for each in roles if each[1].requests.get(resource, 0) > limit)
            found = next((each for each in asking if masks.nodes_matching(node_requirement(each[1]))), None)
            if found is not None:
                gang, pod = found
                asked, most = (named_amount(resource, amount) for amount in (pod.requests[resource], limit))
                yield f"no pod of {gang.document.display_name} runs in group {group!r}: it asks for {asked} of {most}"


@check("GP432", "queue that may use no node", "warning")
def queues_without_nodes(check_input: CheckInput) -> Iterator[Finding]:
    """With the plugin nodegroup a queue uses the groups of its spec.affinity only; one without affinity uses nodes
    without a group, and none at all where the plugin is strict, which is the default. Anti-affinity alone opens no
    group. Fix: name groups in nodeGroupAffinity, or set strict: false."""
    specs = check_input.specs
    groups = {node.labels.get(NODE_GROUP_LABEL) for node in specs.nodes}
    if (plugin := node_group_plugin(specs.scheduler)) is None or not groups:
        return
    asking, affinities = {gang.queue for gang in specs.gangs}, {spec.name: spec.affinity for spec in specs.queues}
    for queue in specs.queues:
        affinity = affinities.get(affinity_owner(plugin, queue.name, specs.queues))
        if queue.name in asking and not any(may_use(plugin, affinity, group) for group in groups):
            path: FieldPath = ("spec", "affinity") if queue.affinity is not None else ("metadata", "name")
            message = f"the plugin nodegroup lets queue {queue.name!r} use no node"
            help = (
                "set enableHierarchy or strict: false"
                if queue.namespace
                else "name node groups in its nodeGroupAffinity"
            )
            yield Finding(queue.document, path, message, help)
