"""The life of a reconciler: start the threads, repeat the pass whenever something happened, and go in order."""

from __future__ import annotations

import fcntl
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from reconciler.act import LostLease
from reconciler.cluster.client import ApiError
from reconciler.context import Reconciler
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
    """Take the data folder for this process alone, until the file that is returned is closed. Raises Busy."""
    data.mkdir(parents=True, exist_ok=True)
    file = (data / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise DataFolderInUse(f"another reconciler works in {data}; give each its own --data") from error
    return file


def run_reconciler(w: Reconciler, stop: Callable[[], bool], once: bool = False) -> Report | None:
    """Until `stop()` says so or, with `once`, until a pass finds nothing to do; the last report. `stop` should set
    `w.woken` as well.

    The lease is given back at the end, so that a successor need not wait.
    """
    pages = serve_pages(w.settings.listen, _http_pages(w)) if w.settings.listen else None
    w.last_good_pass = time.monotonic()
    w.lease.start()
    w.poller.start()
    w.watches.start()
    last: Report | None = None
    try:
        w.watches.wait_for_lists(30)
        w.poller.first_poll.wait(60)
        last = _repeat_passes(w, stop, once)
    finally:
        w.poller.stop()
        w.watches.stop()
        w.compiler.stop()
        w.lease.release()
        if pages is not None:
            pages.shutdown()
    return last


def _repeat_passes(w: Reconciler, stop: Callable[[], bool], once: bool) -> Report | None:
    last: Report | None = None
    failures = 0
    pause = 0.0
    started = time.monotonic()
    while not stop():
        w.wake_event.wait(pause)
        time.sleep(DEBOUNCE)
        w.wake_event.clear()
        began = time.monotonic()
        try:
            last = reconcile_once(w)
            failures, pause = (
                0,
                min(MAX_PASS_INTERVAL, last.next_wakeup if last.next_wakeup is not None else MAX_PASS_INTERVAL),
            )
        except LostLease as error:
            log.warning("stopped writing", extra={"reason": str(error)})
            w.inventory, pause = None, FAILURE_PAUSES[0]
            continue
        except (ApiError, ValueError, OSError) as error:
            failures += 1
            pause = min(FAILURE_PAUSES[0] * 2**failures, FAILURE_PAUSES[1])
            log.warning("a pass failed", extra={"reason": str(error)})
            w.metrics.add_to_counter("passes_total", result="failed")
            continue
        _publish_report(w, last, time.monotonic() - began)
        if once and not w.lease.is_held() and time.monotonic() - started > w.lease.duration + w.lease.deadline:
            log.error("another reconciler holds the lease of this cluster, and keeps it")
            return None
        if once and w.lease.is_held() and last.is_idle:
            return last
        if once and w.lease.is_held() and not w.compiler.is_busy and _is_hopeless(last):
            return last
    return last


def _is_hopeless(last: Report) -> bool:
    """Nothing that is outstanding would get better by waiting: the commit does not compile and there is no other, or
    its new plan was refused."""
    reasons = {c.reason for c in last.conditions if c.type == "Compiled" and not c.status}
    return "PlanRefused" in reasons or (not last.commit and "CommitRejected" in reasons)


def _publish_report(w: Reconciler, last: Report, seconds: float) -> None:
    w.last_good_pass = time.monotonic()
    w.metrics.add_to_counter("passes_total", result="good")
    w.metrics.set_gauge("pass_seconds", seconds)
    w.metrics.set_gauge("leader", float(w.lease.is_held()))
    for condition in last.conditions:
        w.metrics.set_gauge("condition", float(condition.status), type=condition.type)
    w.metrics.clear_gauge("gangs")
    decisions = [gang["decision"] for gang in last.plan.get("gangs", ())]
    for decision in sorted({*decisions}):
        w.metrics.set_gauge("gangs", decisions.count(decision), decision=decision)
    for kind, informer in w.watches.informers.items():
        w.metrics.set_gauge("watch_relists", informer.health.relists, kind=kind)
        w.metrics.set_gauge("watch_event_age_seconds", time.monotonic() - informer.health.last_event, kind=kind)
    for done in last.results:
        w.metrics.add_to_counter(
            "changes_total", action=done.change.action, kind=done.change.ref.group_kind, outcome=done.outcome
        )
        log.info("change", extra={"change": str(done.change), "outcome": done.outcome, "detail": done.message})
    for gang, pods in last.lifted_gates.items():
        w.metrics.add_to_counter("gates_lifted_total", pods)
        log.info("gates lifted", extra={"gang": gang, "pods": pods})
    for pod in last.evicted_pods:
        w.metrics.add_to_counter("evictions_total")
        log.info("evicted", extra={"pod": pod})
    if w.lease.is_held():
        w.publisher.publish(last)


def _http_pages(w: Reconciler) -> dict[str, Callable[[], HttpAnswer]]:
    def healthz() -> HttpAnswer:
        age = time.monotonic() - w.last_good_pass
        return (200 if age < 3 * MAX_PASS_INTERVAL else 503), f"last good pass {age:.1f} s ago\n"

    def readyz() -> HttpAnswer:
        ready = w.planning.snapshot is not None
        return (200 if ready else 503), "a plan is in hand\n" if ready else "no plan yet\n"

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": lambda: (200, w.metrics.prometheus_text())}
