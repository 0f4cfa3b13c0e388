"""Volumes of a pod: one source each, and what each source needs."""

from __future__ import annotations

from typing import Any

from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.containers import no_way_up, relative_path
from compiler.validation.judge import Judge, items, mapping

_NEEDED = {
    "persistentVolumeClaim": ("claimName",),
    "configMap": ("name",),
    "secret": ("secretName",),
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "cephfs": ("monitors",),
}
_HOST_PATH_TYPES = ("DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
_MAX_MODE = 0o777


def volumes(judge: Judge, pod: dict[str, Any], path: FieldPath) -> frozenset[str]:
    """The names of the volumes, all of them judged."""
    seen: set[str] = set()
    for number, volume in items(pod, "volumes"):
        at = (*path, "volumes", number)
        judge.name((*at, "name"), volume.get("name"), names.DNS_LABEL, required=True)
        judge.unique((*at, "name"), volume.get("name"), seen, "volume name")
        sources = [key for key, value in volume.items() if key != "name" and value is not None]
        if len(sources) > 1:  # one without is an emptyDir
            judge.contradiction(at, f"{' and '.join(sources)} are given", "keep one source")
        for source in sources:
            _source(judge, volume[source], source, (*at, source))
    return frozenset(seen)


def _source(judge: Judge, data: Any, kind: str, path: FieldPath) -> None:
    if not isinstance(data, dict):
        return
    for key in _NEEDED.get(kind, ()):
        if not data.get(key):
            judge.missing((*path, key))
    judge.within((*path, "defaultMode"), data.get("defaultMode"), 0, _MAX_MODE)
    _items(judge, data, path)
    for number, part in items(data, "sources"):
        for key in ("configMap", "secret", "downwardAPI", "serviceAccountToken"):
            _items(judge, mapping(part, key), (*path, "sources", number, key))
    if kind == "hostPath":
        no_way_up(judge, data.get("path"), (*path, "path"))
        judge.choice((*path, "type"), data.get("type"), _HOST_PATH_TYPES)
    elif kind == "emptyDir":
        medium = data.get("medium")
        if isinstance(medium, str) and not medium.startswith("HugePages"):
            judge.choice((*path, "medium"), medium, ("Memory",))
    elif kind == "nfs" and isinstance(data.get("path"), str) and data["path"] and not data["path"].startswith("/"):
        judge.contradiction((*path, "path"), "the path is relative", "write an absolute path")


def _items(judge: Judge, data: dict[str, Any], path: FieldPath) -> None:
    """Files of a configMap, secret or downwardAPI."""
    for number, item in items(data, "items"):
        at = (*path, "items", number)
        if "fieldRef" not in item and "resourceFieldRef" not in item and not item.get("key"):
            judge.missing((*at, "key"))
        if not item.get("path"):
            judge.missing((*at, "path"))
        relative_path(judge, item.get("path"), (*at, "path"))
        judge.within((*at, "mode"), item.get("mode"), 0, _MAX_MODE)
