"""Containers of a pod: names, images, environment, ports, mounts, probes, resources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from compiler.fields.models import LOST_UNIT
from compiler.fields.quantity import QuantityError, lost_unit, parse_quantity
from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.judge import REFERS_TO_NOTHING, REQUEST_AND_LIMIT, Judge, items, mapping, texts
from compiler.validation.probes import life

_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELD_PATHS = """
    metadata.name metadata.namespace metadata.uid spec.nodeName spec.serviceAccountName status.hostIP status.hostIPs
    status.podIP status.podIPs
"""
_RESOURCE_FIELDS = """
    limits.cpu limits.memory limits.ephemeral-storage requests.cpu requests.memory requests.ephemeral-storage
"""
_KEY_OF_FIELD = re.compile(r"metadata\.(?:labels|annotations)\['(.*)'\]")
_CPU_DIVISORS = "1m 1"
_MEMORY_DIVISORS = "1 1k 1M 1G 1T 1P 1E 1Ki 1Mi 1Gi 1Ti 1Pi 1Ei"
_NATIVE_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a pod gives its containers. by_webhook: Volcano's webhook judges the pod, with the older rule of names of
    variables. needs_image: no controller fills in the image of a container. grace: seconds to end."""

    volumes: frozenset[str]
    claims: frozenset[str]
    by_webhook: bool
    needs_image: bool
    grace: int


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
            if key == "containers" and around.by_webhook and container.get("restartPolicy") is not None:
                judge.contradiction((*at, "restartPolicy"), "Volcano takes it of init containers only", "remove it")
            _ports(judge, container, at, host_ports if key == "containers" else set())
            life(judge, container, at, is_init=key == "initContainers", grace=around.grace)


def _container(judge: Judge, data: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    image = data.get("image")
    if isinstance(image, str) and image.strip() != image:
        judge.contradiction((*path, "image"), "blanks around the image", "remove them")
    elif around.needs_image and image in (None, ""):
        judge.missing((*path, "image"))
    judge.choice((*path, "imagePullPolicy"), data.get("imagePullPolicy"), ("Always", "IfNotPresent", "Never"))
    policies = ("File", "FallbackToLogsOnError")
    judge.choice((*path, "terminationMessagePolicy"), data.get("terminationMessagePolicy"), policies)
    for number, variable in items(data, "env"):
        _variable(judge, variable, (*path, "env", number), around)
    for number, source in items(data, "envFrom"):
        _variables_from(judge, source, (*path, "envFrom", number), around)
    _mounts(judge, data, path, around)
    _devices(judge, data, path, around)
    resources(judge, data.get("resources"), (*path, "resources"))
    _claims(judge, mapping(data, "resources"), (*path, "resources", "claims"), around)
    resized: set[Any] = set()
    for number, row in items(data, "resizePolicy"):
        at = (*path, "resizePolicy", number)
        judge.choice((*at, "resourceName"), row.get("resourceName"), ("cpu", "memory"))
        judge.choice((*at, "restartPolicy"), row.get("restartPolicy"), ("NotRequired", "RestartContainer"))
        judge.unique((*at, "resourceName"), row.get("resourceName"), resized, "resource")
    security = mapping(data, "securityContext")
    profiles(judge, security, (*path, "securityContext"))
    judge.within((*path, "securityContext", "runAsUser"), security.get("runAsUser"), 0, 2**31 - 1)
    judge.within((*path, "securityContext", "runAsGroup"), security.get("runAsGroup"), 0, 2**31 - 1)
    adds = [name for _, name in texts(mapping(security, "capabilities"), "add")]
    escalates = security.get("privileged") is True or "CAP_SYS_ADMIN" in adds
    if security.get("allowPrivilegeEscalation") is False and escalates:
        at = (*path, "securityContext", "allowPrivilegeEscalation")
        judge.contradiction(at, "a privileged container may always escalate", "remove one of the two")


def profiles(judge: Judge, security: dict[str, Any], path: FieldPath) -> None:
    """The profiles of a securityContext: one of type Localhost names its file, no other does."""
    for key in ("seccompProfile", "appArmorProfile"):
        profile, at = mapping(security, key), (*path, key, "localhostProfile")
        judge.choice((*path, key, "type"), profile.get("type"), ("Localhost", "RuntimeDefault", "Unconfined"))
        if profile.get("type") == "Localhost" and not profile.get("localhostProfile"):
            judge.missing(at)
        elif profile.get("type") in ("RuntimeDefault", "Unconfined") and profile.get("localhostProfile") is not None:
            judge.contradiction(at, "it goes with the type Localhost only", "remove it")


def _claims(judge: Judge, data: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    seen: set[str] = set()
    for number, claim in items(data, "claims"):
        name, request = str(claim.get("name")), claim.get("request")
        if name not in around.claims:
            judge.add(REFERS_TO_NOTHING, (*path, number), f"the pod has no resourceClaim {name!r}", "add it")
        judge.unique((*path, number), name if name in seen or not request else f"{name}/{request}", seen, "claim")
        seen.add(name if not request else f"{name}/{request}")


def _devices(judge: Judge, data: dict[str, Any], path: FieldPath, around: Surroundings) -> None:
    """Volumes that a container gets as block devices."""
    mounted = {str(mount.get("name")) for _, mount in items(data, "volumeMounts")}
    seen: set[Any] = set()
    for number, device in items(data, "volumeDevices"):
        at, name = (*path, "volumeDevices", number), device.get("name")
        if name in (None, ""):
            judge.missing((*at, "name"))
        elif str(name) not in around.volumes:
            judge.add(REFERS_TO_NOTHING, (*at, "name"), f"the pod has no volume {name!r}", "add the volume")
        elif str(name) in mounted:
            judge.contradiction((*at, "name"), "the volume is mounted too", "keep the device or the mount")
        if device.get("devicePath") in (None, ""):
            judge.missing((*at, "devicePath"))
        no_way_up(judge, device.get("devicePath"), (*at, "devicePath"))
        judge.unique((*at, "devicePath"), device.get("devicePath"), seen, "device path")


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
    elif isinstance(field, str) and (named := _KEY_OF_FIELD.fullmatch(field)):
        judge.name((*at, "fieldRef", "fieldPath"), named.group(1), names.ANNOTATION_KEY, required=True)
    else:
        judge.choice((*at, "fieldRef", "fieldPath"), field, tuple(_FIELD_PATHS.split()))
    if mapping(source, "fieldRef").get("apiVersion") not in (None, "", "v1"):
        judge.contradiction((*at, "fieldRef", "apiVersion"), "fields of pods are of v1", "leave it out")
    resource = mapping(source, "resourceFieldRef").get("resource")
    if isinstance(resource, str) and "hugepages-" not in resource:
        judge.choice((*at, "resourceFieldRef", "resource"), resource, tuple(_RESOURCE_FIELDS.split()))
        divisor, path = mapping(source, "resourceFieldRef").get("divisor"), (*at, "resourceFieldRef", "divisor")
        units = _CPU_DIVISORS if resource.endswith(".cpu") else _MEMORY_DIVISORS
        if isinstance(divisor, str | int) and divisor not in ("", "0", 0) and str(divisor) not in units.split():
            judge.contradiction(path, f"{divisor!r} divides no such amount", f"write one of {units}")
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
        if mount.get("recursiveReadOnly") in ("Enabled", "IfPossible") and mount.get("readOnly") is not True:
            judge.contradiction((*at, "recursiveReadOnly"), "the mount is not readOnly", "write readOnly: true too")
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


def resources(judge: Judge, data: Any, path: FieldPath) -> None:
    """Requests and limits of a container or pod."""
    lost = [lost_units(judge, mapping(data, section), (*path, section)) for section in ("requests", "limits")]
    if any(lost):  # such amounts are not compared
        return
    requests, limits = _amounts(mapping(data, "requests")), _amounts(mapping(data, "limits"))
    for section, amounts in (("requests", requests), ("limits", limits)):
        for name in amounts:
            _resource_name(judge, name, (*path, section, name))
    for name, request in {**limits, **requests}.items():
        if name not in requests:
            _page_multiples(judge, name, request, (*path, "limits", name))
            continue
        at, limit = (*path, "requests", name), limits.get(name)
        _page_multiples(judge, name, request, at)
        is_exact = ("/" in name and "kubernetes.io/" not in name) or name.startswith("hugepages-")
        if limit is None and is_exact:
            judge.add(
                REQUEST_AND_LIMIT, at, "the request has no limit", "write the same amount as limit, or the limit alone"
            )
        elif limit is not None and is_exact and request != limit:
            judge.add(
                REQUEST_AND_LIMIT, at, "the request differs from the limit", "write the same amount, or no request"
            )
        elif limit is not None and request > limit:
            judge.add(REQUEST_AND_LIMIT, at, "the request is above the limit", "raise the limit, or lower the request")
    named = {*requests, *limits}
    if any(name.startswith("hugepages-") for name in named) and not named & {"cpu", "memory"}:
        judge.add(REQUEST_AND_LIMIT, path, "huge pages without cpu or memory", "ask for cpu or memory too")


def lost_units(judge: Judge, amounts: dict[str, Any], path: FieldPath) -> bool:
    """Whether resources have amounts of memory whose unit is wrong or missing."""
    found = [(name, *lost) for name in amounts if (lost := lost_unit(name, amounts[name])) is not None]
    for name, message, help in found:
        judge.add(LOST_UNIT, (*path, name), message, help)
    return bool(found)


def _page_multiples(judge: Judge, name: str, amount: Fraction, path: FieldPath) -> None:
    page = _amounts({name: name.removeprefix("hugepages-")}).get(name) if name.startswith("hugepages-") else None
    if page and amount % page:
        judge.contradiction(path, "it is not a multiple of the page's size", "write whole pages")


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
        judge.contradiction(
            path, f"{name} is not a resource of containers", "devices have a prefix, like nvidia.com/gpu"
        )
    if name.startswith("requests."):
        judge.contradiction(path, f"{name} cannot be asked for", "name the device's resource, like nvidia.com/gpu")


def privileged_places(template: Any) -> tuple[FieldPath, ...]:
    """Where a pod template makes a container privileged."""
    spec, found = mapping(template, "spec"), list[FieldPath]()
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for number, container in items(spec, key):
            if mapping(container, "securityContext").get("privileged") is True:
                found.append(("spec", key, number, "securityContext", "privileged"))
    return tuple(found)
