"""The lines of the repository, and the objects of the cluster, behind the indices of a problem.

The entries of statements name the sources of a fact, and the place of a repair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from compiler.cluster_state.cluster_state import STATE_SOURCE
from compiler.diagnostics.diagnostic import Position
from compiler.explain.closed_nodes import ClosedNodes
from compiler.fields.quantity import named_amount
from compiler.fields.texts import compact_names
from compiler.kubernetes import EXPECTED_DURATION_ANNOTATION
from compiler.lower.origins import Origins
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.node_spec import NodeSpec
from compiler.syntax.documents import Document, FieldPath
from solver.problem import Problem

MAX_LISTED_NODES = 3
"""How many nodes of the cluster are named before the rest is counted."""
MAX_SOURCES = 2
"""Lines of the repository that are named in a short text."""


class Source(NamedTuple):
    """object: "Kind namespace/name", or nodes and pods in few words. field: its part that is meant, "" for all of it.

    position: its place in the repository; None for facts that only the cluster has. A tuple, since a plan compares many
    of them.
    """

    object: str
    field: str = ""
    position: Position | None = None

    @property
    def short_text(self) -> str:
        """ "jobs/a.yaml:7 topology"."""
        if self.position is None:
            return f"{self.object} in the cluster"
        return f"{self.position.file}:{self.position.line} {self.field}".rstrip()


@dataclass
class Provenance:
    """Sources of one problem's items. cluster: the document of the Cluster. stuck: gangs that can never start as
    written."""

    problem: Problem
    origins: Origins
    cluster: Document
    stuck: Collection[int] = ()
    _eligible_node_sources: dict[tuple[object, ...], tuple[Source, ...]] = field(default_factory=dict)
    _gang_sources: dict[tuple[int, ...], tuple[Source, ...]] = field(default_factory=dict)

    @cached_property
    def closed_nodes(self) -> ClosedNodes:
        return ClosedNodes(self.origins.nodes)

    @cached_property
    def node_resources(self) -> frozenset[str]:
        """Return the resources that nodes declare."""
        amounts = (entry for node in self.origins.nodes for entry in node.allocatable.items())
        return frozenset(name for name, amount in amounts if amount)

    # ---- the gang itself

    def gang_source(self, j: int) -> Source:
        return source_at(self.origins.gangs[j].document, "", "metadata", "name")

    def gang_sources(self, gangs: tuple[int, ...]) -> tuple[Source, ...]:
        """Kept, since many gangs wait for the same ones."""
        if gangs not in self._gang_sources:
            self._gang_sources[gangs] = tuple(map(self.gang_source, gangs))
        return self._gang_sources[gangs]

    def gang_field(self, j: int, name: str) -> Source:
        """Return a field of the gang, which each kind of job writes elsewhere."""
        spec = self.origins.gangs[j]
        return source_at(spec.document, name.replace("_", " "), *spec.field_paths.get(name, ()))

    def subgroup_source(self, j: int, k: int) -> Source:
        part = self.origins.gangs[j].subgroups[k]
        return source_at(self.origins.gangs[j].document, f"subgroup {part.name}", *part.path)

    def role_requests(self, j: int, role: int | None, resource: int | None) -> Iterator[Source]:
        """Yield the requests of the role, or each role, for the resource."""
        spec, gang = self.origins.gangs[j], self.problem.gangs[j]
        name = None if resource is None else self.problem.resources[resource]
        for t in range(len(gang.roles)) if role is None else (role,):
            if resource is None or gang.roles[t].request[resource]:
                yield _request_source(spec, spec.roles[t], name)

    def expected_duration(self, j: int) -> Iterator[Source]:
        path = ("metadata", "annotations", EXPECTED_DURATION_ANNOTATION)
        return source_if_written(self.origins.gangs[j].document, "expected duration", *path)

    def role_selectors(self, j: int, t: int) -> Iterator[Source]:
        """Yield the fields that exclude nodes for role t."""
        spec = self.origins.gangs[j]
        role = spec.roles[t]
        document, base = spec.pod_spec_of(role)
        fields: dict[str, tuple[Document, FieldPath]] = {
            "node selector": (document, (*base, "nodeSelector")),
            "node affinity": (document, (*base, "affinity", "nodeAffinity")),
            "tolerations": (document, (*base, "tolerations")),
        }
        if (j, t) in self.origins.excluding_numa_policies:
            fields["topologyPolicy"] = spec.document, (*role.path, "topologyPolicy")
        found = list[Source]()
        for what, (owner, path) in fields.items():
            found += source_if_written(owner, f"{what} of role {role.name}", *path)
        yield from found or (source_at(document, f"pods of role {role.name}", *base),)

    # ---- the queues, and the cluster

    def queue_field(self, q: int, what: str, *path: str) -> Iterator[Source]:
        if (spec := self.origins.queues[q]) is not None:
            yield source_at(spec.document, what, *path)
        else:
            yield Source(f"Queue {self.problem.queues[q].name}")

    def queue_amount(self, q: int, what: str, resource: int, *path: str) -> Iterator[Source]:
        """Return a queue's amount of the resource."""
        return self.queue_field(q, what, "spec", *path, self.problem.resources[resource])

    def outside_pods(self, q: int, resource: int) -> Iterator[Source]:
        """Yield what pods of no job of the plan hold of the resource in the queue and those below it."""
        name, queues = self.problem.resources[resource], self.problem.queues
        for below, queue in enumerate(queues):
            above: int | None = below if queue.used[resource] else None
            while above not in (None, q):
                above = queues[above].parent
            if above is not None:
                yield Source(f"Pods outside the plan in queue {queue.name}", named_amount(name, queue.used[resource]))

    def hypernode_source(self, h: int | None) -> Iterator[Source]:
        if h is not None:
            spec = self.origins.hypernodes[h]
            if spec.document.kind == "NodePool":
                yield source_at(spec.document, f"domain {spec.name}", "spec", "topology", spec.tier - 1)
            else:
                yield source_at(spec.document, "", "metadata", "name")

    def eligible_nodes(
        self, j: int, role: int | None, what: str, pool: FieldPath, node: FieldPath
    ) -> tuple[Source, ...]:
        """Return the nodes eligible for the role, or for any: the documents they are made by, or their names."""
        roles = self.problem.gangs[j].roles
        classes = frozenset().union(*(r.node_classes for r in (roles if role is None else roles[role : role + 1])))
        closed = self.problem.queues[self.problem.gangs[j].queue].closed_node_groups
        key = classes, closed, pool, node, what
        if key not in self._eligible_node_sources:
            nodes = zip(self.origins.nodes, self.problem.nodes, strict=True)
            of_classes = ((spec, made) for spec, made in nodes if made.node_class in classes)
            chosen = [spec for spec, made in of_classes if made.node_group not in closed]
            self._eligible_node_sources[key] = tuple(node_sources(chosen, what, pool, node))
        return self._eligible_node_sources[key]

    def node_capacity(self, j: int, role: int | None, resource: int | None) -> tuple[Source, ...]:
        name = () if resource is None else (self.problem.resources[resource],)
        return self.eligible_nodes(j, role, "capacity", ("spec", "capacity", *name), ("status", "allocatable", *name))

    @cached_property
    def rule_owners(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """Pod rule -> the (gang, role) that own it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for j, gang in enumerate(self.problem.gangs):
            for t, role in enumerate(gang.roles):
                for rho in role.owned_rules:
                    found.setdefault(rho, []).append((j, t))
        return {rho: tuple(spots) for rho, spots in found.items()}


def source_at(document: Document, what: str, *path: str | int) -> Source:
    """Return the source at a path, or at its nearest ancestor; of a document of the state its name."""
    if document.file == STATE_SOURCE:
        return Source(document.display_name, what)
    return Source(document.display_name, what, document.position(*path))


def source_if_written(document: Document, what: str, *path: str | int) -> Iterator[Source]:
    """Yield the source at a path, only where the document has the field."""
    if path in document.positions:
        yield source_at(document, what, *path)


def _request_source(spec: GangSpec, role: RoleSpec, resource: str | None) -> Source:
    """Return the first container that asks for the resource, else the role; the pods where these ask for another
    amount."""
    document, base = spec.pod_spec_of(role)
    what = f"request of role {role.name}"
    written, asked = role.live.template if role.live else role.pod.requests, role.pod.requests
    if resource is not None and written.get(resource, 0) != asked.get(resource, 0):
        return Source(f"pods of {spec.document.display_name}", what)
    wanted = [("resources", kind, resource) for kind in ("requests", "limits")] if resource is not None else []
    for path in document.positions if wanted else ():
        if path[: len(base)] == base and path[-3:] in wanted:
            return source_at(document, what, *path)
    return source_at(document, f"role {role.name}", *(("metadata", "name") if role.pod_documents else role.path))


def node_sources(nodes: Iterable[NodeSpec], what: str, pool: FieldPath, node: FieldPath) -> Iterator[Source]:
    """Documents of the repository, each once, then the nodes that only the cluster knows."""
    written: dict[object, Document] = {}
    others = []
    for spec in nodes:
        if spec.document.file == STATE_SOURCE:
            others.append(spec.name)
        else:
            written[spec.document.identity] = spec.document
    for document in written.values():
        yield source_at(document, what, *(pool if document.kind == "NodePool" else node))
    yield from cluster_objects("Node", others, what)


def cluster_objects(kind: str, names: list[str], what: str = "") -> Iterator[Source]:
    """Objects that only the cluster knows, as one source."""
    if names:
        yield Source(f"{kind} {compact_names(names, MAX_LISTED_NODES)}", what)
