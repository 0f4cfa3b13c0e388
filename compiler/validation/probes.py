"""Probes and hooks of a container."""

from __future__ import annotations

from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.judge import Judge, items, mapping

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
