"""Shared by commands that connect to a cluster: a time limit, and errors of one line, as kubectl prints them."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, cast

import click

from reconciler.cli import Command, add_kubeconfig_options
from reconciler.cluster.client import ApiError, Client, Retry, Unauthorized
from reconciler.cluster.preflight import one_line, server_trouble
from reconciler.cluster.transport import Connector

_STATUS_NAME = re.compile(r"gangplan-(.+)-status")


class TimeLimitError(BaseException):
    """The command took longer than it may. An Exception would count as a failure of the request that it interrupts."""


def cluster_command(default_timeout: float) -> Callable[[Command], Command]:
    """Add --kubeconfig, --context and --timeout to a command that takes a `client`. The command exits by that time, and
    prints errors of the connection in one line."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def limited(timeout: float, kubeconfig: Path | None, context: str | None, **options: Any) -> Any:
            with one_line_errors(), time_limit(timeout):
                return command(client=open_client(kubeconfig, context), **options)

        option = timeout_option(default_timeout, "Seconds that the command may take")
        return cast(Command, add_kubeconfig_options(option(limited)))

    return decorate


def timeout_option(default: float, help: str) -> Callable[[Command], Command]:
    """--timeout, in seconds."""
    return click.option("--timeout", default=default, show_default=True, type=click.FloatRange(min=0.1), help=help)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors of the cluster, and of data stored there, into click's."""
    try:
        yield
    except Unauthorized as error:
        raise click.ClickException("the server does not accept the credentials (Unauthorized)") from error
    except Retry as error:
        raise click.ClickException(server_trouble(error)) from error
    except (ApiError, TimeLimitError, ValueError) as error:
        raise click.ClickException(one_line(error)) from error


def reported_cluster(client: Client, namespace: str) -> str:
    """Return the one cluster that a reconciler of this namespace has reported on.

    Raises ClickException for none or more than one.
    """
    found, _ = client.list(client.resource("v1", "ConfigMap"), namespace)
    names = [match[1] for each in found if (match := _STATUS_NAME.fullmatch(each["metadata"]["name"]))]
    if len(names) == 1:
        return names[0]
    if not names:
        raise click.ClickException(f"no reconciler has reported in namespace {namespace}. Fix: check --namespace")
    raise click.ClickException(f"several clusters have reports: {', '.join(sorted(names))}. Fix: name one: --cluster")


@contextmanager
def time_limit(seconds: float, option: str = "--timeout") -> Iterator[None]:
    """Raise TimeLimitError in the body when it takes longer. Nothing is limited outside of the main thread. option: of
    the command, which sets the limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise TimeLimitError(f"the command did not end within {seconds:g} s ({option})")

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lift_time_limit() -> None:
    """Let the command go on beyond `time_limit`; its requests have limits of their own."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def open_client(kubeconfig: Path | None, context: str | None) -> Client:
    """Return a client of the cluster that the options name. Raises click.ClickException as `check_kubeconfig`."""
    check_kubeconfig(kubeconfig, context)
    return Client(Connector(kubeconfig, context))


def check_kubeconfig(kubeconfig: Path | None, context: str | None) -> None:
    """Raise click.ClickException where the kubeconfig is missing, broken, or lacks the context. A pod needs none."""
    if kubeconfig is None and "KUBECONFIG" not in os.environ and "KUBERNETES_SERVICE_HOST" in os.environ:
        return
    default = os.environ.get("KUBECONFIG") or "~/.kube/config"
    named = [kubeconfig] if kubeconfig else [Path(part).expanduser() for part in default.split(os.pathsep) if part]
    if kubeconfig is not None and not kubeconfig.is_file():
        raise click.ClickException(f"kubeconfig {kubeconfig}: no such file")
    if not any(path.exists() for path in named):
        raise click.ClickException(
            "no kubeconfig was found: give --kubeconfig, set KUBECONFIG, or run in a pod with a service account"
        )
    from kubernetes import config

    where = os.pathsep.join(map(str, named))
    try:
        contexts, _ = config.list_kube_config_contexts(config_file=where)  # type: ignore[no-untyped-call]
    except Exception as error:  # the package raises anything for an invalid file
        raise click.ClickException(f"the kubeconfig {where} cannot be used: {one_line(error)}") from error
    if context is not None and context not in {entry["name"] for entry in contexts}:
        raise click.ClickException(f'context "{context}" does not exist in {where}')
