"""Several concurrent writes, none of which blocks the others: the loop waits for each only for a while.

A write is not begun, under way, deferred or completed, and only the loop changes its state. The loop defers one without
an answer in time (an admission webhook that hangs), and a later pass collects its result. So the loop gets each result
once: from `run`, or from `take_ended` where `run` reported the write as deferred. A write returns its changes of the
reconciler's memory, and the loop's own thread makes them. A deferred write sends nothing more: it asks `proceed` before
each further request.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple

from reconciler.cluster.client import Retry
from reconciler.cluster.objects import Ref
from reconciler.timings import TIMINGS, WriteTimings

log = logging.getLogger(__name__)

NO_ANSWER = "the API server has not answered yet, about it or about others of its kind"

Unanswered = Literal["left", "put off", "retry"]
"""States of a write without a known answer: still under way, not begun, or completed without an answer."""
Proceed = Callable[[], None]
"""Asked before each further request of a write; raises Retry where nobody waits for it any more."""
Note = Callable[[], Any]
"""Remembers what a write that has ended has done, in the loop's thread; the result of the write."""


class Task(NamedTuple):
    """One write, of the object `ref`. send: asks the server. unanswered: the result without an answer, and why."""

    ref: Ref
    send: Callable[[Proceed], Note]
    unanswered: Callable[[Unanswered, str], Any]


@dataclass(eq=False, slots=True)
class _Call:
    """A task in progress. began_at: on the monotonic clock. answer: set when it has completed."""

    task: Task
    answer: Future[Note] = field(default_factory=Future)
    began_at: float = inf
    is_left: bool = False

    def begin(self) -> None:
        self.began_at = time.monotonic()

    def send(self) -> Callable[[], None]:
        """Make the write, and return a function that reports its result."""
        try:
            note = self.task.send(self._proceed)
        except BaseException as error:  # it is raised where the loop takes it up
            return partial(self.answer.set_exception, error)
        return partial(self.answer.set_result, note)

    def _proceed(self) -> None:
        if self.is_left:
            raise Retry(NO_ANSWER)

    def is_awaited(self) -> bool:
        """Return whether the loop waits for this call, which has begun."""
        return not self.answer.done() and not self.is_left

    def leave_after(self, seconds: float) -> bool:
        """Defer the call if it is awaited and has lasted so long; return whether it was deferred now."""
        was_awaited = self.is_awaited()
        self.is_left = self.is_left or (was_awaited and time.monotonic() - self.began_at >= seconds)
        return was_awaited and self.is_left

    def error(self) -> BaseException | None:
        """Return the exception of a call that the loop waits for."""
        return self.answer.exception() if self.answer.done() and not self.is_left else None

    def result(self) -> Any:
        """Return the result for the loop that waits for it."""
        if self.is_left:
            return self.task.unanswered("left", NO_ANSWER)
        return self.answer.result()() if self.answer.done() else self.task.unanswered("put off", NO_ANSWER)

    def late_result(self) -> Any:
        """Return the result of a deferred call. Nobody waits for it, so its exception stops nothing else."""
        error = self.answer.exception()
        if error is None:
            try:
                return self.answer.result()()
            except Exception as raised:  # the other results are collected all the same
                error = raised
        log.warning("a write that was left failed", exc_info=error, extra={"object": str(self.task.ref)})
        return self.task.unanswered("retry", f"{type(error).__name__}: {error}")


@dataclass(slots=True)
class WriteThreads:
    """Runs writes, and keeps deferred ones by their object's key until their results are collected. on_end: called when
    a deferred write completes. _idle: where threads without a write wait for one, since starting a thread takes as long
    as half a request."""

    timings: WriteTimings = TIMINGS.writes
    on_end: Callable[[], None] = lambda: None
    _left: dict[str, _Call] = field(default_factory=dict)
    _idle: deque[SimpleQueue[_Call]] = field(default_factory=deque)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Return the result of each task, in their order. Raises the first error once none but deferred writes is under
        way; the successful ones are noted before."""
        calls = [_Call(task) for task in tasks]
        waiting, signals = deque(calls), SimpleQueue[None]()
        look, writers = self.timings.look, self.timings.writers
        under_way, look_at = self._begin(waiting, writers, signals), time.monotonic() + look
        while under_way:
            with suppress(Empty):
                signals.get(timeout=look)
            if time.monotonic() >= look_at:
                self._leave_late(under_way)
                look_at = time.monotonic() + look
            under_way = [call for call in under_way if call.is_awaited()]
            under_way += self._begin(waiting, writers - len(under_way), signals)
        errors = [call.error() for call in calls]
        results = [call.result() for call, error in zip(calls, errors, strict=True) if error is None]
        if failed := next(filter(None, errors), None):
            raise failed
        return results

    def is_open(self, key: str) -> bool:
        """Return whether a deferred write of this object has not been collected yet."""
        return key in self._left

    def is_any_open(self) -> bool:
        """Return whether any deferred write has not been collected yet."""
        return bool(self._left)

    def is_crowded(self, ref: Ref) -> bool:
        """Return whether too many writes like one of this object are deferred to begin another."""
        timings = self.timings
        if len(self._left) < timings.most_left_of_group:
            return False
        left = self._left_under_way()
        of_kind = [each for each in left if each.group_kind == ref.group_kind]
        of_group = sum(each.namespace == ref.namespace for each in of_kind)
        is_crowded = of_group >= timings.most_left_of_group or len(of_kind) >= timings.most_left_of_kind
        return is_crowded or len(left) > timings.most_left - timings.writers

    def must_wait(self, ref: Ref) -> bool:
        """Return whether a write of the object is deferred, or too many like it."""
        return self.is_open(ref.key) or self.is_crowded(ref)

    def take_ended(self) -> list[Any]:
        """Return the results of deferred writes that have completed, each once."""
        ended = [call for call in self._left.values() if call.answer.done()]
        for call in ended:
            del self._left[call.task.ref.key]
        return [call.late_result() for call in ended]

    def _left_under_way(self) -> list[Ref]:
        return [call.task.ref for call in self._left.values() if not call.answer.done()]

    def _begin(self, waiting: deque[_Call], room: int, signals: SimpleQueue[None]) -> list[_Call]:
        """Begin as many writes as there is room for, and skip those of which too many like them are deferred. One that
        gets no thread waits for those under way; if there are none, it has failed. signals: receives one item for each
        that completes."""
        begun: list[_Call] = []
        while waiting and len(begun) < room:
            call = waiting.popleft()
            if self.is_crowded(call.task.ref):
                continue
            try:
                self._give(call)
            except RuntimeError as error:
                if begun or room < self.timings.writers:
                    waiting.appendleft(call)
                    break
                call.answer.set_exception(error)
            else:
                begun.append(call)
                call.answer.add_done_callback(lambda _: signals.put(None))
        return begun

    def _give(self, call: _Call) -> None:
        """Let an idle thread make the write, else a new one. Raises RuntimeError where the system has none."""
        call.begin()
        try:
            orders = self._idle.pop()
        except IndexError:
            orders = SimpleQueue()
            threading.Thread(target=self._work, args=(orders,), name="writer", daemon=True).start()
        orders.put(call)

    def _work(self, orders: SimpleQueue[_Call]) -> None:
        """Make one write after the other, until none arrives for long."""
        while True:
            try:
                report = orders.get(timeout=self.timings.idle).send()
            except Empty:
                with suppress(ValueError):  # a write is on its way
                    self._idle.remove(orders)
                    return
            else:
                self._idle.append(orders)  # first: the reader of the result may send the next write
                report()
                del report  # it refers to the written object

    def _leave_late(self, under_way: Iterable[_Call]) -> None:
        """Leave the calls that the loop has waited for too long."""
        kinds = {ref.group_kind for ref in self._left_under_way()}
        for call in under_way:
            patience = self.timings.short_patience if call.task.ref.group_kind in kinds else inf
            if call.leave_after(min(patience, self.timings.patience)):
                self._left[call.task.ref.key] = call
                call.answer.add_done_callback(lambda _: self.on_end())
