"""A repository's tree to specs: read every file, fit every document to its kind, run the checks, and keep what is
right.

Nothing here raises for what a repository holds. All problems are collected; a document with an error stays in
`Specs.documents` only, so that a bad job never takes the good ones down with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from compiler.checks import Reading, checks
from compiler.diagnostics import Diagnostic, Position, did_you_mean, in_order, rule
from compiler.fields.models import fit, review_metadata
from compiler.kinds import kinds
from compiler.repository import CLUSTERS, JOBS, MISPLACED, SUFFIXES, Tree, bad_name, shown
from compiler.specs import (
    ClusterSpec,
    GangSpec,
    HyperNodeSpec,
    NodeSpec,
    NumaTopologySpec,
    PriorityClassSpec,
    QueueSpec,
    SchedulerSpec,
    Specs,
)
from compiler.specs.drafts import HyperNodeDraft, PodDraft, PodGroupDraft
from compiler.specs.hypernode_tree import resolve
from compiler.specs.pod_groups import assemble
from compiler.syntax.documents import Document
from compiler.syntax.parse import parse
from compiler.volcano.numatopology import with_numa

EMPTY = rule(
    "GP124",
    "error",
    "empty repository",
    "There is nothing to plan: no YAML file under cluster-specs/<cluster>/ or jobs/. Mend: `gangplan init` writes a small example to start from.",
)
SEVERAL = rule(
    "GP125",
    "error",
    "several clusters and none chosen",
    "The repository holds more than one folder under cluster-specs/. Mend: name one with --cluster.",
)
NO_SUCH_CLUSTER = rule(
    "GP126",
    "error",
    "unknown cluster",
    "The chosen cluster is no folder of cluster-specs/ and no Cluster object. Mend: correct the name.",
)
TWO_CLUSTERS = rule(
    "GP127", "error", "two Cluster objects", "A folder describes one cluster. Mend: remove one of the two objects."
)
WRONG_VERSION = rule(
    "GP212",
    "error",
    "unknown version of a kind",
    "The kind is known, but not in this version. Mend: write the apiVersion that the message names.",
)
NOT_PLANNED = rule(
    "GP213",
    "info",
    "kind that is not planned",
    "The object runs pods, but gangplan does not plan its kind: it is passed through, and its pods take room that the plan does not know of.",
)
UNKNOWN_KIND = rule(
    "GP216",
    "error",
    "unknown kind",
    "No kind of this name exists in the API group. Mend: correct the spelling or the apiVersion.",
)

_RUNS_PODS = """
    Deployment StatefulSet DaemonSet ReplicaSet ReplicationController CronJob TFJob MPIJob XGBoostJob PaddleJob JAXJob ElasticJob RayJob
    RayCluster RayService SparkApplication ScheduledSparkApplication JobSet LeaderWorkerSet TrainJob JobFlow Pod
"""
RUNS_PODS = frozenset(_RUNS_PODS.split())
PASSED: dict[str, frozenset[str]] = {
    "gangplan.dev": frozenset(),
    "batch.volcano.sh": frozenset(("CronJob",)),
    "scheduling.volcano.sh": frozenset(),
    "topology.volcano.sh": frozenset(),
    "kubeflow.org": frozenset(("TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob")),
    "batch": frozenset(("CronJob",)),
    "scheduling.k8s.io": frozenset(("Workload",)),
}
"""API groups that we know in full, and their kinds beside our own."""

Spec = TypeVar("Spec")


@dataclass(slots=True)
class _Found:
    """What the documents say, before the checks. bad: identities of documents with an error, by the reader or the
    model."""

    documents: list[Document] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    models: list[tuple[Document, Any]] = field(default_factory=list)
    pieces: list[object] = field(default_factory=list)
    bad: dict[tuple[Any, ...], Document] = field(default_factory=dict)

    def of(self, kind: type[Spec]) -> list[Spec]:
        return [piece for piece in self.pieces if isinstance(piece, kind)]


def read_specs(tree: Tree, cluster: str | None = None) -> Specs:
    """Everything the tree says about one cluster, with every problem as a diagnostic, sorted by position.

    cluster: a folder of cluster-specs/ or the name of the Cluster object in one; needed only when there are several.
    """
    found = _Found()
    found.diagnostics += tree.problems
    folder = _choose(tree, cluster, found)
    if folder is None and found.diagnostics[len(tree.problems) :]:
        return _nothing(cluster or "", found)
    for file in sorted(tree.files):
        if file.endswith(SUFFIXES) and (
            file.startswith(f"{JOBS}/") or (folder and file.startswith(f"{CLUSTERS}/{folder}/"))
        ):
            _read_file(file, tree.files[file], found)
        elif file.startswith(f"{CLUSTERS}/") and file.count("/") == 1 and file.endswith(SUFFIXES):
            help = "move it into cluster-specs/<cluster>/"
            found.diagnostics.append(
                MISPLACED.at(Position(shown(file), 1, 1), "the file is in no cluster's folder and is not read", help)
            )
    chosen = _cluster(folder or cluster or "", found)
    if folder is None and cluster is None and not found.documents and not found.diagnostics:
        message = "there is no YAML file under cluster-specs/<cluster>/ or jobs/"
        found.diagnostics.append(
            EMPTY.at(Position(CLUSTERS, 1, 1), message, "run `gangplan init` for an example to start from")
        )
        return _nothing("", found)
    return _checked(chosen, found)


def _nothing(name: str, found: _Found) -> Specs:
    """Specs that hold the problems alone: without a cluster, every check would only repeat that it is missing."""
    return Specs(_cluster(name, found), (), (), (), (), (), (), None, in_order(found.diagnostics))


def _choose(tree: Tree, cluster: str | None, found: _Found) -> str | None:
    """The folder to read, None when there is none (a repository of jobs alone, or a choice that is left to the user)."""
    folders = tree.clusters()
    if cluster is None:
        if len(folders) > 1:
            message = f"the repository holds {len(folders)} clusters: {', '.join(folders)}"
            found.diagnostics.append(SEVERAL.at(Position(CLUSTERS, 1, 1), message, "name one with --cluster"))
        return folders[0] if len(folders) == 1 else None
    if cluster in folders:
        return cluster
    names = {name: folder for folder in folders for name in _cluster_names(tree, folder)}
    if cluster in names:
        return names[cluster]
    near = did_you_mean(cluster, [*folders, *names])
    help = (
        f"did you mean {near!r}?" if near else f"the clusters are {', '.join(folders)}" if folders else "add the folder"
    )
    found.diagnostics.append(NO_SUCH_CLUSTER.at(Position(CLUSTERS, 1, 1), f"there is no cluster {cluster!r}", help))
    return None


def _cluster_names(tree: Tree, folder: str) -> list[str]:
    prefix = f"{CLUSTERS}/{folder}/"
    files = [file for file in sorted(tree.files) if file.startswith(prefix) and file.endswith(SUFFIXES)]
    documents = [document for file in files for document, _ in parse(file, tree.files[file]).documents]
    return [document.name for document in documents if document.kind == "Cluster" and document.group == "gangplan.dev"]


def _read_file(file: str, content: bytes, found: _Found) -> None:
    if (problem := bad_name(file)) is not None:
        found.diagnostics.append(problem)
        return
    parsed = parse(file, content)
    found.diagnostics += parsed.diagnostics
    for document, failed in parsed.documents:
        found.documents.append(document)
        problems = _understand(document, failed, found)
        found.diagnostics += problems
        if failed or any(problem.severity == "error" for problem in problems):
            found.bad[document.identity] = document


def _understand(document: Document, failed: bool, found: _Found) -> list[Diagnostic]:
    """Fit a document to its kind and take what it says; the problems of doing so."""
    general = list(review_metadata(document, document.data["metadata"], ("metadata",)))
    kind = kinds().get(f"{document.kind}.{document.group}")
    if kind is None:
        return [*general, *_other(document)]
    if document.api_version.rpartition("/")[2] not in kind.versions:
        return [
            WRONG_VERSION.at(
                document.at("apiVersion"),
                f"{document.api_version} is not known",
                f"write {kind.api_version}",
                object=document.label,
            )
        ]
    model, problems = fit(document, kind.model)
    problems += general
    if kind.review is not None:
        problems += kind.review(document)
    if model is not None and not failed and not any(problem.severity == "error" for problem in problems):
        found.models.append((document, model))
        found.pieces += kind.specs(document, model)
    return problems


def _other(document: Document) -> list[Diagnostic]:
    """A kind that is not ours: nearly one of ours is a mistake, one that runs pods is worth a word, all others pass."""
    group, kind = document.group, document.kind
    if group in PASSED and kind not in PASSED[group]:
        known = sorted({found.name for found in kinds().values() if found.group == group} | PASSED[group])
        near = did_you_mean(kind, known)
        if near or group == "gangplan.dev":
            help = f"did you mean {near!r}?" if near else f"the kinds are {', '.join(known)}"
            return [UNKNOWN_KIND.at(document.at("kind"), f"{group} has no kind {kind!r}", help, object=document.label)]
    homes = sorted(
        f"{found.api_version}"
        for found in kinds().values()
        if found.name == kind and kind not in ("Job", "Node", "Pod", "Queue")
    )
    if homes and group.endswith((".volcano.sh", "gangplan.dev", "kubeflow.org", "scheduling.k8s.io")):
        return [
            UNKNOWN_KIND.at(
                document.at("apiVersion"),
                f"{group} has no kind {kind!r}",
                f"write apiVersion: {homes[0]}",
                object=document.label,
            )
        ]
    if kind in RUNS_PODS:
        message = f"{kind} is passed through unplanned"
        return [
            NOT_PLANNED.at(
                document.at("kind"),
                message,
                "leave room for its pods, or express it as a kind that is planned",
                object=document.label,
            )
        ]
    return []


def _cluster(name: str, found: _Found) -> ClusterSpec:
    """The Cluster that the documents hold, else an empty one of the folder's name."""
    written = found.of(ClusterSpec)
    for other in written[1:]:
        see = written[0].document.at("metadata", "name")
        message = f"{written[0].document.label} describes this cluster already"
        found.diagnostics.append(
            TWO_CLUSTERS.at(
                other.document.at("metadata", "name"), message, "remove one", object=other.document.label, see=see
            )
        )
        found.bad[other.document.identity] = other.document
    if written:
        return written[0]
    data = {"apiVersion": "gangplan.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}
    return ClusterSpec(Document(f"{CLUSTERS}/{name}" if name else CLUSTERS, 1, "", data, {}), name)


def _checked(cluster: ClusterSpec, found: _Found) -> Specs:
    """Run the checks on everything, then leave out what they object to, and what depends on it."""
    nodes = with_numa(found.of(NodeSpec), found.of(NumaTopologySpec))
    hypernodes, tree = resolve(found.of(HyperNodeDraft), found.of(HyperNodeSpec), nodes)
    pods = found.of(PodDraft)
    said = [*found.of(GangSpec), *assemble(found.of(PodGroupDraft), pods)]
    gangs = [gang if gang.queue else replace(gang, queue=cluster.default_queue) for gang in said]
    schedulers = found.of(SchedulerSpec)
    everything = Specs(
        cluster=cluster,
        documents=_sorted(found.documents, lambda document: document),
        gangs=_sorted(gangs, lambda gang: gang.document),
        queues=_sorted(found.of(QueueSpec), lambda queue: queue.document),
        priority_classes=_sorted(found.of(PriorityClassSpec), lambda found: found.document),
        nodes=tuple(sorted(nodes, key=lambda node: (natural(node.name), node.document.identity[:2]))),
        hypernodes=tuple(sorted(hypernodes, key=lambda h: (natural(h.name), h.document.identity[:2]))),
        scheduler=schedulers[0] if schedulers else None,
        diagnostics=(),
    )
    reading = Reading(
        everything,
        tuple(found.models),
        frozenset(),
        tuple(tree),
        tuple(pods),
        tuple(schedulers),
        {k.key: k.namespaced for k in kinds().values()},
    )
    bad = dict(found.bad)
    diagnostics = list(found.diagnostics)
    _run(replace(reading, broken=_identities(bad.values())), bad, diagnostics)
    return _without(everything, bad, in_order(diagnostics))


def _run(reading: Reading, bad: dict[tuple[Any, ...], Document], diagnostics: list[Diagnostic]) -> None:
    """All checks once; then the one on dependencies again and again, until nothing more falls with what has fallen."""
    for check in checks():
        for document, diagnostic in check.run(reading):
            diagnostics.append(diagnostic)
            if diagnostic.severity == "error":
                bad.setdefault(document.identity, document)
    (dependencies,) = (check for check in checks() if check.rule.code == "GP354")
    grown = -1
    while grown != len(bad):
        grown = len(bad)
        reading = replace(reading, broken=_identities(bad.values()))
        for document, diagnostic in dependencies.run(reading):
            if document.identity not in bad:
                bad[document.identity] = document
                diagnostics.append(diagnostic)


def _identities(documents: Iterable[Document]) -> frozenset[tuple[str, str, str]]:
    return frozenset((f"{d.kind}.{d.group}", d.namespace or "default", d.name) for d in documents)


def _without(specs: Specs, bad: dict[tuple[Any, ...], Document], diagnostics: tuple[Diagnostic, ...]) -> Specs:
    def good(piece: Any) -> bool:
        return piece.document.identity not in bad

    nodes = _first_of_name(filter(good, specs.nodes))
    known = {node.name for node in nodes}
    kept = _first_of_name(filter(good, specs.hypernodes))
    domains = {h.name for h in kept}
    hypernodes = tuple(
        replace(
            h, nodes=tuple(n for n in h.nodes if n in known), hypernodes=tuple(n for n in h.hypernodes if n in domains)
        )
        for h in kept
    )
    return replace(
        specs,
        cluster=specs.cluster,
        gangs=tuple(
            g for g in specs.gangs if good(g) and not any(pod.identity in bad for role in g.roles for pod in role.pods)
        ),
        queues=tuple(filter(good, specs.queues)),
        priority_classes=tuple(filter(good, specs.priority_classes)),
        nodes=nodes,
        hypernodes=hypernodes,
        scheduler=specs.scheduler if specs.scheduler is not None and good(specs.scheduler) else None,
        diagnostics=diagnostics,
    )


def _first_of_name(items: Iterable[Spec]) -> tuple[Spec, ...]:
    """One of each name: a second one is an error of its document already, or of the pool that made it."""
    kept: dict[str, Spec] = {}
    for item in items:
        kept.setdefault(item.name, item)  # type: ignore[attr-defined]  # nodes and hypernodes, both of which have names
    return tuple(kept.values())


def _sorted(items: Sequence[Spec], document: Callable[[Spec], Document]) -> tuple[Spec, ...]:
    def key(item: Spec) -> tuple[str, str, str, str, int]:
        found = document(item)
        return found.namespace or "default", found.name, found.kind, found.file, found.line

    return tuple(sorted(items, key=key))


def natural(name: str) -> tuple[tuple[int, str | int], ...]:
    """An order in which node-2 comes before node-10."""
    return tuple(
        (1, int(part)) if part.isdigit() and part.isascii() else (0, part)
        for part in re.split(r"([0-9]+)", name)
        if part
    )
