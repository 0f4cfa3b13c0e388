"""Checks of the words of volcano-scheduler.conf: actions, plugins, flags, keys, and arguments with their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compiler.checks.check import CheckInput, Finding, check
from compiler.checks.scheduler_settings import actions_of, plugins_by_scheduler, plugins_of
from compiler.diagnostics.diagnostic import Severity, did_you_mean, key_suggestion, meant, one_of, suggestion, unquoted
from compiler.fields.times import go_duration_seconds
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.syntax.documents import FieldPath
from compiler.volcano.arguments import TRUTH_WORDS, Argument, find_argument, known_arguments, moved_argument
from compiler.volcano.nested_arguments import Category, NestedFlaw, nested_flaws
from compiler.volcano.scheduler_conf import (
    FILE_KEYS,
    HIERARCHY_FLAG,
    HIERARCHY_PLUGINS,
    PLUGIN_FLAGS,
    PLUGIN_NAMES,
    SCHEDULER_ACTIONS,
)

METRICS = "metrics"
MAX_LISTED = 5
ASCEND_CONFIGURATION = "init-params"
"""An entry of configurations that is for no action: Ascend's devices read it, and a vendor's build more of it."""


def _vendor_plugins(check_input: CheckInput, spec: SchedulerSpec) -> Mapping[str, Mapping[str, str]]:
    """Declared plugins of a vendor's build: plugin -> argument -> type."""
    return {**check_input.specs.cluster.scheduler_plugins, **spec.custom_plugins}


@check("GP401", "unknown action")
def unknown_actions(check_input: CheckInput) -> Iterator[Finding]:
    """An unknown action makes Volcano reject the whole file and keep the configuration it had. Names are
    case-sensitive. A vendor's build may have more. Source: UnmarshalSchedulerConf of pkg/scheduler/util.go. Fix:
    correct the name, or declare it: schedulerActions of the Cluster."""
    vendors = check_input.specs.cluster.scheduler_actions
    for spec in check_input.schedulers:
        for path, action in actions_of(spec):
            if not action:
                message = "an action has no name, and Volcano rejects the whole file"
                yield Finding(spec.document, path, message, "remove the extra comma or the empty entry")
            elif action not in (*SCHEDULER_ACTIONS, *vendors):
                fallback = f"use {', '.join(SCHEDULER_ACTIONS)}; one of a vendor: spec.schedulerActions of Cluster"
                help = suggestion(action, [*SCHEDULER_ACTIONS, *vendors], fallback)
                yield Finding(spec.document, path, f"there is no action {action!r}", help)


@check("GP402", "unknown plugin", "warning")
def unknown_plugins(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores a plugin that it does not know ("Failed to get plugin", OpenSession of
    pkg/scheduler/framework/framework.go). A vendor's build may have more than the 24 of the release. Fix: correct the
    name, or declare it: schedulerPlugins of the Cluster, or customPlugins of a SchedulerConfiguration."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        vendors = _vendor_plugins(check_input, spec)
        if plugin.name and plugin.name not in PLUGIN_NAMES and plugin.name not in vendors:
            declare = "declare it in spec.schedulerPlugins of Cluster"
            help = suggestion(plugin.name, [*PLUGIN_NAMES, *vendors], declare, f" Else {declare}")
            yield Finding(spec.document, (*path, "name"), f"there is no plugin {plugin.name!r}", help)


@check("GP403", "unknown flag")
def unknown_flags(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores a misspelt flag of a plugin silently: some begin with enable, some with enabled, and none with
    disable. An argument next to the name, not below arguments, is ignored too. Source: PluginOption of
    pkg/scheduler/conf/scheduler_conf.go, read without strictness. Fix: correct the spelling, or move the key to
    arguments."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        for flag in _keys_at(spec, path):
            if flag not in PLUGIN_FLAGS and flag not in ("name", "arguments"):
                help = _flag_help(flag, plugin)
                yield Finding(spec.document, (*path, flag), f"there is no flag {flag!r}", help)


def _flag_help(flag: str, plugin: PluginSpec) -> str:
    if find_argument(plugin.name, flag):
        return "move it under arguments"
    if flag.startswith("disable"):
        opposites = [known for known in PLUGIN_FLAGS if re.sub("(?i)^enabled?", "", known) == flag[7:].lstrip("d")]
        near = opposites or [did_you_mean(f"enable{flag[7:]}", PLUGIN_FLAGS)]
        if near[0] and flag in plugin.flags:
            return f"write {near[0]}: {str(not plugin.flags[flag]).lower()}"
        return f"write {near[0]}: false" if near[0] else "remove it"
    return suggestion(flag, [*PLUGIN_FLAGS, "arguments"], "move it under arguments")


def _keys_at(spec: SchedulerSpec, path: FieldPath) -> list[str]:
    """The keys of the mapping at `path`, in file order."""
    return [str(at[-1]) for at in spec.document.positions if at[:-1] == path]


@check("GP415", "unknown key in the scheduler configuration")
def unknown_keys(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores keys that it does not know, at the top and inside a tier: actions, tiers, configurations,
    metrics; plugins. Fix: correct the spelling or the indentation."""
    texts = (spec for spec in check_input.schedulers if spec.raw_text is not None)  # of others the schema judges
    for spec in texts:
        mappings: list[tuple[FieldPath, tuple[str, ...]]] = [(spec.base_path, FILE_KEYS)]
        mappings += [((*spec.base_path, "tiers", index), ("plugins",)) for index in range(len(spec.tiers))]
        for path, allowed in mappings:
            keys = _keys_at(spec, path)
            for key in keys:
                if key not in allowed:
                    help, _ = key_suggestion(key, allowed, keys, one_of(allowed))
                    yield Finding(spec.document, (*path, key), f"Volcano knows no {key!r} here", help)


# ---- arguments


@dataclass(frozen=True, slots=True)
class _GivenArgument:
    """An argument as it is written. known: what Volcano reads of that name. type_name: Volcano's, or the vendor's; None
    where nothing reads it."""

    spec: SchedulerSpec
    path: FieldPath
    owner: str
    value: object
    known: Argument | None
    type_name: str | None
    names: tuple[str, ...]

    def nested(self, *categories: Category) -> Iterator[tuple[FieldPath, NestedFlaw]]:
        """Yield the flaws inside it, each with its place."""
        if self.type_name is not None and _has_type(self.value, self.type_name):
            for flaw in nested_flaws(self.owner, self.name, self.value):
                if flaw.category in categories:
                    yield (*self.path, *flaw.path), flaw

    @property
    def name(self) -> str:
        return str(self.path[-1])

    def finding(self, message: str, help: str) -> Finding:
        return Finding(self.spec.document, self.path, message, help)


def _arguments(check_input: CheckInput) -> Iterator[_GivenArgument]:
    """The arguments of all plugins and actions that exist."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        vendor = _vendor_plugins(check_input, spec).get(plugin.name)
        if vendor is None and plugin.name not in PLUGIN_NAMES:
            continue
        for name, value in plugin.arguments.items():
            at = (*path, "arguments", name)
            if vendor and name in vendor:
                yield _GivenArgument(spec, at, plugin.name, value, None, vendor[name], ())
            elif vendor != {}:  # without types declared, a vendor's plugin may read anything
                yield _argument_at(spec, at, plugin.name, value, tuple(vendor or ()))
    for spec in check_input.schedulers:
        for index, action, arguments in spec.configuration_entries:
            for name, value in arguments.items() if action in SCHEDULER_ACTIONS else ():
                yield _argument_at(
                    spec, (*spec.base_path, "configurations", index, "arguments", name), action, value, ()
                )
        yield _GivenArgument(spec, (*spec.base_path, METRICS), METRICS, dict(spec.metrics), None, "map", ())


def _argument_at(
    spec: SchedulerSpec, path: FieldPath, owner: str, value: object, names: tuple[str, ...]
) -> _GivenArgument:
    known = find_argument(owner, str(path[-1]))
    names += tuple(one.name for one in known_arguments(owner) if one.is_read)
    return _GivenArgument(spec, path, owner, value, known, known.type_name if known else None, names)


@check("GP404", "argument of the wrong type")
def argument_types(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano keeps the default where an argument has another type, and its scheduler stops where the message reports
    it: whole numbers are not quoted and have no fraction. Source: GetInt, GetFloat64, GetBool, GetString and Get of
    pkg/scheduler/framework/arguments.go; `gangplan explain PLUGIN` names the reader of each. Fix: write the value in
    the type that the message names."""
    for given in _arguments(check_input):
        for path, flaw in given.nested("type"):
            yield Finding(given.spec.document, path, flaw.message, flaw.help)
        expected, value = given.type_name, given.value
        if expected is None or (given.known and not given.known.is_read) or _has_type(value, expected):
            continue
        bare = unquoted(value) if expected in ("int", "float", "bool") else ""
        help = bare or _EXAMPLES.get(expected, f"write {_TYPE_NAMES[expected]}")
        stops = "; Volcano's scheduler stops" if given.known and given.known.mistype == "stops" else ""
        yield given.finding(f"{given.name} is {value!r}, not {_TYPE_NAMES[expected]}{stops}", help)


_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "duration": "text",
    "window": "text",
    "list": "a list",
    "map": "a mapping",
}


_EXAMPLES = {"duration": "write it like 10m or 1h30m", "window": "write them like 10:00-21:00"}


def _has_type(value: object, expected: str) -> bool:
    if expected == "bool":
        return isinstance(value, bool) or (isinstance(value, str) and value in TRUTH_WORDS)
    if isinstance(value, bool):
        return False
    types: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "list": (list,), "map": (dict,)}
    return isinstance(value, types.get(expected, (str,)))


@check("GP405", "unknown argument", "warning")
def unknown_arguments(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores an argument that the plugin or action does not read. `gangplan explain PLUGIN` lists all that are
    read; init-params, which Ascend's devices read, may have others. Fix: correct the spelling, or remove it."""
    for given in _arguments(check_input):
        for path, flaw in given.nested("unknown", "unread"):
            severity: Severity | None = "info" if flaw.category == "unread" else None
            yield Finding(given.spec.document, path, flaw.message, flaw.help, severity=severity)
        if given.known is not None and not given.known.is_read:
            message = f"Volcano does not read {given.name}: {given.known.meaning}"
            yield Finding(given.spec.document, given.path, message, "remove it", severity="info")
        elif given.type_name is None:
            yield given.finding(f"nothing reads the argument {given.name!r}", _argument_help(given))


_WEIGHT_OF_RESOURCE = "resources.<resource>"


def _argument_help(given: _GivenArgument) -> str:
    present = _keys_at(given.spec, given.path[:-1])
    if given.name in PLUGIN_FLAGS and "arguments" in given.path:
        return "write it next to name: it is a flag"
    own = given.name.removeprefix(f"{given.owner}.")
    if own in given.names and own not in present:
        return meant(given.name, own)
    if whole := next((name for name in given.names if given.name.startswith(f"{name}.")), ""):
        return "remove it" if whole in present else f"write {whole}: it has no parts"
    for weights in (name for name in given.names if name.endswith(_WEIGHT_OF_RESOURCE)):
        resource = given.name.removeprefix(weights.removesuffix(_WEIGHT_OF_RESOURCE))
        if resource != given.name and "/" in resource:
            listed = weights.removesuffix(".<resource>")
            return f"write {listed}.{resource}, and name {resource} in {listed}"
    if moved := moved_argument(given.owner, given.name):
        plugin, argument = moved
        if (there := find_argument(plugin, argument)) and there.default == str(given.value).lower():
            return f"remove it: {argument} of the plugin {plugin} is {there.default} by default"
        return f"write {argument}, of the plugin {plugin}"
    listed = f"the arguments are {', '.join(given.names)}" if given.names else "remove it"
    fallback = listed if len(given.names) <= MAX_LISTED else f"see gangplan explain {given.owner}"
    return key_suggestion(given.name, given.names, present, fallback)[0]


@check("GP420", "argument out of its range", "warning")
def argument_ranges(check_input: CheckInput) -> Iterator[Finding]:
    """Some arguments have a range outside which Volcano takes the default, with a line in its log at most; with others
    it continues computing. `gangplan explain PLUGIN.ARGUMENT` names the reader. Where Volcano takes a default for a
    word that it does not know, that may be the opposite: an error. Fix: write a value that is allowed."""
    for given in _arguments(check_input):
        for path, flaw in given.nested("range"):
            severity: Severity | None = "error" if flaw.is_replaced else None
            yield Finding(given.spec.document, path, flaw.message, flaw.help, severity=severity)
        known, value = given.known, given.value
        if known is None or known.low is None or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value < known.low or (known.high is not None and value > known.high):
            then = f"Volcano takes {known.default}" if known.is_enforced else "Volcano computes with it all the same"
            yield given.finding(f"{given.name} is {value}: {then}", f"write {known.allowed}")


@check("GP421", "time that cannot be read", "warning")
def argument_times(check_input: CheckInput) -> Iterator[Finding]:
    """Durations are texts like 5m or 1h30m, revocable zones have hours like 10:00-21:00. With any other text the
    default counts, or nothing: New and parseRevocableZone of tdm.go, OnSessionOpen of sla.go, parseArguments of
    rescheduling.go, parseExtenderConfig of extender.go. Fix: write the time so."""
    for given in _arguments(check_input):
        for path, flaw in given.nested("time"):
            yield Finding(given.spec.document, path, flaw.message, flaw.help)
        if not isinstance(given.value, str):
            continue
        if given.type_name == "duration" and not go_duration_seconds(given.value):
            yield given.finding(f"{given.name}: {given.value!r} is not a duration", _EXAMPLES["duration"])
        elif given.type_name == "window" and not _WINDOW.fullmatch(given.value.strip()):
            yield given.finding(f"{given.name}: {given.value!r} are not hours", _EXAMPLES["window"])


_WINDOW = re.compile(r"([01]?\d|2[0-3]):[0-5]\d-([01]?\d|2[0-3]):[0-5]\d")


@check("GP422", "configuration of no action", "warning")
def unread_configurations(check_input: CheckInput) -> Iterator[Finding]:
    """An entry of configurations is read by the action of its name, and the first one of a name counts
    (GetArgOfActionFromConf of pkg/scheduler/framework/arguments.go). init-params is read by Ascend's devices. Fix:
    correct the name, join the entries, or remove one."""
    known = {*SCHEDULER_ACTIONS, *check_input.specs.cluster.scheduler_actions, ASCEND_CONFIGURATION}
    for spec in check_input.schedulers:
        seen = set()
        for index, name, _ in spec.configuration_entries:
            path = (*spec.base_path, "configurations", index, "name")
            if name in seen:
                yield Finding(spec.document, path, f"{name} is configured above; this is not read", "join the two")
            elif name not in known:
                fallback = "move it to the plugin in tiers" if name in PLUGIN_NAMES else "remove it"
                help = fallback if name in PLUGIN_NAMES else suggestion(name, SCHEDULER_ACTIONS, fallback)
                yield Finding(spec.document, path, f"there is no action {name!r}", help)
            seen.add(name)


@check("GP423", "weight of a resource that is not listed", "warning")
def unlisted_resource_weights(check_input: CheckInput) -> Iterator[Finding]:
    """binpack.resources.X is read only for resources X that binpack.resources lists, and hypernode.binpack.resources
    likewise: without it a GPU does not count (calculateWeight of binpack.go, getPriorityWeight of
    network_topology_aware.go). Fix: list the resource."""
    for given in _arguments(check_input):
        if given.known is None or not given.known.family.endswith("binpack.resources."):
            continue
        listing = given.known.family.removesuffix(".")
        plugin = next(p for path, p in plugins_of(given.spec) if path == given.path[:-2])
        listed = [text.strip() for text in str(plugin.arguments.get(listing, "")).split(",")]
        resource = given.name.removeprefix(given.known.family)
        if resource not in listed:
            help = f"write {listing}: {', '.join([*filter(None, listed), resource])}"
            yield given.finding(f"{given.name} is not read: {listing} does not list {resource}", help)


@check("GP424", "hierarchy of a plugin that has none", "warning")
def unread_hierarchy(check_input: CheckInput) -> Iterator[Finding]:
    """enableHierarchy is read by capacity, drf and nodegroup only (HierarchyEnabled of pkg/scheduler/framework and
    drf.go). Fix: set it on one of them."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        if plugin.flags.get(HIERARCHY_FLAG) and plugin.name in PLUGIN_NAMES and plugin.name not in HIERARCHY_PLUGINS:
            message = f"{plugin.name} does not read {HIERARCHY_FLAG}"
            help = f"set it on {' or '.join(HIERARCHY_PLUGINS)}"
            yield Finding(spec.document, (*path, HIERARCHY_FLAG), message, help)


@check("GP425", "load without a source", "warning")
def load_without_metrics(check_input: CheckInput) -> Iterator[Finding]:
    """The plugins usage and rescheduling judge by measured load, which `metrics` of the configuration names a source
    for; without fresh numbers usage lets every node pass, and without thresholds it takes 80 percent (New and
    predicateFn of usage.go). Fix: add metrics: {type, address, interval}, and thresholds."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        if plugin.name in ("usage", "rescheduling") and not spec.metrics:
            help = "add metrics: {type: prometheus, address: ..., interval: 30s}"
            yield Finding(spec.document, (*path, "name"), f"{plugin.name} has no metrics to judge by", help)


@check("GP426", "vote on enqueueing without the action enqueue", "info")
def votes_without_enqueue(check_input: CheckInput) -> Iterator[Finding]:
    """overcommit and resourcequota decide only which jobs the action enqueue admits; without it allocate admits all
    (Execute of pkg/scheduler/actions/allocate/allocate.go). Fix: add enqueue, or remove the plugin."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        if plugin.name in ("overcommit", "resourcequota") and spec.actions and "enqueue" not in spec.actions:
            message = f"{plugin.name} does nothing without the action enqueue"
            yield Finding(spec.document, (*path, "name"), message, "add enqueue, or remove the plugin")


@check("GP427", "protection that gang actions do not ask for", "warning")
def unasked_protection(check_input: CheckInput) -> Iterator[Finding]:
    """gangpreempt and gangreclaim ask only gang, priority, conformance and capacity about victims: cooldowns (cdp),
    disruption budgets (pdb), shares (drf, proportion) and tdm do not protect (AddUnifiedEvictableFn is called by those
    four plugins only). Fix: use preempt and reclaim, or do without the protection."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        action = next((name for name in spec.actions if name in ("gangpreempt", "gangreclaim")), None)
        if action is not None and plugin.name in ("cdp", "pdb", "tdm"):
            message = f"{action} does not ask {plugin.name} about victims"
            yield Finding(spec.document, (*path, "name"), message, "use preempt or reclaim, or remove the plugin")
