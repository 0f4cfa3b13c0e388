"""Checks at the start whether a reconciler can work here: a missing prerequisite is one message and an exit code."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compiler.fields.texts import short_list
from reconciler.cluster.client import ApiError, Client, Forbidden, NotFound, Retry, Unauthorized
from reconciler.cluster.rights import Right, rights_at_start
from reconciler.timings import TIMINGS, LoopTimings

VOLCANO_KINDS = (
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("scheduling.volcano.sh/v1beta1", "Queue"),
)
"""Without these nothing can be planned."""


class CannotStartError(Exception):
    """Names the missing prerequisites, in one line."""


def check_cluster(client: Client, namespace: str) -> None:
    """Raise CannotStartError for a missing kind, permission or namespace, ApiError where the server cannot answer."""
    client.request("GET", "/version")
    missing_kinds = [kind for kind in VOLCANO_KINDS if not _is_served(client, *kind)]
    if missing_kinds:
        names = ", ".join(f"{kind} ({api})" for api, kind in missing_kinds)
        raise CannotStartError(f"Volcano is not installed in this cluster: it does not know {names}")
    if missing := _missing_rights(client, namespace):
        names = short_list(list(map(str, missing)), most=1)
        fix = "apply deploy/rbac.yaml, or the output of `gangplan rbac`"
        raise CannotStartError(f"no permission to {names}. Fix: {fix}")
    _check_namespace(client, namespace)


def _is_served(client: Client, api_version: str, kind: str) -> bool:
    try:
        return client.is_served(client.resource(api_version, kind))
    except NotFound:
        return False


def _missing_rights(client: Client, namespace: str) -> list[Right]:
    """Return the permissions that this user lacks; none where the server cannot list permissions in full."""
    api, spec = "authorization.k8s.io/v1", {"namespace": namespace}
    review = {"apiVersion": api, "kind": "SelfSubjectRulesReview", "spec": spec}
    answer = client.request("POST", f"/apis/{api}/selfsubjectrulesreviews", {}, review)
    status = answer.get("status") or {}
    if status.get("incomplete") or "resourceRules" not in status:
        return []
    return [right for right in rights_at_start() if not _is_granted(right, status["resourceRules"])]


def _is_granted(right: Right, rules: Iterable[Mapping[str, Any]]) -> bool:
    wanted = (("verbs", right.verb), ("apiGroups", right.group), ("resources", right.resource))
    for rule in rules:
        if not rule.get("resourceNames") and all({name, "*"} & {*(rule.get(key) or ())} for key, name in wanted):
            return True
    return False


def _check_namespace(client: Client, namespace: str) -> None:
    """Ask for a lease without making one."""
    metadata = {"name": "gangplan-start", "namespace": namespace}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    try:
        client.request("POST", path, {"dryRun": "All"}, lease)
    except NotFound as error:
        raise CannotStartError(
            f"there is no namespace {namespace}. Fix: create it (deploy/namespace.yaml), or pass --namespace"
        ) from error


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def server_trouble(error: BaseException) -> str:
    """Return why there was no answer, in kubectl's words where it has some."""
    cause: BaseException | None = error
    where = ""
    while cause is not None:
        if (connection := getattr(cause, "conn", None)) is not None:
            where = f" {connection.host}:{connection.port}"
        if isinstance(cause, ConnectionRefusedError):
            return f"the connection to the server{where} was refused - did you specify the right host or port?"
        if isinstance(cause, socket.gaierror):
            return f"unable to connect to the server{where}: no such host"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"unable to connect to the server{where}: {cause.verify_message} (its certificate)"
        reason = getattr(cause, "reason", None)
        cause = reason if isinstance(reason, BaseException) else cause.__cause__ or cause.__context__
    return f"unable to reach the server: {one_line(error)}"


def wait_for_cluster(
    check: Callable[[], None],
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    timings: LoopTimings = TIMINGS.loop,
) -> None:
    """Repeat `check` until it passes. Raises CannotStartError when something is missing for `missing_grace` seconds, or
    the server gives no answer within `timeout` seconds."""
    began_at = clock()
    answered_at: float | None = None
    while True:
        now = clock()
        try:
            return check()
        except Retry as error:
            problem, give_up_at = server_trouble(error), began_at + timeout
            answered_at = None
        except Unauthorized as error:
            raise CannotStartError(f"the server does not accept the credentials: {error}") from error
        except (CannotStartError, Forbidden, NotFound) as error:
            answered_at = now if answered_at is None else answered_at
            problem, give_up_at = str(error), min(answered_at + timings.missing_grace, began_at + timeout)
        except ApiError as error:
            raise CannotStartError(str(error)) from error
        if now >= give_up_at:
            raise CannotStartError(problem)
        sleep(timings.server_look)
