"""Questions to the API server: would it take these objects? Asked by dry run, beside the loop, before the first write
of a commit.

Only a refusal of the object itself counts: by the schema, or by an admission webhook. What may be missing because it
comes in the same commit (a queue, a namespace, the kind itself) is not held against an object: the queue of a new one
is replaced by one that exists. What cannot be found out is found out by writing, and holds up only itself.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from compiler.kubernetes import name_of, uid_of
from compiler.run_kinds import is_run
from reconciler.cluster.client import ApiError, Client, Conflict, Invalid, LostLease, Retry, server_message, short_error
from reconciler.cluster.objects import Object, Ref, ref_of

log = logging.getLogger(__name__)

ASKERS = 12
"""Questions under way at a time."""
ATTEMPTS = 3
"""Times that a question is asked which gets no answer."""
_QUEUE_LIMITS = ("parent", "capability", "deserved", "guarantee")
"""Fields of a Queue that admission compares with other queues."""
_NO_DRY_RUN = "does not support dry run"


@dataclass(frozen=True, slots=True)
class Question:
    """Would this object be taken? uid: of the object to change, empty for a new one. position: "file:line". others:
    names of the objects of the same commit that are written before it. is_renamed: asked under another name, since the
    object with this name makes room first."""

    item: Object
    position: str
    uid: str = ""
    others: frozenset[str] = frozenset()
    is_renamed: bool = False

    @property
    def ref(self) -> Ref:
        return ref_of(self.item)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An object that the API server does not take, and what it says."""

    question: Question
    message: str


class DryRun:
    """Asks questions in threads of its own; `wake` is called when all are answered."""

    def __init__(self, client: Client, wake: Callable[[], None]) -> None:
        self.client, self.wake = client, wake
        self._result: tuple[Refusal, ...] | None = None
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, questions: Sequence[Question]) -> None:
        self._result = None
        self._thread = threading.Thread(target=self._ask_all, args=(questions,), name="dry-run", daemon=True)
        self._thread.start()

    def take_result(self) -> tuple[Refusal, ...] | None:
        """The refusals, in the order of the questions, once; None while they are asked, or when the lease was lost."""
        result = None if self.is_busy else self._result
        if result is not None:
            self._result = None
        return result

    def stop(self) -> None:
        self._is_stopped = True

    def _ask_all(self, questions: Sequence[Question]) -> None:
        began_at = time.monotonic()
        try:
            self._result = self.refusals_of(questions)
            seconds = round(time.monotonic() - began_at, 3)
            log.info("dry run", extra={"objects": len(questions), "refused": len(self._result), "seconds": seconds})
        except LostLease:
            log.info("the dry run was given up with the lease")
        except Exception as error:  # a plan must not wait for ever: what is refused then holds up only itself
            log.warning("the dry run broke down", extra={"reason": short_error(error)})
            self._result = ()
        self._thread = None
        self.wake()

    def refusals_of(self, questions: Sequence[Question]) -> tuple[Refusal, ...]:
        with ThreadPoolExecutor(ASKERS, "dry-run") as threads:
            messages = list(threads.map(self._refusal, questions))
        pairs = zip(questions, messages, strict=True)
        return tuple(Refusal(question, message) for question, message in pairs if message)

    def _refusal(self, question: Question) -> str:
        """Why the object is not taken, empty when it is or when that cannot be said."""
        item = _under_other_name(question.item) if question.is_renamed else question.item
        reduced = _without_references(item, question.others, is_new=not question.uid)
        is_queue = item["kind"] == "Queue"
        message = self._ask(item if is_queue else reduced, question.uid)
        if message and is_queue and question.others:
            message = self._ask(reduced, question.uid)
        return "" if _names(message) & question.others else message

    def _ask(self, item: Object, uid: str) -> str:
        for _ in range(ATTEMPTS):
            if self._is_stopped:
                return ""
            try:
                self._try(item, uid)
            except Retry:
                continue
            except Invalid as error:
                message = server_message(error)
                return "" if _NO_DRY_RUN in message else message
            except ApiError as error:
                log.info("a dry run says nothing", extra={"object": str(ref_of(item)), "reason": str(error)[:300]})
            return ""
        return ""

    def _try(self, item: Object, uid: str) -> None:
        if not uid:
            try:
                self.client.create_by_apply(item, dry_run=True)
            except Conflict:
                ref = ref_of(item)
                if is_run(item):
                    raise
                uid = uid_of(self.client.get(ref))
        if uid:
            self.client.apply(item, uid, dry_run=True)


def _under_other_name(item: Object) -> Object:
    name = name_of(item)
    return {**item, "metadata": {**item["metadata"], "name": name[:-1] + ("y" if name.endswith("x") else "x")}}


def _without_references(item: Object, others: Collection[str], *, is_new: bool) -> Object:
    """The object without what names or is measured against those others. One that exists has its queue already, and may
    not change it."""
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return item
    if item["kind"] == "Queue":
        return {**item, "spec": {key: value for key, value in spec.items() if key not in _QUEUE_LIMITS}}
    if is_new and spec.get("queue") in others:
        return {**item, "spec": {**spec, "queue": "default"}}
    return item


def _names(message: str) -> set[str]:
    return {word.strip(".-") for word in re.findall(r"[a-z0-9.-]+", message)}
