"""A thin REST client on the kubernetes package: its configuration and authentication, our own requests, plain JSON.

No typed models (they reject fields that they do not know), no request without a time limit, and an error class for each
reaction of the caller (docs/develop/decisions/0015-kubernetes-client.md):

    ApiError
    +-- Retry          429, 5xx, timeouts, credentials that cannot be read, answers that are broken off or no object of
    |   |              the kind that was asked for, admission that is not ready: try again after `after` seconds
    |   +-- Silent     a watch on which nothing arrives any more
    +-- Gone           410: the resource version or continue token is too old; list again
    +-- NotFound       404
    |   +-- NotServed  discovery does not show the kind
    +-- Conflict       409: `owners` names the field managers in the way
    +-- Forbidden      403: a right is missing, or the namespace is being deleted
    +-- Unauthorized   401, also with freshly read credentials
    +-- Invalid        400, 413, 422, and any other 403 to a write, which is how admission refuses (webhooks, policies,
                       PodSecurity, quotas): this object cannot be written so

and LostLease, which is none of them: the fence did not let a write pass, so it was not sent.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

from reconciler.cluster.objects import (
    FIELD_MANAGER,
    KNOWN_RESOURCES,
    Object,
    Ref,
    Resource,
    group_path,
    is_list,
    is_object,
    ref_of,
    resources_of,
)
from reconciler.cluster.rate import RateLimit, retry_after
from reconciler.timings import TIMINGS, ClientTimings, Limits

PAGE_SIZE = 500
_NO_MATTER_OF_THE_OBJECT = re.compile(r'User "[^"]*" cannot |because it is being terminated')
"""In a 403: the authorizer's words (forbiddenMessage of k8s.io/apiserver), and those about a namespace that is being
deleted."""
_ADMISSION_NOT_READY = "not yet ready to handle request"
"""In a 403 of an API server that has just started: its admission has not read policies or namespaces yet."""
WEBHOOK_DENIAL = "admission webhook"
"""The beginning of the server's message where a webhook refused, whatever status the webhook chose."""
APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
Page = tuple[list[Object], str]
"""A part of a list, and the resource version of the whole."""
NO_VERSION = "1"
"""A resource version that no object has: etcd gives 1 to its empty store. An apply that names it can only create."""


class LostLease(Exception):
    """Another replica acts now; this one stops writing at once."""


class ApiError(Exception):
    """The API server did not do what was requested."""


class Retry(ApiError):
    """is_answer: whether the server itself returned it, including for a webhook that did not answer the server."""

    def __init__(self, message: str, after: float = 1.0, *, is_answer: bool = False) -> None:
        super().__init__(message)
        self.after, self.is_answer = after, is_answer


class Silent(Retry):
    """A watch on which nothing arrives any more."""


class Gone(ApiError): ...


class NotFound(ApiError): ...


class NotServed(NotFound):
    """Discovery does not show the kind; its objects are unknown."""


class Forbidden(ApiError): ...


class Unauthorized(ApiError): ...


class Invalid(ApiError): ...


class FieldOwner(NamedTuple):
    """A field and the manager that owns it, from a server-side apply conflict."""

    field: str
    manager: str


class Conflict(ApiError):
    """owners: of the fields in the way; none where the object itself is another, newer or gone."""

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
    """One configured connection; raises OSError where the wire breaks, and TimeoutError where a limit was passed."""

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, limits: Limits
    ) -> Response: ...


@dataclass(slots=True)
class Client:
    """Requests to one API server.

    `connect` reads address and credentials and returns a transport. It is called again, once for a request, when the
    server answers 401, and now and then where no request succeeds: a kubeconfig that was being rewritten may have named
    another server. admit: asked before each request; fence: before each that writes. An exception of theirs
    (StopRequestedError, LostLease) stops the request unsent. _unanswered: path of a brief read that timed out -> the
    error, and until when it is raised again without a request.
    """

    connect: Callable[[], Transport]
    timings: ClientTimings = TIMINGS.client
    admit: Callable[[], None] = lambda: None
    fence: Callable[[], None] = lambda: None
    rate: RateLimit = field(default_factory=RateLimit)
    _transport: Transport | None = None
    _connected_at: float = 0.0
    _resources: dict[tuple[str, str], Resource] = field(default_factory=lambda: dict(KNOWN_RESOURCES))
    _unserved_until: dict[tuple[str, str], float] = field(default_factory=dict)
    _unanswered: dict[str, tuple[str, float]] = field(default_factory=dict)

    def ask_before_requests(self, admit: Callable[[], None]) -> None:
        """Set `admit`."""
        self.admit = admit

    def ask_before_writes(self, fence: Callable[[], None]) -> None:
        """Set `fence`."""
        self.fence = fence

    def resource(self, api_version: str, kind: str) -> Resource:
        """Return the resource of a kind, by discovery unless it is known. Raises NotServed."""
        named = (api_version, kind)
        if named not in self._resources and time.monotonic() >= self._unserved_until.get(named, 0.0):
            found = {(each.api_version, each.kind): each for each in self._discover(api_version)}
            self._resources.update(found)  # in place: other threads discover other kinds meanwhile
            if named not in found:
                self._unserved_until[named] = time.monotonic() + self.timings.unserved
        try:
            return self._resources[named]
        except KeyError:
            raise NotServed(f"the cluster serves no kind {kind} in {api_version}") from None

    def is_served(self, resource: Resource) -> bool:
        """Return whether discovery shows the resource, asked live."""
        return resource in self._discover(resource.api_version)

    def served_version(self, api_version: str, kind: str) -> str:
        """Return the version in which discovery shows a kind: this one, else the first of its group. Raises
        NotServed."""
        if self._shows(api_version, kind):
            return api_version
        self._resources.pop((api_version, kind), None)
        group = api_version.rpartition("/")[0]
        answer = self._read_briefly(f"/apis/{group}") if group else {}  # the core group has one version
        for each in (answer.get("preferredVersion"), *(answer.get("versions") or ())):
            other = str(each.get("groupVersion")) if isinstance(each, Mapping) else ""
            if other and self._shows(other, kind):
                return other
        raise NotServed(f"the cluster serves no kind {kind} in {api_version}")

    def _shows(self, api_version: str, kind: str) -> bool:
        return any(each.kind == kind for each in self._discover(api_version))

    def _discover(self, api_version: str) -> list[Resource]:
        path = group_path(api_version)
        try:
            return resources_of(api_version, self._read_briefly(path))
        except NotFound:
            return []
        except (KeyError, TypeError) as error:
            raise Retry(f"the answer to GET {path} is not a list of resources: {short_error(error)}") from error

    def path_of(self, ref: Ref, subresource: str = "") -> str:
        """Return the path of the object; without a name, that of all in its namespace."""
        resource = self.resource(ref.api_version, ref.kind)
        return resource.path(ref.namespace or ("default" if resource.namespaced else ""), ref.name, subresource)

    def get(self, ref: Ref) -> Object:
        return self._request_object("GET", self.path_of(ref), {})

    def get_briefly(self, ref: Ref) -> Object:
        """Return the object, where the loop waits for it and can do without."""
        return _object_of(self._read_briefly(self.path_of(ref)), f"GET {ref}")

    def find(self, ref: Ref) -> Object | None:
        """Return the current object on the server; None only if both a get and a list show that it does not exist. The
        loop waits for it. A 404 alone may also mean that its kind is not served in this version; then another version
        is requested. Raises NotServed where no version is served."""
        try:
            return self._find(ref)
        except NotFound:
            return self._find(ref._replace(api_version=self.served_version(ref.api_version, ref.kind)))

    def _find(self, ref: Ref) -> Object | None:
        try:
            return self.get_briefly(ref)
        except NotFound:
            return self.find_by_list(ref)

    def find_by_list(self, ref: Ref) -> Object | None:
        """Return the object, or None, by a list with its name, which needs only the right to list. The loop waits for
        it."""
        path = self.path_of(ref._replace(name=""))
        page = self._read_briefly(f"{path}?{urlencode({'fieldSelector': f'metadata.name={ref.name}'})}")
        found = _items_of(page, self.resource(ref.api_version, ref.kind), path)
        return found[0] if found else None

    def warnings_about(self, ref: Ref, uid: str) -> list[Object]:
        """Return Events, in a short time or not at all; of many, some."""
        resource = self.resource("v1", "Event")
        path, selector = resource.path(ref.namespace), f"involvedObject.uid={uid},type=Warning"
        query = {"fieldSelector": selector, "limit": str(PAGE_SIZE)}
        return _items_of(self.request("GET", path, query, limits=self.timings.brief), resource, path)

    def list(self, resource: Resource, namespace: str = "", selector: str = "") -> tuple[list[Object], str]:
        """List all pages; returns the resource version at which to begin a watch too."""
        pages = [*self.pages(resource, namespace, selector)]
        return [item for items, _ in pages for item in items], pages[-1][1]

    def pages(self, resource: Resource, namespace: str = "", selector: str = "") -> Iterator[Page]:
        """Yield the pages of a list. Raises Retry for an answer that is not a list: it is never taken for an empty
        one."""
        path = resource.path(namespace)
        query = {"limit": str(PAGE_SIZE), **({"labelSelector": selector} if selector else {})}
        while True:
            page = self.request("GET", path, query, limits=self.timings.page)
            items, meta = _items_of(page, resource, path), page["metadata"]
            yield items, str(meta["resourceVersion"])
            token = meta.get("continue") or ""
            if not token:
                return
            if token == query.get("continue"):
                raise Retry(f"the list of {path} does not come to an end")
            query["continue"] = token

    def watch(self, resource: Resource, version: str, seconds: int, selector: str = "") -> Iterator[bytes]:
        """Yield the lines of one watch request, until the server ends it after `seconds`. Raises Silent when no line
        arrives."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        }
        query |= {"labelSelector": selector} if selector else {}
        timings = self.timings
        limits = Limits(timings.request.connect, timings.watch_silence, seconds + timings.watch_grace)
        response = self._send("GET", resource.path(), query, None, limits)
        try:
            yield from response.lines()
        except TimeoutError as error:
            raise Silent(f"nothing came on the watch of {resource.plural}: {short_error(error)}") from error
        except OSError as error:
            raise Retry(f"the watch of {resource.plural} broke: {short_error(error)}") from error
        finally:
            response.close()

    def apply(self, item: Object, uid: str, *, force: bool = False, dry_run: bool = False) -> Object:
        """Change the object with this uid by server-side apply, never create one. Raises Conflict: naming managers and
        fields when another manager holds a field (unless `force`), naming none when the object does not exist any
        more."""
        return self._apply(item, {"uid": uid}, force, dry_run)

    def create_by_apply(self, item: Object, *, dry_run: bool = False) -> Object:
        """Make the object by server-side apply, so that its fields are applied ones from the start; it changes none.
        Raises Conflict when the object exists (docs/develop/decisions/0018-fencing.md)."""
        return self._apply(item, {"resourceVersion": NO_VERSION}, False, dry_run)

    def apply_anyway(self, item: Object) -> Object:
        """Make or change an object that belongs to this reconciler alone."""
        return self._apply(item, {}, True)

    def _apply(self, item: Object, identity: Mapping[str, str], force: bool, dry_run: bool = False) -> Object:
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        body = {**item, "metadata": {**item["metadata"], **identity}}
        return self._request_object("PATCH", self.path_of(ref_of(item)), query, body, APPLY_PATCH)

    def create(self, item: Object) -> Object:
        ref = ref_of(item)
        resource = self.resource(ref.api_version, ref.kind)
        return self._request_object("POST", resource.path(ref.namespace), {"fieldManager": FIELD_MANAGER}, item)

    def replace(self, item: Object) -> Object:
        """Replace the object by PUT; with metadata.resourceVersion set, only if it has not been written since."""
        return self._request_object("PUT", self.path_of(ref_of(item)), {"fieldManager": FIELD_MANAGER}, item)

    def patch(self, ref: Ref, operations: Sequence[Mapping[str, Any]]) -> Object:
        """Change the object by a JSON patch; a failed `test` is Invalid."""
        query = {"fieldManager": FIELD_MANAGER}
        return self._request_object("PATCH", self.path_of(ref), query, list(operations), JSON_PATCH)

    def delete(self, ref: Ref, uid: str) -> None:
        """Delete the object with this uid, not a namesake; its dependents are collected in the background."""
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        self.request("DELETE", self.path_of(ref), {}, {"apiVersion": "v1", "kind": "DeleteOptions", **options})

    def evict(self, ref: Ref, preconditions: Mapping[str, str]) -> None:
        """Ask for the end of a pod by the Eviction API, if its metadata is so. Raises Retry where a disruption budget
        forbids it now."""
        named = {"metadata": {"name": ref.name, "namespace": ref.namespace}}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            **named,
            "deleteOptions": {"preconditions": dict(preconditions)},
        }
        self.request("POST", self.path_of(ref, "eviction"), {}, body)

    def _request_object(
        self, method: str, path: str, query: Mapping[str, str], body: Any = None, content_type: str = "application/json"
    ) -> Object:
        """Return the answer, which is recorded as the object's state. Raises Retry for an answer that is not an
        object."""
        return _object_of(self.request(method, path, query, body, content_type), f"{method} {path}")

    def _read_briefly(self, path: str) -> Object:
        """Return the answer to a GET. After a timeout, the same error is raised for a while without a request. Raises
        Retry."""
        now = time.monotonic()
        recent = {known: row for known, row in self._unanswered.items() if row[1] > now}
        if path in recent:
            raise Retry(recent[path][0])
        try:
            return self.request("GET", path, limits=self.timings.brief)
        except Retry as error:
            if not error.is_answer and isinstance(error.__cause__, TimeoutError):
                self._unanswered = {**recent, path: (str(error), time.monotonic() + self.timings.unanswered)}
            raise

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        limits: Limits | None = None,
    ) -> Object:
        """Return the answer, a JSON object. Raises Retry for any other answer."""
        data = (content_type, json.dumps(body).encode()) if body is not None else None
        response = self._send(method, path, query or {}, data, limits or self.timings.request)
        try:
            answer = json.loads(response.read() or b"{}")
        except (ValueError, OSError, RecursionError) as error:
            raise Retry(f"the answer to {method} {path} broke off: {short_error(error)}") from error
        finally:
            response.close()
        if not isinstance(answer, dict):
            raise Retry(f"the answer to {method} {path} is not an object: {str(answer)[:80]}")
        return answer

    def _send(
        self, method: str, path: str, query: Mapping[str, str], data: tuple[str, bytes] | None, limits: Limits
    ) -> Response:
        """data: its content type, and the body."""
        address = f"{path}?{urlencode(query)}" if query else path
        headers = {"Accept": "application/json", **({"Content-Type": data[0]} if data else {})}
        for fresh in (False, True):
            self.admit()
            transport = self._current_transport(fresh)
            if method != "GET":
                self._admit_write(method, path)
            try:
                response = transport.send(method, address, headers, data[1] if data else None, limits)
                if 200 <= response.status < 300:  # a proxy that sends elsewhere has done nothing
                    return response
                text = response.read()
            except OSError as error:
                self._give_up(transport)
                raise Retry(f"{method} {path}: {short_error(error)}") from error
            response.close()
            if response.status != 401:
                refusal = _api_error(method, path, response.status, response.headers, text)
                self._obey_pause(path, response, refusal)
                raise refusal
        raise Unauthorized(f"{method} {path}: the server does not accept the credentials")

    def _admit_write(self, method: str, path: str) -> None:
        """Wait for the turn of a request that writes, then ask the fence."""
        if left := self.rate.take_turn(path):
            raise Retry(f"{method} {path}: not sent, the API server asked to wait", left)
        self.fence()

    def _obey_pause(self, path: str, response: Response, error: ApiError) -> None:
        """Let all writers wait when the server asks one to for its load: not for a budget or a webhook."""
        is_of_server = not path.endswith("/eviction") and not server_message(error).startswith(WEBHOOK_DENIAL)
        if isinstance(error, Retry) and response.headers.get("Retry-After") and is_of_server:
            self.rate.pause(error.after, path)

    def _current_transport(self, fresh: bool) -> Transport:
        """Return the transport, with fresh credentials if asked. A half-written kubeconfig makes any kind of
        exception."""
        transport = self._transport
        if transport is None or fresh:
            try:
                transport = self._transport = self.connect()
            except Exception as error:
                raise Retry(f"the credentials cannot be read: {short_error(error)}") from error
            self._connected_at = time.monotonic()
        return transport

    def _give_up(self, transport: Transport) -> None:
        """Connect again with the next request, unless that was done a moment ago."""
        if self._transport is transport and time.monotonic() - self._connected_at >= self.timings.reconnect:
            self._transport = None


def _object_of(answer: Object, what: str) -> Object:
    """Return the answer; raises Retry where it is not an object."""
    if not is_object(answer):
        raise Retry(f"the answer to {what} is not an object: {json.dumps(answer)[:80]}")
    return answer


def _items_of(page: Object, resource: Resource, path: str) -> list[Object]:
    """Return the objects of a list, with the apiVersion and kind that lists leave out. Raises Retry where it is not a
    list."""
    if not is_list(page):
        raise Retry(f"the answer to GET {path} is not a list")
    header = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**header, **item} for item in page["items"] or ()]


def _api_error(method: str, path: str, status: int, headers: Mapping[str, str], text: bytes) -> ApiError:
    """Return the server's Status object as one of our errors. Only its short message is kept, no headers and no
    body."""
    try:
        answer = json.loads(text)
        message = str(answer.get("message") or "")
        causes = [{**cause} for cause in (answer.get("details") or {}).get("causes") or ()]
    except (ValueError, AttributeError, TypeError, RecursionError):
        message, causes = text[:200].decode("utf-8", "replace"), []
    summary = f"{method} {path}: {status}: {message[:2000]}"
    simple = {404: NotFound, 405: NotFound, 410: Gone, 400: Invalid, 413: Invalid, 422: Invalid}
    if status == 409:
        named = (cause for cause in causes if cause.get("reason") == "FieldManagerConflict")
        return Conflict(summary, tuple(map(_field_owner, named)))
    if any(cause.get("field") == "metadata.uid" for cause in causes):
        return Conflict(summary)
    if status == 403 and _ADMISSION_NOT_READY not in message:
        is_refusal = method != "GET" and not _NO_MATTER_OF_THE_OBJECT.search(message)
        return (Invalid if is_refusal else Forbidden)(summary)
    if status in simple:
        return simple[status](summary)
    return Retry(summary, retry_after(headers), is_answer=True)


def _field_owner(cause: Mapping[str, Any]) -> FieldOwner:
    """causes[].message reads: conflict with "kubectl-edit" using scheduling.volcano.sh/v1beta1."""
    named = re.search(r'"([^"]*)"', str(cause.get("message") or ""))
    return FieldOwner(str(cause.get("field") or ""), named[1] if named else "another manager")


def server_message(error: ApiError) -> str:
    """Return the server's message, without the request."""
    return re.sub(r"^[A-Z]+ \S+: \d{3}: ", "", str(error))


def short_error(error: BaseException) -> str:
    """Type and beginning of an error's message."""
    return f"{type(error).__name__}: {str(error)[:200]}"
