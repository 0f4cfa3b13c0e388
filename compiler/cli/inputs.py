"""Shared by the commands: options, loading of repository and state, compiling, reporting, and progress on stderr where
that is a terminal.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from compiler.cli.root import Command

if TYPE_CHECKING:
    from compiler.cluster_state.cluster_state import ClusterState
    from compiler.diagnostics.diagnostic import Diagnostic
    from compiler.outcome import Outcome
    from compiler.repository.tree import Repository
    from compiler.specs.cluster_spec import Specs
    from compiler.views.style import Style


@dataclass(frozen=True, slots=True)
class CompileInputs:
    """The input of a command, where to compute parts of the plan, and its time limit. time_limit: seconds since
    `started_at`; None for the cluster's. live_state: the content of a state that is not a file."""

    repo: Path
    cluster: str | None
    state_file: Path | None
    lock_file: Path | None
    executor: str
    time_limit: float | None
    started_at: float
    live_state: bytes = b""

    @property
    def may_fork(self) -> bool:
        """Not with Dask, whose client has threads of its own: a fork would take along the locks that they hold."""
        return self.executor == "processes"


def pause_garbage_collection() -> None:
    """Pause garbage collection: a command's objects live until its end, and looking for cycles in them takes a sixth of
    the time."""
    gc.disable()
    click.get_current_context().call_on_close(resume_garbage_collection)


def resume_garbage_collection() -> None:
    """Resume garbage collection for new objects only, also at the exit of the process."""
    gc.freeze()
    gc.enable()


def compile_options(command: Command) -> Command:
    """--repo, --cluster, --state, --lock, --time-limit and --executor, given to the command as `inputs`."""

    @wraps(command)
    def with_inputs(*args: Any, **options: Any) -> Any:
        pause_garbage_collection()
        names = ("repo", "cluster", "state_file", "lock_file", "executor", "time_limit")
        inputs = CompileInputs(**{name: options.pop(name) for name in names}, started_at=time.monotonic())
        return command(*args, inputs=inputs, **options)

    decorated: Any = executor_option(with_inputs)
    for option in (
        click.option(
            "--time-limit",
            type=click.FloatRange(min=0),
            metavar="SECONDS",
            help="Time limit for plan and reasons; the best plan found counts [default: the cluster's timeLimit]",
        ),
        click.option(
            "--lock", "lock_file", type=ANY_FILE, help="A gangplan.lock whose jobs count as running (see compile)"
        ),
        click.option("--state", "state_file", type=ANY_FILE, help="State of the cluster, as snapshot writes it"),
        click.option("--cluster", help="Which cluster of the repository; needed only when there are several"),
        repo_option,
    ):
        decorated = option(decorated)
    return cast(Command, decorated)


FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
ANY_FOLDER = click.Path(file_okay=False, path_type=Path)
ANY_FILE = click.Path(dir_okay=False, path_type=Path)
"""One that need not exist: to be written, or reported by who reads it. So is `ANY_FOLDER`."""


def take_defaults(ctx: click.Context, param: click.Parameter, repo: Path | None) -> Path | None:
    """Return a callback of --repo, before other options: these have the defaults of the gangplan.toml in a folder that
    was named, and not of the one around the working folder."""
    if repo is not None and ctx.info_name is not None:
        from compiler.cli.root import configured_defaults
        from compiler.repository.paths import CONFIGURATION_FILE

        file = repo / CONFIGURATION_FILE
        ctx.default_map = configured_defaults(file, ctx.info_name, ctx.command) if file.is_file() else {}
    return repo


def _repository_around(ctx: click.Context, param: click.Parameter, repo: Path | None) -> Path:
    """Return the folder that was named, else the one around this that holds cluster-specs/."""
    if (named := take_defaults(ctx, param, repo)) is not None:
        return named
    from compiler.repository.tree import find_root

    here = Path.cwd()
    found = find_root(here) or here
    return Path() if found == here else found


repo_option = click.option(
    "--repo",
    type=FOLDER,
    is_eager=True,
    callback=_repository_around,
    help="The repository [default: the folder around this one that holds cluster-specs/]",
)


def _validate_executor(ctx: click.Context, param: click.Parameter, name: str) -> str:
    from compiler.cli.executor import ExecutorError, check_executor

    try:
        check_executor(name)
    except ExecutorError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    return name


def executor_option(command: Command) -> Command:
    """--executor: where independent parts of the plan are worked out."""
    return click.option(
        "--executor",
        default="processes",
        callback=_validate_executor,
        show_default=True,
        metavar="processes|local|dask://HOST:PORT",
        help="Where to compute large plans: worker processes, this process, or a Dask cluster; the plan is the same",
    )(command)


FAIL_LEVELS = ("no-plan", "error", "never-starts", "longer-waits")
"""Causes of a failed command; each includes the ones before it."""


class _FailLevel(click.Choice[str]):
    """One of `FAIL_LEVELS`. An earlier version had `never`, which reads as its opposite."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "never":
            self.fail("'never' is now 'no-plan'; 'never-starts' is for jobs that can never start", param, ctx)
        return str(super().convert(value, param, ctx))


def fail_option(help: str) -> Callable[[Command], Command]:
    """--fail-on: when to exit with 1."""
    return click.option("--fail-on", type=_FailLevel(FAIL_LEVELS), default="error", show_default=True, help=help)


def output_option(*formats: str, note: str = "") -> Callable[[Command], Command]:
    """-o: text for people, and formats for machines."""
    kind, help = click.Choice(["text", *formats]), f"Output format{note}"
    return click.option("-o", "--output", type=kind, default="text", show_default=True, help=help)


def compile_and_report(ctx: click.Context, inputs: CompileInputs) -> Outcome:
    """Compile, and print the diagnostics to stderr."""
    outcome = compile_inputs(ctx, inputs)
    print_diagnostics(outcome.diagnostics)
    return outcome


def compile_inputs(ctx: click.Context, inputs: CompileInputs) -> Outcome:
    """Return the outcome of compiling the repository with the options of a command."""
    from compiler.cli.executor import LEAST_SECONDS, open_executor
    from compiler.cli.forks import LEAST_ITEMS
    from compiler.cli.inputs import progress
    from compiler.cluster_state.cluster_state import ClusterState, StateError
    from compiler.pipeline import CommandLimit, compile_specs

    tree = load_tree(ctx, inputs.repo)
    has_time = inputs.time_limit is None or inputs.time_limit >= LEAST_SECONDS
    with open_executor(inputs.executor, forks=has_time and len(tree.files) >= LEAST_ITEMS) as mapper:
        state = load_state_file(inputs.state_file, inputs.live_state)
        limit = CommandLimit(inputs.time_limit, inputs.started_at)
        specs = _read_or_remember(ctx, tree, inputs, state or ClusterState())
        state = _with_lock(inputs.lock_file, specs, state)
        resume_garbage_collection()
        seconds = specs.cluster.time_limit if inputs.time_limit is None else inputs.time_limit
        ctx.call_on_close(partial(report_missed_limit, seconds, inputs.started_at))
        planning = progress(f"planning {len(specs.gangs)} jobs on {len(specs.nodes)} nodes")
        with reported(inputs.state_file, StateError), planning:
            return compile_specs(tree, specs, state, mapper=mapper, limit=limit)


def report_missed_limit(seconds: float, started_at: float) -> None:
    """One line on stderr where the command took longer than its time limit: a plan cannot do without some work."""
    took = time.monotonic() - started_at
    if took > seconds:
        least = "reading, serving each job once and verifying take as long as they take"
        click.echo(f"the time limit of {seconds:g} s is missed: {took:.1f} s; {least}", err=True)


def _read_or_remember(ctx: click.Context, tree: Repository, inputs: CompileInputs, state: ClusterState) -> Specs:
    """Return the specs; unchanged files are read from the user's cache folder."""
    from compiler.cli.reading_cache import ReadingCache
    from compiler.reading import read_specs

    cache = ReadingCache(inputs.repo)
    ahead = cache.read_ahead if inputs.may_fork else None
    specs = read_specs(tree, inputs.cluster, cache.parse, ahead, state.release_in)
    ctx.call_on_close(partial(cache.save, tree, specs.diagnostics))
    return specs


def load_tree(ctx: click.Context, repo: Path) -> Repository:
    """Return the repository, by the loader that a higher layer put into `ctx.obj` (it knows the dates of commits), else
    from the files."""
    if callable(ctx.obj):
        tree: Repository = ctx.obj(repo)
        return tree
    from compiler.repository.tree import Repository

    return Repository.from_directory(repo)


def folder_in_git(root: Path) -> str:
    """Return the prefix of a file's name for git, with a slash; empty at the top of the git repository or outside."""
    from compiler.repository.tree import folders_to_git_root

    root = Path(os.path.abspath(root))
    top = folders_to_git_root(root)[-1]
    folder = root.relative_to(top).as_posix() if (top / ".git").exists() else "."
    return "" if folder == "." else f"{folder}/"


@contextmanager
def reported(path: Path | None = None, *errors: type[ValueError]) -> Iterator[None]:
    """Exit the command with one line where a file cannot be read or written, or (`errors`) its text is invalid."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise click.ClickException(f"{error.filename}: {error.strerror}") from error
    except errors as error:
        raise click.ClickException(f"{path}: {error}") from error


def write_file(path: Path, text: str) -> None:
    """Write a result, with the same bytes on every system."""
    with reported():
        path.write_text(text, encoding="utf-8", newline="\n")


def load_state_file(path: Path | None, content: bytes = b"") -> ClusterState | None:
    """Return the state in a file, or in its content if that is known; None without a path."""
    if path is None:
        return None
    from compiler.cluster_state.cluster_state import StateError, load_state

    with reported(path, StateError):
        return load_state(content or path.read_bytes())


def _with_lock(path: Path | None, specs: Specs, state: ClusterState | None) -> ClusterState | None:
    """Return the state with what the lock has run."""
    if path is None:
        return state
    from compiler.comparison.carry_over import state_with_pods
    from compiler.emit.lock import LockError, planned_pods, read_lock

    with reported(path, LockError):
        return state_with_pods(specs, planned_pods(read_lock(path.read_bytes())), state)


def print_diagnostics(diagnostics: Sequence[Diagnostic]) -> None:
    """The diagnostics go to stderr; stdout belongs to the result."""
    from compiler.diagnostics.diagnostic import fold_diagnostics
    from compiler.diagnostics.render import render_text

    if diagnostics:
        colour, links = wants_colour(sys.stderr), wants_links(sys.stderr)
        click.echo(render_text(fold_diagnostics(diagnostics), colour=colour, links=links), err=True, nl=False)


def wants_colour(stream: Any) -> bool:
    """Return whether to write colours: on a terminal, unless NO_COLOR is not empty (https://no-color.org)."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def wants_links(stream: Any) -> bool:
    """Return whether to write links: where colours are, on a terminal that shows links."""
    from compiler.diagnostics.diagnostic import shows_links

    return wants_colour(stream) and shows_links(os.environ)


def terminal_style() -> Style:
    """Return the style of texts: as wide as the terminal, within a readable width; 100 columns without a terminal."""
    import shutil

    from compiler.views.style import Style

    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "")
    width = shutil.get_terminal_size((100, 24)).columns
    return Style(
        width=max(60, min(width, 120)),
        colour=wants_colour(sys.stdout),
        links=wants_links(sys.stdout),
        block_characters=encoding.startswith("utf"),
    )


echo = partial(click.echo, nl=False)
"""Results end in their own newline."""


FIRST_AFTER = 1.0
"""Seconds of silence: most commands end before."""


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show `text` and the seconds so far until the block ends, then take it away."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()
    shown = threading.Thread(target=_show, args=(text, ended), daemon=True)
    shown.start()
    try:
        yield
    finally:
        ended.set()
        shown.join()


def _show(text: str, ended: threading.Event) -> None:
    seconds = FIRST_AFTER
    while not ended.wait(FIRST_AFTER):
        sys.stderr.write(f"\r{text} {seconds:.0f} s")
        sys.stderr.flush()
        seconds += FIRST_AFTER
    if seconds > FIRST_AFTER:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
