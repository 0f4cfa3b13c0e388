"""A kubeconfig, read by the kubernetes package, whose credential plugin has a time limit and reports failures.

The package waits for a plugin without limit, and continues without credentials (as `system:anonymous`) where one fails.
"""

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
from kubernetes.config.exec_provider import ExecProvider

from reconciler.timings import TIMINGS, ClientTimings

log = logging.getLogger(__name__)


def load_kubeconfig(
    path: Path | None, context: str | None, settings: Configuration, timings: ClientTimings = TIMINGS.client
) -> None:
    """Set server and credentials. Raises ConfigException, and any exception of the package for an invalid file."""
    untyped: Any = kube_config
    config = untyped.KubeConfigMerger(str(path or kube_config.KUBE_CONFIG_DEFAULT_LOCATION)).config
    if config is None:
        raise ConfigException("no kubeconfig was found")
    loader: Any = _Loader(timings, config_dict=config, config_base_path=None, active_context=context)
    loader.load_and_set(settings)


class _Loader(kube_config.KubeConfigLoader):
    _refresh_at = -inf

    def __init__(self, timings: ClientTimings, **given: Any) -> None:
        super().__init__(**given)  # type: ignore[no-untyped-call]
        self.timings = timings

    def _load_from_exec_plugin(self) -> bool:
        """Set the credentials that the plugin gives; whether the user has a plugin. The package calls this at first and
        when the token has expired, by five minutes before its end."""
        untyped: Any = self
        if "exec" not in untyped._user:
            return False
        is_good = "expiry" in untyped.__dict__ and untyped.expiry > datetime.now(UTC)
        if is_good and time.monotonic() < self._refresh_at:
            return True
        try:
            self._take_credentials(self.timings.plugin_refresh if is_good else self.timings.plugin)
        except ConfigException as error:
            if not is_good:
                raise
            self._refresh_at = time.monotonic() + self.timings.plugin_pause
            log.warning("the token is still good and was not renewed", extra={"reason": str(error)})
        return True

    def _take_credentials(self, seconds: float) -> None:
        """Ask the plugin, for so long. Raises ConfigException."""
        untyped: Any = self
        folder = untyped._get_base_path(untyped._cluster.path)
        make_plugin: Any = _Plugin
        try:
            plugin = make_plugin(untyped._user["exec"], folder, untyped._cluster)
        except (KeyError, TypeError, ConfigException) as error:
            raise ConfigException(f"the credential plugin is not described in full: {error}") from error
        status = plugin.ask(seconds)
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


class _Plugin(ExecProvider):
    """A plugin as the package knows its command and environment."""

    def ask(self, seconds: float) -> Mapping[str, Any]:
        """Return the `status` of the ExecCredential that it answers with, within so many seconds unless a person at a
        terminal may be asked to log in. Raises ConfigException."""
        known: Any = self
        is_interactive = sys.stdout is not None and sys.stdout.isatty()
        spec: dict[str, Any] = {"interactive": is_interactive}
        if known.cluster:
            spec["cluster"] = _cluster_info(known.cluster.value, known.api_version)
        question = {"apiVersion": known.api_version, "kind": "ExecCredential", "spec": spec}
        environment = {**known.env, "KUBERNETES_EXEC_INFO": json.dumps(question)}
        name = f"the credential plugin {known.args[0]}"
        try:
            answer = json.loads(_run(name, known.args, known.cwd, environment, None if is_interactive else seconds))
        except ValueError as error:
            raise ConfigException(f"{name} does not answer in JSON") from error
        if not isinstance(answer, dict) or answer.get("apiVersion") != known.api_version:
            raise ConfigException(f"{name} answers with no ExecCredential of {known.api_version}")
        status = answer.get("status")
        is_certificate = isinstance(status, dict) and {"clientCertificateData", "clientKeyData"} <= status.keys()
        if not isinstance(status, dict) or not (status.get("token") or is_certificate):
            raise ConfigException(f"{name} gives neither a token nor a certificate with key")
        return status


def _run(name: str, command: list[str], folder: str, environment: Mapping[str, str], seconds: float | None) -> str:
    """Return the command's output. seconds: None where a person at a terminal may be asked to log in."""
    is_interactive = seconds is None
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environment),
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if is_interactive else subprocess.PIPE,
            text=True,
            start_new_session=not is_interactive,
        )
    except OSError as error:
        raise ConfigException(f"{name} cannot be run: {error.strerror}") from error
    with process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):  # and its children, which would keep the pipes open
                if is_interactive:
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise ConfigException(f"{name} gave no answer in {seconds:g} s") from None
    if process.returncode != 0:
        message = " ".join((errors or "").split())[:500] or "without a message"
        raise ConfigException(f"{name} ended with {process.returncode}: {message}")
    return output


def _cluster_info(cluster: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return the cluster as a plugin receives it: the plugin's own settings, an extension named GROUP/exec, become
    `config`."""
    extensions = {each["name"]: each.get("extension") for each in cluster.get("extensions") or ()}
    config = extensions.get(f"{version.partition('/')[0]}/exec")
    return {**cluster, **({"config": config} if config is not None else {})}
