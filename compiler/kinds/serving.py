"""Kinds of operators that serve models: Grove's PodCliqueSet, RoleBasedGroup, AIBrix' StormService and RayClusterFleet,
KServe's InferenceService and kaito's Workspace.

Their operators make pods through several kinds of their own, some with gates and gangs, so that none is bound: room is
kept for the pods that they run at least. Sources: the CRDs of grove.io v1alpha1, workloads.x-k8s.io v1alpha1 and
v1alpha2, orchestration.aibrix.ai v1alpha1, serving.kserve.io v1beta1 and kaito.sh v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from compiler.fields.validation import without_nulls
from compiler.kinds import Kind
from compiler.kinds.common import pods
from compiler.kinds.common.annotated import with_annotated_queue
from compiler.kinds.common.job_kinds import (
    Count,
    JobKind,
    KindObject,
    RolePaths,
    gang_spec,
    job_model,
    text_diagnostics_of,
)
from compiler.kinds.common.jobs import time_diagnostics
from compiler.specs import GangSpec, RoleSpec
from compiler.specs.services import unbound
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping, values

WHY = "its operator makes them through kinds of its own"
_SPEC = "spec.template.spec"
_CLIQUES, _ROLES, _STORM = "spec.template.cliques[]", "spec.roles[]", f"{_SPEC}.roles[]"
_WORKERS = f"{_SPEC}.workerGroupSpecs[]"


def _with_scaling_groups(gang: GangSpec) -> GangSpec:
    """Cliques of a scaling group are there once for each of its replicas."""
    times: dict[str, int] = {}
    for _, group in items(mapping(gang.document.data, "spec", "template"), "podCliqueScalingGroups"):
        number = group.get("replicas", 1)
        times |= dict.fromkeys(map(str, values(group, "cliqueNames")), number if isinstance(number, int) else 1)
    return replace(
        gang, roles=tuple(replace(role, replicas=role.replicas * times.get(role.name, 1)) for role in gang.roles)
    )


_GROUPS = Count("spec.replicas")
TABLES = (
    JobKind(
        "PodCliqueSet",
        "grove.io",
        ("v1alpha1",),
        (
            RolePaths(
                f"{_CLIQUES}.spec.podSpec",
                name_path=f"{_CLIQUES}.name",
                replicas=(_GROUPS, Count(f"{_CLIQUES}.spec.replicas")),
                is_pod_spec=True,
            ),
        ),
        gang="one",
        amend=_with_scaling_groups,
    ),
    JobKind(
        "RayClusterFleet",
        "orchestration.aibrix.ai",
        ("v1alpha1",),
        (
            RolePaths(f"{_SPEC}.headGroupSpec.template", "headgroup", replicas=(_GROUPS,)),
            RolePaths(
                f"{_WORKERS}.template",
                name_path=f"{_WORKERS}.groupName",
                replicas=(_GROUPS, Count(f"{_WORKERS}.replicas"), Count(f"{_WORKERS}.numOfHosts")),
            ),
        ),
        gang="one",
    ),
    JobKind(
        "RoleBasedGroup",
        "workloads.x-k8s.io",
        ("v1alpha1", "v1alpha2"),
        tuple(
            RolePaths(
                f"{_ROLES}{pattern}.template",
                name_path=f"{_ROLES}.name",
                replicas=(Count(f"{_ROLES}.replicas"), *((Count(f"{_ROLES}{size}"),) if size else ())),
                is_optional=True,
            )
            for pattern, size in (
                ("", ".leaderWorkerSet.size"),
                (".standalonePattern", ""),
                (".leaderWorkerPattern", ".leaderWorkerPattern.size"),
            )
        ),
        gang="one",
    ),
    JobKind(
        "StormService",
        "orchestration.aibrix.ai",
        ("v1alpha1",),
        (
            RolePaths(
                f"{_STORM}.template",
                name_path=f"{_STORM}.name",
                replicas=(_GROUPS, Count(f"{_STORM}.replicas"), Count(f"{_STORM}.podGroupSize")),
            ),
        ),
        gang="one",
    ),
    JobKind(
        "Workspace",
        "kaito.sh",
        ("v1beta1", "v1alpha1"),
        (RolePaths("inference.template", "inference", replicas=(Count("resource.count"),), is_optional=True),),
        gang="one",
    ),
)


def _kind(table: JobKind) -> Kind:
    """The kind of a table, whose objects are not bound."""

    def specs(document: Document, model: Any) -> Iterable[GangSpec]:
        if (gang := gang_spec(table, document)).roles:
            yield unbound(with_annotated_queue(table.amend(gang)))

    def diagnostics(document: Document) -> Iterator[Any]:
        return text_diagnostics_of(table, document)

    model = job_model(table)
    return Kind(table.name, table.group, table.versions, model, specs, diagnostics, is_foreign=True, unbound_reason=WHY)


# --- InferenceService


class InferenceService(KindObject):
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Component:
    """A part of an InferenceService, with what its pods are if the framework's container is the only one."""

    name: str
    data: Mapping[str, Any]
    path: FieldPath
    replicas: int


_COMPONENTS = ("predictor", "transformer", "explainer")
_FRAMEWORKS = """
    model huggingface lightgbm mlflow onnx paddle pmml pytorch sklearn tensorflow triton xgboost
"""
_SERVING_CONTAINER = "kserve-container"


def _components(document: Document) -> Iterator[_Component]:
    for name in _COMPONENTS:
        data, path = mapping(document.data, "spec", name), ("spec", name)
        if not data:
            continue
        number = data.get("minReplicas", 1)
        number = number if type(number) is int else 1
        yield _Component(name, data, path, number)
        if workers := mapping(data, "workerSpec"):
            size = workers.get("pipelineParallelSize", 1)
            others = size - 1 if type(size) is int and size > 0 else 0
            yield _Component(
                f"{name}-worker", {**workers, **mapping(data, "model")}, (*path, "workerSpec"), number * others
            )


def _component_role(component: _Component) -> RoleSpec | None:
    """The role of a component; None where its pods cannot be read."""
    data = dict(component.data)
    framework = next((found for key in _FRAMEWORKS.split() if (found := mapping(data, key))), data)
    written = values(data, "containers") or [{}]
    known = {"name": _SERVING_CONTAINER, "resources": framework.get("resources")}
    containers = [{**known, **one} if isinstance(one, dict) else one for one in written[:1]] + written[1:]
    try:
        pod = pods.PodTemplate.model_validate(without_nulls({"spec": {**data, "containers": containers}}))
    except ValidationError:
        return None
    role = pods.role_spec(component.name, component.replicas, 0, pod, component.path)
    return replace(role, template_path=())


def _inference_service(document: Document, model: Any) -> Iterable[GangSpec]:
    found = [(component, _component_role(component)) for component in _components(document)]
    roles = tuple(role for _, role in found if role is not None)
    if roles:
        paths: dict[str, FieldPath] = {
            "minimum": roles[0].path,
            "priority_class": roles[0].path,
            "scheduler": ("spec",),
        }
        gang = GangSpec(document, "", None, 0, roles, field_paths=paths)
        yield unbound(with_annotated_queue(gang))


KINDS = (
    *map(_kind, TABLES),
    Kind(
        "InferenceService",
        "serving.kserve.io",
        ("v1beta1",),
        InferenceService,
        _inference_service,
        time_diagnostics,
        is_foreign=True,
        unbound_reason=WHY,
    ),
)
