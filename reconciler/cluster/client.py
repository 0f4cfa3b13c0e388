"""A thin REST client on the kubernetes package: its configuration and authentication, our own requests, plain JSON.

No typed models (they reject fields that they do not know), no request without a time limit, and an error class for each
reaction of the caller (docs/decisions/0015-kubernetes-client.md):

    ApiError
    +-- Retry          429, 5xx, timeouts, broken or truncated answers: try again after `after` seconds
    +-- Gone           410: the resource version or continue token is too old; list again
    +-- NotFound       404
    +-- Conflict       409: `owners` names the field managers in the way
    +-- Forbidden      403: a right is missing
    +-- Unauthorized   401, also with freshly read credentials
    +-- Invalid        400, 422, and what an admission webhook denied: this object cannot be written so
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from reconciler.cluster.objects import FIELD_MANAGER, Object, Ref, ref_of

TIMEOUT = (5.0, 30.0)
"""Seconds to connect and to wait for the next byte."""
PAGE_SIZE = 500
APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


class ApiError(Exception):
    """The API server did not do what was requested."""


class Retry(ApiError):
    def __init__(self, message: str, after: float = 1.0) -> None:
        super().__init__(message)
        self.after = after


class Gone(ApiError):
    pass


class NotFound(ApiError):
    pass


class Forbidden(ApiError):
    pass


class Unauthorized(ApiError):
    pass


class Invalid(ApiError):
    pass


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """A field and the manager that owns it, from a server-side apply conflict."""

    manager: str
    field: str


class Conflict(ApiError):
    def __init__(self, message: str, owners: tuple[FieldOwner, ...] = ()) -> None:
        super().__init__(message)
        self.owners = owners


class Response(Protocol):
    status: int

    @property
    def headers(self) -> Mapping[str, str]: ...
    def read(self) -> bytes: ...
    def lines(self) -> Iterator[bytes]: ...
    def close(self) -> None: ...


class Transport(Protocol):
    """One configured connection to an API server; raises OSError (or a subclass of it) when the wire breaks."""

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, timeout: tuple[float, float]
    ) -> Response: ...


@dataclass(frozen=True, slots=True)
class Resource:
    """The REST resource of a kind."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        path = f"{root}{scope}/{self.plural}"
        if name:
            path += f"/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


KNOWN_RESOURCES = {
    (r.api_version, r.kind): r
    for r in (
        Resource("v1", "Node", "nodes", False),
        Resource("v1", "Pod", "pods", True),
        Resource("v1", "ConfigMap", "configmaps", True),
        Resource("v1", "Event", "events", True),
        Resource("v1", "ResourceQuota", "resourcequotas", True),
        Resource("coordination.k8s.io/v1", "Lease", "leases", True),
        Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
        Resource("scheduling.volcano.sh/v1beta1", "Queue", "queues", False),
        Resource("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", True),
        Resource("topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes", False),
        Resource("batch.volcano.sh/v1alpha1", "Job", "jobs", True),
        Resource("kubeflow.org/v1", "PyTorchJob", "pytorchjobs", True),
        Resource("batch/v1", "Job", "jobs", True),
        Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
        Resource("nodeinfo.volcano.sh/v1alpha1", "Numatopology", "numatopologies", False),
    )
}


@dataclass(slots=True)
class Client:
    """Requests to one API server. `connect` reads the credentials and returns a transport; it is called again, once for
    a request, when the server answers 401."""

    connect: Callable[[], Transport]
    _transport: Transport | None = None
    _resources: dict[tuple[str, str], Resource] = field(default_factory=lambda: dict(KNOWN_RESOURCES))

    def resource(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind, by discovery unless it is in `KNOWN_RESOURCES`. Raises NotFound for a kind that is
        not served."""
        if (api_version, kind) not in self._resources:
            path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            for entry in self.request("GET", path).get("resources") or ():
                if "/" not in entry["name"]:
                    found = Resource(api_version, entry["kind"], entry["name"], bool(entry["namespaced"]))
                    self._resources.setdefault((api_version, entry["kind"]), found)
        try:
            return self._resources[api_version, kind]
        except KeyError:
            raise NotFound(f"the cluster serves no kind {kind} in {api_version}") from None

    def path_of(self, ref: Ref, subresource: str = "") -> str:
        resource = self.resource(ref.api_version, ref.kind)
        return resource.path(ref.namespace or ("default" if resource.namespaced else ""), ref.name, subresource)

    def get(self, ref: Ref) -> Object:
        return self.request("GET", self.path_of(ref))

    def list(self, resource: Resource, namespace: str = "", selector: str = "") -> tuple[list[Object], str]:
        """All pages, and the resource version at which to begin a watch. Items get the apiVersion and kind that lists
        leave out."""
        items: list[Object] = []
        query = {"limit": str(PAGE_SIZE), **({"labelSelector": selector} if selector else {})}
        while True:
            page = self.request("GET", resource.path(namespace), query)
            meta = page.get("metadata") or {}
            items += [
                {"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in page.get("items") or ()
            ]
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion") or "")
            query["continue"] = meta["continue"]

    def watch(self, resource: Resource, version: str, seconds: int, selector: str = "") -> Iterator[bytes]:
        """The lines of one watch request, until the server ends it after `seconds`. A silent connection is closed
        shortly after that."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        if selector:
            query["labelSelector"] = selector
        response = self._send("GET", resource.path(), query, None, {}, (TIMEOUT[0], seconds + 30.0))
        try:
            yield from response.lines()
        except OSError as error:
            raise Retry(f"the watch of {resource.plural} broke: {short_error(error)}") from error
        finally:
            response.close()

    def apply(self, item: Object, *, force: bool = False) -> Object:
        """Server-side apply. Raises Conflict naming managers and fields when another manager holds a field (unless
        `force`)."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false", "fieldValidation": "Strict"}
        return self.request("PATCH", self.path_of(ref_of(item)), query, item, APPLY_PATCH)

    def create(self, item: Object) -> Object:
        ref = ref_of(item)
        resource = self.resource(ref.api_version, ref.kind)
        return self.request("POST", resource.path(ref.namespace), {"fieldManager": FIELD_MANAGER}, item)

    def replace(self, item: Object) -> Object:
        """PUT; with metadata.resourceVersion set, only if the object has not been written since."""
        return self.request("PUT", self.path_of(ref_of(item)), {"fieldManager": FIELD_MANAGER}, item)

    def patch(self, ref: Ref, operations: Sequence[Mapping[str, Any]]) -> Object:
        """JSON patch; a failed `test` is Invalid."""
        return self.request("PATCH", self.path_of(ref), {"fieldManager": FIELD_MANAGER}, list(operations), JSON_PATCH)

    def delete(self, ref: Ref, uid: str) -> None:
        """Delete the object with this uid, not a namesake; its dependents are collected in the background."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        self.request("DELETE", self.path_of(ref), {}, body)

    def evict(self, ref: Ref, uid: str) -> None:
        """Ask for the end of a pod by the Eviction API, which keeps disruption budgets and grace periods. Raises Retry
        where a budget forbids it now."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        self.request("POST", self.path_of(ref, "eviction"), {}, body)

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Object:
        headers = {"Content-Type": content_type} if body is not None else {}
        data = json.dumps(body).encode() if body is not None else None
        response = self._send(method, path, query or {}, data, headers, TIMEOUT)
        try:
            answer: Object = json.loads(response.read() or b"{}")
        except (ValueError, OSError) as error:
            raise Retry(f"the answer to {method} {path} broke off: {short_error(error)}") from error
        finally:
            response.close()
        return answer

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: tuple[float, float],
    ) -> Response:
        address = f"{path}?{urlencode(query)}" if query else path
        for fresh in (False, True):
            if self._transport is None or fresh:
                self._transport = self.connect()
            try:
                response = self._transport.send(
                    method, address, {"Accept": "application/json", **headers}, body, timeout
                )
                if response.status < 400:
                    return response
                text = response.read()
            except OSError as error:
                raise Retry(f"{method} {path}: {short_error(error)}") from error
            response.close()
            if response.status != 401:
                raise _api_error(method, path, response.status, response.headers, text)
        raise Unauthorized(f"{method} {path}: the server does not accept the credentials")


def _api_error(method: str, path: str, status: int, headers: Mapping[str, str], text: bytes) -> ApiError:
    """The server's Status object as one of our errors. Only its short message is kept, no headers and no body."""
    try:
        answer = json.loads(text)
        message = str(answer.get("message") or "")
        causes = (answer.get("details") or {}).get("causes") or ()
    except (ValueError, AttributeError):
        message, causes = text[:200].decode("utf-8", "replace"), ()
    summary = f"{method} {path}: {status}: {message[:2000]}"
    simple: dict[int, type[ApiError]] = {400: Invalid, 404: NotFound, 405: NotFound, 410: Gone, 422: Invalid}
    if status == 409:
        return Conflict(
            summary, tuple(_field_owner(cause) for cause in causes if cause.get("reason") == "FieldManagerConflict")
        )
    if status == 403:
        return Invalid(summary) if message.startswith("admission webhook") else Forbidden(summary)
    if status in simple:
        return simple[status](summary)
    return Retry(summary, _retry_after(headers))


def _field_owner(cause: Mapping[str, Any]) -> FieldOwner:
    """causes[].message reads: conflict with "kubectl-edit" using scheduling.volcano.sh/v1beta1."""
    named = re.search(r'"([^"]*)"', str(cause.get("message") or ""))
    return FieldOwner(named[1] if named else "another manager", str(cause.get("field") or ""))


def _retry_after(headers: Mapping[str, str]) -> float:
    try:
        return min(max(float(headers.get("Retry-After") or 1), 0.1), 300.0)
    except ValueError:
        return 1.0


def short_error(error: BaseException) -> str:
    """Type and beginning of an error's message."""
    return f"{type(error).__name__}: {str(error)[:200]}"
