"""Rules on volumes beyond rows: several sources of one, and the specs of claims."""

from __future__ import annotations

import re
from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.judge import Judge, items, mapping, texts, values, volume_sources

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
