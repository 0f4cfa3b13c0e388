"""Emitting: the plan as Kubernetes objects, in the order in which they must be applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

from compiler.emit import admission, gated, static
from compiler.emit.block import to_yaml
from compiler.emit.rewrite import rewrite
from compiler.emit.scheduler import config_map
from compiler.kubernetes import API_GROUP, HOSTNAME_LABEL
from compiler.outcome import JobDecision, Manifest, Outcome
from compiler.specs import HyperNodeSpec, QueueSpec, Specs
from compiler.syntax.documents import Document

FOUNDATION_KINDS = ("Namespace", "PriorityClass")
WAVE_NAMES = ("foundation", "queues", "hypernodes", "scheduler", "others", "jobs")
"""Name of each wave, by number."""


def manifests(outcome: Outcome) -> tuple[Manifest, ...]:
    """Every object of the cluster; declarations of real things (Cluster, NodePool, Node) are none."""
    specs = outcome.specs
    made: list[Manifest] = []
    for wave, emitter in enumerate((_foundation, _queues, _hypernodes, _scheduler, _other_objects, _jobs)):
        made += [Manifest(wave, data, document, write) for data, write, document in emitter(outcome, specs)]
    return tuple(made)


EmittedObjects = Iterator[tuple[dict[str, Any], Callable[[], str], Document]]
"""Object, what writes it as YAML, and where it came from."""


def _foundation(outcome: Outcome, specs: Specs) -> EmittedObjects:
    sound = _valid_documents(specs)
    for kind in FOUNDATION_KINDS:
        for document in sound:
            if document.kind == kind:
                yield document.data, partial(rewrite, document, document.data), document


def _queues(outcome: Outcome, specs: Specs) -> EmittedObjects:
    for spec in _queues_parents_first(specs.queues):
        data = deepcopy(spec.document.data)
        admission.fill_queue_defaults(data)
        yield data, partial(rewrite, spec.document, data), spec.document


def _queues_parents_first(queues: Sequence[QueueSpec]) -> Iterator[QueueSpec]:
    children: dict[str, list[QueueSpec]] = {}
    names = {queue.name for queue in queues}
    for queue in queues:
        children.setdefault(queue.parent if queue.parent in names and queue.parent != queue.name else "", []).append(
            queue
        )

    def below(name: str) -> Iterator[QueueSpec]:
        for queue in children.get(name, ()):
            yield queue
            yield from below(queue.name)

    return below("")


def _hypernodes(outcome: Outcome, specs: Specs) -> EmittedObjects:
    for spec in sorted(specs.hypernodes, key=lambda spec: spec.tier):
        if spec.document.kind == "HyperNode":
            yield spec.document.data, partial(rewrite, spec.document, spec.document.data), spec.document
        else:
            data = _hypernode_object(spec)
            yield data, partial(to_yaml, data), spec.document


def _hypernode_object(spec: HyperNodeSpec) -> dict[str, Any]:
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


def _scheduler(outcome: Outcome, specs: Specs) -> EmittedObjects:
    if specs.scheduler is not None:
        data = config_map(specs.scheduler, gated=specs.cluster.binding == "gated")
        document = specs.scheduler.document
        yield (
            data,
            partial(rewrite, document, data) if document.kind == "ConfigMap" else partial(to_yaml, data),
            document,
        )


def _other_objects(outcome: Outcome, specs: Specs) -> EmittedObjects:
    claimed = {document.identity for document in _documents_of_other_waves(specs)}
    for document in _valid_documents(specs):
        passes = document.group != API_GROUP and document.kind not in (
            *FOUNDATION_KINDS,
            "Node",
            "Queue",
            "HyperNode",
        )
        if passes and document.identity not in claimed:
            yield document.data, partial(rewrite, document, document.data), document


def _documents_of_other_waves(specs: Specs) -> Iterator[Document]:
    """Documents that another wave emits."""
    for gang in specs.gangs:
        yield gang.document
        for role in gang.roles:
            yield from role.pod_documents
    if specs.scheduler is not None:
        yield specs.scheduler.document


def _valid_documents(specs: Specs) -> tuple[Document, ...]:
    """Nothing with an error is ever emitted."""
    broken = {d.object for d in specs.diagnostics if d.severity == "error"}
    return tuple(document for document in specs.documents if document.display_name not in broken)


def _jobs(outcome: Outcome, specs: Specs) -> EmittedObjects:
    hostnames = (
        {node.name: node.labels.get(HOSTNAME_LABEL, node.name) for node in outcome.origins.nodes}
        if outcome.origins
        else {}
    )
    bind: Callable[[dict[str, Any], JobDecision], None]
    if specs.cluster.binding == "gated":
        bind = gated.bind
    else:

        def bind(data: dict[str, Any], decided: JobDecision) -> None:
            static.bind(data, decided, hostnames)

    for decided in outcome.decisions:
        if static.is_withheld(specs, decided):
            continue
        document = decided.gang.document
        data = deepcopy(document.data)
        if not data["metadata"].get("namespace"):
            data["metadata"]["namespace"] = "default"
        if (document.kind, document.group) == ("Job", "batch.volcano.sh"):
            admission.fill_job_defaults(data, specs.cluster.default_queue)
        if decided.gang.schedulable:
            bind(data, decided)
        yield data, partial(rewrite, document, data), document
        for role in decided.gang.roles:
            for pod in role.pod_documents:
                yield from _bare_pod(pod, decided, specs)


def _bare_pod(document: Document, decision: JobDecision, specs: Specs) -> EmittedObjects:
    """A bare pod of a pod group."""
    data = deepcopy(document.data)
    if not data["metadata"].get("namespace"):
        data["metadata"]["namespace"] = "default"
    if specs.cluster.binding == "gated" and decision.gang.schedulable:
        gated.add_gate(data["spec"])
    yield data, partial(rewrite, document, data), document


def texts_by_file(objects: Sequence[Manifest]) -> Mapping[str, str]:
    """Relative file name -> text. kubectl applies a folder by name, so the names keep the order of the waves; jobs have
    a file each."""
    files: dict[str, list[str]] = {}
    for manifest in objects:
        metadata = manifest.object["metadata"]
        name = f"{manifest.wave}-{WAVE_NAMES[manifest.wave]}"
        if WAVE_NAMES[manifest.wave] == "jobs":
            name += f"/{metadata['namespace']}/{metadata['name']}.{manifest.object['kind'].lower()}"
        files.setdefault(f"{name}.yaml", []).append(manifest.text)
    return {name: "---\n".join(texts) for name, texts in files.items()}
