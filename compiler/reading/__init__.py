"""Reading: a repository to the specs of one cluster, with every problem as a diagnostic.

`documents` reads files and fits each document to its kind, `clusters` finds the cluster, `consistency` runs the checks.
Nothing here raises for what a repository holds. A document with an error stays in `Specs.documents` only, so that a bad
job never takes the good ones down with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Position, sorted_diagnostics
from compiler.reading.clusters import EMPTY_REPOSITORY, choose_folder, cluster_spec
from compiler.reading.consistency import consistent_specs
from compiler.reading.documents import DocumentCollector
from compiler.repository import (
    CLUSTERS_FOLDER,
    FILE_SUFFIXES,
    JOBS_FOLDER,
    MISPLACED_FILE,
    Repository,
    printable_name,
)
from compiler.specs import Specs


def read_specs(tree: Repository, cluster: str | None = None) -> Specs:
    """The specs of one cluster, with all diagnostics sorted by position.

    cluster: a folder of cluster-specs/ or the name of the Cluster object in one; needed only when there are several.
    """
    collector = DocumentCollector()
    collector.diagnostics += tree.problems
    folder, problems = choose_folder(tree, cluster)
    collector.diagnostics += problems
    if problems:
        return _specs_without_cluster(cluster or "", collector)
    for file in _files_of_cluster(tree, folder):
        collector.read_file(file, tree.files[file])
    _report_misplaced_files(tree, collector)
    if folder is None and cluster is None and not collector.documents and not collector.diagnostics:
        message = "there is no YAML file under cluster-specs/<cluster>/ or jobs/"
        help = "run `gangplan init` for an example to start from"
        collector.diagnostics.append(EMPTY_REPOSITORY.diagnostic(Position(CLUSTERS_FOLDER, 1, 1), message, help))
        return _specs_without_cluster("", collector)
    return consistent_specs(cluster_spec(folder or cluster or "", collector), collector)


def _specs_without_cluster(name: str, collector: DocumentCollector) -> Specs:
    """Empty specs with the diagnostics so far: without a cluster, every check would only repeat that it is missing."""
    diagnostics = sorted_diagnostics(collector.diagnostics)
    return Specs(cluster_spec(name, collector), (), (), (), (), (), (), None, diagnostics)


def _files_of_cluster(tree: Repository, folder: str | None) -> Iterator[str]:
    """The files of the jobs folder and of the cluster's folder, sorted."""
    prefixes = (f"{JOBS_FOLDER}/", f"{CLUSTERS_FOLDER}/{folder}/") if folder else f"{JOBS_FOLDER}/"
    for file in sorted(tree.files):
        if file.startswith(prefixes) and file.endswith(FILE_SUFFIXES):
            yield file


def _report_misplaced_files(tree: Repository, collector: DocumentCollector) -> None:
    for file in sorted(tree.files):
        if file.startswith(f"{CLUSTERS_FOLDER}/") and file.count("/") == 1 and file.endswith(FILE_SUFFIXES):
            at = Position(printable_name(file), 1, 1)
            message, help = (
                "the file is in no cluster's folder and is not read",
                "move it into cluster-specs/<cluster>/",
            )
            collector.diagnostics.append(MISPLACED_FILE.diagnostic(at, message, help))
