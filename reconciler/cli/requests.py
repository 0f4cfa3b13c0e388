"""`gangplan suspend`, `resume` and `rerun`: what operators ask of a reconciler beside git."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click

from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of
from compiler.run_kinds import RUN_KINDS, end_of_run
from reconciler.changes.planned_runs import split_run
from reconciler.cli import add_cluster_options
from reconciler.cli.connection import cluster_command
from reconciler.cluster.client import Client
from reconciler.cluster.transport import Connector
from reconciler.inventory.store import FinishedRun, Inventory, InventoryStore
from reconciler.requests.store import (
    EVERYTHING,
    Requests,
    RequestStore,
    with_rerun,
    with_resumed,
    with_retry,
    with_suspended,
)

_KIND = re.compile(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?")
Command = TypeVar("Command", bound=Callable[..., Any])


def _add_options(command: Command) -> Command:
    """Add --cluster, the options of a cluster and --timeout."""
    named = click.option("--cluster", required=True, help="Which cluster.")(command)
    return add_cluster_options(cluster_command(30.0)(named))


@click.command()
@click.argument("target")
@_add_options
def suspend(target: str, cluster: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Keep the reconciler from TARGET until `resume`: `all`, a kind (Queue, Job.batch.volcano.sh), or an object
    (NAMESPACE/NAME, or KIND.GROUP/NAMESPACE/NAME). It is not written, its gated pods stay gated, nothing of it is
    evicted or deleted; what runs goes on."""
    store, inventory = _stores(cluster, kubeconfig, context, namespace)
    key = target_key(target, inventory)
    if "/" not in key and key != EVERYTHING and not _KIND.fullmatch(key):
        raise click.ClickException(f"{key!r} is neither all, a kind (Queue, Job.batch.volcano.sh) nor NAMESPACE/NAME")
    _change(store, lambda requests: with_suspended(requests, key))
    refs = [entry.ref for entry in inventory.entries.values()] + [run.ref for run in inventory.runs.values()]
    is_known = any(Requests(frozenset({key})).suspends(ref) for ref in refs)
    click.echo(f"{key} is suspended" + ("" if is_known else "; gangplan has made nothing of this name yet"))


@click.command()
@click.argument("target")
@_add_options
def resume(target: str, cluster: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """End the suspension of TARGET, as it was given to `suspend`; `all` ends every one."""
    store, inventory = _stores(cluster, kubeconfig, context, namespace)
    try:
        suspended = store.read().suspended
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    named = [key for key in suspended if target in (key, key.partition("/")[2])]
    key = named[0] if len(named) == 1 else target_key(target, inventory)
    if key != EVERYTHING and key not in suspended:
        raise click.ClickException(f"{key} is not suspended{_list_suspended(suspended)}")
    left = _change(store, lambda requests: with_resumed(requests, key)).suspended
    click.echo(f"{key} is resumed{_list_suspended(left)}")


@click.command()
@click.argument("job")
@_add_options
def rerun(job: str, cluster: str, kubeconfig: Path | None, context: str | None, namespace: str) -> None:
    """Run JOB (NAMESPACE/NAME, or KIND.GROUP/NAMESPACE/NAME) once more as it is: a finished one begins a new run, one
    that is held because the scheduler does not bind it is tried again."""
    store, inventory = _stores(cluster, kubeconfig, context, namespace)
    key = target_key(job, inventory)
    if not _is_job(key, inventory):
        raise click.ClickException(f"{job} is no job that gangplan knows on {cluster}")
    run = inventory.runs.get(key)
    if run is None or _goes_on(store.client, run):
        _change(store, lambda requests: with_retry(requests, key))
        click.echo(f"{key} has not finished; if it is held, it is tried again")
        return
    digest, number = split_run(run.digest)
    _change(store, lambda requests: with_rerun(requests, key, digest, number + 1))
    click.echo(f"{key} runs again: run {number + 1} of {digest}")


def _is_job(key: str, inventory: Inventory) -> bool:
    """Whether the inventory knows the object as one that runs once: by its kind, or by a run that it is or has had."""
    entry = inventory.entries.get(key)
    return key in inventory.runs or key.partition("/")[0] in RUN_KINDS or bool(entry and entry.run)


def _goes_on(client: Client, run: FinishedRun) -> bool:
    """Whether the job has begun another run since that one."""
    job = client.find(run.ref)
    is_other = job is not None and annotations_of(job).get(DIGEST_ANNOTATION, run.digest) != run.digest
    return job is not None and is_other and end_of_run(job) is None


def _stores(
    cluster: str, kubeconfig: Path | None, context: str | None, namespace: str
) -> tuple[RequestStore, Inventory]:
    client = Client(Connector(kubeconfig, context))
    try:
        return RequestStore(client, namespace, cluster), InventoryStore(client, namespace, cluster).read()
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def _list_suspended(keys: Collection[str]) -> str:
    """The end of a sentence; nothing where nothing is suspended."""
    return f"; still suspended: {', '.join(sorted(keys))}" if keys else ""


def _change(store: RequestStore, function: Callable[[Requests], Requests]) -> Requests:
    try:
        return store.change(function)
    except ValueError as error:
        raise click.ClickException(str(error)) from error


def target_key(target: str, inventory: Inventory) -> str:
    """`all`, a kind, or the Ref.key of an object that the inventory knows by namespace and name."""
    if target == EVERYTHING or target.count("/") != 1:
        return target
    found = sorted(key for key in {*inventory.entries, *inventory.runs} if key.partition("/")[2] == target)
    if len(found) != 1:
        choice = f": give one of {', '.join(found)}" if found else ""
        raise click.ClickException(f"{len(found)} objects of gangplan's are named {target}{choice}")
    return found[0]
