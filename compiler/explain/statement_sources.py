"""Where in the repository a fact about a gang comes from, and where a repair is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from compiler.cluster_state.state import STATE_SOURCE
from compiler.explain.provenance import (
    Provenance,
    Source,
    cluster_objects,
    node_sources,
    source_at,
    source_if_written,
)
from compiler.kubernetes import (
    CLOSED_ANNOTATION,
    DEDICATED_DOMAINS_ANNOTATION,
    EXPECTED_DURATION_ANNOTATION,
    ORDER_ANNOTATION,
)
from solver import facts, repairs


def no_sources(s: Provenance, j: int, statement: object) -> Iterable[Source]:
    return ()


def capacity(s: Provenance, j: int, role: int | None, resource: int | None) -> Iterator[Source]:
    yield from s.node_capacity(j, role, resource)
    yield from s.role_requests(j, role, resource)


def capability_limit(s: Provenance, j: int, fact: facts.CapabilityLimit) -> Iterator[Source]:
    yield from s.queue_amount(fact.queue, "capability", fact.resource, "capability")
    for q in fact.queues:
        yield from s.queue_amount(q, "guarantee", fact.resource, "guarantee", "resource")
    yield from s.gang_sources(fact.gangs)
    yield from s.role_requests(j, None, fact.resource)


def share_limit(s: Provenance, j: int, fact: facts.ShareLimit | facts.Borrowing) -> tuple[Source, ...]:
    weight = s.queue_field(fact.queue, "weight", "spec", "weight")
    return (*weight, *s.gang_sources(fact.gangs), *s.role_requests(j, None, fact.resource))


def borrowing(s: Provenance, j: int, fact: facts.Borrowing) -> tuple[Source, ...]:
    if not s.problem.policy.capacity:
        return share_limit(s, j, fact)
    deserved = s.queue_amount(fact.queue, "deserved", fact.resource, "deserved")
    return (*deserved, *s.gang_sources(fact.gangs), *s.role_requests(j, None, fact.resource))


def guarantee_reserve(s: Provenance, j: int, fact: facts.GuaranteeReserve) -> Iterator[Source]:
    for q in fact.queues:
        yield from s.queue_amount(q, "guarantee", fact.resource, "guarantee", "resource")
    yield from s.role_requests(j, None, fact.resource)


def eviction_obstacle(s: Provenance, j: int, x: facts.NobodyEvicted | repairs.AllowEviction) -> Iterator[Source]:
    match x.obstacle:
        case "queue":
            yield from s.queue_field(x.queue or 0, "reclaimable", "spec", "reclaimable")
        case "policy":
            yield s.gang_field(j, "priority_class")
        case _:
            yield from s.gang_sources(x.gangs)


def dedicated_domains(
    s: Provenance, j: int, x: facts.DedicatedDomains | repairs.FewerDedicatedDomains
) -> Iterator[Source]:
    path = ("metadata", "annotations", DEDICATED_DOMAINS_ANNOTATION)
    return s.queue_field(x.queue, "guaranteed domains", *path)


def closed_field(s: Provenance, q: int) -> Iterator[Source]:
    return s.queue_field(q, "closed", "metadata", "annotations", CLOSED_ANNOTATION)


def closed_queue(s: Provenance, j: int, fact: facts.ClosedQueue) -> Iterator[Source]:
    spec, queue = s.origins.queues[fact.queue], s.problem.queues[fact.queue]
    if spec is not None and not spec.open:
        yield from closed_field(s, fact.queue)
    elif not queue.open:
        yield Source(f"Queue {queue.name}", "state")
    else:
        yield from s.queue_field(fact.queue, "", "metadata", "name")


def node_groups(s: Provenance, j: int, x: facts.ClosedNodeGroups | repairs.OpenNodeGroups) -> Iterator[Source]:
    owner = s.origins.affinity_owners[x.queue] if s.origins.affinity_owners else x.queue
    return s.queue_field(owner, "affinity", "spec", "affinity")


def order_field(s: Provenance, q: int) -> Iterator[Source]:
    return s.queue_field(q, "order", "metadata", "annotations", ORDER_ANNOTATION)


def strict_order(s: Provenance, j: int, fact: facts.StrictOrder) -> Iterator[Source]:
    yield s.gang_source(fact.gang)
    yield from order_field(s, fact.queue)


def reserved_nodes(s: Provenance, j: int, fact: facts.ReservedNodes) -> Iterator[Source]:
    yield s.gang_source(fact.gang)
    yield from s.expected_duration(j)


def closing_nodes(s: Provenance, j: int) -> Iterator[Source]:
    """The nodes whose maintenance begins before the gang would end."""
    gang = s.problem.gangs[j]
    classes = {node_class for role in gang.roles for node_class in role.node_classes}
    closing = []
    for spec, node in zip(s.origins.nodes, s.problem.nodes, strict=True):
        begins = node.maintenance_in if node.node_class in classes else None
        if begins is not None and (gang.duration is None or begins < gang.duration):
            closing.append(spec)
    return node_sources(closing, "maintenance", ("spec", "maintenance"), ("metadata", "name"))


def maintenance(s: Provenance, j: int, fact: facts.Maintenance) -> Iterator[Source]:
    yield from closing_nodes(s, j)
    yield from s.expected_duration(j)


def eligibility(s: Provenance, j: int, fact: facts.NoEligibleNode | facts.EligibleNodeShortage) -> Iterator[Source]:
    yield from s.role_selectors(j, fact.role)
    yield from s.eligible_nodes(j, fact.role, "", ("metadata", "name"), ("metadata", "name"))


def domain(s: Provenance, j: int, fact: facts.DomainShortage) -> Iterator[Source]:
    yield from s.hypernode_source(fact.hypernode)
    yield s.gang_field(j, "topology")


def topology(
    s: Provenance, j: int, repair: repairs.HigherTier | repairs.SmallerSubgroups | repairs.SoftTopology
) -> Iterator[Source]:
    yield s.gang_field(j, "topology") if repair.subgroup is None else s.subgroup_source(j, repair.subgroup)


def time_limit(s: Provenance, j: int, fact: facts.Undecided) -> Iterator[Source]:
    if s.cluster.text:
        yield source_at(s.cluster, "time limit", "spec", "timeLimit")


def pod_rule(s: Provenance, j: int, fact: facts.PodRuleConflict) -> Iterator[Source]:
    """The owners of the rule: the gang's own role, else other gangs and pods of no gang."""
    rho = fact.pod_rule
    if rho in s.origins.subgroup_of_rule:
        yield s.subgroup_source(*s.origins.subgroup_of_rule[rho])
        return
    owners = s.rule_owners.get(rho, ())
    for i, t in [spot for spot in owners if spot[0] == j] or owners:
        spec = s.origins.gangs[i]
        document, base = spec.pod_spec_of(spec.roles[t])
        path = "topologySpreadConstraints" if s.problem.pod_rules[rho].rule_kind == "spread" else "affinity"
        yield source_at(document, f"rule of role {spec.roles[t].name}", *base, path)
    if rho < len(s.origins.rule_owner_pods):
        yield from cluster_objects("Pod", list(s.origins.rule_owner_pods[rho]), "rule")


def device_slots(s: Provenance, j: int, role: int, resource: int | None) -> Iterator[Source]:
    groups = {s.problem.slot_groups[p.slot_group] for p in s.problem.gangs[j].roles[role].slot_requests}
    for group in sorted(groups):
        path = ("spec", "numa") if group == "numa" else ("spec", "sharedDevices")
        yield from s.eligible_nodes(j, role, f"cells of {group}", path, ("metadata", "name"))
    # A share of one resource may be written as another, as memory by a percentage.
    yield from list(s.role_requests(j, role, resource)) or s.role_requests(j, role, None)


def own_pods(s: Provenance, j: int, fact: facts.OwnRunningPods) -> Iterator[Source]:
    gang = s.problem.gangs[j]
    nodes = [s.problem.nodes[n].name for n in sorted({p.node for p in gang.running})]
    return cluster_objects(f"Pods of {gang.name} on", nodes)


def away_nodes(s: Provenance, j: int, x: facts.AwayNodes | repairs.ReturnOfNodes) -> Iterator[Source]:
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


def more_nodes(s: Provenance, j: int, repair: repairs.MoreNodes) -> Iterator[Source]:
    yield from node_sources([s.origins.nodes[repair.node]], "", ("metadata", "name"), ("metadata", "name"))
    yield from s.hypernode_source(repair.hypernode)


def pod_count(s: Provenance, j: int, repair: repairs.FewerPods) -> Iterator[Source]:
    spec = s.origins.gangs[j]
    role = None if repair.role is None else spec.roles[repair.role]
    if role is None or not role.path:
        yield s.gang_field(j, "minimum")
    else:
        yield source_at(spec.document, f"role {role.name}", *role.path)


def duration(s: Provenance, j: int, repair: repairs.ShorterDuration) -> Iterator[Source]:
    yield source_at(
        s.origins.gangs[j].document, "expected duration", "metadata", "annotations", EXPECTED_DURATION_ANNOTATION
    )
