"""Rows of a table, spread over as many ConfigMaps as they need, of which only changed ones are written.

A key belongs to the shard that its checksum names. When a shard outgrows `limit` the table gets a new layout: twice the
shards, under new names, so that the former ones stay complete until the head names the new ones. Each shard carries the
digest of its rows. One that another client changed is invalid, even if it can be parsed. It is written again from
memory, and refused if there is no memory of it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from compiler.kubernetes import MANAGED_BY_LABEL, MEMORY_LABEL, PLACE_ANNOTATION
from reconciler.cluster.client import Client, Conflict, NotFound
from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref, ref_of
from reconciler.threads.memo import drop_other_keys

SAMPLE_SIZE = 1000
"""Rows from whose size the number of shards is guessed."""
PLAIN_LIMIT = 32 << 10
"""Bytes of text up to which it is stored as it is, for people to read."""
_ROWS = "rows.json"

UNREADABLE = (KeyError, TypeError, AttributeError, ValueError, OSError, EOFError, RecursionError, zlib.error)
"""Exceptions on reading a ConfigMap of ours that another client changed."""

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

Row = TypeVar("Row")


class PackedRecord(Mapping[str, Any]):
    """Plain data, kept as text: a hundred thousand records in dicts of their own take hundreds of megabytes."""

    __slots__ = ("text",)

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.text = _encode(record)

    def unpack(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.text)
        return data

    def __getitem__(self, key: str) -> Any:
        return self.unpack()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.unpack())

    def __len__(self) -> int:
        return len(self.unpack())


class Table(dict[str, Row]):
    """A dict that knows which of its keys have changed since it was last written."""

    def __init__(self, rows: Mapping[str, Row] | None = None) -> None:
        super().__init__(rows or {})
        self.changed_keys = set(self)

    def __setitem__(self, key: str, row: Row) -> None:
        if key not in self or self[key] != row:
            self.changed_keys.add(key)
        super().__setitem__(key, row)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.changed_keys.add(key)

    def pop(self, key: str, default: Row | None = None) -> Row | None:  # type: ignore[override]
        row = self.get(key, default)
        if key in self:
            del self[key]
        return row

    def update(self, rows: Mapping[str, Row]) -> None:  # type: ignore[override]
        for key, row in rows.items():
            self[key] = row

    def mark_written(self) -> None:
        """Note that all of it has been written."""
        self.changed_keys.clear()


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a table's shards are: how many, and the generation that is part of their names."""

    generation: str = ""
    shards: int = 0


Contents = dict[int, Mapping[str, Any]]
"""Shards to be written: index -> ConfigMap data."""


@dataclass(slots=True)
class ShardSet:
    """The ConfigMaps of one table. name: begins their names. limit: bytes above which the table is spread wider.
    as_row: as `row_text` needs it. _texts: each row, and its text."""

    client: Client
    namespace: str
    name: str
    labels: Mapping[str, str]
    limit: int
    as_row: Callable[[Any], Any]
    layout: Layout = field(default_factory=Layout)
    _versions: dict[int, str] = field(default_factory=dict)
    _keys: dict[int, set[str]] = field(default_factory=dict)
    _texts: dict[str, tuple[Any, str]] = field(default_factory=dict)

    def ref(self, index: int, layout: Layout | None = None) -> Ref:
        generation = (layout or self.layout).generation
        return Ref("v1", "ConfigMap", self.namespace, f"{self.name}-{generation}-{index}")

    def fetch(self, layout: Layout) -> list[Object]:
        """Return the ConfigMaps of the layout, in order. Raises ApiError: NotFound for one that is missing."""
        return [self.client.get(self.ref(index, layout)) for index in range(layout.shards)]

    def adopt(self, layout: Layout, items: Iterable[Object], keys: Iterable[str]) -> None:
        """Adopt these ConfigMaps, all of the layout and in order, and record these keys for later writes."""
        versions = {index: str(item["metadata"]["resourceVersion"]) for index, item in enumerate(items)}
        self.layout, self._versions, self._keys = layout, versions, {}
        self._note_keys(keys)

    def forget_layout(self) -> None:
        """Take no shard for written: the next write makes all of them."""
        self.layout = Layout()

    def _note_keys(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._keys.setdefault(shard_of(key, self.layout.shards), set()).add(key)

    def prepare(self, table: Table[Any], generation: str) -> tuple[Layout, Contents]:
        """Return the shards that the table's changes touch; all of a new layout where the present one is too narrow."""
        if self.layout.shards:
            touched: set[int] = set()
            for key in table.changed_keys:
                index = shard_of(key, self.layout.shards)
                touched.add(index)
                keys = self._keys.setdefault(index, set())
                (keys.add if key in table else keys.discard)(key)
            contents = self._encode(table, {index: self._keys[index] for index in touched})
            if self._fits(contents):
                return self.layout, contents
        sample = encode_rows(self._text(key, table[key]) for key in islice(table, SAMPLE_SIZE))
        expected = _stored_size(sample) * len(table) // (max(1, min(len(table), SAMPLE_SIZE)) * self.limit)
        shards = max(1 << expected.bit_length(), 2 * self.layout.shards)
        while True:
            spread: dict[int, list[str]] = {index: [] for index in range(shards)}
            for key in table:
                spread[shard_of(key, shards)].append(key)
            if self._fits(contents := self._encode(table, spread)):
                return Layout(generation, shards), contents
            shards *= 2

    def _fits(self, contents: Contents) -> bool:
        return all(_stored_size(content) <= self.limit for content in contents.values())

    def _encode(self, table: Table[Any], keys: Mapping[int, Iterable[str]]) -> Contents:
        texts = {index: [self._text(key, table[key]) for key in sorted(found)] for index, found in keys.items()}
        return {index: encode_rows(each) for index, each in texts.items()}

    def _text(self, key: str, row: Any) -> str:
        """Rows are replaced and never changed: each is encoded once."""
        known = self._texts.get(key)
        if known is None or known[0] is not row:
            known = self._texts[key] = row, row_text(self.as_row(row))
        return known[1]

    def write(self, layout: Layout, contents: Contents, table: Table[Any]) -> None:
        """Write the shards. Raises Conflict where another gangplan has written one since it was read."""
        is_new = layout != self.layout
        versions: dict[int, str] = {} if is_new else self._versions
        for index, content in sorted(contents.items()):
            versions[index] = self._put(index, layout, content, versions.get(index, ""), may_exist=is_new)
        if is_new:
            self.layout, self._versions, self._keys = layout, versions, {}
            self._note_keys(table)
        table.mark_written()
        drop_other_keys(self._texts, table)

    def _put(self, index: int, layout: Layout, content: Mapping[str, Any], version: str, may_exist: bool) -> str:
        """Write the shard, and return the new resource version. may_exist: a shard of a layout that no head has named
        yet was left by a killed writer, and is replaced. A shard that is not as gangplan wrote it is replaced too."""
        place = {"table": self.name, "generation": layout.generation, "index": index, "shards": layout.shards}
        metadata = {
            "namespace": self.namespace,
            "name": self.ref(index, layout).name,
            "labels": dict(self.labels),
            "annotations": {PLACE_ANNOTATION: json.dumps({**place, "digest": _digest_of(content)})},
        }
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}
        written, _ = put_config_map(self.client, item, version, lambda found: may_exist or not _is_intact(found))
        return str(written["metadata"]["resourceVersion"])

    def delete(self, layout: Layout) -> None:
        """Take away the shards of a layout that is no longer in force; what a kill leaves of them is harmless."""
        for ref in (self.ref(index, layout) for index in range(layout.shards)):
            with suppress(NotFound):
                self.client.delete(ref, str(self.client.get(ref)["metadata"]["uid"]))

    def restore(self, turn: int, table: Table[Any]) -> bool:
        """Look at the shard whose turn it is, and make it again if it was deleted or written into; whether it was."""
        if not self.layout.shards:
            return False
        index, version = turn % self.layout.shards, ""
        with suppress(NotFound):
            found = self.client.get_briefly(self.ref(index))
            if _is_intact(found):
                return False
            version = str(found["metadata"]["resourceVersion"])
        contents = self._encode(table, {index: self._keys.get(index, set()) & table.keys()})
        self._versions[index] = self._put(index, self.layout, contents[index], version, may_exist=False)
        return True


def put_config_map(
    client: Client, item: Object, version: str, may_be_replaced: Callable[[Object], bool]
) -> tuple[Object, bool]:
    """Write a ConfigMap last seen in this version (empty: not seen). Return it, and whether it had been deleted by
    hand. Raises Conflict where another exists that may not be replaced."""

    def replace(version: str) -> Object:
        return client.replace({**item, "metadata": {**item["metadata"], "resourceVersion": version}})

    try:
        if version:
            with suppress(NotFound):
                return replace(version), False
        return client.create(item), bool(version)
    except Conflict:
        found = client.get(ref_of(item))
        if not may_be_replaced(found):
            raise
    return replace(str(found["metadata"]["resourceVersion"])), False


def place_of(item: Object) -> Mapping[str, Any]:
    """Return a shard's table, generation, index, shards and digest; empty for another ConfigMap."""
    try:
        place = json.loads((item["metadata"].get("annotations") or {})[PLACE_ANNOTATION])
    except (KeyError, ValueError):
        return {}
    return place if isinstance(place, dict) else {}


def memory_labels(cluster: str) -> dict[str, str]:
    """Return the labels of the reconciler's own storage. The cluster's label is absent, so that own writes are not
    news."""
    return {MANAGED_BY_LABEL: FIELD_MANAGER, MEMORY_LABEL: cluster}


def shard_of(key: str, shards: int) -> int:
    return zlib.crc32(key.encode()) % shards if shards else 0


def row_text(row: Sequence[Any]) -> str:
    """Return a row of two columns or more as JSON. A record in the last one is text already."""
    *columns, last = row
    return f"{_encode(columns)[:-1]},{last.text if isinstance(last, PackedRecord) else _encode(last)}]"


def encode_rows(texts: Iterable[str]) -> Mapping[str, Any]:
    """Return one row a line, so that people can read and compare them; compressed when there are many."""
    return stored_text(_ROWS, "[" + ",\n".join(texts) + "]\n", PLAIN_LIMIT)


def stored_text(key: str, text: str, plain_limit: int) -> Mapping[str, Any]:
    """Return the content of a ConfigMap that holds this text: compressed where it has more than so many characters."""
    if len(text) <= plain_limit:
        return {"data": {key: text}}
    packed = gzip.compress(text.encode(), compresslevel=6, mtime=0)
    return {"binaryData": {f"{key}.gz": base64.b64encode(packed).decode()}}


def stored_size(content: Mapping[str, Any]) -> int:
    """Return the bytes of such a content as the API server counts them: of what is compressed, without base64."""
    plain, packed = content.get("data") or {}, content.get("binaryData") or {}
    return sum(len(text.encode()) for text in plain.values()) + sum(len(text) * 3 // 4 for text in packed.values())


def text_stored_in(item: Object, key: str) -> str:
    """Return the text that a ConfigMap holds. Raises one of `UNREADABLE` where it holds none."""
    if packed := (item.get("binaryData") or {}).get(f"{key}.gz"):
        return gzip.decompress(base64.b64decode(packed)).decode()
    return str(item["data"][key])


def rows_of(items: Iterable[Object]) -> Iterator[Any]:
    """Yield the rows of these ConfigMaps, one after another. Raises ValueError: an error is never an empty table."""
    for item in items:
        try:
            rows = json.loads(text_stored_in(item, _ROWS))
            if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
                raise TypeError("no list of rows")
            if not _is_intact(item):
                raise ValueError("they are not those that gangplan wrote")
        except UNREADABLE as error:
            raise unreadable(item, "rows", error) from error
        yield from rows


def _is_intact(item: Object) -> bool:
    """Return whether the shard holds what a gangplan has written into it."""
    return place_of(item).get("digest") == _digest_of(item)


def _digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of a ConfigMap's content."""
    stored = {key: value for part in ("data", "binaryData") for key, value in (content.get(part) or {}).items()}
    return hashlib.sha256(json.dumps(stored, sort_keys=True).encode()).hexdigest()[:16]


def unreadable(item: Object, what: str, error: Exception) -> ValueError:
    """Return the error for a ConfigMap whose content is not what gangplan wrote."""
    name = item["metadata"].get("name")
    return ValueError(
        f"ConfigMap {name} holds no {what}: {error!r}; restore its content, or delete it: it is then recreated "
        "from what else is known"
    )


def _stored_size(content: Mapping[str, Any]) -> int:
    """Return bytes of base64 and text, which is more than what counts against the limit of a ConfigMap."""
    return sum(len(value) for part in content.values() for value in part.values())
