"""The configuration file of `gangplan reconcile`: its options under their names in camelCase, as YAML.

Schema and checks are generated from the command's options, so the file supports each of them. The command line wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

NOT_IN_A_FILE = frozenset({"config", "once", "help"})
"""Options of one call: where the file is, and whether to end."""


def _camel_case(option: str) -> str:
    first, *rest = option.removeprefix("--").split("-")
    return first + "".join(part.capitalize() for part in rest)


def _options(command: click.Command) -> dict[str, click.Option]:
    """Key in the file -> option."""
    found = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name not in NOT_IN_A_FILE:
            name = next(each for each in parameter.opts if each.startswith("--"))
            found[_camel_case(name)] = parameter
    return dict(sorted(found.items()))


def _schema_of(option: click.Option) -> dict[str, Any]:
    kind = option.type
    entry: dict[str, Any] = {"type": "string"}
    if isinstance(kind, click.Choice):
        entry["enum"] = [*kind.choices]
    elif isinstance(kind, (click.IntRange, click.FloatRange)):
        entry = {"minimum": kind.min, "type": "integer" if isinstance(kind, click.IntRange) else "number"}
    return {"description": option.help or "", **({"items": entry, "type": "array"} if option.multiple else entry)}


def config_schema(command: click.Command) -> dict[str, Any]:
    """Return the JSON schema of the file."""
    properties = {key: _schema_of(option) for key, option in _options(command).items()}
    return {
        "additionalProperties": False,
        "properties": properties,
        "title": f"gangplan {command.name}",
        "type": "object",
    }


def read_config(path: Path, command: click.Command) -> dict[str, Any]:
    """Return the values of a file, by click's names of the options. Raises click.ClickException with file, line and
    key."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise click.ClickException(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise click.ClickException(f"{path}:1: this is not a map of options")
    options, lines = _options(command), {key.value: key.start_mark.line + 1 for key, _ in root.value}
    for key, value in values.items():
        try:
            _check_value(options.get(key), value, command)
        except click.BadParameter as error:
            raise click.ClickException(f"{path}:{lines.get(str(key), 1)}: {key}: {error.message}") from error
    return {str(options[key].name): value for key, value in values.items()}


def _check_value(option: click.Option | None, value: Any, command: click.Command) -> None:
    """Raise click.BadParameter for a value that the option does not take."""
    if option is None:
        raise click.BadParameter("there is no such option")
    if isinstance(value, (bool, dict)) or isinstance(value, list) != option.multiple:
        raise click.BadParameter(f"{value!r} is not a {'list' if option.multiple else 'text or number'}")
    option.type_cast_value(click.Context(command), value)


def load_config(ctx: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Use the file's values as defaults of the other options; the callback of --config."""
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **read_config(path, ctx.command)}
    return path
