"""Several writes at a time, and none that holds up the others: the loop waits for each of them for `PATIENCE` seconds.
One that has no answer by then (an admission webhook that hangs) goes on by itself; a later pass takes up what came of
it.

What a write is to change in the reconciler's memory it returns, and the loop's own thread does it. The request that is
under way is the last one of a write that is left: it asks `proceed` before each further one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, NamedTuple

from reconciler.cluster.client import Retry
from reconciler.cluster.objects import Ref

WRITERS = 12
"""Writes at a time, those that are left not counted."""
PATIENCE, SHORT_PATIENCE = 2.0, 0.5
"""Seconds that the loop waits for a write, and for one while others of its kind and namespace are left."""
LOOK = 0.25
"""Seconds between looks at what has begun too long ago."""
MAX_LEFT_OF_GROUP, MAX_LEFT = 8, 64
"""Writes of one kind and namespace that are left: then no other of these is begun. And of all: then the loop waits."""
NO_ANSWER = "the API server has not answered yet, about it or about others of its kind"

Proceed = Callable[[], None]
"""Asked before each further request of a write; raises Retry where nobody waits for it any more."""


class Task(NamedTuple):
    """One write. ref: of the object."""

    ref: Ref
    function: Callable[[Proceed], Any]

    @property
    def group(self) -> tuple[str, str]:
        return self.ref.group_kind, self.ref.namespace


@dataclass(eq=False, slots=True)
class _Call:
    """A write under way. began_at: on the monotonic clock, None before it has begun."""

    task: Task
    future: Future[Any] = field(default_factory=Future)
    began_at: float | None = None
    is_left: bool = False

    def begin(self) -> None:
        self.began_at = time.monotonic()

    def run(self) -> None:
        try:
            self.future.set_result(self.task.function(self.proceed))
        except BaseException as error:  # it is raised where the loop takes it up
            self.future.set_exception(error)

    def leave(self) -> None:
        self.is_left = True

    def proceed(self) -> None:
        if self.is_left:
            raise Retry(NO_ANSWER)


@dataclass(slots=True)
class WriteThreads:
    """Runs writes, and keeps those that are left, by the key of their object. on_end: called when one of them ends.
    The threads are the process's, which ends without waiting for them."""

    patience: float = PATIENCE
    on_end: Callable[[], None] = lambda: None
    _left: dict[str, _Call] = field(default_factory=dict)
    _calls: SimpleQueue[_Call] = field(default_factory=SimpleQueue)
    _threads: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell_ends(self, on_end: Callable[[], None]) -> None:
        """Set `on_end`."""
        self.on_end = on_end

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """What each returned, in the order of the tasks; None for those without an answer. Raises the first error, when
        none of them goes on but those that are left."""
        crowded = {group for group, count in self._left_groups().items() if count >= MAX_LEFT_OF_GROUP}
        calls = [None if task.group in crowded else _Call(task) for task in tasks]
        begun = [call for call in calls if call is not None]
        for call in begun:
            self._calls.put(call)
        self._keep_threads(len(begun))
        self._wait(begun)
        return [None if call is None or call.is_left else call.future.result() for call in calls]

    def is_open(self, key: str) -> bool:
        """Whether a write of this object is left that has not been taken up yet."""
        return key in self._left

    def take_ended(self) -> Iterator[Any]:
        """What the writes returned that were left and have ended. Raises the error of one."""
        for key, call in list(self._left.items()):
            if call.future.done():
                del self._left[key]
                yield call.future.result()

    def _left_groups(self) -> Counter[tuple[str, str]]:
        return Counter(call.task.group for call in self._left.values())

    def _wait(self, calls: Sequence[_Call]) -> None:
        """Until each of the calls has ended or is left."""
        pending = list(calls)
        while pending:
            done, _ = wait([call.future for call in pending], timeout=LOOK)
            pending = [call for call in pending if call.future not in done]
            self._leave_late_calls(pending)
            pending = [call for call in pending if not call.is_left]

    def _leave_late_calls(self, pending: Sequence[_Call]) -> None:
        """Leave the calls that have begun too long ago, and do not begin others of a kind of which many are left."""
        with self._lock:
            groups, now = self._left_groups(), time.monotonic()
            late = [call for call in pending if self._is_late(call, now, groups)][: max(0, MAX_LEFT - len(self._left))]
            for call in late:
                call.leave()
                self._left[call.task.ref.key] = call
                groups[call.task.group] += 1
            self._threads -= len(late)  # each ends with its call
            for call in pending:
                if call.began_at is None and groups[call.task.group] >= MAX_LEFT_OF_GROUP:
                    call.leave()
        for call in late:
            call.future.add_done_callback(lambda _: self.on_end())
        self._keep_threads(len(late))

    def _is_late(self, call: _Call, now: float, groups: Counter[tuple[str, str]]) -> bool:
        if call.began_at is None or call.future.done():
            return False
        patience = min(self.patience, SHORT_PATIENCE) if groups[call.task.group] else self.patience
        return now - call.began_at >= patience

    def _keep_threads(self, needed: int) -> None:
        with self._lock:
            new = min(WRITERS, self._threads + needed) - self._threads
            self._threads += new
        for _ in range(new):
            threading.Thread(target=self._work, name="writer", daemon=True).start()

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            with self._lock:
                if call.is_left:
                    continue  # its turn has come to nothing
                call.begin()
            call.run()
            with self._lock:
                if call.is_left:
                    return
