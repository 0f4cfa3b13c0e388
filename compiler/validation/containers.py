"""Containers of a pod: names, images, environment, ports, mounts, probes, resources."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from compiler.fields.quantity import QuantityError, parse_quantity
from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.judge import REFERS_TO_NOTHING, REQUEST_AND_LIMIT, Judge, items, mapping, texts

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELD_PATHS = """
    metadata.name metadata.namespace metadata.uid spec.nodeName spec.serviceAccountName status.hostIP status.hostIPs
    status.podIP status.podIPs
"""
_RESOURCE_FIELDS = """
    limits.cpu limits.memory limits.ephemeral-storage requests.cpu requests.memory requests.ephemeral-storage
"""
_NATIVE_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod gives its containers. by_webhook: Volcano's webhook judges the pod, with the older rule of names of
    variables."""

    volumes: frozenset[str]
    claims: frozenset[str]
    by_webhook: bool


def containers(judge: Judge, pod: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    """All containers of a pod spec."""
    seen: set[str] = set()
    host_ports: set[Any] = set()
    for key in ("initContainers", "containers"):
        for number, container in items(pod, key):
            at = (*path, key, number)
            judge.name((*at, "name"), container.get("name"), names.DNS_LABEL, required=True)
            judge.unique((*at, "name"), container.get("name"), seen, "container name")
            _container(judge, container, at, around)
            _ports(judge, container, at, host_ports if key == "containers" else set())
            _life(judge, container, at, is_init=key == "initContainers")


def _container(judge: Judge, data: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    image = data.get("image")
    if isinstance(image, str) and image.strip() != image:
        judge.contradiction((*path, "image"), "blanks stand around the image", "remove them")
    judge.choice((*path, "imagePullPolicy"), data.get("imagePullPolicy"), ("Always", "IfNotPresent", "Never"))
    policies = ("File", "FallbackToLogsOnError")
    judge.choice((*path, "terminationMessagePolicy"), data.get("terminationMessagePolicy"), policies)
    for number, variable in items(data, "env"):
        _variable(judge, variable, (*path, "env", number), around)
    for number, source in items(data, "envFrom"):
        _variables_from(judge, source, (*path, "envFrom", number), around)
    _mounts(judge, data, path, around)
    resources(judge, data.get("resources"), (*path, "resources"))
    for number, claim in items(mapping(data, "resources"), "claims"):
        if str(claim.get("name")) not in around.claims:
            at = (*path, "resources", "claims", number)
            judge.add(REFERS_TO_NOTHING, at, f"the pod has no resourceClaim {claim.get('name')!r}", "add it")
    security = mapping(data, "securityContext")
    judge.within((*path, "securityContext", "runAsUser"), security.get("runAsUser"), 0, 2**31 - 1)
    judge.within((*path, "securityContext", "runAsGroup"), security.get("runAsGroup"), 0, 2**31 - 1)
    adds = [name for _, name in texts(mapping(security, "capabilities"), "add")]
    escalates = security.get("privileged") is True or "CAP_SYS_ADMIN" in adds
    if security.get("allowPrivilegeEscalation") is False and escalates:
        at = (*path, "securityContext", "allowPrivilegeEscalation")
        judge.contradiction(at, "a privileged container may always escalate", "remove one of the two")


def _env_form(around: Surroundings) -> names.Form:
    return names.ENV_NAME if around.by_webhook else names.PRINTABLE_ENV_NAME


def _variable(judge: Judge, data: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    judge.name((*path, "name"), data.get("name"), _env_form(around), required=True)
    source = data.get("valueFrom")
    if not isinstance(source, dict):
        return
    at = (*path, "valueFrom")
    given = [key for key in _SOURCES if source.get(key) is not None]
    if data.get("value"):
        judge.contradiction(at, "value is given too", "keep one of value and valueFrom")
    if len(given) != 1:
        judge.contradiction(at, "not exactly one source is given", f"give one of {', '.join(_SOURCES)}")
    field = mapping(source, "fieldRef").get("fieldPath")
    if "fieldRef" in given and not field:
        judge.missing((*at, "fieldRef", "fieldPath"))
    elif isinstance(field, str) and not field.startswith(("metadata.labels['", "metadata.annotations['")):
        judge.choice((*at, "fieldRef", "fieldPath"), field, tuple(_FIELD_PATHS.split()))
    resource = mapping(source, "resourceFieldRef").get("resource")
    if isinstance(resource, str) and "hugepages-" not in resource:
        judge.choice((*at, "resourceFieldRef", "resource"), resource, tuple(_RESOURCE_FIELDS.split()))
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in given:
            judge.name((*at, key, "key"), mapping(source, key).get("key"), _CONFIG_KEY, required=True)
            if not around.by_webhook:
                judge.name((*at, key, "name"), mapping(source, key).get("name"), names.DNS_SUBDOMAIN, required=True)


_CONFIG_KEY = names.Form(
    lambda key: (
        None
        if len(key) <= 253 and key not in (".", "..") and all(c.isascii() and (c.isalnum() or c in "-_.") for c in key)
        else "use letters, digits, -, _ and ."
    )
)


def _variables_from(judge: Judge, data: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    given = [key for key in ("configMapRef", "secretRef") if data.get(key) is not None]
    if len(given) != 1:
        judge.contradiction(path, "not exactly one source is given", "give one of configMapRef and secretRef")
    judge.name((*path, "prefix"), data.get("prefix"), _env_form(around))
    for key in given:
        judge.name((*path, key, "name"), mapping(data, key).get("name"), names.DNS_SUBDOMAIN, required=True)


def _ports(judge: Judge, data: dict[str, Any], path: FieldPath, host_ports: set[Any]) -> None:
    seen: set[str] = set()
    for number, port in items(data, "ports"):
        at = (*path, "ports", number)
        judge.name((*at, "name"), port.get("name"), names.PORT_NAME)
        judge.unique((*at, "name"), port.get("name"), seen, "port name")
        if port.get("containerPort") in (None, 0):
            judge.missing((*at, "containerPort"))
        judge.within((*at, "containerPort"), port.get("containerPort"), 0, 65535)
        judge.within((*at, "hostPort"), port.get("hostPort"), 0, 65535)
        judge.choice((*at, "protocol"), port.get("protocol"), ("TCP", "UDP", "SCTP"))
        if host := port.get("hostPort"):
            key = (port.get("protocol") or "TCP", str(port.get("hostIP") or ""), host)
            judge.unique((*at, "hostPort"), "/".join(map(str, key)), host_ports, "host port")


def _mounts(judge: Judge, data: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    seen: set[str] = set()
    for number, mount in items(data, "volumeMounts"):
        at = (*path, "volumeMounts", number)
        name, target = mount.get("name"), mount.get("mountPath")
        if name in (None, ""):
            judge.missing((*at, "name"))
        elif str(name) not in around.volumes:
            judge.add(REFERS_TO_NOTHING, (*at, "name"), f"the pod has no volume {name!r}", "add the volume")
        if target in (None, ""):
            judge.missing((*at, "mountPath"))
        judge.unique((*at, "mountPath"), target, seen, "mount path")
        for key in ("subPath", "subPathExpr"):
            relative_path(judge, mount.get(key), (*at, key))
        if mount.get("subPath") and mount.get("subPathExpr"):
            judge.contradiction((*at, "subPathExpr"), "subPath is given too", "keep one of the two")
        modes = ("None", "HostToContainer", "Bidirectional")
        judge.choice((*at, "mountPropagation"), mount.get("mountPropagation"), modes)
        privileged = mapping(data, "securityContext").get("privileged") is True
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            judge.contradiction((*at, "mountPropagation"), "Bidirectional is for privileged containers", "remove it")


def relative_path(judge: Judge, value: Any, path: FieldPath) -> None:
    """A path below something: not absolute, no way up."""
    if isinstance(value, str) and value:
        if value.startswith("/"):
            judge.contradiction(path, "the path is absolute", "write a relative path")
        no_way_up(judge, value, path)


def no_way_up(judge: Judge, value: Any, path: FieldPath) -> None:
    if isinstance(value, str) and ".." in value.split("/"):
        judge.contradiction(path, "the path holds ..", "write the path without ..")


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def _life(judge: Judge, data: dict[str, Any], path: FieldPath, *, is_init: bool) -> None:
    """Probes and hooks."""
    policy = data.get("restartPolicy")
    is_sidecar = policy == "Always"
    if is_init:
        judge.choice((*path, "restartPolicy"), policy, ("Always", "OnFailure", "Never"))
    for key in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        found = data.get(key)
        if not isinstance(found, dict):
            continue
        at = (*path, key)
        if is_init and not is_sidecar:
            judge.contradiction(at, "an init container that is no sidecar takes none", "remove it")
            continue
        if key == "lifecycle":
            for hook in ("postStart", "preStop"):
                if isinstance(found.get(hook), dict):
                    _handler(judge, found[hook], (*at, hook))
            continue
        _handler(judge, found, at)
        for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
            judge.within((*at, field), found.get(field), 0)
        if key != "readinessProbe" and found.get("successThreshold") not in (None, 0, 1):
            judge.contradiction((*at, "successThreshold"), f"a {key} has 1", "leave it out")


def _handler(judge: Judge, data: dict[str, Any], path: FieldPath) -> None:
    given = [key for key in _HANDLERS if data.get(key) is not None]
    if len(given) != 1:
        judge.contradiction(path, "not exactly one handler is given", f"give one of {', '.join(_HANDLERS)}")
        return
    handler, at = mapping(data, given[0]), (*path, given[0])
    if given[0] == "exec" and not handler.get("command"):
        judge.missing((*at, "command"))
    if given[0] == "httpGet":
        if handler.get("path") == "":
            judge.missing((*at, "path"))
        judge.choice((*at, "scheme"), handler.get("scheme"), ("HTTP", "HTTPS"))
    if given[0] in ("httpGet", "tcpSocket", "grpc"):
        port = handler.get("port")
        if isinstance(port, str):
            judge.name((*at, "port"), port, names.PORT_NAME, required=True)
        elif port is None:
            judge.missing((*at, "port"))
        else:
            judge.within((*at, "port"), port, 1, 65535)


def resources(judge: Judge, data: Any, path: FieldPath) -> None:
    """Requests and limits of a container or pod."""
    requests, limits = _amounts(mapping(data, "requests")), _amounts(mapping(data, "limits"))
    for section, amounts in (("requests", requests), ("limits", limits)):
        for name in amounts:
            _resource_name(judge, name, (*path, section, name))
    for name, request in requests.items():
        at, limit = (*path, "requests", name), limits.get(name)
        is_exact = "/" in name or name.startswith("hugepages-")
        if limit is not None and is_exact and request != limit:
            judge.add(
                REQUEST_AND_LIMIT, at, "the request differs from the limit", "write the same amount, or no request"
            )
        elif limit is not None and request > limit:
            judge.add(REQUEST_AND_LIMIT, at, "the request is above the limit", "raise the limit, or lower the request")
    named = {*requests, *limits}
    if any(name.startswith("hugepages-") for name in named) and not named & {"cpu", "memory"}:
        judge.add(REQUEST_AND_LIMIT, path, "huge pages without cpu or memory", "ask for cpu or memory too")


def _amounts(data: dict[str, Any]) -> dict[str, Fraction]:
    """The amounts that can be read."""
    found = {}
    for name, value in data.items():
        try:
            found[str(name)] = parse_quantity(value)
        except QuantityError:
            continue
    return found


def _resource_name(judge: Judge, name: str, path: FieldPath) -> None:
    judge.name(path, name, names.QUALIFIED)
    is_known = name in _NATIVE_RESOURCES or name.startswith("hugepages-")
    if "/" not in name and not is_known:
        judge.contradiction(path, f"{name} is no resource of containers", "devices have a prefix, like nvidia.com/gpu")
    if name.startswith("requests."):
        judge.contradiction(path, f"{name} cannot be asked for", "name the device's resource, like nvidia.com/gpu")
