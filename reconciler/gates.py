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

from reconciler.objects import GATE, HOSTNAME, Object, Ref, annotations_of, labels_of, ref_of, uid

PARTITION = "volcano.sh/partition-id"
ROLE_KEYS = ("volcano.sh/task-spec", "training.kubeflow.org/replica-type")
INDEX_KEYS = (
    "volcano.sh/task-index",
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
)
TURN = "volcano.sh/task-priority"
"""Annotation of a pod: Volcano places the pods of a job in its order, the highest first (plugin priority)."""
OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Gang:
    """A job as planned. pods: role -> node name -> pods, roles in the job's order. later: roles whose pods appear only
    after other roles run.

    evicted_for: the jobs ("namespace/name") for which the plan takes running pods away: what stands beyond `pods` has
    to go. cards: role -> node -> the numbers of the cards on which its new pods fit, the highest first.
    """

    job: Ref
    decision: str
    pods: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    later: frozenset[str] = frozenset()
    evicted_for: tuple[str, ...] = ()
    cards: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nodes:
    """host: node name -> its hostname label. node: the way back. leaf: node name -> the hypernode that holds it."""

    host: Mapping[str, str]
    node: Mapping[str, str]
    leaf: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Lift:
    """Give `pod` the node and take the gate away. turn: Volcano is to place the pods of the gang with a higher one
    before it (`_in_turn`)."""

    pod: Object
    node: str
    hostname: str
    turn: int | None = None

    def operations(self) -> list[dict[str, Any]]:
        """One JSON patch, refused by the server unless it is still this pod with exactly these gates and selectors."""
        spec = self.pod["spec"]
        gates = spec["schedulingGates"]
        selector = spec.get("nodeSelector")
        rest = [gate for gate in gates if gate.get("name") != GATE]
        choose: list[dict[str, Any]] = [{"op": "add", "path": "/spec/nodeSelector", "value": {HOSTNAME: self.hostname}}]
        if selector:
            choose = [
                {"op": "test", "path": "/spec/nodeSelector", "value": selector},
                {"op": "add", "path": f"/spec/nodeSelector/{_key(HOSTNAME)}", "value": self.hostname},
            ]
        free = (
            {"op": "replace", "path": "/spec/schedulingGates", "value": rest}
            if rest
            else {"op": "remove", "path": "/spec/schedulingGates"}
        )
        return [
            {"op": "test", "path": "/metadata/uid", "value": uid(self.pod)},
            {"op": "test", "path": "/spec/schedulingGates", "value": gates},
            *choose,
            *self._order(),
            free,
        ]

    def _order(self) -> list[dict[str, Any]]:
        if self.turn is None:
            return []
        said = {"op": "add", "path": f"/metadata/annotations/{_key(TURN)}", "value": str(self.turn)}
        return (
            [said]
            if annotations_of(self.pod)
            else [{"op": "add", "path": "/metadata/annotations", "value": {TURN: str(self.turn)}}]
        )


def _key(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def gated(pod: Object) -> bool:
    return any(gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ())


def over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in OVER or bool(pod["metadata"].get("deletionTimestamp"))


def place(pod: Object, nodes: Nodes) -> str | None:
    """The node of a pod that is bound, or that was given one and waits for the scheduler."""
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    if gated(pod):
        return None
    return nodes.node.get((pod["spec"].get("nodeSelector") or {}).get(HOSTNAME, ""))


def role_of(pod: Object, roles: Sequence[str]) -> str | None:
    """By the job controller's label or annotation, case aside; the one role of a job that has only one."""
    for key in ROLE_KEYS:
        if said := labels_of(pod).get(key) or annotations_of(pod).get(key):
            return next((role for role in roles if role.lower() == said.lower()), None)
    return roles[0] if len(roles) == 1 else None


def index_of(pod: Object) -> tuple[int, str]:
    """The pod's number within its role, then its name."""
    for key in INDEX_KEYS:
        if (said := labels_of(pod).get(key) or annotations_of(pod).get(key) or "").isdigit():
            return int(said), pod["metadata"]["name"]
    number = re.search(r"(\d+)$", pod["metadata"]["name"])
    return int(number[1]) if number else 0, pod["metadata"]["name"]


def lifts(gang: Gang, pods: Sequence[Object], nodes: Nodes) -> tuple[Lift, ...]:
    """All gates of the gang that can be lifted now: none before every pod that the plan places exists, then all of
    them.

    Never more pods on a node than planned, whatever was lifted before. Pods beyond the plan stay gated.
    """
    roles = tuple(gang.pods)
    by_role: dict[str, list[Object]] = {role: [] for role in roles}
    for pod in pods:
        if (role := role_of(pod, roles)) is not None:
            by_role[role].append(pod)
    order = _leaf_order(gang, nodes)
    found: list[Lift] = []
    for role, counts in gang.pods.items():
        alive = [pod for pod in by_role[role] if not over(pod)]
        succeeded = sum((pod.get("status") or {}).get("phase") == "Succeeded" for pod in by_role[role])
        planned = sum(counts.values())
        if role not in gang.later and len(alive) + succeeded < planned:
            return ()
        taken = Counter(node for pod in alive if (node := place(pod, nodes)) is not None)
        free = [
            node
            for node in sorted(counts, key=lambda n: (order[nodes.leaf.get(n, "")], _natural(n)))
            for _ in range(counts[node] - taken[node])
        ]
        room = planned - sum(taken.values()) - succeeded
        waiting = sorted((pod for pod in alive if gated(pod)), key=index_of)
        given = _assign(waiting, [node for node in free if node in nodes.host], alive, nodes)[: max(room, 0)]
        found += _in_turn(given, gang.cards.get(role, {}))
    return tuple(found)


def evictions(gang: Gang, pods: Sequence[Object], nodes: Nodes) -> tuple[Object, ...]:
    """The pods of a gang that makes room for others which stand beyond what the plan leaves it: of each role and node
    the last ones."""
    if not gang.evicted_for:
        return ()
    roles = tuple(gang.pods)
    at: dict[tuple[str, str], list[Object]] = {}
    for pod in sorted(pods, key=index_of):
        if (node := place(pod, nodes)) is not None and not over(pod):
            at.setdefault((role_of(pod, roles) or "", node), []).append(pod)
    return tuple(
        pod for (role, node), here in sorted(at.items()) for pod in here[gang.pods.get(role, {}).get(node, 0) :]
    )


def _assign(waiting: Sequence[Object], free: list[str], alive: Sequence[Object], nodes: Nodes) -> list[Lift]:
    """Pods in the order of their number onto nodes grouped by domain; the pods of one partition keep to the domain of
    their siblings."""
    homes = {
        labels_of(pod)[PARTITION]: nodes.leaf.get(node, "")
        for pod in alive
        if PARTITION in labels_of(pod) and (node := place(pod, nodes))
    }
    sizes = Counter(labels_of(pod).get(PARTITION) for pod in waiting)
    found = []
    for pod in waiting:
        if not free:
            break
        part = labels_of(pod).get(PARTITION)
        if part is not None and part not in homes:
            rooms = Counter(nodes.leaf.get(node, "") for node in free)
            homes[part] = next((leaf for leaf in rooms if rooms[leaf] >= sizes[part]), nodes.leaf.get(free[0], ""))
        at = next((i for i, node in enumerate(free) if part is not None and nodes.leaf.get(node, "") == homes[part]), 0)
        node = free.pop(at)
        found.append(Lift(pod, node, nodes.host[node]))
    return found


def _in_turn(given: Sequence[Lift], cards: Mapping[str, Sequence[int]]) -> Iterator[Lift]:
    """With the order in which Volcano finds the cards that the plan found, without being told which.

    It gives each pod the first card with room, from the last one (plugin deviceshare). If the pods that fit on the last
    card come first, then those that fit on the one before it, and so on, each pod finds room on its own card at the
    latest: nobody before it has passed by his own.
    """
    left = {node: list(numbers) for node, numbers in cards.items()}
    for lift in given:
        yield replace(lift, turn=left[lift.node].pop(0)) if left.get(lift.node) else lift


def _leaf_order(gang: Gang, nodes: Nodes) -> Mapping[str, tuple[int, list[tuple[int, str]]]]:
    """Domains in the order in which the roles first use them, so that low ranks of different roles meet in one domain."""
    order: dict[str, tuple[int, list[tuple[int, str]]]] = {}
    for at, counts in enumerate(gang.pods.values()):
        for node in counts:
            leaf = nodes.leaf.get(node, "")
            order.setdefault(leaf, (at, _natural(leaf)))
    return order


def _natural(name: str) -> list[tuple[int, str]]:
    """n2 before n10."""
    return [(int(digits), "") if digits else (-1, other) for digits, other in re.findall(r"(\d+)|(\D+)", name)]


def unbound(pods: Sequence[Object], nodes: Nodes) -> tuple[Object, ...]:
    """Pods that have been given a node and that the scheduler has not bound."""
    return tuple(
        pod for pod in pods if not over(pod) and not pod["spec"].get("nodeName") and place(pod, nodes) is not None
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
            if ref.key in jobs and uid(jobs[ref.key]) == owner["uid"]:
                found[ref.key].append(pod)
            else:
                former.add(ref.key)
    return found, former
