"""The plugin fairshare of Volcano 1.16: which namespace of a queue is first, by its former usage.

Source: fairshare.go and persist.go of Volcano 1.16's branch. Volcano decides in each session; a plan decides once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import NamedTuple

from compiler.fields.quantity import MILLI_RESOURCES
from compiler.fields.texts import whole_number
from compiler.fields.times import epoch_seconds
from compiler.kubernetes import Object, name_of, namespace_of
from compiler.specs.cluster_spec import ClusterSpec, PluginSpec, SchedulerSpec

SINCE = 16
DEFAULT_RESOURCE = "nvidia.com/gpu"
DEFAULT_HALF_LIFE = 240
"""Minutes."""
STATE_CONFIG_MAP = "volcano-system", "fairshare-usage-state"
STATE_LABELS = "app=volcano-scheduler,component=fairshare"
"""Labels of the ConfigMap, wherever the plugin's arguments put it."""
STATE_KEY = "state.json"
EQUAL_USE = 1.0
"""Difference of use up to which two namespaces are equal, in thousandths of the resource times seconds."""
ADMITTING_PLUGINS = frozenset({"overcommit", "proportion", "capacity", "resourcequota"})
"""Plugins that admit a job at the action enqueue where they do not reject it; others abstain."""
LEAST_USE = 0.01
"""Smaller use is forgotten."""

NamespaceAmounts = Mapping[tuple[str, str], Mapping[str, int]]
"""(queue, namespace) -> resource -> what its running pods request, as in `compiler.specs.pod_spec.Amounts`."""


@dataclass(frozen=True, slots=True)
class FairShare:
    """The plugin as it is configured. targets: the queues that it orders; empty: all. half_life: minutes. orders_jobs,
    gates: whether it decides the order of jobs, and what the action enqueue keeps out."""

    targets: tuple[str, ...]
    resources: Mapping[str, str]
    default_resource: str
    half_life: int
    state: tuple[str, str]
    orders_jobs: bool = True
    gates: bool = False

    def orders(self, queue: str) -> bool:
        return not self.targets or queue in self.targets

    def resource_of(self, queue: str) -> str:
        return self.resources.get(queue, self.default_resource)


class Turn(NamedTuple):
    """A namespace's place in a queue, 0 first, and its usage: thousandths of the resource times seconds, decayed."""

    place: int
    used: float


def fair_share(cluster: ClusterSpec, scheduler: SchedulerSpec | None) -> FairShare | None:
    """Return the plugin where it decides something; None where the release has none, or it does not."""
    plugin = None if scheduler is None or cluster.volcano.minor < SINCE else scheduler.plugin("fairshare")
    if scheduler is None or plugin is None:
        return None
    orders_jobs, gates = _orders_jobs(scheduler), _gates(plugin, scheduler)
    if not (orders_jobs or gates):
        return None
    texts = {name: value for name, value in plugin.arguments.items() if isinstance(value, str)}
    targets = tuple(filter(None, (name.strip() for name in texts.get("fairshare.targetQueues", "").split(","))))
    prefix = "fairshare.resourceKey."
    return FairShare(
        targets,
        {name: texts[prefix + name] for name in targets if prefix + name in texts},
        texts.get("fairshare.resourceKey") or DEFAULT_RESOURCE,
        whole_number(texts.get("fairshare.halfLifeMinutes", "").strip()) or DEFAULT_HALF_LIFE,
        (
            texts.get("fairshare.stateNamespace") or STATE_CONFIG_MAP[0],
            texts.get("fairshare.stateConfigMap") or STATE_CONFIG_MAP[1],
        ),
        orders_jobs,
        gates,
    )


def _orders_jobs(scheduler: SchedulerSpec) -> bool:
    """Return whether it is on, and drf does not precede it."""
    deciding = (each.name for each in scheduler.plugins if each.flags.get("enableJobOrder", True))
    return next((name for name in deciding if name in ("drf", "fairshare")), "") == "fairshare"


def _gates(plugin: PluginSpec, scheduler: SchedulerSpec) -> bool:
    """Return whether its gate decides: a plugin of an earlier tier that admits a job is not outvoted."""
    found = plugin.arguments.get("fairshare.enableEnqueueGate")
    if not (isinstance(found, str) and found.strip().lower() == "true" and "enqueue" in scheduler.actions):
        return False
    for tier in scheduler.tiers:
        voting = {each.name for each in tier if each.flags.get("enableJobEnqueued", True)}
        if "fairshare" in voting:
            return True
        if not voting.isdisjoint(ADMITTING_PLUGINS):
            return False
    return False


class ReachedShare(NamedTuple):
    """A namespace that runs its share of a queue, or more. running, share: amounts of the resource."""

    resource: str
    running: int
    share: Fraction


def shares_reached(
    plugin: FairShare, asked: NamespaceAmounts, running: NamespaceAmounts, totals: Mapping[str, int]
) -> dict[tuple[str, str], ReachedShare]:
    """Return (queue, namespace) -> its share, for namespaces that run as much already and request more.

    Shares are the max-min fair ones of running and requested amounts. totals: queue -> the amount to share.
    """
    found: dict[tuple[str, str], ReachedShare] = {}
    shared = {queue for queue in filter(plugin.orders, totals) if totals[queue] > 0}
    keys = sorted({key for key in (*asked, *running) if key[0] in shared})
    for queue, group in groupby(keys, key=lambda key: key[0]):
        resource, members = plugin.resource_of(queue), list(group)
        held = {key: running.get(key, {}).get(resource, 0) for key in members}
        wanted = {key: asked.get(key, {}).get(resource, 0) for key in members}
        level = _fair_level([held[key] + wanted[key] for key in members], totals[queue])
        for key in members:
            if wanted[key] and level is not None and held[key] >= level:
                found[key] = ReachedShare(resource, held[key], level)
    return found


def _fair_level(demands: Iterable[int], total: int) -> Fraction | None:
    """Return the share of members that get less than they request; None if all get their request."""
    left, waiting = Fraction(total), sorted(filter(None, demands))
    for at, demand in enumerate(waiting):
        level = left / (len(waiting) - at)
        if demand > level:
            return level
        left -= demand
    return None


def namespace_turns(
    plugin: FairShare, config_maps: Iterable[Object], running: NamespaceAmounts, now: int | None
) -> dict[tuple[str, str], Turn]:
    """Return (queue, namespace) -> its turn; equal ones share a place, and age decides between them.

    Less usage is first, and for equal usage fewer running resources. A namespace without a number has used nothing.
    """
    used = _decayed_use(plugin, config_maps, running, now)
    found: dict[tuple[str, str], Turn] = {}
    keys = sorted({key for key in (*used, *running) if plugin.orders(key[0])})
    for queue, members in groupby(keys, key=lambda key: key[0]):
        resource, place, start = plugin.resource_of(queue), -1, float("-inf")
        by_use = sorted(members, key=lambda key: (used.get(key, 0.0), key))
        level: dict[tuple[str, str], int] = {}
        for key in by_use:
            if used.get(key, 0.0) - start > EQUAL_USE:
                place, start = place + 1, used.get(key, 0.0)
            level[key] = place
        order = {key: (level[key], running.get(key, {}).get(resource, 0)) for key in by_use}
        places = {each: at for at, each in enumerate(sorted(set(order.values())))}
        found |= {key: Turn(places[order[key]], used.get(key, 0.0)) for key in by_use}
    return found


def _decayed_use(
    plugin: FairShare, config_maps: Iterable[Object], running: NamespaceAmounts, now: int | None
) -> dict[tuple[str, str], float]:
    """Return usage x 2^(-elapsed / half-life), with running pods charged for the time since the scheduler's last
    session."""
    state = next((each for each in config_maps if (namespace_of(each), name_of(each)) == plugin.state), None)
    try:
        found = json.loads((state or {})["data"][STATE_KEY])
        queues, last = dict(found["queues"]), epoch_seconds(found["lastCycle"])
        use = {(queue, name): float(amount) for queue, by_name in queues.items() for name, amount in by_name.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}  # Volcano ignores a bad state too
    elapsed = 0 if now is None or last is None else max(0, now - last)
    factor = 2.0 ** (-elapsed / (60 * plugin.half_life))
    found = {key: amount * factor for key, amount in use.items() if amount * factor >= LEAST_USE}
    for key, amounts in running.items():
        resource = plugin.resource_of(key[0])
        thousandths = amounts.get(resource, 0) * (1 if resource in MILLI_RESOURCES else 1000)
        if thousandths and elapsed:
            found[key] = found.get(key, 0.0) + thousandths * elapsed
    return found
