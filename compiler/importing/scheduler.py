"""Volcano's scheduler configuration of a cluster as gangplan's SchedulerConfiguration."""

from __future__ import annotations

from typing import Any

import yaml

from compiler.importing.written_form import written_form
from compiler.kubernetes import API_VERSION, Object, name_of, namespace_of
from compiler.volcano.plugins import PLUGIN_FLAGS
from compiler.volcano.scheduler_conf import CONF_KEY, FILE_KEYS


def scheduler_document(config_map: Object) -> dict[str, Any]:
    """Return the configuration with types; the unchanged ConfigMap if types would lose contents, so that `gangplan
    check` shows how Volcano reads it."""
    conf = _parsed(str((config_map.get("data") or {}).get(CONF_KEY)))
    if conf is None:
        return written_form(config_map)
    metadata = {"name": name_of(config_map), "namespace": namespace_of(config_map)}
    spec = {**conf, "actions": [action.strip() for action in conf["actions"].split(",")]}
    return {"apiVersion": API_VERSION, "kind": "SchedulerConfiguration", "metadata": metadata, "spec": spec}


def _parsed(text: str) -> dict[str, Any] | None:
    """Return the configuration, None where it holds something that Volcano ignores or reads as something else."""
    try:
        conf = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(conf, dict) or not conf.keys() <= {*FILE_KEYS} or not isinstance(conf.get("actions"), str):
        return None
    tiers = conf.get("tiers")
    is_typed = isinstance(tiers, list) and all(isinstance(tier, dict) and _is_tier(tier) for tier in tiers)
    return conf if is_typed else None


def _is_tier(tier: dict[str, Any]) -> bool:
    plugins = tier.get("plugins")
    return tier.keys() == {"plugins"} and isinstance(plugins, list) and all(map(_is_plugin, plugins))


def _is_plugin(plugin: Any) -> bool:
    if not isinstance(plugin, dict) or not isinstance(plugin.get("name"), str):
        return False
    flags = plugin.keys() - {"name", "arguments"}
    has_flags = flags <= {*PLUGIN_FLAGS} and all(isinstance(plugin[flag], bool) for flag in flags)
    return has_flags and isinstance(plugin.get("arguments", {}), dict)
