"""The outcome of compiling one repository for one cluster: views, manifests and the reconciler start from it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

from compiler.decided import JobAction
from compiler.diagnostics.diagnostic import Diagnostic, sorted_diagnostics
from compiler.diagnostics.guard import guarded
from compiler.explain.catalogue import Catalogue
from compiler.explain.edits import in_whole_units
from compiler.explain.lost_starts import LostStart
from compiler.explain.outside_jobs import UnboundJob, suspended_message
from compiler.explain.planned_starts import PlannedStart, PlannedStarts
from compiler.explain.provenance import Provenance
from compiler.explain.rivals import Rivals, gang_before, with_earlier_gangs
from compiler.explain.statements import CodedMessage
from compiler.lower.digest import problem_digest
from compiler.lower.inputs import class_priorities
from compiler.lower.origins import Origins, TimedEvent
from compiler.lower.reserved_room import EmptyNodes, ReservedRoom
from compiler.session import Session
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, JobKey
from compiler.syntax.documents import Document, DocumentIdentity
from solver.plan import Decision, Plan, SlotUse
from solver.problem import Gang, Placement, Problem

if TYPE_CHECKING:
    from compiler.outputs import CellEntry

FailLevel = Literal["no-plan", "error", "never-starts", "longer-waits"]
"""Causes of a failed command; each includes the ones before it. longer-waits: beyond the start that was announced."""
PodsByNode = Mapping[str, Mapping[str, int]]
"""Role -> node -> number of pods, roles in the job's order, nodes in the cluster's."""
DocumentErrors = dict[DocumentIdentity, tuple[Document, Diagnostic]]
"""Documents that turn out to have an error, each with it."""


def _pod_total(pods: PodsByNode) -> int:
    return sum(sum(nodes.values()) for nodes in pods.values())


@dataclass(frozen=True, slots=True)
class JobDecision:
    """The decision on one job, in the user's names.

    running_count: how many of `pods` run already. gang_index: the gang's index in the problem, None if it is in none.
    evicted_for: the jobs, by namespace/name, that start because of it. seconds_run: `EvictionTerms.loss`.
    slot_assignments: device slots from which the new pods can take their shares. held: it is to be kept out of the
    cluster, since its queue's share is given to others while it waits.
    """

    gang: GangSpec
    action: JobAction
    priority: int
    pods: PodsByNode = field(default_factory=dict)
    running_count: int = 0
    domains: tuple[str, ...] = ()
    reasons: tuple[CodedMessage, ...] = ()
    repairs: tuple[CodedMessage, ...] = ()
    gang_index: int | None = None
    evicted_pods: PodsByNode = field(default_factory=dict)
    evicted_for: tuple[str, ...] = ()
    seconds_run: int = 0
    slot_assignments: tuple[CellEntry, ...] = ()
    start: PlannedStart = field(default_factory=PlannedStart)
    held: bool = False

    @property
    def key(self) -> JobKey:
        return self.gang.key

    @property
    def name(self) -> str:
        return f"{self.gang.namespace}/{self.gang.document.name}"

    @property
    def pod_count(self) -> int:
        """Return the number of placed pods, including running ones."""
        return _pod_total(self.pods)

    @property
    def evicted_count(self) -> int:
        """Running pods that are taken away."""
        return _pod_total(self.evicted_pods)

    @property
    def is_change(self) -> bool:
        """Return whether the job gets or loses pods."""
        return self.grows or bool(self.evicted_pods)

    @property
    def grows(self) -> bool:
        """Return whether the job gets pods."""
        return self.action in ("start", "keep") and self.pod_count > self.running_count

    @property
    def is_incomplete(self) -> bool:
        """Return whether the job runs or starts with fewer pods than it has replicas."""
        replicas = sum(role.replicas for role in self.gang.roles)
        return self.action in ("start", "keep") and self.pod_count < replicas

    @property
    def lost_its_start(self) -> bool:
        """Return whether it waits beyond the start that an earlier plan announced."""
        return any(reason.code == LostStart.code for reason in self.reasons)

    @property
    def never(self) -> bool:
        """Return whether it can never start as written."""
        return any(reason.never for reason in self.reasons)


@dataclass(frozen=True)
class Outcome:
    """`problem`, `origins` and `plan` are None when nothing could be planned; then `diagnostics` has the cause.

    input_digests: "sha256:..." of each file that the specs were read from. decisions: one for each readable job, in the
    order of the specs.
    """

    diagnostics: tuple[Diagnostic, ...]
    specs: Specs
    input_digests: Mapping[str, str]
    problem: Problem | None = None
    origins: Origins | None = None
    plan: Plan | None = None
    decisions: tuple[JobDecision, ...] = ()
    session: Session = field(default_factory=Session, compare=False, repr=False)

    def with_diagnostics(self, diagnostics: Iterable[Diagnostic]) -> Outcome:
        """With these diagnostics as well."""
        return replace(self, diagnostics=sorted_diagnostics((*self.diagnostics, *diagnostics)))

    @property
    def ok(self) -> bool:
        """Return whether there is a verified plan. Single jobs may still have errors: see `error_count`."""
        return self.plan is not None

    @property
    def error_count(self) -> int:
        return sum(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    @property
    def change_count(self) -> int:
        """Number of jobs that the plan starts, lets grow, shrinks or evicts."""
        return sum(decision.is_change for decision in self.decisions)

    def exit_code(self, detailed: bool = False, fail_on: FailLevel = "error") -> int:
        """1 for what `fail_on` names, or worse; 2 (when `detailed`) for a plan with changes, else 0."""
        if not self.ok or (self.error_count and fail_on != "no-plan"):
            return 1
        is_strict = fail_on in ("never-starts", "longer-waits")
        if is_strict and any(decision.never for decision in self.decisions):
            return 1
        if fail_on == "longer-waits" and any(decision.lost_its_start for decision in self.decisions):
            return 1
        return 2 if detailed and self.change_count else 0

    @property
    def recheck_times(self) -> tuple[int, ...]:
        """When the answer may change although nothing happens, in seconds since the epoch; never, if all jobs have all
        their pods."""
        if self.plan is None or self.origins is None:
            return ()
        waiting = {decision.gang_index for decision in self.decisions if decision.action == "wait"} - {None}
        is_growing = any(decision.is_incomplete for decision in self.decisions)

        def matters(event: TimedEvent) -> bool:
            if is_growing and event.cause == "maintenance":
                return True
            return event.gang in waiting if event.cause == "patience" else bool(waiting)

        return tuple(sorted({event.time for event in self.origins.upcoming_events if matters(event)}))

    @cached_property
    def by_key(self) -> Mapping[JobKey, JobDecision]:
        return {decision.key: decision for decision in self.decisions}

    @cached_property
    def placements(self) -> Mapping[JobKey, PodsByNode]:
        """Job -> role -> node -> pods, of every job that runs or starts."""
        return {decided.key: decided.pods for decided in self.decisions if decided.pods}

    @cached_property
    def digest(self) -> str:
        """Identifies the inputs: the files and, through the problem, the cluster's state."""
        inputs = json.dumps([self.input_digests, problem_digest(self.problem, self.session)], sort_keys=True)
        return f"sha256:{hashlib.sha256(inputs.encode()).hexdigest()}"


def job_decisions(
    specs: Specs, problem: Problem, origins: Origins, plan: Plan
) -> tuple[tuple[JobDecision, ...], DocumentErrors]:
    """One for each job of the specs, in their order, and the errors of those whose decision cannot be explained."""
    if specs.is_partial:  # what is missing may be what a job needs
        decisions = (replace(each, facts=tuple(replace(f, never=False) for f in each.facts)) for each in plan.decisions)
        plan = replace(plan, decisions=tuple(decisions))
    translator = _DecisionTranslator(problem, origins, specs, plan)
    makers: dict[int, Callable[[GangSpec], JobDecision]] = {
        id(spec): partial(translator.job_decision, decision=decision)
        for spec, decision in zip(origins.gangs, plan.decisions, strict=True)
    }
    makers |= dict.fromkeys(map(id, origins.left_out.finished), partial(translator.plain_decision, action="done"))
    makers |= dict.fromkeys(map(id, origins.left_out.empty), partial(translator.plain_decision, action="empty"))
    makers |= dict.fromkeys(map(id, origins.left_out.unbound), translator.unbound_decision)
    makers |= dict.fromkeys(map(id, origins.left_out.inactive), translator.inactive_decision)
    found, errors = list[JobDecision](), DocumentErrors()
    for spec in specs.gangs:
        with guarded(spec.document, partial(blame, errors, spec.document)):
            found.append(makers[id(spec)](spec))
    return tuple(found), errors


def blame(errors: DocumentErrors, document: Document, error: Diagnostic) -> None:
    errors[document.identity] = document, error


class _DecisionTranslator:
    """Translates the solver's decisions into the user's names."""

    def __init__(self, problem: Problem, origins: Origins, specs: Specs, plan: Plan) -> None:
        self.problem, self.origins, self.plan = problem, origins, plan
        stuck = {decision.gang for decision in plan.decisions if any(fact.never for fact in decision.facts)}
        self.rivals = Rivals(problem, plan.decisions)
        self.provenance = Provenance(problem, origins, specs.cluster.document, stuck)
        self.catalogue = Catalogue(self.provenance)
        self.starts = PlannedStarts(problem, origins, plan, self.catalogue)
        self.priorities, self.default_priority = class_priorities(specs.priority_classes)

    def priority_of(self, spec: GangSpec) -> int:
        return self.priorities.get(spec.priority_class or "", self.default_priority)

    def plain_decision(self, spec: GangSpec, action: JobAction) -> JobDecision:
        return JobDecision(spec, action, self.priority_of(spec))

    def inactive_decision(self, spec: GangSpec) -> JobDecision:
        """Return the decision on a job that is held, suspended by its owner, or placed by another scheduler."""
        reason = suspended_message(spec, self.origins.left_out.held_jobs.get(spec.key, ""))
        return JobDecision(spec, "wait", self.priority_of(spec), reasons=(reason,))

    def unbound_decision(self, spec: GangSpec) -> JobDecision:
        """Return the decision on a job whose pods its own scheduler places: running pods, and the room reserved for the
        rest."""
        rooms = tuple(self._rooms_of(spec))
        counts = [(room.pods.role, sorted((room.by_node + room.running_by_node).items())) for room in rooms]
        names = [node.name for node in self.origins.nodes]
        pods = {role: {names[n]: count for n, count in found} for role, found in counts if found}
        running = sum(room.running for room in rooms)
        if not pods and any(room.homeless for room in rooms):
            job = UnboundJob(self.provenance, self.empty_nodes, spec, rooms)
            reasons, repairs = tuple(job.reasons()), job.repairs()
            return JobDecision(spec, "wait", self.priority_of(spec), reasons=reasons, repairs=repairs)
        action: JobAction = "start" if pods and not running else "keep"
        return JobDecision(spec, action, self.priority_of(spec), pods, running)

    def _rooms_of(self, spec: GangSpec) -> Iterator[ReservedRoom]:
        """Yield the room kept for the pods of a job that its own scheduler places."""
        of_roles = (room for room in self.origins.reserved_rooms if room.pods.role)
        return (room for room in of_roles if room.pods.document is spec.document)

    @cached_property
    def empty_nodes(self) -> EmptyNodes:
        return EmptyNodes(self.origins.nodes)

    def job_decision(self, spec: GangSpec, decision: Decision) -> JobDecision:
        problem, gang = self.problem, self.problem.gangs[decision.gang]
        running, evicted = (sum(place.pods for place in places) for places in (gang.running, decision.evicted_pods))
        start = self.starts.of(spec, decision)
        lost = self.starts.lost(spec, decision, start) if decision.action == "wait" else ()
        return JobDecision(
            gang=spec,
            action=decision.action,
            priority=gang.priority,
            pods=_pods_by_node(problem, gang, decision.placements),
            running_count=running - evicted,
            domains=tuple(problem.hypernodes[h].name for h in decision.domains),
            reasons=tuple(self.catalogue.message(decision.gang, fact) for fact in (*decision.facts, *lost)),
            repairs=tuple(self._repair_messages(spec, decision)),
            gang_index=decision.gang,
            evicted_pods=_pods_by_node(problem, gang, decision.evicted_pods),
            evicted_for=tuple(problem.gangs[j].name for j in decision.evicted_for),
            seconds_run=gang.eviction.loss,
            slot_assignments=tuple(_slot_assignment(problem, gang, use) for use in decision.slot_uses),
            start=start,
            held=decision.held,
        )

    def _repair_messages(self, spec: GangSpec, decision: Decision) -> Iterator[CodedMessage]:
        for repair in decision.repairs:
            if (whole := in_whole_units(spec, repair)) is not None:
                message = self.catalogue.message(decision.gang, whole)
                earlier = self.rivals.earlier(decision.gang, whole)
                before = gang_before(self.problem, decision, whole)
                yield with_earlier_gangs(self.problem, message, earlier, before)


def _slot_assignment(problem: Problem, gang: Gang, use: SlotUse) -> CellEntry:
    node = problem.nodes[use.node]
    group = node.slots[use.slot].slot_group
    number = sum(slot.slot_group == group for slot in node.slots[: use.slot])
    role, division = gang.roles[use.role].name, problem.slot_groups[group]
    return {"role": role, "node": node.name, "division": division, "cell": number, "pods": use.pods}


def _pods_by_node(problem: Problem, gang: Gang, placements: Iterable[Placement]) -> PodsByNode:
    placed: dict[int, Counter[int]] = {}
    for place in placements:
        placed.setdefault(place.role, Counter())[place.node] += place.pods
    return {
        gang.roles[t].name: {problem.nodes[n].name: pods for n, pods in sorted(nodes.items())}
        for t, nodes in sorted(placed.items())
    }
