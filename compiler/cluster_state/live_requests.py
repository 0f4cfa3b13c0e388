"""Pods with other requests than their template: a webhook, a LimitRange or a RuntimeClass has added to them.

They are planned with their own requests, since the scheduler and the node count these. A role has one size, so where
its pods differ, the ones to place count as the largest of them. The difference of each running pod is counted on its
node (`observed`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.pod_records import JobIdentity, PodRecord, gang_identity, object_identity, pods_of_roles
from compiler.cluster_state.pods import RequestCache, asked_by_pod
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, is_gated
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, LiveRequests, RoleSpec
from compiler.specs.pod_spec import PodSpec, VgpuRequest
from compiler.syntax.runs import run_digest


def asked_by_pods(state: ClusterState) -> list[PodSpec | None]:
    """Return the requests of each of the state's pod records; None for a pod without a container."""
    pods = ((record.pod,) for record in state.pod_records)
    return state.session.each("requests of a pod", pods, partial(asked_by_pod, cache=RequestCache()))


def with_live_requests(specs: Specs, state: ClusterState) -> Specs:
    """Return the specs, where roles ask for what their pods in the cluster do."""
    found = _pods_by_role(specs, state)
    unlike = {at: pods for at, pods in found.items() if pods.differ_from(specs.gangs[at[0]].roles[at[1]].pod)}
    if not unlike:
        return specs
    edited = _edited_gangs({j: specs.gangs[j] for j, _ in unlike}, state)

    def with_requests(j: int, gang: GangSpec) -> GangSpec:
        roles = enumerate(gang.roles)
        return replace(
            gang,
            roles=tuple(
                _with_requests(role, unlike[j, t], is_edited=j in edited) if (j, t) in unlike else role
                for t, role in roles
            ),
        )

    changed = {j for j, _ in unlike}
    return replace(
        specs, gangs=tuple(with_requests(j, gang) if j in changed else gang for j, gang in enumerate(specs.gangs))
    )


@dataclass(slots=True)
class _LivePods:
    """The requests of a role's pods: those that still have a gate, and those with a node."""

    gated: list[PodSpec] = field(default_factory=list)
    placed: list[PodSpec] = field(default_factory=list)

    def count(self, record: PodRecord, asked: PodSpec) -> None:
        if record.node_name or record.selected_hostname:
            self.placed.append(asked)
        elif is_gated(record.pod):
            self.gated.append(asked)

    def differ_from(self, template: PodSpec) -> bool:
        return any(not _asks_alike(pod, template) for pod in chain(self.gated, self.placed))


def _pods_by_role(specs: Specs, state: ClusterState) -> dict[tuple[int, int], _LivePods]:
    """(gang, role) -> its pods that are not on their way out."""
    index = {gang_identity(gang): j for j, gang in enumerate(specs.gangs) if gang.scheduling.schedulable}
    asked = dict(zip(map(id, state.pod_records), asked_by_pods(state), strict=True))
    found: dict[tuple[int, int], _LivePods] = {}
    for record, j, t in pods_of_roles(state.pod_records, specs.gangs, index):
        if not record.is_terminating and (pod := asked[id(record)]) is not None:
            found.setdefault((j, t), _LivePods()).count(record, pod)
    return found


def _with_requests(role: RoleSpec, pods: _LivePods, *, is_edited: bool) -> RoleSpec:
    """Return the role with its pods' requests. If all have a node, the smallest, so that a plan counts on no more when
    one is deleted. Pods yet to be created are like the waiting ones, and without any at least as large as running ones.
    is_edited: the pods were created from another template."""
    if len(pods.placed) >= role.replicas:
        pod = _smallest(role.pod, pods.placed)
    elif is_edited:
        pod = role.pod
    elif pods.gated:
        pod = _largest(role.pod, pods.gated)
    else:
        pod = _largest(role.pod, [role.pod, *pods.placed])
    if _asks_alike(pod, role.pod):
        return role
    unlike = sum(not _asks_alike(each, role.pod) for each in chain(pods.gated, pods.placed))
    return replace(role, pod=pod, live=LiveRequests(unlike, role.pod.requests))


def _asks_alike(one: PodSpec, other: PodSpec) -> bool:
    return (one.requests, one.guaranteed_qos, one.vgpu_requests) == (
        other.requests,
        other.guaranteed_qos,
        other.vgpu_requests,
    )


def _largest(template: PodSpec, pods: Sequence[PodSpec]) -> PodSpec:
    """Return the template with the most of everything that one of the pods asks for."""
    return replace(
        template,
        requests={name: max(pod.requests.get(name, 0) for pod in pods) for name in _names(template, pods)},
        guaranteed_qos=any(pod.guaranteed_qos for pod in pods),
        vgpu_requests=max((pod.vgpu_requests for pod in pods), key=_vgpu_size),
    )


def _smallest(template: PodSpec, pods: Sequence[PodSpec]) -> PodSpec:
    """Return the template with what all of the pods ask for."""
    least = {name: min(pod.requests.get(name, 0) for pod in pods) for name in _names(template, pods)}
    return replace(
        template,
        requests={name: amount for name, amount in least.items() if amount},
        guaranteed_qos=all(pod.guaranteed_qos for pod in pods),
        vgpu_requests=min((pod.vgpu_requests for pod in pods), key=_vgpu_size),
    )


def _names(template: PodSpec, pods: Iterable[PodSpec]) -> list[str]:
    """Return the resources that the pods ask for, in the template's order."""
    named = {name for pod in pods for name in pod.requests}
    return [*(name for name in template.requests if name in named), *sorted(named - template.requests.keys())]


def _vgpu_size(requests: Collection[VgpuRequest]) -> tuple[int, int, int, int]:
    return (
        sum(each.number for each in requests),
        max((each.memory for each in requests), default=0),
        max((each.percentage for each in requests), default=0),
        max((each.cores for each in requests), default=0),
    )


def _edited_gangs(gangs: dict[int, GangSpec], state: ClusterState) -> set[int]:
    """Return the gangs whose job in the cluster was created from another text: its pods do not show the requests of new
    ones."""
    index: dict[JobIdentity, int] = {gang_identity(gang): j for j, gang in gangs.items()}
    edited = set[int]()
    for item in chain(state.jobs, state.pod_groups, state.pods if any(key[2] == "Pod" for key in index) else ()):
        digest = annotations_of(item).get(DIGEST_ANNOTATION, "").partition("#")[0]
        j = index.get(object_identity(item)) if digest else None
        if j is not None and digest != run_digest(gangs[j].document.data):
            edited.add(j)
    return edited
