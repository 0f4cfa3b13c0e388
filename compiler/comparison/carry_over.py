"""The cluster after a plan is in force: other running pods stay, victims are deleted, started pods run where
planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from compiler import kubernetes as k8s
from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.pod_records import PodRecord
from compiler.emit.templates import pod_templates
from compiler.fields.quantity import exact_amount
from compiler.fields.texts import natural_sort_key
from compiler.outcome import JobDecision, Outcome, PodsByNode
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, JobKey, RoleSpec
from compiler.syntax.runs import run_digest

Place = tuple[str, str]
"""(role, node)."""


Limits = Mapping[JobKey, Mapping[str, int]]
"""Job -> role -> the most pods of it."""


def state_after(
    outcome: Outcome,
    state: ClusterState | None,
    left_out: Collection[JobKey] = (),
    limits: Limits | None = None,
    edited: Collection[JobKey] = (),
) -> ClusterState:
    """Return the state with the pods as the outcome's plan has them. left_out: jobs without any pods, since they are
    removed or start again. limits: of jobs that have fewer pods from now on. edited: jobs whose objects must show the
    text that they were created from."""
    before = state or ClusterState()
    decisions, running, gone = outcome.by_key, _running_places(outcome), set[tuple[str, str]]()
    surplus = {key: running[key] - _places(decision.pods) for key, decision in decisions.items() if key in running}
    for record in before.pod_records:
        key = _planned_job(record, decisions)
        if key is None:
            continue
        possible = (p for p, number in surplus.get(key, Counter()).items() if number > 0)
        place = next((p for p in possible if _is_at(record, p)), None)
        if key in left_out or place is not None:
            gone.add(record.key)
        if place is not None:
            surplus[key][place] -= 1
    pods = [pod for pod in before.pods if _full_name(pod) not in gone]
    names = {_full_name(pod) for pod in pods}
    for key, decision in decisions.items():
        if key not in left_out:
            pods += _new_pods(decision, _places(decision.pods) - running.get(key, Counter()), names)
    kept = replace(before, pods=tuple(_within_limits(replace(before, pods=tuple(pods)), decisions, limits or {})))
    jobs = tuple(job for job in before.jobs if _job_key(job) not in left_out)
    there = {_job_key(job) for job in jobs}
    live = (decisions[key] for key in sorted(set(edited) - there))
    made = (_made_job(decision.gang) for decision in live if decision.pods)
    finished = frozenset(key for key in before.finished if key not in left_out)
    return replace(kept, jobs=(*jobs, *(job for job in made if job is not None)), finished=finished)


def in_queues(state: ClusterState, outcome: Outcome, queues: Mapping[JobKey, str]) -> ClusterState:
    """Return the state with the pods and PodGroups of these jobs in these queues, where an edit in place takes them."""
    if not queues:
        return state
    pods, groups = dict[tuple[str, str], str](), dict[tuple[str, str], str]()
    for record in state.pod_records:
        key = _planned_job(record, outcome.by_key)
        if key is not None and key in queues:
            pods[record.key] = queues[key]
            groups |= {} if record.group is None else {_full_name(record.group): queues[key]}
    return replace(
        state,
        pods=tuple(_pod_in_queue(pod, pods.get(_full_name(pod))) for pod in state.pods),
        pod_groups=tuple(_group_in_queue(group, groups.get(_full_name(group))) for group in state.pod_groups),
    )


def _full_name(item: k8s.Object) -> tuple[str, str]:
    return k8s.namespace_of(item), k8s.name_of(item)


def _pod_in_queue(pod: k8s.Object, queue: str | None) -> k8s.Object:
    if queue is None:
        return pod
    notes = {**k8s.annotations_of(pod), k8s.QUEUE_NAME_ANNOTATION: queue}
    return {**pod, "metadata": {**pod["metadata"], "annotations": notes}}


def _group_in_queue(group: k8s.Object, queue: str | None) -> k8s.Object:
    return group if queue is None else {**group, "spec": {**(group.get("spec") or {}), "queue": queue}}


def _job_key(job: k8s.Object) -> JobKey:
    return k8s.namespace_of(job), k8s.name_of(job), str(job["kind"])


def _made_job(gang: GangSpec) -> k8s.Object | None:
    """Return the live object of a job, with the digest of its text; None for a job without an object of its own."""
    document = gang.document
    if gang.step is not None or document.kind == "PodGroup":
        return None
    notes = {**k8s.annotations_of(document.data), k8s.DIGEST_ANNOTATION: run_digest(document.data)}
    metadata = {"name": document.name, "namespace": gang.namespace, "annotations": notes}
    return {"apiVersion": document.api_version, "kind": document.kind, "metadata": metadata}


def _within_limits(
    state: ClusterState, decisions: Mapping[JobKey, JobDecision], limits: Limits
) -> Iterator[k8s.Object]:
    """Yield the pods without the last ones of roles that have more than the limits: a controller deletes the highest
    numbers."""
    if not limits:
        yield from state.pods
        return
    over, counts = set[tuple[str, str]](), Counter[tuple[JobKey, str]]()
    for record in sorted(state.pod_records, key=lambda record: natural_sort_key(record.key[1])):
        key = _planned_job(record, decisions)
        if key is None or key not in limits or record.is_terminating:
            continue
        role = next((name for name in limits[key] if record.role_name in (None, name.lower())), None)
        if role is not None:
            counts[key, role] += 1
            if counts[key, role] > limits[key][role]:
                over.add(record.key)
    yield from (pod for pod in state.pods if _full_name(pod) not in over)


def state_with_pods(
    specs: Specs, planned: Mapping[tuple[str, str], PodsByNode], state: ClusterState | None
) -> ClusterState:
    """Return the state with the pods of a former plan: (namespace/name, kind) of a job -> where they run. Deleted jobs
    and nodes are left out, and jobs with pods in the state."""
    before = state or ClusterState()
    running = {(f"{namespace}/{name}", kind) for one in before.pod_records for namespace, name, kind, _ in one.owners}
    nodes = {node.name for node in specs.nodes}
    pods = list(before.pods)
    names = {_full_name(pod) for pod in pods}
    for gang in specs.gangs:
        key = f"{gang.namespace}/{gang.document.name}", gang.document.kind
        roles = {} if key in running else planned.get(key, {})
        there = {role: {n: k for n, k in at.items() if n in nodes} for role, at in roles.items()}
        pods += _new_pods(JobDecision(gang, "keep", 0, there), _places(there), names)
    return replace(before, pods=tuple(pods))


def _running_places(outcome: Outcome) -> dict[JobKey, Counter[Place]]:
    """Job -> (role, node) -> pods that ran before the plan."""
    found: dict[JobKey, Counter[Place]] = {}
    if outcome.problem is None:
        return found
    nodes = outcome.problem.nodes
    for decision in outcome.decisions:
        if decision.gang_index is not None:
            gang = outcome.problem.gangs[decision.gang_index]
            at = found.setdefault(decision.key, Counter())
            for place in gang.running:
                at[gang.roles[place.role].name, nodes[place.node].name] += place.pods
    return found


def _places(pods: PodsByNode) -> Counter[Place]:
    return Counter({(role, node): number for role, nodes in pods.items() for node, number in nodes.items()})


def _planned_job(record: PodRecord, decisions: Mapping[JobKey, JobDecision]) -> JobKey | None:
    for namespace, name, kind, group in record.owners:
        decision = decisions.get((namespace, name, kind))
        if decision is not None and decision.gang.document.group == group:
            return decision.key
    return None


def _is_at(record: PodRecord, place: Place) -> bool:
    role, node = place
    return record.node_name == node and record.role_name in (None, role.lower())


def _new_pods(
    decision: JobDecision, places: Counter[Place], taken: Collection[tuple[str, str]]
) -> Iterator[k8s.Object]:
    """Yield running pods of the job, as many as the places have. taken: (namespace, name) of existing pods."""
    gang = decision.gang
    is_made = any(role.new_template is not None for role in gang.roles)
    data = deepcopy(gang.document.data) if is_made else gang.document.data  # a template is made in it
    templates: dict[str, Any] = {role.name: template for role, template in pod_templates(data, gang)}
    for role in gang.roles:
        bare = [pod for pod in role.pod_documents if (gang.namespace, pod.name) not in taken]
        at = 0
        for node in decision.pods.get(role.name, {}):
            for _ in range(places[role.name, node]):
                template = bare[at].data if at < len(bare) else templates.get(role.name, {})
                if not (template.get("spec") or {}).get("containers"):
                    template = _template_of(role)
                name = bare[at].name if at < len(bare) else f"{gang.document.name}-{role.name}-planned-{at}"
                yield _running_pod(gang, role, name, node, template)
                at += 1


def _template_of(role: RoleSpec) -> k8s.Object:
    """Return a template for pods of a role whose object holds none: those of a service, a runtime or an application."""
    return {"metadata": {"labels": dict(role.labels)}, "spec": {"containers": [{"name": role.name}]}}


def _running_pod(gang: GangSpec, role: RoleSpec, name: str, node: str, template: Mapping[str, Any]) -> k8s.Object:
    """Return a pod that requests what the plan counts: also what an operator or the API server adds to its
    template."""
    requests = {name: exact_amount(name, amount) for name, amount in role.pod.requests.items() if name != "pods"}
    document, metadata = gang.document, template.get("metadata") or {}
    owner = {"apiVersion": document.api_version, "kind": document.kind, "name": document.name, "uid": "planned"}
    # For pods of jobs that the other side suspends.
    queue = {k8s.QUEUE_NAME_ANNOTATION: gang.queue} if gang.queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": gang.namespace,
            "labels": {**(metadata.get("labels") or {}), k8s.TASK_LABEL: role.name},
            "annotations": {**(metadata.get("annotations") or {}), **queue},
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "overhead": None, "resources": {"requests": requests}, "nodeName": node},
        "status": {"phase": "Running"},
    }
