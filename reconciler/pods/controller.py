"""Phase 5 of a pass, pods: leave lost nodes, evict what the plan takes away, lift gates, evict what cannot be bound."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compiler.cluster_state.pods import leaving_until
from compiler.kubernetes import DIGEST_ANNOTATION, annotations_of, bound_node, is_gated, is_terminating, name_of, uid_of
from reconciler.changes.diff import Change
from reconciler.changes.pods import Eviction, GateLift
from reconciler.cluster.client import ApiError
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.context import Pass, Reconciler, is_plan_fresh, planned_runs
from reconciler.objects.threads import NO_ANSWER
from reconciler.objects.writer import BATCH
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.observe import Observation, Restrictions
from reconciler.observation.owners import pods_by_job
from reconciler.observation.pods import has_ended
from reconciler.planning.snapshot import PlannedGang, Snapshot
from reconciler.pods.binding import MAX_ROUNDS, GangTrouble, UnboundPod
from reconciler.pods.gates import gate_lifts, has_strayed, pods_to_evict
from reconciler.pods.results import note_eviction, note_gates
from reconciler.pods.room import Room
from reconciler.pods.writes import evict_pod, lift_pod_gates

log = logging.getLogger(__name__)

BATCH_BESIDE_JOBS, SECONDS_BESIDE_JOBS = 96, 1.0
"""While jobs wait to be made: gates between two looks at the clock, and seconds after which a pass leaves the other
gates to the next one."""
MAX_NAMES = 3
"""Nodes that a reason names."""
EVICTION_BATCH = 32
"""Evictions of one pass at most; then the cluster is looked at again, since their reason may be gone."""


# --- observe


def observe_pods(r: Reconciler, observation: Observation) -> Observation:
    """Take up what nodes and pods have done, and put what follows from it for the plan into the observation.

    A kind that could not be read leaves the memory as it is.
    """
    now = r.clock()
    if observation.readable_kinds >= {"Node", "Pod"}:
        nodes, pods = observation.node_index({}), observation.objects_of_kind("Pod")
        r.node_health.observe(nodes, pods, now)
        r.binding.observe(pods, nodes, now)
        r.evictions.observe(pods, now)
    jobs = [gang.job for gang in r.planning.snapshot.gangs.values()] if r.planning.snapshot else []
    held = {
        **r.runs.lost_jobs.refused_jobs,
        **r.binding.held_jobs(now),
        **dict(_unserved_jobs(observation, jobs)),
        **r.requests.suspended_jobs(jobs),
    }
    quarantined = frozenset(r.node_health.quarantined_nodes(now)) | _unnamed_nodes(r, observation)
    closed, leaving = r.binding.closed_nodes(now), _leaving_pods(r, observation)
    crowded = r.start_refusals.still_planned(r.planning.snapshot)
    return observation.with_restrictions(Restrictions(quarantined, held, closed, leaving, crowded))


def _unnamed_nodes(r: Reconciler, observation: Observation) -> frozenset[str]:
    """The nodes that no selector can name, where gates are lifted by one: a gang planned there would never start."""
    if r.planning.snapshot is None or not r.planning.snapshot.gated:
        return frozenset()
    nodes = observation.node_index({})
    are_all_named = len(nodes.names) == len(nodes.hostname_of)
    return frozenset() if are_all_named else nodes.names.difference(nodes.hostname_of)


def _leaving_pods(r: Reconciler, observation: Observation) -> dict[str, int]:
    """uid of each evicted pod of a planned gang -> until when plans count on its room. Pods of others, evicted for
    whatever reason, hold theirs until they are gone, in plans as well."""
    now, wall_now, gangs = r.clock(), r.wall_clock(), r.planning.snapshot.gangs if r.planning.snapshot else {}
    evicted = (pod for pod in observation.objects_of_kind("Pod") if leaving_until(pod) is not None)
    ends = ((pod, int(wall_now + r.evictions.leaves_at(pod, now) - now)) for pod in evicted)
    # Whole seconds, as the compile has them.
    leaving = {uid_of(pod): (pod, until) for pod, until in ends if int(wall_now) <= until}
    jobs = {key: observation.objects[key] for key in gangs if key in observation.objects} if leaving else {}
    ours, _ = pods_by_job([pod for pod, _ in leaving.values()], jobs)
    return {uid_of(pod): leaving[uid_of(pod)][1] for pods in ours.values() for pod in pods}


def _unserved_jobs(observation: Observation, jobs: Iterable[Ref]) -> Iterator[tuple[str, str]]:
    """Ref.key of each job whose kind the cluster does not serve, with why it is not planned: it keeps no room."""
    for job in jobs:
        if job.group_kind in observation.unserved_kinds:
            yield job.key, observation.obstacles[job.group_kind]


# --- act


def act_on_pods(r: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """Evict, lift gates, and evict what cannot be bound, in this order; nothing while nodes or pods cannot be read."""
    if not p.observation.readable_kinds >= {"Node", "Pod"}:
        return
    nodes = p.observation.node_index(snapshot.leaves)
    leave_lost_nodes(r, p, snapshot)
    if snapshot.commit == p.target_commit:
        evict_victims(r, p, snapshot, nodes)
    lift_gates(r, p, snapshot, nodes)
    evict_unbound_pods(r, p, snapshot, nodes)
    evict_broken_gangs(r, p, snapshot, nodes)


def _keys_in_reach(p: Pass, snapshot: Snapshot) -> set[str]:
    """Gangs that are not suspended and whose jobs are known for certain."""
    readable = p.observation.readable_kinds
    return {key for key, gang in snapshot.gangs.items() if gang.job.group_kind in readable} - p.suspended_keys


def leave_lost_nodes(r: Reconciler, p: Pass, snapshot: Snapshot) -> None:
    """Evict the pods of our gangs from nodes that have been lost for too long; they come back gated and are planned
    again."""
    left = r.node_health.nodes_to_leave(r.settings.node_timeout, r.clock())
    for key in _keys_in_reach(p, snapshot) if left else ():
        for pod in p.pods.get(key, ()):
            if (node := bound_node(pod)) in left and not has_ended(pod):
                message = f"node {node} is lost for {r.settings.node_timeout:g} s, so it is planned again"
                _evict_pod(r, p, Eviction(pod, "NodeLost", message, breaks=uid_of(p.observation.objects[key])))


def evict_victims(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Evict what the plan takes away, as long as the preemptors and their nodes are still as planned.

    Gates hold these pods back when they return, and when they are gone the cluster is planned again.
    """
    if not any(gang.evicted_for for gang in snapshot.gangs.values()):
        return
    starting = set()
    for key, gang in snapshot.gangs.items():
        if gang.decision == "start" and _start_obstacle(r, p, key, gang) is None:
            starting.add(gang.name)
    for key, gang in snapshot.gangs.items():
        if not gang.evicted_for or not starting.issuperset(gang.evicted_for):
            continue
        if _start_obstacle(r, p, key, gang) is not None:
            continue
        for pod in pods_to_evict(gang, p.pods.get(key, ()), nodes):
            message = f"evicted to make room for {', '.join(gang.evicted_for)}"
            _evict_pod(r, p, Eviction(pod, "Preempted", message))


def _evict_pod(r: Reconciler, p: Pass, eviction: Eviction) -> None:
    """Evict a pod. A refusal is remembered, told, and tried again later; that there is no answer yet is told too."""
    ref = ref_of(eviction.pod)
    if str(ref) in p.evicted_pods:
        return
    if len(p.evicted_pods) >= EVICTION_BATCH or r.writer.is_out_of_time():
        r.wake_event.set()
    elif r.evictions.is_due(eviction.pod, r.clock()) and not r.writer.must_wait(ref):
        note_eviction(r, p, evict_pod(r.writer, eviction))
    obstacle = _eviction_obstacle(r, eviction)
    if obstacle and str(ref) not in p.evicted_pods:
        p.add_change(Change("held", ref, reason=obstacle))


def _eviction_obstacle(r: Reconciler, eviction: Eviction) -> str:
    """Why a pod that is to go is not evicted; empty where nothing is known against it."""
    if r.evictions.is_due(eviction.pod, r.clock()) and r.writer.must_wait(ref_of(eviction.pod)):
        return f"it is to be evicted ({eviction.message}): {NO_ANSWER}"
    if known := r.evictions.refused.get(uid_of(eviction.pod)):
        return f"its eviction was refused {known[0]} times ({eviction.message}): {known[2]}"
    return ""


def _start_obstacle(r: Reconciler, p: Pass, key: str, gang: PlannedGang) -> str | None:
    """Why no gate of the gang is lifted by this plan, None where nothing is in the way; empty where that is reported
    elsewhere: the job is gone, suspended, held, cannot be read, or is of another run."""
    job, restrictions = p.observation.objects.get(key), p.observation.restrictions
    if job is None or key in p.suspended_keys or gang.job.group_kind not in p.observation.readable_kinds:
        return ""
    if annotations_of(job).get(DIGEST_ANNOTATION, "") != planned_runs(r, key).of(key) or key in restrictions.held_jobs:
        return ""
    places = {node for _, node in gang.pods_by_place()}
    if closed := sorted(places & restrictions.closed_nodes.get(key, frozenset())):
        r.start_refusals.record(key, gang)
        return f"planned on {_names(closed)}, where its pods were not bound before; it is planned again"
    now = p.current_fingerprint.nodes if p.current_fingerprint else {}
    base = r.planning.base_fingerprint.nodes if r.planning.base_fingerprint else {}
    if changed := sorted(node for node in places if now.get(node) != base.get(node)):
        return f"{_names(changed)} changed since it was planned there; it is planned again"
    return None


def _names(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MAX_NAMES} more" if len(nodes) > MAX_NAMES else ""
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(nodes[:MAX_NAMES])}{more}"


def lift_gates(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Lift the gates of each gang whose nodes are as the plan took them to be, and whose run is the planned one, where
    the nodes have room for them by the ledger. Lifts whose answer was lost are asked for again first: they count
    already.

    A gang that others make room for starts with the plan that is made once they are evicted, and when they are gone.
    One that an older plan has begun to start elsewhere goes on with a plan that knows that.
    """
    room, began_at = _room(r, p, nodes), r.clock()
    preemptors = set().union(*(gang.evicted_for for gang in snapshot.gangs.values()))
    batch = _lost_lifts(r, p, snapshot, began_at)
    for key, gang in snapshot.gangs.items():
        if gang.decision not in ("start", "keep") or gang.name in preemptors or key in batch:
            continue
        if not any(map(is_gated, p.pods.get(key, ()))):
            r.start_refusals.drop(key)
            continue
        if key not in p.unlifted_gates and (lifts := _next_lifts(r, p, key, gang, nodes, room, began_at)):
            batch[key] = lifts
        if sum(map(len, batch.values())) >= (BATCH_BESIDE_JOBS if r.pace.is_holding else BATCH):
            _lift_batch(r, p, batch)
            batch = {}
            if r.pace.is_holding and r.clock() - began_at >= SECONDS_BESIDE_JOBS:
                r.wake_event.set()
                break
    _lift_batch(r, p, batch)
    r.writer.memory.record_unlifted_gates(p.unlifted_gates, p.unanswered_gates, r.clock())


def _next_lifts(
    r: Reconciler, p: Pass, key: str, gang: PlannedGang, nodes: NodeIndex, room: Room, now: float
) -> tuple[GateLift, ...]:
    """The gates of the gang to lift now. Why there are none is noted: where the plan itself is in the way, the next one
    knows."""
    pods = p.pods[key]
    obstacle = _start_obstacle(r, p, key, gang)
    if obstacle is None and not is_plan_fresh(r, p) and has_strayed(gang, pods, nodes):
        obstacle = "pods of it have nodes that the plan does not give them; it is planned again"
    if obstacle is None and any(r.writer.must_wait(ref_of(pod)) for pod in pods):
        obstacle = NO_ANSWER
    if obstacle is not None:
        if obstacle:
            p.record_unanswered(key, obstacle)
        return ()
    if not r.writer.memory.may_lift_gates(key, now):
        return ()
    lifts = gate_lifts(gang, pods, nodes)
    if shortage := room.take(lifts):
        if not shortage.is_passing:
            r.start_refusals.record(key, gang)
            p.record_unanswered(key, shortage.message)
        return ()
    r.start_refusals.drop(key)
    return lifts


def _room(r: Reconciler, p: Pass, nodes: NodeIndex) -> Room:
    """What the nodes have free by the observation, in which our own writes are."""
    leaving, pods = p.observation.restrictions.leaving_pods, p.observation.objects_of_kind("Pod")
    shared = {nodes.node_of(pod) or "" for pod in pods if uid_of(pod) in leaving} if leaving else set()
    by_name = {name_of(node): node for node in p.observation.objects_of_kind("Node")}
    return Room(by_name, pods, nodes, r.pod_requests, shared)


def _lost_lifts(r: Reconciler, p: Pass, snapshot: Snapshot, now: float) -> dict[str, tuple[GateLift, ...]]:
    """Ref.key of a gang -> its lifts whose answer was lost, to be asked for again as they were. That no answer has come
    is noted."""
    open_lifts = r.writer.own.open_lifts()
    found: dict[str, tuple[GateLift, ...]] = {}
    for key in snapshot.gangs.keys() & p.pods.keys() if open_lifts else ():
        writes = [open_lifts[uid_of(pod)] for pod in p.pods[key] if uid_of(pod) in open_lifts]
        if not writes or key in p.unlifted_gates:
            continue
        lost = tuple(write.lift for write in writes if write.lift is not None and write.is_lost)
        if lost and r.writer.memory.may_lift_gates(key, now) and key not in p.suspended_keys:
            found[key] = lost
        else:
            p.record_unanswered(key, NO_ANSWER)
    return dict(sorted(found.items()))


def _lift_batch(r: Reconciler, p: Pass, batch: Mapping[str, Sequence[GateLift]]) -> None:
    """Lift the gates of these gangs, several at a time. That a gang has started is stored before; while that fails,
    only gangs go on that had started."""
    newly_started = {key for key in batch if p.inventory.mark_started(key)}
    if trouble := r.writer.save_inventory(p.inventory) if batch else "":
        for key in newly_started:
            p.inventory.unmark_started(key)
        p.record_results([r.writer.record_failed_save(trouble)])
        batch = {key: lifts for key, lifts in batch.items() if key not in newly_started}
    for key in newly_started & batch.keys():
        r.writer.memory.doubt_start(key, (ref_of(lift.pod) for lift in batch[key]))
    began_at = r.clock()
    results = lift_pod_gates(r.writer, batch)
    if results:
        log.info("lifting gates", extra={"pods": len(results), "seconds": round(r.clock() - began_at, 3)})
    note_gates(r, p, results)


def evict_unbound_pods(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Evict pods that the scheduler does not bind to their node in time: each gang has so many rounds, then it is held
    and gives back every node that it was given."""
    now, timeout = r.clock(), r.settings.bind_timeout
    r.binding.forget(r.binding.troubles.keys() - p.pods.keys())
    if not r.binding.troubles and not r.binding.is_any_overdue(now, timeout):
        return
    for key in _keys_in_reach(p, snapshot) & p.pods.keys():
        pods, run = p.pods[key], (planned_runs(r, key).of(key), r.requests.current().retries.get(key, 0))
        if key in r.binding.troubles and _is_over(r, p, r.binding.troubles[key], run, pods):
            r.binding.forget([key])
        trouble = r.binding.troubles.get(key)
        if (trouble is None or not trouble.is_held(now)) and (
            overdue := r.binding.overdue_pods(pods, nodes, now, timeout)
        ):
            trouble = _fail_round(r, p, key, run, overdue)
        if trouble is not None and trouble.is_held(now):
            for pod in r.binding.waiting_pods(pods):
                _evict_unbound(r, p, key, pod, f"{nodes.node_of(pod)}, so its gang is held: {trouble.message}")


def _fail_round(r: Reconciler, p: Pass, key: str, run: tuple[str, int], overdue: list[UnboundPod]) -> GangTrouble:
    """One round of a gang has failed: nodes or the gang itself are closed for a while, the pods to blame evicted."""
    trouble = r.binding.trouble_of(key, run)
    trouble.record_round([each.node for each in overdue if each.blames_node], r.clock(), r.settings.bind_timeout)
    trouble.blame(overdue[0].message, p.current_fingerprint.nodes if p.current_fingerprint else {})
    for each in overdue:
        _evict_unbound(r, p, key, each.pod, f"{each.node}, so it is planned again: {each.message}")
    for pod in r.binding.waiting_pods(p.pods[key]):  # it cannot run without the others, and would keep these nodes
        message = f"its gang is planned again: {name_of(overdue[0].pod)} was not bound: {overdue[0].message}"
        _evict_pod(r, p, Eviction(pod, "NotBound", message, breaks=uid_of(p.observation.objects[key])))
    if trouble.rounds >= MAX_ROUNDS:
        p.tell(p.observation.objects[key], "BindingHeld", trouble.reason, True)
    return trouble


def _evict_unbound(r: Reconciler, p: Pass, key: str, pod: Object, what: str) -> None:
    message = f"not bound within {r.settings.bind_timeout:g} s to {what}"
    _evict_pod(r, p, Eviction(pod, "NotBound", message, breaks=uid_of(p.observation.objects[key])))


def _is_over(r: Reconciler, p: Pass, trouble: GangTrouble, run: tuple[str, int], pods: Iterable[Object]) -> bool:
    """Whether a gang's trouble is forgotten: another run, all of its pods bound. A changed cause ends only its hold."""
    alive = [pod for pod in pods if not has_ended(pod)]
    if trouble.run != run or (alive and all(bound_node(pod) for pod in alive)):
        return True
    now = r.clock()
    if trouble.is_held(now) and now >= trouble.may_retry_at and _has_cause_changed(r, p, trouble, alive):
        trouble.end_hold(now)
    return False


def _has_cause_changed(r: Reconciler, p: Pass, trouble: GangTrouble, pods: list[Object]) -> bool:
    """Whether a missing claim is there now, or a node that was to blame has changed."""
    if trouble.missing_claim and pods:
        claim = Ref("v1", "PersistentVolumeClaim", ref_of(pods[0]).namespace, trouble.missing_claim)
        trouble.look_again_at(r.clock() + r.settings.bind_timeout / 4)
        try:
            r.client.get_briefly(claim)
        except ApiError:
            return False
        return True
    prints = p.current_fingerprint.nodes if p.current_fingerprint else {}
    return any(prints.get(node) != before for node, before in trouble.cause.items())


def evict_broken_gangs(r: Reconciler, p: Pass, snapshot: Snapshot, nodes: NodeIndex) -> None:
    """Evict what is left of a gang that lost pods with a node and that the newest plan cannot complete where it runs:
    then the whole gang is planned again, and holds nothing meanwhile."""
    if not r.broken_gangs and not r.node_health.lost_since and not nodes.unready and not nodes.taints_of:
        return
    for key in _keys_in_reach(p, snapshot) & p.pods.keys():
        gang, uid = snapshot.gangs[key], uid_of(p.observation.objects[key])
        alive = [pod for pod in p.pods[key] if not has_ended(pod)]
        if any(_is_on_bad_node(r, nodes, pod) for pod in alive):
            r.mark_broken(uid)
        elif gang.decision != "wait" and _bound_count(alive) >= sum(gang.pods_by_place().values()):
            r.mark_complete(uid)
        if uid in r.broken_gangs and is_plan_fresh(r, p) and _is_stuck(p, key, gang, nodes):
            for pod in alive:
                if not is_gated(pod):
                    message = "its gang cannot be completed beside it, so the whole gang is planned again"
                    _evict_pod(r, p, Eviction(pod, "GangIncomplete", message))
    r.keep_broken({uid_of(p.observation.objects[key]) for key in p.pods})


def _bound_count(pods: Iterable[Object]) -> int:
    return sum(bool(bound_node(pod)) for pod in pods)


def _is_on_bad_node(r: Reconciler, nodes: NodeIndex, pod: Object) -> bool:
    node = bound_node(pod)
    return bool(node) and (node in r.node_health.lost_since or not nodes.accepts(node, pod))


def _is_stuck(p: Pass, key: str, gang: PlannedGang, nodes: NodeIndex) -> bool:
    """Whether the gang misses pods, is to wait for room, and none of its own is on its way out of a good node."""
    pods = p.pods[key]
    terminating = (pod for pod in pods if is_terminating(pod))
    is_ending = any(nodes.accepts(bound_node(pod), pod) for pod in terminating)
    misses = any(is_gated(pod) for pod in pods)
    return misses and not is_ending and gang.decision == "wait" and key not in p.observation.restrictions.held_jobs
