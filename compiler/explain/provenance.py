"""Where a fact comes from, and where a repair is made: the lines of the repository, and the things of the cluster, that
they speak of.

The solver knows indices and no files; here each index is led back to its document. A new code gets a function in
`SOURCES` or `PLACES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from compiler.cluster_state.state import STATE_SOURCE
from compiler.diagnostics import Position
from compiler.kubernetes import (
    CLOSED_ANNOTATION,
    DEDICATED_DOMAINS_ANNOTATION,
    EXPECTED_DURATION_ANNOTATION,
    ORDER_ANNOTATION,
)
from compiler.lower.origins import Origins
from compiler.specs import GangSpec, NodeSpec, RoleSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.views.names import compact_names
from solver.plan import Fact, Repair
from solver.problem import Problem

SUSPEND_PATHS: tuple[FieldPath, ...] = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))
MAX_LISTED_NODES = 3
"""How many nodes of the cluster are named before the rest is counted."""


@dataclass(frozen=True, slots=True)
class Source:
    """object: "Kind namespace/name", or nodes and pods in few words. field: what of it is meant, "" for all of it.

    position: where it stands in the repository; None for what only the cluster knows.
    """

    object: str
    field: str = ""
    position: Position | None = None


@dataclass
class Provenance:
    """Of the facts about one problem. cluster: the document of the Cluster."""

    problem: Problem
    origins: Origins
    cluster: Document
    _eligible_node_sources: dict[tuple[frozenset[int], FieldPath, FieldPath, str], tuple[Source, ...]] = field(
        default_factory=dict
    )

    def fact_sources(self, j: int, fact: Fact) -> tuple[Source, ...]:
        """The objects that a fact about gang j comes from, those that are in its way before what it asks for itself;
        each once."""
        return tuple(dict.fromkeys(FACT_SOURCES[fact.code](self, j, fact)))

    def repair_sources(self, j: int, repair: Repair) -> tuple[Source, ...]:
        """Where a change that would help gang j is made, or what is waited for; where nothing is written yet, what it
        is to be written into."""
        return tuple(dict.fromkeys(REPAIR_SOURCES[repair.code](self, j, repair)))

    # ---- the gang itself

    def gang_source(self, j: int) -> Source:
        return source_at(self.origins.gangs[j].document, "", "metadata", "name")

    def gang_field(self, j: int, name: str) -> Source:
        """A field of the gang that kinds keep in different places."""
        spec = self.origins.gangs[j]
        return source_at(spec.document, name.replace("_", " "), *spec.field_paths.get(name, ()))

    def role_requests(self, j: int, fact: Fact | Repair) -> Iterator[Source]:
        """What the role of the fact asks for of its resource, or each role that asks for some."""
        spec, gang = self.origins.gangs[j], self.problem.gangs[j]
        roles = range(len(gang.roles)) if fact.role is None else (fact.role,)
        for t in roles:
            if fact.resource is None or gang.roles[t].request[fact.resource]:
                yield _request_source(
                    spec, spec.roles[t], None if fact.resource is None else self.problem.resources[fact.resource]
                )

    def expected_duration(self, j: int) -> Iterator[Source]:
        yield from source_if_written(
            self.origins.gangs[j].document, "expected duration", "metadata", "annotations", EXPECTED_DURATION_ANNOTATION
        )

    def role_selectors(self, j: int, fact: Fact | Repair) -> Iterator[Source]:
        """What keeps a role off nodes."""
        spec = self.origins.gangs[j]
        role = spec.roles[fact.role or 0]
        document, base = _pod_spec_path(spec, role)
        fields = (
            ("node selector", ("nodeSelector",)),
            ("node affinity", ("affinity", "nodeAffinity")),
            ("tolerations", ("tolerations",)),
        )
        found = [
            source
            for what, path in fields
            for source in source_if_written(document, f"{what} of role {role.name}", *base, *path)
        ]
        if (j, fact.role or 0) in self.origins.excluding_numa_policies:
            found += source_if_written(
                spec.document, f"topologyPolicy of role {role.name}", *role.path, "topologyPolicy"
            )
        yield from found or (source_at(document, f"pods of role {role.name}", *base),)

    # ---- the queues, and the cluster

    def queue_field(self, q: int | None, what: str, *path: str) -> Iterator[Source]:
        if q is not None and (spec := self.origins.queues[q]) is not None:
            yield source_at(spec.document, what, *path)
        elif q is not None:
            yield Source(f"Queue {self.problem.queues[q].name}")

    def queue_amount(self, q: int | None, what: str, fact: Fact | Repair, *path: str) -> Iterator[Source]:
        """A queue's amount of the fact's resource."""
        yield from self.queue_field(
            q, what, "spec", *path, *(() if fact.resource is None else (self.problem.resources[fact.resource],))
        )

    def hypernode_source(self, h: int | None) -> Iterator[Source]:
        if h is not None:
            spec = self.origins.hypernodes[h]
            if spec.document.kind == "NodePool":
                yield source_at(spec.document, f"domain {spec.name}", "spec", "topology", spec.tier - 1)
            else:
                yield source_at(spec.document, "", "metadata", "name")

    def eligible_nodes(self, j: int, fact: Fact, what: str, pool: FieldPath, node: FieldPath) -> tuple[Source, ...]:
        """The nodes that are open to the role of the fact, or to any: the documents they are made by, or their names."""
        roles = self.problem.gangs[j].roles
        kinds = frozenset(k for t, role in enumerate(roles) if fact.role in (None, t) for k in role.node_classes)
        key = kinds, pool, node, what
        if key not in self._eligible_node_sources:
            chosen = [
                spec
                for spec, made in zip(self.origins.nodes, self.problem.nodes, strict=True)
                if made.node_class in kinds
            ]
            self._eligible_node_sources[key] = tuple(_node_sources(chosen, what, pool, node))
        return self._eligible_node_sources[key]

    def node_capacity(self, j: int, fact: Fact) -> tuple[Source, ...]:
        resource = () if fact.resource is None else (self.problem.resources[fact.resource],)
        return self.eligible_nodes(
            j, fact, "capacity", ("spec", "capacity", *resource), ("status", "allocatable", *resource)
        )

    @cached_property
    def rule_owners(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """Relation -> the (gang, role) that carry it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for j, gang in enumerate(self.problem.gangs):
            for t, role in enumerate(gang.roles):
                for rho in role.owned_rules:
                    found.setdefault(rho, []).append((j, t))
        return {rho: tuple(spots) for rho, spots in found.items()}


def source_at(document: Document, what: str, *path: str | int) -> Source:
    """Where it stands, or its nearest ancestor; of a document of the state its name."""
    if document.file == STATE_SOURCE:
        return Source(document.display_name, what)
    return Source(document.display_name, what, document.position(*path))


def source_if_written(document: Document, what: str, *path: str | int) -> Iterator[Source]:
    """Only where it is written."""
    if path in document.positions:
        yield source_at(document, what, *path)


def _pod_spec_path(spec: GangSpec, role: RoleSpec) -> tuple[Document, FieldPath]:
    """Where the pods of a role say what they need."""
    return (role.pod_documents[0], ("spec",)) if role.pod_documents else (spec.document, (*role.template_path, "spec"))


def _request_source(spec: GangSpec, role: RoleSpec, resource: str | None) -> Source:
    """The first container that asks for the resource, else the role."""
    document, base = _pod_spec_path(spec, role)
    what = f"request of role {role.name}"
    for path in document.positions if resource is not None else ():
        if path[: len(base)] == base and path[-3:] in (
            ("resources", "requests", resource),
            ("resources", "limits", resource),
        ):
            return source_at(document, what, *path)
    return (
        source_at(document, f"role {role.name}", *role.path)
        if not role.pod_documents
        else source_at(document, f"role {role.name}", "metadata", "name")
    )


def _node_sources(nodes: Iterable[NodeSpec], what: str, pool: FieldPath, node: FieldPath) -> Iterator[Source]:
    """Documents of the repository, each once, then the nodes that only the cluster knows."""
    chosen = list(nodes)
    for document in {
        spec.document.identity: spec.document for spec in chosen if spec.document.file != STATE_SOURCE
    }.values():
        yield source_at(document, what, *(pool if document.kind == "NodePool" else node))
    yield from _cluster_objects("Node", [spec.name for spec in chosen if spec.document.file == STATE_SOURCE], what)


def _cluster_objects(kind: str, names: list[str], what: str = "") -> Iterator[Source]:
    if names:
        yield Source(f"{kind} {compact_names(names, MAX_LISTED_NODES)}", what)


# ---- code by code


def _queue_capability(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.queue_amount(fact.queue, "capability", fact, "capability")
    yield from (s.gang_source(i) for i in fact.gangs)
    yield from s.role_requests(j, fact)


def _insufficient_capacity(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.node_capacity(j, fact)
    yield from s.role_requests(j, fact)


def _domain_and_topology(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.hypernode_source(fact.hypernode)
    yield s.gang_field(j, "topology")


def _other_gangs(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from (s.gang_source(i) for i in fact.gangs)


def _other_guarantees(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    if fact.tier is not None:
        yield from s.queue_field(
            fact.queue, "guaranteed domains", "metadata", "annotations", DEDICATED_DOMAINS_ANNOTATION
        )
        return
    for q in fact.queues:
        yield from s.queue_amount(q, "guarantee", fact, "guarantee", "resource")
    yield from s.role_requests(j, fact)


def _role_selectors(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.role_selectors(j, fact)
    yield from s.eligible_nodes(j, fact, "", ("metadata", "name"), ("metadata", "name"))


def _subgroup(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    if fact.subgroup is not None:
        part = s.origins.gangs[j].subgroups[fact.subgroup]
        yield source_at(s.origins.gangs[j].document, f"subgroup {part.name}", *part.path)


def _time_limit(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    if s.cluster.text:
        yield source_at(s.cluster, "time limit", "spec", "timeLimit")


def suspension_sources(spec: GangSpec) -> tuple[Source, ...]:
    """Of a job that is in no problem: what its owner wrote."""
    for path in SUSPEND_PATHS:
        if path in spec.document.positions and spec.document.data["spec"].get(path[1]) not in (None, False):
            return (source_at(spec.document, "suspend", *path),)
    return (
        source_at(
            spec.document,
            "scheduler" if "scheduler" in spec.field_paths else "",
            *spec.field_paths.get("scheduler", ("metadata", "name")),
        ),
    )


def _queue_weight(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.queue_field(fact.queue, "weight", "spec", "weight")
    yield from (s.gang_source(i) for i in fact.gangs)
    yield from s.role_requests(j, fact)


def _queue_state(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    spec = None if fact.queue is None else s.origins.queues[fact.queue]
    if spec is not None and not spec.open:
        yield from s.queue_field(fact.queue, "closed", "metadata", "annotations", CLOSED_ANNOTATION)
    elif fact.queue is not None and not s.problem.queues[fact.queue].open:
        yield Source(f"Queue {s.problem.queues[fact.queue].name}", "state")
    else:
        yield from s.queue_field(fact.queue, "", "metadata", "name")


def _reservation(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from (s.gang_source(i) for i in fact.gangs)
    yield from s.expected_duration(j)


def _strict_order(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    yield from (s.gang_source(i) for i in fact.gangs)
    yield from s.queue_field(fact.queue, "order", "metadata", "annotations", ORDER_ANNOTATION)


def _maintenance(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    kinds = {k for role in s.problem.gangs[j].roles for k in role.node_classes}
    lasts = s.problem.gangs[j].duration
    nodes = zip(s.origins.nodes, s.problem.nodes, strict=True)
    soon = (
        spec
        for spec, node in nodes
        if node.node_class in kinds
        and node.maintenance_in is not None
        and (lasts is None or node.maintenance_in < lasts)
    )
    yield from _node_sources(soon, "maintenance", ("spec", "maintenance"), ("metadata", "name"))
    yield from s.expected_duration(j)


def _pod_rule_owners(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    """Who carries the rule: the gang's own role, or others and pods of nobody's gang that keep it away."""
    rho = fact.pod_rule
    if rho is None:
        return
    if rho in s.origins.subgroup_of_rule:
        i, k = s.origins.subgroup_of_rule[rho]
        part = s.origins.gangs[i].subgroups[k]
        yield source_at(s.origins.gangs[i].document, f"subgroup {part.name}", *part.path)
        return
    bearers = s.rule_owners.get(rho, ())
    mine = [spot for spot in bearers if spot[0] == j]
    for i, t in mine or bearers:
        spec = s.origins.gangs[i]
        document, base = _pod_spec_path(spec, spec.roles[t])
        path = ("topologySpreadConstraints",) if s.problem.pod_rules[rho].rule_kind == "spread" else ("affinity",)
        yield source_at(document, f"rule of role {spec.roles[t].name}", *base, *path)
    if rho < len(s.origins.rule_owner_pods):
        yield from _cluster_objects("Pod", list(s.origins.rule_owner_pods[rho]), "rule")


def _device_slots(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    divisions = {
        s.problem.slot_groups[p.slot_group]
        for role in s.problem.gangs[j].roles[fact.role or 0 :][:1]
        for p in role.slot_requests
    }
    for division in sorted(divisions):
        path = ("spec", "numa") if division == "numa" else ("spec", "sharedDevices")
        yield from s.eligible_nodes(j, fact, f"cells of {division}", path, ("metadata", "name"))
    # What a share has of a resource may be meant by another one, as memory by a percentage.
    yield from list(s.role_requests(j, fact)) or s.role_requests(j, replace(fact, resource=None))


def _running_pods(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    gang = s.problem.gangs[j]
    yield from _cluster_objects(
        f"Pods of {gang.name} on", [s.problem.nodes[n].name for n in sorted({p.node for p in gang.running})]
    )


def _unavailable_nodes(s: Provenance, j: int, fact: Fact) -> Iterator[Source]:
    """A node is away because its document says so, or because the cluster does."""
    named = []
    for n in fact.nodes:
        spec = s.origins.nodes[n]
        if spec.document.file != STATE_SOURCE and (
            found := list(source_if_written(spec.document, "unschedulable", "spec", "unschedulable"))
        ):
            yield from found
        else:
            named.append(spec.name)
    yield from _cluster_objects("Node", named)


FACT_SOURCES: Mapping[str, Callable[[Provenance, int, Fact], Iterator[Source]]] = {
    "GW101": _queue_capability,
    "GW102": _insufficient_capacity,
    "GW103": _insufficient_capacity,
    "GW104": _domain_and_topology,
    "GW105": _other_gangs,
    "GW106": _other_guarantees,
    "GW107": _role_selectors,
    "GW108": _insufficient_capacity,
    "GW109": _subgroup,
    "GW110": _time_limit,
    "GW112": _queue_weight,
    "GW113": _queue_state,
    "GW114": _reservation,
    "GW115": _strict_order,
    "GW116": _maintenance,
    "GW117": _pod_rule_owners,
    "GW118": _device_slots,
    "GW119": _insufficient_capacity,
    "GW120": _role_selectors,
    "GW121": _running_pods,
    "GW122": _unavailable_nodes,
}


# ---- where a repair is made


def _queue_field(what: str, *path: str) -> Callable[[Provenance, int, Repair], Iterator[Source]]:
    def place(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
        yield from s.queue_field(repair.queue, what, *path)

    return place


def _queue_limit(what: str, *path: str) -> Callable[[Provenance, int, Repair], Iterator[Source]]:
    def place(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
        yield from s.queue_amount(repair.queue, what, repair, *path)

    return place


def _topology_field(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    if repair.subgroup is None:
        yield s.gang_field(j, "topology")
    else:
        part = s.origins.gangs[j].subgroups[repair.subgroup]
        yield source_at(s.origins.gangs[j].document, f"subgroup {part.name}", *part.path)


def _pod_count_field(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    spec = s.origins.gangs[j]
    if repair.role is None or not spec.roles[repair.role].path:
        yield s.gang_field(j, "minimum")
    else:
        yield source_at(spec.document, f"role {spec.roles[repair.role].name}", *spec.roles[repair.role].path)


def _awaited_gangs(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    yield from (s.gang_source(i) for i in repair.gangs)


def _node_pools(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    yield from _node_sources((s.origins.nodes[n] for n in repair.nodes), "", ("metadata", "name"), ("metadata", "name"))
    yield from s.hypernode_source(repair.hypernode)


def _returning_nodes(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    yield from _unavailable_nodes(s, j, Fact("GW122", nodes=repair.nodes))


def _maintenance_windows(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    yield from (source for source in _maintenance(s, j, Fact("GW116")) if source.field == "maintenance")


def _duration_annotation(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    yield source_at(
        s.origins.gangs[j].document, "expected duration", "metadata", "annotations", EXPECTED_DURATION_ANNOTATION
    )


def _no_sources(s: Provenance, j: int, repair: Repair) -> Iterator[Source]:
    yield from ()


REPAIR_SOURCES: Mapping[str, Callable[[Provenance, int, Repair], Iterator[Source]]] = {
    "GR101": _queue_limit("capability", "capability"),
    "GR102": _topology_field,
    "GR103": _no_sources,
    "GR104": _node_pools,
    "GR105": _pod_count_field,
    "GR106": _topology_field,
    "GR107": _topology_field,
    "GR108": _queue_limit("guarantee", "guarantee", "resource"),
    "GR109": _awaited_gangs,
    "GR110": _queue_field("weight", "spec", "weight"),
    "GR111": _queue_field("closed", "metadata", "annotations", CLOSED_ANNOTATION),
    "GR112": lambda s, j, repair: s.role_selectors(j, repair),
    "GR113": _no_sources,
    "GR114": lambda s, j, repair: iter((s.gang_field(j, "priority_class"),)),
    "GR115": lambda s, j, repair: s.role_requests(j, repair),
    "GR116": _returning_nodes,
    "GR117": _queue_field("order", "metadata", "annotations", ORDER_ANNOTATION),
    "GR118": _awaited_gangs,
    "GR119": _queue_field("guaranteed domains", "metadata", "annotations", DEDICATED_DOMAINS_ANNOTATION),
    "GR120": lambda s, j, repair: iter((s.gang_field(j, "queue"),)),
    "GR121": _duration_annotation,
    "GR122": _maintenance_windows,
}
