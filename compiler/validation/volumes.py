"""Volumes of a pod: one source each, and what each source needs."""

from __future__ import annotations

from typing import Any

from compiler.fields.models import LOST_UNIT
from compiler.fields.quantity import lost_unit
from compiler.syntax.documents import FieldPath
from compiler.validation import names
from compiler.validation.containers import no_way_up, relative_path
from compiler.validation.judge import Judge, items, mapping, texts, values, volume_sources

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
    "rbd": ("monitors", "image"),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"),
    "gitRepo": ("repository",),
    "flexVolume": ("driver",),
    "image": ("reference",),
    "ephemeral": ("volumeClaimTemplate",),
}
_PROJECTED = ("configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate")
_POD_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_LEAST_TOKEN_SECONDS = 600
_HOST_PATH_TYPES = ("DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
_MAX_MODE = 0o777


def volumes(judge: Judge, pod: dict[str, Any], path: FieldPath) -> frozenset[str]:
    """The names of the volumes, all of them judged."""
    seen: set[str] = set()
    for number, volume in items(pod, "volumes"):
        at = (*path, "volumes", number)
        judge.name((*at, "name"), volume.get("name"), names.DNS_LABEL, required=True)
        judge.unique((*at, "name"), volume.get("name"), seen, "volume name")
        sources = volume_sources(volume)
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
        _projected_source(judge, part, (*path, "sources", number))
    if kind == "hostPath":
        no_way_up(judge, data.get("path"), (*path, "path"))
        judge.choice((*path, "type"), data.get("type"), _HOST_PATH_TYPES)
    elif kind == "emptyDir":
        _empty_dir(judge, data, path)
    elif kind == "nfs" and isinstance(data.get("path"), str) and data["path"] and not data["path"].startswith("/"):
        judge.contradiction((*path, "path"), "the path is relative", "write an absolute path")
    elif kind == "csi":
        judge.name((*path, "driver"), data.get("driver"), names.DNS_SUBDOMAIN)
    elif kind == "ephemeral" and isinstance(data.get("volumeClaimTemplate"), dict):
        claim(judge, mapping(data, "volumeClaimTemplate", "spec"), (*path, "volumeClaimTemplate", "spec"))
    elif kind == "gcePersistentDisk":
        judge.within((*path, "partition"), data.get("partition"), 0, 255)


def _empty_dir(judge: Judge, data: dict[str, Any], path: FieldPath) -> None:
    medium = data.get("medium")
    if isinstance(medium, str) and not medium.startswith("HugePages"):
        judge.choice((*path, "medium"), medium, ("Memory",))
    if (found := lost_unit("sizeLimit", data.get("sizeLimit"))) is not None:
        judge.add(LOST_UNIT, (*path, "sizeLimit"), *found)


def _projected_source(judge: Judge, part: dict[str, Any], path: FieldPath) -> None:
    """One source of a projected volume."""
    given = [key for key in _PROJECTED if part.get(key) is not None]
    if len(given) > 1:
        judge.contradiction(path, f"{' and '.join(given)} are given", "keep one, and give the other an item of its own")
    for key in given:
        source, at = mapping(part, key), (*path, key)
        _items(judge, source, at)
        if key in ("configMap", "secret") and not source.get("name"):
            judge.missing((*at, "name"))
        if key == "serviceAccountToken":
            if not source.get("path"):
                judge.missing((*at, "path"))
            judge.within((*at, "expirationSeconds"), source.get("expirationSeconds"), _LEAST_TOKEN_SECONDS, 1 << 32)


def claim(judge: Judge, spec: dict[str, Any], path: FieldPath) -> None:
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
        if isinstance(resource := item.get("resourceFieldRef"), dict):
            if not resource.get("containerName"):
                judge.missing((*at, "resourceFieldRef", "containerName"))
            if item.get("fieldRef") is not None:
                judge.contradiction(at, "fieldRef and resourceFieldRef are given", "keep one")
        field = mapping(item, "fieldRef").get("fieldPath")
        if isinstance(field, str) and not field.startswith(("metadata.labels['", "metadata.annotations['")):
            judge.choice((*at, "fieldRef", "fieldPath"), field, _POD_FIELDS)
