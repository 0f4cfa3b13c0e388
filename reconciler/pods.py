"""Phase 5 of a pass, pods: evict what the plan takes away, lift gates, evict what cannot be bound."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, uid_of
from reconciler.act import BATCH, mark_started
from reconciler.cluster.objects import ref_of
from reconciler.context import Pass, Reconciler
from reconciler.gates import GateLift, NodeIndex, gate_lifts, pods_to_evict, scheduler_message, unbound_pods
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
    batch: dict[str, tuple[GateLift, ...]] = {}
    for key, gang in snapshot.gangs.items():
        if gang.decision not in ("start", "keep") or gang.name in preemptors or not _is_as_planned(r, p, key, gang):
            continue
        pods = [r.writer.newest_object(ref_of(pod).key, pod) or pod for pod in p.pods.get(key, ())]
        if lifts := gate_lifts(gang, pods, nodes):
            batch[key] = lifts
        if sum(map(len, batch.values())) >= BATCH:
            _lift_batch(r, p, batch)
            batch = {}
    _lift_batch(r, p, batch)


def _lift_batch(r: Reconciler, p: Pass, batch: Mapping[str, Sequence[GateLift]]) -> None:
    """Lift the gates of these gangs, several at a time. That a gang has started is stored before; while that fails,
    only gangs go on that had started."""
    newly_started = {key for key in batch if mark_started(p.inventory, key)}
    if trouble := r.writer.save_inventory(p.inventory) if batch else "":
        for key in newly_started:
            p.inventory.entries[key] = replace(p.inventory.entries[key], started=False)
        p.results.append(r.writer.record_failed_save(trouble))
        batch = {key: lifts for key, lifts in batch.items() if key not in newly_started}
    all_lifts = [lift for lifts in batch.values() for lift in lifts]
    answers = iter(r.writer.lift_gates(all_lifts))
    for key, lifts in batch.items():
        troubles = [trouble for trouble in islice(answers, len(lifts)) if trouble]
        p.lifted_gates[key] = len(lifts) - len(troubles)
        if troubles:
            log.info("a gate was not lifted", extra={"gang": key, "reason": troubles[0]})
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
