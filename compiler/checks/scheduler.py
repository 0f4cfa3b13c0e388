"""Checks of volcano-scheduler.conf, most mistakes in which Volcano ignores silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compiler.checks import CheckInput, Finding, check
from compiler.diagnostics import Severity, suggestion
from compiler.fields.duration import go_duration_seconds
from compiler.kubernetes import COOLDOWN_ANNOTATION
from compiler.specs import PluginSpec, SchedulerSpec
from compiler.syntax.documents import FieldPath
from compiler.volcano.eviction_votes import (
    POD_EVICTION_ACTIONS,
    deciding_plugins,
    has_cooldown_plugin,
    has_eviction_action,
)
from compiler.volcano.plugin_plans import PLUGIN_PLANS
from compiler.volcano.plugins import (
    ACTION_ARGUMENTS,
    ARGUMENT_PREFIXES,
    PLUGIN_ARGUMENTS,
    PLUGIN_FLAGS,
    SCHEDULER_ACTIONS,
)
from compiler.volcano.scheduler_conf import CONFIGURATION_KEYS, FILE_KEYS

PREDICATE_CACHE = "predicateErrorCacheEnable"
CACHED_ACTIONS = ("allocate", "backfill", "preempt")


def _scheduler_specs(check_input: CheckInput) -> Iterator[SchedulerSpec]:
    if check_input.specs.scheduler is not None:
        yield check_input.specs.scheduler


def _plugins(check_input: CheckInput) -> Iterator[tuple[SchedulerSpec, FieldPath, PluginSpec]]:
    for spec in _scheduler_specs(check_input):
        for tier, plugins in enumerate(spec.tiers):
            for index, plugin in enumerate(plugins):
                yield spec, (*spec.base_path, "tiers", tier, "plugins", index), plugin


def _enabled_plugins(check_input: CheckInput) -> dict[str, tuple[FieldPath, PluginSpec]]:
    return {plugin.name: (path, plugin) for _, path, plugin in reversed(list(_plugins(check_input)))}


def _actions(spec: SchedulerSpec) -> Iterator[tuple[FieldPath, str]]:
    """Each action with its path: its own in a list, the whole text's in a comma-separated one."""
    listed = spec.raw_text is None and (*spec.base_path, "actions", 0) in spec.document.positions
    for index, action in enumerate(spec.actions):
        yield (*spec.base_path, "actions", *((index,) if listed else ())), action


@check("GP401", "unknown action")
def unknown_actions(check_input: CheckInput) -> Iterator[Finding]:
    """An unknown action makes Volcano reject the whole file and keep the configuration it had. Names are
    case-sensitive. Mend: correct the name."""
    for spec in _scheduler_specs(check_input):
        for path, action in _actions(spec):
            if action not in SCHEDULER_ACTIONS:
                yield Finding(
                    spec.document,
                    path,
                    f"there is no action {action!r}",
                    suggestion(action, SCHEDULER_ACTIONS, f"use {', '.join(SCHEDULER_ACTIONS)}"),
                )


@check("GP402", "unknown plugin", "warning")
def unknown_plugins(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores a plugin that it does not know. A vendor's build may have more than the 24 of the release. Mend:
    correct the name, or declare it under customPlugins of a SchedulerConfiguration."""
    for spec, path, plugin in _plugins(check_input):
        if plugin.name not in PLUGIN_ARGUMENTS and plugin.name not in spec.custom_plugins:
            known = [*PLUGIN_ARGUMENTS, *spec.custom_plugins]
            help = suggestion(plugin.name, known, "declare it under customPlugins of a SchedulerConfiguration")
            yield Finding(spec.document, (*path, "name"), f"there is no plugin {plugin.name!r}", help)


@check("GP403", "unknown flag")
def unknown_flags(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores a misspelt flag of a plugin silently: some begin with enable, some with enabled. Mend: correct
    the spelling, or move the key to arguments."""
    for spec, path, _ in _plugins(check_input):
        for flag in _keys_at(spec, path):
            if flag not in PLUGIN_FLAGS and flag not in ("name", "arguments"):
                yield Finding(
                    spec.document,
                    (*path, flag),
                    f"there is no flag {flag!r}",
                    suggestion(flag, PLUGIN_FLAGS, "move it under arguments"),
                )


def _keys_at(spec: SchedulerSpec, path: FieldPath) -> list[str]:
    """The keys of the mapping at `path`, in file order."""
    return [str(at[-1]) for at in spec.document.positions if at[:-1] == path]


@check("GP415", "unknown key in the scheduler configuration")
def unknown_keys(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores keys that it does not know, at the top and inside a tier: actions, tiers, configurations,
    metrics; plugins. Mend: correct the spelling or the indentation."""
    for spec in _scheduler_specs(check_input):
        known = CONFIGURATION_KEYS if spec.raw_text is None else FILE_KEYS
        mappings: list[tuple[FieldPath, tuple[str, ...]]] = [(spec.base_path, known)]
        mappings += [((*spec.base_path, "tiers", index), ("plugins",)) for index in range(len(spec.tiers))]
        for path, allowed in mappings:
            for key in _keys_at(spec, path):
                if key not in allowed:
                    help = suggestion(key, allowed, f"the keys here are {', '.join(allowed)}")
                    yield Finding(spec.document, (*path, key), f"Volcano knows no {key!r} here", help)


def _arguments(check_input: CheckInput) -> Iterator[tuple[SchedulerSpec, FieldPath, object, str | None, list[str]]]:
    """(spec, path, value, expected type, known names) of each argument of plugins and actions; type None: unknown."""
    for spec, path, plugin in _plugins(check_input):
        table: Mapping[str, str] | None = spec.custom_plugins.get(plugin.name) or PLUGIN_ARGUMENTS.get(plugin.name)
        if table is not None:
            for name, value in plugin.arguments.items():
                yield spec, (*path, "arguments", name), value, _argument_type(plugin.name, name, table), list(table)
    for spec in _scheduler_specs(check_input):
        for index, (action, arguments) in enumerate(spec.configurations.items()):
            for name, value in arguments.items():
                known = ACTION_ARGUMENTS.get(action, {})
                yield (
                    spec,
                    (*spec.base_path, "configurations", index, "arguments", name),
                    value,
                    known.get(name),
                    list(known),
                )


def _argument_type(plugin: str, name: str, table: Mapping[str, str]) -> str | None:
    if name in table:
        return table[name]
    return next((kind for prefix, kind in ARGUMENT_PREFIXES.get(plugin, {}).items() if name.startswith(prefix)), None)


@check("GP404", "argument of the wrong type")
def wrong_argument_types(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano keeps the default when an argument has another type than expected (a quoted number is text, 1.0 is no
    int), and stops with a crash for a few of them. Mend: write the value in the type that the message names."""
    for spec, path, value, expected, _ in _arguments(check_input):
        if expected is not None and not _has_type(value, expected):
            quoted = isinstance(value, str) and expected in ("int", "float", "bool")
            help = "remove the quotes" if quoted and _is_plain_scalar(str(value)) else f"write {_TYPE_NAMES[expected]}"
            yield Finding(spec.document, path, f"{path[-1]} is {value!r}, not {_TYPE_NAMES[expected]}", help)


_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "map": "a mapping",
}


def _has_type(value: object, expected: str) -> bool:
    if isinstance(value, bool):
        return expected == "bool"
    types: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "float": (int, float),
        "bool": (),
        "string": (str,),
        "list": (list,),
        "map": (dict,),
    }
    return isinstance(value, types[expected])


def _is_plain_scalar(text: str) -> bool:
    return text in ("true", "false") or text.lstrip("-").replace(".", "", 1).isdigit()


@check("GP405", "unknown argument", "warning")
def unknown_arguments(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano ignores an argument that the plugin or action does not read. Mend: correct the spelling, or remove it."""
    for spec, path, _, expected, known in _arguments(check_input):
        if expected is None:
            fallback = f"the arguments are {', '.join(known)}" if known else "remove it"
            help = suggestion(str(path[-1]), known, fallback)
            yield Finding(spec.document, path, f"nothing reads the argument {path[-1]!r}", help)


@check("GP406", "capacity together with proportion")
def capacity_with_proportion(check_input: CheckInput) -> Iterator[Finding]:
    """Both plugins decide what a queue may hold; Volcano loads both and their answers contradict each other. Mend: keep
    one: capacity for deserved and guarantee, proportion for weights."""
    enabled = _enabled_plugins(check_input)
    for spec in _scheduler_specs(check_input):
        if "capacity" in enabled and "proportion" in enabled:
            path = (*enabled["proportion"][0], "name")
            other = (spec.document, (*enabled["capacity"][0], "name"))
            yield Finding(spec.document, path, "proportion and capacity are both enabled", "keep one of the two", other)


@check("GP407", "drf hierarchy together with proportion")
def hierarchical_drf_with_proportion(check_input: CheckInput) -> Iterator[Finding]:
    """drf with enableHierarchy: true and proportion contradict each other; Volcano rejects the file when they are in
    one tier. Mend: remove one."""
    enabled = _enabled_plugins(check_input)
    for spec in _scheduler_specs(check_input):
        if "proportion" in enabled and "drf" in enabled and enabled["drf"][1].flags.get("enableHierarchy"):
            other = (spec.document, (*enabled["proportion"][0], "name"))
            path = (*enabled["drf"][0], "enableHierarchy")
            yield Finding(
                spec.document, path, "drf with enableHierarchy stands beside proportion", "remove one of the two", other
            )


@check("GP408", "no action allocate")
def missing_allocate(check_input: CheckInput) -> Iterator[Finding]:
    """Without the action allocate nothing with requests is ever scheduled. Mend: add it."""
    for spec in _scheduler_specs(check_input):
        if "allocate" not in spec.actions and all(action in SCHEDULER_ACTIONS for action in spec.actions):
            yield Finding(
                spec.document, (*spec.base_path, "actions"), "the action allocate is missing", "add it after enqueue"
            )


@check("GP409", "allocate after preemption")
def allocate_after_preemption(check_input: CheckInput) -> Iterator[Finding]:
    """allocate stands before reclaim, preempt, gangreclaim and gangpreempt. Otherwise they evict for the winner again
    in every session and it is never bound. Mend: move allocate forward."""
    for spec in _scheduler_specs(check_input):
        actions = list(_actions(spec))
        names = [action for _, action in actions]
        if "allocate" in names:
            early = [
                name
                for name in names[: names.index("allocate")]
                if name in ("reclaim", "preempt", "gangreclaim", "gangpreempt")
            ]
            if early:
                message = f"allocate comes after {early[0]}"
                yield Finding(
                    spec.document, actions[names.index("allocate")][0], message, f"move allocate before {early[0]}"
                )


@check("GP410", "enqueue starves preemption", "warning")
def enqueue_starves_preemption(check_input: CheckInput) -> Iterator[Finding]:
    """With the action enqueue, a job on a full cluster stays Pending, and a pending job preempts nothing. Mend: remove
    enqueue where preempt or reclaim are wanted; allocate then admits jobs itself."""
    for spec in _scheduler_specs(check_input):
        actions = list(_actions(spec))
        evicting = [name for _, name in actions if name in ("preempt", "reclaim", "gangpreempt", "gangreclaim")]
        for path, action in actions:
            if action == "enqueue" and evicting:
                yield Finding(
                    spec.document, path, f"enqueue keeps {evicting[0]} from acting on a full cluster", "remove enqueue"
                )


@check("GP411", "predicate error cache with gated binding", "warning")
def predicate_cache_with_gates(check_input: CheckInput) -> Iterator[Finding]:
    """With gated binding every pod of a role has its own node, and Volcano's predicate error cache replays one pod's
    misfit for all of them, so the gang never starts. `gangplan compile` switches the cache off in what it emits; a
    configuration applied by other means must say predicateErrorCacheEnable: false for allocate, backfill and preempt.
    Mend: write so."""
    if check_input.specs.cluster.binding != "gated":
        return
    for spec in _scheduler_specs(check_input):
        for action in CACHED_ACTIONS:
            setting = spec.configurations.get(action, {}).get(PREDICATE_CACHE)
            if setting is False or (setting is None and (spec.raw_text is None or action not in spec.actions)):
                continue
            path: FieldPath = (*spec.base_path, "actions")
            if setting is not None:
                path = (
                    *spec.base_path,
                    "configurations",
                    list(spec.configurations).index(action),
                    "arguments",
                    PREDICATE_CACHE,
                )
            yield Finding(
                spec.document,
                path,
                f"{PREDICATE_CACHE} is on for {action}, and binding is gated",
                f"set it to false for {action} in configurations",
            )


@check("GP412", "plugin enabled twice", "warning")
def duplicate_plugins(check_input: CheckInput) -> Iterator[Finding]:
    """A plugin stands in one tier; Volcano builds it once for each place. Mend: remove one."""
    seen: dict[str, FieldPath] = {}
    for spec, path, plugin in _plugins(check_input):
        if plugin.name in seen:
            yield Finding(
                spec.document,
                (*path, "name"),
                f"{plugin.name} is enabled already",
                "remove one",
                (spec.document, (*seen[plugin.name], "name")),
            )
        seen.setdefault(plugin.name, path)


@check("GP430", "Volcano may decide otherwise", "warning")
def differing_plugins(check_input: CheckInput) -> Iterator[Finding]:
    """The plugin does something that plans do not foresee, so that Volcano may refuse a planned node, evict a pod that
    the plan keeps, or hold a job back. docs/plugins.md says of every plugin what the plan makes of it. Mend: none where
    that is wanted; else remove the plugin, or the argument or action that the page names."""
    seen = set()
    for spec, path, plugin in _plugins(check_input):
        plan = PLUGIN_PLANS.get(plugin.name) if plugin.name not in seen else None
        seen.add(plugin.name)
        found = [it for it in plan.differences if it.applies(check_input.specs, plugin)] if plan else []
        if found:
            message = f"{plugin.name}: {'; '.join(it.text for it in found)}"
            severity: Severity = "warning" if any(it.severity == "warning" for it in found) else "info"
            yield Finding(spec.document, (*path, "name"), message, "see docs/plugins.md", severity=severity)


@check("GP416", "device sharing modes exclude one another")
def conflicting_device_sharing(check_input: CheckInput) -> Iterator[Finding]:
    """deviceshare: of GPUSharingEnable, GPUNumberEnable and VGPUEnable one at most is true; Volcano's scheduler stops
    otherwise. Mend: keep one."""
    for spec, path, plugin in _plugins(check_input):
        modes = [f"deviceshare.{mode}Enable" for mode in ("GPUSharing", "GPUNumber", "VGPU")]
        on = [mode for mode in modes if plugin.arguments.get(mode) is True]
        if plugin.name == "deviceshare" and len(on) > 1:
            yield Finding(spec.document, (*path, "arguments", on[1]), f"{on[0]} and {on[1]} are both true", "keep one")


@check("GP417", "no gang plugin", "warning")
def missing_gang_plugin(check_input: CheckInput) -> Iterator[Finding]:
    """Without the plugin gang, Volcano starts the pods of a job one by one. Mend: add it to the first tier."""
    for spec in _scheduler_specs(check_input):
        if "gang" not in _enabled_plugins(check_input):
            yield Finding(
                spec.document, (*spec.base_path, "tiers"), "the plugin gang is not enabled", "add it to the first tier"
            )


@check("GP418", "queue field without its plugin", "warning")
def unread_queue_fields(check_input: CheckInput) -> Iterator[Finding]:
    """deserved is read by the plugin capacity only, weight by proportion only, affinity by nodegroup only. A deserved
    amount that is the guarantee's own, as Volcano's admission asks, is no breach. Mend: enable the plugin, or remove
    the field."""
    enabled = _enabled_plugins(check_input)
    for spec in _scheduler_specs(check_input):
        see = (spec.document, (*spec.base_path, "tiers"))
        for queue in check_input.specs.queues:
            unread = {
                "deserved": (bool(queue.deserved.items() - queue.guarantee.items()), ("capacity",)),
                "weight": (queue.weight != 1, ("proportion", "capacity")),
                "affinity": (queue.affinity is not None, ("nodegroup",)),
            }
            for name, (is_set, readers) in unread.items():
                if is_set and not any(reader in enabled for reader in readers):
                    message = f"no plugin reads {name} of queue {queue.name!r}"
                    yield Finding(queue.document, ("spec", name), message, f"enable {readers[0]}", see)


@check("GP419", "plugin without the action shuffle", "warning")
def missing_shuffle(check_input: CheckInput) -> Iterator[Finding]:
    """tdm and rescheduling choose victims, but only the action shuffle evicts them. Mend: add shuffle to the
    actions."""
    for spec, path, plugin in _plugins(check_input):
        if plugin.name in ("tdm", "rescheduling") and "shuffle" not in spec.actions:
            yield Finding(
                spec.document,
                (*path, "name"),
                f"{plugin.name} does nothing without the action shuffle",
                "add shuffle to the actions",
            )


@check("GP428", "only surplus pods are evicted", "info")
def surplus_only_eviction(check_input: CheckInput) -> Iterator[Finding]:
    """preempt and reclaim evict pod by pod, and the plugin gang votes against every pod that its job needs for its
    minimum: a job without pods to spare is never a victim, in Volcano and in the plan. Mend, where whole jobs are to
    make room: enablePreemptable: false or enableReclaimable: false for gang, or the action gangpreempt or
    gangreclaim."""
    for spec in _scheduler_specs(check_input):
        for action, gang_action, voters, flag in POD_EVICTION_ACTIONS:
            if (
                action in spec.actions
                and gang_action not in spec.actions
                and "gang" in deciding_plugins(spec, voters, flag)
            ):
                path = next(at for at, name in _actions(spec) if name == action)
                yield Finding(
                    spec.document,
                    path,
                    f"{action} takes from jobs only what they can spare",
                    f"set {flag}: false for gang, or use {gang_action}",
                )


@check("GP429", "cooldown that nobody keeps", "warning")
def ignored_cooldowns(check_input: CheckInput) -> Iterator[Finding]:
    """volcano.sh/cooldown-time says how long a job runs at least before it may be evicted. Only the plugin cdp reads
    it: without cdp the job may be a victim from its first second, in Volcano and in the plan. So it may with a text
    that is no duration, which cdp ignores. Mend: enable cdp, in the first tier, write a duration like 10m or 1h30m, or
    remove the annotation."""
    for spec in _scheduler_specs(check_input):
        for gang in check_input.specs.gangs if has_eviction_action(spec) else ():
            for path in sorted(
                (path for path in gang.document.positions if path[-1:] == (COOLDOWN_ANNOTATION,)), key=repr
            ):
                text = str(gang.document.value_at(*path))
                if not has_cooldown_plugin(spec):
                    see = (spec.document, (*spec.base_path, "tiers"))
                    yield Finding(
                        gang.document,
                        path,
                        "no plugin keeps this cooldown, and the scheduler evicts",
                        "enable cdp, or remove it",
                        see,
                    )
                elif not go_duration_seconds(text):
                    yield Finding(
                        gang.document,
                        path,
                        f"{text!r} is no duration, and cdp ignores it",
                        "write it like 10m or 1h30m",
                    )


@check("GP414", "two scheduler configurations")
def several_configurations(check_input: CheckInput) -> Iterator[Finding]:
    """A cluster has one SchedulerConfiguration, or one ConfigMap with volcano-scheduler.conf. Mend: remove one."""
    found = check_input.schedulers
    for spec in found[1:]:
        see = (found[0].document, ("metadata", "name"))
        yield Finding(
            spec.document,
            ("metadata", "name"),
            f"{found[0].document.display_name} configures the scheduler already",
            "remove one",
            see,
        )
