"""What came out of compiling one repository for one cluster; everything that people, scripts and the reconciler read
starts here."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from compiler.diagnostics import Diagnostic
from compiler.explain.catalogue import fact_sources, repair_sources
from compiler.explain.provenance import Provenance, suspension_sources
from compiler.explain.reasons import CodedMessage, Explainer
from compiler.fields.timestamp import rfc3339
from compiler.lower.digest import problem_digest
from compiler.lower.gang_order import class_priorities
from compiler.lower.origins import Origins
from compiler.specs import GangSpec, JobKey, Specs
from solver.plan import Decision, Plan, Reservation, SlotUse
from solver.problem import Gang, Placement, Problem
from solver.repairs import Repair

JobAction = Literal["start", "keep", "wait", "evict", "done"]
PodsByNode = Mapping[str, Mapping[str, int]]
"""Role -> node -> number of pods, roles in the job's order, nodes in the cluster's."""


def _pod_total(pods: PodsByNode) -> int:
    return sum(sum(nodes.values()) for nodes in pods.values())


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """`pods` new pods of a role take their share on a node from its cell number `cell` of a division ("numa", or a
    shared device's resource)."""

    role: str
    node: str
    division: str
    cell: int
    pods: int


@dataclass(frozen=True, slots=True)
class JobDecision:
    """What happens to one job, in the user's names.

    running: how many of `pods` run already. index: the gang's place in the problem, None when it is in none. cells:
    from which parts of nodes the new pods may take what has to come from one. evicted: running pods that are taken
    away. evicted_for: the jobs, by namespace/name, that start because of it. ran: seconds that one of them has run.
    awaits: the jobs whose end it waits for, when room is reserved for it. starts_in: seconds until then; starts_at:
    since the epoch. None where nobody knows. promised: when it is to start, as a time, by this plan or an earlier one.
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
    slot_assignments: tuple[SlotAssignment, ...] = ()
    awaited_jobs: tuple[str, ...] = ()
    starts_in: int | None = None
    starts_at: int | None = None
    reserved_start: str | None = None

    @property
    def key(self) -> JobKey:
        return self.gang.key

    @property
    def name(self) -> str:
        return f"{self.gang.namespace}/{self.gang.document.name}"

    @property
    def pod_count(self) -> int:
        """Pods placed, those that run included."""
        return _pod_total(self.pods)

    @property
    def evicted_count(self) -> int:
        """Running pods that are taken away."""
        return _pod_total(self.evicted_pods)

    @property
    def never(self) -> bool:
        return any(reason.never for reason in self.reasons)


@dataclass(frozen=True)
class Outcome:
    """`problem`, `origins` and `plan` are None when there was nothing trustworthy to plan; then `diagnostics` says why.

    inputs: "sha256:..." of each file that the specs were read from.
    """

    diagnostics: tuple[Diagnostic, ...]
    specs: Specs
    input_digests: Mapping[str, str]
    problem: Problem | None = None
    origins: Origins | None = None
    plan: Plan | None = None

    @property
    def ok(self) -> bool:
        """There is a verified plan. Single jobs may still have errors: see `errors`."""
        return self.plan is not None

    @property
    def error_count(self) -> int:
        return sum(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    @property
    def change_count(self) -> int:
        """How many jobs the plan starts, lets grow, shrinks or evicts."""
        return sum(
            bool(decided.evicted_pods)
            or (decided.action in ("start", "keep") and decided.pod_count > decided.running_count)
            for decided in self.decisions
        )

    def exit_code(self, detailed: bool = False) -> int:
        """0 nothing to say, 1 errors, 2 (when `detailed`) the plan has changes."""
        if self.error_count or not self.ok:
            return 1
        return 2 if detailed and self.change_count else 0

    @cached_property
    def decisions(self) -> tuple[JobDecision, ...]:
        """One for each job that could be read, in the order of the specs."""
        if self.problem is None or self.origins is None or self.plan is None:
            return ()
        words, priority = Explainer(self.problem, self.origins), class_priorities(self.specs.priority_classes)
        sources = Provenance(self.problem, self.origins, self.specs.cluster.document)
        found = {
            id(spec): _with_start(
                _job_decision(words, sources, spec, d), self.problem, self.plan.reservation, self.origins
            )
            for spec, d in zip(self.origins.gangs, self.plan.decisions, strict=True)
        }
        for spec in self.origins.finished_gangs:
            found[id(spec)] = JobDecision(spec, "done", _priority(spec, priority))
        for spec in self.origins.inactive_gangs:
            found[id(spec)] = JobDecision(
                spec,
                "wait",
                _priority(spec, priority),
                reasons=(replace(words.suspended_message(), sources=suspension_sources(spec)),),
            )
        for spec in self.origins.empty_gangs:
            found[id(spec)] = JobDecision(spec, "keep", _priority(spec, priority))
        return tuple(found[id(spec)] for spec in self.specs.gangs)

    @property
    def recheck_times(self) -> tuple[int, ...]:
        """When the answer may change although nothing happens, in seconds since the epoch. Where every job has all its
        pods it cannot."""
        if self.plan is None or self.origins is None:
            return ()
        waiting = {d.gang_index for d in self.decisions if d.action == "wait" and d.gang_index is not None}
        growing = any(
            d.pod_count < sum(role.replicas for role in d.gang.roles)
            for d in self.decisions
            if d.action in ("start", "keep")
        )
        found = {
            moment.time
            for moment in self.origins.upcoming_events
            if (moment.gang in waiting if moment.cause == "patience" else waiting)
            or (growing and moment.cause == "maintenance")
        }
        return tuple(sorted(found))

    @cached_property
    def placements(self) -> Mapping[JobKey, PodsByNode]:
        """(namespace, name, kind) -> role -> node -> pods, of every job that is to hold nodes."""
        return {decided.key: decided.pods for decided in self.decisions if decided.pods}

    @cached_property
    def digest(self) -> str:
        """Names the inputs: the files and, through the problem, what the state said of the cluster."""
        inputs = json.dumps([self.input_digests, problem_digest(self.problem)], sort_keys=True)
        return f"sha256:{hashlib.sha256(inputs.encode()).hexdigest()}"


def _priority(spec: GangSpec, priority: tuple[Mapping[str, int], int]) -> int:
    values, otherwise = priority
    return values.get(spec.priority_class or "", otherwise)


def _job_decision(explainer: Explainer, provenance: Provenance, spec: GangSpec, decision: Decision) -> JobDecision:
    problem, gang = explainer.problem, explainer.problem.gangs[decision.gang]
    return JobDecision(
        gang=spec,
        action=decision.action,
        priority=gang.priority,
        pods=_pods_by_node(problem, gang, decision.placements),
        running_count=sum(place.pods for place in gang.running) - sum(place.pods for place in decision.evicted_pods),
        domains=tuple(problem.hypernodes[h].name for h in decision.domains),
        reasons=tuple(
            replace(explainer.fact_message(gang, fact), sources=fact_sources(provenance, decision.gang, fact))
            for fact in decision.facts
        ),
        repairs=tuple(_repair_message(explainer, provenance, decision.gang, repair) for repair in decision.repairs),
        gang_index=decision.gang,
        evicted_pods=_pods_by_node(problem, gang, decision.evicted_pods),
        evicted_for=tuple(problem.gangs[j].name for j in decision.evicted_for),
        seconds_run=gang.loss,
        slot_assignments=tuple(_slot_assignment(problem, gang, use) for use in decision.slot_uses),
    )


def _repair_message(explainer: Explainer, provenance: Provenance, j: int, repair: Repair) -> CodedMessage:
    """With the places of it and of all that must come with it."""
    also = tuple(_repair_message(explainer, provenance, j, other) for other in repair.also)
    return replace(
        explainer.repair_message(explainer.problem.gangs[j], repair),
        sources=repair_sources(provenance, j, repair),
        also=also,
    )


def _slot_assignment(problem: Problem, gang: Gang, use: SlotUse) -> SlotAssignment:
    node = problem.nodes[use.node]
    division = node.slots[use.slot].slot_group
    before = sum(cell.slot_group == division for cell in node.slots[: use.slot])
    return SlotAssignment(gang.roles[use.role].name, node.name, problem.slot_groups[division], before, use.pods)


def _with_start(
    decision: JobDecision, problem: Problem, reservation: Reservation | None, origins: Origins
) -> JobDecision:
    """With what the plan, or an earlier one, says of its start."""
    if decision.action != "wait":
        return decision
    before = origins.reserved_starts.get(decision.key)
    if reservation is None or reservation.gang != decision.gang_index:
        return replace(decision, reserved_start=before) if before else decision
    at = None if reservation.starts_in is None or origins.now is None else origins.now + reservation.starts_in
    awaits = tuple(problem.gangs[j].name for j in reservation.awaited_gangs)
    return replace(
        decision,
        awaited_jobs=awaits,
        starts_in=reservation.starts_in,
        starts_at=at,
        reserved_start=before if at is None else rfc3339(at),
    )


def _pods_by_node(problem: Problem, gang: Gang, placements: Iterable[Placement]) -> PodsByNode:
    placed: dict[int, Counter[int]] = {}
    for place in placements:
        placed.setdefault(place.role, Counter())[place.node] += place.pods
    return {
        gang.roles[t].name: {problem.nodes[n].name: pods for n, pods in sorted(nodes.items())}
        for t, nodes in sorted(placed.items())
    }
