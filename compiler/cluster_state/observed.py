"""A cluster's state related to the specs: running pods by gang and role, and amounts held by all other pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from compiler import kubernetes as k8s
from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.disruption_budgets import BudgetSelection, read_budgets
from compiler.cluster_state.live_requests import asked_by_pods
from compiler.cluster_state.nodes import observed_hypernodes, observed_nodes, unready_nodes
from compiler.cluster_state.pod_records import (
    JobIdentity,
    PodRecord,
    RoleLookup,
    gang_identity,
    gang_of_pod,
    object_identity,
    queue_of,
    spec_queue,
)
from compiler.cluster_state.pods import ForeignPod, RequestCache, foreign_pod, leaving_until
from compiler.cluster_state.refused_queues import LiveQueues, local_name
from compiler.cluster_state.run_records import StartPromise
from compiler.fields.quantity import amounts_sum
from compiler.fields.times import epoch_seconds
from compiler.run_kinds import end_of_run, runs_once
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, JobKey, RoleSpec
from compiler.specs.node_spec import HyperNodeSpec, NodeSpec
from compiler.specs.pod_spec import Amounts, Expression, NodeSelectorTerm, PodSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.syntax.documents import Document


@dataclass(slots=True)
class ObservedJobs:
    """The cluster's facts about jobs. Gangs are indices into Specs.gangs, times seconds since the epoch.

    held: gang -> why nothing of it starts now; its pods count as foreign ones. finished: gangs whose jobs are finished.
    finished_keys: all finished jobs, planned or not. former_places: as in `ClusterState`. reserved_starts, promises:
    gang -> the start that an earlier plan reserved for it, and its first window, from its job. with_pods: gangs with
    pods in the cluster, running or not. present: gangs with pods, a job or a PodGroup there.
    """

    held: Mapping[int, str] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    finished_keys: frozenset[JobKey] = frozenset()
    former_places: Mapping[JobKey, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    creation_times: dict[int, int] = field(default_factory=dict)
    reserved_starts: dict[int, str] = field(default_factory=dict)
    promises: dict[int, StartPromise] = field(default_factory=dict)
    with_pods: set[int] = field(default_factory=set)
    present: set[int] = field(default_factory=set)

    def enter(self, j: int, job: k8s.Object) -> None:
        """Note that the cluster has the gang's job, or another object in its place, and its facts."""
        self.present.add(j)
        if (created := epoch_seconds(job["metadata"].get("creationTimestamp"))) is not None:
            self.creation_times[j] = created
        annotations = k8s.annotations_of(job)
        if (start := annotations.get(k8s.STARTS_AT_ANNOTATION)) is not None:
            self.reserved_starts[j] = str(start)
        text = annotations.get(k8s.PROMISED_START_ANNOTATION)  # most jobs have none: nothing is parsed for them
        if text is not None and (promise := StartPromise.from_text(text)) is not None:
            self.promises[j] = promise

    def hold(self, gangs: Mapping[int, str]) -> None:
        """Hold these gangs, for the reasons given. None of them has pods on nodes."""
        self.held = {**self.held, **gangs}

    def enter_finished(self, gangs: frozenset[int]) -> None:
        self.finished = gangs

    def enter_with_pods(self, gangs: set[int]) -> None:
        self.with_pods |= gangs
        self.present |= gangs


@dataclass(slots=True)
class ForeignPods:
    """Usage of pods outside of planned gangs, and usage of gangs' pods beyond their planned requests.

    pods: these pods. amounts: node -> amounts held by them. queue_used: queue name -> amounts that count in it.
    namespace_used: (queue name, namespace) -> amounts held by these pods. limited_queues: queues with limits on node
    groups. held_in_limited_queues: (queue, node) -> amounts that count in such a queue there. lighter_pods: (namespace,
    name) of running pods that hold less of a resource than their role requests, which `amounts` takes back.
    """

    limited_queues: frozenset[str] = frozenset()
    pods: list[ForeignPod] = field(default_factory=list)
    amounts: dict[int, Amounts] = field(default_factory=dict)
    queue_used: dict[str, Amounts] = field(default_factory=dict)
    namespace_used: dict[tuple[str, str], Amounts] = field(default_factory=dict)
    held_in_limited_queues: dict[tuple[str, int], Amounts] = field(default_factory=dict)
    lighter_pods: set[tuple[str, str]] = field(default_factory=set)

    def count(self, record: PodRecord, node: int, requests: Amounts) -> None:
        """Count the pod as one of no planned gang."""
        self.pods.append(foreign_pod(record.pod, node, record.group))
        queue = queue_of(record.pod, record.group)
        self.charge(node, queue, requests)
        place = queue or "", k8s.namespace_of(record.pod)
        self.namespace_used[place] = amounts_sum(self.namespace_used.get(place, {}), requests)

    def charge_difference(self, record: PodRecord, node: int, queue: str, planned: Amounts, asked: Amounts) -> None:
        """Count a running pod's usage beyond its planned request; negative where it is less."""
        difference = {name: asked.get(name, 0) - planned.get(name, 0) for name in {**planned, **asked}}
        self.charge(node, queue, difference)
        if min(difference.values()) < 0:
            self.lighter_pods.add(record.key)

    def charge(self, node: int, queue: str | None, amounts: Amounts) -> None:
        """Count these amounts as held on the node and in the queue, by no planned gang."""
        self.amounts[node] = amounts_sum(self.amounts.get(node, {}), amounts)
        if queue:
            self.queue_used[queue] = amounts_sum(self.queue_used.get(queue, {}), amounts)
            if queue in self.limited_queues:
                place = queue, node
                self.held_in_limited_queues[place] = amounts_sum(self.held_in_limited_queues.get(place, {}), amounts)


@dataclass(slots=True)
class ObservedState:
    """Gangs are indices into Specs.gangs, nodes indices into `nodes`, times seconds since the epoch.

    now: when the cluster was read, or the newest event if that is later. unready_nodes: they get nothing new whatever a
    pod tolerates. closed_queues: by Command CloseQueue, NamespaceQueues that are not ready, and refused_queues:
    NamespaceQueues that Volcano would refuse -> why. running_pods: gang -> (role, node) -> pods. running_records: gang
    -> (role, node, record) of each running pod. gang_role_by_pod: (namespace, name) of a running pod -> (gang, role).
    pods_by_node: node -> all pods on it.
    """

    nodes: tuple[NodeSpec, ...]
    hypernodes: tuple[HyperNodeSpec, ...]
    jobs: ObservedJobs = field(default_factory=ObservedJobs)
    foreign: ForeignPods = field(default_factory=ForeignPods)
    now: int | None = None
    unready_nodes: frozenset[str] = frozenset()
    closed_queues: frozenset[str] = frozenset()
    refused_queues: Mapping[str, str] = field(default_factory=dict)
    budget_selections: list[BudgetSelection] = field(default_factory=list)
    running_pods: dict[int, Counter[tuple[int, int]]] = field(default_factory=dict)
    running_records: dict[int, list[tuple[int, int, PodRecord]]] = field(default_factory=dict)
    gang_role_by_pod: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    pods_by_node: dict[int, list[k8s.Object]] = field(default_factory=dict)

    def pods_on(self, node: int) -> Sequence[k8s.Object]:
        return self.pods_by_node.get(node, ())

    def running_pod_count(self, j: int) -> int:
        return sum(self.running_pods.get(j, {}).values())

    def live_queue(self, j: int, gang: GangSpec) -> str:
        """Return the queue in which the gang's running pods count: a job that runs once keeps the queue that it was
        created in, also where its text names another by now."""
        records = self.running_records.get(j)
        if not records or not (gang.controller.runs_once or runs_once(gang.document.data)):
            return gang.queue
        pod, group = records[0][2].pod, records[0][2].group
        if group is not None and (group.get("spec") or {}).get("queue"):
            return spec_queue(group)
        return queue_of(pod, None) or gang.queue

    def started_at(self, j: int) -> int | None:
        """When the first of the gang's running pods started; None where that is not known."""
        starts = (record.start_time for _, _, record in self.running_records.get(j, ()))
        return min((start for start in starts if start is not None), default=None)

    def checkpoint_times(self, j: int) -> list[tuple[int | None, int]]:
        """Return (start, last checkpoint) of each of the gang's running pods that reports one."""
        records = [record for _, _, record in self.running_records.get(j, ())]
        return [(each.start_time, each.checkpoint_time) for each in records if each.checkpoint_time is not None]

    def enter_pod(self, pod: k8s.Object, node: int) -> None:
        """Note that the pod, of any job, is on the node."""
        self.pods_by_node.setdefault(node, []).append(pod)

    def count_running_pod(self, record: PodRecord, gang_role: tuple[int, int], node: int) -> None:
        """Count the pod as a running pod of the gang."""
        j, t = gang_role
        running = self.running_pods.get(j)
        if running is None:
            running = self.running_pods[j] = Counter()
        place = t, node
        running[place] = running.get(place, 0) + 1  # no Counter counts 10,000 single pods as fast
        self.running_records.setdefault(j, []).append((t, node, record))
        self.gang_role_by_pod[record.key] = gang_role
        for budget in self.budget_selections:
            budget.note_running_pod(record.pod, gang_role)


def observe_state(specs: Specs, state: ClusterState) -> ObservedState:
    """Relate the state to the specs. Without nodes in the state, the declared ones count."""
    nodes = observed_nodes(specs.nodes, state)
    refused = _refused_queues(specs.queues, state)
    observed = ObservedState(
        nodes,
        observed_hypernodes(specs, state, nodes),
        ObservedJobs(_held_gangs(specs.gangs, state), finished_keys=state.finished, former_places=state.former_places),
        ForeignPods(frozenset(queue.name for queue in specs.queues if _has_group_limits(queue.document))),
        unready_nodes=unready_nodes(state),
        closed_queues=_closed_queues(state.queues) | unready_queues(state.namespace_queues) | refused.keys(),
        refused_queues=refused,
        now=state.now,
        budget_selections=read_budgets(state.disruption_budgets, specs.documents),
    )
    index = {gang_identity(gang): j for j, gang in enumerate(specs.gangs)}
    _read_jobs(observed, specs.gangs, index, state)
    counter = _PodCounter(observed, specs.gangs, index, state.now)
    for record, asked in zip(state.pod_records, asked_by_pods(state), strict=True):
        counter.count_pod(record, asked)
    observed.jobs.enter_with_pods(counter.gangs_of_pods)
    return observed


def _refused_queues(queues: Iterable[QueueSpec], state: ClusterState) -> dict[str, str]:
    wanted = {queue.name: queue.parent or "" for queue in queues if queue.namespace}
    live = LiveQueues(state.queues, state.namespace_queues, state.pod_groups)
    return live.refused(wanted, {queue.name for queue in queues}) if wanted else {}


def _has_group_limits(queue: Document) -> bool:
    return k8s.NODE_GROUP_LIMITS_ANNOTATION in (queue.metadata.get("annotations") or {})


def _held_gangs(gangs: Sequence[GangSpec], state: ClusterState) -> Mapping[int, str]:
    """Return the gangs suspended by an annotation or in the cluster, held by the reconciler, or preceded by other
    jobs."""
    held = {}
    stopped = {object_identity(job): why for job in state.jobs if (why := k8s.stopped_by(job))}
    completed = {object_identity(job) for job in state.jobs if end_of_run(job) == "Completed"}
    for j, gang in enumerate(gangs):
        awaited = [
            name
            for name in (gang.step.awaited_jobs if gang.step else ())
            if (gang.namespace, name, *gang_identity(gang)[2:]) not in completed
        ]
        if k8s.is_suspended({"metadata": gang.document.metadata}):
            held[j] = f"{k8s.SUSPEND_ANNOTATION} suspends it"
        elif state.held and gang.key in state.held:
            held[j] = state.held[gang.key]
        elif gang.scheduling.schedulable and (why := stopped.get(gang_identity(gang), "")):
            held[j] = why
        elif awaited:
            held[j] = f"it is made when {', '.join(awaited)} {'is' if len(awaited) == 1 else 'are'} completed"
    return held


def with_closed_nodes(specs: Specs, state: ClusterState) -> Specs:
    """Return the specs, where no pod of a job matches the nodes that are closed to it."""
    if not state.closed_nodes:
        return specs
    gangs = (_avoiding_nodes(gang, state.closed_nodes.get(gang.key, frozenset())) for gang in specs.gangs)
    return replace(specs, gangs=tuple(gangs))


def _avoiding_nodes(gang: GangSpec, nodes: frozenset[str]) -> GangSpec:
    if not nodes:
        return gang
    elsewhere = Expression("metadata.name", "NotIn", tuple(sorted(nodes)))

    def avoiding(role: RoleSpec) -> RoleSpec:
        terms = role.pod.node_affinity
        if terms is None:
            terms = (NodeSelectorTerm(field_expressions=(elsewhere,)),)
        else:
            terms = tuple(replace(term, field_expressions=(*term.field_expressions, elsewhere)) for term in terms)
        return replace(role, pod=replace(role.pod, node_affinity=terms))

    return replace(gang, roles=tuple(map(avoiding, gang.roles)))


def unready_queues(queues: Iterable[k8s.Object]) -> frozenset[str]:
    """Return the NamespaceQueues that are not open, or with the condition Ready or Authorized False, by their name in
    Volcano's scheduler: their waiting jobs do not start. One without a status from the controller counts as ready."""
    return frozenset(local_name(queue) for queue in queues if _is_unready(queue))


def _is_unready(queue: k8s.Object) -> bool:
    is_open = k8s.status_of(queue).get("state") in (None, "", "Open") and not k8s.is_terminating(queue)
    states = {row.get("type"): row.get("status") for row in k8s.conditions_of(queue)}
    return not is_open or "False" in (states.get("Ready"), states.get("Authorized"))


def _closed_queues(queues: Sequence[k8s.Object]) -> frozenset[str]:
    """Return the closed queues, by status.state, since no spec field closes a queue: all that are not Open accept
    nothing new (Volcano, allocatable of capacity and proportion). One without a status from the controller is open."""
    return frozenset(
        k8s.name_of(queue) for queue in queues if k8s.status_of(queue).get("state") not in (None, "", "Open")
    )


def _read_jobs(
    observed: ObservedState, gangs: Sequence[GangSpec], index: Mapping[JobIdentity, int], state: ClusterState
) -> None:
    """Note the facts of the cluster's jobs, and finished gangs."""
    finished = set[int]()
    if state.finished:
        finished = {j for j, gang in enumerate(gangs) if state.finished & {gang.key, _maker_key(gang)}}
    bare = {identity[:2] for identity in index if identity[2:] == ("Pod", "")}
    lone_pods = (pod for pod in state.pods if (k8s.namespace_of(pod), k8s.name_of(pod)) in bare) if bare else ()
    for job in (*state.jobs, *state.pod_groups, *lone_pods):
        j = index.get(object_identity(job))
        if j is None:
            continue
        observed.jobs.enter(j, job)
        if end_of_run(job) is not None or (job["kind"] == "Pod" and k8s.is_finished_pod(job)):
            finished.add(j)
    observed.jobs.enter_finished(frozenset(finished))


def _maker_key(gang: GangSpec) -> JobKey:
    """Return the key of the object that makes the job; the job's own where nothing makes it."""
    return (gang.namespace, gang.step.flow.name, gang.step.flow.kind) if gang.step else gang.key


class _PodCounter:
    """Counts pods one by one into an observed state."""

    def __init__(
        self, observed: ObservedState, gangs: Sequence[GangSpec], index: Mapping[JobIdentity, int], now: int | None
    ) -> None:
        self.observed, self.gangs, self.index, self.now = observed, gangs, index, now
        self.roles, self.requests = RoleLookup(gangs), RequestCache()
        self.nodes_by_hostname = _nodes_by_hostname(observed.nodes)
        self.nodes_by_name = {node.name: n for n, node in enumerate(observed.nodes)}
        self.gangs_of_pods = set[int]()
        self.left_out = observed.jobs.finished | observed.jobs.held.keys()
        self.room: dict[tuple[int, int], int] = {}  # (gang, role) -> pods of it that may still count as running

    def count_pod(self, record: PodRecord, asked: PodSpec | None) -> None:
        """Count the pod as a running pod of a planned gang, or else as a foreign one; ignored if it holds no node. An
        evicted pod of a gang frees its room at once; a foreign one, which was evicted for no gang, when it is deleted.
        asked: its request; None if unknown."""
        j = gang_of_pod(record, self.gangs, self.index)
        if j is not None:
            self.gangs_of_pods.add(j)
        if record.node_name:
            node = self.nodes_by_name.get(record.node_name)
        else:
            node = self.nodes_by_hostname.get(record.selected_hostname)
        if node is None or (j is not None and self._is_leaving(record)):
            return
        self.observed.enter_pod(record.pod, node)
        gang_role = None if j is None else self._planned_role(record, j)
        if gang_role is None:
            requests = self.requests.requests_of(record.pod) if asked is None else asked.requests
            self.observed.foreign.count(record, node, requests)
            return
        self.observed.count_running_pod(record, gang_role, node)
        gang, t = self.gangs[gang_role[0]], gang_role[1]
        if asked is not None and asked.requests != (planned := gang.roles[t].pod.requests):
            self.observed.foreign.charge_difference(record, node, gang.queue, planned, asked.requests)

    def _is_leaving(self, record: PodRecord) -> bool:
        until = leaving_until(record.pod) if record.is_terminating else None
        return until is not None and (self.now is None or self.now <= until)

    def _planned_role(self, record: PodRecord, j: int) -> tuple[int, int] | None:
        """(gang, role) of a pod that counts as running; None if it terminates or exceeds its role's replicas."""
        if record.is_terminating or j in self.left_out or not self.gangs[j].scheduling.schedulable:
            return None
        t = self.roles.role_of(j, record.key[1], record.role_name)
        if t is None:
            return None
        gang_role = j, t
        room = self.room.get(gang_role)
        if room is None:
            room = self.gangs[j].roles[t].replicas
        if room <= 0:
            return None
        self.room[gang_role] = room - 1
        return gang_role


def _nodes_by_hostname(nodes: Sequence[NodeSpec]) -> Mapping[str, int]:
    """Hostname label -> node; a label that two nodes share names neither."""
    labelled = [
        (node.labels[k8s.HOSTNAME_LABEL], n) for n, node in enumerate(nodes) if k8s.HOSTNAME_LABEL in node.labels
    ]
    counts = Counter(host for host, _ in labelled)
    return {host: n for host, n in labelled if counts[host] == 1}
