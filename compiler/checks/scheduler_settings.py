"""Checks of volcano-scheduler.conf, most mistakes in which Volcano ignores silently; and of jobs that Volcano never
schedules with it, although the plan starts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from compiler.checks.check import CheckInput, Finding, check
from compiler.checks.jobs import POD_GROUP
from compiler.checks.queues import UNCOUNTED_RESOURCES
from compiler.diagnostics.diagnostic import Severity
from compiler.fields.quantity import amounts_sum, exact_amount, integer_amounts
from compiler.fields.times import go_duration_seconds
from compiler.kubernetes import COOLDOWN_ANNOTATION, ORDER_ANNOTATION, VOLCANO_SCHEDULER
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.specs.namespace_queues import workload_queue
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import FieldPath
from compiler.volcano.eviction_votes import (
    EVICTION_ACTIONS,
    GANG_ACTION_VOTERS,
    POD_EVICTION_ACTIONS,
    RECLAIM_VOTERS,
    deciding_plugins,
    has_cooldown_plugin,
    has_eviction_action,
)
from compiler.volcano.plugin_plans import PLUGIN_PLANS
from compiler.volcano.scheduler_conf import HIERARCHY_FLAG, PREDICATE_CACHE, SCHEDULER_ACTIONS

ENQUEUE_VOTERS = ("overcommit", "proportion", "capacity")
"""Plugins that keep a job Pending for want of room."""
NODE_FILTER = "predicate.NodeAffinityEnable"
CACHED_ACTIONS = ("allocate", "backfill", "preempt")


def plugins_of(spec: SchedulerSpec) -> Iterator[tuple[FieldPath, PluginSpec]]:
    """Each plugin with its path, in the order of the tiers."""
    for tier, plugins in enumerate(spec.tiers):
        for index, plugin in enumerate(plugins):
            yield (*spec.base_path, "tiers", tier, "plugins", index), plugin


def plugins_by_scheduler(check_input: CheckInput) -> Iterator[tuple[SchedulerSpec, FieldPath, PluginSpec]]:
    """Yield each plugin of each configuration, with its path."""
    for spec in check_input.schedulers:
        for path, plugin in plugins_of(spec):
            yield spec, path, plugin


def _enabled_plugins(spec: SchedulerSpec) -> dict[str, tuple[FieldPath, PluginSpec]]:
    return {plugin.name: (path, plugin) for path, plugin in reversed(list(plugins_of(spec)))}


def actions_of(spec: SchedulerSpec) -> Iterator[tuple[FieldPath, str]]:
    """Each action with its path: its own in a list, the whole text's in a comma-separated one."""
    listed = spec.raw_text is None and (*spec.base_path, "actions", 0) in spec.document.positions
    for index, action in enumerate(spec.actions):
        yield (*spec.base_path, "actions", *((index,) if listed else ())), action


@check("GP406", "capacity together with proportion")
def capacity_with_proportion(check_input: CheckInput) -> Iterator[Finding]:
    """Both plugins decide what a queue may hold; Volcano loads both and their answers contradict each other. Fix: keep
    one: capacity for deserved and guarantee, proportion for weights."""
    for spec in check_input.schedulers:
        enabled = _enabled_plugins(spec)
        if "capacity" in enabled and "proportion" in enabled:
            path = (*enabled["proportion"][0], "name")
            other = (spec.document, (*enabled["capacity"][0], "name"))
            yield Finding(spec.document, path, "proportion and capacity are both enabled", "keep one of the two", other)


@check("GP407", "drf hierarchy together with proportion")
def hierarchical_drf_with_proportion(check_input: CheckInput) -> Iterator[Finding]:
    """drf with enableHierarchy: true and proportion contradict each other; Volcano rejects the file when they are in
    one tier. Fix: remove one."""
    for spec in check_input.schedulers:
        enabled = _enabled_plugins(spec)
        if "proportion" in enabled and "drf" in enabled and enabled["drf"][1].flags.get("enableHierarchy"):
            other = (spec.document, (*enabled["proportion"][0], "name"))
            path = (*enabled["drf"][0], "enableHierarchy")
            yield Finding(
                spec.document, path, "drf with enableHierarchy together with proportion", "remove one of the two", other
            )


@check("GP408", "no action allocate")
def missing_allocate(check_input: CheckInput) -> Iterator[Finding]:
    """Without the action allocate nothing with requests is ever scheduled. Fix: add it."""
    for spec in check_input.schedulers:
        if (
            spec.actions
            and "allocate" not in spec.actions
            and all(action in SCHEDULER_ACTIONS for action in spec.actions)
        ):
            yield Finding(
                spec.document, (*spec.base_path, "actions"), "the action allocate is missing", "add it after enqueue"
            )


@check("GP409", "allocate after preemption", "warning")
def allocate_after_preemption(check_input: CheckInput) -> Iterator[Finding]:
    """allocate precedes reclaim, preempt, gangreclaim and gangpreempt. Otherwise they evict for the winner again
    in every session and it is never bound; Volcano takes such a configuration all the same. Fix: move allocate
    forward."""
    for spec in check_input.schedulers:
        actions = list(actions_of(spec))
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
    """With the action enqueue, a job whose minimum the cluster has no room for stays Pending, and a pending job evicts
    nothing. overcommit counts the cluster's room times its factor, less what is used. proportion and capacity count
    room that running jobs hold above their minima as free. So there is no warning where jobs have pods to spare.
    Source: preempt.go Execute skips pending jobs; JobEnqueueableFn of overcommit, proportion and capacity (1.15). Fix:
    remove enqueue where preempt or reclaim are wanted; allocate then admits jobs itself."""
    has_surplus = any(sum(role.replicas for role in gang.roles) > gang.minimum for gang in check_input.specs.gangs)
    for spec in check_input.schedulers:
        evicting = [action for action in spec.actions if action in EVICTION_ACTIONS]
        enabled = (plugin.name for plugin in spec.plugins if plugin.flags.get("enableJobEnqueued", True))
        voters = [name for name in enabled if name in ENQUEUE_VOTERS]
        if not evicting or not voters or (has_surplus and "overcommit" not in voters):
            continue
        for path, action in actions_of(spec):
            if action == "enqueue":
                message = f"enqueue keeps {evicting[0]} from acting for a job that {voters[0]} finds no room for"
                yield Finding(spec.document, path, message, "remove enqueue", severity="info" if has_surplus else None)


@check("GP411", "predicate error cache with gated binding", "warning")
def predicate_cache_with_gates(check_input: CheckInput) -> Iterator[Finding]:
    """With gated binding every pod of a role has its own node. Volcano's predicate error cache repeats one pod's misfit
    for all of them, so the gang never starts. `gangplan compile` switches the cache off in the ConfigMaps that it
    emits; a configuration that something else applies (a bare file, a Helm chart's values) must set
    predicateErrorCacheEnable: false for allocate, backfill and preempt. Fix: write so."""
    for spec in check_input.schedulers if check_input.specs.cluster.binding == "gated" else ():
        places: dict[FieldPath, list[str]] = {}
        for action in CACHED_ACTIONS if not spec.is_emitted else ():
            setting = spec.configurations.get(action, {}).get(PREDICATE_CACHE)
            if setting is False or (setting is None and action not in spec.actions):
                continue
            index = next((index for index, name, _ in spec.configuration_entries if name == action), None)
            inside: FieldPath = () if index is None else ("configurations", index, "arguments", PREDICATE_CACHE)
            places.setdefault(inside if setting is not None else ("actions",), []).append(action)
        for path, actions in places.items():
            named = ", ".join(actions)
            message = f"{PREDICATE_CACHE} is on for {named}, and binding is gated"
            help = f"set it to false for {named} in configurations"
            yield Finding(spec.document, (*spec.base_path, *path), message, help)


@check("GP412", "plugin enabled twice", "warning")
def duplicate_plugins(check_input: CheckInput) -> Iterator[Finding]:
    """A plugin belongs in one tier; Volcano builds it once for each place. Fix: remove one."""
    seen: dict[tuple[int, str], FieldPath] = {}
    for spec, path, plugin in plugins_by_scheduler(check_input):
        key = id(spec), plugin.name
        if plugin.name and key in seen:
            message = f"{plugin.name} is enabled already"
            yield Finding(spec.document, (*path, "name"), message, "remove one", (spec.document, (*seen[key], "name")))
        seen.setdefault(key, path)


@check("GP430", "Volcano may decide differently", "warning")
def differing_plugins(check_input: CheckInput) -> Iterator[Finding]:
    """The plugin does something that plans do not model: Volcano may refuse a planned node, evict a pod that the plan
    keeps, or hold a job back. `gangplan explain PLUGIN` shows how the plan treats it. Fix: nothing if that is
    intended; otherwise remove the plugin, or the argument or action that it names."""
    seen = set()
    for spec, path, plugin in plugins_by_scheduler(check_input):
        plan = PLUGIN_PLANS.get(plugin.name) if plugin.name not in seen else None
        seen.add(plugin.name)
        found = [it for it in plan.differences if it.applies(check_input.specs, plugin)] if plan else []
        if found:
            message = f"{plugin.name}: {'; '.join(it.text for it in found)}"
            severity: Severity = "warning" if any(it.severity == "warning" for it in found) else "info"
            yield Finding(
                spec.document, (*path, "name"), message, f"see gangplan explain {plugin.name}", severity=severity
            )


@check("GP416", "device sharing modes exclude one another")
def conflicting_device_sharing(check_input: CheckInput) -> Iterator[Finding]:
    """deviceshare: of GPUSharingEnable, GPUNumberEnable and VGPUEnable one at most is true; Volcano's scheduler stops
    otherwise. Fix: keep one."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        modes = [f"deviceshare.{mode}Enable" for mode in ("GPUSharing", "GPUNumber", "VGPU")]
        on = [mode for mode in modes if plugin.arguments.get(mode) is True]
        if plugin.name == "deviceshare" and len(on) > 1:
            yield Finding(spec.document, (*path, "arguments", on[1]), f"{on[0]} and {on[1]} are both true", "keep one")


@check("GP417", "no gang plugin", "warning")
def missing_gang_plugin(check_input: CheckInput) -> Iterator[Finding]:
    """Without the plugin gang, Volcano starts the pods of a job one by one. Fix: add it to the first tier."""
    for spec in check_input.schedulers:
        if not spec.is_partial and "gang" not in _enabled_plugins(spec):
            yield Finding(
                spec.document, (*spec.base_path, "tiers"), "the plugin gang is not enabled", "add it to the first tier"
            )


@check("GP435", "nothing keeps pods at their nodes")
def missing_node_filter(check_input: CheckInput) -> Iterator[Finding]:
    """Pods are bound by a node selector or node affinity on the planned nodes, which the plugin predicates enforces.
    Without it, or with its filter of nodes off, Volcano puts them anywhere. The plan still uses the configuration.
    Source: predicates.go. Fix: add predicates to a tier, or remove what switches it off."""
    for spec in check_input.schedulers:
        plugins = [(path, plugin) for path, plugin in plugins_of(spec) if plugin.name == "predicates"]
        if not plugins and not spec.is_partial:
            message = "the plugin predicates is not enabled, so that nothing keeps pods at their planned nodes"
            path = (*spec.base_path, "tiers")
            yield Finding(spec.document, path, message, "add predicates to a tier", is_rejecting=False)
        for path, plugin in plugins[:1]:
            for off, at in (
                (plugin.flags.get("enablePredicate") is False, (*path, "enablePredicate")),
                (plugin.arguments.get(NODE_FILTER) is False, (*path, "arguments", NODE_FILTER)),
            ):
                if off:
                    message = f"{at[-1]} is false, so that nothing keeps pods at their planned nodes"
                    yield Finding(spec.document, at, message, "remove it", is_rejecting=False)


DEQUEUE_STRATEGY = ("spec", "dequeueStrategy")


@check("GP418", "queue field without its plugin", "warning", folds=True)
def unread_queue_fields(check_input: CheckInput) -> Iterator[Finding]:
    """deserved is read by the plugin capacity only, weight by proportion only, affinity by nodegroup only, parent by
    capacity and nodegroup with enableHierarchy, and
    `dequeueStrategy: fifo` by nothing in Volcano 1.15: small jobs start before a large one. A deserved amount that is
    the guarantee's own, as Volcano's admission asks, is not a breach. Where the repository has nodes and no
    scheduler configuration, Volcano's own is planned for, which has proportion and not capacity. Fix: enable the
    plugin, or remove the field."""
    failed = (check_input.failed_names(kind) for kind in ("SchedulerConfiguration.gangplan.dev", "ConfigMap."))
    if not check_input.schedulers and check_input.specs.nodes and not any(failed):
        for queue in [queue for queue in check_input.specs.queues if _is_deserved_above_guarantee(queue)][:1]:
            message = "no plugin reads deserved: without a scheduler configuration Volcano's own holds, with proportion"
            yield Finding(queue.document, ("spec", "deserved"), message, "add a configuration with the plugin capacity")
    for queue in check_input.specs.queues:
        is_written = DEQUEUE_STRATEGY in queue.document.positions
        if is_written and queue.document.value_at(*DEQUEUE_STRATEGY) == "fifo" and not queue.strict_order:
            message = f"Volcano does not read dequeueStrategy of queue {queue.name!r}: small jobs pass large ones"
            help = f"annotate the queue with {ORDER_ANNOTATION}: strict, or remove the field"
            yield Finding(queue.document, DEQUEUE_STRATEGY, message, help)
    for spec in check_input.schedulers:
        enabled = _enabled_plugins(spec)
        see = (spec.document, (*spec.base_path, "tiers"))
        for queue in check_input.specs.queues:
            unread = {
                "deserved": (_is_deserved_above_guarantee(queue), ("capacity",)),
                "weight": (queue.weight != 1, ("proportion", "capacity")),
                "affinity": (queue.affinity is not None, ("nodegroup",)),
            }
            for name, (is_set, readers) in unread.items():
                if is_set and not any(reader in enabled for reader in readers):
                    message, help = f"no plugin reads {name}", f"enable {readers[0]}"
                    yield Finding(queue.document, ("spec", name), message, help, see)
            if queue.parent is not None and not queue.namespace and not _reads_parents(spec):
                message = "no plugin reads parent, so that no limit above the queue holds for it"
                yield Finding(
                    queue.document, ("spec", "parent"), message, "enable capacity with enableHierarchy: true", see
                )


def _reads_parents(spec: SchedulerSpec) -> bool:
    return any(plugin.flags.get(HIERARCHY_FLAG) for plugin in spec.plugins if plugin.name in ("capacity", "nodegroup"))


def _is_deserved_above_guarantee(queue: QueueSpec) -> bool:
    return bool(queue.deserved.items() - queue.guarantee.items())


@check("GP419", "plugin without the action shuffle", "warning")
def missing_shuffle(check_input: CheckInput) -> Iterator[Finding]:
    """tdm and rescheduling choose victims, but only the action shuffle evicts them. Fix: add shuffle to the
    actions."""
    for spec, path, plugin in plugins_by_scheduler(check_input):
        if plugin.name in ("tdm", "rescheduling") and "shuffle" not in spec.actions:
            message = f"{plugin.name} does nothing without the action shuffle"
            yield Finding(spec.document, (*path, "name"), message, "add shuffle to the actions")


@check("GP428", "only surplus pods are evicted", "info")
def surplus_only_eviction(check_input: CheckInput) -> Iterator[Finding]:
    """preempt and reclaim evict pod by pod, and the plugin gang votes against every pod that its job needs for its
    minimum: a job without pods to spare is never a victim, in Volcano and in the plan. Fix, where whole jobs are to
    make room: enablePreemptable: false or enableReclaimable: false for gang, or the action gangpreempt or
    gangreclaim."""
    for spec in check_input.schedulers:
        for action, gang_action, voters, flag in POD_EVICTION_ACTIONS:
            if (
                action in spec.actions
                and gang_action not in spec.actions
                and "gang" in deciding_plugins(spec, voters, flag)
            ):
                path = next(at for at, name in actions_of(spec) if name == action)
                message = f"{action} takes from jobs only what they can spare"
                yield Finding(spec.document, path, message, f"set {flag}: false for gang, or use {gang_action}")


@check("GP448", "reclaim that does not ask what queues deserve", "info")
def unasked_queue_plugin(check_input: CheckInput) -> Iterator[Finding]:
    """The first tier in which a plugin votes on the victims of reclaim or gangreclaim decides on them. If that tier is
    above capacity or proportion, Volcano also takes from queues that hold less than they deserve. gangreclaim never
    asks proportion, and no flag takes a vote away (UnifiedEvictable of session_plugins.go). Two queues may take from
    each other in turn (Volcano issue 5896). The plan keeps what they deserve all the same. Fix: put the voters into one
    tier."""
    for spec in check_input.schedulers if len(check_input.specs.queues) > 1 else ():
        for action, voters, flag in _RECLAIMING_ACTIONS:
            asked = deciding_plugins(spec, voters, flag)
            enabled = {plugin.name for plugin in spec.plugins if plugin.flags.get(flag, True)}
            unasked = sorted(enabled & _QUEUE_PLUGINS) if asked and not asked & _QUEUE_PLUGINS else []
            for path, name in actions_of(spec) if unasked else ():
                if name == action:
                    named = " and ".join(sorted(asked))
                    where = "in a later tier, " if unasked[0] in voters else ""
                    message = f"{action} asks {named}, and not {unasked[0]} {where}whom it may evict"
                    help = f"put {named} and {unasked[0]} into one tier"
                    if unasked[0] not in voters:
                        help = f"use reclaim, or capacity in place of {unasked[0]}, in the tier of {named}"
                    yield Finding(spec.document, path, message, help)


_RECLAIMING_ACTIONS = (("reclaim", RECLAIM_VOTERS, "enableReclaimable"), ("gangreclaim", GANG_ACTION_VOTERS, ""))
"""(action, who votes on its victims, the flag that takes a plugin's vote away): none does with gangreclaim."""
_QUEUE_PLUGINS = frozenset(("capacity", "proportion"))


@check("GP429", "cooldown without effect", "warning")
def ignored_cooldowns(check_input: CheckInput) -> Iterator[Finding]:
    """volcano.sh/cooldown-time is how long a job runs at least before it may be evicted. Only the plugin cdp reads
    it: without cdp the job may be a victim from its first second, in Volcano and in the plan. The same holds for a
    value that is not a duration, which cdp ignores. Fix: enable cdp, in the first tier, write a duration like 10m or
    1h30m, or remove the annotation."""
    for spec in check_input.schedulers:
        for gang in check_input.jobs if has_eviction_action(spec) else ():
            for path in sorted(
                (path for path in gang.document.positions if path[-1:] == (COOLDOWN_ANNOTATION,)), key=repr
            ):
                text = str(gang.document.value_at(*path))
                if not has_cooldown_plugin(spec):
                    see = (spec.document, (*spec.base_path, "tiers"))
                    message = "no plugin keeps this cooldown, and the scheduler evicts"
                    yield Finding(gang.document, path, message, "enable cdp, or remove it", see)
                elif not go_duration_seconds(text):
                    message = f"{text!r} is not a duration, and cdp ignores it"
                    yield Finding(gang.document, path, message, "write it like 10m or 1h30m")


@check("GP414", "two scheduler configurations")
def several_configurations(check_input: CheckInput) -> Iterator[Finding]:
    """A cluster has one SchedulerConfiguration, or one ConfigMap with volcano-scheduler.conf. A bare file, or the
    values of a Helm chart, in addition to it is a warning: gangplan plans by the one that it emits. Fix: remove one."""
    found = check_input.schedulers
    for spec in found[1:]:
        message = f"{found[0].document.display_name} configures the scheduler already"
        place: FieldPath = ("metadata", "name") if spec.is_emitted else (*spec.base_path, "actions")
        see = (found[0].document, ("metadata", "name") if found[0].is_emitted else found[0].base_path)
        severity: Severity | None = None if spec.is_emitted else "warning"
        yield Finding(spec.document, place, message, "remove one", see, severity)


DEFAULT_OVERCOMMIT = 1.2


@check("GP433", "pods without requests, and no action backfill", "warning")
def best_effort_without_backfill(check_input: CheckInput) -> Iterator[Finding]:
    """The action allocate passes over pods that request nothing, and leaves them to backfill: without it Volcano never
    places them, and the plan does (allocate.go and backfill.go, BestEffort). Fix: give the containers
    resources.requests, or add the action backfill."""
    scheduler = check_input.specs.scheduler
    if scheduler is None or scheduler.is_partial or "backfill" in scheduler.actions:
        return
    for gang in check_input.volcano_jobs:
        for role in gang.roles if gang.scheduling.schedulable and gang.scheduling.is_bound else ():
            asks = any(amount for name, amount in role.pod.requests.items() if name != "pods")
            if role.replicas and not asks and role.pod.scheduler_name in ("", VOLCANO_SCHEDULER):
                path = (*role.template_path, "spec", "containers") if role.template_path else ("metadata", "name")
                message = f"the pods of {role.name} request nothing, and without backfill Volcano places none of them"
                see = (scheduler.document, (*scheduler.base_path, "actions"))
                yield Finding(gang.document, path, message, "add resources.requests, or the action backfill", see)


STOCK_VOTERS = (PluginSpec("overcommit", {}, {}), PluginSpec("proportion", {}, {}))
"""The voting plugins in Volcano's own configuration, which applies where none is declared."""


@check("GP434", "pod group that is never admitted", "warning")
def never_enqueued(check_input: CheckInput) -> Iterator[Finding]:
    """The action enqueue lets a PodGroup in only while its minResources find room: below the cluster times
    overcommit-factor (overcommit), or within what its queue may hold (capacity, proportion). One that asks for more
    than that even of an empty cluster stays Pending forever, and the plan, which counts its pods, starts it. Source:
    Execute of enqueue.go, JobEnqueueableFn of the three plugins. Fix: lower minResources, or remove it."""
    scheduler = check_input.specs.scheduler
    if scheduler is not None and (scheduler.is_partial or "enqueue" not in scheduler.actions):
        return
    plugins = STOCK_VOTERS if scheduler is None else tuple(scheduler.plugins)
    for document, group in check_input.documents_of(POD_GROUP):
        asked = integer_amounts(group.spec.min_resources or {}, "up")
        asked = {name: amount for name, amount in asked.items() if not UNCOUNTED_RESOURCES.match(name)}
        written = group.spec.queue or check_input.specs.cluster.default_queue
        queue = workload_queue(document.namespace or "default", written)
        over = next(_exceeded_limits(check_input, plugins, queue, asked), None) if asked else None
        if over is not None:
            resource, whose, most = over
            amount, limit = exact_amount(resource, asked[resource]), exact_amount(resource, most)
            message = f"minResources has {amount} {resource}, and {whose} {limit}: enqueue never lets it in"
            yield Finding(document, ("spec", "minResources", resource), message, "lower minResources, or remove it")


def _exceeded_limits(
    check_input: CheckInput, plugins: Iterable[PluginSpec], queue: str, asked: Mapping[str, int]
) -> Iterator[tuple[str, str, int]]:
    """Yield (resource, whose limit in words, the limit) for exceeded limits. The number of pods, which Volcano does not
    compare, is left out, and so are resources that no declared node has or a queue does not limit."""
    for whose, limits in _limits(check_input, plugins, queue):
        for name in sorted(asked.keys() & limits.keys() - {"pods"}):
            if asked[name] > limits[name] > 0:
                yield name, whose, limits[name]


def _limits(
    check_input: CheckInput, plugins: Iterable[PluginSpec], queue: str
) -> Iterator[tuple[str, Mapping[str, int]]]:
    """Yield (whose in words, resource -> the most that one group may request), for each voting plugin."""
    total = reduce(amounts_sum, (node.allocatable for node in check_input.specs.nodes), dict[str, int]())
    for plugin in plugins:
        if plugin.name not in ENQUEUE_VOTERS or not plugin.flags.get("enableJobEnqueued", True):
            continue
        if plugin.name == "overcommit":
            factor = _overcommit(plugin)
            yield f"the cluster times {factor:g} has", {name: int(amount * factor) for name, amount in total.items()}
            continue
        yield "the cluster has", total
        climbs = plugin.name == "capacity" and plugin.flags.get("enableHierarchy", False)
        for each in _queue_path(check_input, queue, climbs):
            yield f"queue {each.name} may hold", each.capability


def _overcommit(plugin: PluginSpec) -> float:
    factor = plugin.arguments.get("overcommit-factor", DEFAULT_OVERCOMMIT)
    return factor if isinstance(factor, int | float) and factor >= 1 else DEFAULT_OVERCOMMIT


def _queue_path(check_input: CheckInput, name: str, climbs: bool) -> Iterator[QueueSpec]:
    """The queue, and (climbs) those above it."""
    queues, seen = {queue.name: queue for queue in check_input.specs.queues}, set[str]()
    while name in queues and name not in seen:
        seen.add(name)
        yield queues[name]
        name = (queues[name].parent or "") if climbs else ""
