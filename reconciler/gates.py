"""Gates: which gated pod gets which planned node, and when. Decisions on data, no IO.

A gang's pods come up gated. Once all pods that the plan places exist, each gets its node (a node selector on the
hostname) and loses its gate, in one patch per pod. A pod without our gate that has a node or such a selector counts at
that node, so that a reconciler killed between two patches goes on with exactly the rest, and a pod that comes back
after an eviction takes the place that became free.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reconciler.cluster.objects import (
    HOSTNAME_LABEL,
    PLACEMENT_GATE,
    Object,
    Ref,
    annotations_of,
    labels_of,
    ref_of,
    uid_of,
)

PARTITION_LABEL = "volcano.sh/partition-id"
ROLE_LABELS = ("volcano.sh/task-spec", "training.kubeflow.org/replica-type")
INDEX_LABELS = (
    "volcano.sh/task-index",
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
)
TASK_PRIORITY = "volcano.sh/task-priority"
"""Annotation of a pod: Volcano places the pods of a job in its order, the highest first (plugin priority)."""
ENDED_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class PlannedGang:
    """A job as planned. pods: role -> node name -> pods, roles in the job's order. later: roles whose pods appear only
    after other roles run.

    evicted_for: the jobs ("namespace/name") for which the plan takes running pods away: what stands beyond `pods` has
    to go. cards: role -> node -> the numbers of the cards on which its new pods fit, the highest first.
    """

    job: Ref
    decision: str
    pods: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    dependent_roles: frozenset[str] = frozenset()
    evicted_for: tuple[str, ...] = ()
    device_numbers: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """host: node name -> its hostname label. node: the way back. leaf: node name -> the hypernode that holds it."""

    hostname_of: Mapping[str, str]
    node_of_hostname: Mapping[str, str]
    leaf_of: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GateLift:
    """Give `pod` the node and take the gate away. turn: Volcano is to place the pods of the gang with a higher one
    before it (`_in_turn`)."""

    pod: Object
    node: str
    hostname: str
    task_priority: int | None = None

    def json_patch(self) -> list[dict[str, Any]]:
        """One JSON patch, refused by the server unless it is still this pod with exactly these gates and selectors."""
        spec = self.pod["spec"]
        gates = spec["schedulingGates"]
        selector = spec.get("nodeSelector")
        rest = [gate for gate in gates if gate.get("name") != PLACEMENT_GATE]
        choose: list[dict[str, Any]] = [
            {"op": "add", "path": "/spec/nodeSelector", "value": {HOSTNAME_LABEL: self.hostname}}
        ]
        if selector:
            choose = [
                {"op": "test", "path": "/spec/nodeSelector", "value": selector},
                {
                    "op": "add",
                    "path": f"/spec/nodeSelector/{_escape_json_pointer(HOSTNAME_LABEL)}",
                    "value": self.hostname,
                },
            ]
        free = (
            {"op": "replace", "path": "/spec/schedulingGates", "value": rest}
            if rest
            else {"op": "remove", "path": "/spec/schedulingGates"}
        )
        return [
            {"op": "test", "path": "/metadata/uid", "value": uid_of(self.pod)},
            {"op": "test", "path": "/spec/schedulingGates", "value": gates},
            *choose,
            *self._task_priority_patch(),
            free,
        ]

    def _task_priority_patch(self) -> list[dict[str, Any]]:
        if self.task_priority is None:
            return []
        said = {
            "op": "add",
            "path": f"/metadata/annotations/{_escape_json_pointer(TASK_PRIORITY)}",
            "value": str(self.task_priority),
        }
        return (
            [said]
            if annotations_of(self.pod)
            else [{"op": "add", "path": "/metadata/annotations", "value": {TASK_PRIORITY: str(self.task_priority)}}]
        )


def _escape_json_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def is_gated(pod: Object) -> bool:
    return any(gate.get("name") == PLACEMENT_GATE for gate in pod["spec"].get("schedulingGates") or ())


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED_PHASES or bool(pod["metadata"].get("deletionTimestamp"))


def assigned_node(pod: Object, nodes: NodeIndex) -> str | None:
    """The node of a pod that is bound, or that was given one and waits for the scheduler."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    if is_gated(pod):
        return None
    return nodes.node_of_hostname.get((pod["spec"].get("nodeSelector") or {}).get(HOSTNAME_LABEL, ""))


def role_of(pod: Object, roles: Sequence[str]) -> str | None:
    """By the job controller's label or annotation, case aside; the one role of a job that has only one."""
    for key in ROLE_LABELS:
        if said := labels_of(pod).get(key) or annotations_of(pod).get(key):
            return next((role for role in roles if role.lower() == said.lower()), None)
    return roles[0] if len(roles) == 1 else None


def index_of(pod: Object) -> tuple[int, str]:
    """The pod's number within its role, then its name."""
    for key in INDEX_LABELS:
        if (said := labels_of(pod).get(key) or annotations_of(pod).get(key) or "").isdigit():
            return int(said), pod["metadata"]["name"]
    number = re.search(r"(\d+)$", pod["metadata"]["name"])
    return int(number[1]) if number else 0, pod["metadata"]["name"]


def gate_lifts(gang: PlannedGang, pods: Sequence[Object], nodes: NodeIndex) -> tuple[GateLift, ...]:
    """All gates of the gang that can be lifted now: none before every pod that the plan places exists, then all of
    them.

    Never more pods on a node than planned, whatever was lifted before. Pods beyond the plan stay gated.
    """
    roles = tuple(gang.pods)
    by_role: dict[str, list[Object]] = {role: [] for role in roles}
    for pod in pods:
        if (role := role_of(pod, roles)) is not None:
            by_role[role].append(pod)
    order = _leaf_order_keys(gang, nodes)
    found: list[GateLift] = []
    for role, counts in gang.pods.items():
        alive = [pod for pod in by_role[role] if not has_ended(pod)]
        succeeded = sum((pod.get("status") or {}).get("phase") == "Succeeded" for pod in by_role[role])
        planned = sum(counts.values())
        if role not in gang.dependent_roles and len(alive) + succeeded < planned:
            return ()
        taken = Counter(node for pod in alive if (node := assigned_node(pod, nodes)) is not None)
        free = [
            node
            for node in sorted(counts, key=lambda n: (order[nodes.leaf_of.get(n, "")], _natural_key(n)))
            for _ in range(counts[node] - taken[node])
        ]
        room = planned - sum(taken.values()) - succeeded
        waiting = sorted((pod for pod in alive if is_gated(pod)), key=index_of)
        given = _assign_nodes(waiting, [node for node in free if node in nodes.hostname_of], alive, nodes)[
            : max(room, 0)
        ]
        found += _with_task_priorities(given, gang.device_numbers.get(role, {}))
    return tuple(found)


def pods_to_evict(gang: PlannedGang, pods: Sequence[Object], nodes: NodeIndex) -> tuple[Object, ...]:
    """The pods of a gang that makes room for others which stand beyond what the plan leaves it: of each role and node
    the last ones."""
    if not gang.evicted_for:
        return ()
    roles = tuple(gang.pods)
    at: dict[tuple[str, str], list[Object]] = {}
    for pod in sorted(pods, key=index_of):
        if (node := assigned_node(pod, nodes)) is not None and not has_ended(pod):
            at.setdefault((role_of(pod, roles) or "", node), []).append(pod)
    return tuple(
        pod for (role, node), here in sorted(at.items()) for pod in here[gang.pods.get(role, {}).get(node, 0) :]
    )


def _assign_nodes(
    waiting: Sequence[Object], free_nodes: list[str], alive: Sequence[Object], nodes: NodeIndex
) -> list[GateLift]:
    """Pods in the order of their number onto nodes grouped by domain; the pods of one partition keep to the domain of
    their siblings."""
    homes = {
        labels_of(pod)[PARTITION_LABEL]: nodes.leaf_of.get(node, "")
        for pod in alive
        if PARTITION_LABEL in labels_of(pod) and (node := assigned_node(pod, nodes))
    }
    sizes = Counter(labels_of(pod).get(PARTITION_LABEL) for pod in waiting)
    found = []
    for pod in waiting:
        if not free_nodes:
            break
        part = labels_of(pod).get(PARTITION_LABEL)
        if part is not None and part not in homes:
            rooms = Counter(nodes.leaf_of.get(node, "") for node in free_nodes)
            homes[part] = next(
                (leaf for leaf in rooms if rooms[leaf] >= sizes[part]), nodes.leaf_of.get(free_nodes[0], "")
            )
        at = next(
            (i for i, node in enumerate(free_nodes) if part is not None and nodes.leaf_of.get(node, "") == homes[part]),
            0,
        )
        node = free_nodes.pop(at)
        found.append(GateLift(pod, node, nodes.hostname_of[node]))
    return found


def _with_task_priorities(
    assigned: Sequence[GateLift], device_numbers: Mapping[str, Sequence[int]]
) -> Iterator[GateLift]:
    """With the order in which Volcano finds the cards that the plan found, without being told which.

    It gives each pod the first card with room, from the last one (plugin deviceshare). If the pods that fit on the last
    card come first, then those that fit on the one before it, and so on, each pod finds room on its own card at the
    latest: nobody before it has passed by his own.
    """
    left = {node: list(numbers) for node, numbers in device_numbers.items()}
    for lift in assigned:
        yield replace(lift, task_priority=left[lift.node].pop(0)) if left.get(lift.node) else lift


def _leaf_order_keys(gang: PlannedGang, nodes: NodeIndex) -> Mapping[str, tuple[int, list[tuple[int, str]]]]:
    """Domains in the order in which the roles first use them, so that low ranks of different roles meet in one domain."""
    order: dict[str, tuple[int, list[tuple[int, str]]]] = {}
    for at, counts in enumerate(gang.pods.values()):
        for node in counts:
            leaf = nodes.leaf_of.get(node, "")
            order.setdefault(leaf, (at, _natural_key(leaf)))
    return order


def _natural_key(name: str) -> list[tuple[int, str]]:
    """n2 before n10."""
    return [(int(digits), "") if digits else (-1, other) for digits, other in re.findall(r"(\d+)|(\D+)", name)]


def unbound_pods(pods: Sequence[Object], nodes: NodeIndex) -> tuple[Object, ...]:
    """Pods that have been given a node and that the scheduler has not bound."""
    return tuple(
        pod
        for pod in pods
        if not has_ended(pod) and not pod["spec"].get("nodeName") and assigned_node(pod, nodes) is not None
    )


def scheduler_message(pod: Object) -> str:
    """What the scheduler last said about a pod that it could not bind."""
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def pods_by_job(pods: Sequence[Object], jobs: Mapping[str, Object]) -> tuple[dict[str, list[Object]], set[str]]:
    """Ref.key of a live job -> its pods; and the keys of jobs whose former namesakes (by uid) still have pods."""
    found: dict[str, list[Object]] = {key: [] for key in jobs}
    former: set[str] = set()
    for pod in pods:
        for owner in pod["metadata"].get("ownerReferences") or ():
            ref = Ref(owner["apiVersion"], owner["kind"], ref_of(pod).namespace, owner["name"])
            if ref.key in jobs and uid_of(jobs[ref.key]) == owner["uid"]:
                found[ref.key].append(pod)
            else:
                former.add(ref.key)
    return found, former
