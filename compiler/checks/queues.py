"""Checks of the queue tree, of domains that are dedicated to queues, and of jobs in queues."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compiler.checks.check import CheckInput, Finding, check
from compiler.checks.jobs import POD_GROUP
from compiler.checks.resource_names import near_resource
from compiler.diagnostics.diagnostic import one_of, suggestion
from compiler.fields.quantity import exact_amount
from compiler.kubernetes import DEDICATED_DOMAINS_ANNOTATION, DEFAULT_QUEUE, HIERARCHY_ANNOTATION, ROOT_QUEUE
from compiler.specs.hypernode_tree import MAX_LOOP_SHOWN, tier_of
from compiler.specs.namespace_queues import (
    OWN_NAMESPACE,
    lacks_cluster_queues,
    names_no_queue,
    queue_name,
    workload_queue,
)
from compiler.specs.pod_spec import Amounts
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at

MAX_DEPTH = 5
QUEUE_KIND, NAMESPACE_QUEUE_KIND = "Queue.scheduling.volcano.sh", "NamespaceQueue.scheduling.volcano.sh"
_FIELD_PATHS: Mapping[str, FieldPath] = {
    "guarantee": ("spec", "guarantee", "resource"),
    "deserved": ("spec", "deserved"),
    "capability": ("spec", "capability"),
}
_CORE_RESOURCES = ("cpu", "memory")
"""Volcano treats a missing amount of these as 0."""
UNCOUNTED_RESOURCES = re.compile(
    r"(?!cpu\Z|memory\Z|pods\Z|ephemeral-storage\Z|hugepages-|attachable-volumes-)[^/]*\Z|(?:count|requests)[./]"
)
"""Names that Volcano does not treat as resources, and ignores (NewResource of pkg/scheduler/api/resource_info.go)."""


def _cluster_queues(check_input: CheckInput) -> list[QueueSpec]:
    """Without NamespaceQueues, of whose parents and sums `compiler.checks.releases` judges."""
    return [queue for queue in check_input.specs.queues if not queue.namespace]


def unread_queues(check_input: CheckInput) -> set[str]:
    """Names of the queues of both kinds that have errors."""
    failed = check_input.failed_objects
    local = {queue_name(namespace, name) for kind, namespace, name in failed if kind == NAMESPACE_QUEUE_KIND}
    return check_input.failed_names(QUEUE_KIND) | local


def known_queues(check_input: CheckInput) -> set[str]:
    """Return the names of existing queues, including queues with errors and those that Volcano creates."""
    return {queue.name for queue in check_input.specs.queues} | {ROOT_QUEUE, DEFAULT_QUEUE} | unread_queues(check_input)


def is_queue_elsewhere(check_input: CheckInput, name: str) -> bool:
    """Whether it is a queue of the cluster, of which this repository has none: that of a tenant (GP446)."""
    is_of_cluster = "/" not in name and name != ROOT_QUEUE
    return is_of_cluster and lacks_cluster_queues(check_input.specs.queues) and not check_input.failed_names(QUEUE_KIND)


def is_of_tenant(check_input: CheckInput) -> bool:
    """Whether it is the repository of a tenant: NamespaceQueues, no Queue of the cluster, and no Cluster."""
    specs = check_input.specs
    return lacks_cluster_queues(specs.queues) and specs.cluster.document not in specs.documents


def _queues_by_name(check_input: CheckInput) -> dict[str, QueueSpec]:
    return {queue.name: queue for queue in reversed(check_input.specs.queues)}


def _ancestors(queue: QueueSpec, by_name: Mapping[str, QueueSpec]) -> list[QueueSpec]:
    """The ancestors from the parent upwards, a declared root included. Ends at an unknown parent, at a loop, or beyond
    the allowed depth."""
    ancestors: list[QueueSpec] = []
    seen = {queue.name}
    parent = queue.parent
    while parent is not None and parent not in seen and parent in by_name and len(ancestors) <= MAX_DEPTH:
        seen.add(parent)
        ancestors.append(by_name[parent])
        parent = by_name[parent].parent
    if parent is None and queue.name != ROOT_QUEUE and ROOT_QUEUE in by_name:
        ancestors.append(by_name[ROOT_QUEUE])
    return ancestors


def _children_by_queue(check_input: CheckInput) -> dict[str, list[QueueSpec]]:
    found: dict[str, list[QueueSpec]] = {}
    for queue in _queues_by_name(check_input).values():
        if queue.name != ROOT_QUEUE:
            found.setdefault(queue.parent or ROOT_QUEUE, []).append(queue)
    return found


@check("GP303", "unknown parent queue")
def unknown_parent(check_input: CheckInput) -> Iterator[Finding]:
    """A queue's parent is a queue of the same cluster, or root. Fix: correct the name, or add the parent."""
    by_name = _queues_by_name(check_input)
    for queue in _cluster_queues(check_input):
        if (
            queue.parent
            and queue.parent not in by_name
            and queue.parent not in check_input.failed_names(QUEUE_KIND)
            and queue.parent != "default"
        ):
            message = f"there is no queue {queue.parent!r}"
            help = suggestion(queue.parent, [*by_name, ROOT_QUEUE], "add the parent")
            yield Finding(queue.document, ("spec", "parent"), message, help)


@check("GP304", "queues form a loop")
def queue_loops(check_input: CheckInput) -> Iterator[Finding]:
    """Following parents from a queue must end at the root. Fix: give one queue of the loop another parent."""
    by_name = _queues_by_name(check_input)
    done: set[str] = set()
    for queue in _cluster_queues(check_input):
        path_up: dict[str, None] = {}
        name: str | None = queue.name
        while name in by_name and name not in done and name not in path_up:
            path_up[name] = None
            name = by_name[name].parent
        names = list(path_up)
        loop = names[names.index(name) :] if name in path_up else []
        for index, member in enumerate(loop):
            cycle = [*loop[index:], *loop[:index], member]
            shown_names = cycle if len(cycle) <= MAX_LOOP_SHOWN else [*cycle[:MAX_LOOP_SHOWN], "..."]
            message = f"queues form a loop: {' under '.join(shown_names)}"
            yield Finding(by_name[member].document, ("spec", "parent"), message, "change one parent")
        done.update(path_up)


@check("GP305", "queues nested too deeply")
def queue_too_deep(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano allows 5 levels below the root (--max-queue-depth). Fix: move the queue up."""
    by_name = _queues_by_name(check_input)
    for queue in _cluster_queues(check_input):
        level = 1 + sum(1 for above in _ancestors(queue, by_name) if above.name != ROOT_QUEUE)
        if level > MAX_DEPTH and queue.name != ROOT_QUEUE:
            message = f"queue {queue.name!r} is {level} levels below the root"
            yield Finding(queue.document, ("spec", "parent"), message, f"nest {MAX_DEPTH} levels at most")


def _exceeded_limits(check_input: CheckInput, low: str, high: str) -> Iterator[Finding]:
    """Violations of low[r] <= high[r] for the resources that a queue's `high` names."""
    for queue in check_input.specs.queues:
        lower: Amounts = getattr(queue, low)
        upper: Amounts = getattr(queue, high)
        for name in (name for name in lower if lower[name] > upper.get(name, lower[name])):
            amount, limit = exact_amount(name, lower[name]), exact_amount(name, upper[name])
            message = f"{low} of {name} {amount} is above the {high} {limit}"
            see = (queue.document, (*_FIELD_PATHS[high], name))
            yield Finding(queue.document, (*_FIELD_PATHS[low], name), message, "lower one or raise the other", see)


@check("GP310", "guarantee above deserved")
def guarantee_above_deserved(check_input: CheckInput) -> Iterator[Finding]:
    """guarantee[r] <= deserved[r] for each resource that is guaranteed, and deserved names it, whatever the plugins.
    Volcano's admission refuses the queue. Fix: lower the guarantee, or raise or complete deserved."""
    yield from _exceeded_limits(check_input, "guarantee", "deserved")
    for queue in check_input.specs.queues:
        for name in (name for name in queue.guarantee if name not in queue.deserved):
            if near_resource(name, queue.deserved):
                continue  # of one cause with the misspelt name
            amount = exact_amount(name, queue.guarantee[name])
            message = f"guarantee of {name} is {amount}, and deserved does not name it"
            help = f"add {name}: {amount} or more to spec.deserved, or remove the guarantee"
            yield Finding(queue.document, (*_FIELD_PATHS["guarantee"], name), message, help)


@check("GP311", "deserved above capability")
def deserved_above_capability(check_input: CheckInput) -> Iterator[Finding]:
    """deserved[r] <= capability[r] for each resource that both name. Volcano's admission refuses the queue. Fix: lower
    one or raise the other."""
    yield from _exceeded_limits(check_input, "deserved", "capability")


@check("GP312", "guarantee above capability")
def guarantee_above_capability(check_input: CheckInput) -> Iterator[Finding]:
    """guarantee[r] <= capability[r] for each resource that both name. Fix: lower one or raise the other."""
    yield from _exceeded_limits(check_input, "guarantee", "capability")


@check("GP319", "queue on the path to another queue")
def queue_inside_a_way(check_input: CheckInput) -> Iterator[Finding]:
    """A queue whose path in volcano.sh/hierarchy is the beginning of another queue's (root/eng and root/eng/dev) has
    jobs where the other has only a branch. Volcano's admission refuses it, on creation where the other is there before,
    and on every update. Fix: give it a way of its own, such as root/eng/rest."""
    by_way: dict[tuple[str, ...], QueueSpec] = {}
    for queue in check_input.specs.queues:
        way = tuple(name for name, _ in queue.hierarchy)
        for length in range(1, len(way)):
            by_way.setdefault(way[:length], queue)
    for queue in check_input.specs.queues:
        other = by_way.get(tuple(name for name, _ in queue.hierarchy))
        if other is not None:
            path: FieldPath = ("metadata", "annotations", HIERARCHY_ANNOTATION)
            message = f"the way of queue {queue.name} is the beginning of that of queue {other.name}"
            yield Finding(queue.document, path, message, "give it a way of its own", (other.document, path))


@check("GP318", "guarantee above the cluster")
def guarantee_above_cluster(check_input: CheckInput) -> Iterator[Finding]:
    """A queue cannot be guaranteed more than all nodes of the repository have; nothing could then start in any other
    queue. Of queues that are guaranteed more together the largest is named, with a warning. Fix: lower the guarantee,
    or add nodes."""
    specs = check_input.specs
    totals: Counter[str] = Counter()
    for node in specs.nodes:
        totals.update(node.allocatable)
    top = _children_by_queue(check_input).get(ROOT_QUEUE, [])
    for name in sorted({name for queue in specs.queues for name in queue.guarantee} & totals.keys()):
        path, total = (*_FIELD_PATHS["guarantee"], name), exact_amount(name, totals[name])
        alone = [queue for queue in specs.queues if queue.guarantee.get(name, 0) > totals[name]]
        for queue in alone:
            message = f"guarantee of {name} is {exact_amount(name, queue.guarantee[name])}; the cluster has {total}"
            yield Finding(queue.document, path, message, "lower it, or add nodes")
        together = sum(queue.guarantee.get(name, 0) for queue in top)
        if not alone and together > totals[name]:
            largest = max(top, key=lambda queue: queue.guarantee.get(name, 0))
            message = f"queues are guaranteed {exact_amount(name, together)} {name} together; the cluster has {total}"
            yield Finding(largest.document, path, message, "lower one, or add nodes", severity="warning")


def _exceeded_sums(check_input: CheckInput, field: str) -> Iterator[Finding]:
    """The children's sum of `field` against their parent's; a resource that the parent does not name counts as 0 (r.12
    of Volcano's admission)."""
    children = _children_by_queue(check_input)
    offered = {name for node in check_input.specs.nodes for name in node.allocatable}
    for queue in _cluster_queues(check_input):
        limits: Amounts = getattr(queue, field)
        below = [child for child in children.get(queue.name, ()) if not child.namespace]
        if queue.name == ROOT_QUEUE or not below:
            continue
        for name in sorted({name for child in below for name in getattr(child, field)}):
            total, limit = sum(getattr(child, field).get(name, 0) for child in below), limits.get(name, 0)
            if name not in offered and near_resource(name, limits.keys() & offered):
                continue  # GP391 reports the misspelt name
            if total > limit:
                largest = max(below, key=lambda child: getattr(child, field).get(name, 0))
                message = (
                    f"the children's {field} of {name} is {exact_amount(name, total)} together, "
                    f"above the {exact_amount(name, limit)} of {queue.name!r}"
                )
                see = (largest.document, (*_FIELD_PATHS[field], name))
                help = "raise the parent's or lower the children's"
                yield Finding(queue.document, (*_FIELD_PATHS[field], name), message, help, see)
            elif name not in limits and not (name in _CORE_RESOURCES or UNCOUNTED_RESOURCES.match(name)):
                yield from _unnamed_by_parent(queue, below, field, name)


def _unnamed_by_parent(parent: QueueSpec, children: Sequence[QueueSpec], field: str, name: str) -> Iterator[Finding]:
    """The children that name 0 of a resource that their parent does not name: Volcano compares the names before the
    amounts, but for cpu and memory (LessPartly of pkg/scheduler/api/resource_info.go)."""
    for child in children:
        if name in getattr(child, field):
            message = f"{field} names {name}, and that of {parent.name!r} does not"
            help = f"remove it, or write {name}: 0 in the parent as well"
            see = (parent.document, _FIELD_PATHS[field])
            yield Finding(child.document, (*_FIELD_PATHS[field], name), message, help, see)


@check("GP313", "children's guarantees above the parent's")
def child_guarantees_above_parent(check_input: CheckInput) -> Iterator[Finding]:
    """The guarantees of a queue's children add up to at most its own, per resource; none counts as 0. What a child
    names, 0 as well, the parent names too, but for cpu and memory. Volcano's admission refuses the queue. Fix: raise
    the parent's or lower the children's."""
    yield from _exceeded_sums(check_input, "guarantee")


@check("GP314", "children's deserved above the parent's")
def child_deserved_above_parent(check_input: CheckInput) -> Iterator[Finding]:
    """The deserved shares of a queue's children add up to at most its own, per resource; none counts as 0. What a child
    names, 0 as well, the parent names too, but for cpu and memory. Volcano's admission refuses the queue. Fix: raise
    the parent's or lower the children's."""
    yield from _exceeded_sums(check_input, "deserved")


@check("GP315", "capability above an ancestor's")
def capability_above_ancestor(check_input: CheckInput) -> Iterator[Finding]:
    """capability[r] of a queue is at most that of the nearest queue above it that names r. Volcano's admission refuses
    the queue. Fix: lower it, or raise the ancestor's."""
    by_name = _queues_by_name(check_input)
    for queue in _cluster_queues(check_input):
        for name, amount in queue.capability.items():
            above = next((found for found in _ancestors(queue, by_name) if name in found.capability), None)
            if above is not None and amount > above.capability[name]:
                limit = exact_amount(name, above.capability[name])
                message = (
                    f"capability of {name} {exact_amount(name, amount)} is above the {limit} "
                    f"of its ancestor {above.name!r}"
                )
                see = (above.document, ("spec", "capability", name))
                yield Finding(
                    queue.document, ("spec", "capability", name), message, "lower it, or raise the ancestor's", see
                )


@check("GP316", "root queue with limits")
def limited_root_queue(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano creates the queue root and refuses to change its capability, deserved and guarantee, or to give it a
    parent. Fix: remove them; limit the queues below."""
    for queue in check_input.specs.queues:
        if queue.name == ROOT_QUEUE:
            for field in ("capability", "deserved", "guarantee"):
                if getattr(queue, field):
                    yield Finding(queue.document, ("spec", field), f"the root queue cannot have {field}", "remove it")
            if queue.parent:
                yield Finding(queue.document, ("spec", "parent"), "the root queue cannot have a parent", "remove it")


@check("GP302", "unknown queue", folds=True, on_partial=True)
def unknown_queue(check_input: CheckInput) -> Iterator[Finding]:
    """A job's queue, and the cluster's defaultQueue, is a queue of the cluster; Volcano creates root and default by
    itself. Fix: correct the name, or add the queue."""
    known = known_queues(check_input)
    cluster = check_input.specs.cluster
    knows_local = cluster.has_namespace_queues or is_of_tenant(check_input)

    def is_newer(queue: str) -> bool:
        """Whether the cluster's Volcano has no queues of that kind (GP436)."""
        return "/" in queue and not knows_local

    if cluster.default_queue not in known:
        help = suggestion(cluster.default_queue, known, "add the queue")
        yield Finding(cluster.document, ("spec", "defaultQueue"), f"there is no queue {cluster.default_queue!r}", help)
        known.add(cluster.default_queue)  # report it once
    for document, path, name in named_queues(check_input):
        if name in known or is_newer(name) or is_queue_elsewhere(check_input, name):
            continue  # before a look at the text: it is not kept of files that were read before
        if not is_no_name(document, path):
            help = _queues_to_name(known, document.namespace or "default", name)
            yield Finding(document, path, f"there is no queue {name!r}", help)


def named_queues(check_input: CheckInput) -> Iterator[tuple[Document, FieldPath, str]]:
    """Yield the queues that jobs, services and PodGroups name, each with its place."""
    for gang in check_input.jobs_and_services:
        if gang.queue:
            yield gang.document, gang.field_paths["queue"], gang.queue
    for document, group in check_input.documents_of(POD_GROUP):  # a PodGroup without pods is not a gang
        if group.spec.queue:
            yield document, ("spec", "queue"), workload_queue(document.namespace or "default", group.spec.queue)


def is_no_name(document: Document, path: FieldPath) -> bool:
    """Whether the text there can be no name of a workload's queue (GP438)."""
    written = value_at(document.data, path)
    return isinstance(written, str) and names_no_queue(written)


def _as_written(queues: Iterable[str], namespace: str) -> list[str]:
    """Return the names by which a workload of the namespace can refer to these queues, without those of other
    namespaces."""
    own = queue_name(namespace, "")
    there = [name.replace(own, f"{OWN_NAMESPACE}/") if name.startswith(own) else name for name in queues]
    return sorted(name for name in there if name.partition("/")[0] in (name, OWN_NAMESPACE))


def _queues_to_name(known: Iterable[str], namespace: str, missing: str) -> str:
    """Return the fix for a workload of the namespace that names a missing queue."""
    names = _as_written(known, namespace)
    return suggestion(missing, names, f"add the queue, or {one_of(name for name in names if name != ROOT_QUEUE)}")


@check("GP306", "job in a queue that has children", folds=True, on_partial=True)
def job_in_parent_queue(check_input: CheckInput) -> Iterator[Finding]:
    """Jobs run in leaf queues only. Volcano's admission refuses the job, and with the capacity plugin's hierarchy one
    such job stops all scheduling. Fix: name one of the children."""
    children = _children_by_queue(check_input)
    for gang in check_input.volcano_jobs:
        if gang.queue != ROOT_QUEUE and (below := children.get(gang.queue)):
            names = _as_written((queue.name for queue in below), gang.namespace)
            help = f"name one of {', '.join(names)}" if names else "name a queue without children"
            see = (below[0].document, ("spec", "parent"))
            yield Finding(gang.document, gang.field_paths["queue"], f"queue {gang.queue!r} has children", help, see)


@check("GP307", "job in the root queue", folds=True, on_partial=True)
def job_in_root_queue(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano takes no jobs into the root queue. Fix: name a leaf queue."""
    for gang in check_input.volcano_jobs:
        if gang.queue == ROOT_QUEUE:
            yield Finding(
                gang.document, gang.field_paths["queue"], "a job cannot be in the root queue", "name a leaf queue"
            )


DOMAINS_PATH = ("metadata", "annotations", DEDICATED_DOMAINS_ANNOTATION)


@check("GP382", "guaranteed domains of an unknown tier")
def unknown_dedicated_tier(check_input: CheckInput) -> Iterator[Finding]:
    """The tier that a queue is guaranteed domains of is the tier, or the tierName, of a hypernode of the cluster. Fix:
    correct the tier."""
    tree = check_input.specs.hypernodes
    known = sorted({str(spec.tier) for spec in tree} | {spec.tier_name for spec in tree if spec.tier_name})
    for queue in check_input.specs.queues:
        if queue.dedicated_domains and tree and tier_of(queue.dedicated_domains[1], tree) is None:
            message = f"no hypernode is of tier {queue.dedicated_domains[1]}"
            yield Finding(queue.document, DOMAINS_PATH, message, one_of(known))


@check("GP383", "more domains guaranteed than there are")
def too_many_dedicated_domains(check_input: CheckInput) -> Iterator[Finding]:
    """All queues together are guaranteed more domains of one tier than the cluster has. Each queue's are its own: those
    of a child queue are not counted as its parent's. Fix: guarantee fewer."""
    tree = check_input.specs.hypernodes
    existing = Counter(spec.tier for spec in tree)
    asked: Counter[int] = Counter()
    for queue in check_input.specs.queues:
        tier = tier_of(queue.dedicated_domains[1], tree) if queue.dedicated_domains else None
        if queue.dedicated_domains and tier is not None:
            asked[tier] += queue.dedicated_domains[0]
            if asked[tier] > existing[tier]:
                demand = f"with this queue {asked[tier]} domains of tier {tier} are guaranteed"
                message = f"{demand}; the cluster has {existing[tier]}"
                yield Finding(queue.document, DOMAINS_PATH, message, "guarantee fewer")
