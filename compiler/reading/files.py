"""Which of a repository's files are about a cluster: charts and templates of Helm are reported and left out."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule
from compiler.repository.paths import CLUSTERS_FOLDER, JOBS_FOLDER, MISPLACED_FILE, is_manifest, printable_name
from compiler.repository.tree import Repository
from compiler.syntax.documents import Document

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
