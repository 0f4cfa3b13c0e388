"""A tiny client of the API server: JSON in, JSON out, one connection a call."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Json = Any  # what json.loads gives; objects of the API are not typed here


class ApiError(Exception):
    """The API server answered with an error; `status` is the HTTP status, `body` what it said."""

    def __init__(self, method: str, path: str, status: int, body: Json) -> None:
        self.status = status
        self.body = body
        message = body.get("message", body) if isinstance(body, Mapping) else body
        super().__init__(f"{method} {path}: {status}: {message}")


class Client:
    """Calls with one user's token."""

    def __init__(self, port: int, ca: Path, token: str) -> None:
        self._port = port
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca))

    def __call__(
        self, method: str, path: str, body: Json | bytes | str | None = None, content_type: str | None = None
    ) -> Json:
        """Send an object (as JSON) or text as it is; the type of a PATCH is a merge patch, or a JSON patch for a list,
        unless given."""
        if content_type is None:
            patch = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
            content_type = patch if method == "PATCH" else "application/json"
        data = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        data = data.encode() if isinstance(data, str) else data
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=30)
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type, "Accept": "application/json"}
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except http.client.HTTPException as error:  # a server that ends in the middle of its answer
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        finally:
            connection.close()
        said = json.loads(text) if answer.headers.get_content_type() == "application/json" else text
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
