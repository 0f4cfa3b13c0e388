"""What operators ask of a reconciler beside git: leave objects alone for now, run a job again. A ConfigMap that the
commands `gangplan suspend`, `resume` and `rerun` write and the reconciler only reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from reconciler.cluster.client import Client, Conflict, NotFound
from reconciler.cluster.objects import Object, Ref

FORMAT_VERSION = 1
EVERYTHING = "all"
MAX_ATTEMPTS = 5


@dataclass(frozen=True)
class Requests:
    """suspended: `EVERYTHING`, kinds ("Queue", "Job.batch.volcano.sh") and objects (Ref.key). reruns: Ref.key of a job
    -> the digest that is to run again, and the number of that run. retries: Ref.key of a job -> how often an operator
    asked for another round of binding."""

    suspended: frozenset[str] = frozenset()
    reruns: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    retries: Mapping[str, int] = field(default_factory=dict)

    def suspends(self, ref: Ref) -> bool:
        return not self.suspended.isdisjoint((EVERYTHING, ref.kind, ref.group_kind, ref.key))

    def as_json(self) -> str:
        lists = {"suspended": sorted(self.suspended), "reruns": dict(self.reruns), "retries": dict(self.retries)}
        return json.dumps({"version": FORMAT_VERSION, **lists}, sort_keys=True, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Requests:
        """Raises ValueError for a text that holds no requests: an error is never an empty set."""
        try:
            data = json.loads(text)
            if data["version"] > FORMAT_VERSION:
                raise ValueError(f"requests of version {data['version']} are from a newer gangplan")
            reruns = {key: (str(digest), int(number)) for key, (digest, number) in data["reruns"].items()}
            retries = {key: int(number) for key, number in data["retries"].items()}
            return cls(frozenset(map(str, data["suspended"])), reruns, retries)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the requests cannot be read: {error!r}") from error


@dataclass(slots=True)
class RequestStore:
    """Reads and changes the ConfigMap of the requests."""

    client: Client
    namespace: str
    cluster: str

    @property
    def ref(self) -> Ref:
        return Ref("v1", "ConfigMap", self.namespace, f"gangplan-{self.cluster}-requests")

    def read(self) -> Requests:
        """No requests when there is no ConfigMap. Raises ApiError, or ValueError when what is there cannot be read."""
        try:
            return _requests_of(self.client.get(self.ref))
        except NotFound:
            return Requests()

    def change(self, function: Callable[[Requests], Requests]) -> Requests:
        """Replace the requests by what the function makes of them; tried again when another writer was first."""
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return self._change_once(function)
            except Conflict:
                continue
        return self._change_once(function)

    def _change_once(self, function: Callable[[Requests], Requests]) -> Requests:
        metadata: dict[str, object] = {"namespace": self.namespace, "name": self.ref.name}
        item: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        try:
            found = self.client.get(self.ref)
        except NotFound:
            changed = function(Requests())
            self.client.create({**item, "data": {"requests.json": changed.as_json()}})
            return changed
        changed = function(_requests_of(found))
        metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        self.client.replace({**item, "data": {"requests.json": changed.as_json()}})
        return changed


def _requests_of(item: Object) -> Requests:
    try:
        return Requests.from_json(item["data"]["requests.json"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"ConfigMap {item['metadata'].get('name')} holds no requests: {error!r}") from error


def with_suspended(requests: Requests, target: str) -> Requests:
    return replace(requests, suspended=requests.suspended | {target})


def with_resumed(requests: Requests, target: str) -> Requests:
    """`EVERYTHING` resumes all that is suspended."""
    left = frozenset() if target == EVERYTHING else requests.suspended - {target}
    return replace(requests, suspended=left)


def with_rerun(requests: Requests, key: str, digest: str, number: int) -> Requests:
    return replace(requests, reruns={**requests.reruns, key: (digest, number)})


def with_retry(requests: Requests, key: str) -> Requests:
    return replace(requests, retries={**requests.retries, key: requests.retries.get(key, 0) + 1})
