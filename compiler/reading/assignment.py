"""Which cluster a job of a repository with several clusters belongs to: one, or it is refused everywhere.

A job belongs to the cluster that its annotation `gangplan.dev/cluster` names; else to clusters that claim it, by its
folder jobs/<cluster>/ or by `Cluster.spec.jobs` (paths) and `Cluster.spec.jobSelector` (labels); else to the clusters
without claims. Other objects belong to the clusters of the jobs of their file, else of their folder, else to every
cluster. All clusters derive this from the same files, so no two of them run one job.

Which of a repository's files are about a cluster: charts and templates of Helm are reported and left out.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule, suggestion
from compiler.diagnostics.guard import guarded
from compiler.fields.label_selector import LabelExpression, selector_matches
from compiler.kinds.kind import kinds
from compiler.kubernetes import API_GROUP, CLUSTER_ANNOTATION
from compiler.reading.shape import document_flaws, read_model
from compiler.reading.unplanned import runs_pods
from compiler.repository.paths import (
    CLUSTERS_FOLDER,
    JOBS_FOLDER,
    MISPLACED_FILE,
    is_manifest,
    path_patterns,
    printable_name,
)
from compiler.repository.tree import Repository
from compiler.syntax.documents import Document
from compiler.syntax.parse import Parse, ParsedFile, parse_file

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SEVERAL_TAKERS = declare_rule("GP128", "error")
NO_TAKER = declare_rule("GP129", "error")


@dataclass(frozen=True, slots=True)
class _Claim:
    """The claims of one cluster. names: its folder and its Cluster object's. patterns, selector: None where undeclared;
    a job must meet both if both are declared. is_valid: its Cluster can be read."""

    names: tuple[str, ...]
    patterns: GitIgnoreSpec | None = None
    selector: tuple[LabelExpression, ...] | None = None
    is_valid: bool = True

    @property
    def takes_the_rest(self) -> bool:
        return self.is_valid and self.patterns is None and self.selector is None

    def claims_path(self, file: str) -> bool:
        is_in_folder = any(file.startswith(f"{JOBS_FOLDER}/{name}/") for name in self.names)
        return is_in_folder or (self.patterns is not None and bool(self.patterns.match_file(file)))

    def claims(self, job: Document) -> bool:
        if any(job.file.startswith(f"{JOBS_FOLDER}/{name}/") for name in self.names):
            return True
        if self.selector is None:
            return self.claims_path(job.file)
        labels = {key: str(value) for key, value in (job.metadata.get("labels") or {}).items()}
        is_selected = selector_matches(self.selector, labels)
        return is_selected and (self.patterns is None or bool(self.patterns.match_file(job.file)))


@dataclass(frozen=True, slots=True)
class JobAssignment:
    """The claims of all clusters, and of the cluster that is read. problems: found on the way."""

    claims: tuple[_Claim, ...]
    own: _Claim
    problems: tuple[Diagnostic, ...] = ()

    def own_documents(self, documents: Sequence[Document]) -> dict[int, Diagnostic | None]:
        """Indices of one file's documents that this cluster is to read, each with why it is refused, if it is."""
        if len(self.claims) == 1 and self.own.takes_the_rest and not any(map(_names_cluster, documents)):
            return dict.fromkeys(range(len(documents)))
        takers, found = dict[int, tuple[_Claim, ...]](), dict[int, Diagnostic | None]()
        for at, job in enumerate(documents):
            with guarded(job, partial(found.__setitem__, at)):
                if runs_pods(job):
                    takers[at] = self._takers(job)
        companions = self._companion_takers(documents, takers.values())
        for at, document in enumerate(documents):
            if at in found:
                continue
            if at not in takers:
                if self.own in companions:
                    found[at] = None
            elif self.own in takers[at] or not takers[at]:
                found[at] = self._refusal(document, takers[at])
        return found

    def _takers(self, job: Document) -> tuple[_Claim, ...]:
        named = (job.metadata.get("annotations") or {}).get(CLUSTER_ANNOTATION)
        if named is not None:
            return tuple(claim for claim in self.claims if named in claim.names)
        claiming = tuple(claim for claim in self.claims if claim.claims(job))
        return claiming or tuple(claim for claim in self.claims if claim.takes_the_rest)

    def _companion_takers(
        self, documents: Sequence[Document], of_jobs: Iterable[tuple[_Claim, ...]]
    ) -> tuple[_Claim, ...]:
        """Return the clusters that read a file's objects other than jobs."""
        found = tuple(claim for takers in of_jobs for claim in takers)
        if documents and not found:
            found = tuple(claim for claim in self.claims if claim.claims_path(documents[0].file))
        return found or self.claims

    def _refusal(self, job: Document, takers: Sequence[_Claim]) -> Diagnostic | None:
        if len(takers) == 1:
            return None
        at = ("metadata", "annotations", CLUSTER_ANNOTATION)
        names = [claim.names[0] for claim in takers or self.claims]
        if takers:
            message = f"{job.display_name} could run in clusters {', '.join(names)}"
            help = f"name one in its annotation {CLUSTER_ANNOTATION}, or move it to jobs/<cluster>/"
            return job.diagnostic(SEVERAL_TAKERS, at, message, help)
        named = (job.metadata.get("annotations") or {}).get(CLUSTER_ANNOTATION)
        help = f"name one of {', '.join(names)}"
        if named is None:
            return job.diagnostic(NO_TAKER, at, f"no cluster claims {job.display_name}", f"{help}: let one claim it")
        known = [name for claim in self.claims for name in claim.names]
        return job.diagnostic(NO_TAKER, at, f"there is no cluster {named!r}", suggestion(str(named), known, help))


def _names_cluster(document: Document) -> bool:
    return CLUSTER_ANNOTATION in (document.metadata.get("annotations") or {})


def job_assignment(tree: Repository, folder: str | None, parse: Parse = parse_file) -> JobAssignment | None:
    """Return the assignment as `folder` sees it; None where the repository describes no cluster."""
    problems = list[Diagnostic]()
    claims = {each: _claim(tree, each, parse, problems) for each in tree.cluster_folders()}
    if folder not in claims:
        return None
    if len(claims) == 1:  # faults of the only Cluster do not matter for the assignment
        claims[folder] = replace(claims[folder], is_valid=True)
    return JobAssignment(tuple(claims.values()), claims[folder], tuple(problems))


def _claim(tree: Repository, folder: str, parse: Parse, problems: list[Diagnostic]) -> _Claim:
    found = _clusters(tree, folder, parse)
    names = tuple(dict.fromkeys((folder, *(document.name for document, _ in found))))
    if not found:
        return _Claim(names)
    document, parsed = found[0]
    with guarded(document, problems.append):
        is_valid, jobs, expressions = parsed.claim_of(lambda: _read_job_claim(document))
        return _Claim(names, None if jobs is None else path_patterns(jobs), expressions, is_valid)
    return _Claim(names, is_valid=False)


def _read_job_claim(document: Document) -> tuple[bool, Sequence[str] | None, tuple[LabelExpression, ...] | None]:
    """Return whether a Cluster can be read, and its spec.jobs and spec.jobSelector."""
    kind = kinds()["Cluster.gangplan.dev"]
    if document_flaws(document, kind).shape:
        return False, None, None
    model, flaws = read_model(document, kind)
    if flaws:
        return False, None, None
    selector = model.spec.job_selector
    return True, model.spec.jobs, None if selector is None else selector.expressions()


def cluster_documents(tree: Repository, folder: str) -> list[Document]:
    """Return the Cluster objects in a folder of cluster-specs/."""
    return [document for document, _ in _clusters(tree, folder, parse_file)]


def _clusters(tree: Repository, folder: str, parse: Parse) -> list[tuple[Document, ParsedFile]]:
    """Return the Cluster objects in a folder, each with its file."""
    prefix, found = f"{CLUSTERS_FOLDER}/{folder}/", list[tuple[Document, ParsedFile]]()
    for file in tree.manifests():
        if file.startswith(prefix) and API_GROUP.encode() in tree.files[file]:
            parsed = parse(file, tree.files[file], configurations_inside)
            for document, _ in parsed.documents:
                if (document.kind, document.group) == ("Cluster", API_GROUP):
                    found.append((document, parsed))
    return found


HELM_FILE = declare_rule("GP132", "info")
_HELM_VALUE = re.compile(rb"\{\{[^}\n]*\.(?:Values|Release|Chart|Capabilities)\b")
_TEMPLATE_VALUE = re.compile(rb"^[ \t]*(?:[^\s\"'#]+:[ \t]+|-[ \t]+)*\{(?:\{[^}\n]*\}|%[^}\n]*%)\}", re.MULTILINE)
"""A line, or an unquoted value, that begins with an action of a template (Go, Helm, Jinja)."""
_VALUES_NAME = re.compile(r"values[^/]*\.ya?ml", re.IGNORECASE)


def configurations_inside(document: Document) -> list[Document]:
    """Return the scheduler configurations in a document that is not an object."""
    from compiler.kinds.scheduler_configuration import wrapped_configurations

    return wrapped_configurations(document)


def files_of_cluster(tree: Repository, folder: str | None) -> tuple[list[str], list[Diagnostic]]:
    """Return the files of the jobs folder and of the cluster's folder, sorted, and the diagnostics on those left
    out."""
    problems, found = list[Diagnostic](), list[str]()
    others = {file for file in tree.manifests() if not _is_of_cluster(file, folder)}.difference(tree.named)
    manifests = [file for file in tree.manifests() if file not in others]
    charts = [posixpath.dirname(file) for file in manifests if posixpath.basename(file) == "Chart.yaml"]
    for chart in charts:
        if not any(chart.startswith(f"{other}/") for other in charts):  # a chart's own charts/ go with it
            at = Position(printable_name(f"{chart}/Chart.yaml"), 1, 1)
            message, help = "a Helm chart is not read", "commit what `helm template` makes, or ignore the folder"
            problems.append(HELM_FILE.diagnostic(at, message, help))
    for file in manifests:
        if not file.startswith(tuple(f"{chart}/" for chart in charts)):
            found.append(file)
    return found, [*problems, *_misplaced_files(tree)]


def _is_of_cluster(file: str, folder: str | None) -> bool:
    return file.startswith(f"{JOBS_FOLDER}/") or (
        folder is not None and file.startswith(f"{CLUSTERS_FOLDER}/{folder}/")
    )


def _misplaced_files(tree: Repository) -> Iterator[Diagnostic]:
    for file in sorted(tree.files):
        if file.startswith(f"{CLUSTERS_FOLDER}/") and file.count("/") == 1 and is_manifest(file):
            message = "the file is in no cluster's folder and is not read"
            help = "move it into cluster-specs/<cluster>/"
            yield MISPLACED_FILE.diagnostic(Position(printable_name(file), 1, 1), message, help)


def template_diagnostic(file: str, content: bytes, *, is_broken: bool, is_empty: bool) -> Diagnostic | None:
    """Return the finding on a template, or on values of Helm, outside of a chart. is_broken: the text is not YAML.
    is_empty: it holds no object."""
    at, help = Position(file, 1, 1), "commit what `helm template` makes, or ignore the file"
    if _HELM_VALUE.search(content):
        return HELM_FILE.diagnostic(at, "a Helm template is not read", help)
    if is_broken and _TEMPLATE_VALUE.search(content):
        return HELM_FILE.diagnostic(at, "a template is not read", "commit what is made of it, or ignore the file")
    if is_empty and _VALUES_NAME.fullmatch(posixpath.basename(file)):
        return HELM_FILE.diagnostic(at, "values of a Helm chart are not an object", help)
    return None
