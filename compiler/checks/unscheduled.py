"""Checks of jobs that Volcano never schedules, although the plan starts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

from compiler.checks.check import CheckInput, Finding, check
from compiler.checks.jobs import POD_GROUP
from compiler.checks.queues import UNCOUNTED_RESOURCES
from compiler.checks.scheduler_settings import ENQUEUE_VOTERS
from compiler.fields.quantity import amounts_sum, exact_amount, integer_amounts
from compiler.kubernetes import VOLCANO_SCHEDULER
from compiler.specs.cluster_spec import PluginSpec
from compiler.specs.namespace_queues import workload_queue
from compiler.specs.queue_spec import QueueSpec

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
