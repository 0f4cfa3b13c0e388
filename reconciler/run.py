"""The life of a reconciler: start the threads, repeat the pass whenever something happened, shut down in order."""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import IO

from reconciler.cluster.client import ApiError, LostLease
from reconciler.context import Reconciler
from reconciler.git.webhook import WebhookReceiver, serve_webhook
from reconciler.loop import reconcile_once
from reconciler.publish.server import HttpAnswer, serve_pages
from reconciler.publish.status import Report

log = logging.getLogger(__name__)

DEBOUNCE = 0.05
"""Seconds in which further events join the same pass; drift is to be put back within a second."""
MAX_PASS_INTERVAL = 30.0
"""Seconds after which a pass is made although nothing happened."""
FAILURE_PAUSES = (0.5, 30.0)
"""First and longest pause after a pass that failed as a whole."""


class DataFolderInUse(Exception):
    """Another process works in the data folder."""


def lock_data_folder(data: Path) -> IO[str]:
    """Take the data folder for this process alone until the returned file is closed. Raises DataFolderInUse."""
    data.mkdir(parents=True, exist_ok=True)
    file = (data / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise DataFolderInUse(f"another reconciler works in {data}; give each its own --data") from error
    return file


def run_reconciler(r: Reconciler, stop: Callable[[], bool], once: bool = False) -> Report | None:
    """Repeat the pass until `stop()` or, with `once`, until there is nothing left to do; the last report.

    Raises OtherGangplanError when another gangplan keeps this cluster. What makes `stop()` true sets `r.wake_event` as
    well. The lease is given back at the end, so that a successor need not wait.
    """
    servers = _start_servers(r)
    r.last_good_pass = time.monotonic()
    r.lease.start()
    r.poller.start()
    r.watches.start()
    try:
        r.watches.wait_for_lists(30)
        r.poller.first_poll.wait(60)
        return _repeat_passes(r, stop, once)
    finally:
        r.poller.stop()
        r.watches.stop()
        r.compiler.stop()
        r.lease.release()
        for server in servers:
            server.shutdown()


def _start_servers(r: Reconciler) -> list[ThreadingHTTPServer]:
    servers = [serve_pages(r.settings.listen, _http_pages(r))] if r.settings.listen else []
    if r.settings.webhook and r.settings.webhook_secret is not None:
        receiver = WebhookReceiver(r.settings.branch, r.settings.webhook_secret, r.poller.poke)
        servers.append(serve_webhook(r.settings.webhook, receiver))
    return servers


def _repeat_passes(r: Reconciler, stop: Callable[[], bool], once: bool) -> Report | None:
    last: Report | None = None
    failures = 0
    pause = 0.0
    started_at = time.monotonic()
    while not stop():
        r.wake_event.wait(pause)
        time.sleep(DEBOUNCE)
        r.wake_event.clear()
        pass_began_at = time.monotonic()
        try:
            last = reconcile_once(r)
        except LostLease as error:
            log.warning("stopped writing", extra={"reason": str(error)})
            r.inventory, pause = None, FAILURE_PAUSES[0]
            continue
        except (ApiError, ValueError, OSError) as error:
            failures += 1
            pause = min(FAILURE_PAUSES[0] * 2**failures, FAILURE_PAUSES[1])
            log.warning("a pass failed", extra={"reason": str(error)})
            r.metrics.passes.labels(result="failed").inc()
            continue
        failures = 0
        pause = min(MAX_PASS_INTERVAL, last.next_wakeup if last.next_wakeup is not None else MAX_PASS_INTERVAL)
        _publish_report(r, last, time.monotonic() - pass_began_at)
        if once and r.lease.is_held() and _is_complete(r, last):
            return last
        if once and not r.lease.is_held() and time.monotonic() - started_at > r.lease.duration + r.lease.deadline:
            log.error("another reconciler holds the lease of this cluster, and keeps it")
            return None
    return last


def _is_complete(r: Reconciler, last: Report) -> bool:
    """Whether waiting would change nothing: all is done, or the commit does not compile and there is no other, or its
    new plan was refused."""
    if last.is_idle or r.compiler.is_busy:
        return last.is_idle
    reasons = {condition.reason for condition in last.conditions if not condition.status}
    return "PlanRefused" in reasons or (not last.commit and "CommitRejected" in reasons)


def _publish_report(r: Reconciler, report: Report, seconds: float) -> None:
    r.last_good_pass = time.monotonic()
    r.metrics.record_report(report, seconds)
    r.metrics.leader.set(r.lease.is_held())
    for kind, informer in r.watches.informers.items():
        r.metrics.watch_relists.labels(kind=kind).set(informer.health.relists)
        r.metrics.watch_event_age.labels(kind=kind).set(time.monotonic() - informer.health.last_event)
    for result in report.results:
        detail = {"change": str(result.change), "outcome": result.outcome, "detail": result.message}
        log.info("change", extra=detail)
    for gang, pods in report.lifted_gates.items():
        log.info("gates lifted", extra={"gang": gang, "pods": pods})
    for pod in report.evicted_pods:
        log.info("evicted", extra={"pod": pod})
    if r.lease.is_held():
        r.publisher.publish(report)


def _http_pages(r: Reconciler) -> dict[str, Callable[[], HttpAnswer]]:
    def healthz() -> HttpAnswer:
        age = time.monotonic() - r.last_good_pass
        return (200 if age < 3 * MAX_PASS_INTERVAL else 503), f"last good pass {age:.1f} s ago\n"

    def readyz() -> HttpAnswer:
        ready = r.planning.snapshot is not None
        return (200 if ready else 503), "a plan is in hand\n" if ready else "no plan yet\n"

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": lambda: (200, r.metrics.text())}
