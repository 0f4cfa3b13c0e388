"""Rules on containers and volumes beyond rows: names that refer to parts of the pod, ports of the host, resources,
several sources of one volume, and the specs of claims.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from compiler.fields.models import LOST_UNIT
from compiler.fields.quantity import lost_unit, read_quantity
from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.judge import (
    REFERS_TO_NOTHING,
    REQUEST_AND_LIMIT,
    Judge,
    items,
    mapping,
    texts,
    values,
    volume_sources,
)

_GRACE_SECONDS = 30
"""terminationGracePeriodSeconds where a pod gives none."""
_NATIVE_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage"))


def containers(judge: Judge, pod: dict[str, Any], path: FieldPath, volumes: frozenset[str]) -> None:
    """All containers of a pod spec with these volumes."""
    claims = frozenset(str(claim.get("name")) for _, claim in items(pod, "resourceClaims"))
    grace, host_ports = pod.get("terminationGracePeriodSeconds"), set[Any]()
    for key in ("initContainers", "containers"):
        for number, container in items(pod, key):
            at = (*path, key, number)
            _volumes(judge, container, at, volumes)
            _claims(judge, mapping(container, "resources"), (*at, "resources", "claims"), claims)
            _host_ports(judge, container, at, host_ports if key == "containers" else set())
            life(judge, container, at, key == "initContainers", grace if isinstance(grace, int) else _GRACE_SECONDS)


def _volumes(judge: Judge, data: dict[str, Any], path: FieldPath, volumes: frozenset[str]) -> None:
    """The volumes that a container mounts, or gets as block devices."""
    mounted = {str(mount.get("name")) for _, mount in items(data, "volumeMounts")}
    for key in ("volumeMounts", "volumeDevices"):
        for number, row in items(data, key):
            at, name = (*path, key, number, "name"), row.get("name")
            if name not in (None, "") and str(name) not in volumes:
                judge.add(REFERS_TO_NOTHING, at, f"the pod has no volume {name!r}", "add the volume")
            elif name not in (None, "") and key == "volumeDevices" and str(name) in mounted:
                judge.contradiction(at, "the volume is mounted too", "keep the device or the mount")


def _claims(judge: Judge, data: dict[str, Any], path: FieldPath, claims: frozenset[str]) -> None:
    seen: set[str] = set()
    for number, claim in items(data, "claims"):
        name, request = str(claim.get("name")), claim.get("request")
        if name not in claims:
            judge.add(REFERS_TO_NOTHING, (*path, number), f"the pod has no resourceClaim {name!r}", "add it")
        judge.unique((*path, number), name if name in seen or not request else f"{name}/{request}", seen, "claim")
        seen.add(name if not request else f"{name}/{request}")


def _host_ports(judge: Judge, data: dict[str, Any], path: FieldPath, seen: set[Any]) -> None:
    for number, port in items(data, "ports"):
        if host := port.get("hostPort"):
            key = f"{port.get('protocol') or 'TCP'}/{port.get('hostIP') or ''}/{host}"
            judge.unique((*path, "ports", number, "hostPort"), key, seen, "host port")


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


def lost_units(judge: Judge, amounts: Any, path: FieldPath) -> bool:
    """Return whether resources have amounts of memory whose unit is wrong or missing."""
    amounts = mapping(amounts)
    found = [(name, *lost) for name in amounts if (lost := lost_unit(name, amounts[name])) is not None]
    for name, message, help in found:
        judge.add(LOST_UNIT, (*path, name), message, help)
    return bool(found)


def _page_multiples(judge: Judge, name: str, amount: Fraction, path: FieldPath) -> None:
    page = _amounts({name: name.removeprefix("hugepages-")}).get(name) if name.startswith("hugepages-") else None
    if page and amount % page:
        judge.contradiction(path, "it is not a multiple of the page's size", "write whole pages")


def _amounts(data: dict[str, Any]) -> dict[str, Fraction]:
    """Return the amounts that can be read."""
    return {str(name): amount for name, value in data.items() if (amount := read_quantity(value)) is not None}


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


_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def life(judge: Judge, data: dict[str, Any], path: FieldPath, is_init: bool, grace: int) -> None:
    """Probes and hooks of a container. grace: the seconds that its pod has to end."""
    is_sidecar = data.get("restartPolicy") == "Always"
    for key in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        found = data.get(key)
        if not isinstance(found, dict):
            continue
        at = (*path, key)
        if is_init and not is_sidecar:
            judge.contradiction(at, "an init container that is not a sidecar takes none", "remove it")
            continue
        if key == "lifecycle":
            for hook in ("postStart", "preStop"):
                if isinstance(found.get(hook), dict):
                    _handler(judge, found[hook], (*at, hook), grace)
            continue
        _handler(judge, found, at, grace)
        for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
            judge.within((*at, field), found.get(field), 0)
        if key != "readinessProbe" and found.get("successThreshold") not in (None, 0, 1):
            judge.contradiction((*at, "successThreshold"), f"a {key} has 1", "leave it out")
        if key == "readinessProbe" and found.get("terminationGracePeriodSeconds") is not None:
            what = "a container that is not ready is not ended"
            judge.contradiction((*at, "terminationGracePeriodSeconds"), what, "remove it")
        judge.within((*at, "terminationGracePeriodSeconds"), found.get("terminationGracePeriodSeconds"), 1)


def _handler(judge: Judge, data: dict[str, Any], path: FieldPath, grace: int) -> None:
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
        for number, header in items(handler, "httpHeaders"):
            judge.name((*at, "httpHeaders", number, "name"), header.get("name"), names.HTTP_HEADER, required=True)
    if given[0] == "sleep":
        judge.within((*at, "seconds"), handler.get("seconds"), 0, grace)
    if given[0] in ("httpGet", "tcpSocket", "grpc"):
        port = handler.get("port")
        if isinstance(port, str):
            judge.name((*at, "port"), port, names.PORT_NAME, required=True)
        elif port is None:
            judge.missing((*at, "port"))
        else:
            judge.within((*at, "port"), port, 1, 65535)


_PROJECTED = ("configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_KEY_OF_FIELD = re.compile(r"metadata\.(?:labels|annotations)\['(.*)'\]")
_FIELD_PATHS = """
    metadata.name metadata.namespace metadata.uid spec.nodeName spec.serviceAccountName status.hostIP status.hostIPs
    status.podIP status.podIPs
"""


def volumes(judge: Judge, pod: dict[str, Any], path: FieldPath) -> frozenset[str]:
    """Return the names of the volumes, whose sources are counted; one without any is an emptyDir."""
    for number, volume in items(pod, "volumes"):
        at, sources = (*path, "volumes", number), volume_sources(volume)
        _one_source(judge, sources, at, "keep one source")
        for which, part in items(mapping(volume, "projected"), "sources"):
            given = [key for key in _PROJECTED if part.get(key) is not None]
            help = "keep one, and give the other an item of its own"
            _one_source(judge, given, (*at, "projected", "sources", which), help)
    return frozenset(str(volume.get("name")) for _, volume in items(pod, "volumes"))


def _one_source(judge: Judge, given: list[str], path: FieldPath, help: str) -> None:
    if len(given) > 1:
        judge.contradiction(path, f"{' and '.join(given)} are given", help)


def field_path(judge: Judge, data: Any, path: FieldPath) -> None:
    """The field of a pod whose value a variable has."""
    field, at = mapping(data).get("fieldPath"), (*path, "fieldPath")
    if isinstance(field, str) and (named := _KEY_OF_FIELD.fullmatch(field)):
        judge.name(at, named.group(1), names.ANNOTATION_KEY, required=True)
    else:
        judge.choice(at, field, tuple(_FIELD_PATHS.split()))


def relative_path(judge: Judge, value: Any, path: FieldPath) -> None:
    """A path below something: not absolute, no way up."""
    if isinstance(value, str) and value.startswith("/"):
        judge.contradiction(path, "the path is absolute", "write a relative path")
    if isinstance(value, str) and ".." in value.split("/"):
        judge.contradiction(path, "the path holds ..", "write the path without ..")


def claim(judge: Judge, spec: Any, path: FieldPath) -> None:
    """The spec of a PersistentVolumeClaim."""
    modes = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
    if not values(spec, "accessModes"):
        judge.missing((*path, "accessModes"), "add it, such as [ReadWriteOnce]")
    for number, mode in texts(spec, "accessModes"):
        judge.choice((*path, "accessModes", number), mode, modes)
    judge.name((*path, "storageClassName"), spec.get("storageClassName"), names.DNS_SUBDOMAIN)
    storage, at = mapping(spec, "resources", "requests").get("storage"), (*path, "resources", "requests", "storage")
    if storage is None:
        judge.missing(at)
    elif storage in (0, "0"):
        judge.within(at, 0, 1)
