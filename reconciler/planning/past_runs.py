"""The runs that are over, for the state of a compile."""

from __future__ import annotations

from itertools import islice

from compiler.cluster_state.run_records import records_object
from reconciler.cluster.objects import Object
from reconciler.inventory.store import Inventory

MAX_JOBS = 1000
"""Jobs whose runs a plan is told of: those that ended last."""


def past_runs(inventory: Inventory, cluster: str) -> list[Object]:
    """The object for a state; none before the first run has ended."""
    last = islice(reversed(inventory.runs.values()), MAX_JOBS)
    rows = [row for run in last for row in run.job_rows()]
    return [records_object(cluster, rows)] if rows else []
