"""`gangplan import`: a living cluster, or files of its objects, as a repository."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import click

from compiler.cli.inputs import ANY_FOLDER, FILE, print_diagnostics, reported, write_file
from compiler.kinds.kind import kinds
from compiler.kubernetes import API_GROUP, SCHEDULER_NAMESPACE, Object
from compiler.validation.names import DNS_SUBDOMAIN
from reconciler.cli import add_kubeconfig_options
from reconciler.cli.commands import OPTIONAL_KINDS, state_items
from reconciler.cli.connection import one_line_errors, open_client, time_limit, timeout_option
from reconciler.cluster.client import Client, Forbidden
from reconciler.cluster.objects import STATE_KINDS, Ref

SCHEDULER_CONFIG_MAP = Ref("v1", "ConfigMap", SCHEDULER_NAMESPACE, "volcano-scheduler-configmap")
OTHER_KINDS = (
    *(("kueue.x-k8s.io/v1beta1", kind) for kind in ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor")),
    *(("kueue.x-k8s.io/v1beta2", kind) for kind in ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor")),
    ("scheduling.run.ai/v2", "Queue"),
)
"""Read in addition to what gangplan plans."""


def _cluster_name(ctx: click.Context, param: click.Parameter, name: str) -> str:
    """It names a folder too."""
    if objection := DNS_SUBDOMAIN.objection(name):
        raise click.BadParameter(f"{name!r}: {objection}", ctx, param)
    return name


@click.command(name="import")
@click.argument("files", nargs=-1, type=FILE)
@click.option(
    "-o",
    "--output",
    "directory",
    default=".",
    show_default=True,
    type=ANY_FOLDER,
    help="Folder to write the repository into",
)
@click.option(
    "--cluster",
    default="imported",
    show_default=True,
    callback=_cluster_name,
    help="Name of the cluster in the repository",
)
@click.option("--adopt", is_flag=True, help="Let gangplan take over fields that other managers own in these objects")
@timeout_option(120.0, "Seconds that reading the cluster may take")
@add_kubeconfig_options
def import_cluster(
    files: tuple[Path, ...],
    directory: Path,
    cluster: str,
    adopt: bool,
    timeout: float,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Write the queues, nodes, HyperNodes, priority classes, scheduler configuration and jobs of a cluster as a
    repository, and check it. FILES hold objects as `gangplan snapshot` or `kubectl get -o yaml` writes them, queues of
    Kueue and KAI among them; without any the cluster is read. Nothing is written to the cluster.
    """
    from compiler.cluster_state.cluster_state import StateError, read_objects
    from compiler.importing.repository import import_objects

    top = directory / "cluster-specs" / cluster
    taken = [path for path in (top, directory / "jobs") if os.path.lexists(path)]
    if taken:
        raise click.ClickException(f"{taken[0]} exists already; nothing was written")
    objects: list[Object] = []
    for file in files:
        with reported(file, StateError):
            objects += read_objects(file.read_bytes())
    if not files:
        with one_line_errors(), time_limit(timeout):
            objects += cluster_objects(open_client(kubeconfig, context))
    found = import_objects(objects, cluster, adopt=adopt)
    with reported():
        for name, text in found.files.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            write_file(directory / name, text)
            click.echo(f"wrote {directory / name}")
    for note in found.notes:
        click.echo(f"note: {note}")
    _show_findings(directory, cluster)


def read_kinds() -> list[tuple[str, str]]:
    """API version and kind of all that is listed; ConfigMaps are not."""
    planned = ((kind.api_version, kind.name) for kind in kinds().values() if kind.group != API_GROUP)
    found = dict.fromkeys((*STATE_KINDS, *OPTIONAL_KINDS, *planned, *OTHER_KINDS))
    return [each for each in found if each != ("v1", "ConfigMap")]


def cluster_objects(client: Client) -> Iterator[Object]:
    """Yield the cluster's objects of the kinds that gangplan plans, without kinds that are not served or may not be
    listed."""
    optional = [each for each in read_kinds() if each not in STATE_KINDS]
    yield from state_items(client, {(api, kind): f"note: {kind} objects are left out" for api, kind in optional})
    try:
        if (config_map := client.find(SCHEDULER_CONFIG_MAP)) is not None:
            yield config_map
    except Forbidden as error:
        click.echo(f"note: the scheduler's configuration is left out: {error}", err=True)


def _show_findings(directory: Path, cluster: str) -> None:
    """Print the findings of `gangplan check` on the written repository."""
    from compiler.reading import read_specs
    from compiler.repository.tree import Repository

    print_diagnostics(read_specs(Repository.from_directory(directory), cluster).diagnostics)
    where = "" if directory == Path() else f" --repo {quote(str(directory))}"
    click.echo(f"Next: gangplan check{where}, then gangplan plan{where}")
