"""A tiny client of the API server: JSON in, JSON out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import urllib3

Json = Any  # what json.loads gives; objects of the API are not typed here

# A server that has just started answers 429 or 503 with Retry-After while it fills its caches
# ("storage is (re)initializing"); a 429 without that header (a disruption budget) is an answer.
# Nothing else is asked again. As client-go does it.
WHEN_ASKED_TO_WAIT = urllib3.Retry(
    total=10, connect=0, read=0, other=0, redirect=0, allowed_methods=None, raise_on_status=False
)


PATIENCE = 180.0
"""Seconds that an answer may take. A busy machine was seen to keep a server from its processors for a minute or more;
a test that minds says so itself."""


class ApiError(Exception):
    """The API server answered with an error; `status` is the HTTP status, `body` what it said."""

    def __init__(self, method: str, path: str, status: int, body: Json) -> None:
        self.status = status
        self.body = body
        message = body.get("message", body) if isinstance(body, Mapping) else body
        super().__init__(f"{method} {path}: {status}: {message}")


class Client:
    """Calls with one user's token, from any thread."""

    def __init__(self, port: int, ca: Path, token: str) -> None:
        self._token = token
        # Connections are kept: with a TLS handshake of its own a call costs both sides three times as much.
        self._connections = urllib3.HTTPSConnectionPool(
            "127.0.0.1", port, maxsize=16, ca_certs=str(ca), timeout=PATIENCE, retries=WHEN_ASKED_TO_WAIT
        )

    def close(self) -> None:
        """Close the connections that wait for the next call."""
        self._connections.close()

    def __call__(
        self,
        method: str,
        path: str,
        body: Json | bytes | str | None = None,
        content_type: str | None = None,
        accepts: str = "application/json",
    ) -> Json:
        """Send an object (as JSON) or text as it is; the type of a PATCH is a merge patch, or a JSON patch for a list,
        unless given."""
        if content_type is None:
            patch = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
            content_type = patch if method == "PATCH" else "application/json"
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        data = data.encode() if isinstance(data, str) else data
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, "Accept": accepts}
        try:
            answer = self._connections.request(method, path, body=data, headers=headers)
        except urllib3.exceptions.HTTPError as error:  # a server that is not there, or ends in the middle of its answer
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        is_json = answer.headers.get("Content-Type", "").partition(";")[0] == "application/json"
        said = json.loads(answer.data) if is_json else answer.data.decode()
        if answer.status >= 400:
            raise ApiError(method, path, answer.status, said)
        return said


def kubeconfig(port: int, ca: Path, user: str, token: str) -> str:
    """A kubeconfig (JSON is YAML) of one user."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "test", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(ca)}}
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": "default"}}],
            "current-context": "test",
        },
        indent=2,
    )


def from_kubeconfig(path: Path) -> Client:
    """The client of a kubeconfig that `kubeconfig` wrote."""
    config = json.loads(path.read_text())
    cluster = config["clusters"][0]["cluster"]
    return Client(
        int(cluster["server"].rpartition(":")[2]),
        Path(cluster["certificate-authority"]),
        config["users"][0]["user"]["token"],
    )
