"""Exclusive CPUs of pods, compared with the idle CPUs that a node's Numatopology reports.

Volcano's resource exporter looks at a node from time to time, so its report may be older than the pods there.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.cluster_state.pods import live_pod_spec, pod_model
from compiler.kubernetes import Object, name_of, status_of
from compiler.specs.node_spec import NodeSpec


def unexplained_idle_cpu(node: NodeSpec, pods: Sequence[Object]) -> int:
    """Millicores reported idle beyond what the node's pods leave; below 0 where CPUs are reported taken that no pod has
    any more; 0 without a report."""
    if node.numa is None or node.numa.free_slots is None or not node.numa.static_cpus:
        return 0
    idle, total = (sum(slot.get("cpu", 0) for slot in slots) for slots in (node.numa.free_slots, node.numa.slots))
    return idle - max(0, total - sum(map(exclusive_millicores, pods)))


def unreported_pods(node: NodeSpec, pods: Sequence[Object]) -> list[Object]:
    """Pods that the report does not know: the youngest with exclusive CPUs, as many as account for the unexplained idle
    CPU; those not yet bound first."""
    unexplained, found = unexplained_idle_cpu(node, pods), []
    for pod in sorted(pods, key=_age_key, reverse=True):
        if unexplained <= 0:
            break
        if own := exclusive_millicores(pod):
            found.append(pod)
            unexplained -= own
    return found


def _age_key(pod: Object) -> tuple[bool, str, str]:
    started = status_of(pod).get("startTime")
    return started is None, started or "", name_of(pod)


def exclusive_millicores(pod: Object) -> int:
    """Millicores that the kubelet's static CPU manager gives the pod for itself: of a Guaranteed pod, what its
    containers request in whole CPUs."""
    if not live_pod_spec(pod).guaranteed_qos:
        return 0
    requested = (container.effective_requests["cpu"] for container in pod_model(pod).containers)
    return sum(int(cpu) * 1000 for cpu in requested if cpu.denominator == 1)
