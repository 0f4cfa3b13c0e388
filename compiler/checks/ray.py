"""What KubeRay refuses, or does not run as written (ray-operator/controllers/ray/utils/validation.go)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from compiler.checks.check import Finding
from compiler.diagnostics.diagnostic import did_you_mean, suggestion, to_write
from compiler.kubernetes import RAY_TOPOLOGY_TIER_LABEL, TOPOLOGY_MODE_ANNOTATION
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import items, mapping


def _every_kind(document: Document) -> Iterator[Finding]:
    """KubeRay caps replicas, hands options to `ray start`, and copies the labels of a network topology into its
    PodGroup."""
    around = {"RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}.get(document.kind, ())
    for at, group in items(mapping(document.data, "spec", *around), "workerGroupSpecs"):
        number, most = group.get("replicas"), group.get("maxReplicas")
        if isinstance(number, int) and isinstance(most, int) and number > most > 0:
            path = ("spec", *around, "workerGroupSpecs", at, "replicas")
            message = f"KubeRay runs {most} of the {number} replicas: maxReplicas is {most}"
            yield Finding(document, path, message, "lower replicas, or raise maxReplicas")
    yield from _start_parameters(document, mapping(document.data, "spec", *around), ("spec", *around))
    labels = mapping(document.metadata, "labels")
    mode, tier = labels.get(TOPOLOGY_MODE_ANNOTATION), labels.get(RAY_TOPOLOGY_TIER_LABEL)
    for key, is_right, help in (
        (TOPOLOGY_MODE_ANNOTATION, mode in (None, "hard", "soft"), "write hard or soft"),
        (
            RAY_TOPOLOGY_TIER_LABEL,
            tier is None or re.fullmatch("[1-9][0-9]{0,8}", str(tier)),
            "write the number of a tier",
        ),
    ):
        if not is_right:
            message = f"KubeRay makes no PodGroup of {key}: {labels[key]}, and so no pods"
            yield Finding(document, ("metadata", "labels", key), message, help)
    if mode is None and tier is not None:
        message = f"nothing reads {RAY_TOPOLOGY_TIER_LABEL} without {TOPOLOGY_MODE_ANNOTATION}"
        yield Finding(
            document, ("metadata", "labels", RAY_TOPOLOGY_TIER_LABEL), message, "add the label of the mode: hard"
        )


_START_PARAMETERS = """
    address autoscaling-config block dashboard-agent-grpc-port dashboard-agent-listen-port dashboard-grpc-port
    dashboard-host dashboard-port disable-usage-stats include-dashboard labels max-worker-port memory
    metrics-export-port min-worker-port no-monitor node-ip-address node-manager-port node-name num-cpus num-gpus
    object-manager-port object-store-memory plasma-directory port ray-client-server-port ray-debugger-external
    redis-password redis-shard-ports redis-username resources runtime-env-agent-port storage system-config temp-dir
    tracing-startup-hook worker-port-list
"""
"""Options of `ray start` that a cluster's groups may have."""


def _start_parameters(document: Document, spec: Mapping[str, Any], path: FieldPath) -> Iterator[Finding]:
    """Options that are nearly ones of `ray start`: with an unknown one no Ray starts."""
    known = _START_PARAMETERS.split()
    groups = [((*path, "workerGroupSpecs", at), group) for at, group in items(spec, "workerGroupSpecs")]
    for at, group in [((*path, "headGroupSpec"), mapping(spec, "headGroupSpec")), *groups]:
        for name in mapping(group, "rayStartParams"):
            if name not in known and did_you_mean(name, known):
                message = f"ray start has no option {name!r}"
                yield Finding(document, (*at, "rayStartParams", name), message, suggestion(name, known, ""))


def _text(document: Document, field: str, consequence: str) -> Iterator[Finding]:
    text = mapping(document.data, "spec").get(field)
    try:
        is_mapping = not isinstance(text, str) or isinstance(yaml.safe_load(text) or {}, dict)
    except yaml.YAMLError:
        is_mapping = False
    if not is_mapping:
        message = f"Ray reads a YAML mapping, which this text is not: {consequence}"
        yield Finding(document, ("spec", field), message, "correct the YAML")


def service(document: Document) -> Iterator[Finding]:
    yield from _every_kind(document)
    yield from _text(document, "serveConfigV2", "no application is deployed")


def cluster(document: Document) -> Iterator[Finding]:
    yield from _every_kind(document)
    if not mapping(document.data, "spec", "headGroupSpec"):
        yield Finding(document, ("spec",), "there is no headGroupSpec", "add it", severity="error")


def job(document: Document) -> Iterator[Finding]:
    yield from _every_kind(document)
    yield from _text(document, "runtimeEnvYAML", "the job is not submitted")
    spec = mapping(document.data, "spec")
    mode = spec.get("submissionMode")
    for key in _NOT_IN_MODE.get(str(mode), ()):
        if spec.get(key):
            yield Finding(
                document, ("spec", key), f"KubeRay refuses {key} with {mode}", "remove it, or change the mode"
            )
    head = ("spec", "rayClusterSpec", "headGroupSpec", "template", "spec")
    restart = mapping(document.data, *head).get("restartPolicy")
    if mode == "SidecarMode" and restart not in (None, "", "Never"):
        message = f"KubeRay refuses a head that restarts {restart} with SidecarMode"
        yield Finding(document, (*head, "restartPolicy"), message, to_write("Never"))
    if spec.get("suspend") and spec.get("clusterSelector"):
        message = "KubeRay refuses to suspend a RayJob of a cluster that it selects"
        yield Finding(document, ("spec", "suspend"), message, "remove it")
    for key in ("suspend", "ttlSecondsAfterFinished") if not spec.get("shutdownAfterJobFinishes") else ():
        if spec.get(key):
            message = f"{key} is for a RayJob that shuts its cluster down: KubeRay refuses it without"
            yield Finding(document, ("spec", key), message, "write shutdownAfterJobFinishes: true, or remove it")


_NOT_IN_MODE: Mapping[str, tuple[str, ...]] = {
    "SidecarMode": ("submitterPodTemplate", "submitterConfig", "clusterSelector"),
    "InteractiveMode": ("backoffLimit",),
}
"""submissionMode of a RayJob -> fields that KubeRay refuses with it."""
