"""The life of a reconciler: start the threads, repeat the pass whenever something happened, shut down in order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler

from compiler.diagnostics.guard import exception_text
from reconciler.changes.results import ChangeResult, ObjectEvent, events_of_results
from reconciler.cluster.client import ApiError, LostLease, short_error
from reconciler.cluster.objects import name_of_key
from reconciler.git.webhook import WebhookReceiver, serve_webhook
from reconciler.inventory.keeper import OtherGangplanError
from reconciler.loop import Hands, Parts, Voices, basis, reconcile_once
from reconciler.observation.culprits import objects_at_hand
from reconciler.report.report_pages import ReportPages
from reconciler.report.status import FAILURE_TYPE, Report, StatusReader
from reconciler.threads.heartbeat import Heartbeat
from reconciler.threads.http import HttpServer, Reply
from reconciler.threads.rest import LoopRest, doubled

log = logging.getLogger(__name__)

HttpAnswer = tuple[int, str]


class StopRequestedError(Exception):
    """The process is to end, and asks the API server for nothing more."""


def run_reconciler(parts: Parts, stop: Callable[[], bool], once: bool = False) -> Report | None:
    """Repeat the pass until `stop()` or, with `once`, until there is nothing left to do; the last report.

    Raises OtherGangplanError. The lease is given back at the end, so that a successor need not wait.
    """
    hands, voices = parts.hands, parts.voices
    servers = _start_servers(parts)
    hands.pulse.record_good_pass()
    hands.pulse.heartbeat.beat()
    hands.client.ask_before_requests(lambda: _check_before_request(hands, stop))
    hands.lease.start()
    voices.event_writer.start()
    hands.watches.start()
    for part in parts.all:
        part.start()
    try:
        _wait_for_start(parts, stop, once)
        return _repeat_passes(parts, stop, once)
    finally:
        hands.watches.stop()
        for part in parts.all:
            part.stop()
        voices.event_writer.stop(hands.timings.loop.last_events)
        writer = parts.objects.writer  # while a write is open, a successor waits for the lease's end
        if not writer.threads.is_any_open() and not writer.own.open_lifts():
            hands.lease.release()
        voices.tracing.stop()
        for server in servers:
            server.shutdown()


def _start_servers(parts: Parts) -> list[HttpServer]:
    hands, settings = parts.hands, parts.hands.settings
    pages, reports, missing = http_pages(parts), report_answers(parts), lambda: (404, "not here\n")

    def answer(request: BaseHTTPRequestHandler) -> HttpAnswer | Reply:
        path = request.path.partition("?")[0]
        return reports[path](request) if path in reports else pages.get(path, missing)()

    timings = hands.timings.http
    servers = [HttpServer("http", settings.listen, "GET", answer, timings)] if settings.listen else []
    if settings.webhook and settings.webhook_secret is not None:
        receiver = WebhookReceiver(settings.branch, settings.webhook_secret, parts.planning.branch.poller.poke)
        servers.append(serve_webhook(settings.webhook, receiver, timings))
    hands.pulse.watch_over(*(server.heartbeat for server in servers))
    return servers


def _check_before_request(hands: Hands, stop: Callable[[], bool]) -> None:
    """A sign of life. Raises StopRequestedError: a pass with many slow look-ups would outlive the stop by hours."""
    hands.pulse.heartbeat.beat()
    if stop():
        raise StopRequestedError


def _wait_for_start(parts: Parts, stop: Callable[[], bool], once: bool) -> None:
    """Wait for the lists and for git, but less for a git server that does not answer: the plan in force is kept without
    it."""
    timings, began_at = parts.hands.timings.loop, time.monotonic()
    while not stop() and (waited := time.monotonic() - began_at) < timings.start:
        parts.hands.pulse.heartbeat.beat()
        is_fetched = parts.planning.branch.poller.first_poll.is_set() or (waited >= timings.first_fetch and not once)
        if is_fetched and parts.hands.watches.wait_for_lists(0.0):
            return
        time.sleep(timings.debounce)


def _repeat_passes(parts: Parts, stop: Callable[[], bool], once: bool) -> Report | None:
    hands, voices, timings = parts.hands, parts.voices, parts.hands.timings.loop
    last: Report | None = None
    failures, problem = 0, ""
    pause, rested_at, rest = 0.0, 0.0, LoopRest(hands.timings.rest)
    started_at, patience = time.monotonic(), hands.timings.lease.duration + hands.timings.lease.deadline
    while not stop():
        _pause(parts, stop, timings.first_failure_pause if failures else 0.0, pause, rested_at)
        hands.wake.clear()
        began_at, computed = time.monotonic(), time.thread_time()
        hands.pulse.heartbeat.beat()
        parts.objects.writer.set_deadline(timings.longest_pass)
        try:
            if failures >= timings.reported_failures:
                _publish_failure(hands, voices, problem)
            with voices.tracing.span("pass", revision=parts.planning.revision):
                last = reconcile_once(parts)
            _publish_report(hands, voices, last, time.monotonic() - began_at, once)
        except StopRequestedError:
            log.info("stopped in the middle of a pass")
            return last
        except OtherGangplanError:
            raise
        except LostLease as error:
            log.warning("stopped writing", extra={"reason": str(error)})
            hands.keeper.forget()
            pause = timings.first_failure_pause
            continue
        except Exception as error:  # any: without this process nobody keeps the cluster
            failures += 1
            pause = doubled(timings.first_failure_pause, failures, timings.longest_failure_pause)
            voices.metrics.passes.labels(result="failed").inc()
            problem = _log_failure(hands.pulse.heartbeat, error)
            if hold_out_culprit(hands, error):
                hands.wake.set()
            continue
        failures = 0
        is_paced = parts.objects.pace.is_holding
        rested_at = rest.rested_at(began_at, time.monotonic(), time.thread_time() - computed, is_paced)
        if parts.objects.writer.is_out_of_time():
            hands.wake.set()
        pause = min(timings.longest_pause, last.next_wakeup if last.next_wakeup is not None else timings.longest_pause)
        if hands.lease.is_held():
            pause = min(pause, voices.publisher.seconds_due())
        if once and hands.lease.is_held() and _is_complete(parts, last):
            return last
        if once and not hands.lease.is_held() and time.monotonic() - started_at > patience:
            log.error("another reconciler holds the lease of this cluster, and keeps it")
            return None
    return last


def _pause(parts: Parts, stop: Callable[[], bool], least: float, longest: float, rested_at: float) -> None:
    """Wait for something to happen, `longest` seconds at most, then `least`, and unless it is urgent for what happens
    together with it, and until `rested_at`. Meanwhile single objects are put back."""
    wake, timings, until = parts.hands.wake, parts.hands.timings.loop, time.monotonic() + longest
    while not stop() and not wake.is_set() and (left := until - time.monotonic()) > 0:
        wake.stirred.wait(min(left, timings.stop_look))
        _put_back_updates(parts)
    urgent_until = time.monotonic() + least
    rested_until = max(urgent_until, time.monotonic() + timings.debounce, rested_at)
    while not stop() and (left := (urgent_until if wake.is_urgent else rested_until) - time.monotonic()) > 0:
        wake.stirred.wait(min(timings.debounce, left))
        _put_back_updates(parts)


def _put_back_updates(parts: Parts) -> None:
    """Put back single objects without a pass. Failures are deferred to a pass, which reports them."""
    hands, voices = parts.hands, parts.voices
    hands.wake.stirred.clear()
    parts.objects.writer.set_deadline(hands.timings.loop.longest_pass)
    try:
        if results := parts.objects.corrections.put_back(basis(parts)):
            voices.metrics.record_results(results)
            voices.event_writer.put(events_of_results(results))
            _log_results(results)
    except StopRequestedError:
        return
    except Exception as error:
        if isinstance(error, LostLease):
            hands.keeper.forget()
        _log_failure(hands.pulse.heartbeat, error)
        parts.objects.corrections.forbid()
        hands.wake.set()


def _log_failure(heartbeat: Heartbeat, error: Exception) -> str:
    if isinstance(error, (ApiError, ValueError, OSError)):
        log.warning("a pass failed", extra={"reason": str(error)})
        return str(error)
    heartbeat.record_error(error)
    return f"unexpected, see the log: {short_error(error)}"


def hold_out_culprit(hands: Hands, error: Exception) -> bool:
    """Hold out the object on which a pass failed, if one was at hand; whether the next pass is another for it."""
    if isinstance(error, (ApiError, LostLease, OSError, MemoryError)):
        return False
    key = hands.watches.hold_out(objects_at_hand(error), f"a pass failed on it ({exception_text(error)})")
    hands.keeper.forget()  # the inventory may be partly read after a failed pass
    if key:
        log.warning("an object is held out", extra={"object": name_of_key(key), "reason": exception_text(error)})
    return bool(key)


def _publish_failure(hands: Hands, voices: Voices, problem: str) -> None:
    """Report a failed pass in the status, which would look healthy without it."""
    voices.metrics.condition.labels(type=FAILURE_TYPE).set(True)
    if hands.lease.is_held():
        voices.publisher.publish_failure(problem)
        voices.event_writer.put([ObjectEvent(voices.publisher.event_object, FAILURE_TYPE, problem, True)])


def _is_complete(parts: Parts, last: Report) -> bool:
    """Return whether waiting changes nothing: all is done, or there is no good plan, or the inventory or the repository
    is lost."""
    if last.is_idle or parts.planning.compiler.is_busy:
        return last.is_idle
    reasons = {condition.reason for condition in last.conditions if not condition.status}
    if not last.commit and "GitFailed" in reasons and parts.planning.branch.poller.failures:
        return True
    if not reasons.isdisjoint(("PlanRefused", "CompileFailed", "InventoryLost")):
        return True
    return not last.commit and not reasons.isdisjoint(("CommitRejected", "CommitRefused"))


def _publish_report(hands: Hands, voices: Voices, report: Report, seconds: float, at_once: bool) -> None:
    hands.pulse.record_good_pass()
    voices.metrics.record_report(report, seconds)
    _log_results(report.done.results)
    for gang, pods in filter(lambda item: item[1], report.done.lifted.items()):
        log.info("gates lifted", extra={"object": gang, "pods": pods})
    for pod in report.done.evicted:
        log.info("evicted", extra={"object": pod})
    if hands.lease.is_held():
        voices.publisher.publish(report, at_once=at_once)
        voices.event_writer.put(report.done.events)
        if refusal := voices.publisher.refusal:  # the old status looks current
            message = f"what the status says is old, since it cannot be written: {refusal}"
            voices.event_writer.put([ObjectEvent(voices.publisher.event_object, "StatusNotWritten", message, True)])


def _log_results(results: Iterable[ChangeResult]) -> None:
    for result in results:
        detail = {"change": str(result.change), "outcome": result.outcome, "detail": result.message}
        log.info("change", extra={"object": str(result.change.ref), **detail})


def report_answers(parts: Parts) -> dict[str, Callable[[BaseHTTPRequestHandler], Reply]]:
    """Return the handlers for the page of the plan in force; none if it is not served."""
    planning, publisher, folder = parts.planning, parts.voices.publisher, parts.hands.settings.pages
    if folder is None:
        return {}

    def digest() -> str:
        return str(planning.snapshot.plan.get("digest", "")) if planning.snapshot is not None else ""

    pages = ReportPages(folder, digest, StatusReader(publisher, parts.hands.lease.is_held).document)
    return {"/report": pages.page, "/report/status.json": pages.status_json}


def http_pages(parts: Parts) -> dict[str, Callable[[], HttpAnswer]]:
    def healthz() -> HttpAnswer:
        late = [beat for beat in _heartbeats(parts) if beat.seconds_late() > 0]
        names = ", ".join(f"{beat.name} ({beat.seconds_late() + beat.limit:.0f} s)" for beat in late)
        age = time.monotonic() - parts.hands.pulse.last_good_pass
        text = f"without a sign of life: {names}" if late else f"all threads work; last good pass {age:.1f} s ago"
        return (503 if late else 200), text + "\n"

    def readyz() -> HttpAnswer:
        obstacle = _ready_obstacle(parts)
        return (503 if obstacle else 200), (obstacle or "a plan is in hand, and the cluster is read") + "\n"

    def metrics() -> HttpAnswer:
        _refresh_gauges(parts)
        return 200, parts.voices.metrics.text()

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


def _heartbeats(parts: Parts) -> list[Heartbeat]:
    """Return the heartbeats of every thread: none is late because the API server or git does not answer. Writers show
    by their requests."""
    hands, voices = parts.hands, parts.voices
    return [
        hands.pulse.heartbeat,
        hands.lease.heartbeat,
        voices.event_writer.heartbeat,
        *(beat for part in parts.all for beat in part.heartbeats()),
        *hands.pulse.others,
        *(informer.heartbeat for informer in list(hands.watches.informers.values())),
    ]


def _ready_obstacle(parts: Parts) -> str:
    """Return why this replica could not do its work now; empty when it could."""
    hands = parts.hands
    if parts.planning.snapshot is None:
        return "no plan yet"
    if problems := hands.watches.state_problems():
        return problems[0]
    if obstacle := hands.lease.obstacle():
        return obstacle
    age = time.monotonic() - hands.pulse.last_good_pass
    return f"the last good pass was {age:.0f} s ago" if age > 3 * hands.timings.loop.longest_pause else ""


def _refresh_gauges(parts: Parts) -> None:
    hands, voices = parts.hands, parts.voices
    metrics, now = voices.metrics, time.monotonic()
    metrics.refresh_ages(hands.pulse.last_good_pass)
    metrics.leader.set(hands.lease.is_held())
    metrics.events_dropped.set(voices.event_writer.dropped)
    for gauge in (metrics.watch_relists, metrics.watch_event_age, metrics.watch_synced):
        gauge.clear()
    for kind, informer in list(hands.watches.informers.items()):
        health = informer.health
        metrics.watch_relists.labels(kind=kind).set(informer.relists)
        metrics.watch_synced.labels(kind=kind).set(health.is_synced)
        if health.is_served:
            metrics.watch_event_age.labels(kind=kind).set(now - health.last_event)
    for beat in _heartbeats(parts):
        metrics.thread_errors.labels(thread=beat.name).set(beat.errors)
