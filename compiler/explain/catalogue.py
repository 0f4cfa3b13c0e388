"""The catalogue of reasons and repairs: for each type its title, its texts and the sources that it points to.

A new fact or repair gets an entry here. docs/reasons.md is made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from compiler.cluster_state.state import STATE_SOURCE
from compiler.explain.provenance import (
    Provenance,
    Source,
    cluster_objects,
    node_sources,
    pod_spec_path,
    source_at,
    source_if_written,
)
from compiler.kubernetes import (
    CLOSED_ANNOTATION,
    DEDICATED_DOMAINS_ANNOTATION,
    EXPECTED_DURATION_ANNOTATION,
    ORDER_ANNOTATION,
)
from solver.facts import (
    AwayNodes,
    Borrowing,
    CapabilityLimit,
    ClosedNodeGroups,
    ClosedQueue,
    DedicatedDomains,
    DomainShortage,
    EligibleNodeShortage,
    Fact,
    Fragmentation,
    GuaranteeReserve,
    Maintenance,
    NoEligibleNode,
    OversizedGang,
    OversizedPod,
    OversizedSlotRequest,
    OwnRunningPods,
    PodRuleConflict,
    PrecedingGangs,
    ReservedNodes,
    ResourceShortage,
    ShareLimit,
    SlotShortage,
    StrictOrder,
    SubgroupShortage,
    Undecided,
    UnmatchedPod,
)
from solver.repairs import (
    EndOfGangs,
    EndOfMaintenance,
    EndOfPods,
    FewerDedicatedDomains,
    FewerPods,
    HigherPriority,
    HigherTier,
    MoreCapability,
    MoreDeserved,
    MoreNodeClasses,
    MoreNodes,
    MoreWeight,
    NoStrictOrder,
    OpenNodeGroups,
    OpenQueue,
    OtherQueue,
    Repair,
    Restart,
    ReturnOfNodes,
    ShorterDuration,
    SmallerGuarantee,
    SmallerPods,
    SmallerSubgroups,
    SoftTopology,
    StartOfGang,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """texts: the first whose names are all known is used. sources: what the statement about gang j points to.

    special_texts: tried before all others, where what they name plays a part. never_texts: tried before texts where
    waiting cannot help. remedy: advice on the page.
    """

    kind: type[T]
    title: str
    texts: tuple[str, ...]
    sources: Callable[[Provenance, int, T], Iterable[Source]]
    never_texts: tuple[str, ...] = ()
    special_texts: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Suspension(Fact, code="GW111"):
    """The job's owner suspended it; it is in no problem."""


@dataclass(frozen=True, slots=True)
class LostStart(Fact, code="GW125"):
    """An earlier plan told the gang a start, and this one does not keep it. gangs: those that took the room, or, where
    all that it waits for ran before (`reserved`), whose end is awaited."""

    gangs: tuple[int, ...]
    reserved: bool = False


@dataclass(frozen=True, slots=True)
class NoRoomKept(Fact, code="GW126"):
    """The pods of a job or service that the plan binds to no node find no node with room; it is in no problem."""


def fact_sources(provenance: Provenance, j: int, fact: Fact) -> tuple[Source, ...]:
    """What a fact about gang j comes from: obstacles before what it asks for itself, each once."""
    return tuple(dict.fromkeys(REASONS[type(fact)].sources(provenance, j, fact)))


def repair_sources(provenance: Provenance, j: int, repair: Repair) -> tuple[Source, ...]:
    """Where a repair for gang j is made or would be written, or what is waited for."""
    return tuple(dict.fromkeys(REPAIRS[type(repair)].sources(provenance, j, repair)))


# ---- sources


def _no_sources(s: Provenance, j: int, statement: object) -> Iterable[Source]:
    return ()


def _capacity(s: Provenance, j: int, role: int | None, resource: int | None) -> Iterator[Source]:
    yield from s.node_capacity(j, role, resource)
    yield from s.role_requests(j, role, resource)


def _capability_limit(s: Provenance, j: int, fact: CapabilityLimit) -> Iterator[Source]:
    yield from s.queue_amount(fact.queue, "capability", fact.resource, "capability")
    yield from s.gang_sources(fact.gangs)
    yield from s.role_requests(j, None, fact.resource)


def _share_limit(s: Provenance, j: int, fact: ShareLimit) -> Iterator[Source]:
    yield from s.queue_field(fact.queue, "weight", "spec", "weight")
    yield from s.gang_sources(fact.gangs)
    yield from s.role_requests(j, None, fact.resource)


def _borrowing(s: Provenance, j: int, fact: Borrowing) -> Iterator[Source]:
    if s.problem.policy.capacity:
        yield from s.queue_amount(fact.queue, "deserved", fact.resource, "deserved")
    else:
        yield from s.queue_field(fact.queue, "weight", "spec", "weight")
    yield from s.gang_sources(fact.gangs)
    yield from s.role_requests(j, None, fact.resource)


def _guarantee_reserve(s: Provenance, j: int, fact: GuaranteeReserve) -> Iterator[Source]:
    for q in fact.queues:
        yield from s.queue_amount(q, "guarantee", fact.resource, "guarantee", "resource")
    yield from s.role_requests(j, None, fact.resource)


def _dedicated_domains(s: Provenance, j: int, x: DedicatedDomains | FewerDedicatedDomains) -> Iterator[Source]:
    path = ("metadata", "annotations", DEDICATED_DOMAINS_ANNOTATION)
    return s.queue_field(x.queue, "guaranteed domains", *path)


def _closed_field(s: Provenance, q: int) -> Iterator[Source]:
    return s.queue_field(q, "closed", "metadata", "annotations", CLOSED_ANNOTATION)


def _closed_queue(s: Provenance, j: int, fact: ClosedQueue) -> Iterator[Source]:
    spec, queue = s.origins.queues[fact.queue], s.problem.queues[fact.queue]
    if spec is not None and not spec.open:
        yield from _closed_field(s, fact.queue)
    elif not queue.open:
        yield Source(f"Queue {queue.name}", "state")
    else:
        yield from s.queue_field(fact.queue, "", "metadata", "name")


def _node_groups(s: Provenance, j: int, x: ClosedNodeGroups | OpenNodeGroups) -> Iterator[Source]:
    owner = s.origins.affinity_owners[x.queue] if s.origins.affinity_owners else x.queue
    return s.queue_field(owner, "affinity", "spec", "affinity")


def _order_field(s: Provenance, q: int) -> Iterator[Source]:
    return s.queue_field(q, "order", "metadata", "annotations", ORDER_ANNOTATION)


def _strict_order(s: Provenance, j: int, fact: StrictOrder) -> Iterator[Source]:
    yield s.gang_source(fact.gang)
    yield from _order_field(s, fact.queue)


def _reserved_nodes(s: Provenance, j: int, fact: ReservedNodes) -> Iterator[Source]:
    yield s.gang_source(fact.gang)
    yield from s.expected_duration(j)


def _closing_nodes(s: Provenance, j: int) -> Iterator[Source]:
    """The nodes whose maintenance begins before the gang would end."""
    gang = s.problem.gangs[j]
    classes = {node_class for role in gang.roles for node_class in role.node_classes}
    closing = []
    for spec, node in zip(s.origins.nodes, s.problem.nodes, strict=True):
        begins = node.maintenance_in if node.node_class in classes else None
        if begins is not None and (gang.duration is None or begins < gang.duration):
            closing.append(spec)
    return node_sources(closing, "maintenance", ("spec", "maintenance"), ("metadata", "name"))


def _maintenance(s: Provenance, j: int, fact: Maintenance) -> Iterator[Source]:
    yield from _closing_nodes(s, j)
    yield from s.expected_duration(j)


def _eligibility(s: Provenance, j: int, fact: NoEligibleNode | EligibleNodeShortage) -> Iterator[Source]:
    yield from s.role_selectors(j, fact.role)
    yield from s.eligible_nodes(j, fact.role, "", ("metadata", "name"), ("metadata", "name"))


def _domain(s: Provenance, j: int, fact: DomainShortage) -> Iterator[Source]:
    yield from s.hypernode_source(fact.hypernode)
    yield s.gang_field(j, "topology")


def _topology(s: Provenance, j: int, repair: HigherTier | SmallerSubgroups | SoftTopology) -> Iterator[Source]:
    yield s.gang_field(j, "topology") if repair.subgroup is None else s.subgroup_source(j, repair.subgroup)


def _time_limit(s: Provenance, j: int, fact: Undecided) -> Iterator[Source]:
    if s.cluster.text:
        yield source_at(s.cluster, "time limit", "spec", "timeLimit")


def _pod_rule(s: Provenance, j: int, fact: PodRuleConflict) -> Iterator[Source]:
    """The owners of the rule: the gang's own role, else other gangs and pods of no gang."""
    rho = fact.pod_rule
    if rho in s.origins.subgroup_of_rule:
        yield s.subgroup_source(*s.origins.subgroup_of_rule[rho])
        return
    owners = s.rule_owners.get(rho, ())
    for i, t in [spot for spot in owners if spot[0] == j] or owners:
        spec = s.origins.gangs[i]
        document, base = pod_spec_path(spec, spec.roles[t])
        path = "topologySpreadConstraints" if s.problem.pod_rules[rho].rule_kind == "spread" else "affinity"
        yield source_at(document, f"rule of role {spec.roles[t].name}", *base, path)
    if rho < len(s.origins.rule_owner_pods):
        yield from cluster_objects("Pod", list(s.origins.rule_owner_pods[rho]), "rule")


def _device_slots(s: Provenance, j: int, role: int, resource: int | None) -> Iterator[Source]:
    groups = {s.problem.slot_groups[p.slot_group] for p in s.problem.gangs[j].roles[role].slot_requests}
    for group in sorted(groups):
        path = ("spec", "numa") if group == "numa" else ("spec", "sharedDevices")
        yield from s.eligible_nodes(j, role, f"cells of {group}", path, ("metadata", "name"))
    # A share of one resource may be written as another, as memory by a percentage.
    yield from list(s.role_requests(j, role, resource)) or s.role_requests(j, role, None)


def _own_pods(s: Provenance, j: int, fact: OwnRunningPods) -> Iterator[Source]:
    gang = s.problem.gangs[j]
    nodes = [s.problem.nodes[n].name for n in sorted({p.node for p in gang.running})]
    return cluster_objects(f"Pods of {gang.name} on", nodes)


def _away_nodes(s: Provenance, j: int, x: AwayNodes | ReturnOfNodes) -> Iterator[Source]:
    """Nodes that are away because their documents say so, then those of which only the cluster does."""
    others = []
    for n in x.nodes:
        spec = s.origins.nodes[n]
        written = list(source_if_written(spec.document, "unschedulable", "spec", "unschedulable"))
        if written and spec.document.file != STATE_SOURCE:
            yield from written
        else:
            others.append(spec.name)
    yield from cluster_objects("Node", others)


def _more_nodes(s: Provenance, j: int, repair: MoreNodes) -> Iterator[Source]:
    yield from node_sources([s.origins.nodes[repair.node]], "", ("metadata", "name"), ("metadata", "name"))
    yield from s.hypernode_source(repair.hypernode)


def _pod_count(s: Provenance, j: int, repair: FewerPods) -> Iterator[Source]:
    spec = s.origins.gangs[j]
    role = None if repair.role is None else spec.roles[repair.role]
    if role is None or not role.path:
        yield s.gang_field(j, "minimum")
    else:
        yield source_at(spec.document, f"role {role.name}", *role.path)


def _duration(s: Provenance, j: int, repair: ShorterDuration) -> Iterator[Source]:
    yield source_at(
        s.origins.gangs[j].document, "expected duration", "metadata", "annotations", EXPECTED_DURATION_ANNOTATION
    )


def _by_kind(*entries: Entry[Any]) -> Mapping[type[Any], Entry[Any]]:
    return {entry.kind: entry for entry in entries}


REASONS: Mapping[type[Fact], Entry[Any]] = _by_kind(
    Entry(
        CapabilityLimit,
        "queue capability reached",
        ("queue {queue} may hold {limit} and has {available:n} left; the job asks for {asked:n}",),
        _capability_limit,
        never_texts=("queue {queue} may never hold more than {limit}; the job asks for {asked:n}",),
        remedy="Raise the queue's capability, ask for less, or use another queue.",
    ),
    Entry(
        ResourceShortage,
        "not enough of a resource is free",
        ("{available} free on the nodes open to it; the job asks for {asked:n}",),
        lambda s, j, x: _capacity(s, j, x.role, x.resource),
        never_texts=("the nodes open to it have {available} even when empty; the job asks for {asked:n}",),
        remedy="Wait for a job to end, ask for less, or add nodes.",
    ),
    Entry(
        OversizedPod,
        "no node can hold one pod",
        (
            "no node open to it has room for one pod of role {role} now: a pod asks for {asked}, the roomiest "
            "node has {available:n}",
        ),
        lambda s, j, x: _capacity(s, j, x.role, x.resource),
        never_texts=(
            "no node open to it is large enough for one pod of role {role}: a pod asks for {asked}, the largest "
            "node has {available:n}",
        ),
        special_texts=(
            "no node has {absent}, of which a pod of role {role} asks for {asked:n}; did you mean {near}?",
            "no node has {absent}, of which a pod of role {role} asks for {asked:n}",
        ),
        remedy="Make the pod smaller, or add a larger kind of node.",
    ),
    Entry(
        UnmatchedPod,
        "no node can hold one pod",
        ("no node open to it has room for one pod of role {role}",),
        lambda s, j, x: _capacity(s, j, x.role, None),
        never_texts=("no node open to it is large enough for one pod of role {role}",),
    ),
    Entry(
        DomainShortage,
        "no domain of the allowed tier has room",
        (
            "it must sit inside one tier-{tier} domain; the best, {hypernode}, has room for {available:n} of "
            "{asked:pods}",
            "it must sit inside one tier-{tier} domain, and none has room for {asked:pods}",
        ),
        _domain,
        never_texts=(
            "it must sit inside one tier-{tier} domain; even empty, the best, {hypernode}, holds {available:n} of"
            " {asked:pods}",
            "it must sit inside one tier-{tier} domain, and even empty none holds {asked:pods}",
        ),
        remedy="Allow a higher tier, or wait for a whole domain.",
    ),
    Entry(
        PrecedingGangs,
        "others are served first",
        (
            "there is room for it alone, but jobs before it in order take that room: {gangs}",
            "there is room for it alone, but jobs before it in order take that room",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
        remedy="Wait, or raise the job's priority or its queue's share.",
    ),
    Entry(
        Borrowing,
        "it would borrow, and others go first",
        (
            "it would borrow: queue {queue} is entitled to {limit} and holds {held:n}; the job asks for {asked:n}, "
            "and what is free goes first to what queues are entitled to, then to those with lower shares: {gangs}",
        ),
        _borrowing,
        remedy=(
            "Wait, ask for less, or raise what the queue deserves, or its weight. A priority decides inside the queue "
            "only."
        ),
    ),
    Entry(
        GuaranteeReserve,
        "the room is kept for guarantees",
        (
            "{available} free beyond what other queues are guaranteed ({queues}); the job asks for {asked:n}",
            "{available} free beyond what other queues are guaranteed; the job asks for {asked:n}",
        ),
        _guarantee_reserve,
        never_texts=(
            "beyond what other queues are guaranteed ({queues}) there is never more than {available}; the job "
            "asks for {asked:n}",
            "beyond what other queues are guaranteed there is never more than {available}; the job asks for {asked:n}",
        ),
        remedy=(
            "Lower the other queues' guarantees, or give this queue one. Without a hierarchy of queues the "
            "plugins capacity and proportion keep what is guaranteed to a queue from those below it too."
        ),
    ),
    Entry(
        DedicatedDomains,
        "the room is kept for guarantees",
        ("what it would fit into is kept for queue {queue}, which is guaranteed whole domains of tier {tier}",),
        _dedicated_domains,
    ),
    Entry(
        NoEligibleNode,
        "no node is open to a role",
        ("no node matches the node selector, affinity and tolerations of role {role}",),
        _eligibility,
        special_texts=(
            "{nothing}, so that none is open to role {role}",
            "no node that the selector, affinity and tolerations of role {role} match has its topologyPolicy "
            "{policy} and a static CPU manager",
            "{matched}; {tainted}, which role {role} does not tolerate",
            "no node has {unmatched}, as role {role} demands; {near}",
            "no node has {unmatched}, as role {role} demands",
            "no node has all that role {role} demands: {demanded}",
        ),
        remedy="Correct the selector, affinity or topologyPolicy, add the toleration, or label the nodes.",
    ),
    Entry(
        ClosedNodeGroups,
        "the room is in node groups closed to its queue",
        ("queue {queue} may not use node group {nodeGroups}, and has too little room without, even empty",),
        _node_groups,
        remedy=(
            "Add the group to requiredDuringSchedulingIgnoredDuringExecution of the queue's nodeGroupAffinity (it "
            "inherits no group then), remove it from its nodeGroupAntiAffinity, give nodes without a group (none) "
            "the label volcano.sh/nodegroup-name, or use another queue."
        ),
    ),
    Entry(
        OversizedGang,
        "larger than the cluster",
        ("the job asks for {asked}; the whole cluster, empty, has {limit:n}",),
        lambda s, j, x: _capacity(s, j, None, x.resource),
        special_texts=(
            "no node has {absent}, of which the job asks for {asked:n}; did you mean {near}?",
            "no node has {absent}, of which the job asks for {asked:n}",
        ),
        remedy="Ask for less, or add nodes.",
    ),
    Entry(
        SubgroupShortage,
        "subgroups cannot be formed whole",
        (
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; the domains have "
            "room for {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and the domains have not "
            "enough room",
        ),
        lambda s, j, x: (s.subgroup_source(j, x.subgroup),),
        never_texts=(
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; even empty, the "
            "domains hold {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and even empty the "
            "domains do not hold enough of them",
        ),
        remedy="Make the groups smaller, or allow a higher tier.",
    ),
    Entry(
        Undecided,
        "no decision was proved in time",
        ("the solver reached its limit before it could prove whether the job fits",),
        _time_limit,
        remedy="Raise the cluster's time limit, or plan again.",
    ),
    Entry(
        Suspension,
        "suspended",
        ("its owner suspended it",),
        _no_sources,
        special_texts=("it is for the scheduler {scheduler}",),
        remedy="Resume the job, or name Volcano as its scheduler.",
    ),
    Entry(
        NoRoomKept,
        "no room for pods that go where their scheduler puts them",
        ("no node that its pods match has room for one of them now",),
        _no_sources,
        remedy="See their requests, selectors and tolerations, and what else takes the room.",
    ),
    Entry(
        LostStart,
        "a promised start is lost",
        (
            "it was told a start at {told}; lost to {gangs}",
            "it was told a start at {told}, for which there is no room any more",
            "an earlier plan told it a start that this one does not keep",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
        special_texts=(
            "it was told a start at {told}; now it is expected to start at {at}, after {gangs}",
            "it was told a start at {told}; now it waits for {awaited}, of which no end is known",
        ),
        remedy=(
            "A start that was told is kept against jobs that would go later. It moves where a job runs longer than was "
            "said, where nodes are lost, and for jobs that go first whenever they come: of a higher priority, or where "
            "the job would borrow and they are within what their queue is entitled to."
        ),
    ),
    Entry(
        ShareLimit,
        "the queue's proportional share is used up",
        ("queue {queue} deserves {limit} by its weight and has {available:n} of it left; the job asks for {asked:n}",),
        _share_limit,
        remedy=(
            "Raise the queue's weight, ask for less, or wait until other queues ask for less: the plugin "
            "proportion lets no queue exceed its share."
        ),
    ),
    Entry(
        ClosedQueue,
        "the queue takes no jobs",
        ("queue {queue} is closed, or has children that take the jobs",),
        _closed_queue,
        remedy="Open the queue, or name another one.",
    ),
    Entry(
        ReservedNodes,
        "room is reserved",
        ("there is room for it, but it would still be there when {gangs} needs what is reserved for it",),
        _reserved_nodes,
        remedy="Wait, or say with gangplan.dev/expected-duration that it ends before the reserved job starts.",
    ),
    Entry(
        StrictOrder,
        "an earlier job of its queue waits",
        ("{gangs} comes before it in queue {queue}, which starts its jobs in strict order",),
        _strict_order,
        remedy="Wait, raise the job's priority, or see what the earlier job waits for.",
    ),
    Entry(
        Maintenance,
        "maintenance comes first",
        ("the nodes that have room for it close for maintenance before it would end",),
        _maintenance,
        remedy="Wait until it is over, or say with gangplan.dev/expected-duration that the job ends before.",
    ),
    Entry(
        PodRuleConflict,
        "no room beside other pods, or apart from them",
        (
            "there is room for it, but not under what role {role} says of other pods: {rule}",
            "there is room for it, but not under what its pods say of other pods",
        ),
        _pod_rule,
        never_texts=("even empty, the cluster has no room under what role {role} says of other pods: {rule}",),
        special_texts=(
            "subgroup {subgroup} must sit {rule}, and none has room for enough of its pods beside the rest of the job",
        ),
        remedy=(
            "Soften the rule (preferred, ScheduleAnyway, a larger maxSkew), wait for the other pods to come or to"
            " go, or add nodes."
        ),
    ),
    Entry(
        OversizedSlotRequest,
        "no device or NUMA cell has room",
        (
            "a pod of role {role} asks for {asked} of one device or NUMA cell; the roomiest has {available:n} "
            "left, the largest has {limit:n} in all",
        ),
        lambda s, j, x: _device_slots(s, j, x.role, x.resource),
        never_texts=(
            "a pod of role {role} asks for {asked} of one device or NUMA cell; even empty, the largest has {limit:n}",
        ),
        remedy=(
            "Ask each pod for less of one device or NUMA cell, wait for one to be free, or use nodes that are "
            "divided otherwise."
        ),
    ),
    Entry(
        SlotShortage,
        "no device or NUMA cell has room",
        (
            "its nodes have room in sum, but their devices or NUMA cells for {available:n} of {asked:pods} of "
            "role {role}; each takes {share}",
        ),
        lambda s, j, x: _device_slots(s, j, x.role, None),
        never_texts=(
            "its nodes are large enough, but their devices or NUMA cells, even empty, hold {available:n} of "
            "{asked:pods} of role {role}; each takes {share}",
        ),
    ),
    Entry(
        Fragmentation,
        "the free room is in pieces",
        (
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of "
            "{asked:pods} of role {role}",
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of {asked:pods}",
        ),
        lambda s, j, x: _capacity(s, j, x.role, None),
        never_texts=(
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods} of "
            "role {role}",
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods}",
        ),
        special_texts=(
            "{total}, {pieces}; a pod of role {role} asks for {each}, and there is room for {available:n} of "
            "{asked:pods}",
        ),
        remedy="Wait for whole nodes, make the pods smaller, or ask for fewer.",
    ),
    Entry(
        EligibleNodeShortage,
        "too few nodes are open to a role",
        (
            "the nodes that match the node selector, affinity and tolerations of role {role} hold {available:n} "
            "of {asked:pods}, even empty",
        ),
        _eligibility,
        special_texts=(
            "the nodes with topologyPolicy {policy} and a static CPU manager that the selector, affinity and "
            "tolerations of role {role} match hold {available:n} of {asked:pods}, even empty",
            "the {open} that role {role} may use hold {available:n} of {asked:pods}, even empty; of those that match "
            "its selectors {tainted}, which it does not tolerate",
        ),
        remedy=(
            "Widen the selector or affinity, change the topologyPolicy, add the toleration, or ask for fewer pods."
        ),
    ),
    Entry(
        AwayNodes,
        "nodes are away",
        ("there would be room with {nodes}, not ready or cordoned for now",),
        _away_nodes,
        remedy="Bring the nodes back, or wait.",
    ),
    Entry(
        OwnRunningPods,
        "its own pods stand in the way",
        (
            "{asked:pods} of it are missing and find no room beside its pods that run; were those to stop, all of"
            " it would fit elsewhere",
        ),
        _own_pods,
        remedy="Let its running pods be deleted, so that it starts anew, or wait for room beside them.",
    ),
)


REPAIRS: Mapping[type[Repair], Entry[Any]] = _by_kind(
    Entry(
        MoreCapability,
        "raise a capability",
        ("capability {limit} for queue {queue}, {amount:n} more",),
        lambda s, j, x: s.queue_amount(x.queue, "capability", x.resource, "capability"),
    ),
    Entry(
        HigherTier,
        "allow a higher tier",
        (
            "highestTierAllowed: {tier} for its groups ({subgroup})",
            "highestTierAllowed: {tier}",
        ),
        _topology,
    ),
    Entry(
        EndOfPods,
        "wait for room",
        ("room to be freed by jobs that run",),
        _no_sources,
    ),
    Entry(
        MoreNodes,
        "add nodes",
        (
            "{amount:nodes} more like {nodes} under {hypernode}",
            "{amount:nodes} more like {nodes}",
        ),
        _more_nodes,
    ),
    Entry(
        FewerPods,
        "ask for fewer pods",
        (
            "{amount:pods} of role {role} instead of {now:n}",
            "{amount:pods} at least instead of {now:n}",
        ),
        _pod_count,
        special_texts=(
            "{amount:pods} of role {role} instead of {now:n}, with {edits}",
            "{amount:pods} at least instead of {now:n}: {edits}",
        ),
    ),
    Entry(
        SmallerSubgroups,
        "make the subgroups smaller",
        ("groups of {amount:pods} instead of {now:n} ({subgroup})",),
        _topology,
        special_texts=("{annotation}: {written}, groups of {amount:pods} instead of {now:n}",),
    ),
    Entry(
        SoftTopology,
        "make the topology a wish",
        (
            "a soft topology instead of a hard one for its groups ({subgroup})",
            "a soft topology instead of a hard one",
        ),
        _topology,
        special_texts=("{annotation}: {written}, so that a whole group in one supernode is a wish",),
    ),
    Entry(
        SmallerGuarantee,
        "lower a guarantee of another queue",
        ("guarantee {limit} for queue {queue}, {amount:n} less",),
        lambda s, j, x: s.queue_amount(x.queue, "guarantee", x.resource, "guarantee", "resource"),
    ),
    Entry(
        EndOfGangs,
        "wait for others to end",
        (
            "wait for the end of {gangs}, expected about {at}",
            "wait for the end of {gangs}, expected in {within}",
            "wait for the end of {gangs}",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
    ),
    Entry(
        MoreDeserved,
        "let a queue deserve more",
        ("deserved {amount} for queue {queue} instead of {now:n}",),
        lambda s, j, x: s.queue_amount(x.queue, "deserved", x.resource, "deserved"),
    ),
    Entry(
        MoreWeight,
        "raise a queue's weight",
        ("weight {amount:n} instead of {now:n} for queue {queue}",),
        lambda s, j, x: s.queue_field(x.queue, "weight", "spec", "weight"),
    ),
    Entry(
        OpenQueue,
        "open a queue",
        ("open queue {queue}",),
        lambda s, j, x: _closed_field(s, x.queue),
    ),
    Entry(
        OpenNodeGroups,
        "open node groups to a queue",
        ("let queue {queue} use node group {nodeGroups} as well",),
        _node_groups,
    ),
    Entry(
        MoreNodeClasses,
        "let a role use other nodes",
        ("let role {role} use nodes like {nodes} as well",),
        lambda s, j, x: s.role_selectors(j, x.role),
        special_texts=("let role {role} use nodes like {nodes} as well: {edits}",),
    ),
    Entry(
        Restart,
        "start anew",
        ("delete its pods that run, so that it starts anew where all of it fits",),
        _no_sources,
    ),
    Entry(
        HigherPriority,
        "raise its priority",
        (
            "a priority of {amount:n} or more; {gangs} would wait instead",
            "a priority of {amount:n} or more",
        ),
        lambda s, j, x: (s.gang_field(j, "priority_class"),),
        special_texts=(
            "priorityClassName {class} ({amount:n} or more suffices); {gangs} would wait instead",
            "priorityClassName {class} ({amount:n} or more suffices)",
        ),
    ),
    Entry(
        SmallerPods,
        "make the pods smaller",
        ("{amount} for a pod of role {role} instead of {now:n}",),
        lambda s, j, x: s.role_requests(j, x.role, x.resource),
    ),
    Entry(
        ReturnOfNodes,
        "bring nodes back",
        ("wait for {nodes} to be ready and open again",),
        _away_nodes,
    ),
    Entry(
        NoStrictOrder,
        "lift a queue's strict order",
        ("queue {queue} without its strict order",),
        lambda s, j, x: _order_field(s, x.queue),
    ),
    Entry(
        StartOfGang,
        "wait for others to start",
        (
            "wait for {gangs} to start, expected about {at}",
            "wait for {gangs} to start, expected in {within}",
            "wait for {gangs} to start",
        ),
        lambda s, j, x: (s.gang_source(x.gang),),
    ),
    Entry(
        FewerDedicatedDomains,
        "keep fewer domains for another queue",
        ("{amount:n} fewer of the whole domains guaranteed to queue {queue}",),
        _dedicated_domains,
    ),
    Entry(
        OtherQueue,
        "use another queue",
        ("queue {queue} instead of its own",),
        lambda s, j, x: (s.gang_field(j, "queue"),),
    ),
    Entry(
        ShorterDuration,
        "say that it ends sooner",
        ("gangplan.dev/expected-duration of at most {written_duration}",),
        _duration,
    ),
    Entry(
        EndOfMaintenance,
        "wait for the end of maintenance",
        (
            "wait for the end of maintenance about {at}",
            "wait {within} for the end of maintenance",
        ),
        lambda s, j, x: _closing_nodes(s, j),
    ),
)
