"""An API server of one dictionary: names, uids, versions and server-side apply as far as the writer needs them,
and faults where a test wants them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reconciler.cluster.client import Client
from reconciler.cluster.objects import KNOWN_RESOURCES
from reconciler.timings import Limits
from tests.builders.scripted_server import ScriptedAnswer, error_answer

Fault = Callable[[str, str, Any], ScriptedAnswer | None]
"""(method, path, body) -> the answer instead of the cluster's, None for its own."""
PLURALS = frozenset(resource.plural for resource in KNOWN_RESOURCES.values())
SUBRESOURCES = frozenset({"eviction"})


class FakeCluster:
    """objects: path of an object -> the object. writes: (method, path) of each request that is no GET. `before` may
    answer instead of the cluster, `after` may replace what was done, as when an answer is lost."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.before: Fault = lambda method, path, body: None
        self.after: Fault = lambda method, path, body: None
        self.version = 100
        self._lock = threading.Lock()

    def client(self) -> Client:
        return Client(lambda: self)

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(method, path.partition("?")[0]) for method, path, _ in self.requests if method != "GET"]

    def fail(self, answer: ScriptedAnswer, part: str = "", method: str = "", times: float = inf) -> None:
        """Answer so from now on, or so often, where the path has this part and the method is this one."""
        left = times

        def fault(sent: str, path: str, body: Any) -> ScriptedAnswer | None:
            nonlocal left
            if part not in path or method not in ("", sent) or left <= 0:
                return None
            left -= 1
            return answer

        self.before = fault

    def recover(self) -> None:
        """Let no fault be left."""
        self.before = lambda method, path, body: None

    def put(self, path: str, item: Mapping[str, Any]) -> dict[str, Any]:
        """Store an object as somebody else wrote it."""
        self.version += 1
        identity = {"uid": f"uid-{self.version}", "resourceVersion": str(self.version), "creationTimestamp": "2026"}
        metadata = {**identity, **item.get("metadata", {})}
        self.objects[path] = {**item, "metadata": metadata}
        return self.objects[path]

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> ScriptedAnswer:
        said = json.loads(body) if body else None
        with self._lock:
            self.requests.append((method, path, said))
        if (fault := self.before(method, path, said)) is not None:
            return fault
        with self._lock:
            answer = self._answer(method, path, said, headers.get("Content-Type", ""))
        return self.after(method, path, said) or answer

    def _answer(self, method: str, address: str, body: Any, content: str) -> ScriptedAnswer:
        parts = urlsplit(address)
        path, query = parts.path, parse_qs(parts.query)
        is_dry = "dryRun" in query
        if path.rpartition("/")[2] in SUBRESOURCES:
            return ScriptedAnswer(201, {})
        if method == "GET":
            return self._read(path, query.get("labelSelector", [""])[0], query.get("fieldSelector", [""])[0])
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        found = self.objects.get(path)
        if method == "POST":
            return error_answer(409, "already exists") if found else self._write(path, body, is_dry)
        if content.startswith("application/apply-patch"):
            return self._apply(path, found, body, is_dry)
        if found is None:
            return error_answer(404, "not found")
        if method == "DELETE":
            if (body or {}).get("preconditions", {}).get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                return error_answer(409, "the uid in the precondition is another")
            if found["metadata"].get("finalizers"):
                found["metadata"]["deletionTimestamp"] = "2026"
            else:
                del self.objects[path]
            return ScriptedAnswer(200, {})
        if method == "PUT":
            version = body["metadata"].get("resourceVersion")
            if version and version != found["metadata"]["resourceVersion"]:
                return error_answer(409, "the object has been modified")
            return self._write(path, {**body, "metadata": {**found["metadata"], **body["metadata"]}}, is_dry)
        return self.json_patch(path, found, body)

    def _read(self, path: str, selector: str, fields: str) -> ScriptedAnswer:
        if path in self.objects:
            return ScriptedAnswer(200, self.objects[path])
        scope, _, plural = path.rpartition("/")
        if plural not in PLURALS:
            return error_answer(404, "not found")
        wanted, of_fields = (
            [pair.split("=") for pair in text.split(",") if "=" in pair] for text in (selector, fields)
        )
        items = []
        for known, item in sorted(self.objects.items()):
            labels = item["metadata"].get("labels") or {}
            is_named = known.startswith(f"{scope}/") and all(_at(item, key) == value for key, value in of_fields)
            if is_named and known.split("/")[-2] == plural and all(labels.get(key) == value for key, value in wanted):
                items.append(item)
        return ScriptedAnswer(200, {"metadata": {"resourceVersion": str(self.version)}, "items": items})

    def _apply(self, path: str, found: dict[str, Any] | None, body: Any, is_dry: bool) -> ScriptedAnswer:
        metadata = dict(body["metadata"])
        uid, version = metadata.pop("uid", None), metadata.pop("resourceVersion", None)
        if found is None and uid is not None:
            return error_answer(409, "uid mismatch: no existing object was found")
        if found is not None and uid is not None and uid != found["metadata"]["uid"]:
            return error_answer(422, "field is immutable", [{"field": "metadata.uid"}])
        if found is not None and version is not None and version != found["metadata"]["resourceVersion"]:
            return error_answer(409, "the object has been modified")
        ours = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        fields = _field_set({**ours, "metadata": metadata})
        former = json.loads(json.dumps(found or {}))
        for entry in former.get("metadata", {}).get("managedFields") or ():
            if entry["manager"] == "gangplan":
                _drop(former, {key: entry["fieldsV1"].get(key, {}) for key in ("f:data", "f:binaryData")}, fields)
        merged = _merge(former, {**body, "metadata": metadata})
        merged["metadata"]["managedFields"] = [{"manager": "gangplan", "operation": "Apply", "fieldsV1": fields}]
        return self._write(path, merged, is_dry)

    def json_patch(self, path: str, found: dict[str, Any], operations: Any) -> ScriptedAnswer:
        """Make a JSON patch, as the API server does where its tests hold."""
        try:
            return self._json_patch(path, found, operations)
        except KeyError as error:
            return error_answer(422, f"no such path: {error}")

    def _json_patch(self, path: str, found: dict[str, Any], operations: Any) -> ScriptedAnswer:
        copied = json.loads(json.dumps(found))
        for operation in operations:
            *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
            at = copied
            for step in steps:
                at = at[int(step) if isinstance(at, list) else step]
            last = int(last) if isinstance(at, list) else last
            if operation["op"] == "test":
                if at[last] != operation["value"]:
                    return error_answer(422, "the test failed")
            elif operation["op"] == "remove":
                del at[last]
            else:
                at[last] = operation["value"]
        return self._write(path, copied, False)

    def _write(self, path: str, item: dict[str, Any], is_dry: bool) -> ScriptedAnswer:
        version = self.version + 1
        metadata = {"uid": f"uid-{version}", "creationTimestamp": "2026", **item["metadata"]}
        written = {**item, "metadata": {**metadata, "resourceVersion": str(version)}}
        if not is_dry:
            self.version = version
            self.objects[path] = written
        return ScriptedAnswer(200, written)


def _merge(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merge(old.get(key), value) for key, value in new.items()}}


def _field_set(value: Any) -> dict[str, Any]:
    return {f"f:{key}": _field_set(below) for key, below in value.items()} if isinstance(value, dict) else {}


def _drop(item: dict[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Take out the fields that were applied before and are not now."""
    for field, below in before.items():
        name = field.removeprefix("f:")
        if name in item and below:
            _drop(item[name], below, now.get(field, {}))
        elif name in item and field not in now:
            del item[name]


def stored_sizes(objects: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Path of each ConfigMap -> bytes of its values; binary ones as they are sent, a third more than counts."""
    return {path: sum(_value_sizes(item)) for path, item in objects.items() if item.get("kind") == "ConfigMap"}


def _value_sizes(item: Mapping[str, Any]) -> Iterator[int]:
    for part in ("data", "binaryData"):
        for value in (item.get(part) or {}).values():
            yield len(value.encode())


def _at(item: dict[str, Any], path: str) -> Any:
    """The value at a path like metadata.name."""
    for key in path.split("."):
        item = item.get(key) or {}
    return item
