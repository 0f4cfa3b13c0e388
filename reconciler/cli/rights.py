"""`gangplan rbac` and `gangplan config-schema`."""

from __future__ import annotations

import json
from pathlib import Path

import click
import yaml

from compiler.cli.inputs import repo_option
from reconciler.cli import namespace_option
from reconciler.cluster.objects import Object
from reconciler.cluster.rights import admission_objects, rbac_objects, reading_objects


@click.command()
@repo_option
@click.option("--cluster", help="Which cluster of the repository; needed only when there are several")
@namespace_option
@click.option("--read-only", is_flag=True, help="Print the permissions of import and shadow instead: list only")
def rbac(repo: Path, cluster: str | None, namespace: str, read_only: bool) -> None:
    """Print the RBAC permissions that a reconciler of this repository needs, and the admission policies that narrow
    them. Only kinds of the repository are included."""
    if read_only:
        from reconciler.cli.importing import read_kinds

        _print(reading_objects(((api.rpartition("/")[0], kind) for api, kind in read_kinds()), namespace))
        return
    from compiler.reading import read_specs
    from compiler.reading.clusters import NO_CLUSTER_CODES
    from compiler.repository.tree import Repository
    from compiler.rights import kinds_in_use

    specs = read_specs(Repository.from_directory(repo), cluster)
    for diagnostic in specs.diagnostics:
        if diagnostic.code in NO_CLUSTER_CODES:
            raise click.ClickException(diagnostic.message)
    objects = [*rbac_objects(kinds_in_use(specs), namespace), *admission_objects(namespace)]
    _print(objects)


def _print(objects: list[Object]) -> None:
    click.echo(yaml.safe_dump_all(objects, default_flow_style=None, sort_keys=False, width=1000), nl=False)


@click.command(name="config-schema")
def config_schema() -> None:
    """Print the JSON schema of the file that `gangplan reconcile --config` reads."""
    from reconciler.cli.commands import reconcile
    from reconciler.cli.config import config_schema as schema

    click.echo(json.dumps(schema(reconcile), indent=2))
