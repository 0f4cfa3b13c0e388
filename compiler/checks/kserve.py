"""What KServe refuses of an InferenceService, or ignores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.checks.check import Finding
from compiler.diagnostics.diagnostic import suggestion
from compiler.kinds.serving import DEPLOYMENT_MODE_ANNOTATION
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping

_COMPONENTS = ("predictor", "transformer", "explainer")
_DEPLOYMENT_MODES = ("Serverless", "RawDeployment", "ModelMesh", "Knative", "Standard")
_PLAIN_MODES = ("RawDeployment", "Standard")
_AUTOSCALER = "serving.kserve.io/autoscalerClass"
_AUTOSCALERS = ("hpa", "external", "keda", "none")
_HPA_CLASS = "hpa.autoscaling.knative.dev"


def inference_service(document: Document) -> Iterator[Finding]:
    """Sources: kserve, pkg/controller/v1beta1/inferenceservice/utils (GetDeploymentMode); Knative's traffic targets."""
    mode = mapping(document.metadata, "annotations").get(DEPLOYMENT_MODE_ANNOTATION)
    if isinstance(mode, str) and mode not in _DEPLOYMENT_MODES:
        path: FieldPath = ("metadata", "annotations", DEPLOYMENT_MODE_ANNOTATION)
        help = suggestion(mode, _DEPLOYMENT_MODES, "write RawDeployment or Serverless")
        yield Finding(document, path, f"KServe ignores the deployment mode {mode!r}", help)
    yield from _scaling(document, mode)
    yield from _several_nodes(document)
    for name in _COMPONENTS:
        component = mapping(document.data, "spec", name)
        if isinstance(percent := component.get("canaryTrafficPercent"), int) and not 0 <= percent <= 100:
            path = ("spec", name, "canaryTrafficPercent")
            yield Finding(document, path, f"{percent} is not a percentage of traffic", "write 0 to 100")
        for device in (key for key in mapping(component, "resources", "limits") if "/" in str(key)):
            path = ("spec", name, "resources", "limits", device)
            message = f"resources of a whole pod have no {device}: the pod is refused"
            yield Finding(document, path, message, "move it to the resources of the model or container")


def _scaling(document: Document, mode: Any) -> Iterator[Finding]:
    """What KServe's webhook wants of scaling, by the annotations: without any it is Knative's.

    Source: pkg/apis/serving/v1beta1/inference_service_validation.go.
    """
    annotations = mapping(document.metadata, "annotations")
    scaler = annotations.get(_AUTOSCALER)
    if isinstance(scaler, str) and scaler not in _AUTOSCALERS:
        path: FieldPath = ("metadata", "annotations", _AUTOSCALER)
        yield Finding(
            document, path, f"KServe has no autoscaler {scaler!r}", suggestion(scaler, _AUTOSCALERS, "write hpa")
        )
    if mode in _PLAIN_MODES:
        return
    metrics = (
        ("cpu", "memory") if annotations.get("autoscaling.knative.dev/class") == _HPA_CLASS else ("concurrency", "rps")
    )
    for name in _COMPONENTS:
        component, around = mapping(document.data, "spec", name), ("spec", name)
        if isinstance(metric := component.get("scaleMetric"), str) and metric not in metrics:
            help = suggestion(
                metric, metrics, f"write {metrics[0]}, or annotate {DEPLOYMENT_MODE_ANNOTATION}: RawDeployment"
            )
            yield Finding(document, (*around, "scaleMetric"), f"Knative does not scale by {metric}", help)
        if component.get("deploymentStrategy") and metrics[0] != "cpu":
            message = "KServe refuses deploymentStrategy with Knative"
            help = f"remove it, or annotate {DEPLOYMENT_MODE_ANNOTATION}: RawDeployment"
            yield Finding(document, (*around, "deploymentStrategy"), message, help)


def _several_nodes(document: Document) -> Iterator[Finding]:
    """What KServe's webhook wants of a predictor with workers."""
    predictor, at = mapping(document.data, "spec", "predictor"), ("spec", "predictor")
    if not isinstance(predictor.get("workerSpec"), dict):
        return
    if len(items(predictor["workerSpec"], "containers")) > 1:
        yield Finding(document, (*at, "workerSpec", "containers"), "a worker has one container", "keep one")
    model = mapping(predictor, "model")
    for number, variable in items(model, "env"):
        if (name := variable.get("name")) in ("PIPELINE_PARALLEL_SIZE", "TENSOR_PARALLEL_SIZE"):
            field = f"workerSpec.{str(name).split('_', 1)[0].lower()}ParallelSize"
            yield Finding(
                document, (*at, "model", "env", number), f"KServe sets {name} itself", f"write {field} instead"
            )
    uri = model.get("storageUri")
    if model and not (isinstance(uri, str) and uri.partition("://")[0] in ("pvc", "oci")):
        message = "the pods of a model on several nodes load it from a volume or an image"
        path: FieldPath = (*at, "model", "storageUri") if uri else (*at, "model")
        yield Finding(document, path, message, "write storageUri: pvc://NAME/PATH or oci://IMAGE")
