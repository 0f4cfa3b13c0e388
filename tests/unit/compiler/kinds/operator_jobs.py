"""Jobs of operators' kinds for tests: how each is read, and what of it is emitted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compiler.emit.templates import add_gate, mark_pods, name_queue, name_scheduler, pod_templates
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec

POD: dict[str, Any] = {
    "spec": {"containers": [{"name": "main", "image": "a", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}
}


def read(api_version: str, kind: str, spec: object, services: str = "devices", **metadata: object) -> Specs:
    """services: as the Cluster has it."""
    if api_version in ("apps/v1", "v1") and isinstance(spec, dict):  # what the API server wants of each
        template = {**spec["template"], "metadata": {"labels": {"app": "x"}, **spec["template"].get("metadata", {})}}
        selector: dict[str, Any] = {"app": "x"} if api_version == "v1" else {"matchLabels": {"app": "x"}}
        spec = {**spec, "selector": selector, "template": template}
    document = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": spec}
    queue = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: ml}\nspec: {}\n"
    cluster = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\nspec: {services: %s}\n"
    queue += "---\n" + cluster % services
    files = {"jobs/a.yaml": json.dumps(document).encode(), "cluster-specs/c/q.yaml": queue.encode()}
    return read_specs(Repository(files))


def gang(api_version: str, kind: str, spec: object, **metadata: object) -> GangSpec:
    specs = read(api_version, kind, spec, "devices", **metadata)
    assert [each for each in specs.diagnostics if each.severity == "error"] == []
    (found,) = specs.gangs
    return found


def minima(found: GangSpec) -> tuple[int, Mapping[str, tuple[int, int]]]:
    return found.minimum, {role.name: (role.minimum, role.replicas) for role in found.roles}


def emitted(found: GangSpec) -> dict[str, Any]:
    """The object with the gate, the marks and the queue of gated binding."""
    data: dict[str, Any] = json.loads(json.dumps(found.document.data))
    for _, template in pod_templates(data, found):
        if found.scheduling.is_bound:
            add_gate(template["spec"])
    if found.controller.writes_scheduler:
        name_scheduler(data, found)
    mark_pods(data, found)
    name_queue(data, found)
    return data
