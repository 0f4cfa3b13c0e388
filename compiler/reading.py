"""A repository's tree to specs: read every file, fit every document to its kind, run the checks, and keep what is
right.

Nothing here raises for what a repository holds. All problems are collected; a document with an error stays in
`Specs.documents` only, so that a bad job never takes the good ones down with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from compiler.checks import CheckInput, all_checks
from compiler.diagnostics import Diagnostic, Position, declare_rule, did_you_mean, sorted_diagnostics
from compiler.fields.models import metadata_diagnostics, validate_document
from compiler.fields.natural_order import natural_sort_key
from compiler.kinds import kinds
from compiler.repository import (
    CLUSTERS_FOLDER,
    FILE_SUFFIXES,
    JOBS_FOLDER,
    MISPLACED_FILE,
    Repository,
    file_name_diagnostic,
    printable_name,
)
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
from compiler.specs.hypernode_tree import resolve_hypernodes
from compiler.specs.pod_groups import pod_group_gangs
from compiler.syntax.documents import Document
from compiler.syntax.parse import parse_file
from compiler.volcano.numatopology import with_numa_topologies

EMPTY_REPOSITORY = declare_rule(
    "GP124",
    "error",
    "empty repository",
    "There is nothing to plan: no YAML file under cluster-specs/<cluster>/ or jobs/. Mend: `gangplan init` writes a small example to start from.",
)
SEVERAL_CLUSTERS = declare_rule(
    "GP125",
    "error",
    "several clusters and none chosen",
    "The repository holds more than one folder under cluster-specs/. Mend: name one with --cluster.",
)
NO_SUCH_CLUSTER = declare_rule(
    "GP126",
    "error",
    "unknown cluster",
    "The chosen cluster is no folder of cluster-specs/ and no Cluster object. Mend: correct the name.",
)
TWO_CLUSTERS = declare_rule(
    "GP127", "error", "two Cluster objects", "A folder describes one cluster. Mend: remove one of the two objects."
)
WRONG_VERSION = declare_rule(
    "GP212",
    "error",
    "unknown version of a kind",
    "The kind is known, but not in this version. Mend: write the apiVersion that the message names.",
)
KIND_NOT_PLANNED = declare_rule(
    "GP213",
    "info",
    "kind that is not planned",
    "The object runs pods, but gangplan does not plan its kind: it is passed through, and its pods take room that the plan does not know of.",
)
UNKNOWN_KIND = declare_rule(
    "GP216",
    "error",
    "unknown kind",
    "No kind of this name exists in the API group. Mend: correct the spelling or the apiVersion.",
)

_POD_RUNNING_KINDS = """
    Deployment StatefulSet DaemonSet ReplicaSet ReplicationController CronJob TFJob MPIJob XGBoostJob PaddleJob JAXJob ElasticJob RayJob
    RayCluster RayService SparkApplication ScheduledSparkApplication JobSet LeaderWorkerSet TrainJob JobFlow Pod
"""
POD_RUNNING_KINDS = frozenset(_POD_RUNNING_KINDS.split())
UNPLANNED_KINDS: dict[str, frozenset[str]] = {
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
class _ReadState:
    """What the documents say, before the checks. bad: identities of documents with an error, by the reader or the
    model."""

    documents: list[Document] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    models: list[tuple[Document, Any]] = field(default_factory=list)
    spec_items: list[object] = field(default_factory=list)
    failed_documents: dict[tuple[Any, ...], Document] = field(default_factory=dict)

    def specs_of(self, kind: type[Spec]) -> list[Spec]:
        return [piece for piece in self.spec_items if isinstance(piece, kind)]


def read_specs(tree: Repository, cluster: str | None = None) -> Specs:
    """Everything the tree says about one cluster, with every problem as a diagnostic, sorted by position.

    cluster: a folder of cluster-specs/ or the name of the Cluster object in one; needed only when there are several.
    """
    found = _ReadState()
    found.diagnostics += tree.problems
    folder = _choose_folder(tree, cluster, found)
    if folder is None and found.diagnostics[len(tree.problems) :]:
        return _empty_specs(cluster or "", found)
    for file in sorted(tree.files):
        if file.endswith(FILE_SUFFIXES) and (
            file.startswith(f"{JOBS_FOLDER}/") or (folder and file.startswith(f"{CLUSTERS_FOLDER}/{folder}/"))
        ):
            _read_file(file, tree.files[file], found)
        elif file.startswith(f"{CLUSTERS_FOLDER}/") and file.count("/") == 1 and file.endswith(FILE_SUFFIXES):
            help = "move it into cluster-specs/<cluster>/"
            found.diagnostics.append(
                MISPLACED_FILE.diagnostic(
                    Position(printable_name(file), 1, 1), "the file is in no cluster's folder and is not read", help
                )
            )
    chosen = _cluster_spec(folder or cluster or "", found)
    if folder is None and cluster is None and not found.documents and not found.diagnostics:
        message = "there is no YAML file under cluster-specs/<cluster>/ or jobs/"
        found.diagnostics.append(
            EMPTY_REPOSITORY.diagnostic(
                Position(CLUSTERS_FOLDER, 1, 1), message, "run `gangplan init` for an example to start from"
            )
        )
        return _empty_specs("", found)
    return _run_checks_on_specs(chosen, found)


def _empty_specs(name: str, found: _ReadState) -> Specs:
    """Specs that hold the problems alone: without a cluster, every check would only repeat that it is missing."""
    return Specs(_cluster_spec(name, found), (), (), (), (), (), (), None, sorted_diagnostics(found.diagnostics))


def _choose_folder(tree: Repository, cluster: str | None, found: _ReadState) -> str | None:
    """The folder to read, None when there is none (a repository of jobs alone, or a choice that is left to the user)."""
    folders = tree.cluster_folders()
    if cluster is None:
        if len(folders) > 1:
            message = f"the repository holds {len(folders)} clusters: {', '.join(folders)}"
            found.diagnostics.append(
                SEVERAL_CLUSTERS.diagnostic(Position(CLUSTERS_FOLDER, 1, 1), message, "name one with --cluster")
            )
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
    found.diagnostics.append(
        NO_SUCH_CLUSTER.diagnostic(Position(CLUSTERS_FOLDER, 1, 1), f"there is no cluster {cluster!r}", help)
    )
    return None


def _cluster_names(tree: Repository, folder: str) -> list[str]:
    prefix = f"{CLUSTERS_FOLDER}/{folder}/"
    files = [file for file in sorted(tree.files) if file.startswith(prefix) and file.endswith(FILE_SUFFIXES)]
    documents = [document for file in files for document, _ in parse_file(file, tree.files[file]).documents]
    return [document.name for document in documents if document.kind == "Cluster" and document.group == "gangplan.dev"]


def _read_file(file: str, content: bytes, found: _ReadState) -> None:
    if (problem := file_name_diagnostic(file)) is not None:
        found.diagnostics.append(problem)
        return
    parsed = parse_file(file, content)
    found.diagnostics += parsed.diagnostics
    for document, failed in parsed.documents:
        found.documents.append(document)
        problems = _collect_specs(document, failed, found)
        found.diagnostics += problems
        if failed or any(problem.severity == "error" for problem in problems):
            found.failed_documents[document.identity] = document


def _collect_specs(document: Document, failed: bool, found: _ReadState) -> list[Diagnostic]:
    """Fit a document to its kind and take what it says; the problems of doing so."""
    general = list(metadata_diagnostics(document, document.data["metadata"], ("metadata",)))
    kind = kinds().get(f"{document.kind}.{document.group}")
    if kind is None:
        return [*general, *_unplanned_kind_diagnostics(document)]
    if document.api_version.rpartition("/")[2] not in kind.versions:
        return [
            WRONG_VERSION.diagnostic(
                document.position("apiVersion"),
                f"{document.api_version} is not known",
                f"write {kind.api_version}",
                object=document.display_name,
            )
        ]
    model, problems = validate_document(document, kind.model)
    problems += general
    if kind.text_diagnostics is not None:
        problems += kind.text_diagnostics(document)
    if model is not None and not failed and not any(problem.severity == "error" for problem in problems):
        found.models.append((document, model))
        found.spec_items += kind.specs(document, model)
    return problems


def _unplanned_kind_diagnostics(document: Document) -> list[Diagnostic]:
    """A kind that is not ours: nearly one of ours is a mistake, one that runs pods is worth a word, all others pass."""
    group, kind = document.group, document.kind
    if group in UNPLANNED_KINDS and kind not in UNPLANNED_KINDS[group]:
        known = sorted({found.name for found in kinds().values() if found.group == group} | UNPLANNED_KINDS[group])
        near = did_you_mean(kind, known)
        if near or group == "gangplan.dev":
            help = f"did you mean {near!r}?" if near else f"the kinds are {', '.join(known)}"
            return [
                UNKNOWN_KIND.diagnostic(
                    document.position("kind"), f"{group} has no kind {kind!r}", help, object=document.display_name
                )
            ]
    homes = sorted(
        f"{found.api_version}"
        for found in kinds().values()
        if found.name == kind and kind not in ("Job", "Node", "Pod", "Queue")
    )
    if homes and group.endswith((".volcano.sh", "gangplan.dev", "kubeflow.org", "scheduling.k8s.io")):
        return [
            UNKNOWN_KIND.diagnostic(
                document.position("apiVersion"),
                f"{group} has no kind {kind!r}",
                f"write apiVersion: {homes[0]}",
                object=document.display_name,
            )
        ]
    if kind in POD_RUNNING_KINDS:
        message = f"{kind} is passed through unplanned"
        return [
            KIND_NOT_PLANNED.diagnostic(
                document.position("kind"),
                message,
                "leave room for its pods, or express it as a kind that is planned",
                object=document.display_name,
            )
        ]
    return []


def _cluster_spec(name: str, found: _ReadState) -> ClusterSpec:
    """The Cluster that the documents hold, else an empty one of the folder's name."""
    written = found.specs_of(ClusterSpec)
    for other in written[1:]:
        see = written[0].document.position("metadata", "name")
        message = f"{written[0].document.display_name} describes this cluster already"
        found.diagnostics.append(
            TWO_CLUSTERS.diagnostic(
                other.document.position("metadata", "name"),
                message,
                "remove one",
                object=other.document.display_name,
                see=see,
            )
        )
        found.failed_documents[other.document.identity] = other.document
    if written:
        return written[0]
    data = {"apiVersion": "gangplan.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}
    return ClusterSpec(Document(f"{CLUSTERS_FOLDER}/{name}" if name else CLUSTERS_FOLDER, 1, "", data, {}), name)


def _run_checks_on_specs(cluster: ClusterSpec, found: _ReadState) -> Specs:
    """Run the checks on everything, then leave out what they object to, and what depends on it."""
    nodes = with_numa_topologies(found.specs_of(NodeSpec), found.specs_of(NumaTopologySpec))
    hypernodes, tree = resolve_hypernodes(found.specs_of(HyperNodeDraft), found.specs_of(HyperNodeSpec), nodes)
    pods = found.specs_of(PodDraft)
    said = [*found.specs_of(GangSpec), *pod_group_gangs(found.specs_of(PodGroupDraft), pods)]
    gangs = [gang if gang.queue else replace(gang, queue=cluster.default_queue) for gang in said]
    schedulers = found.specs_of(SchedulerSpec)
    everything = Specs(
        cluster=cluster,
        documents=_sorted_by_object(found.documents, lambda document: document),
        gangs=_sorted_by_object(gangs, lambda gang: gang.document),
        queues=_sorted_by_object(found.specs_of(QueueSpec), lambda queue: queue.document),
        priority_classes=_sorted_by_object(found.specs_of(PriorityClassSpec), lambda found: found.document),
        nodes=tuple(sorted(nodes, key=lambda node: (natural_sort_key(node.name), node.document.identity[:2]))),
        hypernodes=tuple(sorted(hypernodes, key=lambda h: (natural_sort_key(h.name), h.document.identity[:2]))),
        scheduler=schedulers[0] if schedulers else None,
        diagnostics=(),
    )
    reading = CheckInput(
        everything,
        tuple(found.models),
        frozenset(),
        tuple(tree),
        tuple(pods),
        tuple(schedulers),
        {k.key: k.namespaced for k in kinds().values()},
    )
    bad = dict(found.failed_documents)
    diagnostics = list(found.diagnostics)
    _run_checks(replace(reading, failed_objects=_identities(bad.values())), bad, diagnostics)
    return _specs_without(everything, bad, sorted_diagnostics(diagnostics))


def _run_checks(reading: CheckInput, bad: dict[tuple[Any, ...], Document], diagnostics: list[Diagnostic]) -> None:
    """All checks once; then the one on dependencies again and again, until nothing more falls with what has fallen."""
    for check in all_checks():
        for document, diagnostic in check.findings(reading):
            diagnostics.append(diagnostic)
            if diagnostic.severity == "error":
                bad.setdefault(document.identity, document)
    (dependencies,) = (check for check in all_checks() if check.rule.code == "GP354")
    grown = -1
    while grown != len(bad):
        grown = len(bad)
        reading = replace(reading, failed_objects=_identities(bad.values()))
        for document, diagnostic in dependencies.findings(reading):
            if document.identity not in bad:
                bad[document.identity] = document
                diagnostics.append(diagnostic)


def _identities(documents: Iterable[Document]) -> frozenset[tuple[str, str, str]]:
    return frozenset((f"{d.kind}.{d.group}", d.namespace or "default", d.name) for d in documents)


def _specs_without(specs: Specs, bad: dict[tuple[Any, ...], Document], diagnostics: tuple[Diagnostic, ...]) -> Specs:
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
            g
            for g in specs.gangs
            if good(g) and not any(pod.identity in bad for role in g.roles for pod in role.pod_documents)
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


def _sorted_by_object(items: Sequence[Spec], document: Callable[[Spec], Document]) -> tuple[Spec, ...]:
    def key(item: Spec) -> tuple[str, str, str, str, int]:
        found = document(item)
        return found.namespace or "default", found.name, found.kind, found.file, found.line

    return tuple(sorted(items, key=key))
