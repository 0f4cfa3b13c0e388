"""Binding's changes of a job: its pod templates and its annotations; the marks of pods that do not name their job, and
the queue of pods for which Volcano creates the PodGroup.

Gated binding: scheduling gates hold pods until the reconciler gives each its node, a whole gang at a time.

A Volcano Job's template is immutable, so every job has the gate, for any decision; the plan is an annotation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from compiler import kubernetes as k8s
from compiler.outcome import JobDecision
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.namespace_queues import workload_queue
from compiler.syntax.paths import value_at


def pod_templates(data: dict[str, Any], gang: GangSpec) -> Iterator[tuple[RoleSpec, dict[str, Any]]]:
    """Yield each role with its pod template in `data`, created where the role has a new one; for a lone pod the pod
    itself. A role without one (of a bare PodGroup) is left out."""
    for role in gang.roles:
        if role.pod_documents:
            continue
        template = _template_at(data, role)
        if isinstance(template, dict) and isinstance(template.get("spec"), dict):
            yield role, template


def _template_at(data: Any, role: RoleSpec) -> Any:
    """Return the value at the role's path, created with all its parents where the role has a new template."""
    path = role.template_path
    for at, step in enumerate(path):
        child = value_at(data, (step,))
        if child is None and role.new_template is not None:
            is_last = at == len(path) - 1
            child = deepcopy(dict(role.new_template)) if is_last else [] if isinstance(path[at + 1], int) else {}
            if isinstance(data, list):
                data.append(child)
            else:
                data[step] = child
        data = child
    return data


def name_scheduler(data: dict[str, Any], gang: GangSpec) -> None:
    """Write Volcano as the scheduler of pods that name none, or Kubernetes' own."""
    for _, template in pod_templates(data, gang):
        template["spec"]["schedulerName"] = k8s.VOLCANO_SCHEDULER


def mark_pods(data: dict[str, Any], gang: GangSpec) -> None:
    """Write into the pod templates the job of their pods, where the gang's controller does not."""
    if not gang.controller.marks_pods:
        return
    for role, template in pod_templates(data, gang):
        annotate(template, k8s.JOB_MARK, f"{gang.document.kind}.{gang.document.group}/{gang.document.name}")
        annotate(template, k8s.ROLE_MARK, role.name)
    for key, names in (
        (k8s.POD_OWNERS_ANNOTATION, gang.controller.pod_owners),
        (k8s.DEPENDENT_ROLES_ANNOTATION, gang.controller.dependent_roles),
    ):
        if names:
            annotate(data, key, ",".join(names))


def name_queue(data: dict[str, Any], gang: GangSpec) -> None:
    """Write the queue into every pod template where an annotation names it: Volcano, which makes the PodGroups of such
    pods, reads that annotation of a pod and not of what owns the pod."""
    path = gang.field_paths.get("queue", ())
    written = value_at(gang.document.data, path) if path[-1:] == (k8s.QUEUE_NAME_ANNOTATION,) else None
    if not isinstance(written, str) or workload_queue(gang.namespace, written) != gang.queue:
        return
    for _, template in pod_templates(data, gang):
        if not value_at(template, ("metadata", "annotations", k8s.QUEUE_NAME_ANNOTATION)):
            annotate(template, k8s.QUEUE_NAME_ANNOTATION, written)


def annotate(data: dict[str, Any], key: str, value: str) -> None:
    """Set an annotation. data: an object or a pod template."""
    for name in ("metadata", "annotations"):
        if not isinstance(data.get(name), dict):
            data[name] = {}
        data = data[name]
    data[key] = value


def bind_by_gates(data: dict[str, Any], decision: JobDecision) -> None:
    for _, template in pod_templates(data, decision.gang):
        add_gate(template["spec"])
    if decision.start.promise is not None:
        annotate(data, k8s.PROMISED_START_ANNOTATION, compact_json(decision.start.promise.as_data()))
    if decision.action in ("start", "keep", "empty"):
        annotate(data, k8s.PLACEMENT_ANNOTATION, compact_json(decision.pods))
    elif decision.action == "wait":
        annotate(
            data, k8s.WAITING_ANNOTATION, "; ".join(f"{reason.code}: {reason.message}" for reason in decision.reasons)
        )
        if decision.start.reserved is not None:
            annotate(data, k8s.STARTS_AT_ANNOTATION, decision.start.reserved)
    elif decision.action == "evict":
        annotate(data, k8s.WAITING_ANNOTATION, f"evicted for {', '.join(decision.evicted_for)}")


def add_gate(pod: dict[str, Any]) -> None:
    """Add our gate to a pod spec, in addition to any others."""
    gates = pod.setdefault("schedulingGates", [])
    if not any(gate.get("name") == k8s.SCHEDULING_GATE for gate in gates):
        gates.append({"name": k8s.SCHEDULING_GATE})


def compact_json(value: Any) -> str:
    """Return a placement or another mapping as text, the same for equal ones in any order."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=dict)
