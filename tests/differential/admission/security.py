"""Pods in namespaces that enforce a level of the Pod Security Standards: what check says, and what the API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.validation.pod_security import ENFORCE, ENFORCE_VERSION
from tests.controlplane import ApiError, ControlPlane
from tests.differential.admission.objects import Object

VERSIONS = ("latest", "v1.0", "v1.18", "v1.24", "v1.28", "v1.34", "v1.99")
CODE = "GP377"
_CONTEXT: Mapping[str, tuple[Any, ...]] = {
    "allowPrivilegeEscalation": (False, False, False, True, None),
    "capabilities": (
        {"drop": ["ALL"]},
        {"drop": ["ALL"]},
        {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        {"drop": ["NET_RAW"], "add": ["CHOWN"]},
        {"add": ["IPC_LOCK"]},
        {"drop": ["all"]},
    ),
    "runAsNonRoot": (True, True, True, None, False),
    "runAsUser": (None, 1000, 0),
    "seccompProfile": (
        {"type": "RuntimeDefault"},
        {"type": "RuntimeDefault"},
        {"type": "Localhost", "localhostProfile": "a.json"},
        {"type": "Unconfined"},
        None,
    ),
    "appArmorProfile": (None, None, {"type": "RuntimeDefault"}, {"type": "Unconfined"}),
    "seLinuxOptions": (
        None,
        None,
        {"type": "container_t"},
        {"type": "container_engine_t"},
        {"user": "a"},
        {"level": "s"},
    ),
    "procMount": (None, None, "Default", "Unmasked"),
}
_ONLY_IN_CONTAINERS = frozenset(("allowPrivilegeEscalation", "capabilities", "procMount"))
_POD: Mapping[str, tuple[Any, ...]] = {
    "hostNetwork": (None, None, None, False, True),
    "hostPID": (None, None, None, True),
    "hostIPC": (None, None, None, True),
    "hostUsers": (None, None, True, False),
}
_VOLUMES: tuple[Object, ...] = (
    {"emptyDir": {}},
    {"secret": {"secretName": "a"}},
    {"persistentVolumeClaim": {"claimName": "a"}},
    {"projected": {"sources": [{"configMap": {"name": "a"}}]}},
    {"csi": {"driver": "a.b"}},
    {"nfs": {"server": "a", "path": "/b"}},
    {"hostPath": {"path": "/a"}},
)
_SYSCTLS = ("kernel.shm_rmid_forced", "net.ipv4.tcp_rmem", "net.ipv4.tcp_keepalive_time", "kernel.msgmax")
_PROBES: tuple[Object, ...] = ({"exec": {"command": ["a"]}}, {"tcpSocket": {"port": 80, "host": "a"}})
_RARE = 0.08


def pod(rng: Random, name: str, namespace: str) -> Object:
    """A pod that keeps or breaks some of the standards."""
    spec: Object = {"restartPolicy": "Never", "containers": [_container(rng, "main")]}
    if rng.random() < 0.3:
        spec["initContainers"] = [_container(rng, "first")]
    spec |= {key: value for key, values in _POD.items() if (value := rng.choice((*values, None, None))) is not None}
    shared = {key: values for key, values in _CONTEXT.items() if key not in _ONLY_IN_CONTAINERS}
    spec["securityContext"] = _context(rng, shared)
    if rng.random() < _RARE:
        spec["securityContext"]["sysctls"] = [{"name": rng.choice(_SYSCTLS), "value": "1"}]
    if rng.random() < 0.3:
        spec["volumes"] = [{"name": "data", **rng.choice(_VOLUMES)}]
    metadata: Object = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(rng: Random, name: str) -> Object:
    found: Object = {"name": name, "image": "a", "securityContext": _context(rng, _CONTEXT)}
    if rng.random() < _RARE:
        found["ports"] = [{"containerPort": 80, "hostPort": 80}]
    if rng.random() < 2 * _RARE and name == "main":
        found["livenessProbe"] = rng.choice(_PROBES)
    return found


def _context(rng: Random, fields: Mapping[str, tuple[Any, ...]]) -> Object:
    """Mostly what the strictest level wants, so that single breaches are seen."""
    found = {}
    for key, values in fields.items():
        value = rng.choice(values) if rng.random() < 4 * _RARE else values[0]
        if value is not None:
            found[key] = value
    return found


def namespaces() -> Iterator[Object]:
    for level in ("baseline", "restricted"):
        for version in VERSIONS:
            labels = {ENFORCE: level, ENFORCE_VERSION: version}
            name = f"pss-{level}-{version.replace('.', '-')}"
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def disagreements(plane: ControlPlane, seed: int, number: int) -> tuple[list[str], int]:
    """Pods of which check and a dry run on the API server say different things, and how many are refused for Pod
    Security."""
    rng, spaces = Random(seed), list(namespaces())  # noqa: S311
    for space in spaces:
        _create(plane.api, "/api/v1/namespaces", space)
    drawn = (rng.choice(spaces) for _ in range(number))
    cases = [(space, pod(rng, f"pod-{at}", space["metadata"]["name"])) for at, space in enumerate(drawn)]
    with ThreadPoolExecutor(6) as pool:
        refusals = list(pool.map(lambda case: _refusal(plane.api, case[1]), cases))
    for space in spaces:
        plane.api("DELETE", f"/api/v1/namespaces/{space['metadata']['name']}")
    found, refused = [], 0
    for case, refusal in zip(cases, refusals, strict=True):
        if "violates PodSecurity" in refusal or not refusal:
            said = _said(*case)
            refused += bool(refusal)
            if bool(said) != bool(refusal):
                found.append(f"{json.dumps(case[1])}\n  check: {said or 'nothing'}\n  server: {refusal or 'takes it'}")
    return found, refused


def _create(api: Callable[..., Any], path: str, thing: Object) -> None:
    try:
        api("POST", path, thing)
    except ApiError as error:
        if error.status != 409:
            raise


def _refusal(api: Callable[..., Any], thing: Object) -> str:
    try:
        api("POST", f"/api/v1/namespaces/{thing['metadata']['namespace']}/pods?dryRun=All", thing)
    except ApiError as error:
        return str(error)
    return ""


def _said(space: Object, thing: Object) -> list[str]:
    files = {"cluster-specs/c/namespace.yaml": json.dumps(space).encode(), "jobs/pod.yaml": json.dumps(thing).encode()}
    return [each.message for each in read_specs(Repository(files)).diagnostics if each.code == CODE]
