"""RuntimeClasses of the repository: the overhead, node selector and tolerations that the API server writes into pods.

Source: Kubernetes, plugin/pkg/admission/runtimeclass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pydantic import ValidationError

from compiler.fields.models import LenientModel, Resources, without_nulls
from compiler.kinds.common.limit_ranges import with_written_requests, written_pod
from compiler.kinds.common.pods import TolerationModel, toleration_specs
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.syntax.documents import Document


class Overhead(LenientModel):
    pod_fixed: Resources | None = None


class Scheduling(LenientModel):
    node_selector: dict[str, str] | None = None
    tolerations: list[TolerationModel] | None = None


class RuntimeClass(LenientModel):
    """The fields of the object that decide on nodes and requests."""

    overhead: Overhead = Overhead()
    scheduling: Scheduling = Scheduling()


def runtime_classes(documents: Iterable[Document]) -> dict[str, RuntimeClass]:
    """Name -> the class, if it can be read."""
    found = {}
    for document in documents:
        if document.kind == "RuntimeClass" and document.group == "node.k8s.io":
            try:
                found[document.name] = RuntimeClass.model_validate(without_nulls(document.data))
            except ValidationError:  # reported at its place
                continue
    return found


def with_runtime_classes(gang: GangSpec, classes: Mapping[str, RuntimeClass]) -> GangSpec:
    """Return the job whose pods have what their RuntimeClass writes into them."""
    return replace(gang, roles=tuple(_with_class(gang, role, classes) for role in gang.roles)) if classes else gang


def _with_class(gang: GangSpec, role: RoleSpec, classes: Mapping[str, RuntimeClass]) -> RoleSpec:
    pod = written_pod(gang, role)
    found = classes.get(pod.runtime_class_name or "") if pod is not None else None
    if pod is None or found is None:
        return role
    role = with_written_requests(role, pod, pod.model_copy(update={"overhead": found.overhead.pod_fixed}))
    selector = {**(found.scheduling.node_selector or {}), **role.pod.node_selector}
    tolerations = (*role.pod.tolerations, *toleration_specs(found.scheduling.tolerations))
    return replace(role, pod=replace(role.pod, node_selector=selector, tolerations=tolerations))
