"""Checks of where jobs name their queue, namespace and minimum: no server reports metadata that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from compiler.checks.check import CheckInput, Finding, check
from compiler.diagnostics.diagnostic import to_write
from compiler.fields.texts import dotted_path, whole_number
from compiler.kinds.common.jobs import annotation_value
from compiler.kubernetes import GROUP_MIN_MEMBER_ANNOTATION, KAI_QUEUE_LABEL, KUEUE_QUEUE_LABEL, QUEUE_NAME_ANNOTATION
from compiler.specs.gang_spec import GangSpec
from compiler.syntax.documents import FieldPath
from compiler.syntax.paths import value_at
from compiler.validation.judge import mapping

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
