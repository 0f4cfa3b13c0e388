"""Gates: which gated pod gets which planned node, and when. Decisions on data, no IO.

The pods of a gang are created gated. Once all pods that the plan places exist, each gets its node (a node selector on
the hostname) and loses its gate, in one patch per pod. A pod without our gate that has a node or such a selector counts
at that node, so that a reconciler killed between two patches goes on with exactly the rest, and a pod that comes back
after an eviction takes the place that became free.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from compiler.fields.natural_order import natural_sort_key
from compiler.kubernetes import (
    GROUP_NAME_ANNOTATION,
    HOSTNAME_LABEL,
    INDEX_LABELS,
    PARTITION_LABEL,
    POD_OWNERS_ANNOTATION,
    ROLE_KEYS,
    SCHEDULING_GATE,
    TASK_PRIORITY_ANNOTATION,
    annotations_of,
    assigned_node,
    controller_of,
    created_at,
    is_finished_pod,
    is_gated,
    is_ready_node,
    is_succeeded_pod,
    is_terminating,
    labels_of,
    marked_job,
    name_of,
    uid_of,
)
from compiler.specs import Taint, Toleration
from compiler.specs.eligibility import CORDONED, tolerates
from compiler.volcano.eviction_votes import preemptable_word
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.plan.snapshot import PlannedGang


@dataclass(frozen=True, slots=True)
class NodeIndex:
    """hostname_of: node name -> its hostname label, of nodes that a selector can name. leaf_of: node name -> the
    hypernode that holds it. unready: take nothing new whatever a pod tolerates. taints_of: node name -> the taints that
    keep pods away, that of a cordoned node included. names: of all nodes."""

    hostname_of: Mapping[str, str]
    node_of_hostname: Mapping[str, str]
    leaf_of: Mapping[str, str]
    unready: frozenset[str] = frozenset()
    taints_of: Mapping[str, frozenset[Taint]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    @classmethod
    def from_nodes(cls, nodes: Iterable[Object], leaf_of: Mapping[str, str]) -> NodeIndex:
        """Nodes whose hostname label is missing or shared with another cannot be named by a selector: left out."""
        names: dict[str, list[str]] = {}
        facts = [facts_of_node(node) for node in nodes]
        for name, hostname, _, _ in facts:
            if hostname:
                names.setdefault(hostname, []).append(name)
        unique = {hostname: named[0] for hostname, named in names.items() if len(named) == 1}
        hostname_of = {name: hostname for hostname, name in unique.items()}
        unready = frozenset(name for name, _, is_ready, _ in facts if not is_ready)
        taints = {name: found for name, _, _, found in facts if found}
        return cls(hostname_of, unique, leaf_of, unready, taints, frozenset(name for name, _, _, _ in facts))

    def node_of(self, pod: Object) -> str | None:
        """The node of a pod that is bound, or that was given one and waits for the scheduler."""
        return assigned_node(pod, self.node_of_hostname)

    def leaf_of_node(self, node: str) -> str:
        return self.leaf_of.get(node, "")

    def accepts(self, node: str, pod: Object) -> bool:
        """Whether the node is ready, and the pod tolerates its taints."""
        if node in self.unready:
            return False
        if not (taints := self.taints_of.get(node)):
            return True
        tolerations = [_toleration(row) for row in pod["spec"].get("tolerations") or ()]
        return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def facts_of_node(node: Object) -> tuple[str, str | None, bool, frozenset[Taint]]:
    """What an index holds of a node: its name, its hostname label, whether it is ready, and the taints that keep pods
    away."""
    return name_of(node), labels_of(node).get(HOSTNAME_LABEL), is_ready_node(node), frozenset(_hard_taints(node))


def _hard_taints(node: Object) -> Iterator[Taint]:
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        yield CORDONED
    for taint in spec.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute"):
            yield Taint(taint["key"], taint.get("value") or "", taint["effect"])


def _toleration(row: Mapping[str, Any]) -> Toleration:
    operator: Literal["Exists", "Equal"] = "Exists" if row.get("operator") == "Exists" else "Equal"
    return Toleration(row.get("key") or "", operator, row.get("value") or "", row.get("effect") or "")


@dataclass(frozen=True, slots=True)
class GateLift:
    """Give `pod` the node and take the gate away. task_priority: Volcano is to place the pods of the gang with a higher
    one before it (`_with_task_priorities`)."""

    pod: Object
    node: str
    hostname: str
    task_priority: int | None = None

    def json_patch(self) -> list[dict[str, Any]]:
        """One JSON patch, refused by the server unless it is still this pod with exactly these gates and selectors."""
        gates = self.pod["spec"]["schedulingGates"]
        others = [gate for gate in gates if gate.get("name") != SCHEDULING_GATE]
        return [
            {"op": "test", "path": "/metadata/uid", "value": uid_of(self.pod)},
            {"op": "test", "path": "/spec/schedulingGates", "value": gates},
            *self._selector_patch(),
            *self._task_priority_patch(),
            {"op": "replace", "path": "/spec/schedulingGates", "value": others}
            if others
            else {"op": "remove", "path": "/spec/schedulingGates"},
        ]

    def _selector_patch(self) -> list[dict[str, Any]]:
        selector = self.pod["spec"].get("nodeSelector")
        if not selector:
            return [{"op": "add", "path": "/spec/nodeSelector", "value": {HOSTNAME_LABEL: self.hostname}}]
        path = f"/spec/nodeSelector/{_escape_json_pointer(HOSTNAME_LABEL)}"
        return [
            {"op": "test", "path": "/spec/nodeSelector", "value": selector},
            {"op": "add", "path": path, "value": self.hostname},
        ]

    def _task_priority_patch(self) -> list[dict[str, Any]]:
        if self.task_priority is None:
            return []
        value = str(self.task_priority)
        if not annotations_of(self.pod):
            return [{"op": "add", "path": "/metadata/annotations", "value": {TASK_PRIORITY_ANNOTATION: value}}]
        path = f"/metadata/annotations/{_escape_json_pointer(TASK_PRIORITY_ANNOTATION)}"
        return [{"op": "add", "path": path, "value": value}]


def _escape_json_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def has_ended(pod: Object) -> bool:
    """Whether the pod runs no more, or is on its way out."""
    return is_finished_pod(pod) or is_terminating(pod)


def role_of(pod: Object, gang: PlannedGang) -> str | None:
    """The pod's role: by our mark or the job controller's label or annotation, case aside; the one role of a job that
    has only one."""
    roles = tuple(gang.pods)
    for key in ROLE_KEYS:
        if value := labels_of(pod).get(key) or annotations_of(pod).get(key):
            return next((role for role in roles if role.lower() == value.lower()), None)
    return roles[0] if len(roles) == 1 and not gang.has_helpers else None


def index_of(pod: Object) -> tuple[int, str]:
    """The pod's number within its role, then its name."""
    name = name_of(pod)
    for key in INDEX_LABELS:
        if (value := labels_of(pod).get(key) or annotations_of(pod).get(key) or "").isdigit():
            return int(value), name
    number = re.search(r"(\d+)$", name)
    return int(number[1]) if number else 0, name


def gate_lifts(gang: PlannedGang, pods: Sequence[Object], nodes: NodeIndex) -> tuple[GateLift, ...]:
    """All gates of the gang that can be lifted now: none before every pod that the plan places exists, then all of
    them.

    Never more pods on a node than planned, whatever was lifted before. Pods beyond the plan stay gated. No pod is given
    a node that does not accept it: of a gang that has not begun then none is lifted, of another those that can be.
    """
    by_role: dict[str, list[Object]] = {role: [] for role in gang.pods}
    for pod in pods:
        if (role := role_of(pod, gang)) is not None:
            by_role[role].append(pod)
    leaf_order = _leaf_order_keys(gang, nodes)
    lifts: list[GateLift] = []
    has_begun, is_obstructed = False, False
    for role, counts in gang.pods.items():
        alive = [pod for pod in by_role[role] if not has_ended(pod)]
        succeeded = _succeeded_since(gang, role, by_role[role])
        planned = sum(counts.values())
        if role not in gang.dependent_roles and len(alive) + succeeded < planned:
            return ()
        used = Counter(node for pod in alive if (node := nodes.node_of(pod)) is not None)
        free: list[str] = []
        for node in sorted(counts, key=lambda name: (leaf_order[nodes.leaf_of_node(name)], natural_sort_key(name))):
            if node in nodes.hostname_of:
                free += [node] * (counts[node] - used[node])
        missing = max(planned - sum(used.values()) - succeeded, 0)
        waiting = sorted((pod for pod in alive if is_gated(pod)), key=index_of)
        assigned = _assign_nodes(waiting, free, alive, nodes)[:missing]
        accepted = [lift for lift in assigned if nodes.accepts(lift.node, lift.pod)]
        has_begun = has_begun or bool(used) or succeeded > 0 or role in gang.succeeded_pods
        is_obstructed = is_obstructed or len(accepted) < len(assigned)
        lifts += _with_task_priorities(accepted, gang.device_numbers.get(role, {}))
    return () if is_obstructed and not has_begun else tuple(lifts)


def _succeeded_since(gang: PlannedGang, role: str, pods: Iterable[Object]) -> int:
    """How many pods of the role, of those that the plan places, have ended well."""
    return max(sum(map(is_succeeded_pod, pods)) - gang.succeeded_pods.get(role, 0), 0)


def has_strayed(gang: PlannedGang, pods: Iterable[Object], nodes: NodeIndex) -> bool:
    """Whether pods of the gang have places that the plan does not give it: it was made before they had them."""
    there = Counter((role_of(pod, gang), nodes.node_of(pod)) for pod in pods if not has_ended(pod))
    planned = gang.pods_by_place()
    return any(node and number > planned.get((role or "", node), 0) for (role, node), number in there.items())


def pods_to_evict(gang: PlannedGang, pods: Sequence[Object], nodes: NodeIndex) -> tuple[Object, ...]:
    """The pods of a gang that makes room for others which exceed what the plan leaves it: of each role and node the
    last ones, of those that are not protected."""
    if not gang.evicted_for:
        return ()
    present: dict[tuple[str, str], list[Object]] = {}
    for pod in sorted(pods, key=lambda pod: (_is_preemptable(pod), index_of(pod))):
        if (node := nodes.node_of(pod)) is not None and not has_ended(pod):
            present.setdefault((role_of(pod, gang) or "", node), []).append(pod)
    planned = gang.pods_by_place()
    victims: list[Object] = []
    for place, there in sorted(present.items()):
        victims += there[planned.get(place, 0) :]
    return tuple(victims)


def _is_preemptable(pod: Object) -> bool:
    return preemptable_word(annotations_of(pod), labels_of(pod)) is not False


def _assign_nodes(
    waiting: Sequence[Object], free_nodes: list[str], alive: Sequence[Object], nodes: NodeIndex
) -> list[GateLift]:
    """Assign pods in the order of their number to nodes grouped by leaf; the pods of one partition stay in the leaf of
    their siblings."""
    leaf_of_partition: dict[str, str] = {}
    for pod in alive:
        if PARTITION_LABEL in labels_of(pod) and (assigned := nodes.node_of(pod)):
            leaf_of_partition[labels_of(pod)[PARTITION_LABEL]] = nodes.leaf_of_node(assigned)
    sizes = Counter(labels_of(pod).get(PARTITION_LABEL) for pod in waiting)
    lifts = []
    for pod in waiting:
        if not free_nodes:
            break
        at = 0
        if (partition := labels_of(pod).get(PARTITION_LABEL)) is not None:
            leaves = [nodes.leaf_of_node(node) for node in free_nodes]
            if partition not in leaf_of_partition:
                leaf_of_partition[partition] = _first_leaf_with_room(leaves, sizes[partition])
            leaf = leaf_of_partition[partition]
            at = leaves.index(leaf) if leaf in leaves else 0
        node = free_nodes.pop(at)
        lifts.append(GateLift(pod, node, nodes.hostname_of[node]))
    return lifts


def _first_leaf_with_room(leaves: Sequence[str], pods: int) -> str:
    """The first of the leaves of free places that has enough of them; the very first where none has."""
    places = Counter(leaves)
    return next((leaf for leaf in places if places[leaf] >= pods), leaves[0])


def _with_task_priorities(
    assigned: Sequence[GateLift], device_numbers: Mapping[str, Sequence[int]]
) -> Iterator[GateLift]:
    """The lifts with the order in which Volcano finds the cards that the plan found, without being told which.

    It gives each pod the first card with room, from the last one (plugin deviceshare). If the pods that fit on the last
    card come first, then those that fit on the one before it, and so on, each pod finds room on its own card at the
    latest: no pod before it has passed by its own.
    """
    unused = {node: list(numbers) for node, numbers in device_numbers.items()}
    for lift in assigned:
        yield replace(lift, task_priority=unused[lift.node].pop(0)) if unused.get(lift.node) else lift


def _leaf_order_keys(
    gang: PlannedGang, nodes: NodeIndex
) -> Mapping[str, tuple[int, tuple[tuple[int, str | int], ...]]]:
    """Leaves in the order in which the roles first use them, so that low ranks of different roles meet in one leaf."""
    order: dict[str, tuple[int, tuple[tuple[int, str | int], ...]]] = {}
    for at, counts in enumerate(gang.pods.values()):
        for node in counts:
            leaf = nodes.leaf_of_node(node)
            order.setdefault(leaf, (at, natural_sort_key(leaf)))
    return order


def _bare_pod_keys(pod: Object) -> Iterator[str]:
    """The keys of a pod without a controller: of the PodGroup that it names, and its own. Volcano gives a pod that
    names none a PodGroup, and writes its name into the pod."""
    if pod["metadata"].get("ownerReferences"):
        return
    ref = ref_of(pod)
    if group := annotations_of(pod).get(GROUP_NAME_ANNOTATION):
        yield Ref("scheduling.volcano.sh/v1beta1", "PodGroup", ref.namespace, group).key
    yield ref.key


def pods_by_job(pods: Sequence[Object], jobs: Mapping[str, Object]) -> tuple[dict[str, list[Object]], set[str]]:
    """Ref.key of a live job -> its pods; and the keys of jobs whose former namesakes (by uid) still have pods.

    A pod may be a job's through another job that owns it (JobSet -> Job -> Pod), which the uids prove; or through an
    object that is not watched (RayJob -> RayCluster -> Pod): see `_is_marked_pod`.
    """
    return OwnershipMemory().pods_by_job(pods, jobs)


@dataclass(frozen=True, slots=True)
class _Owners:
    """The owners of a pod: Ref.key of the live jobs that it belongs to, and of its former owners. missed: of what was
    looked for among the jobs and was not there."""

    pod: Object
    jobs: frozenset[str]
    former: frozenset[str]
    missed: frozenset[str]


class _Lookups(Mapping[str, Object]):
    """The jobs, and the keys that were looked for in vain."""

    def __init__(self, jobs: Mapping[str, Object]) -> None:
        self.jobs, self.missed = jobs, set[str]()

    def __getitem__(self, key: str) -> Object:
        return self.jobs[key]

    def __contains__(self, key: object) -> bool:
        if key in self.jobs:
            return True
        self.missed.add(str(key))
        return False

    def __iter__(self) -> Iterator[str]:
        return iter(self.jobs)

    def __len__(self) -> int:
        return len(self.jobs)


@dataclass(slots=True)
class OwnershipMemory:
    """The jobs each pod belongs to, remembered while the pod and the relevant fields of the jobs are unchanged. known:
    by the pod's id()."""

    known: dict[int, _Owners] = field(default_factory=dict)
    identities: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def pods_by_job(
        self, pods: Sequence[Object], jobs: Mapping[str, Object]
    ) -> tuple[dict[str, list[Object]], set[str]]:
        """`pods_by_job`, the function, with this memory."""
        identities = {key: _job_identity(job) for key, job in jobs.items()}
        known = self._still_known(identities)
        self.known, self.identities = {}, identities
        found: dict[str, list[Object]] = {key: [] for key in jobs}
        former: set[str] = set()
        for pod in pods:
            owners = known.get(id(pod)) or _owners_of_pod(pod, jobs)
            self.known[id(pod)] = owners
            for key in owners.jobs:
                found[key].append(pod)
            former |= owners.former
        return found, former

    def _still_known(self, identities: Mapping[str, tuple[Any, ...]]) -> Mapping[int, _Owners]:
        """What still holds with these jobs: a new one changes the owners of pods that were looked for there."""
        if any(identities.get(key) != former for key, former in self.identities.items()):
            return {}
        if not (new := identities.keys() - self.identities.keys()):
            return self.known
        return {at: owners for at, owners in self.known.items() if owners.missed.isdisjoint(new)}


def _job_identity(job: Object) -> tuple[Any, ...]:
    """The fields of a job that decide which pods are its own."""
    metadata = job["metadata"]
    between = annotations_of(job).get(POD_OWNERS_ANNOTATION)
    return uid_of(job), metadata.get("ownerReferences"), metadata.get("creationTimestamp"), between


def _owners_of_pod(pod: Object, live_jobs: Mapping[str, Object]) -> _Owners:
    jobs, owners, former = _Lookups(live_jobs), set[str](), set[str]()
    if (bare := next(filter(jobs.__contains__, _bare_pod_keys(pod)), None)) is not None:
        owners.add(bare)
    for at in _owners(pod, jobs):
        if isinstance(at, str):
            former.add(at)
        else:
            owners.add(ref_of(at).key)
    if (marked := marked_job(pod)) is not None:
        key = f"{marked[0]}/{ref_of(pod).namespace}/{marked[1]}"
        if key in jobs and key not in owners and _is_marked_pod(pod, jobs[key], jobs):
            owners.add(key)
    return _Owners(pod, frozenset(owners), frozenset(former), frozenset(jobs.missed))


def _owners(item: Object, jobs: Mapping[str, Object], depth: int = 3) -> Iterator[Object | str]:
    """The live jobs that own the object, near and far, each by its uid; of other owners the keys."""
    namespace = ref_of(item).namespace
    for owner in item["metadata"].get("ownerReferences") or ():
        key = Ref(owner["apiVersion"], owner["kind"], namespace, owner["name"]).key
        if key in jobs and uid_of(jobs[key]) == owner["uid"]:
            yield jobs[key]
            if depth:
                yield from _owners(jobs[key], jobs, depth - 1)
        else:
            yield key


def _is_marked_pod(pod: Object, job: Object, jobs: Mapping[str, Object]) -> bool:
    """Whether a pod whose template names the job is of its present run: its owners are of kinds that the job says stand
    between them, up to one that is not watched (else its uid would have told), and the pod is not older than the
    job."""
    between = annotations_of(job).get(POD_OWNERS_ANNOTATION, "").split(",")
    born, since = created_at(pod), created_at(job)
    item, seen = pod, set[str]()
    while (controller := controller_of(item)) is not None and uid_of(item) not in seen:
        seen.add(uid_of(item))
        owner = Ref(controller["apiVersion"], controller["kind"], ref_of(pod).namespace, controller["name"])
        if owner.group_kind not in between:
            return False
        if owner.key not in jobs:
            return born >= since
        if uid_of(jobs[owner.key]) != controller["uid"]:
            return False
        item = jobs[owner.key]
    return False
