"""Plugins of Volcano Jobs and the flags that each reads (pkg/controllers/job/plugins of Volcano 1.15.1 and 1.16; check
GP436 compares with the cluster's release)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from compiler.diagnostics.diagnostic import suggestion
from compiler.volcano.arguments import TRUTH_WORDS

FLAGS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    (files("compiler.volcano") / "job_plugins.toml").read_text("utf-8")
)
"""Plugin -> flag -> bool, int, text, or task (the name of one of the job's tasks)."""
_FLAG = re.compile(r"--?(?P<name>[^-=][^=]*)(?:=(?P<value>.*))?", re.DOTALL)
_INT = re.compile(r"[-+]?(\d+|0[xX][0-9a-fA-F]+)")


@dataclass(frozen=True, slots=True)
class FlagFlaw:
    """A fault of the argument of that index."""

    index: int
    message: str
    help: str


def flag_flaws(plugin: str, arguments: Sequence[str], tasks: Sequence[str]) -> Iterator[FlagFlaw]:
    """Yield the faults of a plugin's arguments. As in Go's package flag, the first unreadable one ends the reading."""
    flags, index = FLAGS[plugin], 0
    while index < len(arguments):
        text, at = arguments[index], index
        index += 1
        match = _FLAG.fullmatch(text)
        if match is None:
            message = f"{text!r} is not a flag, and the plugin {plugin} reads nothing from there on"
            yield FlagFlaw(at, message, "write --NAME=VALUE, or remove it")
            return
        name, value = match["name"], match["value"]
        if name not in flags:
            known = ", ".join(f"--{flag}" for flag in flags)
            help = suggestion(
                f"--{name}", [f"--{flag}" for flag in flags], f"use one of {known}" if flags else "remove it"
            )
            yield FlagFlaw(at, f"the plugin {plugin} has no flag --{name}, and reads nothing from there on", help)
            return
        if value is None and flags[name] != "bool":
            value = arguments[index] if index < len(arguments) else ""
            index += 1
        yield from _value_flaws(at, name, "true" if value is None else value, flags[name], tasks)


def _value_flaws(at: int, name: str, value: str, kind: str, tasks: Sequence[str]) -> Iterator[FlagFlaw]:
    if kind == "task" and value not in tasks:
        help = suggestion(value, tasks, f"name one of its tasks: {', '.join(tasks)}")
        yield FlagFlaw(at, f"--{name} names the task {value!r}, which the job does not have", help)
    elif kind == "int" and not _INT.fullmatch(value):
        yield FlagFlaw(at, f"--{name} is {value!r}, not a whole number", "write a whole number")
    elif kind == "bool" and value not in TRUTH_WORDS:
        yield FlagFlaw(at, f"--{name} is {value!r}, not true or false", "write true or false")
