"""SchedulerConfiguration, or a ConfigMap as people have it -> the ConfigMap that Volcano's scheduler reads.

With gated binding the pods of one role go to different nodes, each by its own node selector. Volcano remembers the
first pod's "does not match" for all its siblings (the predicate error cache, keyed by job and role) and the gang would
never start, so the cache is switched off for every action that consults it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from ruamel.yaml import YAML

from compiler import kubernetes as k8s
from compiler.emit.block import to_yaml
from compiler.specs.cluster_spec import PluginSpec, SchedulerSpec
from compiler.volcano.scheduler_conf import CONF_KEY, PREDICATE_CACHE

_OBJECT_ANNOTATIONS = (
    k8s.ADOPT_ANNOTATION,
    k8s.PRUNE_ANNOTATION,
    k8s.REPLACE_ANNOTATION,
    k8s.SUSPEND_ANNOTATION,
    k8s.YIELD_ANNOTATION,
)
"""On a SchedulerConfiguration they are meant for its ConfigMap."""
CACHING_ACTIONS = ("allocate", "backfill", "preempt", "reclaim")


def config_map(spec: SchedulerSpec, *, gated: bool) -> dict[str, Any]:
    """Our own kind becomes a new ConfigMap, which gets those of its annotations that are meant for the object; a raw
    ConfigMap stays, with its text changed only where the cache must be off."""
    if spec.raw_text is None:
        metadata: dict[str, Any] = {"name": spec.name, "namespace": spec.namespace}
        found = k8s.annotations_of(spec.document.data)
        if kept := {name: found[name] for name in _OBJECT_ANNOTATIONS if name in found}:
            metadata["annotations"] = kept
        conf = scheduler_conf(spec, gated=gated)
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {CONF_KEY: conf}}
    data = deepcopy(spec.document.data)
    if gated:
        data["data"][spec.base_path[-1]] = _with_cache_disabled(spec.raw_text, spec.actions)
    return data


def scheduler_conf(spec: SchedulerSpec, *, gated: bool) -> str:
    """volcano-scheduler.conf."""
    settings: dict[str, dict[str, Any]] = {action: dict(arguments) for action, arguments in spec.configurations.items()}
    if gated:
        for action in _actions_without_cache(spec.actions):
            settings.setdefault(action, {})[PREDICATE_CACHE] = False
    conf: dict[str, Any] = {
        "actions": ", ".join(spec.actions),
        "tiers": [{"plugins": [_plugin_entry(plugin) for plugin in tier]} for tier in spec.tiers],
    }
    if settings:
        conf["configurations"] = [{"name": action, "arguments": arguments} for action, arguments in settings.items()]
    if spec.metrics:
        conf["metrics"] = dict(spec.metrics)
    return to_yaml(conf)


def _actions_without_cache(actions: Sequence[str]) -> list[str]:
    """Return the actions whose error cache is switched off: the first three always, so that adding an action later does
    not bring the trap back; reclaim when it is used."""
    unused = {"reclaim"}.difference(actions)
    return [action for action in CACHING_ACTIONS if action not in unused]


def _plugin_entry(plugin: PluginSpec) -> dict[str, Any]:
    found: dict[str, Any] = {"name": plugin.name, **plugin.flags}
    if plugin.arguments:
        found["arguments"] = dict(plugin.arguments)
    return found


def _with_cache_disabled(raw: str, actions: Sequence[str]) -> str:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 1 << 20
    conf = yaml.load(raw)
    settings = conf.get("configurations")
    if not isinstance(settings, list):
        settings = conf["configurations"] = []
    by_action: dict[Any, Any] = {entry.get("name"): entry for entry in settings if isinstance(entry, Mapping)}
    changed = False
    for action in _actions_without_cache(actions):
        entry = by_action.get(action)
        if entry is None:
            settings.append({"name": action, "arguments": {PREDICATE_CACHE: False}})
        elif not isinstance(entry.get("arguments"), Mapping):
            entry["arguments"] = {PREDICATE_CACHE: False}
        elif entry["arguments"].get(PREDICATE_CACHE) is False:
            continue
        else:
            entry["arguments"][PREDICATE_CACHE] = False
        changed = True
    if not changed:
        return raw
    stream = io.StringIO()
    yaml.dump(conf, stream)
    return stream.getvalue()
