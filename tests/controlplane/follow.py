"""Kubelet's part in Volcano's configuration: a ConfigMap becomes the file that the scheduler reads."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.controlplane.rest import ApiError, Client

SCHEDULER_CONF_KEY = "volcano-scheduler.conf"
_PERIOD = 0.5


class ConfigMapFollower:
    """Copies one key of a ConfigMap to a file, soon after each change, for as long as it runs. renamed: words of it ->
    what the file says instead."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        target: Path,
        aside: Path,
        renamed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._client = client
        self._renamed = renamed
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        self._target = target
        self._aside = aside  # on the same file system, but not in the target's folder: the scheduler watches that one
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self.run, name=f"follow {namespace}/{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def run(self) -> None:
        while not self._stopped.is_set():
            self.copy_once()
            self._stopped.wait(_PERIOD)

    def copy_once(self) -> None:
        """One look. A missing ConfigMap or key leaves the file as it is, as a mounted volume would; so does an API
        server that is away."""
        try:
            text = (self._client("GET", self._path).get("data") or {}).get(SCHEDULER_CONF_KEY)
        except (ApiError, OSError):
            return
        if text is None:
            return
        for word, instead in self._renamed.items():
            text = text.replace(word, instead)
        if text != self._target.read_text():
            self._aside.write_text(text)
            self._aside.replace(self._target)
