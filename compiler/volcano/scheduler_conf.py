"""volcano-scheduler.conf as data: one reader for SchedulerConfiguration objects and raw ConfigMaps.

Volcano accepts unknown keys silently; the checks GP4xx report them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.diagnostics import Diagnostic, declare_rule
from compiler.specs import PluginSpec, SchedulerSpec
from compiler.syntax.documents import Document, FieldPath

CONF_KEY = "volcano-scheduler.conf"
FILE_KEYS = ("actions", "tiers", "configurations", "metrics")
CONFIGURATION_KEYS = (*FILE_KEYS, "customPlugins")
ARGUMENT_TYPES = ("int", "float", "bool", "string")

BAD_SCHEDULER_CONF = declare_rule(
    "GP413",
    "error",
    "scheduler configuration of the wrong shape",
    """Volcano rejects the whole file, or ignores the part silently: actions is a comma-separated text (a list in a
    SchedulerConfiguration), tiers a list of {plugins: [{name, flags, arguments}]}, configurations a list of
    {name, arguments}, metrics a mapping of texts.""",
)


def read_scheduler_conf(
    document: Document, data: Any, base: FieldPath, *, raw: str | None, name: str, namespace: str
) -> tuple[SchedulerSpec | None, list[Diagnostic]]:
    """The configuration in `data`, which stands at `base`, and every problem of its shape; None where there is one."""
    reader = _ConfReader(document, base)
    spec = reader.scheduler_spec(data, raw, name, namespace)
    return (None if reader.problems else spec), reader.problems


class _ConfReader:
    """Reads the parts of a configuration and collects the problems of their shape."""

    def __init__(self, document: Document, base: FieldPath) -> None:
        self.document, self.base_path = document, base
        self.problems: list[Diagnostic] = []

    def add_problem(self, path: FieldPath, message: str, help: str) -> None:
        self.problems.append(self.document.diagnostic(BAD_SCHEDULER_CONF, (*self.base_path, *path), message, help))

    def scheduler_spec(self, data: Any, raw: str | None, name: str, namespace: str) -> SchedulerSpec:
        if not isinstance(data, dict):
            self.add_problem((), "the configuration is no mapping", "write actions and tiers")
            data = {}
        return SchedulerSpec(
            document=self.document,
            name=name,
            namespace=namespace,
            actions=self.actions(data.get("actions"), raw is not None),
            tiers=tuple(
                tuple(self.tier_plugins(tier, ("tiers", index)))
                for index, tier in self.indexed_mappings(data.get("tiers"), ("tiers",))
            ),
            configurations=dict(self.configurations(data.get("configurations"))),
            metrics=self.metrics(data.get("metrics")),
            raw_text=raw,
            base_path=self.base_path,
            custom_plugins=dict(self.custom_plugins(data.get("customPlugins"))) if raw is None else {},
        )

    def indexed_mappings(self, value: Any, path: FieldPath) -> Iterator[tuple[int, dict[str, Any]]]:
        if value is not None and not isinstance(value, list):
            self.add_problem(path, f"{path[-1]} is no list", "write a list")
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, dict):
                yield index, item
            else:
                self.add_problem((*path, index), f"an entry of {path[-1]} is no mapping", "write a mapping")

    def actions(self, value: Any, raw: bool) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        elif raw or not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            self.add_problem(
                ("actions",),
                "actions is missing" if value is None else "actions is no text",
                'write actions: "enqueue, allocate, backfill"',
            )
            return ()
        if not any(value):
            self.add_problem(("actions",), "actions is empty", 'write actions: "enqueue, allocate, backfill"')
        return tuple(part for part in value if part)

    def tier_plugins(self, tier: Mapping[str, Any], path: FieldPath) -> Iterator[PluginSpec]:
        for index, plugin in self.indexed_mappings(tier.get("plugins"), (*path, "plugins")):
            at = (*path, "plugins", index)
            name, arguments = plugin.get("name"), plugin.get("arguments")
            if not isinstance(name, str) or not name:
                self.add_problem(at, "a plugin has no name", "add name")
                continue
            if arguments is not None and not isinstance(arguments, dict):
                self.add_problem((*at, "arguments"), "arguments is no mapping", "write a mapping")
                arguments = None
            flags: dict[str, bool] = {}
            for key, value in plugin.items():
                if key in ("name", "arguments"):
                    continue
                if isinstance(value, bool):
                    flags[key] = value
                elif key.startswith("enable"):
                    self.add_problem((*at, key), f"{key} is not true or false", "write true or false, unquoted")
            yield PluginSpec(name, arguments or {}, flags)

    def configurations(self, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        for index, entry in self.indexed_mappings(value, ("configurations",)):
            at: FieldPath = ("configurations", index)
            name, arguments = entry.get("name"), entry.get("arguments")
            if not isinstance(name, str) or not name:
                self.add_problem(at, "a configuration has no name", "add the action's name")
            elif arguments is not None and not isinstance(arguments, dict):
                self.add_problem((*at, "arguments"), "arguments is no mapping", "write a mapping")
            else:
                yield name, arguments or {}

    def metrics(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(part, str) for part in value.values()):
            self.add_problem(("metrics",), "metrics is no mapping of texts", "quote the values")
            return {}
        return dict(value)

    def custom_plugins(self, value: Any) -> Iterator[tuple[str, dict[str, str]]]:
        for index, entry in self.indexed_mappings(value, ("customPlugins",)):
            at: FieldPath = ("customPlugins", index)
            name, arguments = entry.get("name"), entry.get("arguments") or {}
            if not isinstance(name, str) or not name:
                self.add_problem(at, "a custom plugin has no name", "add name")
            elif not isinstance(arguments, dict) or any(kind not in ARGUMENT_TYPES for kind in arguments.values()):
                self.add_problem(
                    (*at, "arguments"),
                    "arguments is no mapping of names to types",
                    f"the types are {', '.join(ARGUMENT_TYPES)}",
                )
            else:
                yield name, arguments
