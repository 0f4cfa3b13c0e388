"""The root group `gangplan`, whose commands are imported when they are called.

Defaults of options come from environment variables, and from [defaults] of the repository's gangplan.toml. A command's
own option wins, then the variable, then the file. The file may be a stranger's, in CI: what names a file, a
program or an address is not taken from it.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from compiler.repository.paths import CONFIGURATION_FILE
from compiler.version import VERSION

click.UsageError.exit_code = 1  # 2 belongs to --detailed-exitcode
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # none is used, and to look for them takes 20 ms

log = logging.getLogger(__name__)
Command = TypeVar("Command", bound=Callable[..., Any])
DEBUG_VARIABLE = "GANGPLAN_DEBUG"


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called; until then they are "module:attribute"."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy_commands: dict[str, tuple[str, str]] = {}

    def add_lazy(self, name: str, target: str, short_help: str) -> None:
        self.lazy_commands[name] = target, short_help

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.lazy_commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy_commands:
            return super().get_command(ctx, cmd_name)
        from compiler.cli.root import add_variables, configured_defaults, file_around

        module, _, attribute = self.lazy_commands[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        add_variables(cmd_name, command)
        if not ctx.resilient_parsing and (file := file_around(Path.cwd())):
            ctx.default_map = {cmd_name: configured_defaults(file, cmd_name, command)}
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from compiler.diagnostics.diagnostic import did_you_mean

            if near := did_you_mean(args[0], self.list_commands(ctx)):
                ctx.fail(f"there is no command {args[0]!r}. Did you mean {near!r}?")
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A bug in gangplan ends it in one line."""
        if os.environ.get(DEBUG_VARIABLE):
            logging.basicConfig()
            logging.getLogger("compiler").setLevel(logging.DEBUG)
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, MemoryError, OSError):
            raise  # for click, and Python, to report
        except Exception as error:
            from compiler.diagnostics.guard import exception_text

            log.debug("internal error", exc_info=error)
            text = f"internal error: {exception_text(error)}. Fix: report this bug with the repository and the command"
            raise click.ClickException(f"{text}; {DEBUG_VARIABLE}=1 prints the traceback") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = []
        for name in self.list_commands(ctx):
            if name in self.lazy_commands:
                rows.append((name, self.lazy_commands[name][1]))
            elif (command := super().get_command(ctx, name)) is not None:
                rows.append((name, command.get_short_help_str()))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="gangplan %(version)s")
def cli() -> None:
    """Compile queues, topology and jobs from a git repository into a proven gang placement for Kubernetes and
    Volcano.

    Defaults of options: the variable GANGPLAN_COMMAND_OPTION (GANGPLAN_PLAN_OUTPUT; GANGPLAN_CLUSTER and
    GANGPLAN_REPO for all commands), then [defaults] in gangplan.toml."""


for _name, _short_help in (
    ("check", "Check the repository for problems."),
    ("compile", "Write the bound manifests, the scheduler ConfigMap and the lock."),
    ("completion", "Print the shell completion script."),
    ("explain", "Explain why a job starts or waits, and what would help."),
    ("init", "Write a small repository to start from."),
    ("plan", "Show what would start where, and what waits and why."),
    ("schema", "Print the JSON schema of gangplan's own kinds."),
):
    cli.add_lazy(_name, f"compiler.cli.{_name}:{_name}", _short_help)


PREFIX = "GANGPLAN"
TABLE = "defaults"
SHARED = frozenset({"cluster", "context", "executor", "kubeconfig", "repo", "time-limit"})
"""Options that mean the same for every command, so that a variable may name them without a command."""
NOT_FROM_FILES = frozenset({"context", "diff", "executor", "fix"})
COMMANDS_WITHOUT_FILE = frozenset({"reconcile"})
"""It has a file of its own, --config, and its repository is not read when it starts."""


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """Yield each option with its long name, without the dashes."""
    for option in command.params:
        if isinstance(option, click.Option) and option.expose_value:
            yield max(option.opts, key=len).lstrip("-"), option


def add_variables(name: str, command: click.Command) -> None:
    """Let GANGPLAN_PLAN_TIME_LIMIT, and for shared options GANGPLAN_TIME_LIMIT, set an option that is not given."""
    for spelling, option in _options(command):
        prefixes = [f"{PREFIX}_{name}", *([PREFIX] if spelling in SHARED else [])]
        option.envvar = [f"{prefix}_{spelling}".upper().replace("-", "_") for prefix in prefixes]


def file_around(folder: Path) -> Path | None:
    """Return the nearest gangplan.toml, of this folder or one around it."""
    found = (each / CONFIGURATION_FILE for each in (folder, *folder.parents))
    return next((file for file in found if file.is_file()), None)


def configured_defaults(file: Path, name: str, command: click.Command) -> dict[str, Any]:
    """Return the file's options of a command, by the parameter's name.

    Raises ClickException for an option that the command does not have or that may not be given in a file.
    """
    import tomllib

    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8")).get(TABLE, {})
    except (OSError, ValueError):
        return {}  # the check of the repository reports it, with its place
    if not isinstance(tables, Mapping):
        raise click.ClickException(f"{file}: {TABLE} is not a table. Fix: write [{TABLE}] and options below it")
    if name in COMMANDS_WITHOUT_FILE:
        return {}
    own = tables.get(name, {})
    options = dict(_options(command))
    plain = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    shared = {key: value for key, value in plain.items() if key in options}
    if not isinstance(own, Mapping):
        own = {}
    found = {}
    for key, value in {**shared, **own}.items():
        option = options.get(key)
        if option is None:
            known = ", ".join(sorted(each for each in options if _may_stand_in_file(each, options[each])))
            raise click.ClickException(f"{file}: {name} has no option {key}. Fix: use one of {known}")
        if not _may_stand_in_file(key, option):
            variable = f"{PREFIX}_{name}_{key}".upper().replace("-", "_")
            raise click.ClickException(f"{file}: {key} may not be set in a file. Fix: use --{key} or {variable}")
        found[str(option.name)] = value
    return found


def _may_stand_in_file(spelling: str, option: click.Option) -> bool:
    return not isinstance(option.type, click.Path) and spelling not in NOT_FROM_FILES
