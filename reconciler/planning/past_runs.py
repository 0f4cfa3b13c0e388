"""The runs that are over, for the state of a compile."""

from __future__ import annotations

from collections.abc import Iterable, Reversible
from itertools import islice

from compiler.cluster_state.run_records import records_object
from compiler.kubernetes import MEMORY_LABEL, labels_of
from reconciler.cluster.objects import Object
from reconciler.inventory.store import FinishedRun, runs_of

MAX_JOBS = 1000
"""Most jobs whose runs a compile gets; the last to end are chosen."""


def past_runs(cluster: str, runs: Reversible[FinishedRun]) -> list[Object]:
    """Return the object for a state; none before the first run has ended. runs: in the order of their ends."""
    last = islice(reversed(runs), MAX_JOBS)
    rows = [row for run in last for row in run.job_rows()]
    return [records_object(cluster, rows)] if rows else []


def stored_runs(config_maps: Iterable[Object]) -> list[Object]:
    """Return the same of the ConfigMaps in which reconcilers store them. Raises ValueError for what nobody can read."""
    items = [item for item in config_maps if MEMORY_LABEL in labels_of(item)]
    found = []
    for cluster in sorted({labels_of(item)[MEMORY_LABEL] for item in items}):
        found += past_runs(cluster, runs_of(cluster, items))
    return found
