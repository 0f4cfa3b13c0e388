"""`gangplan`: the compiler's commands, and those of a cluster, which alone import kubernetes and GitPython."""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from compiler.cli.root import cli
from compiler.repository.tree import Repository

Command = TypeVar("Command", bound=Callable[..., Any])

for _name, _module, _short_help in (
    ("reconcile", "commands", "Keep a cluster in the state of the repository."),
    ("rerun", "requests", "Run a finished job again, or retry one that was not bound."),
    ("resume", "requests", "End a suspension."),
    ("suspend", "requests", "Suspend reconciliation of an object, a kind or all."),
    ("snapshot", "commands", "Write the state of a cluster, for plan --state."),
    ("status", "status", "Show reconciler status."),
    ("rbac", "rights", "Print the RBAC permissions that a reconciler of this repository needs."),
    ("config-schema", "rights", "Print the schema of reconcile's --config."),
    ("version", "version", "Show the version of gangplan, its solver and Python."),
    ("diff", "diff", "Show what a change of the repository does to jobs and queues."),
    ("report", "report", "Write the plan as one HTML page with a picture of the cluster."),
    ("sandbox", "sandbox", "Run a control plane with simulated nodes on this machine."),
    ("shadow", "shadow", "Show what gangplan would do in a cluster that another scheduler places."),
    ("simulate", "simulate", "Replay a trace of jobs, and compare policies or revisions."),
):
    cli.add_lazy(_name, f"reconciler.cli.{_module}:{_name.replace('-', '_')}", _short_help)

cli.add_lazy(
    "import", "reconciler.cli.importing:import_cluster", "Write a cluster's queues, nodes and jobs as a repository."
)


def load_tree(repo: Path) -> Repository:
    """Return the files of a folder, dated by the commits that brought them; undated outside of a git repository."""
    from dataclasses import replace

    from reconciler.git.history import work_tree_dates

    tree = Repository.from_directory(repo)
    return replace(tree, commit_dates=work_tree_dates(repo))


namespace_option = click.option(
    "--namespace", default="gangplan-system", show_default=True, help="Where gangplan keeps its own objects"
)


def add_kubeconfig_options(command: Command) -> Command:
    """Add --kubeconfig and --context."""
    help = "Kubeconfig [default: KUBECONFIG, ~/.kube/config, or the service account in a pod]"
    kubeconfig = click.option("--kubeconfig", type=click.Path(path_type=Path), help=help)
    return kubeconfig(click.option("--context", help="Context of the kubeconfig")(command))


def state_folder(cluster: str) -> Path:
    """Return the default of --data: where a reconciler keeps its clone (XDG base directories)."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(base) / "gangplan" / cluster


def reduce_garbage_collection() -> None:
    """Make full garbage collections rare: a plan's millions of objects live until it is done, hardly any in cycles."""
    gc.set_threshold(50_000, 20, 50)


def keep_stdout_for_python() -> None:
    """Let only Python write to standard output: a native library that prints there would spoil JSON, SARIF and
    Markdown. HiGHS 1.16 prints two lines when a process creates its first solver, whatever its options are."""
    if sys.stdout is None:  # closed by who called
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return
    former = sys.stdout
    former.flush()
    kept = io.TextIOWrapper(os.fdopen(os.dup(1), "wb"), former.encoding, former.errors, line_buffering=former.isatty())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    sys.stdout = sys.__stdout__ = kept  # type: ignore[misc]


def main() -> None:
    """The `gangplan` command. Without a handler no signal ends the first process of a container."""
    keep_stdout_for_python()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    reduce_garbage_collection()
    cli(obj=load_tree)
