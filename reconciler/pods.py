"""Phase 5 of a pass, pods: evict what the plan takes away, lift gates, evict what cannot be bound."""

from __future__ import annotations

import logging

from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, uid_of
from reconciler.act import mark_started
from reconciler.cluster.objects import ref_of
from reconciler.context import Pass, Reconciler
from reconciler.gates import NodeIndex, gate_lifts, pods_to_evict, scheduler_message, unbound_pods
from reconciler.publish.status import ObjectEvent
from reconciler.runs import planned_run
from reconciler.snapshot import PlannedGang, Snapshot

log = logging.getLogger(__name__)

SUSPECT_SECONDS = 300.0
"""Seconds for which a node where pods could not be bound takes nothing new."""


def act_on_pods(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Evict, lift gates, and evict what cannot be bound, in this order."""
    evict_victims(r, p, snapshot, nodes)
    lift_gates(r, p, snapshot, nodes)
    evict_unbound_pods(r, p, snapshot, nodes)


def evict_victims(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Evict what the plan takes away, as long as the preemptors and their nodes are still as planned.

    Gates hold these pods back when they return, and when they are gone the cluster is planned again.
    """
    starting = set()
    for key, gang in snapshot.gangs.items():
        if gang.decision == "start" and _is_as_planned(r, p, key, gang):
            starting.add(gang.name)
    for key, gang in snapshot.gangs.items():
        if not gang.evicted_for or not starting.issuperset(gang.evicted_for) or not _is_as_planned(r, p, key, gang):
            continue
        for pod in pods_to_evict(gang, p.pods.get(key, ()), nodes):
            message = f"evicted to make room for {', '.join(gang.evicted_for)}"
            _evict_pod(r, p, ObjectEvent(pod, "Preempted", message, True))


def _evict_pod(r: Reconciler, p: Pass, event: ObjectEvent) -> bool:
    """Evict the pod of the event; whether that was granted."""
    if refusal := r.writer.evict_pod(event.object):
        p.problems.append(refusal)
        return False
    p.evicted_pods.append(str(ref_of(event.object)))
    p.events.append(event)
    return True


def _is_as_planned(r: Reconciler, p: Pass, key: str, gang: PlannedGang) -> bool:
    """Whether the job's run is the planned one, and its nodes are as the plan took them to be."""
    assert p.current_fingerprint is not None  # noqa: S101
    assert r.planning.base_fingerprint is not None  # noqa: S101
    job = p.observation.objects.get(key)
    if job is None or annotations_of(job).get(DIGEST_ANNOTATION) != planned_run(r, key):
        return False
    now, base = p.current_fingerprint.nodes, r.planning.base_fingerprint.nodes
    return all(now.get(node) == base.get(node) for _, node in gang.pods_by_place())


def lift_gates(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Lift the gates of each gang whose nodes are as the plan took them to be, and whose run is the planned one.

    A gang that others make room for starts with the plan that is made once they are gone.
    """
    preemptors = set().union(*(gang.evicted_for for gang in snapshot.gangs.values()))
    for key, gang in snapshot.gangs.items():
        if gang.decision not in ("start", "keep") or gang.name in preemptors or not _is_as_planned(r, p, key, gang):
            continue
        pods = [r.writer.newest_object(ref_of(pod).key, pod) or pod for pod in p.pods.get(key, ())]
        if not (lifts := gate_lifts(gang, pods, nodes)):
            continue
        mark_started(p.inventory, gang.job)
        r.store.write(p.inventory)
        p.lifted_gates[key], trouble = r.writer.lift_gang_gates(lifts)
        if trouble:
            log.info("a gate was not lifted", extra={"gang": str(gang.job), "reason": trouble})
        places = ", ".join(sorted({lift.node for lift in lifts}))
        message = f"{p.lifted_gates[key]} pods were given their nodes: {places}"
        p.events.append(ObjectEvent(p.observation.objects[key], "Placed", message, False))


def evict_unbound_pods(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Evict pods that the scheduler does not bind to their node in time; the node takes nothing new for a while."""
    now = r.clock()
    unbound_since: dict[str, float] = {}
    for key in snapshot.gangs.keys() & p.pods.keys():
        for pod in unbound_pods(p.pods[key], nodes):
            since = unbound_since[uid_of(pod)] = r.unbound_since.get(uid_of(pod), now)
            if now - since < r.settings.bind_timeout:
                continue
            node = nodes.node_of(pod) or ""
            cause = scheduler_message(pod) or "the scheduler said nothing"
            message = f"not bound to {node} within {r.settings.bind_timeout:g} s, so it is planned again: {cause}"
            if _evict_pod(r, p, ObjectEvent(pod, "NotBound", message, True)):
                r.suspect_nodes[node] = now + SUSPECT_SECONDS
    r.unbound_since = unbound_since
