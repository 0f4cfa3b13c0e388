"""`gangplan reconcile` and `snapshot`."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import click

from compiler.cli.inputs import ANY_FILE, ANY_FOLDER, FILE, FOLDER, echo, executor_option, write_file
from compiler.fields.times import rfc3339
from compiler.kubernetes import MEMORY_LABEL, SNAPSHOT_TIME_ANNOTATION, name_of
from compiler.volcano.fairshare import STATE_CONFIG_MAP, STATE_LABELS
from reconciler.assembly import build_parts
from reconciler.cli import Command, add_kubeconfig_options, namespace_option, state_folder
from reconciler.cli.config import load_config
from reconciler.cli.connection import TimeLimitError, check_kubeconfig, cluster_command, time_limit
from reconciler.cluster.client import Client, Forbidden, NotFound, NotServed
from reconciler.cluster.objects import STATE_KINDS, Object, Ref, ref_of
from reconciler.cluster.preflight import CannotStartError, check_cluster, wait_for_cluster
from reconciler.cluster.rights import NAMESPACE
from reconciler.cluster.transport import Connector
from reconciler.git.process import GitError
from reconciler.inventory.keeper import OtherGangplanError
from reconciler.loop import Hands, Parts
from reconciler.planning.fingerprint import without_server_fields
from reconciler.planning.past_runs import stored_runs
from reconciler.report.process_log import JsonFormatter, log_as_json
from reconciler.report.status import Report
from reconciler.run import run_reconciler
from reconciler.scheduler.configuration import default_address
from reconciler.settings import DataFolderInUse, Settings, load_identity, lock_data_folder
from reconciler.timings import TIMINGS, LoopTimings

log = logging.getLogger(__name__)

START_TIMEOUT, ONCE_TIMEOUT = 60.0, 600.0
"""Seconds: for the server to answer at the start, and for all of `--once`."""
OPTIONAL_KINDS = {
    ("v1", "ResourceQuota"): "a plan of this snapshot cannot warn of full quotas",
    ("scheduling.volcano.sh/v1beta1", "NamespaceQueue"): (
        "a plan of this snapshot does not know which NamespaceQueues are ready"
    ),
}
"""Kinds in a snapshot in addition to those that every plan needs -> the note printed where one is missing."""
REQUIRED_CONDITIONS = frozenset({"Fetched", "Compiled", "Accepted", "Observed", "Applied"})
"""Conditions that must hold for `reconcile --once` to succeed."""


class JsonLogCommand(click.Command):
    """A command that logs JSON from its first line, including errors in its options."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.formatter = JsonFormatter()

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if "--help" not in args and not extra.get("resilient_parsing"):
            log_as_json(self.formatter)
        return super().make_context(info_name, args, parent, **extra)


def number_option(name: str, default: float, least: float, help: str) -> Callable[[Command], Command]:
    kind = click.IntRange(int(least)) if isinstance(default, int) else click.FloatRange(least)
    return click.option(name, default=default, show_default=True, type=kind, help=help)


@click.command(cls=JsonLogCommand)
@click.option(
    "--config",
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=load_config,
    help="YAML file with any of these options, in camelCase; the command line wins",
)
@click.option("--repo", required=True, help="https or ssh address of the repository, or a folder of this machine")
@click.option("--branch", default="main", show_default=True)
@click.option("--cluster", required=True, help="Which cluster of the repository this is")
@add_kubeconfig_options
@namespace_option
@click.option("--data", type=ANY_FOLDER, help="Folder for the clone and for compiles [default: below XDG_STATE_HOME]")
@click.option(
    "--git-auth",
    type=FOLDER,
    help="Mounted git secret: username and password (or only a token as password), bearerToken, ca.crt, tls.crt and "
    "tls.key, or ssh-privatekey and known_hosts",
)
@number_option("--git-max-size", 512, 1, "Largest fetch, and largest clone, in MiB")
@click.option(
    "--git-trusted-keys",
    type=FOLDER,
    help="Accept only commits that are signed by a key in this folder: allowed_signers (ssh), *.asc (OpenPGP)",
)
@click.option(
    "--git-ignore-fault",
    "git_ignored_faults",
    multiple=True,
    metavar="NAME",
    help="Accept an old history in spite of this fault (as git's fsck names it); may be repeated",
)
@click.option("--webhook", default="", metavar="HOST:PORT", help="Receive webhooks: a push is fetched at once")
@click.option("--webhook-secret", type=FILE, help="File with the secret that signs webhooks")
@number_option("--poll", 30.0, 0.1, "Seconds between polls of the repository")
@number_option("--bind-timeout", 120.0, 1, "Seconds within which Volcano must bind a placed pod")
@number_option(
    "--node-timeout",
    60.0,
    0,
    "Seconds after which the pods of jobs leave a node that is not ready; 0 leaves that to Kubernetes",
)
@click.option(
    "--scheduler-metrics",
    default=lambda: default_address(os.environ),
    metavar="URL",
    help="Metrics of Volcano's scheduler, to check that it uses its configuration "
    "[default: in a pod the service of Volcano's chart]",
)
@number_option(
    "--scheduler-timeout",
    180.0,
    15,
    "Seconds within which the scheduler must use a new configuration, before the previous one is restored",
)
@click.option(
    "--traces",
    default="",
    metavar="URL",
    help="OpenTelemetry collector (OTLP over HTTP) that gets the spans of passes and compiles; needs gangplan[traces]",
)
@click.option("--listen", default="", metavar="HOST:PORT", help="Serve /healthz, /readyz and /metrics")
@click.option("--report", is_flag=True, help="With --listen: serve /report, the page of the plan in force, as well")
@executor_option
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    help="Seconds to wait for the server at startup; with --once, for the whole command [default: 60; --once: 600]",
)
@click.option("--once", is_flag=True, help="Exit when nothing is left to do; with 1 if something failed")
@click.pass_context
def reconcile(
    ctx: click.Context,
    /,
    kubeconfig: Path | None,
    context: str | None,
    once: bool,
    timeout: float | None,
    git_auth: Path | None,
    **given: object,
) -> None:
    """Keep a cluster in the state of the repository: plan, apply, lift gates, put drift back."""
    given["data"] = given["data"] or state_folder(str(given["cluster"]))
    settings = Settings(auth=git_auth, **given)  # type: ignore[arg-type]  # click has checked the types of the options
    if settings.webhook and settings.webhook_secret is None:
        raise click.UsageError("--webhook needs --webhook-secret")
    check_kubeconfig(kubeconfig, context)
    signals = StopSignals()
    sys.setswitchinterval(TIMINGS.loop.turn)
    started_at = time.monotonic()
    limit = timeout or (ONCE_TIMEOUT if once else START_TIMEOUT)
    try:
        with lock_data_folder(settings.data):
            connect = Connector(kubeconfig, context)
            client = Client(connect, TIMINGS.client)
            parts = build_parts(settings, client, load_identity(settings.data), TIMINGS)
            # The client itself writes nothing without the lease.
            asking = Client(connect, replace(client.timings, request=client.timings.start))
            _wait_for_cluster(asking, parts.hands, limit, once)
            reconcile.formatter.add_fields(lambda: {"revision": parts.planning.revision})
            last = _run_until_signal(parts, signals, started_at + limit if once else None)
    except (DataFolderInUse, GitError, CannotStartError, OtherGangplanError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    if not once:
        return
    if time.monotonic() > started_at + limit:
        raise click.ClickException(f"not finished within {limit:g} s (--timeout)")
    if last is None or not is_success(last):
        ctx.exit(1)


def is_success(report: Report) -> bool:
    """Return whether the newest commit is in force, as far as `--once` can find out."""
    states = {each.type: each.status for each in report.conditions}
    return all(states.get(name, True) for name in REQUIRED_CONDITIONS) and not states.get("HistoryRewritten", False)


class StopSignals:
    """SIGTERM and SIGINT. Before the reconciler runs they end the process at once, later they are noted. Handled from
    the beginning: the first process of a container is never ended by a signal that it does not handle."""

    def __init__(self) -> None:
        self.is_running, self._numbers = False, list[int]()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def begin_noting(self) -> None:
        """Note signals from now on, and end the process no more."""
        self.is_running = True

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if not self.is_running:
            raise SystemExit(128 + number)
        self._numbers.append(number)

    def is_stop(self) -> bool:
        return bool(self._numbers)


def end_in_time(stop: Callable[[], bool], timings: LoopTimings) -> None:
    """Exit the process `stop_limit` seconds after `stop()`, whatever hangs: a request, or a log that nobody reads."""

    def wait_and_end() -> None:
        while not stop():
            time.sleep(0.2)
        time.sleep(timings.stop_limit)
        message = f"the process did not end within {timings.stop_limit:g} s, and is cut off"
        writer = threading.Thread(target=log.error, args=(message,), daemon=True)
        writer.start()
        writer.join(timings.last_words)
        os._exit(1)

    threading.Thread(target=wait_and_end, name="end", daemon=True).start()


def _wait_for_cluster(client: Client, hands: Hands, limit: float, once: bool) -> None:
    """Return when the reconciler can work here. Raises CannotStartError soon after the limit: requests and plugins have
    longer ones of their own."""
    try:
        with time_limit(limit + hands.timings.loop.last_answer):
            patience = 0.0 if once else limit
            check = partial(check_cluster, client, hands.settings.namespace)
            wait_for_cluster(check, patience, timings=hands.timings.loop)
    except TimeLimitError as error:
        raise CannotStartError(f"unable to reach the server: no answer within {limit:g} s (--timeout)") from error


def _run_until_signal(parts: Parts, signals: StopSignals, once_until: float | None) -> Report | None:
    """Run until SIGTERM or SIGINT; with `once_until`, also until no work remains, and at most to that time."""
    signals.begin_noting()
    end_in_time(signals.is_stop, parts.hands.timings.loop)
    if once_until is None:
        return run_reconciler(parts, signals.is_stop)
    alarm = threading.Timer(once_until - time.monotonic(), parts.hands.wake.set)
    alarm.daemon = True
    alarm.start()
    try:
        return run_reconciler(parts, lambda: signals.is_stop() or time.monotonic() >= once_until, once=True)
    finally:
        alarm.cancel()


@click.command()
@cluster_command(120.0)
@namespace_option
@click.option("-o", "--output", type=ANY_FILE, help="File to write [default: standard output]")
def snapshot(client: Client, namespace: str, output: Path | None) -> None:
    """Write what a plan needs to know of a cluster (nodes, pods, jobs, queues and so on) as one List, for `gangplan
    plan --state`. It holds the runs that a reconciler recorded, if these may be read."""
    text = snapshot_text(client, namespace)
    if output is None:
        echo(text)
    else:
        write_file(output, text)


def snapshot_text(client: Client, namespace: str = NAMESPACE) -> str:
    """Return the state of a cluster as one List. namespace: where the reconciler keeps its own objects."""
    items = [*state_items(client)]
    try:
        config_maps, _ = client.list(client.resource("v1", "ConfigMap"), namespace, MEMORY_LABEL)
        items += stored_runs(config_maps)
    except (Forbidden, ValueError) as error:
        click.echo(f"a plan of this snapshot does not know earlier runs: {error}", err=True)
    items.sort(key=lambda item: (item["kind"], item["apiVersion"], ref_of(item).namespace, name_of(item)))
    metadata = {"annotations": {SNAPSHOT_TIME_ANNOTATION: rfc3339(int(time.time()))}}
    state = {"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}
    return json.dumps(state, indent=1, sort_keys=True) + "\n"


def state_items(client: Client, optional: Mapping[tuple[str, str], str] = OPTIONAL_KINDS) -> Iterator[Object]:
    """Yield the objects of a snapshot, without kinds that are not served. optional: kinds that a plan does not need and
    that may be forbidden to list -> the note printed where one is missing."""
    for api, kind in (*STATE_KINDS, *optional):
        try:
            found, _ = client.list(client.resource(api, kind))
        except NotServed:
            continue
        except NotFound:
            if client.is_served(client.resource(api, kind)):
                raise
            continue
        except Forbidden as error:
            if (api, kind) not in optional:
                raise
            click.echo(f"{optional[api, kind]}: {error}", err=True)
            continue
        yield from map(without_server_fields, found)
    yield from map(without_server_fields, _fairshare_state(client))


def _fairshare_state(client: Client) -> list[Object]:
    """Return the usage of namespaces as Volcano's plugin fairshare stores it, in its usual ConfigMap and in those with
    its labels. Empty where there is none, or it may not be read."""
    namespace, name = STATE_CONFIG_MAP
    found = list[Object]()
    with contextlib.suppress(Forbidden):
        usual = client.find(Ref("v1", "ConfigMap", namespace, name))
        found += [] if usual is None else [usual]
    with contextlib.suppress(Forbidden):
        found += client.list(client.resource("v1", "ConfigMap"), selector=STATE_LABELS)[0]
    return [*{ref_of(item): item for item in found}.values()]
