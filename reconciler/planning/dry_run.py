"""Asks the API server whether it would accept objects, by dry run, outside the loop, before the first write of a
commit.

Only a refusal of the object itself counts: by the schema, or by admission (a webhook, a policy, PodSecurity, a quota).
An object is not refused for something that the same commit may create (a queue, a namespace, the kind itself): the
queue of a new one is replaced by an existing one. A full quota refuses no job, which may wait for it. Questions without
an answer are answered by writing, and block only their object.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from compiler.emit.live_changes import may_be_replaced
from compiler.fields.texts import short_list
from compiler.kubernetes import uid_of
from compiler.run_kinds import is_run
from reconciler.changes.desired import WAY_OUT, is_accepted_if_recreated, under_other_name
from reconciler.cluster.client import ApiError, Client, Conflict, Invalid, LostLease, Retry, server_message, short_error
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.threads.heartbeat import Heartbeat
from reconciler.timings import TIMINGS, DryRunTimings

log = logging.getLogger(__name__)

_QUEUE_LIMITS = ("parent", "capability", "deserved", "guarantee")
"""Fields of a Queue that admission compares with other queues."""
_NO_DRY_RUN = "does not support dry run"
_FULL_QUOTA = re.compile(r"is forbidden: (exceeded quota|status unknown for quota): ")
"""A ResourceQuota without room now, or whose usage was not counted yet. A breach of its rules has a different
message."""


@dataclass(frozen=True, slots=True)
class Question:
    """Would this object be taken? uid: of the object to change, empty for a new one. position: "file:line". others:
    names of the objects of the same commit on which a refusal may depend. is_renamed: asked under another name, since
    the object with this name makes room first. may_wait: for room in a quota, as a job may. is_job: it runs once."""

    item: Object
    position: str
    uid: str = ""
    others: frozenset[str] = frozenset()
    is_renamed: bool = False
    may_wait: bool = False
    is_job: bool = False

    @property
    def ref(self) -> Ref:
        return ref_of(self.item)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object that the API server refuses, and its message."""

    question: Question
    message: str


class DryRun:
    """The questions about one commit, asked in threads of its own; `wake` is called when all are answered.

    asked_at: question under way -> since when. troubles: question without an answer so far -> the error. result: the
    refusals in the order of the questions; None while they are asked, and when the lease was lost. is_awaited: a caller
    waits for the end, and need not be woken.
    """

    def __init__(
        self,
        client: Client,
        wake: Callable[[], None],
        questions: Sequence[Question],
        clock: Callable[[], float] = time.monotonic,
        timings: DryRunTimings = TIMINGS.dry_run,
    ) -> None:
        self.client, self.wake, self.questions, self.timings = client, wake, questions, timings
        self.began_at, self.is_awaited = clock(), len(questions) <= timings.askers
        self.asked_at: dict[Ref, float] = {}
        self.troubles: dict[Ref, str] = {}
        self.result: tuple[Refusal, ...] | None = None
        self.ended, self.is_given_up = threading.Event(), False
        self.heartbeat = Heartbeat("dry-run", timings.heartbeat_limit, clock)

    @property
    def is_busy(self) -> bool:
        return not self.ended.is_set()

    def start(self) -> None:
        """Begin to ask; where there are few questions, wait a moment for the answers."""
        threading.Thread(target=self._ask_all, name="dry-run", daemon=True).start()
        if self.is_awaited:
            self.ended.wait(self.timings.moment)
            self.is_awaited = False  # the end from now on is seen by `ended`, or wakes

    def give_up(self) -> None:
        """Want no answer any more. Requests under way end by themselves."""
        self.is_given_up = True

    def delay(self) -> str:
        """Return the questions that wait for an answer, and the error instead; empty while none waits for long."""
        latest = self.heartbeat.clock() - self.timings.report_after
        waiting = sorted(ref for ref, since in list(self.asked_at.items()) if since <= latest)
        if not waiting:
            return ""
        names = short_list(list(map(str, waiting)), most=1)
        return f"{names}: {self.troubles.get(waiting[0], 'nothing has come yet')}"

    def seconds_to_report(self) -> float | None:
        """Return seconds until the first of the questions under way has waited for long; None where none will, or one
        has."""
        now = self.heartbeat.clock()
        seconds = min(list(self.asked_at.values()), default=now) + self.timings.report_after - now
        return seconds if self.is_busy and seconds > 0 else None

    def _ask_all(self) -> None:
        self.heartbeat.beat()
        try:
            with ThreadPoolExecutor(self.timings.askers, "dry-run") as threads:
                answers = zip(self.questions, list(threads.map(self._refusal, self.questions)), strict=True)
            self.result = tuple(Refusal(question, message) for question, message in answers if message)
            counts = {"objects": len(self.questions), "refused": len(self.result), "unanswered": len(self.troubles)}
            log.info("dry run", extra={**counts, "seconds": round(self.heartbeat.clock() - self.began_at, 3)})
        except LostLease:
            log.info("the dry run was given up with the lease")
        except Exception as error:  # a plan must not wait for ever: a refused object then blocks only itself
            log.warning("the dry run broke down", extra={"reason": short_error(error)})
            self.heartbeat.record_error(error)
            self.result = ()
        self.heartbeat.rest()
        self.ended.set()
        if not self.is_awaited:
            self.wake()

    def _refusal(self, question: Question) -> str:
        """Return why the object is refused, empty if it is accepted or that is unknown."""
        self.asked_at[question.ref] = self.heartbeat.clock()
        try:
            return self._answer_to(question)
        finally:
            del self.asked_at[question.ref]
            self.heartbeat.beat()

    def _answer_to(self, question: Question) -> str:
        item = under_other_name(question.item) if question.is_renamed else question.item
        reduced = _without_references(item, question.others, is_new=not question.uid)
        is_queue = item["kind"] == "Queue"
        message = self._ask(question, item if is_queue else reduced)
        if message and is_queue and question.others:
            message = self._ask(question, reduced)
        # Until the queue above a NamespaceQueue is there, the server cannot judge it.
        above = (item.get("spec") or {}).get("parent") if item["kind"] == "NamespaceQueue" else None
        named = {word.strip(".-") for word in re.findall(r"[a-z0-9.-]+", message)}
        if not message or not question.others.isdisjoint({*named, str(above or "").rpartition("/")[2]}):
            return ""
        recreated = _without_references(item, question.others, is_new=True)
        is_fixed = not question.uid or question.is_job or self.is_given_up
        if is_fixed or not is_accepted_if_recreated(self.client, recreated):
            return message
        return "" if may_be_replaced(item) else f"{message}; {WAY_OUT}"

    def _ask(self, question: Question, item: Object) -> str:
        ref, attempts = question.ref, 0
        while (attempts < self.timings.attempts or self._may_be_outage()) and not self._is_vain(ref):
            attempts += 1
            try:
                self._try(item, question.uid)
            except Retry as error:
                self.troubles[ref] = server_message(error)[:300]
                if self._may_be_outage():
                    time.sleep(min(error.after, self.timings.longest_pause))
                continue
            except Invalid as error:
                message = server_message(error)
                self.troubles.pop(ref, None)
                is_late = question.may_wait and _FULL_QUOTA.search(message)
                return "" if is_late or _NO_DRY_RUN in message else message
            except ApiError as error:
                log.info("a dry run says nothing", extra={"object": str(ref), "reason": str(error)[:300]})
            self.troubles.pop(ref, None)
            break
        return ""

    def _may_be_outage(self) -> bool:
        """Return whether it is too early to go without an answer."""
        return self.heartbeat.clock() - self.began_at < self.timings.outage

    def _is_vain(self, ref: Ref) -> bool:
        """Return whether this is asked no more: nobody wants to know, or the round has lasted long enough and its kind
        gave no answer."""
        is_long = self.heartbeat.clock() - self.began_at >= self.timings.patience
        return self.is_given_up or (is_long and any(each.group_kind == ref.group_kind for each in list(self.troubles)))

    def _try(self, item: Object, uid: str) -> None:
        if not uid:
            try:
                self.client.create_by_apply(item, dry_run=True)
            except Conflict:
                if is_run(item):
                    raise
                uid = uid_of(self.client.get(ref_of(item)))
        if uid:
            self.client.apply(item, uid, dry_run=True)


def _without_references(item: Object, others: Collection[str], *, is_new: bool) -> Object:
    """Return the object without what names or is measured against those others. One that exists has its queue already,
    and may not change it."""
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return item
    if item["kind"] == "Queue":
        return {**item, "spec": {key: value for key, value in spec.items() if key not in _QUEUE_LIMITS}}
    if is_new and str(spec.get("queue") or "").rpartition("/")[2] in others:
        return {**item, "spec": {**spec, "queue": "default"}}
    return item
