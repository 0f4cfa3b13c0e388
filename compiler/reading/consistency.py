"""The checks across objects, and the specs without the objects that they reject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Protocol, TypeVar

from compiler.checks.check import Check, CheckInput, Finding, all_checks, identity_of
from compiler.diagnostics.diagnostic import Diagnostic, sorted_diagnostics
from compiler.diagnostics.guard import internal_error
from compiler.fields.texts import natural_sort_key
from compiler.kinds.common.jobs import annotation_value
from compiler.kinds.common.limit_ranges import (
    limit_ranges,
    runtime_classes,
    with_default_requests,
    with_runtime_classes,
)
from compiler.kubernetes import DEFAULT_QUEUE, QUEUE_NAME_ANNOTATION, VOLCANO_SCHEDULER
from compiler.reading.culprits import LeftOut, attributed, check_input_without, spec_documents
from compiler.reading.documents import DocumentCollector
from compiler.repository.kustomize import BUILD_FAILED
from compiler.repository.paths import CLUSTERS_FOLDER
from compiler.specs.cluster_spec import ClusterSpec, SchedulerSpec, Specs
from compiler.specs.drafts import (
    DatedFields,
    HyperNodeDraft,
    InnerJob,
    JobFlowDraft,
    JobTemplateDraft,
    ListedResources,
    PodDraft,
    PodGroupDraft,
    PrivilegedContainers,
)
from compiler.specs.exclusive_topology import ExclusiveDomains, with_exclusive_topology
from compiler.specs.gang_spec import GangSpec, RoleSpec, UnplannedPods
from compiler.specs.hypernode_tree import resolve_hypernodes
from compiler.specs.namespace_queues import workload_queue
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec, NumaTopologySpec
from compiler.specs.pod_groups import job_flow_gangs, pod_group_gangs, with_named_groups
from compiler.specs.queue_spec import PriorityClassSpec, QueueSpec
from compiler.specs.services import bound_and_unbound, unbound_pods, with_scheduler
from compiler.syntax.documents import Document, DocumentIdentity
from compiler.volcano.numatopology import with_numa_topologies
from compiler.volcano.shared_devices import without_ascend_memory

DEPENDENCY_CHECK = "GP354"
"""The check on references to objects with an error, which rejects more objects in turn."""

OF_MISSING_OBJECTS = (
    *("GP302", "GP303", "GP320", "GP334", "GP349", "GP353", "GP355", "GP359", "GP376", "GP391", "GP392", "GP393"),
    *("GP395", "GP396"),
)
"""Queues, classes, hypernodes and nodes that are not there: a kustomization that cannot be built may have them."""

Rejected = dict[DocumentIdentity, Document]


class _Named(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def document(self) -> Document: ...


Spec = TypeVar("Spec")
Named = TypeVar("Named", bound=_Named)


def consistent_specs(cluster: ClusterSpec, collector: DocumentCollector) -> Specs:
    """Return the specs that pass all checks, with the diagnostics of everything that was read."""
    collector.read_strangers()
    collector.read_train_jobs()
    collector.read_job_flows()
    collector.read_hyper_jobs(cluster)
    collector.read_workflows()
    collector.read_serving()
    collector.read_services(cluster.services)
    check_input = attributed(
        lambda left_out: _check_input(cluster, collector.without(left_out)),
        lambda: collector.documents,
        collector.blame,
    )
    rejected, diagnostics = dict(collector.rejected), list(collector.diagnostics)
    for document, diagnostic in collector.findings:
        _add_finding(document, diagnostic, rejected, diagnostics)
    _run_checks(check_input, rejected, collector.partial, diagnostics)
    gangs = _sorted_by_object((*check_input.specs.gangs, *check_input.unbound_gangs), lambda gang: gang.document)
    specs = replace(check_input.specs, gangs=gangs)
    return _specs_without(specs, rejected, sorted_diagnostics(diagnostics))


def _check_input(cluster: ClusterSpec, collector: DocumentCollector) -> CheckInput:
    """Everything that was read, put together: members of hypernodes and pods of PodGroups resolved."""
    nodes = with_numa_topologies(collector.specs_of(NodeSpec), collector.specs_of(NumaTopologySpec))
    hypernodes, tree_problems = resolve_hypernodes(
        collector.specs_of(HyperNodeDraft), collector.specs_of(HyperNodeSpec), nodes
    )
    domains = ExclusiveDomains(nodes, hypernodes)
    pods, of_namespaces = collector.specs_of(PodDraft), _queues_of_namespaces(collector.documents)
    bound, unbound = bound_and_unbound(with_exclusive_topology(gang, domains) for gang in collector.specs_of(GangSpec))
    ranges, classes = limit_ranges(collector.documents), runtime_classes(collector.documents)

    def admitted(gang: GangSpec) -> GangSpec:
        return with_runtime_classes(with_default_requests(gang, ranges), classes)

    drafts = collector.specs_of(PodGroupDraft)
    gangs = [
        *with_named_groups(bound, drafts),
        *pod_group_gangs(drafts, pods),
        *job_flow_gangs(collector.specs_of(JobFlowDraft), collector.specs_of(JobTemplateDraft)),
    ]
    schedulers = sorted(collector.specs_of(SchedulerSpec), key=lambda spec: not spec.is_emitted)
    scheduler = schedulers[0] if schedulers else None
    gangs = [without_ascend_memory(admitted(gang), scheduler) for gang in gangs]
    unbound = tuple(_with_own_queue(admitted(gang)) for gang in unbound)
    specs = Specs(
        cluster=cluster,
        documents=_sorted_by_object(collector.documents, lambda document: document),
        gangs=_sorted_by_object(
            (with_scheduler(_with_queue(gang, cluster, of_namespaces)) for gang in gangs), lambda gang: gang.document
        ),
        queues=_sorted_by_object(collector.specs_of(QueueSpec), lambda queue: queue.document),
        priority_classes=_sorted_by_object(collector.specs_of(PriorityClassSpec), lambda found: found.document),
        nodes=_sorted_naturally(nodes),
        hypernodes=_sorted_naturally(hypernodes),
        scheduler=scheduler,
        diagnostics=(),
        unplanned_pods=tuple(_unplanned_pods(collector, pods, gangs, unbound)),
    )
    return CheckInput(
        specs,
        models=tuple(collector.models),
        failed_objects=_identities(collector.rejected.values()),
        tree_problems=tuple(tree_problems),
        bare_pods=tuple(pods),
        schedulers=tuple(schedulers),
        unbound_gangs=unbound,
        privileged=tuple(collector.specs_of(PrivilegedContainers)),
        listed_resources=tuple(collector.specs_of(ListedResources)),
        dated_fields=tuple(collector.specs_of(DatedFields)),
        inner_jobs=tuple(
            replace(inner, gang=_with_queue(inner.gang, cluster, of_namespaces))
            for inner in collector.specs_of(InnerJob)
        ),
    )


def _unplanned_pods(
    collector: DocumentCollector, pods: Iterable[PodDraft], gangs: Iterable[GangSpec], unbound: Iterable[GangSpec]
) -> Iterator[UnplannedPods]:
    """Yield the pods, by object, of unbound gangs, of unplanned kinds, and of other schedulers."""
    found = collector.specs_of(UnplannedPods)
    for gang in unbound:
        found += unbound_pods(gang)
    members = _members(gangs)
    for pod in pods:
        if pod.document.identity not in members:
            found.append(UnplannedPods(pod.document, ("spec",), 1, pod.pod, pod.labels))
    for gang in gangs:
        for role in gang.roles:
            if role.replicas and not role.pod_documents and _is_of_another_scheduler(gang, role):
                path = (*role.template_path, "spec")
                found.append(UnplannedPods(gang.document, path, role.replicas, role.pod, role.labels))
    yield from _sorted_by_object(found, lambda pods: pods.document)


def _members(gangs: Iterable[GangSpec]) -> set[DocumentIdentity]:
    return {pod.identity for gang in gangs for pod in gang.pod_documents}


def _is_of_another_scheduler(gang: GangSpec, role: RoleSpec) -> bool:
    return (gang.scheduling.scheduler_name or role.pod.scheduler_name or VOLCANO_SCHEDULER) != VOLCANO_SCHEDULER


def _queues_of_namespaces(documents: Iterable[Document]) -> dict[str, str]:
    """Namespace -> the queue that its annotation names, into which Volcano's webhook puts its pod groups of the queue
    default."""
    found = {}
    for document in documents:
        if document.kind == "Namespace" and not document.group:
            queue = annotation_value(document, QUEUE_NAME_ANNOTATION)
            if isinstance(queue, str) and queue:
                found[document.name] = queue
    return found


def _with_queue(gang: GangSpec, cluster: ClusterSpec, of_namespaces: Mapping[str, str]) -> GangSpec:
    queue = gang.queue or cluster.default_queue
    if queue == DEFAULT_QUEUE:
        queue = of_namespaces.get(gang.namespace, queue)
    return _with_own_queue(gang if gang.queue == queue else replace(gang, queue=queue))


def _with_own_queue(gang: GangSpec) -> GangSpec:
    """Return the gang with the name of the NamespaceQueue that it means by namespace/NAME."""
    queue = workload_queue(gang.namespace, gang.queue)
    return gang if gang.queue == queue else replace(gang, queue=queue)


def _run_checks(
    check_input: CheckInput, rejected: Rejected, partial: Set[DocumentIdentity], diagnostics: list[Diagnostic]
) -> None:
    """Run all checks once, then the one on dependencies until it rejects no more objects. Adds to `rejected` and
    `diagnostics`."""
    jobs = {gang.document.identity for gang in (*check_input.specs.gangs, *check_input.jobs)}
    partial_jobs = partial & jobs
    failed = (each for each in diagnostics if each.code == BUILD_FAILED.code)
    unbuilt = next((each.object for each in failed if each.position.file.startswith(f"{CLUSTERS_FOLDER}/")), "")
    told = {diagnostic.position for diagnostic in diagnostics if diagnostic.severity == "error"}
    for check in all_checks():
        if check.of_document:
            continue
        for found, diagnostic in _findings(check, check_input, rejected, diagnostics):
            if found.document.identity in partial_jobs and not (check.on_partial and _is_written(found)):
                continue
            if found.document.identity in jobs and diagnostic.position in told:
                continue  # of one cause with the server's error at that place
            if unbuilt and diagnostic.code in OF_MISSING_OBJECTS:
                diagnostic = replace(diagnostic, cause=unbuilt)
            if found.is_rejecting:
                _add_finding(found.document, diagnostic, rejected, diagnostics)
            else:
                diagnostics.append(diagnostic)
    _reject_dependents(check_input, rejected, diagnostics)


def _reject_dependents(check_input: CheckInput, rejected: Rejected, diagnostics: list[Diagnostic]) -> None:
    """Reject what depends on rejected objects, until nothing more does."""
    (dependencies,) = (check for check in all_checks() if check.rule.code == DEPENDENCY_CHECK)
    size_before = -1
    while size_before != len(rejected):
        size_before = len(rejected)
        check_input = replace(check_input, failed_objects=_identities(rejected.values()))
        for found, diagnostic in _findings(dependencies, check_input, rejected, diagnostics):
            if found.document.identity not in rejected:
                _add_finding(found.document, diagnostic, rejected, diagnostics)


def _findings(
    check: Check, check_input: CheckInput, rejected: Rejected, diagnostics: list[Diagnostic]
) -> list[tuple[Finding, Diagnostic]]:
    """Return the findings of a check. Documents with which it fails are rejected with that error, unless they have one
    already: it may be the cause. A check that fails without any document is an error of the Cluster."""

    def blame(document: Document, error: Diagnostic) -> None:
        if document.identity not in rejected:
            _add_finding(document, error, rejected, diagnostics)

    def findings_without(left_out: LeftOut) -> list[tuple[Finding, Diagnostic]]:
        examined = check_input_without(check_input, left_out)
        return [(found, check.diagnostic(found)) for found in check.function(examined)]

    task = f"check {check.rule.code}"
    try:
        return attributed(findings_without, lambda: spec_documents(check_input.specs), blame, task)
    except MemoryError:
        raise
    except Exception as error:
        diagnostics.append(internal_error(check_input.specs.cluster.document, error, task))
        return []


def without_documents(specs: Specs, documents: Iterable[Document], errors: Iterable[Diagnostic] = ()) -> Specs:
    """Return the specs without documents that have errors after all, and without what depends on them or is their
    pods."""
    rejected, diagnostics = {document.identity: document for document in documents}, [*specs.diagnostics, *errors]
    if not rejected:
        return specs
    _reject_dependents(CheckInput(specs), rejected, diagnostics)
    left = _specs_without(specs, rejected, sorted_diagnostics(diagnostics))
    pods = _members(specs.gangs) - _members(left.gangs)  # without their PodGroup they would be emitted as they are
    return replace(left, documents=tuple(document for document in specs.documents if document.identity not in pods))


def _add_finding(document: Document, diagnostic: Diagnostic, rejected: Rejected, diagnostics: list[Diagnostic]) -> None:
    diagnostics.append(diagnostic)
    if diagnostic.severity == "error":
        rejected.setdefault(document.identity, document.written)


def _is_written(found: Finding) -> bool:
    """Return whether the path of a finding is in the readable part of its document: the rest may be valid."""
    try:
        found.document.value_at(*found.path)
    except (LookupError, TypeError):
        return False
    return True


def _identities(documents: Iterable[Document]) -> frozenset[tuple[str, str, str]]:
    return frozenset(map(identity_of, documents))


def _specs_without(specs: Specs, rejected: Rejected, diagnostics: tuple[Diagnostic, ...]) -> Specs:
    """Return the specs without those of rejected documents, and without references to them in the hypernode tree."""

    def is_accepted(item: GangSpec | QueueSpec | PriorityClassSpec | SchedulerSpec | UnplannedPods | _Named) -> bool:
        return item.document.identity not in rejected

    def has_accepted_parts(gang: GangSpec) -> bool:
        file, line, path = gang.document.identity
        parts = [pod.identity for pod in gang.pod_documents]
        parts += [(file, line, path[:-2]), gang.step.flow.identity] if gang.step is not None else []  # its JobTemplate
        return not any(part in rejected for part in parts)

    nodes = _first_of_each_name(filter(is_accepted, specs.nodes))
    hypernodes = _first_of_each_name(filter(is_accepted, specs.hypernodes))
    return replace(
        specs,
        gangs=tuple(filter(has_accepted_parts, filter(is_accepted, specs.gangs))),
        queues=tuple(filter(is_accepted, specs.queues)),
        priority_classes=tuple(filter(is_accepted, specs.priority_classes)),
        nodes=nodes,
        hypernodes=_with_existing_members(hypernodes, nodes),
        scheduler=specs.scheduler if specs.scheduler is not None and is_accepted(specs.scheduler) else None,
        unplanned_pods=tuple(filter(is_accepted, specs.unplanned_pods)),
        diagnostics=diagnostics,
    )


def _with_existing_members(hypernodes: Sequence[HyperNodeSpec], nodes: Iterable[NodeSpec]) -> tuple[HyperNodeSpec, ...]:
    node_names, domain_names = {node.name for node in nodes}, {h.name for h in hypernodes}
    return tuple(
        replace(
            h,
            nodes=tuple(name for name in h.nodes if name in node_names),
            hypernodes=tuple(name for name in h.hypernodes if name in domain_names),
        )
        for h in hypernodes
    )


def _first_of_each_name(items: Iterable[Named]) -> tuple[Named, ...]:
    """One of each name: a second one is an error of its document already, or of the pool that made it."""
    first: dict[str, Named] = {}
    for item in items:
        first.setdefault(item.name, item)
    return tuple(first.values())


def _sorted_by_object(items: Iterable[Spec], document_of: Callable[[Spec], Document]) -> tuple[Spec, ...]:
    def key(item: Spec) -> tuple[str, str, str, str, int]:
        document = document_of(item)
        return document.namespace or "default", document.name, document.kind, document.file, document.line

    return tuple(sorted(items, key=key))


def _sorted_naturally(items: Iterable[Named]) -> tuple[Named, ...]:
    return tuple(sorted(items, key=lambda item: (natural_sort_key(item.name), item.document.identity[:2])))
