"""Defaults of options: environment variables, and [defaults] of the repository's gangplan.toml.

A command's own option wins, then the variable, then the file. The file may be a stranger's, in CI: what names a file, a
program or an address is not taken from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from compiler.repository.paths import CONFIGURATION_FILE

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
