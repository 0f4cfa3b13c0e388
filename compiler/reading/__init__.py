"""Reading: a repository to the specs of one cluster, with every problem as a diagnostic.

`documents` reads files and fits each document to its kind, `clusters` finds the cluster, `consistency` runs the checks.
Nothing here raises for what a repository holds. A document with an error stays in `Specs.documents` only, so that a bad
job never takes the good ones down with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from compiler.diagnostics.diagnostic import Diagnostic, Position, sorted_diagnostics
from compiler.reading.assignment import files_of_cluster, job_assignment
from compiler.reading.clusters import EMPTY_REPOSITORY, choose_folder, cluster_spec, with_running_release
from compiler.reading.consistency import consistent_specs
from compiler.reading.documents import DocumentCollector
from compiler.reading.ignores import without_ignored
from compiler.repository.kustomize import BUILT_MARK
from compiler.repository.paths import CLUSTERS_FOLDER, JOBS_FOLDER
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import ReleaseIn, Specs, unknown_release
from compiler.syntax.parse import Adopt, Parse, ParsedFile, parse_file

ReadAhead = Callable[[Mapping[str, bytes]], Mapping[str, ParsedFile]]
"""Given the files of a cluster: those of them that were read in other processes, perhaps none."""


def read_specs(
    tree: Repository,
    cluster: str | None = None,
    parse: Parse = parse_file,
    ahead: ReadAhead | None = None,
    release_in: ReleaseIn = unknown_release,
) -> Specs:
    """Return the specs of one cluster, with all diagnostics that the repository does not ignore, sorted by position.

    cluster: a folder of cluster-specs/ or the name of the Cluster object in one; needed only when there are several.
    parse: how a file is parsed, by a cache for one. ahead: reads files at once. release_in: the running release,
    for a Cluster that names no release of Volcano.
    """
    specs = _read_specs(tree, cluster, parse, ahead, release_in)
    return replace(specs, diagnostics=without_ignored(tree, (_in_source(tree, each) for each in specs.diagnostics)))


def _in_source(tree: Repository, found: Diagnostic) -> Diagnostic:
    """A finding on what a kustomization built is about the kustomization: the lines are those of no file."""
    file = found.position.file
    if not tree.files.get(file, b"").startswith(BUILT_MARK):
        return found
    subject = f"{found.object}: " if found.object and not found.message.startswith(found.object) else ""
    return replace(found, position=Position(file, 1, 1), message=f"{subject}{found.message}")


def _read_specs(
    tree: Repository, cluster: str | None, parse: Parse, ahead: ReadAhead | None, release_in: ReleaseIn
) -> Specs:
    known: dict[str, ParsedFile] = {}
    parse = _once(parse, known)
    collector = DocumentCollector(parse)
    collector.report(tree.problems)
    folder, problems = choose_folder(tree, cluster)
    collector.report(problems)
    if problems:
        return _specs_without_cluster(cluster or "", collector)
    files, problems = files_of_cluster(tree, folder)
    collector.report(problems)
    if ahead is not None:
        known.update(ahead({file: tree.files[file] for file in files}))
    assignment = job_assignment(tree, folder, parse)
    collector.report(assignment.problems if assignment is not None else ())
    for file in files:
        of_all = not file.startswith(f"{JOBS_FOLDER}/")
        collector.read_file(file, tree.files[file], None if of_all else assignment)
    if folder is None and cluster is None and not collector.documents and not collector.diagnostics:
        message = "there is no YAML file under cluster-specs/<cluster>/ or jobs/"
        help = "run `gangplan init` for an example to start from"
        collector.report([EMPTY_REPOSITORY.diagnostic(Position(CLUSTERS_FOLDER, 1, 1), message, help)])
        return _specs_without_cluster("", collector)
    found = cluster_spec(folder or cluster or "", collector)
    return consistent_specs(with_running_release(found, collector, release_in), collector)


def _once(parse: Parse, known: dict[str, ParsedFile]) -> Parse:
    """Return the parser, which reads no file of the repository twice: clusters' files are searched for their claims on
    jobs before they are read. known: file -> its parsed form, which is extended."""

    def parse_once(file: str, content: bytes, adopt: Adopt) -> ParsedFile:
        if file not in known:
            known[file] = parse(file, content, adopt)
        return known[file]

    return parse_once


def _specs_without_cluster(name: str, collector: DocumentCollector) -> Specs:
    """Empty specs with the diagnostics so far: without a cluster, every check would only repeat that it is missing."""
    diagnostics = sorted_diagnostics(collector.diagnostics)
    return Specs(cluster_spec(name, collector), (), (), (), (), (), (), None, diagnostics)
