"""`gangplan sandbox`: a control plane with simulated nodes on this machine, and a reconciler of the working tree.

The control plane is that of the tests, which only a checkout holds (docs/develop/decisions/0030-sandbox.md). One
process, the keeper (tests/controlplane/sandbox.py), starts all others, and none of them outlives it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, cast

import click

from compiler.cli.inputs import repo_option
from reconciler.cli import state_folder
from reconciler.settings import DataFolderInUse, lock_data_folder

CHECKOUT = Path(__file__).resolve().parents[2]
KEEPER = "tests.controlplane.sandbox"
FOLDER = "_sandbox"
"""Below the folder for state: a name that no cluster has."""
READY, STAY = "ready", "stay"
"""The keeper's line once everything runs, and the reply without which it exits."""
PORT = 8421
END_SECONDS = 30.0
"""How long the keeper may take to end before it is killed."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One that was started. pid, started: of its keeper, `started` the kernel's start time, since a pid is used again.
    kubeconfig, report, programs: empty until it is ready."""

    pid: int
    started: str
    repo: str
    kubeconfig: str = ""
    report: str = ""
    programs: str = ""

    def shell_lines(self) -> str:
        """Return how to use it, as lines for a shell's eval."""
        path = f'export KUBECONFIG={shlex.quote(self.kubeconfig)} PATH="$PATH":{shlex.quote(self.programs)}'
        return f"{path}\n# report: {self.report}\n# to end it: gangplan sandbox down"


def start_time(pid: int) -> str:
    """Return the kernel's start time of a process; "" for no process or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def write_sandbox(folder: Path, sandbox: Sandbox) -> None:
    """Write the state file, whole or not at all."""
    aside = folder / "state.json.new"
    aside.write_text(json.dumps(asdict(sandbox), indent=1))
    aside.replace(folder / "state.json")


def running_sandbox(folder: Path) -> Sandbox | None:
    """Return the sandbox whose keeper runs; None where the state is missing, unreadable, or left by a dead keeper."""
    try:
        found = Sandbox(**json.loads((folder / "state.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return found if found.started and start_time(found.pid) == found.started else None


@click.command()
@click.argument("action", type=click.Choice(["up", "down"]))
@repo_option
@click.option("--cluster", help="Which cluster of the repository; needed only when there are several")
@click.option(
    "--port", default=PORT, show_default=True, type=click.IntRange(1, 65535), help="Where the report page is served"
)
def sandbox(action: str, repo: Path, cluster: str | None, port: int) -> None:
    """Run a control plane with Volcano, simulated nodes and the reconciler on this machine; for Linux, from a checkout
    of gangplan.

    `up` follows the files of the working tree, committed or not. The first time on a machine it builds Kubernetes and
    Volcano from source. `eval "$(gangplan sandbox up)"` points kubectl at it. `down` ends it and deletes its state."""
    folder = state_folder(FOLDER)
    if action == "down":
        return end_sandbox(folder)
    return start_sandbox(folder, repo.resolve(), cluster, port)


def start_sandbox(folder: Path, repo: Path, cluster: str | None, port: int, checkout: Path = CHECKOUT) -> None:
    """Start the sandbox of a repository with the keeper of the checkout, or show the one that runs."""
    found = running_sandbox(folder)
    if found is None:
        _check_machine(port, checkout)
        arguments = [str(folder), str(repo), str(port), *([cluster] if cluster else [])]
        with _keeper(checkout, arguments) as keeper:
            _wait_until_ready(keeper)
        found = running_sandbox(folder)
    elif found.repo == str(repo) and found.report:
        click.echo(f"the sandbox of {repo} already runs", err=True)
    else:
        raise click.ClickException(f"a sandbox of {found.repo} already runs. Fix: gangplan sandbox down")
    if found is None:
        raise click.ClickException(f"the sandbox ended at once. Fix: see the logs in {folder}")
    click.echo(found.shell_lines())


def _check_machine(port: int, checkout: Path) -> None:
    if not (checkout / f"{KEEPER.replace('.', '/')}.py").is_file():
        text = "gangplan is installed from a package, which does not hold the control plane"
        raise click.ClickException(f"{text}. Fix: run scripts/setup in a clone of gangplan, and its .venv/bin/gangplan")
    if sys.platform != "linux":
        raise click.ClickException("the sandbox needs Linux. Fix: use a virtual machine")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            text = f"port {port} of this machine cannot be used: {error.strerror}. Fix: --port with another one"
            raise click.ClickException(text) from error


@contextmanager
def _keeper(checkout: Path, arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start the keeper; an error meanwhile ends it. Out of reach of Ctrl-C, which is for this process to answer."""
    command = [sys.executable, "-m", KEEPER, *arguments]
    pipe = subprocess.PIPE
    keeper = subprocess.Popen(
        command, cwd=checkout, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield keeper
    except BaseException:
        keeper.terminate()
        keeper.wait()
        raise


def _wait_until_ready(keeper: subprocess.Popen[str]) -> None:
    """Pass on what the keeper reports until all runs. Raises ClickException where it ends instead."""
    answer, reported = cast(IO[str], keeper.stdin), cast(IO[str], keeper.stdout)
    last = "the sandbox did not start"
    for line in reported:
        if line.rstrip() == READY:
            answer.write(f"{STAY}\n")
            answer.flush()
            return
        last = line.rstrip()
        if not last.startswith("error: "):
            click.echo(last, err=True)
    raise click.ClickException(last.removeprefix("error: "))


def end_sandbox(folder: Path, patience: float = END_SECONDS) -> None:
    """End the keeper, by force after so many seconds, and delete the state."""
    found = running_sandbox(folder)
    if found is not None:
        os.kill(found.pid, signal.SIGTERM)
        if not _has_ended(found, patience):
            os.killpg(found.pid, signal.SIGKILL)  # its guard ends the others
            _has_ended(found, END_SECONDS)
    try:
        with lock_data_folder(folder):
            shutil.rmtree(folder)
    except DataFolderInUse as error:
        text = f"a sandbox is being started, or {folder}/state.json is broken. Fix: end the process {KEEPER}"
        raise click.ClickException(text) from error
    click.echo("the sandbox has ended" if found else "no sandbox runs", err=True)


def _has_ended(sandbox: Sandbox, limit: float) -> bool:
    until = time.monotonic() + limit
    while start_time(sandbox.pid) == sandbox.started:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
