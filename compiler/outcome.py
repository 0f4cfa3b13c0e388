"""What came out of compiling one repository for one cluster; everything that people, scripts and the reconciler read
starts here."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from compiler.diagnostics import Diagnostic
from compiler.explain.provenance import Sources, suspended
from compiler.explain.reasons import Reason, Words
from compiler.fields.amounts import rfc3339
from compiler.lower.gangs import priorities
from compiler.lower.origins import JobKey, Origins, job_key, namespace_of
from compiler.specs import GangSpec, Specs
from compiler.syntax.documents import Document
from solver.plan import CellUse, Decision, Plan, Repair, Reservation
from solver.problem import Gang, Placement, Problem

Action = Literal["start", "keep", "wait", "evict", "done"]
Pods = Mapping[str, Mapping[str, int]]
"""Role -> node -> number of pods, roles in the job's order, nodes in the cluster's."""


def _total(pods: Pods) -> int:
    return sum(sum(nodes.values()) for nodes in pods.values())


@dataclass(frozen=True, slots=True)
class Part:
    """`pods` new pods of a role take their share on a node from its cell number `cell` of a division ("numa", or a
    shared device's resource)."""

    role: str
    node: str
    division: str
    cell: int
    pods: int


@dataclass(frozen=True, slots=True)
class Decided:
    """What happens to one job, in the user's names.

    running: how many of `pods` run already. index: the gang's place in the problem, None when it is in none. cells:
    from which parts of nodes the new pods may take what has to come from one. evicted: running pods that are taken
    away. evicted_for: the jobs, by namespace/name, that start because of it. ran: seconds that one of them has run.
    awaits: the jobs whose end it waits for, when room is reserved for it. starts_in: seconds until then; starts_at:
    since the epoch. None where nobody knows. promised: when it is to start, as a time, by this plan or an earlier one.
    """

    gang: GangSpec
    action: Action
    priority: int
    pods: Pods = field(default_factory=dict)
    running: int = 0
    domains: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    repairs: tuple[Reason, ...] = ()
    index: int | None = None
    evicted: Pods = field(default_factory=dict)
    evicted_for: tuple[str, ...] = ()
    ran: int = 0
    cells: tuple[Part, ...] = ()
    awaits: tuple[str, ...] = ()
    starts_in: int | None = None
    starts_at: int | None = None
    promised: str | None = None

    @property
    def key(self) -> JobKey:
        return job_key(self.gang)

    @property
    def name(self) -> str:
        return f"{namespace_of(self.gang)}/{self.gang.document.name}"

    @property
    def total(self) -> int:
        """Pods placed, those that run included."""
        return _total(self.pods)

    @property
    def lost(self) -> int:
        """Running pods that are taken away."""
        return _total(self.evicted)

    @property
    def never(self) -> bool:
        return any(reason.never for reason in self.reasons)


UNUSED = (
    *(", cells=()", ", windows=()", ", portions=()", ", divisions=()"),
    *(
        ", reclaim_levels=0",
        ", preempting=Votes(whole=True, shares=False)",
        ", reclaiming=Votes(whole=True, shares=False)",
        ", budgets=()",
    ),
    *(", narrowed=False", ", own=False", ", tiered=True", ", holds=()"),
)
"""Fields of `solver.problem` that came later, at their defaults."""


@dataclass(frozen=True)
class Manifest:
    """One object to apply. Waves are applied in order: 0 namespaces and priority classes, 1 queues (parents first), 2
    hypernodes, 3 scheduler ConfigMap, 4 kinds that pass through, 5 jobs.

    object: plain data, ready for server-side apply. document: where it came from. write: makes `text`, which only a
    reader of files wants and which takes longer than all the rest of a compilation together.
    """

    wave: int
    object: dict[str, Any]
    document: Document
    write: Callable[[], str] = field(repr=False, compare=False)

    @cached_property
    def text(self) -> str:
        """The object as YAML: one document, ending in a newline."""
        return self.write()


@dataclass(frozen=True)
class Outcome:
    """`problem`, `origins` and `plan` are None when there was nothing trustworthy to plan; then `diagnostics` says why.

    inputs: "sha256:..." of each file that the specs were read from.
    """

    diagnostics: tuple[Diagnostic, ...]
    specs: Specs
    inputs: Mapping[str, str]
    problem: Problem | None = None
    origins: Origins | None = None
    plan: Plan | None = None

    @property
    def ok(self) -> bool:
        """There is a verified plan. Single jobs may still have errors: see `errors`."""
        return self.plan is not None

    @property
    def errors(self) -> int:
        return sum(diagnostic.severity == "error" for diagnostic in self.diagnostics)

    @property
    def changes(self) -> int:
        """How many jobs the plan starts, lets grow, shrinks or evicts."""
        return sum(
            bool(decided.evicted) or (decided.action in ("start", "keep") and decided.total > decided.running)
            for decided in self.decisions
        )

    def exit_code(self, detailed: bool = False) -> int:
        """0 nothing to say, 1 errors, 2 (when `detailed`) the plan has changes."""
        if self.errors or not self.ok:
            return 1
        return 2 if detailed and self.changes else 0

    @cached_property
    def decisions(self) -> tuple[Decided, ...]:
        """One for each job that could be read, in the order of the specs."""
        if self.problem is None or self.origins is None or self.plan is None:
            return ()
        words, priority = Words(self.problem, self.origins), priorities(self.specs.priority_classes)
        sources = Sources(self.problem, self.origins, self.specs.cluster.document)
        found = {
            id(spec): _in_time(_decided(words, sources, spec, d), self.problem, self.plan.reservation, self.origins)
            for spec, d in zip(self.origins.gangs, self.plan.decisions, strict=True)
        }
        for spec in self.origins.done:
            found[id(spec)] = Decided(spec, "done", _priority(spec, priority))
        for spec in self.origins.set_aside:
            found[id(spec)] = Decided(
                spec, "wait", _priority(spec, priority), reasons=(replace(words.suspended(), sources=suspended(spec)),)
            )
        for spec in self.origins.empty:
            found[id(spec)] = Decided(spec, "keep", _priority(spec, priority))
        return tuple(found[id(spec)] for spec in self.specs.gangs)

    @property
    def moments(self) -> tuple[int, ...]:
        """When the answer may change although nothing happens, in seconds since the epoch. Where every job has all its
        pods it cannot."""
        if self.plan is None or self.origins is None:
            return ()
        waiting = {d.index for d in self.decisions if d.action == "wait" and d.index is not None}
        growing = any(
            d.total < sum(role.replicas for role in d.gang.roles)
            for d in self.decisions
            if d.action in ("start", "keep")
        )
        found = {
            moment.at
            for moment in self.origins.moments
            if (moment.gang in waiting if moment.kind == "patience" else waiting)
            or (growing and moment.kind == "maintenance")
        }
        return tuple(sorted(found))

    @cached_property
    def placements(self) -> Mapping[JobKey, Pods]:
        """(namespace, name, kind) -> role -> node -> pods, of every job that is to hold nodes."""
        return {decided.key: decided.pods for decided in self.decisions if decided.pods}

    @cached_property
    def digest(self) -> str:
        """Names the inputs: the files and, through the problem, what the state said of the cluster."""
        whole = hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode())
        whole.update(_said(self.problem).encode())
        return f"sha256:{whole.hexdigest()}"

    def manifests(self) -> tuple[Manifest, ...]:
        """All objects of the cluster, in the order of application; empty without a verified plan."""
        return self._manifests

    @cached_property
    def _manifests(self) -> tuple[Manifest, ...]:
        from compiler.emit import manifests

        return manifests(self) if self.ok else ()


def _said(problem: Problem | None) -> str:
    """The problem in words, without what most problems do not use: the name of a plan does not change with what
    gangplan learns."""
    text = repr(problem)
    for unused in UNUSED:
        text = text.replace(unused, "")
    return text


def _priority(spec: GangSpec, priority: tuple[Mapping[str, int], int]) -> int:
    values, otherwise = priority
    return values.get(spec.priority_class or "", otherwise)


def _decided(words: Words, sources: Sources, spec: GangSpec, decision: Decision) -> Decided:
    problem, gang = words.problem, words.problem.gangs[decision.gang]
    return Decided(
        gang=spec,
        action=decision.action,
        priority=gang.priority,
        pods=_named(problem, gang, decision.placements),
        running=sum(place.pods for place in gang.running) - sum(place.pods for place in decision.evicted),
        domains=tuple(problem.hypernodes[h].name for h in decision.domains),
        reasons=tuple(
            replace(words.reason(gang, fact), sources=sources.of(decision.gang, fact)) for fact in decision.facts
        ),
        repairs=tuple(_repaired(words, sources, decision.gang, repair) for repair in decision.repairs),
        index=decision.gang,
        evicted=_named(problem, gang, decision.evicted),
        evicted_for=tuple(problem.gangs[j].name for j in decision.evicted_for),
        ran=gang.loss,
        cells=tuple(_part(problem, gang, use) for use in decision.cells),
    )


def _repaired(words: Words, sources: Sources, j: int, repair: Repair) -> Reason:
    """With the places of it and of all that must come with it."""
    also = tuple(_repaired(words, sources, j, other) for other in repair.also)
    return replace(words.repair(words.problem.gangs[j], repair), sources=sources.places(j, repair), also=also)


def _part(problem: Problem, gang: Gang, use: CellUse) -> Part:
    node = problem.nodes[use.node]
    division = node.cells[use.cell].division
    before = sum(cell.division == division for cell in node.cells[: use.cell])
    return Part(gang.roles[use.role].name, node.name, problem.divisions[division], before, use.pods)


def _in_time(decided: Decided, problem: Problem, held: Reservation | None, origins: Origins) -> Decided:
    """With what the plan, or an earlier one, says of its start."""
    if decided.action != "wait":
        return decided
    before = origins.promised.get(decided.key)
    if held is None or held.gang != decided.index:
        return replace(decided, promised=before) if before else decided
    at = None if held.starts_in is None or origins.now is None else origins.now + held.starts_in
    awaits = tuple(problem.gangs[j].name for j in held.until)
    return replace(
        decided, awaits=awaits, starts_in=held.starts_in, starts_at=at, promised=before if at is None else rfc3339(at)
    )


def _named(problem: Problem, gang: Gang, placements: Iterable[Placement]) -> Pods:
    placed: dict[int, Counter[int]] = {}
    for place in placements:
        placed.setdefault(place.role, Counter())[place.node] += place.pods
    return {
        gang.roles[t].name: {problem.nodes[n].name: pods for n, pods in sorted(nodes.items())}
        for t, nodes in sorted(placed.items())
    }
