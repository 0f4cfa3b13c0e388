"""The cluster to plan for: its folder in the repository, and its Cluster object."""

from __future__ import annotations

from dataclasses import replace

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule, suggestion
from compiler.kubernetes import API_VERSION, SCHEDULER_NAMESPACE
from compiler.reading.assignment import cluster_documents
from compiler.reading.documents import DocumentCollector
from compiler.repository.paths import CLUSTERS_FOLDER
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import ClusterSpec, ReleaseIn, SchedulerSpec
from compiler.syntax.documents import Document

EMPTY_REPOSITORY = declare_rule("GP124", "error")
SEVERAL_CLUSTERS = declare_rule("GP125", "error")
NO_SUCH_CLUSTER = declare_rule("GP126", "error")
TWO_CLUSTERS = declare_rule("GP127", "error")

NO_CLUSTER_CODES = frozenset((EMPTY_REPOSITORY.code, SEVERAL_CLUSTERS.code, NO_SUCH_CLUSTER.code))
"""Codes with which there is no cluster to plan for: an empty plan would look like one that removes everything, and
other diagnostics would be about a cluster that was not chosen."""


def choose_folder(tree: Repository, cluster: str | None) -> tuple[str | None, list[Diagnostic]]:
    """Return the folder of cluster-specs/ to read, or None and the cause. A repository of jobs alone has no folder and
    no problem."""
    folders, at = tree.cluster_folders(), Position(CLUSTERS_FOLDER, 1, 1)
    if cluster is None:
        if len(folders) > 1:
            message = f"the repository holds {len(folders)} clusters: {', '.join(folders)}"
            return None, [SEVERAL_CLUSTERS.diagnostic(at, message, "name one with --cluster")]
        return (folders[0] if folders else None), []
    if cluster in folders:
        return cluster, []
    names = {name: folder for folder in folders for name in _cluster_names(tree, folder)}
    if cluster in names:
        return names[cluster], []
    help = f"name one of {', '.join(folders)}" if folders else "add the folder"
    help = suggestion(cluster, [*folders, *names], help)
    return None, [NO_SUCH_CLUSTER.diagnostic(at, f"there is no cluster {cluster!r}", help)]


def _cluster_names(tree: Repository, folder: str) -> list[str]:
    """Names of the Cluster objects in a folder."""
    return [document.name for document in cluster_documents(tree, folder)]


def cluster_spec(name: str, collector: DocumentCollector) -> ClusterSpec:
    """Return the collected Cluster, or an empty one of that name. Further Clusters become errors of their documents."""
    written = collector.specs_of(ClusterSpec)
    for other in written[1:]:
        message = f"{written[0].document.display_name} describes this cluster already"
        see = written[0].document.position("metadata", "name")
        path = ("metadata", "name")
        collector.reject(other.document, other.document.diagnostic(TWO_CLUSTERS, path, message, "remove one", see=see))
    if written:
        return written[0]
    data = {"apiVersion": API_VERSION, "kind": "Cluster", "metadata": {"name": name}}
    return ClusterSpec(Document(f"{CLUSTERS_FOLDER}/{name}" if name else CLUSTERS_FOLDER, 1, "", data, {}), name)


def with_running_release(cluster: ClusterSpec, collector: DocumentCollector, release_in: ReleaseIn) -> ClusterSpec:
    """Return the cluster with the release of Volcano that runs, where its object names none and that is known."""
    namespace = next((spec.namespace for spec in collector.specs_of(SchedulerSpec)), SCHEDULER_NAMESPACE)
    running = None if cluster.names_volcano else release_in(namespace)
    return replace(cluster, volcano=running.as_known()) if running else cluster
