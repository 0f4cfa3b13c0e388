"""Results about single objects, kept from one observation of the cluster to the next.

The cost of a pass follows the changes, not the number of nodes and jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.cluster_state.pods import RequestCache, asked_by_pod
from compiler.kubernetes import conditions_of, is_planned_job, labels_of, name_of, status_of, uid_of
from compiler.run_kinds import RUN_KINDS
from compiler.session import Session
from compiler.specs.pod_spec import Amounts
from compiler.syntax.runs import json_digest
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex, facts_of_node
from reconciler.observation.owners import OwnershipMemory
from reconciler.observation.pods import has_ended, role_of


@dataclass(slots=True)
class ObservationMemory:
    """Objects are replaced and never changed, so results about the same object stay valid.

    owners: the pods of each job. jobs: group kind -> its objects, and those that are jobs. requests: of pods. session:
    results about single objects, and about the pods of a gang by its Ref.key.
    """

    owners: OwnershipMemory = field(default_factory=OwnershipMemory)
    jobs: dict[str, tuple[Mapping[str, Object], Mapping[str, Object]]] = field(default_factory=dict)
    requests: RequestCache = field(default_factory=RequestCache)
    session: Session = field(default_factory=Session)

    def nodes_by_name(self, nodes: Sequence[Object]) -> Mapping[str, Object]:
        return self.session.last("nodes by name", (nodes,), lambda: {name_of(node): node for node in nodes})

    def node_digests(self, nodes: Sequence[Object]) -> Mapping[str, str]:
        """Name of each node -> its digest."""
        last, each = self.session.last, self.session.each
        digests = last("node digests", (nodes,), lambda: each("node digest", zip(nodes), _node_digest))
        return dict(zip(self.nodes_by_name(nodes), digests, strict=True))

    def index_of(self, nodes: Sequence[Object]) -> NodeIndex:
        """Return the index of these nodes: the last one itself where it is equal, so that results about it stay
        valid."""
        last, each = self.session.last, self.session.each
        facts = last("node facts", (nodes,), lambda: each("node facts", zip(nodes), facts_of_node))
        return last("node index", (facts,), lambda: NodeIndex.from_facts(facts, {}))

    def jobs_of_kind(self, kind: str, objects: Mapping[str, Object]) -> Mapping[str, Object]:
        """Return the jobs among the objects of one kind, by Ref.key. A node never is one, whatever its fields are."""
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
        """Return the uids of the gang's pods that are where the plan puts them."""
        parts = gang, nodes.node_of_hostname, *pods
        return self.session.last(("as planned", key), parts, lambda: _pods_as_planned(gang, pods, nodes))

    def pods_unlike_plan(self, key: str, planned: Sequence[Amounts], pods: list[Object]) -> Mapping[str, int]:
        """Return the requests of the gang's pods that the plan has for none of its roles -> their number, waiting or
        running, since lifting a gate changes no plan."""

        def count() -> Mapping[str, int]:
            asked = filter(None, (asked_by_pod(pod, self.requests) for pod in pods if not has_ended(pod)))
            unlike = Counter(repr(sorted(one.requests.items())) for one in asked if one.requests not in planned)
            return dict(sorted(unlike.items()))

        return self.session.last(("unlike plan", key), (planned, *pods), count)

    def keep_gangs(self, gangs: Mapping[str, PlannedGang]) -> None:
        """Forget gangs that no plan holds any more."""
        self.session.keep_only(gangs.keys())


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
    """Return a digest of the fields that decide whether pods may go to a node; heartbeats are left out."""
    spec = node.get("spec") or {}
    ready = [row.get("status") for row in conditions_of(node) if row.get("type") == "Ready"]
    schedulable = [spec.get("taints"), spec.get("unschedulable"), status_of(node).get("allocatable")]
    return json_digest([uid_of(node), labels_of(node), *schedulable, ready])
