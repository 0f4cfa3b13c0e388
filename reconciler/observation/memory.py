"""What was worked out of single objects, passed on from one observation of the cluster to the next: what a pass costs
follows what has changed, not how many nodes and jobs there are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from compiler.cluster_state.pods import RequestCache, asked_by_pod
from compiler.kubernetes import conditions_of, is_planned_job, labels_of, name_of, status_of, uid_of
from compiler.last_result import LastOfEach, LastResult
from compiler.run_kinds import RUN_KINDS
from compiler.specs.pod_spec import Amounts
from compiler.syntax.runs import json_digest
from reconciler.changes.planned import PlannedGang
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeFacts, NodeIndex, facts_of_node
from reconciler.observation.owners import OwnershipMemory
from reconciler.observation.pods import has_ended, role_of
from reconciler.threads.memo import drop_other_keys


@dataclass(slots=True)
class ObservationMemory:
    """Objects are replaced and never changed, so the same object says the same.

    owners: which pods are a job's. facts, digests: of each node, what an index holds of it and what decides whether
    pods may go to it. jobs: group kind -> its objects, and those of them that are jobs. expected: Ref.key of a gang ->
    the uids of the pods that are as planned. stated: objects as the compiler is given them. unlike: Ref.key of a gang
    -> how many of its pods ask for something else than its plan counts. requests: of pods.
    """

    owners: OwnershipMemory = field(default_factory=OwnershipMemory)
    facts: LastOfEach[NodeFacts] = field(default_factory=LastOfEach)
    digests: LastOfEach[str] = field(default_factory=LastOfEach)
    last_facts: LastResult[list[NodeFacts]] = field(default_factory=LastResult)
    last_index: LastResult[NodeIndex] = field(default_factory=LastResult)
    jobs: dict[str, tuple[Mapping[str, Object], Mapping[str, Object]]] = field(default_factory=dict)
    expected: defaultdict[str, LastResult[set[str]]] = field(default_factory=lambda: defaultdict(LastResult))
    stated: LastOfEach[Object] = field(default_factory=LastOfEach)
    unlike: defaultdict[str, LastResult[Mapping[str, int]]] = field(default_factory=lambda: defaultdict(LastResult))
    requests: RequestCache = field(default_factory=RequestCache)

    def node_digests(self, nodes: Sequence[Object]) -> Mapping[str, str]:
        """Name of each node -> its digest."""
        return dict(zip(map(name_of, nodes), self.digests.of(zip(nodes), _node_digest), strict=True))

    def index_of(self, nodes: Sequence[Object]) -> NodeIndex:
        """The index of these nodes: the last one itself where it is equal, so that what rests on it stays known."""
        facts = self.last_facts.of((nodes,), lambda: self.facts.of(zip(nodes), facts_of_node))
        return self.last_index.of((facts,), lambda: NodeIndex.from_facts(facts, {}))

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
        parts = gang, nodes.node_of_hostname, *pods
        return self.expected[key].of(parts, lambda: _pods_as_planned(gang, pods, nodes))

    def pods_unlike_plan(self, key: str, planned: Sequence[Amounts], pods: list[Object]) -> Mapping[str, int]:
        """What pods of the gang ask for that is planned for none of its roles, and how many do: whether they wait or
        run, since a gate that is lifted changes no plan."""

        def count() -> Mapping[str, int]:
            asked = filter(None, (asked_by_pod(pod, self.requests) for pod in pods if not has_ended(pod)))
            unlike = Counter(repr(sorted(one.requests.items())) for one in asked if one.requests not in planned)
            return dict(sorted(unlike.items()))

        return self.unlike[key].of((planned, *pods), count)

    def keep_gangs(self, gangs: Mapping[str, PlannedGang]) -> None:
        """Forget gangs that no plan holds any more."""
        drop_other_keys(self.expected, gangs.keys())
        drop_other_keys(self.unlike, gangs.keys())


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
