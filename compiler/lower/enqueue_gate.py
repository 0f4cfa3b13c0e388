"""The gate of Volcano's plugin fairshare: jobs that the action enqueue keeps out.

Volcano asks in each session. A plan asks once: with the pods running when it begins, as the session in which it is put
into force does. Source: JobEnqueueableFn of fairshare.go of Volcano 1.16's branch, with the later test of jobs without
pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.observed import ObservedState
from compiler.cluster_state.owners import gang_identity, group_identities
from compiler.fields.amounts import rounded_amount
from compiler.fields.quantity import amounts_sum
from compiler.kubernetes import status_of
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec
from compiler.volcano.fairshare import FairShare, shares_reached

Amounts = dict[tuple[str, str], Counter[str]]
"""(queue, namespace) -> resource -> amount."""


def gated_gangs(
    plugin: FairShare,
    specs: Specs,
    state: ClusterState,
    observed: ObservedState,
    running: Amounts,
    candidates: Collection[int],
) -> Mapping[int, str]:
    """Gang -> why the gate keeps it out, of those without pods on nodes that no session has admitted yet.

    running: of each queue and namespace. candidates: the gangs that are planned.
    """
    if not plugin.gates:
        return {}
    asked = _asked(specs.gangs, observed, candidates)
    reached = shares_reached(plugin, asked, running, _totals(specs, observed, plugin, asked))
    admitted = _admitted(specs.gangs, state)
    found = {}
    for j in candidates:
        gang = specs.gangs[j]
        share = reached.get((gang.queue, gang.namespace))
        if share is None or j in admitted or observed.running_pod_count(j):
            continue
        if not any(role.pod.requests.get(share.resource) for role in gang.roles if role.replicas):
            continue
        held, most = (rounded_amount(share.resource, amount) for amount in (share.running, int(share.share)))
        found[j] = (
            f"the gate of fairshare keeps it out: namespace {gang.namespace} runs {held} {share.resource} "
            f"in queue {gang.queue}, and its share is {most}"
        )
    return found


def _asked(gangs: tuple[GangSpec, ...], observed: ObservedState, candidates: Iterable[int]) -> Amounts:
    """Return the requests of pods on no node: all of a job whose pods exist, else those of its minimum."""
    found: Amounts = {}
    for j in candidates:
        gang, running = gangs[j], Counter[int]()
        for (t, _), pods in observed.running_pods.get(j, {}).items():
            running[t] += pods
        amounts = found.setdefault((gang.queue, gang.namespace), Counter())
        for t, role in enumerate(gang.roles):
            pods = (role.replicas if j in observed.jobs.with_pods else role.minimum) - running[t]
            amounts.update({name: max(0, pods) * amount for name, amount in role.pod.requests.items()})
    return found


def _totals(specs: Specs, observed: ObservedState, plugin: FairShare, asked: Amounts) -> Mapping[str, int]:
    """Queue -> its capability of the resource that the plugin counts, where it has one above 0, else the cluster's."""
    limits = {queue.name: queue.capability for queue in specs.queues}
    whole: Mapping[str, int] = {}
    for node in observed.nodes:
        whole = amounts_sum(whole, node.allocatable)
    resources = {queue: plugin.resource_of(queue) for queue, _ in asked}
    return {queue: limits.get(queue, {}).get(name) or whole.get(name, 0) for queue, name in resources.items()}


def _admitted(gangs: tuple[GangSpec, ...], state: ClusterState) -> set[int]:
    """Return the gangs whose PodGroup is past the action enqueue."""
    index = {gang_identity(gang): j for j, gang in enumerate(gangs)}
    past = (group for group in state.pod_groups if status_of(group).get("phase") not in (None, "", "Pending"))
    owners = (owner for group in past for owner in group_identities(group))
    return {index[owner] for owner in owners if owner in index}
