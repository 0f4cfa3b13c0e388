"""The input of `gangplan simulate --history`: a repository's commits, and the runs that a reconciler recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from compiler.cluster_state.cluster_state import read_objects
from compiler.cluster_state.run_records import RecordedRun, recorded_runs, records_object
from compiler.reading import read_specs
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import JobKey
from compiler.syntax.parse import Adopt, ParsedFile, parse_file
from compiler.traces.history import history_trace
from compiler.traces.trace import Trace, TraceError
from reconciler.git.commits import read_revision
from reconciler.git.history import commits_of, is_shallow
from reconciler.inventory.store import runs_of


def read_history(repo: Path, cluster: str | None, records: Path | None) -> Trace:
    """Return the trace. records: a List of the reconciler's ConfigMaps. Raises GitError, OSError and TraceError."""
    versions = [*_versions(repo, cluster)]
    if not versions:
        raise TraceError(f"{repo}: no commit holds jobs or cluster-specs")
    runs = {} if records is None else read_records(records, versions[-1][1].cluster.name)
    found = history_trace(versions, runs)
    return replace(found, notes=(*found.notes, _SHALLOW)) if is_shallow(repo) else found


def _versions(repo: Path, cluster: str | None) -> Iterator[tuple[int, Specs]]:
    """Yield the specs of each commit; a file that did not change is parsed once."""
    parsed: dict[tuple[str, bytes], ParsedFile] = {}

    def parse(file: str, content: bytes, adopt: Adopt = lambda document: []) -> ParsedFile:
        if (file, content) not in parsed:
            parsed[file, content] = parse_file(file, content, adopt)
        return parsed[file, content]

    for commit, at in commits_of(repo):
        yield at, read_specs(read_revision(repo, commit)[1], cluster, parse)


def read_records(file: Path, cluster: str) -> Mapping[JobKey, Sequence[RecordedRun]]:
    """Return the runs in a List of ConfigMaps, by job. Raises TraceError."""
    try:
        items = read_objects(file.read_bytes())
        rows = [row for run in runs_of(cluster, map(dict, items)) for row in run.job_rows()]
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{file}: cannot read the records: {error}. Fix: write {_HOW}") from error
    found: dict[JobKey, list[RecordedRun]] = {}
    for key, run in recorded_runs([records_object(cluster, rows)]):
        found.setdefault(key, []).append(run)
    if not found:
        raise TraceError(f"{file}: no run of cluster {cluster} is recorded. Fix: write {_HOW}")
    return found


_SHALLOW = "The clone is shallow: its first commit submits what older ones brought. Fix: git fetch --unshallow."
_HOW = "it with `kubectl get configmaps --namespace gangplan-system --output json`"
