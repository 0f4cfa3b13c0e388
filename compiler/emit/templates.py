"""Where binding touches a job: its pod templates and its annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.specs import GangSpec, RoleSpec


def pod_templates(data: dict[str, Any], gang: GangSpec) -> Iterator[tuple[RoleSpec, dict[str, Any]]]:
    """Each role with its pod template in `data`; a role that has none (a bare PodGroup) is left out."""
    for role in gang.roles:
        template: Any = data
        for step in role.template_path:
            try:
                template = template[step]
            except (LookupError, TypeError):
                break
        else:
            if isinstance(template, dict) and isinstance(template.get("spec"), dict):
                yield role, template


def annotate(data: dict[str, Any], key: str, value: str) -> None:
    annotations = data["metadata"].get("annotations")
    if not isinstance(annotations, dict):
        annotations = data["metadata"]["annotations"] = {}
    annotations[key] = value
