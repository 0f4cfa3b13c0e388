"""The plan in force and its files, kept in the cluster for the next process: at once, and also while the head of the
branch is held, no git server answers, or the data folder is lost.

The text is cut into ConfigMaps of one of two slots, in turn; a head names the slot, so that a writer that is killed
leaves the former copy whole.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import zlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from compiler.repository.tree import Repository
from reconciler.cluster.client import ApiError, Client, LostLease, NotFound
from reconciler.cluster.objects import Ref
from reconciler.inventory.shards import UNREADABLE, memory_labels
from reconciler.planning.snapshot import Snapshot
from reconciler.threads.heartbeat import Heartbeat
from reconciler.timings import TIMINGS, PlanCopyTimings

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
CHUNK = 512 << 10
"""Bytes of a ConfigMap of the copy; the limit is 1 MiB."""
MAX_CHUNKS = 32
"""Limit of a copy: from a larger one the files are left out, and a still larger one is not stored."""
_HEAD_KEY, _CHUNK_KEY = "plan.json", "plan.gz"


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A plan, and the files of its commit; None where they were too large."""

    snapshot: Snapshot
    tree: Repository | None


@dataclass(slots=True)
class PlanCopy:
    """Reads and writes the copy. Writing is done by a thread of its own, after everything that is urgent. _written: by
    name of the ConfigMaps of the copy that this process has written, the checksum of the content."""

    client: Client
    namespace: str
    cluster: str
    timings: PlanCopyTimings = TIMINGS.plan_copy
    max_chunks: int = MAX_CHUNKS
    _slot: str = "b"
    _stored: tuple[str, str] = ("", "")
    _written: Mapping[str, int] = field(default_factory=dict)
    _checks: int = 0
    _next_at: float = 0.0
    _retry_at: float = 0.0
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "plan-copy"))
    _writing: Future[None] | None = None
    heartbeat: Heartbeat = field(init=False)

    def __post_init__(self) -> None:
        self.heartbeat = Heartbeat("plan-copy", self.timings.heartbeat_limit)

    @property
    def ref(self) -> Ref:
        return Ref("v1", "ConfigMap", self.namespace, f"gangplan-{self.cluster}-plan")

    def offer(self, plan: KeptPlan, now: float) -> None:
        """Keep this plan: at once if its commit is new, else not too often. Returns at once."""
        names = (plan.snapshot.commit, str(plan.snapshot.plan.get("digest", "")))
        is_due = names[0] != self._stored[0] or (names != self._stored and now >= self._next_at)
        if is_due and now >= self._retry_at and (self._writing is None or self._writing.done()):
            self._stored, self._next_at = names, now + self.timings.interval
            retry_at = now + self.timings.failure_pause
            try:
                self._writing = self._thread.submit(self._write_or_log, plan, retry_at)
            except RuntimeError as error:  # no thread can be started
                self._note_failure(retry_at)
                self.heartbeat.record_error(error)

    def recheck(self) -> None:
        """Let the copy be written again if one of its ConfigMaps, another one at each call, was deleted or changed by
        hand."""
        if not self._written or (self._writing is not None and not self._writing.done()):
            return
        self._checks += 1
        name = sorted(self._written)[self._checks % len(self._written)]
        try:
            found = self.client.get_briefly(Ref("v1", "ConfigMap", self.namespace, name))
        except NotFound:
            found = {}
        except ApiError:
            return
        if _checksum(found) != self._written[name]:
            log.warning("a part of the copy of the plan was deleted or changed by hand; it is written again")
            self._stored, self._written = ("", ""), {}

    def wait(self) -> None:
        """Wait for the end of a write."""
        if self._writing is not None:
            self._writing.result()

    def _write_or_log(self, plan: KeptPlan, retry_at: float) -> None:
        self.heartbeat.beat()
        try:
            self.write(plan)
        except Exception as error:
            self._note_failure(retry_at)
            if not isinstance(error, (ApiError, LostLease)):
                self.heartbeat.record_error(error)
            log.warning("the copy of the plan in the cluster was not written", extra={"reason": str(error)})
        finally:
            self.heartbeat.rest()

    def _note_failure(self, retry_at: float) -> None:
        self._stored, self._retry_at = ("", ""), retry_at

    def write(self, plan: KeptPlan) -> None:
        """Write the copy into the other slot, then the head. Raises ApiError."""
        packed = _pack(plan)
        if len(packed) > self.max_chunks * CHUNK:
            packed = _pack(KeptPlan(plan.snapshot, None))
        if len(packed) > self.max_chunks * CHUNK:
            log.warning("the plan is too large for a copy in the cluster", extra={"bytes": len(packed)})
            return
        slot = "a" if self._slot == "b" else "b"
        written = dict[str, int]()
        chunks = [packed[at : at + CHUNK] for at in range(0, len(packed), CHUNK)]
        for index, chunk in enumerate(chunks):
            content = {"binaryData": {_CHUNK_KEY: base64.b64encode(chunk).decode()}}
            self._put(f"{self.ref.name}-{slot}-{index}", content, written)
        checksum = zlib.crc32(packed)
        head = {"version": FORMAT_VERSION, "commit": plan.snapshot.commit, "slot": slot, "chunks": len(chunks)}
        text = json.dumps({**head, "checksum": checksum}, indent=1) + "\n"
        self._put(self.ref.name, {"data": {_HEAD_KEY: text}}, written)
        self._slot, self._written = slot, written

    def read(self) -> KeptPlan | None:
        """Return the copy; None if none can be read. Raises ApiError."""
        try:
            return self._read_slot(json.loads(self.client.get(self.ref)["data"][_HEAD_KEY]))
        except NotFound:
            return None
        except UNREADABLE as error:
            log.warning("the copy of the plan in the cluster cannot be read", extra={"reason": str(error)})
            return None

    def _read_slot(self, head: Mapping[str, Any]) -> KeptPlan:
        if head["version"] > FORMAT_VERSION:
            raise ValueError(f"it is of format {head['version']}, this gangplan knows {FORMAT_VERSION}")
        names = (f"{self.ref.name}-{head['slot']}-{index}" for index in range(head["chunks"]))
        items = [self.client.get(Ref("v1", "ConfigMap", self.namespace, name)) for name in names]
        packed = b"".join(base64.b64decode(item["binaryData"][_CHUNK_KEY]) for item in items)
        if zlib.crc32(packed) != head["checksum"]:
            raise ValueError("its parts do not belong together")
        self._slot = head["slot"]
        data, tree = json.loads(gzip.decompress(packed)), None
        if data["tree"] is not None:
            files = {path: base64.b64decode(content) for path, content in data["tree"]["files"].items()}
            tree = Repository(files, data["tree"]["dates"])
        return KeptPlan(Snapshot.from_json(data["snapshot"]), tree)

    def _put(self, name: str, content: Mapping[str, Any], written: dict[str, int]) -> None:
        self.heartbeat.beat()
        metadata = {"namespace": self.namespace, "name": name, "labels": memory_labels(self.cluster)}
        self.client.apply_anyway({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content})
        written[name] = _checksum(content)


def _checksum(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps([content.get("data"), content.get("binaryData")], sort_keys=True).encode())


def _pack(plan: KeptPlan) -> bytes:
    tree = None
    if plan.tree is not None:
        files = {path: base64.b64encode(content).decode() for path, content in plan.tree.files.items()}
        tree = {"files": files, "dates": dict(plan.tree.commit_dates)}
    text = json.dumps({"snapshot": plan.snapshot.as_json(), "tree": tree})
    return gzip.compress(text.encode(), compresslevel=3, mtime=0)
