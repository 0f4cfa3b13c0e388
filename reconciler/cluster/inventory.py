"""The inventory: which objects of a cluster are ours, and which jobs have had their run.

It is stored in the cluster, in one ConfigMap, so that a reconciler which lost its disk still knows what it may delete
and what must never run again. It is written before the first object of a batch is created (an intent, without a uid)
and trimmed after a delete is confirmed, always with the resource version it was read at: a second writer is a Conflict
and not a lost update.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.kubernetes import CLUSTER_LABEL, MANAGED_BY_LABEL
from reconciler.cluster.client import Client, NotFound
from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref

UNCOMPRESSED_LIMIT = 512 << 10
"""Bytes of JSON above which the text is stored compressed; a ConfigMap holds 1 MiB."""


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """An object of ours. uid: empty while a creation is intended and not yet confirmed. started: the job's pods have
    been given nodes."""

    ref: Ref
    uid: str = ""
    started: bool = False


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run of a job that is over: the digest of its specification, and how it ended."""

    ref: Ref
    digest: str
    phase: str


@dataclass(slots=True)
class Inventory:
    """What is ours and what has run, both by `Ref.key`. commit: the commit last applied."""

    entries: dict[str, InventoryEntry] = field(default_factory=dict)
    runs: dict[str, FinishedRun] = field(default_factory=dict)
    commit: str = ""

    def as_json(self) -> str:
        """The same text for the same inventory, one object a line, so that people can read and compare it."""
        objects = [[*_ref_fields(e.ref), e.uid, e.started] for _, e in sorted(self.entries.items())]
        runs = [[*_ref_fields(r.ref), r.digest, r.phase] for _, r in sorted(self.runs.items())]
        rows = {
            name: "[\n" + ",\n".join(json.dumps(row) for row in table) + "\n]"
            for name, table in (("objects", objects), ("runs", runs))
        }
        return f'{{"commit": {json.dumps(self.commit)},\n"objects": {rows["objects"]},\n"runs": {rows["runs"]}}}\n'

    @classmethod
    def from_json(cls, text: str) -> Inventory:
        """Raises ValueError for a text that is no inventory: an error is never an empty inventory."""
        try:
            data = json.loads(text)
            entries = [InventoryEntry(Ref(*row[:4]), row[4], row[5]) for row in data["objects"]]
            runs = [FinishedRun(Ref(*row[:4]), row[4], row[5]) for row in data["runs"]]
            return cls({e.ref.key: e for e in entries}, {r.ref.key: r for r in runs}, data["commit"])
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"the inventory cannot be read: {error!r}") from error


def _ref_fields(ref: Ref) -> tuple[str, str, str, str]:
    return ref.api_version, ref.kind, ref.namespace, ref.name


@dataclass(slots=True)
class InventoryStore:
    """Reads and writes the inventory's ConfigMap. A store belongs to one reconciler; `write` raises Conflict when
    another has written."""

    client: Client
    namespace: str
    cluster: str
    _version: str = ""
    _text: str = ""

    @property
    def ref(self) -> Ref:
        return Ref("v1", "ConfigMap", self.namespace, f"gangplan-{self.cluster}-inventory")

    def read(self) -> Inventory:
        """Empty when there is none. Raises ApiError, or ValueError when what is there cannot be read."""
        try:
            found = self.client.get(self.ref)
        except NotFound:
            self._version = self._text = ""
            return Inventory()
        self._version = str(found["metadata"]["resourceVersion"])
        self._text = decode_inventory(found)
        return Inventory.from_json(self._text)

    def write(self, inventory: Inventory) -> None:
        """Write the inventory, unless nothing has changed."""
        text = inventory.as_json()
        if text == self._text:
            return
        item = self._object(text)
        if self._version:
            item["metadata"]["resourceVersion"] = self._version
            written = self.client.replace(item)
        else:
            written = self.client.create(item)
        self._version, self._text = str(written["metadata"]["resourceVersion"]), text

    def _object(self, text: str) -> Object:
        labels = {MANAGED_BY_LABEL: FIELD_MANAGER, CLUSTER_LABEL: self.cluster}
        metadata: dict[str, Any] = {"namespace": self.namespace, "name": self.ref.name, "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **encode_inventory(text)}


def encode_inventory(text: str) -> Mapping[str, Any]:
    if len(text) <= UNCOMPRESSED_LIMIT:
        return {"data": {"inventory.json": text}}
    return {"binaryData": {"inventory.json.gz": base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()}}


def decode_inventory(item: Object) -> str:
    """Raises ValueError when the ConfigMap holds no inventory."""
    try:
        if packed := (item.get("binaryData") or {}).get("inventory.json.gz"):
            return gzip.decompress(base64.b64decode(packed)).decode()
        return str(item["data"]["inventory.json"])
    except (KeyError, TypeError, OSError, EOFError) as error:
        raise ValueError(f"ConfigMap {item['metadata'].get('name')} holds no inventory: {error!r}") from error
