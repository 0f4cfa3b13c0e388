"""`gangplan status`."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from compiler.cli.inputs import output_option
from reconciler.cli import namespace_option
from reconciler.cli.connection import cluster_command, lift_time_limit, reported_cluster
from reconciler.cli.requests import target_key
from reconciler.cluster.client import ApiError, Client, NotFound
from reconciler.cluster.lease import vacancy
from reconciler.cluster.objects import Ref
from reconciler.inventory.store import InventoryStore
from reconciler.report.status import read_status
from reconciler.report.status_text import job_document, job_text, status_text
from reconciler.runs.run_record import record_row, record_text, run_so_far

WATCH_SECONDS = 2.0


@click.command()
@click.argument("job", required=False)
@click.option("--cluster", help="Which cluster; needed only when several are reported on")
@namespace_option
@cluster_command(30.0)
@output_option("json")
@click.option("-w", "--watch", is_flag=True, help="Print it again when it changes, until interrupted")
def status(client: Client, job: str | None, cluster: str | None, namespace: str, output: str, watch: bool) -> None:
    """Show the commit in force, the conditions, jobs, queues and domains, and what is not applied and why; of a JOB
    (NAMESPACE/NAME, or KIND.GROUP/NAMESPACE/NAME) its decision, why it waited since when, and how its runs went."""
    cluster = cluster or reported_cluster(client, namespace)
    if watch and output == "json":
        raise click.UsageError("--watch is for text", click.get_current_context())

    def text() -> str:
        if job is not None:
            return _job_status(client, namespace, cluster, job, output)
        return _cluster_status(client, namespace, cluster, output)

    shown = text()
    click.echo(shown, nl=False)
    if watch:
        lift_time_limit()
        watch_text(text, shown)


def watch_text(text: Callable[[], str], shown: str, rest: Callable[[float], None] = time.sleep) -> None:
    """Print the text whenever it changes. An error of the server is printed once, and watching continues."""
    while True:
        rest(WATCH_SECONDS)
        try:
            found = text()
        except (ApiError, click.ClickException) as error:
            found = f"{error}\n"
        if found != shown:
            shown = found
            click.clear()
            click.echo(shown, nl=False)


def _cluster_status(client: Client, namespace: str, cluster: str, output: str) -> str:
    try:
        found = read_status(client, Ref("v1", "ConfigMap", namespace, f"gangplan-{cluster}-status"))
    except NotFound as error:
        raise click.ClickException(f"no reconciler has reported on {cluster} in namespace {namespace}") from error
    if output == "json":
        return json.dumps(found, indent=1, sort_keys=True) + "\n"
    sentence = ""
    with contextlib.suppress(ApiError):  # who may read the status need not have the right to leases
        lease = client.get(Ref("coordination.k8s.io/v1", "Lease", namespace, f"gangplan-{cluster}"))
        sentence = vacancy(lease, datetime.now(UTC)) or ""
    return (f"{sentence}\n\n" if sentence else "") + status_text(found)


def _job_status(client: Client, namespace: str, cluster: str, job: str, output: str) -> str:
    """Return the decision on the job and its history, and its finished runs; as JSON only the last run."""
    from compiler.explain.catalogue import REASONS, entries_by_code

    found: dict[str, Any] = {}
    if "/" in job:
        with contextlib.suppress(NotFound):
            document = read_status(client, Ref("v1", "ConfigMap", namespace, f"gangplan-{cluster}-status"))
            found = job_document(document, *job.split("/")[-2:])
    inventory = InventoryStore(client, namespace, cluster).read()
    current = run = None
    try:
        key = target_key(job, inventory)
        run, entry = inventory.runs.get(key), inventory.entries.get(key)
        current = run_so_far(entry) if entry is not None else None
    except click.ClickException:
        if not found:  # a job that waits may not be in the cluster
            raise
    if run is None and not found:
        raise click.ClickException(f"{job} is not in the plan of {cluster}, and no run of {job} is over")
    if output == "json":
        now = {"current": record_row(current)} if current is not None else {}
        return json.dumps({**(record_row(run) if run is not None else {}), **found, **now}, indent=1) + "\n"
    titles = {code: entry.title for code, entry in entries_by_code(REASONS).items()}
    return "\n".join(filter(None, (job_text(found, titles), *(record_text(each) for each in (current, run) if each))))
