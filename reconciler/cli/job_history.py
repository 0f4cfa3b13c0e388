"""What `gangplan simulate --history` replays: the commits of a repository, and the runs that a reconciler recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from compiler.fields.timestamp import parse_timestamp
from compiler.reading import read_specs
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import JobKey
from compiler.syntax.parse import Adopt, ParsedFile, parse_file
from compiler.traces.history import RecordedRun, history_trace
from compiler.traces.trace import Trace, TraceError
from reconciler.git.commits import read_revision
from reconciler.git.history import commits_of
from reconciler.inventory.store import FinishedRun, runs_of


def read_history(repo: Path, cluster: str | None, records: Path | None) -> Trace:
    """The trace. records: a List of the reconciler's ConfigMaps. Raises GitError, OSError and TraceError."""
    versions = [*_versions(repo, cluster)]
    if not versions:
        raise TraceError(f"{repo}: no commit holds jobs or cluster-specs")
    return history_trace(versions, {} if records is None else read_records(records, versions[-1][1].cluster.name))


def _versions(repo: Path, cluster: str | None) -> Iterator[tuple[int, Specs]]:
    """The specs of each commit; a file that did not change is parsed once."""
    parsed: dict[tuple[str, bytes], ParsedFile] = {}

    def parse(file: str, content: bytes, adopt: Adopt = lambda document: []) -> ParsedFile:
        if (file, content) not in parsed:
            parsed[file, content] = parse_file(file, content, adopt)
        return parsed[file, content]

    for commit, at in commits_of(repo):
        yield at, read_specs(read_revision(repo, commit)[1], cluster, parse)


def read_records(file: Path, cluster: str) -> Mapping[JobKey, Sequence[RecordedRun]]:
    """The runs in a List of ConfigMaps, by job. Raises TraceError."""
    try:
        items = json.loads(file.read_text("utf-8"))["items"]
        rows = [row for run in runs_of(cluster, items) for row in _rows(run)]
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{file}: cannot read the records: {error}. Fix: write {_HOW}") from error
    found: dict[JobKey, list[RecordedRun]] = {}
    for key, run in rows:
        found.setdefault(key, []).append(run)
    if not found:
        raise TraceError(f"{file}: no run of cluster {cluster} is recorded. Fix: write {_HOW}")
    return found


_HOW = "it with `kubectl get configmaps --namespace gangplan-system --output json`"


def _rows(run: FinishedRun) -> Iterator[tuple[JobKey, RecordedRun]]:
    """The run and those before it, as far as it is known when they began and ended."""
    key = (run.ref.namespace, run.ref.name, run.ref.kind)
    for row in (run.details, *run.details.get("former", ())):
        if row.get("started") and row.get("ended"):
            started, ended = parse_timestamp(row["started"]), parse_timestamp(row["ended"])
            yield key, RecordedRun(started, max(started, ended))
