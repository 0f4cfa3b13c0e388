"""Services with more pods than declared: a rolling update or an autoscaler has created them.

They are planned like the others, as there is room; without that, an update that first creates a new pod would wait for
ever. Once they are deleted, the service is as declared again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.owners import gang_identity
from compiler.cluster_state.pod_records import pods_of_roles
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec


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
