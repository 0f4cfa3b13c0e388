"""`gangplan suspend`, `resume` and `rerun`: what operators ask of a reconciler other than by git."""

from __future__ import annotations

import re
from collections.abc import Collection

import click

from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of
from compiler.run_kinds import RUN_KINDS, end_of_run
from reconciler.changes.planned import split_run
from reconciler.cli import Command, namespace_option
from reconciler.cli.connection import cluster_command, reported_cluster
from reconciler.cluster.client import Client
from reconciler.inventory.store import FinishedRun, Inventory, InventoryStore
from reconciler.requests.part import EVERYTHING, Requests, RequestStore

_KIND = re.compile(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+)?")


def _add_options(command: Command) -> Command:
    """Add --cluster, the options of a cluster and --timeout."""
    named = click.option("--cluster", help="Which cluster; needed only when several are reported on")(command)
    return namespace_option(cluster_command(30.0)(named))


@click.command()
@click.argument("target")
@_add_options
def suspend(client: Client, target: str, cluster: str | None, namespace: str) -> None:
    """Suspend reconciliation of TARGET until `resume`: `all`, a kind (Queue, Job.batch.volcano.sh), or an object
    (NAMESPACE/NAME, or KIND.GROUP/NAMESPACE/NAME). It is not written, its gated pods stay gated, and nothing of it is
    evicted or deleted. Running pods continue."""
    store, inventory = _read(client, namespace, cluster)
    key = target_key(target, inventory)
    if "/" not in key and key != EVERYTHING and not _KIND.fullmatch(key):
        raise click.ClickException(f"{key!r} is neither all, a kind (Queue, Job.batch.volcano.sh) nor NAMESPACE/NAME")
    store.change(lambda requests: requests.with_suspended(key))
    entries, runs = inventory.entries.values(), inventory.runs.values()
    refs = {*(entry.ref for entry in entries), *(run.ref for run in runs)}
    is_known = any(Requests(frozenset({key})).suspends(ref) for ref in refs)
    click.echo(f"{key} is suspended" + ("" if is_known else "; gangplan has made nothing of this name yet"))


@click.command()
@click.argument("target")
@_add_options
def resume(client: Client, target: str, cluster: str | None, namespace: str) -> None:
    """End the suspension of TARGET, named as for `suspend`; `all` ends all."""
    store, inventory = _read(client, namespace, cluster)
    suspended = store.read().suspended
    named = [key for key in suspended if target in (key, key.partition("/")[2])]
    key = named[0] if len(named) == 1 else target_key(target, inventory)
    if key != EVERYTHING and key not in suspended:
        raise click.ClickException(f"{key} is not suspended{_list_suspended(suspended)}")
    left = store.change(lambda requests: requests.with_resumed(key)).suspended
    click.echo(f"{key} is resumed{_list_suspended(left)}")


@click.command()
@click.argument("job")
@_add_options
def rerun(client: Client, job: str, cluster: str | None, namespace: str) -> None:
    """Run JOB (NAMESPACE/NAME, or KIND.GROUP/NAMESPACE/NAME) once more as it is: a finished one begins a new run, one
    that was held back because it was not bound is retried."""
    store, inventory = _read(client, namespace, cluster)
    key = target_key(job, inventory)
    run, entry = inventory.runs.get(key), inventory.entries.get(key)
    if run is None and key.partition("/")[0] not in RUN_KINDS and not (entry and entry.run):
        raise click.ClickException(f"{job} is not a job that gangplan knows on {store.cluster}")
    if run is None or _goes_on(client, run):
        store.change(lambda requests: requests.with_retry(key))
        click.echo(f"{key} has not finished; if it is held, it is tried again")
        return
    digest, number = split_run(run.digest)
    store.change(lambda requests: requests.with_rerun(key, digest, number + 1))
    click.echo(f"{key} runs again: run {number + 1} of {digest}")


def _goes_on(client: Client, run: FinishedRun) -> bool:
    """Return whether the job has begun another run since that one."""
    job = client.find(run.ref)
    is_other = job is not None and annotations_of(job).get(DIGEST_ANNOTATION, run.digest) != run.digest
    return job is not None and is_other and end_of_run(job) is None


def _read(client: Client, namespace: str, cluster: str | None) -> tuple[RequestStore, Inventory]:
    cluster = cluster or reported_cluster(client, namespace)
    return RequestStore(client, namespace, cluster), InventoryStore(client, namespace, cluster).read()


def _list_suspended(keys: Collection[str]) -> str:
    """Return the end of a sentence; nothing where nothing is suspended."""
    return f"; still suspended: {', '.join(sorted(keys))}" if keys else ""


def target_key(target: str, inventory: Inventory) -> str:
    """`all`, a kind, or the Ref.key of an object that the inventory knows by namespace and name."""
    if target == EVERYTHING or target.count("/") != 1:
        return target
    found = sorted(key for key in {*inventory.entries, *inventory.runs} if key.partition("/")[2] == target)
    if len(found) != 1:
        choice = f": give one of {', '.join(found)}" if found else ""
        raise click.ClickException(f"{len(found)} objects of gangplan's are named {target}{choice}")
    return found[0]
