"""Kinds of operators that serve models: Grove's PodCliqueSet, RoleBasedGroup, AIBrix' StormService and RayClusterFleet,
KServe's InferenceService and kaito's Workspace.

Their operators make pods through several kinds of their own, some with gates and gangs, so that none is bound: room is
kept for the pods that they run at least. Sources: the CRDs of grove.io v1alpha1, workloads.x-k8s.io v1alpha1 and
v1alpha2, orchestration.aibrix.ai v1alpha1, serving.kserve.io v1beta1 and kaito.sh v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.validation import without_nulls
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
from compiler.kinds.common.paths import found_paths, parse_path
from compiler.kinds.kind import Kind
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.services import unbound
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping, values

WHY = "its operator makes them through kinds of its own"
_SPEC = "spec.template.spec"
_CLIQUES, _ROLES, _STORM = "spec.template.cliques[]", "spec.roles[]", f"{_SPEC}.roles[]"
_WORKERS = f"{_SPEC}.workerGroupSpecs[]"
_PARTS = f"{_ROLES}.customComponentsPattern.components[]"
UNREAD_PART = declare_rule(
    "GP228",
    "info",
    "part of a served model that is not read",
    """The pods come of a ServingRuntime that the repository does not hold, or of a patch of a template that is not
    applied: they count as far as the object itself describes them. Mend: add the runtime to the repository, or write
    the resources into the object.""",
)
_PATCHES: Mapping[str, tuple[str, ...]] = {
    "RoleBasedGroup": tuple(
        f"{_ROLES}.{path}"
        for path in (
            "leaderWorkerPattern.leaderTemplatePatch",
            "leaderWorkerPattern.workerTemplatePatch",
            "leaderWorkerSet.patchLeaderTemplate",
            "leaderWorkerSet.patchWorkerTemplate",
        )
    ),
}
"""Kind -> where patches of single pods stand."""


def _with_scaling_groups(gang: GangSpec) -> GangSpec:
    """Cliques of a scaling group are there once for each of its replicas."""
    times: dict[str, int] = {}
    for _, group in items(mapping(gang.document.data, "spec", "template"), "podCliqueScalingGroups"):
        number = group.get("replicas", 1)
        times |= dict.fromkeys(map(str, values(group, "cliqueNames")), number if isinstance(number, int) else 1)
    return replace(
        gang, roles=tuple(replace(role, replicas=role.replicas * times.get(role.name, 1)) for role in gang.roles)
    )


def _with_role_templates(document: Document) -> Document:
    """The document whose roles have the templates of spec.roleTemplates that they name, patched."""
    spec = mapping(document.data, "spec")
    named = {str(each.get("name")): each.get("template") for _, each in items(spec, "roleTemplates")}
    return replace(document, data={**document.data, "spec": _filled(spec, named)}) if named else document


def _filled(data: Any, named: Mapping[str, Any]) -> Any:
    """The data in which each templateRef that is known is a template."""
    if isinstance(data, list):
        return [_filled(each, named) for each in data]
    if not isinstance(data, dict):
        return data
    found = {key: _filled(each, named) for key, each in data.items()}
    reference = mapping(data, "templateRef")
    if (template := named.get(str(reference.get("name")))) is not None and "template" not in data:
        found["template"] = _merged(template, mapping(reference, "patch"))
    return found


def _merged(data: Any, patch: Any) -> Any:
    """The data with a strategic merge patch: items of lists go by their names."""
    if isinstance(data, dict) and isinstance(patch, dict):
        return {**data, **{key: _merged(data.get(key), each) for key, each in patch.items()}}
    items_ = [*(data if isinstance(data, list) else ()), *(patch if isinstance(patch, list) else ())]
    if not (isinstance(patch, list) and items_ and all(isinstance(each, dict) and "name" in each for each in items_)):
        return patch
    by_name: dict[Any, Any] = {}
    for each in items_:
        by_name[each["name"]] = _merged(by_name.get(each["name"]), each)
    return list(by_name.values())


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
                f"{role}{pattern}.template",
                name_path=f"{role}.name",
                replicas=tuple(map(Count, counts)),
                is_optional=True,
            )
            for role, pattern, counts in (
                (_ROLES, "", (f"{_ROLES}.replicas", f"{_ROLES}.leaderWorkerSet.size")),
                (_ROLES, ".standalonePattern", (f"{_ROLES}.replicas",)),
                (_ROLES, ".leaderWorkerPattern", (f"{_ROLES}.replicas", f"{_ROLES}.leaderWorkerPattern.size")),
                (_PARTS, "", (f"{_ROLES}.replicas", f"{_PARTS}.size")),
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
        if (gang := gang_spec(table, _with_role_templates(document))).roles:
            gang = table.amend(replace(gang, document=document))
            yield unbound(with_annotated_queue(gang))

    def diagnostics(document: Document) -> Iterator[Diagnostic]:
        yield from text_diagnostics_of(table, document)
        for pattern in _PATCHES.get(table.name, ()):
            for path in found_paths(document.data, parse_path(pattern)):
                message = f"{path[-1]} is not applied: its pods count as the template says"
                yield document.diagnostic(UNREAD_PART, path, message, "write the resources into the template")

    model = job_model(table)
    return Kind(table.name, table.group, table.versions, model, specs, diagnostics, is_foreign=True, unbound_reason=WHY)


# --- InferenceService


class InferenceService(KindObject):
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Component:
    """A part of an InferenceService, with what its pods are if the framework's container is the only one. runtime: the
    pod spec of the ServingRuntime that it names."""

    name: str
    data: Mapping[str, Any]
    path: FieldPath
    replicas: int
    runtime: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServingDraft:
    """An InferenceService that names a ServingRuntime."""

    document: Document
    runtime: str


Runtimes = Mapping[str, Mapping[str, Any]]
"""Name of a ServingRuntime -> its spec."""
RUNTIME_KINDS = ("ClusterServingRuntime", "ServingRuntime")


def serving_runtimes(documents: Iterable[Document], namespace: str) -> Runtimes:
    """The runtimes that an InferenceService of the namespace may name; one of the namespace goes first."""
    found = {}
    for kind in RUNTIME_KINDS:
        for document in documents:
            is_near = kind == "ClusterServingRuntime" or (document.namespace or "default") == namespace
            if document.kind == kind and document.group == "serving.kserve.io" and is_near:
                found[document.name] = mapping(document.data, "spec")
    return found


_COMPONENTS = ("predictor", "transformer", "explainer")
_FRAMEWORKS = """
    model huggingface lightgbm mlflow onnx paddle pmml pytorch sklearn tensorflow triton xgboost
"""
_SERVING_CONTAINER = "kserve-container"


def _components(document: Document, runtime: Mapping[str, Any]) -> Iterator[_Component]:
    for name in _COMPONENTS:
        data, path = mapping(document.data, "spec", name), ("spec", name)
        if not data:
            continue
        number = data.get("minReplicas", 1)
        number = number if type(number) is int else 1
        known = runtime if name == "predictor" else {}
        yield _Component(name, data, path, number, known)
        if "workerSpec" in data:
            workers, of_runtime = mapping(data, "workerSpec"), mapping(known, "workerSpec")
            size = workers.get("pipelineParallelSize", of_runtime.get("pipelineParallelSize", 1))
            others = size - 1 if type(size) is int and size > 0 else 0
            model = mapping(data, "model") if not of_runtime else {}
            yield _Component(f"{name}-worker", {**workers, **model}, (*path, "workerSpec"), number * others, of_runtime)


def _component_role(component: _Component) -> RoleSpec | None:
    """The role of a component; None where its pods cannot be read."""
    data = dict(component.data)
    framework = next((found for key in _FRAMEWORKS.split() if (found := mapping(data, key))), data)
    written = values(data, "containers") or [{}]
    known = {"name": _SERVING_CONTAINER, "resources": framework.get("resources")}
    containers = [{**known, **one} if isinstance(one, dict) else one for one in written[:1]] + written[1:]
    of_runtime = values(component.runtime, "containers")
    if of_runtime and not values(data, "containers"):
        names = [mapping(one).get("name") for one in of_runtime]
        name = _SERVING_CONTAINER if _SERVING_CONTAINER in names else names[0]
        containers = _merged(of_runtime, without_nulls([{**containers[0], "name": name}]))
    placed = {key: value for key, value in component.runtime.items() if key in _PLACING}
    try:
        pod = pods.PodTemplate.model_validate(without_nulls({"spec": {**placed, **data, "containers": containers}}))
    except ValidationError:
        return None
    role = pods.role_spec(component.name, component.replicas, 0, pod, component.path)
    return replace(role, template_path=())


_PLACING = ("affinity", "nodeSelector", "tolerations")


def _inference_service(document: Document, model: Any) -> Iterable[GangSpec | ServingDraft]:
    runtime = mapping(document.data, "spec", "predictor", "model").get("runtime")
    if isinstance(runtime, str) and runtime:
        yield ServingDraft(document, runtime)
    elif (gang := serving_gang(document, {})) is not None:
        yield gang


def serving_gang(document: Document, runtime: Mapping[str, Any]) -> GangSpec | None:
    """The pods of an InferenceService. runtime: the spec of the ServingRuntime that its predictor names."""
    found = [_component_role(component) for component in _components(document, runtime)]
    if not (roles := tuple(role for role in found if role is not None)):
        return None
    paths: dict[str, FieldPath] = {
        "minimum": roles[0].path,
        "priority_class": roles[0].path,
        "scheduler": ("spec",),
    }
    return unbound(with_annotated_queue(GangSpec(document, "", None, 0, roles, field_paths=paths)))


def unread_runtime(draft: ServingDraft) -> Diagnostic:
    message = f"ServingRuntime {draft.runtime!r} is not in the repository: pods count as far as they are described here"
    path = ("spec", "predictor", "model", "runtime")
    return draft.document.diagnostic(UNREAD_PART, path, message, "add the runtime, or write the resources here")


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
