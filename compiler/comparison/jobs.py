"""Effects of a change on each job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from compiler.comparison.edits import Edit, Treatment, paired
from compiler.decided import JobEffect
from compiler.explain.provenance import Source, source_at
from compiler.kubernetes import PRUNE_ANNOTATION, REPLACE_ANNOTATION, SUSPEND_ANNOTATION, is_never_pruned, is_suspended
from compiler.outcome import JobDecision, Outcome, PodsByNode
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import JobKey
from compiler.syntax.runs import run_digest

JOB_EFFECTS: tuple[JobEffect, ...] = get_args(JobEffect)
_ENDING: frozenset[JobEffect] = frozenset(("evicted", "removed", "restarts"))
_STARTING_AGAIN: frozenset[JobEffect] = frozenset(("restarts", "moves", "starts"))


@dataclass(frozen=True, slots=True)
class JobChange:
    """The effect on one job. why: in a sentence. decision: in the newer revision that has the job. before, after: its
    pods. is_new: the job is not in the base. treatment: how an edit takes effect. sources: the place of the cause in
    the new revision, if it is a field of it. code: of the reason. never: it can never start (again) as written, and
    could before."""

    effect: JobEffect
    why: str
    decision: JobDecision
    before: PodsByNode
    after: PodsByNode
    is_new: bool = False
    treatment: Treatment | None = None
    sources: tuple[Source, ...] = ()
    code: str = ""
    never: bool = False

    @property
    def key(self) -> JobKey:
        return self.decision.key

    @property
    def name(self) -> str:
        return self.decision.name

    @property
    def queue(self) -> str:
        return self.decision.gang.queue

    @property
    def job_kind(self) -> str:
        return self.decision.gang.document.kind

    @property
    def waits_longer(self) -> bool:
        """Return whether the job of the base starts later than there, or is stopped."""
        return self.effect in ("evicted", "later") or (self.effect in ("waits", "never") and bool(self.before))

    @property
    def is_halted(self) -> bool:
        return self.effect == "never" or self.waits_longer

    @property
    def ends(self) -> bool:
        """Return whether what ran of the job ends at once."""
        return self.effect in _ENDING or self.treatment == "restart"


def removed_jobs(base: Specs, head: Specs) -> frozenset[JobKey]:
    """Jobs that the new revision does not hold, and that the reconciler deletes."""
    there = {gang.key for gang in head.gangs}
    return frozenset(gang.key for gang in base.gangs if not is_never_pruned(gang.document.data)) - there


EmptyPlans = tuple[Outcome, Outcome]
"""Base and head planned for the empty cluster."""


def job_changes(
    base: Outcome,
    head: Outcome,
    empty: EmptyPlans,
    edits: Mapping[JobKey, Edit],
    treated: Mapping[JobKey, Treatment],
    removed: frozenset[JobKey],
) -> Iterator[JobChange]:
    """Yield a change for each job that differs. Whether a job can never start is certain only for the empty cluster."""
    before, after = base.by_key, head.by_key
    by_name = {decision.name: decision for decision in head.decisions}
    nodes = {node.name for node in head.specs.nodes}
    could_never, can_never = ({each.key: each for each in found.decisions if each.never} for found in empty)
    for key, decision in after.items():
        former, edit = before.get(key), edits.get(key)
        shown = can_never.get(key, decision) if decision.action == "wait" else decision
        if former is not None and former.action == "wait":
            former = could_never.get(key, former)
        found = _JobComparison(former, shown, edit, treated.get(key), nodes, key in could_never).change()
        if found is not None:
            preemptors = [by_name[name] for name in decision.evicted_for if name in by_name]
            found = replace(found, sources=_sources(found, shown, edit, preemptors))
            is_lost = found.effect == "evicted" and key in can_never and key not in could_never
            yield _for_good(found, can_never[key]) if is_lost else found
    renamed = _renamed_jobs(base.specs, head.specs)
    for key, former in before.items():
        if key not in after:
            yield _removal(former, key in removed, renamed.get(key, ""))


def _for_good(eviction: JobChange, again: JobDecision) -> JobChange:
    """Return the eviction of a job that could never start again. again: its decision for the empty cluster."""
    why = f"{eviction.why}; it could never start again: {first_reason(again)}"
    reasons = again.reasons[:1]
    sources = (*(each for reason in reasons for each in reason.sources), *eviction.sources)
    return replace(eviction, why=why, never=True, sources=sources, code="".join(reason.code for reason in reasons))


def _removal(former: JobDecision, is_deleted: bool, new_name: str) -> JobChange:
    if not is_deleted:
        why = f"it leaves the repository and stays in the cluster ({PRUNE_ANNOTATION}: disabled)"
        return replace(_job_change("edited", why, former, None), after=former.pods)
    why = "it is not in the new revision"
    return _job_change("removed", f"{why}; {new_name} has the same specification" if new_name else why, former, None)


def _renamed_jobs(base: Specs, head: Specs) -> dict[JobKey, str]:
    """Return removed job -> name of a new one that differs from it in its name only."""
    new, gone, _ = paired({gang.key: gang for gang in base.gangs}, {gang.key: gang for gang in head.gangs})
    came = {run_digest(gang.document.data): f"{gang.namespace}/{gang.document.name}" for gang in new.values()}
    digests = {key: run_digest(gang.document.data) for key, gang in gone.items()}
    return {key: came[digest] for key, digest in digests.items() if digest in came}


def _sources(
    change: JobChange, decision: JobDecision, edit: Edit | None, preemptors: Sequence[JobDecision]
) -> tuple[Source, ...]:
    """Return the place of the cause: of the reason, the jobs for which it makes room, or the edited field."""
    if change.effect in ("never", "waits", "later", "reason"):
        return next((reason.sources for reason in decision.reasons if change.why.startswith(reason.message)), ())
    if change.effect in ("evicted", "shrinks") and preemptors:
        return tuple(source_at(each.gang.document, "", "metadata", "name") for each in preemptors)
    if edit is not None:
        return (source_at(decision.gang.document, "", *edit.path),)
    return ()


def _job_change(effect: JobEffect, why: str, former: JobDecision | None, decision: JobDecision | None) -> JobChange:
    shown = decision or former
    assert shown is not None  # noqa: S101  - a job is in one of the two
    before, after = ({} if each is None else each.pods for each in (former, decision))
    return JobChange(effect, why, shown, before, after, is_new=former is None, never=effect == "never")


@dataclass(frozen=True, slots=True)
class _JobComparison:
    """One job in both plans. nodes: names of those in the head. could_never: whether it could never start before."""

    former: JobDecision | None
    decision: JobDecision
    edit: Edit | None
    treatment: Treatment | None
    nodes: set[str]
    could_never: bool

    def change(self) -> JobChange | None:
        """Return the effect on the job; None where nothing changed."""
        found = self._effect()
        if found is None:
            return None
        effect, why = found
        change = replace(_job_change(effect, why, self.former, self.decision), treatment=self.treatment)
        in_place = self.treatment == "in place" and self.decision.gang.scheduling.schedulable
        stays = effect in ("new run", "edited") or (effect in ("never", "waits") and in_place)
        if stays and self._ran:
            change = replace(change, after=change.before)
        reasons = self.decision.reasons
        return replace(change, code=reasons[0].code if effect in ("never", "waits", "later") and reasons else "")

    @property
    def _ran(self) -> bool:
        return self.former is not None and bool(self.former.pods)

    @property
    def _text(self) -> str:
        return "" if self.edit is None else self.edit.text

    @property
    def _ending(self) -> str:
        """Return why the live run ends: its owner allows it, or it is of another API group, and is pruned."""
        is_same = self.former is None or self.former.gang.document.group == self.decision.gang.document.group
        return f"; its live run ends for the new one{f' ({REPLACE_ANNOTATION})' if is_same else ''}"

    def _effect(self) -> tuple[JobEffect, str] | None:
        decision = self.decision
        if decision.action == "evict":
            return "evicted", f"it makes room for {', '.join(decision.evicted_for)}"
        if self._ran and is_suspended(decision.gang.document.data):
            return ("edited", f"it runs on, and {SUSPEND_ANNOTATION} keeps its object as it is") if self.edit else None
        if self._ran and self.treatment in ("new run", "next run", "update"):
            return self._effect_of_later_run()
        if decision.action == "wait":
            return self._effect_of_waiting()
        if decision.action == "done":
            return None if self.former else ("added", "it is new, and is over in the cluster already")
        return self._effect_of_running()

    def _effect_of_later_run(self) -> tuple[JobEffect, str]:
        if self.treatment == "update":
            return "edited", f"{self._text}; its controller replaces pods of another template"
        if self.treatment == "next run":
            return "edited", f"{self._text}; what runs is not changed, the next run is"
        ending = f"its new run waits for the end of this one, or for {REPLACE_ANNOTATION}"
        return "new run", f"{self._text}; {ending}"

    def _effect_of_waiting(self) -> tuple[JobEffect, str] | None:
        former, decision = self.former, self.decision
        why = first_reason(decision)
        if self._ran and self.treatment == "in place":
            why += "; the pods that run stay" if decision.gang.scheduling.schedulable else "; its pods are stopped"
        if decision.never and (former is None or not (self.could_never or former.never)):
            return "never", why
        if former is None:
            return "waits", why
        if former.action == "done":
            return "waits", f"{why}; its former run is over"
        if self._ran:
            return "waits", why + (self._ending if self.treatment == "restart" else "")
        if (
            former.start.starts_in is not None
            and decision.start.starts_in is not None
            and decision.start.starts_in > former.start.starts_in
        ):
            return "later", why
        codes, former_codes = ({reason.code for reason in each.reasons} for each in (decision, former))
        if new := [reason.message for reason in decision.reasons if reason.code not in former_codes]:
            return "reason", new[0]
        if gone := [reason.message for reason in former.reasons if reason.code not in codes]:
            return "reason", f"{why}; no longer: {gone[0]}"
        return ("edited", f"{self._text}; it waits as before") if self.edit else None

    def _effect_of_running(self) -> tuple[JobEffect, str] | None:
        former, decision = self.former, self.decision
        if former is None or not former.pods:
            return self._effect_of_start()
        if self.treatment == "restart":
            return "restarts", self._text + self._ending
        in_place = f"{self._text}; changed in place{_without_room(former, decision)}" if self.edit else ""
        if former.pods == decision.pods:
            moved = f"it was in queue {former.gang.queue}" if former.gang.queue != decision.gang.queue else ""
            return ("edited", in_place or moved) if self.edit or moved else None
        if decision.evicted_pods:
            return "shrinks", f"it gives pods to {', '.join(decision.evicted_for)}"
        if _places(former.pods) <= _places(decision.pods):
            return "grows", in_place or "there is room for more of its pods"
        if _places(decision.pods) < _places(former.pods):
            return "shrinks", in_place or self._lost_nodes() or "it has fewer pods"
        return "moves", self._lost_nodes() or in_place or "its pods are planned elsewhere"

    def _effect_of_start(self) -> tuple[JobEffect, str] | None:
        former = self.former
        if former is None and not self.decision.pods:
            return "added", "it is new"
        if not self.decision.pods:
            return ("edited", self._text) if self.edit else None
        if former is None:
            return "starts", "it is new"
        if former.action == "done":
            return "starts", f"{self._text}; its former run is over"
        before = f"before, {first_reason(former)}" if former.action == "wait" else ""
        return "starts", "; ".join(filter(None, (before, self._text))) or "it has pods now"

    def _lost_nodes(self) -> str:
        pods = self.former.pods if self.former else {}
        lost = {node for role in pods.values() for node in role} - self.nodes
        return f"{len(lost)} of its nodes {'is' if len(lost) == 1 else 'are'} gone" if lost else ""


def lost_restarts(head: Outcome, empty: EmptyPlans, changes: Sequence[JobChange]) -> Iterator[JobChange]:
    """Yield jobs that run on and would not start again, as planned for the empty cluster, where the base would start
    them; those that could never start first."""
    before, after = (found.by_key for found in empty)
    stays = {change.key: change.after for change in changes if not change.is_new}
    reported = {change.key for change in changes if change.effect in {"never", "waits", *_STARTING_AGAIN}}
    found = []
    for key, decision in head.by_key.items():
        then, now, pods = before.get(key), after.get(key), stays.get(key, decision.pods)
        if then is None or now is None or now.action != "wait" or not pods or key in reported:
            continue
        if is_suspended(decision.gang.document.data):
            continue
        never = now.never and not then.never
        if then.pods or never:
            code, sources = (now.reasons[0].code, now.reasons[0].sources) if now.reasons else ("", ())
            change = JobChange("waits", first_reason(now), now, pods, pods, sources=sources, code=code, never=never)
            found.append(change)
    yield from sorted(found, key=lambda change: (not change.never, change.name))


def _places(pods: PodsByNode) -> set[tuple[str, str, int]]:
    """One element for each pod at its role and node."""
    numbers = ((role, node, number) for role, nodes in pods.items() for node, number in nodes.items())
    return {(role, node, at) for role, node, number in numbers for at in range(number)}


def _without_room(former: JobDecision, decision: JobDecision) -> str:
    """Return the sentence on pods that the job has from now on and that are not planned."""
    asked, before = (sum(role.replicas for role in each.gang.roles) for each in (decision, former))
    placed, had = (len(_places(each.pods)) for each in (decision, former))
    return f"; {asked - placed} of its {asked} pods wait for room" if asked - placed > max(before - had, 0) else ""


def first_reason(decision: JobDecision) -> str:
    """The first reason why a job waits."""
    return decision.reasons[0].message if decision.reasons else "no reason was found in time"
