"""Queues: their limits, their entitlements and their guarantees, and whose jobs are first in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compiler import kubernetes as k8s
from compiler.explain.edits import named_field_edits, number_edit, path_text, written_value
from compiler.explain.provenance import Provenance, Source
from compiler.explain.statements import Change, Edits, Entry, Names, Values, amount_to_type
from compiler.lower.queues import UNGROUPED
from compiler.specs.queue_spec import NodeGroupAffinity
from compiler.syntax.documents import FieldPath
from compiler.syntax.edits import FieldEdit, Removal
from solver import facts, repairs


def _capability(s: Provenance, j: int, fact: facts.CapabilityLimit) -> Iterator[Source]:
    yield from s.queue_amount(fact.queue, "capability", fact.resource, "capability")
    yield from _guarantees(s, fact)
    yield from s.gang_sources(fact.gangs)
    yield from () if fact.never else s.outside_pods(fact.queue, fact.resource)
    yield from s.role_requests(j, None, fact.resource)


def _guarantees(s: Provenance, fact: facts.CapabilityLimit | facts.GuaranteeReserve) -> Iterator[Source]:
    for q in fact.queues:
        yield from s.queue_amount(q, "guarantee", fact.resource, "guarantee", "resource")


def _reserve(s: Provenance, j: int, fact: facts.GuaranteeReserve) -> Iterator[Source]:
    yield from _guarantees(s, fact)
    yield from s.role_requests(j, None, fact.resource)


def _weight(s: Provenance, j: int, x: facts.ShareLimit | facts.Borrowing | repairs.MoreWeight) -> Iterator[Source]:
    return s.queue_field(x.queue, "weight", "spec", "weight")


def _share(s: Provenance, j: int, fact: facts.ShareLimit | facts.Borrowing) -> Iterator[Source]:
    if isinstance(fact, facts.Borrowing) and s.problem.policy.capacity:
        yield from s.queue_amount(fact.queue, "deserved", fact.resource, "deserved")
    else:
        yield from _weight(s, j, fact)
    yield from s.gang_sources(fact.gangs)
    yield from s.outside_pods(fact.queue, fact.resource)
    yield from s.role_requests(j, None, fact.resource)


def _promised_values(s: Provenance, j: int, fact: facts.Borrowing) -> Values:
    """Return the gangs that go first for another reason than what their queues are entitled to."""
    promised = Names(s.problem.gangs[i].name for i in fact.gangs if s.problem.gangs[i].times.promised)
    return {"promised": promised} if promised else {}


def _domains(s: Provenance, j: int, x: facts.DedicatedDomains | repairs.FewerDedicatedDomains) -> Iterator[Source]:
    return s.queue_field(x.queue, "guaranteed domains", "metadata", "annotations", k8s.DEDICATED_DOMAINS_ANNOTATION)


def _closed(s: Provenance, j: int, x: facts.ClosedQueue | repairs.OpenQueue) -> Iterator[Source]:
    spec, queue = s.origins.queues[x.queue], s.problem.queues[x.queue]
    if not queue.open and spec is not None and spec.namespace:
        return iter((Source(f"NamespaceQueue {queue.name}", "Ready"),))
    if spec is not None and not spec.open:
        return s.queue_field(x.queue, "closed", "metadata", "annotations", k8s.CLOSED_ANNOTATION)
    if not queue.open:
        return iter((Source(f"Queue {queue.name}", "state"),))
    return s.queue_field(x.queue, "", "metadata", "name")


def _closed_values(s: Provenance, j: int, x: facts.ClosedQueue | repairs.OpenQueue) -> Values:
    spec, queue = s.origins.queues[x.queue], s.problem.queues[x.queue]
    closed = "unready" if spec is not None and spec.namespace else "closed"
    stopped = {"stopped": queue.name} if not queue.open and (spec is None or spec.open) else {}
    return {"parent" if queue.open else closed: queue.name, **stopped}


def _order(s: Provenance, j: int, x: facts.StrictOrder | repairs.NoStrictOrder) -> Iterator[Source]:
    return s.queue_field(x.queue, "order", "metadata", "annotations", k8s.ORDER_ANNOTATION)


def _strict_order(s: Provenance, j: int, fact: facts.StrictOrder) -> Iterator[Source]:
    yield s.gang_source(fact.gang)
    yield from _order(s, j, fact)


def _node_groups(s: Provenance, j: int, x: facts.ClosedNodeGroups | repairs.OpenNodeGroups) -> Iterator[Source]:
    return s.queue_field(s.origins.affinity_owners[x.queue], "affinity", "spec", "affinity")


def _group_limit(s: Provenance, j: int, x: facts.NodeGroupLimit | repairs.HigherGroupLimit) -> Iterator[Source]:
    return s.queue_field(x.queue, "limits of node groups", "metadata", "annotations", k8s.NODE_GROUP_LIMITS_ANNOTATION)


def _group_values(
    s: Provenance,
    j: int,
    x: facts.ClosedNodeGroups | repairs.OpenNodeGroups | facts.NodeGroupLimit | repairs.HigherGroupLimit,
) -> dict[str, object]:
    names = Names(s.problem.node_groups[g] for g in x.node_groups)
    return {"named_groups": f"node group{'s' if len(names) > 1 else ''} {names}"}


REASONS: tuple[Entry[Any], ...] = (
    Entry(
        facts.CapabilityLimit,
        "queue capability reached",
        ("queue {queue} may hold {limit} and has {available:n} left; the job asks for {asked:n}",),
        _capability,
        never_texts=("queue {queue} may never hold more than {limit}; the job asks for {asked:n}",),
        special_texts=(
            "of the {limit} that queue {queue} may hold, never more than {available:n} are left beyond what other "
            "queues are guaranteed ({queues}); the job asks for {asked:n}",
        ),
        remedy="Raise the queue's capability, ask for less, or use another queue.",
    ),
    Entry(
        facts.ShareLimit,
        "the queue's proportional share is used up",
        ("queue {queue} deserves {limit} by its weight and has {available:n} of it left; the job asks for {asked:n}",),
        _share,
        remedy="Raise the queue's weight, ask for less, or wait until other queues ask for less: the plugin "
        "proportion lets no queue exceed its share.",
    ),
    Entry(
        facts.Borrowing,
        "over its queue's share; other queues are below theirs",
        (
            "it would borrow: queue {queue} is entitled to {limit} and holds {held:n}; the job asks for {asked:n}, "
            "and what is free goes first to what queues are entitled to, then to those with lower shares: {gangs}",
        ),
        _share,
        _promised_values,
        special_texts=(
            "it would borrow: queue {queue} is entitled to {limit} and holds {held:n}; the job asks for {asked:n}, "
            "and what is free goes first to what queues are entitled to, then to jobs that were told a start "
            "({promised}), then to those with lower shares: {gangs}",
        ),
        remedy="Wait, ask for less, or raise what the queue deserves, or its weight. A priority decides inside the "
        "queue only.",
    ),
    Entry(
        facts.GuaranteeReserve,
        "the room is kept for guarantees",
        (
            "{available} left beyond what other queues are guaranteed ({queues}); the job asks for {asked:n}",
            "{available} left beyond what other queues are guaranteed; the job asks for {asked:n}",
        ),
        _reserve,
        never_texts=(
            "beyond what other queues are guaranteed ({queues}) there is never more than {available}; the job "
            "asks for {asked:n}",
            "beyond what other queues are guaranteed there is never more than {available}; the job asks for {asked:n}",
        ),
        remedy="Lower the other queues' guarantees, or give this queue one. Without a hierarchy of queues the "
        "plugins capacity and proportion keep what is guaranteed to a queue from those below it too.",
    ),
    Entry(
        facts.DedicatedDomains,
        "the room is kept for guarantees",
        ("what it would fit into is kept for queue {queue}, which is guaranteed whole domains of tier {tier}",),
        _domains,
    ),
    Entry(
        facts.ClosedQueue,
        "the queue takes no jobs",
        ("queue {queue} is closed, or has children that take the jobs",),
        _closed,
        _closed_values,
        special_texts=(
            "queue {closed} is closed",
            "queue {unready} is not ready: see its conditions, GP439 and GP530",
            "queue {parent} has children, which take the jobs",
        ),
        remedy="Open the queue, or name another one.",
    ),
    Entry(
        facts.ClosedNodeGroups,
        "the room is in node groups closed to its queue",
        ("queue {queue} may not use {named_groups}, and has too little room without, even empty",),
        _node_groups,
        _group_values,
        remedy="Add the group to requiredDuringSchedulingIgnoredDuringExecution of the queue's nodeGroupAffinity (it "
        "inherits no group then) and take it out of its nodeGroupAntiAffinity, give nodes without a group (none) "
        "the label volcano.sh/nodegroup-name, or use another queue.",
    ),
    Entry(
        facts.NodeGroupLimit,
        "limit of its queue in a node group reached",
        ("queue {queue} may hold {limit} in {named_groups} and has {available:n} left; the job asks for {asked:n}",),
        _group_limit,
        _group_values,
        never_texts=("queue {queue} may never hold more than {limit} in {named_groups}; the job asks for {asked:n}",),
        remedy="Raise the limit in the annotation volcano.sh/nodegroup-resource-limits of the queue, open another node "
        "group to it, ask for less, or use another queue.",
    ),
    Entry(
        facts.StrictOrder,
        "an earlier job of its queue waits",
        ("{gangs} comes before it in queue {queue}, which starts its jobs in strict order",),
        _strict_order,
        lambda s, j, x: {"stuck": s.problem.gangs[x.gang].name} if x.gang in s.stuck else {},
        special_texts=(
            "{stuck}, which can never start as written, comes before it in queue {queue}, which starts its jobs in "
            "strict order",
        ),
        remedy="Wait, raise the job's priority, or see what the earlier job waits for.",
    ),
)


def _open_groups(s: Provenance, j: int, repair: repairs.OpenNodeGroups, _: Any) -> Change:
    """Return the edits of the queue's affinity, its own or that of a queue above it."""
    owner = s.origins.affinity_owners[repair.queue]
    spec = s.origins.queues[owner]
    groups = [s.problem.node_groups[g] for g in repair.node_groups]
    found = _group_edits(None if spec is None else spec.affinity, groups)
    whose = "" if spec is None or owner == repair.queue else f" of queue {spec.name}"
    lists = {path: f"[{', '.join(names)}]" if isinstance(names, list) else names for path, names in found.items()}
    text = " and ".join(_group_edit_text(path, written, whose) for path, written in lists.items())
    edits = Edits(tuple(f"{path_text(path)}: {written}" for path, written in lists.items()), text)
    is_affinity = all(path[0] == "spec" for path in found)
    return Change(
        {**_group_values(s, j, repair), "edits": edits},
        [FieldEdit(spec.document, *edit) for edit in found.items()] if spec is not None and is_affinity else (),
    )


def _group_edits(affinity: NodeGroupAffinity | None, groups: Sequence[str]) -> Mapping[FieldPath, str | list[str]]:
    """Return the edits by which a queue with this affinity may use these groups as well, of which it may use none now:
    other lists in its affinity; for the nodes without a group a plugin that is not strict where it names none, else a
    label of theirs.

    A group that its anti-affinity excludes must be removed there, and be named in its affinity too: anti-affinity alone
    opens nothing.
    """
    known = affinity or NodeGroupAffinity()
    if UNGROUPED in groups:
        usable = [group for group in (*known.required, *known.preferred) if group not in known.anti_required]
        label = next(iter((*usable, *known.anti_preferred)), "a group that its nodeGroupAffinity names")
        is_bare = known == NodeGroupAffinity()
        return {("arguments", "strict"): "false"} if is_bare else {("metadata", "labels", k8s.NODE_GROUP_LABEL): label}
    lacking = [group for group in groups if group not in (*known.required, *known.preferred)]
    found = dict[FieldPath, str | list[str]]()
    if lacking:
        found["spec", "affinity", "nodeGroupAffinity", k8s.REQUIRED] = [*known.required, *lacking]
    if any(group in known.anti_required for group in groups):
        left = [group for group in known.anti_required if group not in groups]
        found["spec", "affinity", "nodeGroupAntiAffinity", k8s.REQUIRED] = left
    return found


def _group_edit_text(path: FieldPath, written: str, whose: str) -> str:
    """Return the edit in a sentence. whose: the queue whose affinity it is."""
    where = {"arguments": "the plugin nodegroup", "metadata": "these nodes"}.get(str(path[0]))
    return f"{path[-1]}: {written} of {where}" if where else f"required {path[-2]}{whose} {written}"


def _amount_change(s: Provenance, x: Any, name: str, amount: int, *path: str) -> Change:
    """Return an amount of the resource that a queue has at a path. name: of the amount in the sentence."""
    spec, resource = s.origins.queues[x.queue], s.problem.resources[x.resource]
    typed = amount_to_type(resource, amount)
    edits = [] if spec is None else [number_edit(spec.document, ("spec", *path, resource), typed.text)]
    return Change({name: typed}, edits)


def _capability_change(s: Provenance, j: int, x: repairs.MoreCapability, _: Any) -> Change:
    amount = (s.problem.queues[x.queue].capability[x.resource] or 0) + x.amount
    return _amount_change(s, x, "limit", amount, "capability")


def _guarantee_change(s: Provenance, j: int, x: repairs.SmallerGuarantee, _: Any) -> Change:
    amount = (s.problem.queues[x.queue].guarantee[x.resource] or 0) - x.amount
    return _amount_change(s, x, "limit", amount, "guarantee", "resource")


def _annotation_edits(s: Provenance, q: int, annotation: str, value: Any, now: str) -> list[FieldEdit]:
    """Return the edit of a queue's annotation that has a value now."""
    spec, path = s.origins.queues[q], ("metadata", "annotations", annotation)
    is_written = spec is not None and written_value(spec.document, path) == now
    return [FieldEdit(spec.document, path, value)] if spec is not None and is_written else []


def _weight_change(s: Provenance, j: int, x: repairs.MoreWeight, _: Any) -> Change:
    spec = s.origins.queues[x.queue]
    is_plain = spec is not None and not spec.hierarchy
    return Change(edits=[number_edit(spec.document, ("spec", "weight"), str(x.amount))] if spec and is_plain else ())


def _group_limit_change(s: Provenance, j: int, x: repairs.HigherGroupLimit, _: Any) -> Change:
    """Return the annotation, which is JSON, with the limit of one node group."""
    spec, path = s.origins.queues[x.queue], ("metadata", "annotations", k8s.NODE_GROUP_LIMITS_ANNOTATION)
    name, edits = s.problem.resources[x.resource], list[FieldEdit]()
    typed = amount_to_type(name, x.amount)
    written = None if spec is None else written_value(spec.document, path)
    if spec is not None and written is not None:
        limits = json.loads(written)
        limits[s.problem.node_groups[x.node_groups[0]]][name] = typed.text
        edits.append(FieldEdit(spec.document, path, json.dumps(limits)))
    return Change({**_group_values(s, j, x), "amount": typed}, edits)


def _domain_change(s: Provenance, j: int, x: repairs.FewerDedicatedDomains, _: Any) -> Change:
    spec = s.origins.queues[x.queue]
    if spec is None or spec.dedicated_domains is None:
        return Change()
    number, tier = spec.dedicated_domains
    value = f"{number - x.amount} of tier {tier}" if number > x.amount else Removal.FIELD
    path = ("metadata", "annotations", k8s.DEDICATED_DOMAINS_ANNOTATION)
    return Change(edits=[FieldEdit(spec.document, path, value)])


REPAIRS: tuple[Entry[Any], ...] = (
    Entry(
        repairs.OtherQueue,
        "use another queue",
        ("queue {queue} instead of its own",),
        lambda s, j, x: (s.gang_field(j, "queue"),),
        change=lambda s, j, x, _: Change(
            edits=named_field_edits(s.origins.gangs[j], "queue", s.problem.queues[x.queue].name)
        ),
    ),
    Entry(
        repairs.MoreCapability,
        "raise a capability",
        ("capability {limit} for queue {queue}, {amount:n} more",),
        lambda s, j, x: s.queue_amount(x.queue, "capability", x.resource, "capability"),
        change=_capability_change,
    ),
    Entry(
        repairs.SmallerGuarantee,
        "lower a guarantee of another queue",
        ("guarantee {limit} for queue {queue}, {amount:n} less",),
        lambda s, j, x: s.queue_amount(x.queue, "guarantee", x.resource, "guarantee", "resource"),
        change=_guarantee_change,
    ),
    Entry(
        repairs.MoreWeight,
        "raise a queue's weight",
        (
            "weight {amount:n} instead of {now:n} for queue {queue}; {gangs} would wait instead",
            "weight {amount:n} instead of {now:n} for queue {queue}",
        ),
        _weight,
        change=_weight_change,
    ),
    Entry(
        repairs.MoreDeserved,
        "let a queue deserve more",
        (
            "deserved {amount} for queue {queue} instead of {now:n}; {gangs} would wait instead",
            "deserved {amount} for queue {queue} instead of {now:n}",
        ),
        lambda s, j, x: s.queue_amount(x.queue, "deserved", x.resource, "deserved"),
        change=lambda s, j, x, _: _amount_change(s, x, "amount", x.amount, "deserved"),
    ),
    Entry(
        repairs.OpenQueue,
        "open a queue",
        ("open queue {queue}",),
        _closed,
        special_texts=(
            "make queue {unready} ready",
            "open queue {stopped} in the cluster: vcctl queue operate --action open --name {stopped}",
        ),
        change=lambda s, j, x, _: Change(
            _closed_values(s, j, x), _annotation_edits(s, x.queue, k8s.CLOSED_ANNOTATION, "false", now="true")
        ),
    ),
    Entry(
        repairs.FewerDedicatedDomains,
        "keep fewer domains for another queue",
        ("{amount:n} fewer of the whole domains guaranteed to queue {queue}",),
        _domains,
        change=_domain_change,
    ),
    Entry(
        repairs.OpenNodeGroups,
        "open node groups to a queue",
        ("let queue {queue} use {named_groups} as well",),
        _node_groups,
        special_texts=("let queue {queue} use {named_groups} as well: {edits}",),
        change=_open_groups,
    ),
    Entry(
        repairs.HigherGroupLimit,
        "raise a limit in a node group",
        ("limit {amount} for queue {queue} in {named_groups} instead of {now:n}",),
        _group_limit,
        change=_group_limit_change,
    ),
    Entry(
        repairs.NoStrictOrder,
        "lift a queue's strict order",
        ("queue {queue} without its strict order",),
        _order,
        change=lambda s, j, x, _: Change(
            edits=_annotation_edits(s, x.queue, k8s.ORDER_ANNOTATION, Removal.FIELD, now="strict")
        ),
    ),
)
