"""The configuration file of `gangplan reconcile`: its options under their names in camelCase, as YAML.

The model is made from the options of the command, so there is none that the file lacks. The command line wins.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

if TYPE_CHECKING:
    from pydantic import BaseModel

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


def _type_of(option: click.Option) -> Any:
    from pydantic import Field

    kind = option.type
    if option.is_flag:
        value: Any = bool
    elif isinstance(kind, click.Choice):
        value = Literal[tuple(kind.choices)]
    elif isinstance(kind, (click.IntRange, click.FloatRange)):
        number: Any = int if isinstance(kind, click.IntRange) else float
        value = Annotated[number, Field(ge=kind.min, le=kind.max)]
    else:
        value = str
    return list[value] if option.multiple else value


@cache
def config_model(command: click.Command) -> type[BaseModel]:
    """The pydantic model of the file."""
    from pydantic import ConfigDict, Field, create_model

    fields: dict[str, Any] = {}
    for key, option in _options(command).items():
        fields[key] = (_type_of(option), Field(default=None, description=option.help or ""))
    rules = ConfigDict(extra="forbid", strict=True, title="gangplan reconcile")
    return create_model("ReconcileConfiguration", __config__=rules, **fields)


def config_schema(command: click.Command) -> dict[str, Any]:
    """The JSON schema of the file."""
    schema: dict[str, Any] = config_model(command).model_json_schema()
    for entry in schema["properties"].values():
        entry.pop("default", None)
        entry.pop("title", None)
    return schema


def read_config(path: Path, command: click.Command) -> dict[str, Any]:
    """The values of a file, by click's names of the options. Raises click.ClickException with file, line and key."""
    import yaml
    from pydantic import ValidationError

    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise click.ClickException(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise click.ClickException(f"{path}:1: this is no map of options")
    try:
        config_model(command).model_validate(values)
    except ValidationError as error:
        lines = {key.value: key.start_mark.line + 1 for key, _ in getattr(root, "value", ())}
        first = error.errors(include_url=False, include_context=False)[0]
        key = str(first["loc"][0])
        message = "there is no such option" if first["type"] == "extra_forbidden" else first["msg"]
        raise click.ClickException(f"{path}:{lines.get(key, 1)}: {key}: {message}") from error
    options = _options(command)
    return {str(options[key].name): value for key, value in values.items()}


def load_config(ctx: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """The callback of --config: what the file says are the defaults of the other options."""
    if path is not None:
        ctx.default_map = {**(ctx.default_map or {}), **read_config(path, ctx.command)}
    return path
