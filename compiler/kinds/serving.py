"""Kinds of operators that serve models and need more than rows in `job_kinds.toml`: Grove's PodCliqueSet,
RoleBasedGroup, and KServe's InferenceService and LLMInferenceService. AIBrix' and kaito's are rows alone.

Their operators create pods through several kinds of their own, some with gates and gangs, so that none is bound: room
is kept for the least pods that they run. Sources: the CRDs of grove.io v1alpha1, workloads.x-k8s.io v1alpha1 and
v1alpha2 (sgl-project/rbg, api/workloads: types, constants/annotation.go), orchestration.aibrix.ai v1alpha1,
serving.kserve.io v1beta1 and v1alpha1, and kaito.sh v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pydantic import ValidationError

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.fields.models import without_nulls
from compiler.kinds.common import pods
from compiler.kinds.common.job_kinds import job_kind, job_row
from compiler.kinds.common.jobs import UNREAD_PART, time_diagnostics, with_annotated_queue
from compiler.kinds.kind import Kind
from compiler.openapi.schemas import plain_schema
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.services import unbound
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping, values

WHY = "its operator makes them through kinds of its own"


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
    """Return the document whose roles have the templates of spec.roleTemplates that they name, patched."""
    spec = mapping(document.data, "spec")
    named = {str(each.get("name")): each.get("template") for _, each in items(spec, "roleTemplates")}
    return replace(document, data={**document.data, "spec": _filled(spec, named)}) if named else document


def _filled(data: Any, named: Mapping[str, Any]) -> Any:
    """Return the data in which each templateRef that is known is a template."""
    if isinstance(data, list):
        return [_filled(each, named) for each in data]
    if not isinstance(data, dict):
        return data
    found = {key: _filled(each, named) for key, each in data.items()}
    reference = mapping(data, "templateRef")
    if (template := named.get(str(reference.get("name")))) is not None and "template" not in data:
        found["template"] = _merged(template, mapping(reference, "patch") or mapping(data, "templatePatch"))
    return found


def _merged(data: Any, patch: Any) -> Any:
    """Return the data with a strategic merge patch: items of lists go by their names."""
    if isinstance(data, dict) and isinstance(patch, dict):
        return {**data, **{key: _merged(data.get(key), each) for key, each in patch.items()}}
    items_ = [*(data if isinstance(data, list) else ()), *(patch if isinstance(patch, list) else ())]
    if not (isinstance(patch, list) and items_ and all(isinstance(each, dict) and "name" in each for each in items_)):
        return patch
    by_name: dict[Any, Any] = {}
    for each in items_:
        by_name[each["name"]] = _merged(by_name.get(each["name"]), each)
    return list(by_name.values())


# --- InferenceService and LLMInferenceService


@dataclass(frozen=True, slots=True)
class _Component:
    """A part of a service, and its pods if the framework's container is the only one.

    runtime: the pod spec of the ServingRuntime that it names. defaults: requests of its first container by default.
    gpus: of each pod of several that serve one model.
    """

    name: str
    data: Mapping[str, Any]
    path: FieldPath
    replicas: int
    runtime: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class ServingDraft:
    """An InferenceService. runtime: the ServingRuntime that it names; "" where KServe chooses one by the model, None
    where its containers need none."""

    document: Document
    runtime: str | None


Runtimes = Mapping[str, Mapping[str, Any]]
"""Name of a ServingRuntime -> its spec."""
RUNTIME_KINDS = ("ClusterServingRuntime", "ServingRuntime")


def serving_runtimes(documents: Iterable[Document], namespace: str) -> Runtimes:
    """Return the runtimes that an InferenceService of the namespace may name; one of the namespace has precedence."""
    found = {}
    for kind in RUNTIME_KINDS:
        for document in documents:
            is_near = kind == "ClusterServingRuntime" or (document.namespace or "default") == namespace
            if document.kind == kind and document.group == "serving.kserve.io" and is_near:
                found[document.name] = mapping(document.data, "spec")
    return found


_COMPONENTS = ("predictor", "transformer", "explainer")
DEPLOYMENT_MODE_ANNOTATION = "serving.kserve.io/deploymentMode"


def _shares_pods(document: Document) -> bool:
    """Return whether ModelMesh serves the predictor in pods of its runtime."""
    return mapping(document.metadata, "annotations").get(DEPLOYMENT_MODE_ANNOTATION) == "ModelMesh"


_FRAMEWORKS = """
    model huggingface lightgbm onnx paddle pmml pytorch sklearn tensorflow triton xgboost
"""
_SERVING_CONTAINER = "kserve-container"
_DEFAULT_REQUESTS = {"cpu": "1", "memory": "2Gi"}
"""Requests that KServe's webhook gives the container of a component, by its original ConfigMap."""
_GPUS = ("nvidia.com/gpu", "amd.com/gpu", "intel.com/gpu", "habana.ai/gaudi")


def _count(data: Mapping[str, Any], key: str, default: int) -> int:
    return number if type(number := data.get(key)) is int else default


def _components(document: Document, runtime: Mapping[str, Any]) -> Iterator[_Component]:
    for name in _COMPONENTS:
        data, path = mapping(document.data, "spec", name), ("spec", name)
        if not data or (name == "predictor" and _shares_pods(document)):
            continue
        number, known = _count(data, "minReplicas", 1), runtime if name == "predictor" else {}
        workers, of_runtime = mapping(data, "workerSpec"), mapping(known, "workerSpec")
        gpus = _count(workers, "tensorParallelSize", _count(of_runtime, "tensorParallelSize", 1))
        gpus = gpus if "workerSpec" in data else 0
        yield _Component(name, data, path, number, known, _DEFAULT_REQUESTS, gpus)
        if "workerSpec" in data:
            size = _count(workers, "pipelineParallelSize", _count(of_runtime, "pipelineParallelSize", 1))
            pods_of_all = number * max(size - 1, 0)
            yield _Component(f"{name}-worker", workers, (*path, "workerSpec"), pods_of_all, of_runtime, gpus=gpus)


def _llm_components(document: Document) -> Iterator[_Component]:
    """Yield the decoding pods of one node each, or a leader and its workers; and the prefilling ones."""
    for name, keys in (("main", ()), ("prefill", ("prefill",))):
        part = mapping(document.data, "spec", *keys)
        number, path = _count(part, "replicas", 1), ("spec", *keys)
        if template := mapping(part, "template"):
            yield _Component(name, template, (*path, "template"), number)
        if workers := mapping(part, "worker"):
            others = number * (_group_size(mapping(part, "parallelism")) - 1)
            yield _Component(f"{name}-worker", workers, (*path, "worker"), others)


def _group_size(parallelism: Mapping[str, Any]) -> int:
    """Return the pods that share one model, as KServe counts them."""
    data, local = _count(parallelism, "data", 0), _count(parallelism, "dataLocal", 0)
    if data > 0 or local > 0:
        return max(max(data, 1) // max(local, 1), 1)
    return max(_count(parallelism, "pipeline", 1), 1)


def _component_role(component: _Component) -> RoleSpec | None:
    """Return the role of a component; None where its pods cannot be read."""
    data = dict(component.data)
    framework = next((found for key in _FRAMEWORKS.split() if (found := mapping(data, key))), data)
    first, *others = values(data, "containers") or [{}]
    resources = mapping(first, "resources") or mapping(framework, "resources")
    first = {"name": _SERVING_CONTAINER, **mapping(first), "resources": _with_defaults(resources, component)}
    containers = [first, *others]
    of_runtime = values(component.runtime, "containers")
    if of_runtime and not values(data, "containers"):
        names = [mapping(one).get("name") for one in of_runtime]
        name = _SERVING_CONTAINER if _SERVING_CONTAINER in names else names[0]
        containers = _merged(of_runtime, without_nulls([{**first, "name": name}]))
    placed = {key: value for key, value in component.runtime.items() if key in _PLACING}
    try:
        pod = pods.PodTemplate.model_validate(without_nulls({"spec": {**placed, **data, "containers": containers}}))
    except ValidationError:
        return None
    role = pods.role_spec(component.name, component.replicas, 0, pod, component.path)
    return replace(role, template_path=())


def _with_defaults(resources: Mapping[str, Any], component: _Component) -> dict[str, Any]:
    """Return the resources of a component's container with what KServe adds to them."""
    found = {**resources, "requests": {**component.defaults, **mapping(resources, "requests")}}
    if component.gpus:
        limits = mapping(resources, "limits")
        name = next((key for key in (*limits, *mapping(resources, "requests")) if key in _GPUS), _GPUS[0])
        found |= {"limits": {**limits, name: component.gpus}, "requests": {**found["requests"], name: component.gpus}}
    return found


_PLACING = ("affinity", "nodeSelector", "tolerations")


def _inference_service(document: Document, model: Any) -> Iterable[ServingDraft]:
    predictor = mapping(document.data, "spec", "predictor")
    framework = next((found for key in _FRAMEWORKS.split() if (found := mapping(predictor, key))), None)
    runtime = framework.get("runtime") if framework is not None and not _shares_pods(document) else None
    yield ServingDraft(document, None if framework is None else runtime if isinstance(runtime, str) else "")


def _llm_service(document: Document, model: Any) -> Iterable[GangSpec]:
    if (gang := _gang_of(document, _llm_components(document))) is not None:
        yield gang


def _llm_diagnostics(document: Document) -> Iterator[Diagnostic]:
    yield from time_diagnostics(document)
    spec = mapping(document.data, "spec")
    if spec.get("template") and spec.get("baseRefs"):
        message = "baseRefs are not applied: its pods count as far as they are described here"
        yield document.diagnostic(UNREAD_PART, ("spec", "baseRefs"), message, "write the resources here")


def serving_gang(document: Document, runtime: Mapping[str, Any]) -> GangSpec | None:
    """Return the pods of an InferenceService. runtime: the spec of the ServingRuntime that its predictor names."""
    return _gang_of(document, _components(document, runtime))


def _gang_of(document: Document, components: Iterable[_Component]) -> GangSpec | None:
    found = [_component_role(component) for component in components]
    if not (roles := tuple(role for role in found if role is not None)):
        return None
    paths: dict[str, FieldPath] = {"minimum": roles[0].path, "priority_class": roles[0].path, "scheduler": ("spec",)}
    return unbound(with_annotated_queue(GangSpec(document, "", None, 0, roles, field_paths=paths)))


def unread_runtime(draft: ServingDraft) -> Diagnostic:
    """Return the finding on an InferenceService whose runtime is not known."""
    path: FieldPath = ("metadata", "annotations", DEPLOYMENT_MODE_ANNOTATION)
    if _shares_pods(draft.document):
        message = "ModelMesh serves the model in pods of a ServingRuntime, which are not planned"
        return draft.document.diagnostic(UNREAD_PART, path, message, "leave room for the pods of that runtime")
    path = ("spec", "predictor", "model", "runtime")
    message = f"ServingRuntime {draft.runtime!r} is not in the repository"
    help = "add the runtime, or write the resources here"
    if not draft.runtime:
        path, message = ("spec", "predictor"), "no runtime is named, and KServe chooses one by the model's format"
        help = "name the runtime, or write the resources here"
    message += ": pods count as far as they are described here"
    return draft.document.diagnostic(UNREAD_PART, path, message, help)


_KSERVE = "serving.kserve.io"
_SERVICE = partial(plain_schema, "spec")
KINDS = (
    job_kind(job_row("PodCliqueSet.grove.io", amend=_with_scaling_groups)),
    job_kind(job_row("RoleBasedGroup.workloads.x-k8s.io", prepare=_with_role_templates)),
    *(
        Kind(name, _KSERVE, versions, None, specs, diagnostics, _SERVICE, is_foreign=True, unbound_reason=WHY)
        for name, versions, specs, diagnostics in (
            ("InferenceService", ("v1beta1",), _inference_service, time_diagnostics),
            ("LLMInferenceService", ("v1alpha1", "v1alpha2"), _llm_service, _llm_diagnostics),
        )
    ),
)
