"""An API server that keeps objects in memory: resource versions, uids, conflicts and finalizers, but no fields' owners
and no watch. `before` may answer a request in its place; `requests` holds all of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reconciler.cluster.client import Client
from reconciler.timings import Limits
from tests.builders.scripted_server import ScriptedAnswer, error_answer

CONFIG_MAP_LIMIT = 1 << 20
"""Bytes of the values of a ConfigMap, as the API server counts them."""


class MemoryServer:
    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.version = 0
        self.before: Callable[[str, str, Any], ScriptedAnswer | None] = lambda method, path, body: None

    def client(self) -> Client:
        return Client(lambda: self)

    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.requests if method != "GET"]

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> ScriptedAnswer:
        address, said = urlsplit(path), json.loads(body) if body else None
        self.requests.append((method, address.path, said))
        if (answer := self.before(method, address.path, said)) is not None:
            return answer
        if method == "GET" and address.path not in self.objects:
            return self._list(address.path, parse_qs(address.query))
        return getattr(self, f"_{method.lower()}")(address.path, said)  # type: ignore[no-any-return]

    def _list(self, path: str, query: Mapping[str, list[str]]) -> ScriptedAnswer:
        if not path.endswith("s"):
            return error_answer(404, f"{path} not found")
        wanted = dict(part.split("=") for part in query.get("labelSelector", [""])[0].split(",") if part)
        items = [item for at, item in sorted(self.objects.items()) if at.rpartition("/")[0] == path]
        found = [item for item in items if wanted.items() <= (item["metadata"].get("labels") or {}).items()]
        if not items and path.rpartition("/")[2] not in ("configmaps",):
            return error_answer(404, f"{path} not found")
        return ScriptedAnswer(200, {"items": found, "metadata": {"resourceVersion": str(self.version)}})

    def _get(self, path: str, body: Any) -> ScriptedAnswer:
        return ScriptedAnswer(200, self.objects[path])

    def _post(self, path: str, body: Any) -> ScriptedAnswer:
        at = f"{path}/{body['metadata']['name']}"
        return error_answer(409, "it exists already") if at in self.objects else self._store(at, body)

    def _put(self, path: str, body: Any) -> ScriptedAnswer:
        if path not in self.objects:
            return error_answer(404, f"{path} not found")
        if body["metadata"].get("resourceVersion") != self.objects[path]["metadata"]["resourceVersion"]:
            return error_answer(409, "the object has been modified")
        return self._store(path, body)

    def _patch(self, path: str, body: Any) -> ScriptedAnswer:
        """Server-side apply as a merge; a JSON patch only says that it came."""
        if isinstance(body, list):
            return ScriptedAnswer(200, self.objects[path])
        return self._store(path, _merged(self.objects.get(path) or {}, body))

    def _delete(self, path: str, body: Any) -> ScriptedAnswer:
        item = self.objects.get(path)
        if item is None:
            return error_answer(404, f"{path} not found")
        if body and body["preconditions"]["uid"] != item["metadata"]["uid"]:
            return error_answer(409, "the uid differs")
        if item["metadata"].get("finalizers"):
            item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        else:
            del self.objects[path]
        return ScriptedAnswer(200, {})

    def _store(self, path: str, body: Any) -> ScriptedAnswer:
        assert max(stored_sizes({path: body}).values(), default=0) <= CONFIG_MAP_LIMIT, f"{path} is too large"
        former = self.objects.get(path)
        if former is not None and {**former, "metadata": _unversioned(former)} == {
            **former,
            **body,
            "metadata": {**_unversioned(former), **_unversioned(body)},
        }:
            return ScriptedAnswer(200, former)
        self.version += 1
        uid = former["metadata"]["uid"] if former else f"uid-{self.version}"
        self.objects[path] = {**body, "metadata": {"uid": uid, **body["metadata"]}}
        self.objects[path]["metadata"]["resourceVersion"] = str(self.version)
        return ScriptedAnswer(200, self.objects[path])


def _unversioned(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item["metadata"].items() if key != "resourceVersion"}


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def stored_sizes(objects: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Path of each ConfigMap -> bytes of its values; binary ones as they are sent, a third more than counts."""
    return {path: sum(_value_sizes(item)) for path, item in objects.items() if item.get("kind") == "ConfigMap"}


def _value_sizes(item: Mapping[str, Any]) -> Iterator[int]:
    for part in ("data", "binaryData"):
        for value in (item.get(part) or {}).values():
            yield len(value.encode())
