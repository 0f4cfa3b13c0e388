"""The writer's memory between passes: results of changes, the last writes, and opponents in fights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from compiler.emit.manifest import Manifest
from compiler.kubernetes import uid_of
from compiler.syntax.runs import json_digest
from reconciler.changes.diff import Change
from reconciler.changes.managed_fields import own_fields
from reconciler.changes.results import UNANSWERED, ChangeResult, Condition
from reconciler.cluster.objects import Object, name_of_key
from reconciler.threads.memo import drop_other_keys
from reconciler.threads.rest import doubled
from reconciler.timings import TIMINGS, ObjectTimings


class Unkept(NamedTuple):
    """Differences that remained after an apply, since a webhook changes the fields or the server normalizes them.

    digest: of them and the manifest; empty for none. paths: of the fields. is_hidden: the watch may not show the
    object, since our label is among them. pause, retry_at: it is not tried again before.
    """

    digest: str
    paths: str = ""
    is_hidden: bool = False
    pause: float = 0.0
    retry_at: float = 0.0


NOTHING_UNKEPT = Unkept("")


@dataclass(slots=True)
class WriterMemory:
    """Tables by Ref.key; losing them costs a few needless requests, nothing else.

    unkept: what objects did not keep of the last apply. applied_digests: of the last apply. paused_changes: (digest of
    a refused change, failures, time before which it is not tried again). refused_updates: of an object that the server
    does not let be changed, the refused change (`refusal_digest`). own_fields: of an object that existed before us, the
    fields that were ours alone when it was last as planned: only these are put back. refused_creates: of an object that
    the server does not let be created, since when, until it does. unsaved_intents: entries that the stored inventory
    lacks. lost_answers: when a write of the object last got no answer, so that it may still be made. failures: how the
    last attempt failed, or that it has no answer, until one succeeds. heat: of each object, and when it was measured.
    Each correction adds one, and it cools down linearly. fights: an object above the threshold -> until when only it is
    not corrected, and a sentence on the opponent.
    """

    timings: ObjectTimings = TIMINGS.objects
    unkept: dict[str, Unkept] = field(default_factory=dict)
    applied_digests: dict[str, str] = field(default_factory=dict)
    paused_changes: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    refused_updates: dict[str, str] = field(default_factory=dict)
    own_fields: dict[str, frozenset[str]] = field(default_factory=dict)
    unsaved_intents: set[str] = field(default_factory=set)
    lost_answers: dict[str, float] = field(default_factory=dict)
    refused_creates: dict[str, float] = field(default_factory=dict)
    failures: dict[str, ChangeResult] = field(default_factory=dict)
    heat: dict[str, tuple[float, float]] = field(default_factory=dict)
    fights: dict[str, tuple[float, str]] = field(default_factory=dict)

    def record_correction(self, key: str, opponent: str, now: float) -> bool:
        """Count a correction; whether this object has just become a fight."""
        (heat, at), times = self.heat.get(key, (0.0, now)), self.timings
        heat = max(0.0, heat - (now - at) * times.fight_threshold / times.fight_window) + 1.0
        is_fight = heat > times.fight_threshold
        self.heat[key] = (0.0 if is_fight else heat, now)
        if is_fight:
            self.fights[key] = now + times.fight_pause, opponent
        return is_fight

    def opponent(self, key: str, now: float) -> str:
        """Return the opponent in the fight over the object; empty if it is corrected as usual."""
        until, opponent = self.fights.get(key, (0.0, ""))
        return opponent if now < until else ""

    def conditions(self, now: float) -> Iterator[Condition]:
        texts = [f"{name_of_key(key)}: {who}" for key, (until, who) in sorted(self.fights.items()) if now < until]
        yield Condition.of_texts("Fighting", texts, "None", "Fighting")

    def record_intent(self, key: str) -> None:
        self.unsaved_intents.add(key)

    def record_lost_answer(self, key: str, now: float) -> None:
        self.lost_answers[key] = now

    def record_save(self, inventory_key: str) -> None:
        self.unsaved_intents.clear()
        self.paused_changes.pop(inventory_key, None)

    def record_apply(self, key: str, desired_digest: str, unkept: Unkept, now: float) -> bool:
        """Note an apply and the remaining differences; return whether the same was applied before, as a correction."""
        is_correction = self.applied_digests.get(key) == desired_digest
        former = self.unkept.pop(key, NOTHING_UNKEPT)
        if unkept.digest:
            times = self.timings
            longer = min(2 * former.pause, times.longest_unfixable_pause)
            pause = longer if former.digest == unkept.digest else times.first_unfixable_pause
            self.unkept[key] = unkept._replace(pause=pause, retry_at=now + pause)
        self.applied_digests[key] = desired_digest
        return is_correction

    def record_result(self, result: ChangeResult, now: float) -> None:
        """Record a success, or a failure, which pauses its change. A result without an answer keeps the former failure,
        which is more specific."""
        key, former = result.change.ref.key, self.failures.pop(result.change.ref.key, None)
        if result.outcome == "done":
            self.paused_changes.pop(key, None)
            self.refused_updates.pop(key, None)
            self.refused_creates.pop(key, None)
        elif result.outcome in UNANSWERED:
            self.failures[key] = former if former is not None and former.outcome == "retry" else result
        else:
            self.failures[key] = result
            if result.outcome != "fight":
                self._pause_change(result, now)

    def _pause_change(self, result: ChangeResult, now: float) -> None:
        change = result.change
        key, digest = change.ref.key, change_digest(change)
        if result.outcome == "refused" and change.action == "in-place":
            self.record_refused_update(change)
        if result.outcome == "refused" and change.action == "create":
            self.refused_creates.setdefault(key, now)
        previous, failures, _ = self.paused_changes.get(key, ("", 0, 0.0))
        failures = failures + 1 if previous == digest else 1
        pause = max(result.retry_after, doubled(self.timings.first_pause, failures - 1, self.timings.longest_pause))
        self.paused_changes[key] = (digest, failures, now + pause)

    def record_refused_update(self, change: Change) -> None:
        """Note that the server does not let the live object be changed so, and it may have to be recreated."""
        if change.desired is not None:
            self.refused_updates[change.ref.key] = refusal_digest(change.desired, change.live)

    def is_update_refused(self, key: str, desired: Manifest, live: Object | None) -> bool:
        known = self.refused_updates.get(key)
        return known is not None and known == refusal_digest(desired, live)

    def lastingly_refused(self, keys: Iterable[str], now: float) -> dict[str, str]:
        """Which of these objects the server has not let be created for a while, with a sentence. It does not quote the
        server: a plan is made by it, and a quota is quoted with new numbers each time."""
        until = now - self.timings.keeps_room
        refused = (key for key in keys if self.refused_creates.get(key, now) <= until)
        why = "the API server refuses to create it, so it keeps no room: see its row among held"
        return dict.fromkeys(refused, why)

    def record_own_fields(self, key: str, live: Object) -> None:
        self.own_fields[key] = own_fields(live)

    def is_given_up(self, change: Change) -> bool:
        """Return whether waiting for the change is likely to be useless: it was refused again and again, or is fought
        over."""
        key = change.ref.key
        failure = self.failures.get(key)
        if failure is None or failure.outcome in ("retry", *UNANSWERED):
            return False
        digest, failures, _ = self.paused_changes.get(key, ("", 0, 0.0))
        is_refused_again = failures >= self.timings.given_up_after and digest == change_digest(change)
        return failure.outcome == "fight" or is_refused_again

    def trim(self, keys: Collection[str], now: float) -> None:
        refusals = self.paused_changes, self.refused_updates, self.failures, self.lost_answers, self.refused_creates
        for table in (self.unkept, self.applied_digests, self.own_fields, *refusals):
            drop_other_keys(table, keys)
        window = self.timings.fight_window
        drop_other_keys(self.heat, {key for key, (_, at) in self.heat.items() if now - at < window})
        drop_other_keys(self.fights, {key for key, (until, _) in self.fights.items() if now < until})


def refusal_digest(desired: Manifest, live: Object | None) -> str:
    """Return the identity of a refused change: of a job its run, else the live object and its desired state."""
    return desired.run_digest or json_digest([uid_of(live) if live else "", desired.object])


def change_digest(change: Change) -> str:
    return json_digest([change.action, change.desired.object if change.desired else None])
