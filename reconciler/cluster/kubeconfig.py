"""A kubeconfig, read by the kubernetes package, whose credential plugin has a time limit and fails aloud. The package
waits for a plugin without end, and goes on without credentials (as `system:anonymous`) where one fails."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

from kubernetes.client import Configuration
from kubernetes.config import ConfigException, dateutil, kube_config

log = logging.getLogger(__name__)

PLUGIN_SECONDS = 30.0
"""Seconds for a credential plugin; below the time within which each thread shows that it turns."""
REFRESH_SECONDS, REFRESH_PAUSE = 3.0, 30.0
"""Seconds for one while the last token is still good, which the package has renewed five minutes before its end, and
until it is asked again where it gave none: the thread of the lease waits for it as well."""


def load_kubeconfig(path: Path | None, context: str | None, settings: Configuration) -> None:
    """Set server and credentials. Raises ConfigException, and whatever the package makes of a file that is none."""
    untyped: Any = kube_config
    config = untyped.KubeConfigMerger(str(path or kube_config.KUBE_CONFIG_DEFAULT_LOCATION)).config
    if config is None:
        raise ConfigException("no kubeconfig was found")
    loader: Any = _Loader
    loader(config_dict=config, config_base_path=None, active_context=context).load_and_set(settings)


class _Loader(kube_config.KubeConfigLoader):
    _refresh_at = -inf

    def _load_from_exec_plugin(self) -> bool:
        """Set the credentials that the plugin gives; whether the user has a plugin. The package calls this at first and
        when the token has expired."""
        untyped: Any = self
        if "exec" not in untyped._user:
            return False
        is_good = "expiry" in untyped.__dict__ and untyped.expiry > datetime.now(UTC)
        if is_good and time.monotonic() < self._refresh_at:
            return True
        try:
            self._take_credentials(REFRESH_SECONDS if is_good else PLUGIN_SECONDS)
        except ConfigException as error:
            if not is_good:
                raise
            self._refresh_at = time.monotonic() + REFRESH_PAUSE
            log.warning("the token is still good and was not renewed", extra={"reason": str(error)})
        return True

    def _take_credentials(self, seconds: float) -> None:
        """Ask the plugin, for so long. Raises ConfigException."""
        untyped: Any = self
        plugin, folder = untyped._user["exec"].value, untyped._get_base_path(untyped._cluster.path)
        cluster = untyped._cluster.value if plugin.get("provideClusterInfo") else None
        status = ask_plugin(plugin, folder, cluster, seconds)
        if "token" in status:
            untyped.token = f"Bearer {status['token']}"
        else:
            make_file: Any = kube_config.FileOrData
            untyped.cert_file, untyped.key_file = (
                make_file(status, None, name, folder, False, untyped._temp_file_path).as_file()
                for name in ("clientCertificateData", "clientKeyData")
            )
        if "expirationTimestamp" in status:
            read_time: Any = dateutil.parse_rfc3339
            untyped.expiry = read_time(status["expirationTimestamp"])


def ask_plugin(
    plugin: Mapping[str, Any], folder: str, cluster: Mapping[str, Any] | None, seconds: float
) -> Mapping[str, Any]:
    """The `status` of the ExecCredential that a plugin answers with. Raises ConfigException.

    plugin: `exec` of the kubeconfig. folder: that of the kubeconfig, in which it runs. cluster: what it is told of it.
    seconds: for its answer.
    """
    try:
        command, version = [plugin["command"], *(plugin.get("args") or ())], plugin["apiVersion"]
        extra = {entry["name"]: entry["value"] for entry in plugin.get("env") or ()}
    except (KeyError, TypeError) as error:
        raise ConfigException(f"the credential plugin is not described in full: {error}") from error
    is_interactive = sys.stdout is not None and sys.stdout.isatty()
    spec = {
        "interactive": is_interactive,
        **({"cluster": _cluster_info(cluster, version)} if cluster is not None else {}),
    }
    question = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(question)}
    answer = _run(command, folder, environment, None if is_interactive else seconds)
    if not isinstance(answer, dict) or answer.get("apiVersion") != version:
        raise ConfigException(f"the credential plugin {command[0]} answers with no ExecCredential of {version}")
    status = answer.get("status")
    is_certificate = isinstance(status, dict) and {"clientCertificateData", "clientKeyData"} <= status.keys()
    if not isinstance(status, dict) or not (status.get("token") or is_certificate):
        raise ConfigException(f"the credential plugin {command[0]} gives neither a token nor a certificate with key")
    return status


def _run(command: list[str], folder: str, environment: Mapping[str, str], seconds: float | None) -> Any:
    """What the command prints, as JSON. seconds: None where a person at a terminal may be asked to log in."""
    is_interactive = seconds is None
    piped = None if is_interactive else subprocess.PIPE
    try:
        process = subprocess.Popen(
            command,
            cwd=folder or None,
            env=dict(environment),
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=piped,
            text=True,
            start_new_session=not is_interactive,
        )
    except OSError as error:
        raise ConfigException(f"the credential plugin {command[0]} cannot be run: {error.strerror}") from error
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ConfigException(f"the credential plugin {command[0]} gave no answer in {seconds:g} s") from None
    finally:
        _end(process, is_interactive)
    if process.returncode != 0:
        said = " ".join((errors or "").split())[:500] or "without a message"
        raise ConfigException(f"the credential plugin {command[0]} ended with {process.returncode}: {said}")
    try:
        return json.loads(output)
    except ValueError as error:
        raise ConfigException(f"the credential plugin {command[0]} does not answer in JSON") from error


def _end(process: subprocess.Popen[str], is_interactive: bool) -> None:
    """End the plugin where it was left before its end, with what it started: that would keep the pipes open."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        if is_interactive:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _cluster_info(cluster: Mapping[str, Any], version: str) -> dict[str, Any]:
    """The cluster as plugins are told of it: its own settings for plugins, an extension of the name GROUP/exec, stand
    under `config`."""
    extensions = {each["name"]: each.get("extension") for each in cluster.get("extensions") or ()}
    config = extensions.get(f"{version.partition('/')[0]}/exec")
    return {**cluster, **({"config": config} if config is not None else {})}
