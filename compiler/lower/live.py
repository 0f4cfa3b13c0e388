"""What a state says: nodes as they are, pods of our gangs that run, and what everybody else's pods hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

from pydantic import ValidationError

from compiler.cluster_state.state import STATE_SOURCE, ClusterState, StateError
from compiler.fields.natural_order import natural_sort_key
from compiler.fields.quantity import QuantityError, integer_amounts, parse_quantity
from compiler.fields.timestamp import epoch_seconds
from compiler.kinds.common import pod_rules
from compiler.kinds.common.pod_rules import REQUIRED, PodAffinity
from compiler.kinds.common.pods import PodSpecModel, pod_requests
from compiler.kinds.hypernode import KIND as HYPERNODE
from compiler.kinds.numatopology import KIND as NUMATOPOLOGY
from compiler.kubernetes import (
    EVICTION_KEYS,
    GROUP_NAME_ANNOTATION,
    HOSTNAME_LABEL,
    JOB_NAME_LABELS,
    QUEUE_KEYS,
    ROLE_KEYS,
    STARTS_AT_ANNOTATION,
    Object,
    annotations_of,
    api_group_of,
    assigned_node,
    final_phase,
    is_finished_pod,
    is_ready_node,
    is_terminating,
    labels_of,
    name_of,
    status_of,
)
from compiler.kubernetes import namespace_of as object_namespace
from compiler.lower.budgets import BudgetSelection, read_budgets
from compiler.lower.origins import namespace_of
from compiler.lower.resources import amounts_sum
from compiler.specs import Amounts, GangSpec, HyperNodeSpec, NodeSpec, NumaTopologySpec, PodRuleSpec, Specs, Taint
from compiler.specs.hypernode_tree import resolve_hypernodes
from compiler.syntax.documents import Document
from compiler.volcano.numatopology import with_numa_topologies
from compiler.volcano.shared_devices import shared_devices_of

JobIdentity = tuple[str, str, str, str]
"""(namespace, name, kind, API group)."""


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod on a node that belongs to no gang of the problem. rules: the anti-affinity by which it keeps others away.
    leaving: being deleted."""

    name: str
    node: str
    namespace: str
    labels: Mapping[str, str]
    anti_affinity: tuple[PodRuleSpec, ...] = ()
    is_terminating: bool = False


@dataclass(slots=True)
class ObservedState:
    """running: gang (index into Specs.gangs) -> (role index, node name) -> pods. held: node name -> amounts held by all
    other pods.

    queue_used: queue name -> amounts held by other pods that belong to it. closed_queues: by Command CloseQueue.
    frozen: nodes that take nothing new whatever a pod tolerates. created: gang -> seconds since the epoch. finished:
    gangs whose jobs are over. bystanders: the other pods, one by one. started: gang -> when its running pods started;
    notes: gang -> what their annotations and labels say of evictions. tenants: node name -> all pods that hold it,
    whoever's they are. members: (namespace, name) of a running pod -> (gang, role index). latest: the newest time at
    which anything in the state began or changed, which stands in for a clock; then from when the plan counts. promised:
    gang -> the start that an earlier plan promised it, as its job still says. budgets: the PodDisruptionBudgets, each
    with the roles of running pods that it selects.
    """

    nodes: tuple[NodeSpec, ...]
    hypernodes: tuple[HyperNodeSpec, ...]
    running_pods: dict[int, Counter[tuple[int, str]]] = field(default_factory=dict)
    foreign_amounts: dict[str, Amounts] = field(default_factory=dict)
    queue_used: dict[str, Amounts] = field(default_factory=dict)
    closed_queues: frozenset[str] = frozenset()
    unready_nodes: frozenset[str] = frozenset()
    creation_times: dict[int, int] = field(default_factory=dict)
    finished_gangs: frozenset[int] = frozenset()
    foreign_pods: list[ForeignPod] = field(default_factory=list)
    start_times: dict[int, list[int]] = field(default_factory=dict)
    eviction_notes: dict[int, list[Mapping[str, str]]] = field(default_factory=dict)
    now: int | None = None
    reserved_starts: dict[int, str] = field(default_factory=dict)
    pods_by_node: dict[str, list[Object]] = field(default_factory=dict)
    gang_role_by_pod: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    budget_selections: list[BudgetSelection] = field(default_factory=list)


def observe_state(specs: Specs, state: ClusterState) -> ObservedState:
    """Read the state in the light of the specs. Without nodes in the state, the declared ones stand."""
    gangs: dict[JobIdentity, int] = {job_identity(gang): j for j, gang in enumerate(specs.gangs)}
    nodes = _nodes(specs.nodes, state.nodes, state.numatopologies)
    lost = frozenset(name_of(node) for node in state.nodes if not is_ready_node(node))
    live = ObservedState(
        nodes,
        _hypernodes(specs, state, nodes),
        unready_nodes=lost,
        closed_queues=_closed_queues(state.queues),
        now=_latest_event_time(state),
    )
    live.budget_selections = read_budgets(state.disruption_budgets)
    finished = {
        j
        for j, gang in enumerate(specs.gangs)
        if (namespace_of(gang), gang.document.name, gang.document.kind) in state.finished
    }
    for job in (*state.jobs, *state.pod_groups):
        if (j := gangs.get(_object_identity(job))) is not None:
            if (created := epoch_seconds(job["metadata"].get("creationTimestamp"))) is not None:
                live.creation_times[j] = created
            if (promised := annotations_of(job).get(STARTS_AT_ANNOTATION)) is not None:
                live.reserved_starts[j] = str(promised)
            if final_phase(job) is not None:
                finished.add(j)
    live.finished_gangs = frozenset(finished)
    requests_of, roles = _RequestCache(), _RoleLookup(specs.gangs)
    groups = {(object_namespace(group), name_of(group)): group for group in state.pod_groups}
    hostnames = _nodes_by_hostname(live.nodes)
    exists = {node.name for node in live.nodes}
    counted: dict[tuple[int, int], int] = {}
    for pod in state.pods:
        node = assigned_node(pod, hostnames)
        if node is None or node not in exists or is_finished_pod(pod):
            continue
        live.pods_by_node.setdefault(node, []).append(pod)
        group = (
            groups.get((object_namespace(pod), annotations_of(pod).get(GROUP_NAME_ANNOTATION, ""))) if groups else None
        )
        if not _count_if_running(live, counted, specs.gangs, _gang_of(pod, group, gangs), roles, pod, node):
            live.foreign_pods.append(foreign_pod(pod, node))
            holds = requests_of(pod)
            live.foreign_amounts[node] = amounts_sum(live.foreign_amounts.get(node, {}), holds)
            if queue := _queue_name(pod, group):
                live.queue_used[queue] = amounts_sum(live.queue_used.get(queue, {}), holds)
    return live


def _nodes_by_hostname(nodes: Sequence[NodeSpec]) -> Mapping[str, str]:
    """Hostname label -> node name; a label that two nodes share names neither."""
    said = Counter(node.labels.get(HOSTNAME_LABEL) for node in nodes)
    return {
        host: node.name for node in nodes if (host := node.labels.get(HOSTNAME_LABEL)) is not None and said[host] == 1
    }


def foreign_pod(pod: Object, node: str) -> ForeignPod:
    """Of a pod whose affinity cannot be read no rule is known: the API server would not have let it in."""
    anti = ((pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}).get(REQUIRED)
    try:
        rules = pod_rules.pod_rule_specs(None, PodAffinity.model_validate({REQUIRED: anti}), None) if anti else ()
    except ValidationError:
        rules = ()
    labels = {str(key): str(value) for key, value in labels_of(pod).items()}
    return ForeignPod(name_of(pod), node, object_namespace(pod), labels, rules, is_terminating(pod))


class _RequestCache:
    """What a pod holds; pods of one make, of which a cluster has thousands, are worked out once."""

    def __init__(self) -> None:
        self.requests_by_spec: dict[str, Amounts] = {}

    def __call__(self, pod: Object) -> Amounts:
        spec = pod["spec"]
        decisive = {
            "containers": [_request_fields(container) for container in spec.get("containers") or ()],
            "initContainers": [_request_fields(container) for container in spec.get("initContainers") or ()],
            "overhead": spec.get("overhead"),
            "resources": spec.get("resources"),
        }
        key = repr(decisive)
        if key not in self.requests_by_spec:
            try:
                self.requests_by_spec[key] = pod_requests(PodSpecModel.model_validate(decisive))
            except ValidationError as error:
                problem = error.errors()[0]
                where = ".".join(map(str, problem["loc"]))
                raise StateError(
                    f"Pod {object_namespace(pod)}/{name_of(pod)} of the state, spec.{where}: {problem['msg']}"
                ) from error
        return self.requests_by_spec[key]


def _request_fields(container: Mapping[str, Any]) -> dict[str, Any]:
    return {key: container.get(key) for key in ("resources", "restartPolicy")}


def _count_if_running(
    live: ObservedState,
    role_counts: dict[tuple[int, int], int],
    gangs: Sequence[GangSpec],
    j: int | None,
    roles: _RoleLookup,
    pod: Object,
    node: str,
) -> bool:
    """A placed pod of a gang that is to be planned. One that terminates, or is more than its role has replicas, only
    holds its node.

    counted: (gang, role) -> pods so far. j: the gang that the pod belongs to.
    """
    metadata = pod["metadata"]
    if j is None or j in live.finished_gangs or not gangs[j].schedulable or is_terminating(pod):
        return False
    role = roles.role_of(j, pod)
    if role is None or (before := role_counts.get((j, role), 0)) >= gangs[j].roles[role].replicas:
        return False
    role_counts[j, role] = before + 1
    if j not in live.running_pods:
        live.running_pods[j] = Counter()
    live.running_pods[j][role, node] += 1
    live.gang_role_by_pod[object_namespace(pod), name_of(pod)] = j, role
    for budget in live.budget_selections:
        budget.note_running_pod(pod, (j, role))
    if (start := epoch_seconds(status_of(pod).get("startTime"))) is not None:
        live.start_times.setdefault(j, []).append(start)
    for said in (metadata.get("labels"), metadata.get("annotations")):
        if said and not EVICTION_KEYS.isdisjoint(said):
            live.eviction_notes.setdefault(j, []).append(
                {key: str(amount) for key, amount in said.items() if key in EVICTION_KEYS}
            )
    return True


def _latest_event_time(state: ClusterState) -> int | None:
    """Heartbeats are left out: the answer changes only when something happened."""
    times = [item["metadata"].get("creationTimestamp") for item in (*state.pods, *state.jobs, *state.pod_groups)]
    for status in map(status_of, state.pods):
        times.append(status.get("startTime"))
        times += [condition.get("lastTransitionTime") for condition in status.get("conditions") or ()]
    distinct = {time for time in times if isinstance(time, str | datetime)}
    return max((at for time in distinct if (at := epoch_seconds(time)) is not None), default=None)


def job_identity(gang: GangSpec) -> JobIdentity:
    return namespace_of(gang), gang.document.name, gang.document.kind, gang.document.api_version.rpartition("/")[0]


def _object_identity(item: Object) -> JobIdentity:
    return object_namespace(item), name_of(item), str(item["kind"]), api_group_of(item)


def _gang_of(pod: Object, group: Object | None, gang_by_identity: Mapping[JobIdentity, int]) -> int | None:
    """The first of its owners that is a gang, whose number `known` has."""
    for owner in _owner_identities(pod, group):
        if owner in gang_by_identity:
            return gang_by_identity[owner]
    return None


def _owner_identities(pod: Object, group: Object | None) -> Iterator[JobIdentity]:
    """Who the pod may belong to, the surest first: its controller, the labels of job controllers, its pod group and
    that one's owner."""
    namespace = object_namespace(pod)
    yield from _owner_references(pod)
    labels = labels_of(pod)
    for label, kinds in JOB_NAME_LABELS.items():
        if label in labels:
            for kind, api_group in kinds:
                yield namespace, labels[label], kind, api_group
    if group is not None:
        yield _object_identity(group)
        yield from _owner_references(group)


def _owner_references(item: Object) -> Iterator[JobIdentity]:
    for reference in item["metadata"].get("ownerReferences") or ():
        yield object_namespace(item), reference.get("name", ""), reference.get("kind", ""), api_group_of(reference)


class _RoleLookup:
    """Which role of its gang a pod has; the names of a gang's roles are looked up once, not for each of its pods."""

    def __init__(self, gangs: Sequence[GangSpec]) -> None:
        self.gangs = gangs
        self._roles_by_pod: dict[int, dict[str, int]] = {}
        self._roles_by_name: dict[int, dict[str, int]] = {}

    def role_of(self, j: int, pod: Object) -> int | None:
        """By the controller's label or annotation, case aside (Kubeflow writes "worker" for Worker), or by its name for
        bare pods; a gang of one role needs none."""
        if j not in self._roles_by_name:
            roles = tuple(enumerate(self.gangs[j].roles))[::-1]  # of equal names the first role's counts
            self._roles_by_pod[j] = {document.name: t for t, role in roles for document in role.pod_documents}
            self._roles_by_name[j] = {role.name.lower(): t for t, role in roles}
        metadata = pod["metadata"]
        if metadata["name"] in self._roles_by_pod[j]:
            return self._roles_by_pod[j][metadata["name"]]
        for key in ROLE_KEYS:
            for where in ("labels", "annotations"):
                if said := (metadata.get(where) or {}).get(key):
                    return self._roles_by_name[j].get(str(said).lower())
        return 0 if len(self.gangs[j].roles) == 1 else None


def _queue_name(pod: Object, group: Object | None) -> str | None:
    for where in ("annotations", "labels"):
        for key in QUEUE_KEYS:
            if said := (pod["metadata"].get(where) or {}).get(key):
                return str(said)
    return str((group.get("spec") or {}).get("queue") or "default") if group else None


def _nodes(declared: Sequence[NodeSpec], found: Sequence[Object], topologies: Sequence[Object]) -> tuple[NodeSpec, ...]:
    """When the cluster shows its nodes they are the truth: labels, taints, allocatable, and which ones exist at all."""
    if not found:
        return tuple(declared)
    by_name = {node.name: node for node in declared}
    made = (_node_spec(node, by_name.get(name_of(node))) for node in found)
    return tuple(
        sorted(
            with_numa_topologies(made, map(_numa_topology, topologies)), key=lambda node: natural_sort_key(node.name)
        )
    )


def _numa_topology(found: Object) -> NumaTopologySpec:
    try:
        (spec,) = NUMATOPOLOGY.specs(
            Document(STATE_SOURCE, 1, "", dict(found), {}), NUMATOPOLOGY.model.model_validate(found)
        )
    except ValidationError as error:
        raise StateError(
            f"Numatopology {name_of(found)} of the state cannot be read: {error.errors()[0]['msg']}"
        ) from error
    return cast(NumaTopologySpec, spec)


def _hypernodes(specs: Specs, state: ClusterState, nodes: Sequence[NodeSpec]) -> tuple[HyperNodeSpec, ...]:
    """The declared tree, its selectors applied to the nodes that exist; of a repository that declares none, the
    cluster's own tree."""
    if not state.nodes or (specs.hypernodes and all(spec.document.kind != HYPERNODE.name for spec in specs.hypernodes)):
        return specs.hypernodes
    written = [spec.document for spec in specs.hypernodes if spec.document.kind == HYPERNODE.name]
    if not specs.hypernodes:
        written = [Document(STATE_SOURCE, 1, "", dict(found), {}) for found in state.hypernodes]
    try:
        drafts = [
            draft
            for document in written
            for draft in HYPERNODE.specs(document, HYPERNODE.model.model_validate(document.data))
        ]
    except ValidationError as error:
        raise StateError(f"a HyperNode of the state cannot be read: {error.errors()[0]['msg']}") from error
    made, _ = resolve_hypernodes(
        drafts,  # type: ignore[arg-type]
        [spec for spec in specs.hypernodes if spec.document.kind != HYPERNODE.name],
        nodes,
    )
    return tuple(sorted(made, key=lambda spec: natural_sort_key(spec.name)))


def _closed_queues(queues: Iterable[Object]) -> frozenset[str]:
    """There is no spec for it: status.state is the truth. A queue that is closing takes nothing new either."""
    return frozenset(name_of(queue) for queue in queues if status_of(queue).get("state") in ("Closed", "Closing"))


def _node_spec(found: Object, declared: NodeSpec | None) -> NodeSpec:
    spec, status = found.get("spec") or {}, status_of(found)
    taints = tuple(
        Taint(t["key"], t.get("value") or "", t["effect"])
        for t in spec.get("taints") or ()
        if t.get("key") and t.get("effect")
    )
    allocatable = _allocatable(found) if status.get("allocatable") else declared.allocatable if declared else {}
    return NodeSpec(
        document=declared.document if declared else Document(STATE_SOURCE, 1, "", dict(found), {}),
        name=name_of(found),
        labels={str(k): str(v) for k, v in labels_of(found).items()},
        taints=taints,
        allocatable=allocatable,
        unschedulable=bool(spec.get("unschedulable")) or not is_ready_node(found),
        maintenance_windows=declared.maintenance_windows if declared else (),
        numa=declared.numa if declared else None,
        shared_devices=shared_devices_of(annotations_of(found), allocatable)
        or (declared.shared_devices if declared else ()),
    )


def _allocatable(node: Object) -> Amounts:
    try:
        return integer_amounts(
            {name: parse_quantity(value) for name, value in node["status"]["allocatable"].items()}, "down"
        )
    except QuantityError as error:
        raise StateError(f"Node {name_of(node)} of the state, status.allocatable: {error}") from error
