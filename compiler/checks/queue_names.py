"""Checks of where jobs name their queue: nobody says so when a label or annotation is not the one that is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from compiler.checks import CheckInput, Finding, check
from compiler.kinds.common.paths import value_at
from compiler.kubernetes import KUEUE_QUEUE_LABEL, QUEUE_NAME_ANNOTATION
from compiler.specs import GangSpec
from compiler.syntax.documents import FieldPath

_VOLCANO_DOMAINS = ("volcano.sh", "scheduling.volcano.sh", "batch.volcano.sh", "scheduling.k8s.io")
MIN_SIBLINGS = 3
"""Jobs of a folder from which on one that does what no other does may have forgotten it."""
_QUEUE_WORDS = ("queue", "queue-name", "queueName", "queuename", "queue_name")


@check("GP387", "queue that nothing reads", "warning", folds=True)
def unread_queue_names(check_input: CheckInput) -> Iterator[Finding]:
    """The object names a queue by a label or annotation that its controller does not read, so that the job is in the
    default queue. Each kind has one place: spec.queue of a Volcano Job, schedulingPolicy.queue of Kubeflow's, the label
    volcano.sh/queue-name of Ray's, the annotation scheduling.volcano.sh/queue-name of others. Mend: name the queue
    there."""
    for gang in check_input.jobs:
        if not _names_no_queue(gang, check_input.specs.cluster.default_queue):
            continue
        for path, value in _queue_like(gang):
            where = _shown(gang.field_paths["queue"])
            message = f"nothing reads {path[-1]} among the {path[-2]} of a {gang.document.kind}: queue {gang.queue}"
            yield Finding(gang.document, path, message, f"write {where}: {value}")
            break


@check("GP388", "job in the default queue beside others that name one", "info")
def default_queue_beside_others(check_input: CheckInput) -> Iterator[Finding]:
    """The job names no queue, so that it is in the default queue, while all others of its folder, three or more, name
    one. Mend: name the queue, or nothing where the default is meant."""
    default = check_input.specs.cluster.default_queue
    jobs: dict[str, list[GangSpec]] = {}
    for gang in check_input.specs.gangs:
        if gang.schedulable:
            jobs.setdefault(str(PurePosixPath(gang.document.file).parent), []).append(gang)
    for folder, gangs in jobs.items():
        silent = [gang for gang in gangs if _names_no_queue(gang, default)]
        named = len(gangs) - len(silent)
        if len(silent) == 1 and named >= MIN_SIBLINGS and not any(_queue_like(silent[0])):
            message = f"it names no queue and is in {silent[0].queue!r}; the {named} other jobs of {folder} name one"
            help = f"write {_shown(silent[0].field_paths['queue'])}, if that is not meant"
            yield Finding(silent[0].document, ("metadata", "name"), message, help)


@check("GP389", "job that Kueue admits", "info", folds=True)
def admitted_by_kueue(check_input: CheckInput) -> Iterator[Finding]:
    """The label kueue.x-k8s.io/queue-name hands the job to Kueue, which suspends it until it is admitted. gangplan
    does not know Kueue's queues: it plans the job in the queue of Volcano that it names, else in the default queue.
    Mend: name a queue of Volcano, and let one of the two admit the job."""
    for gang in check_input.specs.gangs:
        labels = gang.document.metadata.get("labels")
        if isinstance(labels, dict) and KUEUE_QUEUE_LABEL in labels:
            message = f"Kueue admits the job too; it is planned in Volcano's queue {gang.queue!r}"
            help = "name a queue of Volcano, and let one of the two admit it"
            yield Finding(gang.document, ("metadata", "labels", KUEUE_QUEUE_LABEL), message, help)


def _names_no_queue(gang: GangSpec, default: str) -> bool:
    """Whether the job is in the default queue without a word; the text of others is not asked for."""
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
        return f"the {str(path[-2])[:-1]} {path[-1]}"
    return ".".join(map(str, path)) if path else f"the annotation {QUEUE_NAME_ANNOTATION}"
