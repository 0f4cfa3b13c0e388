"""What was worked out of single objects, passed on from one observation of the cluster to the next: what a pass costs
follows what has changed, not how many nodes and jobs there are."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.cluster_state.pods import RequestCache, asked_by_pod
from compiler.kubernetes import conditions_of, is_planned_job, labels_of, name_of, status_of, uid_of
from compiler.last_result import LastOfEach
from compiler.run_kinds import RUN_KINDS
from compiler.specs.pod_spec import Amounts
from compiler.syntax.runs import json_digest
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex, facts_of_node
from reconciler.observation.owners import OwnershipMemory
from reconciler.observation.pods import has_ended, role_of


@dataclass(slots=True)
class ObservationMemory:
    """Objects are replaced and never changed, so the same object says the same.

    owners: which pods are a job's. digests: name of each of `digested_nodes` -> the digest of what decides whether pods
    may go to it. index: of `indexed_nodes`. jobs: group kind -> its objects, and those of them that are jobs. expected:
    Ref.key of a gang -> the gang, its pods, nodes by hostname, and the uids of the pods that are as planned.
    stated: objects as the compiler is given them. unlike: Ref.key of a gang -> what its plan counts for its pods, its
    pods, and how many ask for something else. requests: of pods.
    """

    owners: OwnershipMemory = field(default_factory=OwnershipMemory)
    digested_nodes: Sequence[Object] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    indexed_nodes: Sequence[Object] = ()
    index: NodeIndex | None = None
    jobs: dict[str, tuple[Mapping[str, Object], Mapping[str, Object]]] = field(default_factory=dict)
    expected: dict[str, tuple[PlannedGang, list[Object], Mapping[str, str], set[str]]] = field(default_factory=dict)
    stated: LastOfEach[Object] = field(default_factory=LastOfEach)
    unlike: dict[str, tuple[Sequence[Amounts], list[Object], Mapping[str, int]]] = field(default_factory=dict)
    requests: RequestCache = field(default_factory=RequestCache)

    def node_digests(self, nodes: Sequence[Object]) -> Mapping[str, str]:
        """Name of each node -> its digest. nodes: in the order of their names."""
        changed = _changes(self.digested_nodes, nodes)
        if changed is None:
            self.digests = {name_of(node): _node_digest(node) for node in nodes}
        elif changed:
            self.digests = {**self.digests, **{name_of(node): _node_digest(node) for _, node in changed}}
        self.digested_nodes = nodes
        return self.digests

    def index_of(self, nodes: Sequence[Object]) -> NodeIndex:
        """The index of these nodes: the last one itself where it is equal, so that what rests on it stays known."""
        index, changed = self.index, _changes(self.indexed_nodes, nodes)
        if index is None or changed is None or any(facts_of_node(was) != facts_of_node(node) for was, node in changed):
            made = NodeIndex.from_nodes(nodes, {})
            index = made if made != index else index
        self.indexed_nodes, self.index = nodes, index
        return index

    def jobs_of_kind(self, kind: str, objects: Mapping[str, Object]) -> Mapping[str, Object]:
        """Those of the objects of one kind, by Ref.key, that are jobs. A node is none, whatever it says of itself."""
        if kind in RUN_KINDS or kind == "Node":
            return objects if kind in RUN_KINDS else {}
        before, jobs = self.jobs.get(kind, ({}, {}))
        if before is not objects:
            jobs = {
                key: item
                for key, item in objects.items()
                if (key in jobs if before.get(key) is item else is_planned_job(item))
            }
            self.jobs[kind] = objects, jobs
        return jobs

    def pods_as_planned(self, key: str, gang: PlannedGang, pods: list[Object], nodes: NodeIndex) -> set[str]:
        """The uids of the gang's pods that stand where the plan wants them."""
        known = self.expected.get(key)
        is_same = known is not None and known[0] is gang and known[2] is nodes.node_of_hostname
        if known is None or not is_same or not _are_identical(known[1], pods):
            known = gang, pods, nodes.node_of_hostname, _pods_as_planned(gang, pods, nodes)
            self.expected[key] = known
        return known[3]

    def pods_unlike_plan(self, key: str, planned: Sequence[Amounts], pods: list[Object]) -> Mapping[str, int]:
        """What pods of the gang ask for that is planned for none of its roles, and how many do: whether they wait or
        run, since a gate that is lifted changes no plan."""
        known = self.unlike.get(key)
        if known is None or known[0] is not planned or not _are_identical(known[1], pods):
            asked = filter(None, (asked_by_pod(pod, self.requests) for pod in pods if not has_ended(pod)))
            unlike = Counter(repr(sorted(one.requests.items())) for one in asked if one.requests not in planned)
            known = self.unlike[key] = planned, pods, dict(sorted(unlike.items()))
        return known[2]

    def keep_gangs(self, gangs: Mapping[str, PlannedGang]) -> None:
        """Forget gangs that no plan holds any more."""
        for kept in (self.expected, self.unlike):
            for key in kept.keys() - gangs.keys():
                del kept[key]


def _are_identical(one: Sequence[Object], other: Sequence[Object]) -> bool:
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _changes(before: Sequence[Object], now: Sequence[Object]) -> list[tuple[Object, Object]] | None:
    """What each changed object was and is, of two lists in the order of names; None where one came or went."""
    if len(before) != len(now):
        return None
    if _are_identical(before, now):
        return []
    pairs = [(was, item) for was, item in zip(before, now, strict=True) if was is not item]
    return pairs if all(name_of(was) == name_of(item) for was, item in pairs) else None


def _pods_as_planned(gang: PlannedGang, pods: Sequence[Object], nodes: NodeIndex) -> set[str]:
    vacant = gang.pods_by_place()
    found: set[str] = set()
    for pod in sorted(pods, key=uid_of):
        place = role_of(pod, gang) or "", nodes.node_of(pod) or ""
        if not has_ended(pod) and vacant.get(place, 0) > 0:
            vacant[place] -= 1
            found.add(uid_of(pod))
    return found


def _node_digest(node: Object) -> str:
    """Of what decides whether pods may go to a node; heartbeats are left out."""
    spec = node.get("spec") or {}
    ready = [row.get("status") for row in conditions_of(node) if row.get("type") == "Ready"]
    schedulable = [spec.get("taints"), spec.get("unschedulable"), status_of(node).get("allocatable")]
    return json_digest([uid_of(node), labels_of(node), *schedulable, ready])
