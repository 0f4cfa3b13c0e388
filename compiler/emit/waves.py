"""All objects of a cluster with their waves: an emitter for each wave; and their YAML, in one stream or in files.

The defaults of Volcano's admission are filled in beforehand, since its mutating webhooks act on create only, and their
additions would look like drift ever after. The rules are Volcano's own (`pkg/webhooks/admission/{jobs,queues}/mutate`);
the order of new keys is that of Volcano's types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from compiler.diagnostics.guard import TakeError, guarded, raise_again
from compiler.emit import static
from compiler.emit.block import to_yaml
from compiler.emit.manifest import JOBS_WAVE, Manifest
from compiler.emit.rewrite import rewrite
from compiler.emit.scheduler_config_map import config_map
from compiler.emit.templates import add_gate, annotate, bind_by_gates, mark_pods, name_queue, name_scheduler
from compiler.kubernetes import (
    API_GROUP,
    HIERARCHY_ANNOTATION,
    HIERARCHY_WEIGHTS_ANNOTATION,
    HOSTNAME_LABEL,
    ROLE_MARK,
    ROOT_QUEUE,
)
from compiler.lower.origins import Origins
from compiler.outcome import JobDecision, Outcome
from compiler.run_kinds import RUN_KINDS, run_kind_of, runs_once
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec
from compiler.specs.node_spec import HyperNodeSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import Document, DocumentIdentity
from compiler.syntax.runs import run_digest

FOUNDATION_KINDS = (("Namespace", ""), ("PriorityClass", "scheduling.k8s.io"))
"""Kind and API group, in the order of application."""
KINDS_OF_OTHER_WAVES = frozenset(
    (
        *FOUNDATION_KINDS,
        ("Node", ""),
        ("Queue", "scheduling.volcano.sh"),
        ("NamespaceQueue", "scheduling.volcano.sh"),
        ("HyperNode", "topology.volcano.sh"),
    )
)
"""Not emitted with the other objects: their own wave emits them, or (Node) none does."""

Make = Callable[[Document], dict[str, Any]]
EmittedObjects = Iterator[tuple[Document, Make]]
"""A document and what makes its object."""


def manifests(outcome: Outcome, report: TakeError = raise_again) -> tuple[Manifest, ...]:
    """Return all objects of the cluster, in the order of application; empty without a verified plan. report: takes the
    errors of documents whose objects cannot be built."""
    return tuple(manifest for manifest, _ in manifests_with_documents(outcome, report))


def manifests_with_documents(outcome: Outcome, report: TakeError) -> Iterator[tuple[Manifest, Document]]:
    """Declarations of real things (Cluster, NodePool, Node) become no objects."""
    if not outcome.ok:
        return
    gangs = {gang.document.identity: gang for gang in outcome.specs.gangs}
    pods = {gang.document.identity: sum(role.replicas for role in gang.roles) for gang in outcome.specs.gangs}
    for wave, emitter in enumerate((_foundation, _queues, _hypernodes, _scheduler, _other_objects, _jobs)):
        for document, make in emitter(outcome):
            place, found = f"{document.file}:{document.line}", list[Manifest]()
            with guarded(document, report):
                data = make(document)
                run = run_digest(document.data) if runs_as_job(document, gangs.get(document.identity)) else ""
                found.append(Manifest(wave, data, place, run, pods.get(document.identity, 0)))
            for manifest in found:
                yield manifest, document


def runs_as_job(document: Document, gang: GangSpec | None) -> bool:
    """Return whether the document's object runs once. gang: that of the document, of a known kind, or of one that the
    Cluster declares."""
    if gang is None:
        return runs_once(document.data)
    return gang.controller.runs_once or run_kind_of(document.data) in RUN_KINDS


def _foundation(outcome: Outcome) -> EmittedObjects:
    for kind in FOUNDATION_KINDS:
        for document in _valid_documents(outcome.specs):
            if (document.kind, document.group) == kind:
                yield document, _as_written


def _queues(outcome: Outcome) -> EmittedObjects:
    for spec in _queues_parents_first(outcome.specs.queues):
        yield spec.document, _as_written if spec.namespace else _queue_object


def _as_written(document: Document) -> dict[str, Any]:
    return document.data


def _queue_object(document: Document) -> dict[str, Any]:
    data = _copy(document.data)
    fill_queue_defaults(data)
    return data


def _queues_parents_first(queues: Sequence[QueueSpec]) -> Iterator[QueueSpec]:
    children: dict[str, list[QueueSpec]] = {}
    names = {queue.name for queue in queues}
    for queue in queues:
        parent = queue.parent if queue.parent in names and queue.parent != queue.name else ""
        children.setdefault(parent, []).append(queue)

    def descendants(name: str) -> Iterator[QueueSpec]:
        for queue in children.get(name, ()):
            yield queue
            yield from descendants(queue.name)

    return descendants("")


def _hypernodes(outcome: Outcome) -> EmittedObjects:
    for spec in sorted(outcome.specs.hypernodes, key=lambda spec: spec.tier):
        yield spec.document, partial(_hypernode_object, spec)


def _hypernode_object(spec: HyperNodeSpec, document: Document) -> dict[str, Any]:
    if document.kind == "HyperNode":
        return document.data
    members = [("HyperNode", name) for name in spec.hypernodes] + [("Node", name) for name in spec.nodes]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": spec.name},
        "spec": {
            "tier": spec.tier,
            **({"tierName": spec.tier_name} if spec.tier_name else {}),
            "members": [{"type": kind, "selector": {"exactMatch": {"name": name}}} for kind, name in members],
        },
    }


def _scheduler(outcome: Outcome) -> EmittedObjects:
    scheduler = outcome.specs.scheduler
    if scheduler is not None and scheduler.is_emitted:
        gates = outcome.specs.cluster.binding == "gated"
        yield scheduler.document, lambda _: config_map(scheduler, gated=gates)


def _other_objects(outcome: Outcome) -> EmittedObjects:
    emitted = {document.identity for document in _documents_of_other_waves(outcome.specs)}
    gated_templates = _gated_templates(outcome)
    for document in _valid_documents(outcome.specs):
        if (
            document.group == API_GROUP
            or (document.kind, document.group) in KINDS_OF_OTHER_WAVES
            or document.identity in emitted
        ):
            continue
        if document.identity in gated_templates:
            yield document, _gated_template
        else:
            yield document, _passed_object


def _passed_object(document: Document) -> dict[str, Any]:
    """Runs are looked up by their names, with the namespace that they get."""
    return _with_namespace(document) if runs_once(document.data) else document.data


def _gated_templates(outcome: Outcome) -> set[DocumentIdentity]:
    """Return the JobTemplates of steps whose pods are to wait for their nodes."""
    if outcome.specs.cluster.binding != "gated":
        return set()
    schedulable = (gang for gang in outcome.specs.gangs if gang.scheduling.schedulable)
    steps = (gang.document for gang in schedulable if gang.step is not None)
    return {(step.file, step.line, step.item_path[:-2]) for step in steps}


def _gated_template(document: Document) -> dict[str, Any]:
    data = _copy(document.data)
    for task in data["spec"]["tasks"]:
        add_gate(task["template"]["spec"])
    return data


def _documents_of_other_waves(specs: Specs) -> Iterator[Document]:
    for gang in specs.gangs:
        yield gang.document
        for role in gang.roles:
            yield from role.pod_documents
    if specs.scheduler is not None:
        yield specs.scheduler.document


def _valid_documents(specs: Specs) -> tuple[Document, ...]:
    """Return the documents without errors: nothing else is ever emitted."""
    broken = {d.object for d in specs.diagnostics if d.severity == "error"}
    if not broken:
        return specs.documents
    return tuple(document for document in specs.documents if document.display_name not in broken)


def _jobs(outcome: Outcome) -> EmittedObjects:
    specs, hostnames = outcome.specs, _hostnames(outcome.origins)
    gates = specs.cluster.binding == "gated"
    for decision in outcome.decisions:
        if decision.gang.step is not None or static.is_withheld(specs, decision):
            continue
        yield decision.gang.document, partial(_job_object, specs, decision, hostnames)
        for role in decision.gang.roles:
            for pod in role.pod_documents:
                yield pod, partial(_bare_pod, role.name if gates and decision.gang.scheduling.schedulable else "")


def job_object(specs: Specs, decision: JobDecision, origins: Origins | None) -> dict[str, Any]:
    """Return the object of one job, bound as decided. origins: of the plan's nodes."""
    return _job_object(specs, decision, _hostnames(origins), decision.gang.document)


def _hostnames(origins: Origins | None) -> dict[str, str]:
    """Node name -> value of its hostname label."""
    nodes = () if origins is None else origins.nodes
    return {node.name: node.labels.get(HOSTNAME_LABEL, node.name) for node in nodes}


def _job_object(specs: Specs, decision: JobDecision, hostnames: dict[str, str], document: Document) -> dict[str, Any]:
    gang, data = decision.gang, _with_namespace(document)
    if (document.kind, document.group) == ("Job", "batch.volcano.sh"):
        fill_job_defaults(data, specs.cluster.default_queue)
    if gang.scheduling.schedulable and specs.cluster.binding == "gated":
        bind_by_gates(data, decision)
    elif gang.scheduling.schedulable:
        static.bind(data, decision, hostnames)
    if gang.controller.writes_scheduler:
        name_scheduler(data, gang)
    mark_pods(data, gang)
    if gang.scheduling.is_bound:
        name_queue(data, gang)
    return data


def _bare_pod(role: str, document: Document) -> dict[str, Any]:
    """Return a pod of a PodGroup. role: with which it waits for its node, "" where it does not."""
    data = _with_namespace(document)
    if role:
        add_gate(data["spec"])
        annotate(data, ROLE_MARK, role)
    return data


def _with_namespace(document: Document) -> dict[str, Any]:
    """Return a copy of the document's object that names its namespace."""
    data = _copy(document.data)
    if not data["metadata"].get("namespace"):
        data["metadata"]["namespace"] = "default"
    return data


def _copy(data: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy of a document's data; the target of an alias is copied in each place."""
    return {key: _copy_of_value(value) if isinstance(value, _COLLECTIONS) else value for key, value in data.items()}


_COLLECTIONS = (dict, list)


def _copy_of_value(value: Any) -> Any:
    if isinstance(value, dict):
        return _copy(value)
    return [_copy_of_value(item) for item in value] if isinstance(value, list) else value


WAVE_NAMES = ("foundation", "queues", "hypernodes", "scheduler", "others", "jobs")
"""Name of each wave, by number."""


ManifestSource = tuple[Manifest, Document]
WriteAhead = Callable[[Sequence[ManifestSource]], Mapping[int, str]]
"""Given all manifests with their documents: the texts, by their number, of those written in other processes too,
perhaps none."""


def manifest_texts(
    outcome: Outcome, report: TakeError = raise_again, ahead: WriteAhead | None = None
) -> tuple[tuple[Manifest, str], ...]:
    """Return every manifest with its YAML text: one document, ending in a newline. report: as in `manifests`. ahead:
    writes many at once."""
    made, found = tuple(manifests_with_documents(outcome, report)), []
    known = ahead(made) if ahead is not None else {}
    for number, (manifest, document) in enumerate(made):
        with guarded(document, report):
            found.append((manifest, known[number] if number in known else manifest_text(manifest, document)))
    return tuple(found)


def manifest_text(manifest: Manifest, document: Document) -> str:
    """Return the manifest's text: the user's own where the object is the user's, else our own style."""
    own = document.kind != manifest.object["kind"]
    return to_yaml(manifest.object) if own else rewrite(document, manifest.object)


def namespace_texts(texts: tuple[tuple[Manifest, str], ...]) -> tuple[tuple[Manifest, str], ...]:
    """Return a Namespace for each namespace of the objects, except those declared among them and those of every
    cluster."""
    objects = [manifest.object for manifest, _ in texts]
    there = {found["metadata"]["name"] for found in objects if found["kind"] == "Namespace"} | {"default"}
    needed = {namespace for found in objects if (namespace := found["metadata"].get("namespace"))} - there
    made = []
    for name in sorted(needed):
        found = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        made.append((Manifest(0, found, ""), to_yaml(found)))
    return tuple(made)


def stream_text(texts: tuple[tuple[Manifest, str], ...]) -> str:
    return "---\n".join(text for _, text in texts)


def texts_by_file(texts: tuple[tuple[Manifest, str], ...]) -> Mapping[str, str]:
    """Relative file name -> text. kubectl applies a folder by name, so the names keep the order of the waves; jobs have
    a file each."""
    files: dict[str, list[str]] = {}
    for manifest, text in texts:
        metadata = manifest.object["metadata"]
        name = f"{manifest.wave}-{WAVE_NAMES[manifest.wave]}"
        if manifest.wave == JOBS_WAVE:
            name += f"/{metadata['namespace']}/{metadata['name']}.{manifest.object['kind'].lower()}"
        files.setdefault(f"{name}.yaml", []).append(text)
    return {name: "---\n".join(texts) for name, texts in files.items()}


MAX_RETRY = 3
PLUGINS_NEEDING_SVC = ("tensorflow", "mpi", "pytorch", "ray")
PLUGINS_NEEDING_SSH = ("mpi",)


def fill_job_defaults(data: dict[str, Any], default_queue: str) -> None:
    """Volcano Job, in place: queue, schedulerName, maxRetry, plugins, and each task's name, minAvailable, maxRetry and
    dnsPolicy."""
    spec = data["spec"]
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "volcano"
    if not spec.get("queue"):
        spec["queue"] = default_queue
    if not spec.get("maxRetry"):
        spec["maxRetry"] = MAX_RETRY
    for at, task in enumerate(spec.get("tasks") or ()):
        _fill_task_defaults(task, at)
    if not spec.get("minAvailable"):
        spec["minAvailable"] = sum(task["minAvailable"] for task in spec.get("tasks") or ())
    plugins = spec.get("plugins")
    if plugins:
        for needed, by in (("svc", PLUGINS_NEEDING_SVC), ("ssh", PLUGINS_NEEDING_SSH)):
            if needed not in plugins and any(name in plugins for name in by):
                plugins[needed] = []


def _fill_task_defaults(task: dict[str, Any], index: int) -> None:
    if not task.get("name"):
        task["name"] = f"default{index}"
    if task.get("minAvailable") is None:
        parts = task.get("partitionPolicy") or {}
        task["minAvailable"] = (
            (parts.get("minPartitions") or 0) * (parts.get("partitionSize") or 0) or task.get("replicas") or 0
        )
    if not task.get("maxRetry"):
        task["maxRetry"] = MAX_RETRY
    pod = task["template"]["spec"]
    if pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"


def fill_queue_defaults(data: dict[str, Any]) -> None:
    """Volcano Queue, in place: weight, reclaimable, parent, and the root of a hierarchy in annotations."""
    spec = data.get("spec")
    if not isinstance(spec, dict):
        spec = data["spec"] = {}
    if not spec.get("weight"):
        spec["weight"] = 1
    if spec.get("reclaimable") is None:
        spec["reclaimable"] = True
    if data["metadata"]["name"] != ROOT_QUEUE and not spec.get("parent"):
        spec["parent"] = ROOT_QUEUE
    notes = data["metadata"].get("annotations") or {}
    path, weights = notes.get(HIERARCHY_ANNOTATION), notes.get(HIERARCHY_WEIGHTS_ANNOTATION)
    if path and weights and not path.startswith(ROOT_QUEUE):
        notes |= {HIERARCHY_ANNOTATION: f"{ROOT_QUEUE}/{path}", HIERARCHY_WEIGHTS_ANNOTATION: f"1/{weights}"}
