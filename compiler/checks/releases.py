"""Checks against the cluster's release of Volcano: missing features, and known vulnerabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from compiler import kubernetes as k8s
from compiler.checks.check import CheckInput, Finding, ModelOf, check
from compiler.checks.device_slots import annotation_place
from compiler.checks.queues import (
    is_no_name,
    is_of_tenant,
    is_queue_elsewhere,
    known_queues,
    named_queues,
    unread_queues,
)
from compiler.checks.scheduler_settings import plugins_of
from compiler.diagnostics.diagnostic import suggestion
from compiler.fields.texts import whole_number
from compiler.kinds.common.jobs import annotation_value
from compiler.specs.cluster_spec import KNOWN_MINORS
from compiler.specs.drafts import DatedFields
from compiler.specs.gang_spec import GangSpec
from compiler.specs.namespace_queues import (
    ALL_NAMESPACES,
    CLUSTER_PREFIX,
    OWN_NAMESPACE,
    NotReady,
    queue_name,
    queues_not_ready,
)
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.syntax.paths import value_at
from compiler.validation.judge import items, mapping
from compiler.validation.names import DNS_SUBDOMAIN
from compiler.volcano.fairshare import DEFAULT_RESOURCE
from compiler.volcano.node_groups import has_readable_limits
from compiler.volcano.releases import (
    DEVICE_COUNTS,
    NEW_ANNOTATIONS,
    NEW_FIELDS,
    NEW_JOB_FLAGS,
    NEW_KINDS,
    NEW_POD_ANNOTATIONS,
    NEW_POD_FIELDS,
    QUEUE_OF_NAMESPACE,
    REPLACED_POD_FIELDS,
    UNREAD_ANNOTATIONS,
    Addition,
    limits_devices,
    newer_argument,
    newer_plugin,
    vulnerabilities_of,
)

if TYPE_CHECKING:
    from compiler.kinds.queue import NamespaceQueue

NAMESPACE_QUEUE: ModelOf[NamespaceQueue] = ModelOf("NamespaceQueue.scheduling.volcano.sh")
MOST_DEVICES = 1_000_000
"""Claimed devices, or pods of a minimum, above which the vulnerable scheduler is busy for long."""
_KINDS_WITH_DESIGNS = ("Queue.scheduling.volcano.sh", "NamespaceQueue.scheduling.volcano.sh", "Node.")
_CLAIM_SPECS: Mapping[str, tuple[str, ...]] = {
    "ResourceClaim.resource.k8s.io": ("spec",),
    "ResourceClaimTemplate.resource.k8s.io": ("spec", "spec"),
}


@check("GP436", "not in the cluster's release of Volcano", folds=True, on_partial=True)
def newer_than_the_cluster(check_input: CheckInput) -> Iterator[Finding]:
    """The kind, field, annotation, plugin or argument came with a later release than `volcano` of the Cluster names.
    The API server refuses a kind and drops a field; the scheduler ignores the others silently. A NamespaceQueue also
    needs Volcano's feature gate, `namespaceQueues: true` of the Cluster. A field that a later release replaced is a
    warning, and so is an annotation of a design that no release has. Where no Cluster names the release, and for
    tenants, who have no Cluster, it is a warning unless the gate is needed. Fix: remove it, or upgrade Volcano and
    write the release into the Cluster."""
    cluster = check_input.specs.cluster
    if check_input.failed_names("Cluster.gangplan.dev"):
        return  # its release may be invalid
    for document, path, what, (since, gate) in (*_newer_objects(check_input), *_newer_arguments(check_input)):
        if since > cluster.volcano.minor and is_of_tenant(check_input):
            message = f"{what} came with Volcano 1.{since}, and no Cluster names the release that runs"
            help = f'write volcano: "1.{since}" in a Cluster, or see that this release runs'
            yield Finding(document, path, message, help, severity="warning")
        elif since > cluster.volcano.minor and cluster.is_release_assumed:
            assumed = f"{cluster.volcano} is assumed, as no Cluster names the release"
            message = f"{what} came with Volcano 1.{since}; {assumed}"
            help = f'write volcano: "1.{since}" in the Cluster where it runs, else remove it'
            yield Finding(document, path, message, help, severity=None if gate else "warning")
        elif since > cluster.volcano.minor:
            message = f"{what} came with Volcano 1.{since}, and cluster {cluster.name} runs {cluster.volcano}"
            is_rejecting = {"annotations", "tiers", "configurations", "plugins"}.isdisjoint(path)
            help = f'remove it, or write volcano: "1.{since}" in the Cluster once it is upgraded'
            yield Finding(document, path, message, help, is_rejecting=is_rejecting)
        elif gate and not cluster.namespace_queues:
            message = f"{what} needs Volcano's feature gate {gate}, which is off by default"
            yield Finding(document, path, message, "write namespaceQueues: true in the Cluster where it is on")
    for dated in check_input.dated_fields:
        yield from _replaced_fields(dated, cluster.volcano.minor)
    for document in check_input.specs.documents:
        yield from _unread_annotations(document)


def _unread_annotations(document: Document) -> Iterator[Finding]:
    if f"{document.kind}.{document.group}" not in _KINDS_WITH_DESIGNS:
        return
    for name in document.metadata.get("annotations") or {}:
        for start, origin in UNREAD_ANNOTATIONS.items():
            if name == start or (start.endswith("-") and name.startswith(start)):
                message = f"no release up to Volcano 1.{KNOWN_MINORS[-1]} reads {name}: {origin}"
                yield Finding(document, ("metadata", "annotations", name), message, "remove it", severity="warning")


def _replaced_fields(dated: DatedFields, release: int) -> Iterator[Finding]:
    for path, name in dated.fields:
        if isinstance(name, str) and name in REPLACED_POD_FIELDS:
            since, other = REPLACED_POD_FIELDS[name]
            if release >= since:
                message = f"pod templates of Volcano 1.{since} have {other} in place of {name}"
                yield Finding(dated.document, path, message, f"write {other}", severity="warning")


Newer = tuple[Document, FieldPath, str, Addition]
"""Document, path, the value there, and the release that introduced it."""


def _newer_objects(check_input: CheckInput) -> Iterator[Newer]:
    inner = (each.document for each in check_input.models if each.document.written is not each.document)
    for document in chain(check_input.specs.documents, inner):
        if document.group != "scheduling.volcano.sh":
            continue
        key = f"{document.kind}.{document.group}"
        if key in NEW_KINDS:
            yield document, ("kind",), f"the kind {document.kind}", NEW_KINDS[key]
        spec = mapping(document.data, "spec")
        for path, addition in NEW_FIELDS.get(key, {}).items():
            if path[-1] in spec:
                yield document, path, ".".join(path), addition
        for name, addition in NEW_ANNOTATIONS.items():
            if annotation_value(document, name) is not None:
                yield document, ("metadata", "annotations", name), name, addition
    for dated in check_input.dated_fields:
        yield from _newer_fields(dated)
    for gang in check_input.jobs_and_services:
        yield from _newer_in_jobs(gang)


def _newer_fields(dated: DatedFields) -> Iterator[Newer]:
    for path, name in dated.fields:
        if isinstance(name, tuple):
            plugin, flag = name
            yield dated.document, path, f"the flag --{flag} of the plugin {plugin}", NEW_JOB_FLAGS[name]
        elif name in NEW_POD_FIELDS:
            yield dated.document, path, name, NEW_POD_FIELDS[name]


def _newer_in_jobs(gang: GangSpec) -> Iterator[Newer]:
    document = gang.document
    if "/" in gang.queue:
        yield document, gang.field_paths["queue"], f"a queue of a namespace ({gang.queue})", QUEUE_OF_NAMESPACE
    for role in gang.roles:
        for name in sorted(NEW_POD_ANNOTATIONS.keys() & role.annotations.keys()):
            yield *annotation_place(gang, role, name), name, NEW_POD_ANNOTATIONS[name]


def _newer_arguments(check_input: CheckInput) -> Iterator[Newer]:
    version = check_input.specs.cluster.volcano
    for spec in check_input.schedulers:
        for path, plugin in plugins_of(spec):
            if (since := newer_plugin(plugin.name, version)) is not None:
                yield spec.document, (*path, "name"), f"the plugin {plugin.name}", Addition(since)
                continue
            for name in plugin.arguments:
                if (since := newer_argument(plugin.name, name, version)) is not None:
                    yield spec.document, (*path, "arguments", name), f"the argument {name}", Addition(since)


@check("GP437", "release of Volcano with a known vulnerability", "warning")
def vulnerable_release(check_input: CheckInput) -> Iterator[Finding]:
    """In Volcano 1.15.0 and 1.15.1 a claim for a huge number of devices, or a huge minAvailable of pods with claims,
    stops all scheduling (GHSA-j38h-7pfq-cxmw; 1.15.2 has the fix). Such an object is an error with these releases and a
    warning with others. Where a Queue has a quota of a device class (deviceclass/NAME), sums of counts above 2^63 get
    past it up to 1.15.2. Fix: upgrade Volcano, and lower the number."""
    specs = check_input.specs
    quotas = any(limits_devices(queue.document.data) for queue in specs.queues)
    known = vulnerabilities_of(specs.cluster.volcano, has_device_quotas=quotas)
    is_known = any(each.name == DEVICE_COUNTS for each in known)
    for document, path, number in _huge_numbers(check_input):
        message = f"{number} is above {MOST_DEVICES}: Volcano 1.15.0 and 1.15.1 stop scheduling ({DEVICE_COUNTS})"
        yield Finding(document, path, message, "lower it", severity="error" if is_known else None)
    for each in known if specs.cluster.document in specs.documents else ():
        message = f"Volcano {specs.cluster.volcano}: {each.text} ({each.name})"
        yield Finding(specs.cluster.document, ("spec", "volcano"), message, each.fix)


def _huge_numbers(check_input: CheckInput) -> Iterator[tuple[Document, FieldPath, int]]:
    for document in check_input.specs.documents:
        if (path := _CLAIM_SPECS.get(f"{document.kind}.{document.group}")) is None:
            continue
        for at, request in items(mapping(document.data, *path, "devices"), "requests"):
            parts: list[tuple[FieldPath, Any]] = [((), request), (("exactly",), request.get("exactly"))]
            parts += [(("firstAvailable", number), part) for number, part in items(request, "firstAvailable")]
            for place, part in parts:
                count = mapping(part).get("count")
                if isinstance(count, int) and count > MOST_DEVICES:
                    yield document, (*path, "devices", "requests", at, *place, "count"), count
    for gang in check_input.jobs:
        for role in gang.roles if gang.document.kind == "Job" and gang.document.group == "batch.volcano.sh" else ():
            if role.minimum <= MOST_DEVICES or not any(role.pod.has_unplanned_needs for role in gang.roles):
                continue
            written = [(*role.path, name) for name in ("minAvailable", "replicas")]
            stated = next((path for path in written if path in gang.document.positions), None)
            if stated:
                yield gang.document, stated, role.minimum


@check("GP438", "NamespaceQueue that Volcano refuses", on_partial=True)
def refused_namespace_queues(check_input: CheckInput) -> Iterator[Finding]:
    """The parent of a NamespaceQueue is NAME, a NamespaceQueue of the same namespace, or cluster/NAME, a Queue that
    lists the namespace in spec.allowedNamespaces; root is none. Parents form no loop and go down at most five levels. A
    job names one of its own namespace as namespace/NAME, and cannot name another's. Source: Volcano 1.16's webhooks.
    Fix: see the message."""
    for queue, why in _not_ready(check_input):
        if why.refused and queue.parent != k8s.ROOT_QUEUE:
            yield Finding(
                queue.document, ("spec", "parent"), f"{queue.name}: {why.text}", _help(check_input, queue, why.reason)
            )
    for queue in _known_namespace_queues(check_input):
        if queue.parent == k8s.ROOT_QUEUE:
            message = "cluster/root cannot be the parent of a NamespaceQueue"
            yield Finding(queue.document, ("spec", "parent"), message, "name a queue below it")
    for document, path, name in named_queues(check_input):
        if "/" in name and is_no_name(document, path):
            help = f"write {OWN_NAMESPACE}/NAME for a NamespaceQueue of {document.namespace or 'default'}"
            yield Finding(document, path, f"no job can be in {value_at(document.data, path)!r}", help)


def _known_namespace_queues(check_input: CheckInput) -> list[QueueSpec]:
    """Return the NamespaceQueues, if the cluster's Volcano has the kind, or in a tenant's repository; else GP436
    reports them."""
    is_known = check_input.specs.cluster.has_namespace_queues or is_of_tenant(check_input)
    return [queue for queue in check_input.specs.queues if queue.namespace] if is_known else []


def _not_ready(check_input: CheckInput) -> Iterator[tuple[QueueSpec, NotReady]]:
    known = _known_namespace_queues(check_input)
    found = queues_not_ready(check_input.specs.queues, unread_queues(check_input)) if known else {}
    for queue in known:
        if queue.name in found and not _has_bad_parent(queue):
            yield queue, found[queue.name]


def _has_bad_parent(queue: QueueSpec) -> bool:
    """Whether the text of its parent can name no queue, which is reported of the field."""
    name = (queue.parent or "").removeprefix(queue_name(queue.namespace, ""))
    return DNS_SUBDOMAIN.objection(name) is not None


_HELP = {
    "NamespaceNotAllowed": "add the namespace to spec.allowedNamespaces of that Queue",
    "ParentNotFound": "correct the name, or add the parent",
    "HierarchyCycle": "give one of them another parent",
    "HierarchyDepthExceeded": "move it up",
    "ParentConstraintViolation": "lower the amount, or raise that of the parent",
}


def _help(check_input: CheckInput, queue: QueueSpec, reason: str) -> str:
    if reason != "ParentNotFound":
        return _HELP.get(reason, "see the parent")
    written = {_as_parent(name, queue.namespace) for name in known_queues(check_input)}
    return suggestion(_as_parent(queue.parent or "", queue.namespace), written, _HELP[reason])


def _as_parent(name: str, namespace: str) -> str:
    """The name of a queue as spec.parent of a NamespaceQueue of the namespace has it."""
    return name.removeprefix(f"{namespace}/") if "/" in name else f"{CLUSTER_PREFIX}{name}"


@check("GP439", "NamespaceQueue that never becomes ready", "warning")
def unready_namespace_queues(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano accepts the object and sets its condition Ready to False with the reason that the message names: waiting
    jobs do not start, running ones go on. One sum of siblings above their parent makes all of them unready. Source: the
    NamespaceQueue controller of Volcano 1.16. Fix: correct the parent, or lower the amounts."""
    for queue, why in _not_ready(check_input):
        if not why.refused:
            at: FieldPath = (
                ("spec", "parent") if ("spec", "parent") in queue.document.positions else ("metadata", "name")
            )
            message = f"{queue.name} never becomes ready ({why.reason}): {why.text}"
            yield Finding(queue.document, at, message, _help(check_input, queue, why.reason))


@check("GP446", "queue of the cluster that the repository lacks", "info", folds=True)
def queues_elsewhere(check_input: CheckInput) -> Iterator[Finding]:
    """A repository with NamespaceQueues and no Queue of the cluster is that of a tenant, who may not read these. Then
    nobody checks that a Queue exists, is open, lists the namespace in spec.allowedNamespaces and has room for the
    amounts below it. A plan counts it as unlimited. Volcano 1.16 creates Queue default for all namespaces; one that was
    there before the upgrade lists none. Fix: nothing, or add the Queues of the cluster."""
    known = known_queues(check_input)
    parents = ((queue.document, ("spec", "parent"), queue.parent) for queue in _known_namespace_queues(check_input))
    for document, path, name in chain[tuple[Document, FieldPath, str | None]](parents, named_queues(check_input)):
        if name and name not in known and is_queue_elsewhere(check_input, name):
            message = f"queue {name} is not in the repository, and nothing of it is checked"
            yield Finding(document, path, message, "add the Queues of the cluster where they are to be checked")
    if k8s.DEFAULT_QUEUE not in {queue.name for queue in check_input.specs.queues} | unread_queues(check_input):
        for queue in _known_namespace_queues(check_input):
            if queue.parent == k8s.DEFAULT_QUEUE:
                at: FieldPath = (
                    ("spec", "parent") if ("spec", "parent") in queue.document.positions else ("metadata", "name")
                )
                message = (
                    "queue default is not in the repository: one from before the upgrade to 1.16 allows no namespace"
                )
                help = f'add Queue {k8s.DEFAULT_QUEUE} with spec.allowedNamespaces: ["{ALL_NAMESPACES}"]'
                yield Finding(queue.document, at, message, help)


_OF_CLUSTER_QUEUES = (
    *(k8s.HIERARCHY_ANNOTATION, k8s.HIERARCHY_WEIGHTS_ANNOTATION, k8s.NODE_GROUP_LIMITS_ANNOTATION),
    *(k8s.CLOSED_ANNOTATION, k8s.ORDER_ANNOTATION, k8s.DEDICATED_DOMAINS_ANNOTATION),
)
"""Annotations that are read of Queues of the cluster only."""


@check("GP447", "field or annotation that a NamespaceQueue may lack", "warning")
def uncertain_queue_fields(check_input: CheckInput) -> Iterator[Finding]:
    """spec.state (Open, Closed) and spec.desiredState of a NamespaceQueue are in a branch of Volcano and in its
    website's guide. In the later design a queue is open until it is deleted. The plan ignores them. Annotations of
    Queues are not read of a NamespaceQueue. Source: both texts of the guide. Fix: remove it, or compare the field with
    the CRD of the release."""
    for document, queue in check_input.documents_of(NAMESPACE_QUEUE):
        for name, value in (("state", queue.spec.state), ("desiredState", queue.spec.desired_state)):
            if value is not None:
                message = f"spec.{name}: {value} is not in the design of the release, and the plan ignores it"
                yield Finding(document, ("spec", name), message, "remove it, or compare with the release's CRD")
        for name in _OF_CLUSTER_QUEUES:
            if annotation_value(document, name) is not None:
                message = f"nothing reads {name} of a NamespaceQueue"
                yield Finding(
                    document, ("metadata", "annotations", name), message, "write it at a Queue of the cluster"
                )


@check("GP440", "NamespaceQueues without the hierarchy of capacity", "warning")
def namespace_queues_without_hierarchy(check_input: CheckInput) -> Iterator[Finding]:
    """Only the plugin capacity with enableHierarchy: true keeps the limits of NamespaceQueues, and proportion must not
    be enabled as well: it counts each with weight 1. The plan keeps them as capacity does. Source: the design and user
    guide of Volcano 1.16. Fix: enable capacity with enableHierarchy: true."""
    if not _known_namespace_queues(check_input):
        return
    for spec in check_input.schedulers:
        capacity = spec.plugin("capacity")
        if spec.is_partial or (capacity is not None and capacity.flags.get("enableHierarchy")):
            continue
        message = "the limits of NamespaceQueues need the plugin capacity with enableHierarchy: true"
        yield Finding(spec.document, (*spec.base_path, "tiers"), message, "enable it")


@check("GP441", "fairshare that does nothing or forgets", "warning")
def idle_fairshare(check_input: CheckInput) -> Iterator[Finding]:
    """fairshare orders the jobs of a queue by what their namespaces used. The first plugin with an answer decides, so
    that drf before it leaves it nothing; its gate needs the action enqueue; without persistState a restart of the
    scheduler forgets all use; its numbers are texts above 0. Before priority it decides first in Volcano, and the plan
    orders by priority first. Source: fairshare.go of Volcano 1.16's branch. Fix: see the message."""
    queues = {queue.name for queue in check_input.specs.queues} | {k8s.DEFAULT_QUEUE}
    offered = {name for node in check_input.specs.nodes for name in node.allocatable}
    for spec in check_input.schedulers:
        names = [plugin.name for plugin in spec.plugins]
        for path, plugin in plugins_of(spec):
            if plugin.name != "fairshare":
                continue
            if "drf" in names[: names.index("fairshare")]:
                message = "drf comes before fairshare, and its answer decides"
                yield Finding(spec.document, (*path, "name"), message, "move fairshare before drf")
            if "priority" in names[names.index("fairshare") :]:
                message = "fairshare comes before priority: Volcano puts use before priorities, the plan after them"
                yield Finding(spec.document, (*path, "name"), message, "move priority before fairshare")
            for name, message, help in _fairshare_flaws(plugin.arguments, spec.actions, queues, offered):
                at = (*path, "arguments", name) if name in plugin.arguments else (*path, "name")
                yield Finding(spec.document, at, message, help)


def _fairshare_flaws(
    arguments: Mapping[str, Any], actions: tuple[str, ...], queues: set[str], offered: set[str]
) -> Iterator[tuple[str, str, str]]:
    """(argument, message, help)"""
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}  # GP404 reports the others
    targets = [name.strip() for name in texts.get("fairshare.targetQueues", "").split(",") if name.strip()]
    for target in targets:
        if target not in queues:
            help = suggestion(target, queues, "correct the name")
            yield "fairshare.targetQueues", f"there is no queue {target!r}", help
    for name in arguments:
        queue = name.removeprefix("fairshare.resourceKey.")
        if queue != name and queue not in targets:
            yield name, f"{name} is not read: fairshare.targetQueues does not list {queue}", f"add {queue} to it"
    resources = {name: value for name, value in texts.items() if name.startswith("fairshare.resourceKey")}
    for name, resource in ({"fairshare.resourceKey": DEFAULT_RESOURCE} | resources).items():
        if offered and resource not in offered:
            help = suggestion(resource, offered, "name a resource of the nodes in it")
            yield name, f"no node has {resource}, whose use {name} counts", help
    for name in ("fairshare.halfLifeMinutes", "fairshare.flushIntervalSeconds"):
        text = texts.get(name)
        if text is not None and not whole_number(text):
            yield name, f"{name} is {text!r}, and the default counts", "write a whole number above 0, in quotes"
    name = "fairshare.enableEnqueueGate"
    if texts.get(name, "false").lower() not in ("true", "false"):
        yield name, f"{name} is {texts[name]!r}, which counts as false", 'write "true" or "false"'
    if str(arguments.get("fairshare.enableEnqueueGate")).lower() == "true" and actions and "enqueue" not in actions:
        yield "fairshare.enableEnqueueGate", "the gate does nothing without the action enqueue", "add enqueue"
    if str(arguments.get("fairshare.persistState")).lower() != "true":
        message = "without persistState a restart of the scheduler forgets what namespaces used"
        yield "fairshare.persistState", message, 'write fairshare.persistState: "true"'


@check("GP443", "limits of node groups that cannot be read")
def bad_node_group_limits(check_input: CheckInput) -> Iterator[Finding]:
    """The annotation volcano.sh/nodegroup-resource-limits of a Queue is a JSON object: node group -> resource ->
    amount. Where it is invalid, Volcano 1.16 closes every node to the queue. Valid limits are planned; null and an
    empty text are none. Source: nodegroup.go of Volcano's master. Fix: write it like {"a100": {"nvidia.com/gpu":
    "8"}}."""
    for queue in check_input.specs.queues:
        if has_readable_limits(queue):
            continue
        text = annotation_value(queue.document, k8s.NODE_GROUP_LIMITS_ANNOTATION)
        path = ("metadata", "annotations", k8s.NODE_GROUP_LIMITS_ANNOTATION)
        message = f"{k8s.NODE_GROUP_LIMITS_ANNOTATION} is {text!r}, and Volcano closes every node to queue {queue.name}"
        yield Finding(queue.document, path, message, 'write it like {"a100": {"nvidia.com/gpu": "8"}}')
