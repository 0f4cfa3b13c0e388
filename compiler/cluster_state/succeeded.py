"""Jobs with some succeeded pods, which need no room any more, and services with more pods than declared.

The job does not wait for succeeded pods: Volcano counts such a pod towards minAvailable (JobInfo.ReadyTaskNum), and the
controllers of these kinds do not recreate it: a job of four workers of which one is done is whole with three.

Surplus pods of a service, of a rolling update or an autoscaler, are planned like the others, as there is room; without
that, an update that first creates a new pod would wait for ever. Once they are deleted, the service is as declared
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.pod_records import JobIdentity, gang_identity, pods_of_roles, read_succeeded_pods
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, RoleSpec

_KINDS = """
    Job.batch.volcano.sh PodGroup.scheduling.volcano.sh Pod JobSet.jobset.x-k8s.io TrainJob.trainer.kubeflow.org
    PyTorchJob.kubeflow.org TFJob.kubeflow.org MPIJob.kubeflow.org XGBoostJob.kubeflow.org PaddleJob.kubeflow.org
    JAXJob.kubeflow.org MXJob.kubeflow.org ElasticJob.elastic.iml.github.io AscendJob.mindxdl.gitee.com
"""
ENDED_FOR_GOOD_KINDS = frozenset(_KINDS.split())
"""Kind.group of jobs of which a pod that has ended well stays ended, but for `RoleSpec.later_pods`."""
_SHRINKING_KINDS = ENDED_FOR_GOOD_KINDS | {"Job.batch"}


def without_succeeded_pods(specs: Specs, state: ClusterState) -> Specs:
    """Return the specs, where a job asks only for the pods that have not ended well."""
    index = {gang_identity(gang): j for j, gang in enumerate(specs.gangs) if _may_shrink(gang)}
    records = read_succeeded_pods(state.pods, state.pod_groups) if index else ()
    succeeded = dict[tuple[int, int], Counter[JobIdentity]]()
    for record, j, t in pods_of_roles(records, specs.gangs, index):
        succeeded.setdefault((j, t), Counter())[record.owners[0]] += 1
    if not succeeded:
        return specs
    gone = {(j, t): _pods_gone(specs.gangs[j].roles[t], by_owner) for (j, t), by_owner in succeeded.items()}
    shrunk = (
        _without(gang, [gone.get((j, t), 0) for t in range(len(gang.roles))]) for j, gang in enumerate(specs.gangs)
    )
    return replace(specs, gangs=tuple(shrunk))


def _pods_gone(role: RoleSpec, succeeded: Mapping[JobIdentity, int]) -> int:
    """Return how many pods fewer the role has. succeeded: by their controllers; a Job of Kubernetes first runs others
    in place of those that are done."""
    return min(role.replicas, sum(max(number - role.later_pods, 0) for number in succeeded.values()))


def _may_shrink(gang: GangSpec) -> bool:
    """Return whether fewer pods are the same job: subgroups are of a fixed size."""
    return f"{gang.document.kind}.{gang.document.group}".removesuffix(".") in _SHRINKING_KINDS and not gang.subgroups


def _without(gang: GangSpec, gone: Sequence[int]) -> GangSpec:
    """Return the gang without so many pods of each role; itself if all are done, since its own status will show it
    next."""
    if not any(gone) or sum(gone) == sum(role.replicas for role in gang.roles):
        return gang
    roles = tuple(
        replace(role, replicas=role.replicas - number, minimum=max(role.minimum - number, 0))
        for role, number in zip(gang.roles, gone, strict=True)
    )
    names = (role.name for role in gang.roles)
    counted = {name: number for name, number in zip(names, gone, strict=True) if number}
    return replace(gang, roles=roles, minimum=max(gang.minimum - sum(gone), 0), succeeded_pods=counted)


def with_present_pods(specs: Specs, state: ClusterState) -> Specs:
    """Return the specs, where a service has at least the pods that its controller has made."""
    gangs = specs.gangs
    index = {gang_identity(gang): j for j, gang in enumerate(gangs) if gang.controller.written_pods}
    if not index:
        return specs
    records = (record for record in state.pod_records if not record.is_terminating)
    present = Counter((j, t) for _, j, t in pods_of_roles(records, gangs, index))
    return replace(specs, gangs=tuple(_with_pods(gang, j, present) for j, gang in enumerate(gangs)))


def _with_pods(gang: GangSpec, j: int, present: Counter[tuple[int, int]]) -> GangSpec:
    if not any(present[j, t] > role.replicas for t, role in enumerate(gang.roles)):
        return gang
    roles = (replace(role, replicas=max(role.replicas, present[j, t])) for t, role in enumerate(gang.roles))
    return replace(gang, roles=tuple(roles))
