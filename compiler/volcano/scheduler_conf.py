"""volcano-scheduler.conf as data: one reader for SchedulerConfiguration objects and raw ConfigMaps.

Volcano accepts unknown keys silently; the checks GP4xx report them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.volcano.arguments import OWNERS, typed_arguments

CONF_KEY = "volcano-scheduler.conf"
PREDICATE_CACHE = "predicateErrorCacheEnable"
AGENT_KEY = "agent-scheduler.conf"
CONF_LINES = re.compile(r"^tiers[ \t]*:|^actions[ \t]*:.*\ballocate\b", re.MULTILINE)
"""Lines by which a text is known for a scheduler configuration."""
FILE_KEYS = ("actions", "tiers", "configurations", "metrics")
ARGUMENT_TYPES = ("int", "float", "bool", "string")

BAD_SCHEDULER_CONF = declare_rule("GP413", "error")


def looks_like_conf(data: object) -> bool:
    """Return whether the data is a scheduler configuration: it has tiers, or the actions of one, and is not an
    object."""
    if not isinstance(data, dict) or "kind" in data or "apiVersion" in data:
        return False
    return "tiers" in data or (isinstance(actions := data.get("actions"), str) and "allocate" in actions)


def conf_text_keys(texts: Mapping[str, object]) -> list[str]:
    """Return the keys whose text is a scheduler configuration: volcano-scheduler.conf alone where there is one, else
    all that look like one. That of Volcano's agent scheduler is another program's."""
    if isinstance(texts.get(CONF_KEY), str):
        return [CONF_KEY]
    found = [key for key, text in texts.items() if _is_conf(text)]
    return [key for key in found if key != AGENT_KEY]


def _is_conf(text: object) -> bool:
    return isinstance(text, str) and bool(CONF_LINES.search(text)) and not _OF_KAI.search(text)


_OF_KAI = re.compile(r"^\s*[\"']?actions[\"']?\s*:.*\b(?:consolidation|stalegangeviction)\b", re.MULTILINE)
"""Actions of the KAI scheduler, whose configurations look like Volcano's."""


def read_scheduler_conf(
    document: Document, data: Any, base: FieldPath, *, raw: str | None, name: str, namespace: str
) -> tuple[SchedulerSpec, list[Diagnostic]]:
    """Return the configuration in `data`, which is at `base`, as far as it can be read, and every problem of its
    shape."""
    reader = _ConfReader(document, base)
    spec = reader.scheduler_spec(data, raw, name, namespace)
    return replace(spec, is_partial=bool(reader.problems)), reader.problems


class _ConfReader:
    """Reads the parts of a configuration and collects the problems of their shape."""

    def __init__(self, document: Document, base: FieldPath) -> None:
        self.document, self.base_path = document, base
        self.problems: list[Diagnostic] = []

    def add_problem(self, path: FieldPath, message: str, help: str) -> None:
        self.problems.append(self.document.diagnostic(BAD_SCHEDULER_CONF, (*self.base_path, *path), message, help))

    def scheduler_spec(self, data: Any, raw: str | None, name: str, namespace: str) -> SchedulerSpec:
        if not isinstance(data, dict):
            self.add_problem((), "the configuration is not a mapping", "write actions and tiers")
            data = {}
        entries = tuple(self.configurations(data.get("configurations")))
        first: dict[str, Mapping[str, Any]] = {}
        for _, action, arguments in entries:
            first.setdefault(action, arguments)
        return SchedulerSpec(
            document=self.document,
            name=name,
            namespace=namespace,
            actions=self.actions(data.get("actions"), raw is not None),
            tiers=tuple(
                () if tier is None else tuple(self.tier_plugins(tier, ("tiers", index)))
                for index, tier in self.indexed_mappings(data.get("tiers"), ("tiers",))
            ),
            configurations=first,
            configuration_entries=entries,
            metrics=self.metrics(data.get("metrics")),
            raw_text=raw,
            base_path=self.base_path,
            custom_plugins=dict(self.custom_plugins(data.get("customPlugins"))) if raw is None else {},
        )

    def indexed_mappings(self, value: Any, path: FieldPath) -> Iterator[tuple[int, dict[str, Any] | None]]:
        """Yield the entries of a list with their index, None for one that is not a mapping."""
        if value is not None and not isinstance(value, list):
            self.add_problem(path, f"{path[-1]} is not a list", "write a list")
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if not isinstance(item, dict):
                self.add_problem((*path, index), f"an entry of {path[-1]} is not a mapping", "write a mapping")
            yield index, item if isinstance(item, dict) else None

    def actions(self, value: Any, raw: bool) -> tuple[str, ...]:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        elif raw or not isinstance(value, list) or not all(isinstance(part, str) for part in value):
            self.add_problem(
                ("actions",),
                "actions is missing" if value is None else "actions is not text",
                'write actions: "enqueue, allocate, backfill"',
            )
            return ()
        if not any(value):
            self.add_problem(("actions",), "actions is empty", 'write actions: "enqueue, allocate, backfill"')
            return ()
        return tuple(value)

    def tier_plugins(self, tier: Mapping[str, Any], path: FieldPath) -> Iterator[PluginSpec]:
        """A PluginSpec for each entry, so that its index is its place; one without a name has the name ""."""
        for index, plugin in self.indexed_mappings(tier.get("plugins"), (*path, "plugins")):
            if plugin is None:
                yield PluginSpec("", {}, {})
                continue
            at = (*path, "plugins", index)
            name, arguments = plugin.get("name"), plugin.get("arguments")
            if not isinstance(name, str) or not name:
                self.add_problem(at, "a plugin has no name", "add name")
                name = ""
            if arguments is not None and not isinstance(arguments, dict):
                self.add_problem((*at, "arguments"), "arguments is not a mapping", "write a mapping")
                arguments = None
            flags: dict[str, bool] = {}
            for key, value in plugin.items():
                if key in ("name", "arguments"):
                    continue
                if isinstance(value, bool):
                    flags[key] = value
                elif key in PLUGIN_FLAGS:
                    self.add_problem((*at, key), f"{key} is not true or false", "write true or false, unquoted")
            yield PluginSpec(name, typed_arguments(name, arguments or {}), flags)

    def configurations(self, value: Any) -> Iterator[tuple[int, str, dict[str, Any]]]:
        for index, entry in self.indexed_mappings(value, ("configurations",)):
            at: FieldPath = ("configurations", index)
            if entry is None:
                continue
            name, arguments = entry.get("name"), entry.get("arguments")
            if not isinstance(name, str) or not name:
                self.add_problem(at, "a configuration has no name", "add the action's name")
            elif arguments is not None and not isinstance(arguments, dict):
                self.add_problem((*at, "arguments"), "arguments is not a mapping", "write a mapping")
            else:
                yield index, name, typed_arguments(name, arguments or {})

    def metrics(self, value: Any) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict) or any(isinstance(part, dict | list) for part in value.values()):
            self.add_problem(("metrics",), "metrics is not a mapping of texts", "write a text for each key")
            return {}
        return {name: str(part) for name, part in value.items()}

    def custom_plugins(self, value: Any) -> Iterator[tuple[str, dict[str, str]]]:
        for index, entry in self.indexed_mappings(value, ("customPlugins",)):
            at: FieldPath = ("customPlugins", index)
            if entry is None:
                continue
            name, arguments = entry.get("name"), entry.get("arguments") or {}
            if not isinstance(name, str) or not name:
                self.add_problem(at, "a custom plugin has no name", "add name")
            elif not isinstance(arguments, dict) or any(kind not in ARGUMENT_TYPES for kind in arguments.values()):
                self.add_problem(
                    (*at, "arguments"),
                    "arguments is not a mapping of names to types",
                    f"the types are {', '.join(ARGUMENT_TYPES)}",
                )
            else:
                yield name, arguments


SCHEDULER_ACTIONS = ("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle")
PLUGIN_NAMES = tuple(name for name, owner in OWNERS.items() if not owner.is_action)

_FLAGS = """
    enableJobOrder enableHierarchy enableJobReady enableJobPipelined enableTaskOrder enablePreemptable
    enableReclaimable enablePreemptive enableQueueOrder EnabledClusterOrder enablePredicate enableBestNode
    enableNodeOrder enableTargetJob enableReservedNodes enableJobEnqueued enabledVictim enableJobStarving
    enabledOverused enabledAllocatable enabledHyperNodeOrder enabledSubJobReady enabledSubJobPipelined
    enabledSubJobOrder enabledHyperNodeGradient
"""
PLUGIN_FLAGS = tuple(_FLAGS.split())
HIERARCHY_FLAG = "enableHierarchy"
HIERARCHY_PLUGINS = ("capacity", "drf", "nodegroup")
"""Plugins that read enableHierarchy."""
