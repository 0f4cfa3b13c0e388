"""Patches of a pod spec: written as text, as Argo's podSpecPatch, or as a mapping, as a TrainJob's overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import ValidationError

from compiler.fields.models import Resources, without_nulls
from compiler.kinds.common import pods

DEFAULT_CONTAINER = "main"
_PARAMETER = re.compile(r"\{\{=?\s*([\w.-]+)\s*\}\}")
_REPLACED = ("node_selector", "affinity", "tolerations", "scheduler_name", "priority_class_name", "overhead")


class PodPatch(pods.Placement):
    """The fields of a patch that count in a plan."""

    containers: list[pods.Container] | None = None
    init_containers: list[pods.Container] | None = None
    priority_class_name: str | None = None
    overhead: Resources | None = None


def pod_patch(text: str, values: Mapping[str, str]) -> PodPatch | None:
    """Return the patch with the values of its parameters; None where it cannot be read. values: by name, as
    inputs.parameters.gpus."""
    filled = _PARAMETER.sub(lambda found: values.get(found[1], found[0]), text)
    try:
        data: Any = None if "{{" in filled else yaml.safe_load(filled)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return read_patch(data) if isinstance(data, dict) else None


def read_patch(data: Mapping[str, Any]) -> PodPatch | None:
    """Return the patch in a mapping; None where it cannot be read."""
    try:
        return PodPatch.model_validate(without_nulls(data))
    except ValidationError:
        return None


def patched(pod: pods.PodSpecModel, text: str | None, values: Mapping[str, str]) -> pods.PodSpecModel | None:
    """Return the pod with the patch, by name of container; None without a patch that can be read."""
    patch = pod_patch(text, values) if text else None
    return None if patch is None else with_patch(pod, patch)


def with_patch(pod: pods.PodSpecModel, patch: PodPatch) -> pods.PodSpecModel:
    """Return the pod with the patch: node selectors and resources are merged, other fields replaced."""
    given = {name: value for name in _REPLACED if (value := getattr(patch, name)) is not None}
    if "node_selector" in given:
        given["node_selector"] = {**(pod.node_selector or {}), **given["node_selector"]}
    given["containers"] = [_with_resources(container, patch.containers) for container in pod.containers]
    given["init_containers"] = [_with_resources(one, patch.init_containers) for one in pod.init_containers or ()]
    return pod.model_copy(update=given)


def _with_resources(container: pods.Container, patches: list[pods.Container] | None) -> pods.Container:
    name = container.name or DEFAULT_CONTAINER
    for patch in patches or ():
        if patch.name == name and patch.resources is not None:
            have = container.resources or pods.ResourceRequirements()
            merged = {
                key: {**(getattr(have, key) or {}), **(getattr(patch.resources, key) or {})} or None
                for key in ("requests", "limits")
            }
            return container.model_copy(update={"resources": have.model_copy(update=merged)})
    return container
