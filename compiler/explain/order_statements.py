"""Turns and times: who is served first, who is evicted, and until when an awaited event lasts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from compiler import kubernetes as k8s
from compiler.explain.edits import named_field_edits
from compiler.explain.provenance import Provenance, Source, node_sources, source_at
from compiler.explain.statements import Change, Edits, Entry, Names, Values
from compiler.fields.times import duration_text, rfc3339, rounded_duration_text
from compiler.specs.gang_spec import GangSpec
from compiler.syntax.edits import FieldEdit
from solver import facts, repairs


def _reserved(s: Provenance, j: int, fact: facts.ReservedNodes) -> Iterator[Source]:
    yield s.gang_source(fact.gang)
    yield from s.expected_duration(j)


def _closing_nodes(s: Provenance, j: int, x: facts.Maintenance | repairs.EndOfMaintenance) -> Iterator[Source]:
    """Return the nodes whose maintenance begins before the gang would end."""
    gang = s.problem.gangs[j]
    classes = {node_class for role in gang.roles for node_class in role.node_classes}
    closing = []
    for spec, node in zip(s.origins.nodes, s.problem.nodes, strict=True):
        begins = node.maintenance_in if node.node_class in classes else None
        if begins is not None and (gang.times.duration is None or begins < gang.times.duration):
            closing.append(spec)
    return node_sources(closing, "maintenance", ("spec", "maintenance"), ("metadata", "name"))


def _maintenance(s: Provenance, j: int, fact: facts.Maintenance) -> Iterator[Source]:
    yield from _closing_nodes(s, j, fact)
    yield from s.expected_duration(j)


def _time_limit(s: Provenance, j: int, fact: facts.Undecided) -> Iterator[Source]:
    if s.cluster.text:
        yield source_at(s.cluster, "time limit", "spec", "timeLimit")


def _obstacle(s: Provenance, j: int, x: facts.NobodyEvicted | repairs.AllowEviction) -> Iterator[Source]:
    if x.obstacle == "queue":
        yield from s.queue_field(x.queue or 0, "reclaimable", "spec", "reclaimable")
    elif x.obstacle == "policy":
        yield s.gang_field(j, "priority_class")
    else:
        yield from s.gang_sources(x.gangs)


_DURATION = ("metadata", "annotations", k8s.EXPECTED_DURATION_ANNOTATION)
_BY_GANG = "the plugin gang lets no job fall below its minimum"
_BY_DRF = "the plugin drf keeps jobs whose share is no larger"
_BY_CLASS = "its priority class has preemptionPolicy Never"
_OBSTACLES = {
    "preempt": ("action", "preempts", "add preempt to the scheduler's actions"),
    "reclaim": ("action", "reclaims", "add reclaim to the scheduler's actions"),
    "queue": ("nonreclaimable", "queue {queue}", "reclaimable: true for queue {queue}"),
    "protected": ("protection", "{protection}", f'{k8s.PREEMPTABLE_ANNOTATION}: "true" on the pods that run'),
    "minima": ("protection", _BY_GANG, "{enabled}: false for the plugin gang"),
    "shares": ("protection", _BY_DRF, "enablePreemptable: false for the plugin drf"),
    "budget": ("protection", "PodDisruptionBudgets keep the pods", "a PodDisruptionBudget that lets more pods go"),
    "policy": ("protection", _BY_CLASS, "preemptionPolicy: PreemptLowerPriority for PriorityClass {class}"),
}
"""Obstacle of an eviction -> the name that chooses its sentence, the value there, what to write so that the pods may be
evicted. A higher priority needs neither."""


def _obstacle_values(s: Provenance, j: int, fact: facts.NobodyEvicted) -> Values:
    name, value, _ = _OBSTACLES.get(fact.obstacle, ("", "", ""))
    protection = _protection([s.origins.gangs[v] for v in fact.gangs])
    named = value.format(queue=s.problem.queues[fact.queue or 0].name, protection=protection)
    return {name: named} if name else {}


def _protection(victims: Sequence[GangSpec]) -> str:
    """By what their pods are protected."""
    if any(spec.namespace == "kube-system" for spec in victims):
        return "pods in kube-system are protected"
    if any(spec.priority_class in k8s.SYSTEM_PRIORITIES for spec in victims):
        return "pods of a system priority class are protected"
    texts = [(role.annotations, role.labels) for spec in victims for role in spec.roles]
    if any(
        k8s.COOLDOWN_ANNOTATION in annotations or k8s.COOLDOWN_ANNOTATION in labels for annotations, labels in texts
    ):
        return f"pods that run for less than their {k8s.COOLDOWN_ANNOTATION} are protected"
    return f'pods with {k8s.PREEMPTABLE_ANNOTATION}: "false" are protected'


REASONS: tuple[Entry[Any], ...] = (
    Entry(
        facts.PrecedingGangs,
        "others are served first",
        (
            "there is room for it alone, but jobs before it in order take that room: {gangs}",
            "there is room for it alone, but jobs before it in order take that room",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
        remedy="Wait, or raise the job's priority or its queue's share.",
    ),
    Entry(
        facts.NobodyEvicted,
        "nobody is evicted for it",
        ("nobody is evicted for it",),
        _obstacle,
        _obstacle_values,
        special_texts=(
            "nobody is evicted for it, though {gangs} could be: no action of the scheduler {action}",
            "nobody is evicted for it, though {gangs} could be: {nonreclaimable} is not reclaimable",
            "nobody is evicted for it, though {gangs} could be: {protection}",
            "nobody is evicted for it: no job of its queue that runs has a lower priority",
        ),
        remedy="The repairs name the edit that lets pods go, where there is one. Nothing is evicted for what a queue "
        "borrows. Asked for the waiting jobs of the highest priorities.",
    ),
    Entry(
        facts.ReservedNodes,
        "room is reserved",
        ("there is room for it, but it would still be there when {gangs} needs what is reserved for it",),
        _reserved,
        remedy="Wait, or say with gangplan.dev/expected-duration that it ends before the reserved job starts.",
    ),
    Entry(
        facts.Maintenance,
        "maintenance comes first",
        ("the nodes that have room for it close for maintenance before it would end",),
        _maintenance,
        remedy="Wait until it is over, or say with gangplan.dev/expected-duration that the job ends before.",
    ),
    Entry(
        facts.Undecided,
        "no decision was proved in time",
        ("the solver reached its limit before it could prove whether the job fits",),
        _time_limit,
        remedy="Raise the cluster's time limit, or plan again.",
    ),
)


def _priority_change(s: Provenance, j: int, repair: repairs.HigherPriority, _: Any) -> Change:
    """Return the least class that is high enough."""
    values, edits = dict[str, object](), list[FieldEdit]()
    if fitting := [(value, name) for name, value in s.origins.priority_classes.items() if value >= repair.amount]:
        values["class"] = name = min(fitting)[1]
        edits += named_field_edits(s.origins.gangs[j], "priority_class", name)
    if repair.evicts:
        running = Names(s.problem.gangs[i].name for i in repair.gangs)
        values["victims"] = running or "running jobs of its queue"
    return Change(values, edits)


def _eviction_change(s: Provenance, j: int, repair: repairs.AllowEviction, _: Any) -> Change:
    """Return the edit in words, and that a queue's pods may be reclaimed; other obstacles are not of one field."""
    own = {s.problem.gangs[v].queue for v in repair.gangs} == {s.problem.gangs[j].queue}
    named = {
        "queue": s.problem.queues[repair.queue or 0].name,
        "class": s.origins.gangs[j].priority_class,
        "enabled": "enablePreemptable" if own else "enableReclaimable",
    }
    edit = _OBSTACLES[repair.obstacle][2].format_map(named)
    spec = s.origins.queues[repair.queue] if repair.queue is not None and repair.obstacle == "queue" else None
    edits = [] if spec is None else [FieldEdit(spec.document, ("spec", "reclaimable"), True)]
    return Change({"edits": Edits((edit,), edit)}, edits)


def _duration_change(s: Provenance, j: int, x: repairs.ShorterDuration, _: Any) -> Change:
    text = duration_text(x.seconds)
    return Change({"written_duration": text}, [FieldEdit(s.origins.gangs[j].document, _DURATION, text)])


def _end_values(
    s: Provenance, j: int, repair: repairs.EndOfGangs | repairs.StartOfGang | repairs.EndOfMaintenance
) -> Values:
    """When it is expected to end, where that is known."""
    if repair.seconds is None:
        return {}
    at = {} if s.origins.now is None else {"at": rfc3339(s.origins.now + repair.seconds)}
    return {"within": rounded_duration_text(repair.seconds), **at}


REPAIRS: tuple[Entry[Any], ...] = (
    Entry(
        repairs.ShorterDuration,
        "say that it ends sooner",
        ("gangplan.dev/expected-duration of at most {written_duration}",),
        lambda s, j, x: (source_at(s.origins.gangs[j].document, "expected duration", *_DURATION),),
        change=_duration_change,
    ),
    Entry(
        repairs.HigherPriority,
        "raise its priority",
        ("a priority of {amount:n} or more; {gangs} would wait instead", "a priority of {amount:n} or more"),
        lambda s, j, x: (s.gang_field(j, "priority_class"),),
        special_texts=(
            "priorityClassName {class} ({amount:n} or more suffices); {victims} would be evicted for it",
            "priorityClassName {class} ({amount:n} or more suffices); {gangs} would wait instead",
            "priorityClassName {class} ({amount:n} or more suffices)",
            "a priority of {amount:n} or more; {victims} would be evicted for it",
        ),
        change=_priority_change,
    ),
    Entry(
        repairs.AllowEviction,
        "let pods be evicted",
        ("{edits}; {gangs} would be evicted for it",),
        _obstacle,
        of_document=True,
        change=_eviction_change,
    ),
    Entry(
        repairs.EndOfGangs,
        "wait for others to end",
        (
            "wait for the end of {gangs}, expected about {at}",
            "wait for the end of {gangs}, expected in {within}",
            "wait for the end of {gangs}",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
        _end_values,
    ),
    Entry(
        repairs.StartOfGang,
        "wait for others to start",
        (
            "wait for {gangs} to start, expected about {at}",
            "wait for {gangs} to start, expected in {within}",
            "wait for {gangs} to start",
        ),
        lambda s, j, x: (s.gang_source(x.gang),),
        _end_values,
    ),
    Entry(
        repairs.EndOfMaintenance,
        "wait for the end of maintenance",
        ("wait for the end of maintenance about {at}", "wait {within} for the end of maintenance"),
        _closing_nodes,
        _end_values,
    ),
)
