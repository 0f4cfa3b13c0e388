"""Where a fact comes from, and where a repair is made: the lines of the repository, and the things of the cluster, that
they speak of.

The solver knows indices and no files; here each index is led back to its document. A new code gets a function in
`SOURCES` or `PLACES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from compiler.cluster_state.state import STATE
from compiler.diagnostics import Position
from compiler.lower.origins import Origins
from compiler.specs import GangSpec, NodeSpec, RoleSpec
from compiler.syntax.documents import Document, Path
from compiler.views.names import compact
from solver.plan import Fact, Repair
from solver.problem import Problem

ORDER, DOMAINS, CLOSED, DURATION = (
    f"gangplan.dev/{name}" for name in ("order", "guaranteed-domains", "closed", "expected-duration")
)
SUSPEND: tuple[Path, ...] = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))
FEW = 3
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
class Sources:
    """Of the facts about one problem. cluster: the document of the Cluster."""

    problem: Problem
    origins: Origins
    cluster: Document
    _open: dict[tuple[frozenset[int], Path, Path, str], tuple[Source, ...]] = field(default_factory=dict)

    def of(self, j: int, fact: Fact) -> tuple[Source, ...]:
        """The objects that a fact about gang j comes from, those that are in its way before what it asks for itself;
        each once."""
        return tuple(dict.fromkeys(SOURCES[fact.code](self, j, fact)))

    def places(self, j: int, repair: Repair) -> tuple[Source, ...]:
        """Where a change that would help gang j is made, or what is waited for; where nothing is written yet, what it
        is to be written into."""
        return tuple(dict.fromkeys(PLACES[repair.code](self, j, repair)))

    # ---- the gang itself

    def gang(self, j: int) -> Source:
        return said(self.origins.gangs[j].document, "", "metadata", "name")

    def own(self, j: int, name: str) -> Source:
        """A field of the gang that kinds keep in different places."""
        spec = self.origins.gangs[j]
        return said(spec.document, name.replace("_", " "), *spec.paths.get(name, ()))

    def requests(self, j: int, fact: Fact | Repair) -> Iterator[Source]:
        """What the role of the fact asks for of its resource, or each role that asks for some."""
        spec, gang = self.origins.gangs[j], self.problem.gangs[j]
        roles = range(len(gang.roles)) if fact.role is None else (fact.role,)
        for t in roles:
            if fact.resource is None or gang.roles[t].request[fact.resource]:
                yield _request(
                    spec, spec.roles[t], None if fact.resource is None else self.problem.resources[fact.resource]
                )

    def duration(self, j: int) -> Iterator[Source]:
        yield from written(self.origins.gangs[j].document, "expected duration", "metadata", "annotations", DURATION)

    def selectors(self, j: int, fact: Fact | Repair) -> Iterator[Source]:
        """What keeps a role off nodes."""
        spec = self.origins.gangs[j]
        role = spec.roles[fact.role or 0]
        document, base = _pod(spec, role)
        fields = (
            ("node selector", ("nodeSelector",)),
            ("node affinity", ("affinity", "nodeAffinity")),
            ("tolerations", ("tolerations",)),
        )
        found = [
            source for what, path in fields for source in written(document, f"{what} of role {role.name}", *base, *path)
        ]
        if (j, fact.role or 0) in self.origins.barring:
            found += written(spec.document, f"topologyPolicy of role {role.name}", *role.path, "topologyPolicy")
        yield from found or (said(document, f"pods of role {role.name}", *base),)

    # ---- the queues, and the cluster

    def queue(self, q: int | None, what: str, *path: str) -> Iterator[Source]:
        if q is not None and (spec := self.origins.queues[q]) is not None:
            yield said(spec.document, what, *path)
        elif q is not None:
            yield Source(f"Queue {self.problem.queues[q].name}")

    def limit(self, q: int | None, what: str, fact: Fact | Repair, *path: str) -> Iterator[Source]:
        """A queue's amount of the fact's resource."""
        yield from self.queue(
            q, what, "spec", *path, *(() if fact.resource is None else (self.problem.resources[fact.resource],))
        )

    def hypernode(self, h: int | None) -> Iterator[Source]:
        if h is not None:
            spec = self.origins.hypernodes[h]
            if spec.document.kind == "NodePool":
                yield said(spec.document, f"domain {spec.name}", "spec", "topology", spec.tier - 1)
            else:
                yield said(spec.document, "", "metadata", "name")

    def nodes(self, j: int, fact: Fact, what: str, pool: Path, node: Path) -> tuple[Source, ...]:
        """The nodes that are open to the role of the fact, or to any: the documents they are made by, or their names."""
        roles = self.problem.gangs[j].roles
        kinds = frozenset(k for t, role in enumerate(roles) if fact.role in (None, t) for k in role.kinds)
        key = kinds, pool, node, what
        if key not in self._open:
            chosen = [
                spec for spec, made in zip(self.origins.nodes, self.problem.nodes, strict=True) if made.kind in kinds
            ]
            self._open[key] = tuple(_made_by(chosen, what, pool, node))
        return self._open[key]

    def capacity(self, j: int, fact: Fact) -> tuple[Source, ...]:
        resource = () if fact.resource is None else (self.problem.resources[fact.resource],)
        return self.nodes(j, fact, "capacity", ("spec", "capacity", *resource), ("status", "allocatable", *resource))

    @cached_property
    def bearers(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """Relation -> the (gang, role) that carry it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for j, gang in enumerate(self.problem.gangs):
            for t, role in enumerate(gang.roles):
                for rho in role.bears:
                    found.setdefault(rho, []).append((j, t))
        return {rho: tuple(spots) for rho, spots in found.items()}


def said(document: Document, what: str, *path: str | int) -> Source:
    """Where it stands, or its nearest ancestor; of a document of the state its name."""
    if document.file == STATE:
        return Source(document.label, what)
    return Source(document.label, what, document.at(*path))


def written(document: Document, what: str, *path: str | int) -> Iterator[Source]:
    """Only where it is written."""
    if path in document.marks:
        yield said(document, what, *path)


def _pod(spec: GangSpec, role: RoleSpec) -> tuple[Document, Path]:
    """Where the pods of a role say what they need."""
    return (role.pods[0], ("spec",)) if role.pods else (spec.document, (*role.template, "spec"))


def _request(spec: GangSpec, role: RoleSpec, resource: str | None) -> Source:
    """The first container that asks for the resource, else the role."""
    document, base = _pod(spec, role)
    what = f"request of role {role.name}"
    for path in document.marks if resource is not None else ():
        if path[: len(base)] == base and path[-3:] in (
            ("resources", "requests", resource),
            ("resources", "limits", resource),
        ):
            return said(document, what, *path)
    return (
        said(document, f"role {role.name}", *role.path)
        if not role.pods
        else said(document, f"role {role.name}", "metadata", "name")
    )


def _made_by(nodes: Iterable[NodeSpec], what: str, pool: Path, node: Path) -> Iterator[Source]:
    """Documents of the repository, each once, then the nodes that only the cluster knows."""
    chosen = list(nodes)
    for document in {spec.document.identity: spec.document for spec in chosen if spec.document.file != STATE}.values():
        yield said(document, what, *(pool if document.kind == "NodePool" else node))
    yield from _named("Node", [spec.name for spec in chosen if spec.document.file == STATE], what)


def _named(kind: str, names: list[str], what: str = "") -> Iterator[Source]:
    if names:
        yield Source(f"{kind} {compact(names, FEW)}", what)


# ---- code by code


def _capability(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.limit(fact.queue, "capability", fact, "capability")
    yield from (s.gang(i) for i in fact.gangs)
    yield from s.requests(j, fact)


def _too_little(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.capacity(j, fact)
    yield from s.requests(j, fact)


def _domain(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.hypernode(fact.hypernode)
    yield s.own(j, "topology")


def _others(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from (s.gang(i) for i in fact.gangs)


def _kept(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    if fact.tier is not None:
        yield from s.queue(fact.queue, "guaranteed domains", "metadata", "annotations", DOMAINS)
        return
    for q in fact.queues:
        yield from s.limit(q, "guarantee", fact, "guarantee", "resource")
    yield from s.requests(j, fact)


def _selectors(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.selectors(j, fact)
    yield from s.nodes(j, fact, "", ("metadata", "name"), ("metadata", "name"))


def _subgroups(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    if fact.subgroup is not None:
        part = s.origins.gangs[j].subgroups[fact.subgroup]
        yield said(s.origins.gangs[j].document, f"subgroup {part.name}", *part.path)


def _limit_of_time(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    if s.cluster.text:
        yield said(s.cluster, "time limit", "spec", "timeLimit")


def suspended(spec: GangSpec) -> tuple[Source, ...]:
    """Of a job that is in no problem: what its owner wrote."""
    for path in SUSPEND:
        if path in spec.document.marks and spec.document.data["spec"].get(path[1]) not in (None, False):
            return (said(spec.document, "suspend", *path),)
    return (
        said(
            spec.document,
            "scheduler" if "scheduler" in spec.paths else "",
            *spec.paths.get("scheduler", ("metadata", "name")),
        ),
    )


def _share(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from s.queue(fact.queue, "weight", "spec", "weight")
    yield from (s.gang(i) for i in fact.gangs)
    yield from s.requests(j, fact)


def _closed(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    spec = None if fact.queue is None else s.origins.queues[fact.queue]
    if spec is not None and not spec.open:
        yield from s.queue(fact.queue, "closed", "metadata", "annotations", CLOSED)
    elif fact.queue is not None and not s.problem.queues[fact.queue].open:
        yield Source(f"Queue {s.problem.queues[fact.queue].name}", "state")
    else:
        yield from s.queue(fact.queue, "", "metadata", "name")


def _reserved(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from (s.gang(i) for i in fact.gangs)
    yield from s.duration(j)


def _in_order(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    yield from (s.gang(i) for i in fact.gangs)
    yield from s.queue(fact.queue, "order", "metadata", "annotations", ORDER)


def _maintenance(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    kinds = {k for role in s.problem.gangs[j].roles for k in role.kinds}
    lasts = s.problem.gangs[j].duration
    nodes = zip(s.origins.nodes, s.problem.nodes, strict=True)
    soon = (
        spec
        for spec, node in nodes
        if node.kind in kinds and node.closes_in is not None and (lasts is None or node.closes_in < lasts)
    )
    yield from _made_by(soon, "maintenance", ("spec", "maintenance"), ("metadata", "name"))
    yield from s.duration(j)


def _company(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    """Who carries the rule: the gang's own role, or others and pods of nobody's gang that keep it away."""
    rho = fact.relation
    if rho is None:
        return
    if rho in s.origins.wholes:
        i, k = s.origins.wholes[rho]
        part = s.origins.gangs[i].subgroups[k]
        yield said(s.origins.gangs[i].document, f"subgroup {part.name}", *part.path)
        return
    bearers = s.bearers.get(rho, ())
    mine = [spot for spot in bearers if spot[0] == j]
    for i, t in mine or bearers:
        spec = s.origins.gangs[i]
        document, base = _pod(spec, spec.roles[t])
        path = ("topologySpreadConstraints",) if s.problem.relations[rho].kind == "even" else ("affinity",)
        yield said(document, f"rule of role {spec.roles[t].name}", *base, *path)
    if rho < len(s.origins.guards):
        yield from _named("Pod", list(s.origins.guards[rho]), "rule")


def _cells(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    divisions = {
        s.problem.divisions[p.division]
        for role in s.problem.gangs[j].roles[fact.role or 0 :][:1]
        for p in role.portions
    }
    for division in sorted(divisions):
        path = ("spec", "numa") if division == "numa" else ("spec", "sharedDevices")
        yield from s.nodes(j, fact, f"cells of {division}", path, ("metadata", "name"))
    # What a share has of a resource may be meant by another one, as memory by a percentage.
    yield from list(s.requests(j, fact)) or s.requests(j, replace(fact, resource=None))


def _own_pods(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    gang = s.problem.gangs[j]
    yield from _named(
        f"Pods of {gang.name} on", [s.problem.nodes[n].name for n in sorted({p.node for p in gang.running})]
    )


def _away(s: Sources, j: int, fact: Fact) -> Iterator[Source]:
    """A node is away because its document says so, or because the cluster does."""
    named = []
    for n in fact.nodes:
        spec = s.origins.nodes[n]
        if spec.document.file != STATE and (
            found := list(written(spec.document, "unschedulable", "spec", "unschedulable"))
        ):
            yield from found
        else:
            named.append(spec.name)
    yield from _named("Node", named)


SOURCES: Mapping[str, Callable[[Sources, int, Fact], Iterator[Source]]] = {
    "GW101": _capability,
    "GW102": _too_little,
    "GW103": _too_little,
    "GW104": _domain,
    "GW105": _others,
    "GW106": _kept,
    "GW107": _selectors,
    "GW108": _too_little,
    "GW109": _subgroups,
    "GW110": _limit_of_time,
    "GW112": _share,
    "GW113": _closed,
    "GW114": _reserved,
    "GW115": _in_order,
    "GW116": _maintenance,
    "GW117": _company,
    "GW118": _cells,
    "GW119": _too_little,
    "GW120": _selectors,
    "GW121": _own_pods,
    "GW122": _away,
}


# ---- where a repair is made


def _of_queue(what: str, *path: str) -> Callable[[Sources, int, Repair], Iterator[Source]]:
    def place(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
        yield from s.queue(repair.queue, what, *path)

    return place


def _amount(what: str, *path: str) -> Callable[[Sources, int, Repair], Iterator[Source]]:
    def place(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
        yield from s.limit(repair.queue, what, repair, *path)

    return place


def _own_topology(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    if repair.subgroup is None:
        yield s.own(j, "topology")
    else:
        part = s.origins.gangs[j].subgroups[repair.subgroup]
        yield said(s.origins.gangs[j].document, f"subgroup {part.name}", *part.path)


def _own_pods_asked(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    spec = s.origins.gangs[j]
    if repair.role is None or not spec.roles[repair.role].path:
        yield s.own(j, "minimum")
    else:
        yield said(spec.document, f"role {spec.roles[repair.role].name}", *spec.roles[repair.role].path)


def _ended(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    yield from (s.gang(i) for i in repair.gangs)


def _pools(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    yield from _made_by((s.origins.nodes[n] for n in repair.nodes), "", ("metadata", "name"), ("metadata", "name"))
    yield from s.hypernode(repair.hypernode)


def _nodes_back(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    yield from _away(s, j, Fact("GW122", nodes=repair.nodes))


def _windows(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    yield from (source for source in _maintenance(s, j, Fact("GW116")) if source.field == "maintenance")


def _annotation(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    yield said(s.origins.gangs[j].document, "expected duration", "metadata", "annotations", DURATION)


def _nowhere(s: Sources, j: int, repair: Repair) -> Iterator[Source]:
    yield from ()


PLACES: Mapping[str, Callable[[Sources, int, Repair], Iterator[Source]]] = {
    "GR101": _amount("capability", "capability"),
    "GR102": _own_topology,
    "GR103": _nowhere,
    "GR104": _pools,
    "GR105": _own_pods_asked,
    "GR106": _own_topology,
    "GR107": _own_topology,
    "GR108": _amount("guarantee", "guarantee", "resource"),
    "GR109": _ended,
    "GR110": _of_queue("weight", "spec", "weight"),
    "GR111": _of_queue("closed", "metadata", "annotations", CLOSED),
    "GR112": lambda s, j, repair: s.selectors(j, repair),
    "GR113": _nowhere,
    "GR114": lambda s, j, repair: iter((s.own(j, "priority_class"),)),
    "GR115": lambda s, j, repair: s.requests(j, repair),
    "GR116": _nodes_back,
    "GR117": _of_queue("order", "metadata", "annotations", ORDER),
    "GR118": _ended,
    "GR119": _of_queue("guaranteed domains", "metadata", "annotations", DOMAINS),
    "GR120": lambda s, j, repair: iter((s.own(j, "queue"),)),
    "GR121": _annotation,
    "GR122": _windows,
}
