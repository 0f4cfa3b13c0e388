"""Gates: which gated pod gets which planned node, and when. Decisions on data, no IO.

Once all pods of a gang that the plan places exist, each gets its node (a node selector on the hostname) and loses its
gate, in one patch per pod. A pod without our gate that has a node or such a selector counts at that node. So a
reconciler killed between two patches resumes with the rest, and a recreated pod takes the free place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from compiler.fields.texts import natural_sort_key
from compiler.kubernetes import PARTITION_LABEL, annotations_of, is_gated, is_succeeded_pod, labels_of
from compiler.volcano.eviction_votes import preemptable_word
from reconciler.changes.planned import PlannedGang
from reconciler.changes.pods import GateLift
from reconciler.cluster.objects import Object
from reconciler.observation.nodes import NodeIndex
from reconciler.observation.pods import has_ended, index_of, role_of

LeafOrder = tuple[int, tuple[tuple[int, str | int], ...]]
"""The first role that uses a leaf, and the leaf's name in natural order."""


def gate_lifts(gang: PlannedGang, pods: Sequence[Object], nodes: NodeIndex) -> tuple[GateLift, ...]:
    """Return all gates of the gang that can be lifted now: none before every pod that the plan places exists.

    Never more pods on a node than planned; pods beyond the plan stay gated. No pod is given a node that does not accept
    it. In that case no gate of a gang that has not begun is lifted, and of another gang only the possible ones.
    """
    by_role = _pods_by_role(gang, pods)
    if _lacking(gang, by_role):
        return ()
    leaf_order = _leaf_order_keys(gang, nodes)
    lifts: list[GateLift] = []
    has_begun, is_obstructed = False, False
    for role, counts in gang.pods.items():
        alive = [pod for pod in by_role[role] if not has_ended(pod)]
        succeeded = _succeeded_since(gang, role, by_role[role])
        used = Counter(node for pod in alive if (node := nodes.node_of(pod)) is not None)
        free: list[str] = []
        for node in sorted(counts, key=lambda name: (leaf_order[nodes.leaf_of_node(name)], natural_sort_key(name))):
            if node in nodes.hostname_of:
                free += [node] * (counts[node] - used[node])
        missing = max(sum(counts.values()) - sum(used.values()) - succeeded, 0)
        waiting = sorted((pod for pod in alive if is_gated(pod)), key=index_of)
        assigned = _assign_nodes(waiting, free, alive, nodes)[:missing]
        accepted = [lift for lift in assigned if nodes.accepts(lift.node, lift.pod)]
        has_begun = has_begun or bool(used) or succeeded > 0 or role in gang.succeeded_pods
        is_obstructed = is_obstructed or len(accepted) < len(assigned)
        lifts += _with_task_priorities(accepted, gang.device_numbers.get(role, {}))
    return () if is_obstructed and not has_begun else tuple(lifts)


def lacking_pods(gang: PlannedGang, pods: Iterable[Object]) -> int:
    """Return how many pods that the plan places do not exist, of roles whose pods are created at once."""
    return _lacking(gang, _pods_by_role(gang, pods))


def lost_pods(gang: PlannedGang, pods: Iterable[Object]) -> int:
    """Return how many pods of a gang that has begun have no object, of roles whose pods are created at once. A service
    may have fewer than are planned."""
    if gang.written_pods:
        return 0
    lost = 0
    for role, there in _pods_by_role(gang, pods).items():
        former = min(gang.succeeded_pods.get(role, 0), sum(map(is_succeeded_pod, there)))
        if role not in gang.dependent_roles:
            lost += max(sum(gang.pods[role].values()) - len(there) + former, 0)
    return lost


def _pods_by_role(gang: PlannedGang, pods: Iterable[Object]) -> dict[str, list[Object]]:
    by_role: dict[str, list[Object]] = {role: [] for role in gang.pods}
    for pod in pods:
        if (role := role_of(pod, gang)) is not None:
            by_role[role].append(pod)
    return by_role


def _lacking(gang: PlannedGang, by_role: Mapping[str, Sequence[Object]]) -> int:
    lacking = 0
    for role, pods in by_role.items():
        if role not in gang.dependent_roles:
            alive = sum(not has_ended(pod) for pod in pods)
            lacking += max(sum(gang.pods[role].values()) - alive - _succeeded_since(gang, role, pods), 0)
    return lacking


def _succeeded_since(gang: PlannedGang, role: str, pods: Iterable[Object]) -> int:
    """Return how many of these pods of the role have succeeded since the plan was made."""
    return max(sum(map(is_succeeded_pod, pods)) - gang.succeeded_pods.get(role, 0), 0)


def has_strayed(gang: PlannedGang, pods: Iterable[Object], nodes: NodeIndex) -> bool:
    """Return whether pods of the gang have places that the plan does not give it: it was made before they had them."""
    there = Counter((role_of(pod, gang), nodes.node_of(pod)) for pod in pods if not has_ended(pod))
    planned = gang.pods_by_place()
    return any(node and number > planned.get((role or "", node), 0) for (role, node), number in there.items())


def pods_to_evict(gang: PlannedGang, pods: Sequence[Object], nodes: NodeIndex) -> tuple[Object, ...]:
    """Return the pods beyond the plan of a gang that makes room for others: the last ones of each role and node that
    are not protected."""
    present: dict[tuple[str, str], list[Object]] = {}

    def is_preemptable(pod: Object) -> bool:
        return preemptable_word(annotations_of(pod), labels_of(pod)) is not False

    for pod in sorted(pods, key=lambda pod: (is_preemptable(pod), index_of(pod))):
        if (node := nodes.node_of(pod)) is not None and not has_ended(pod):
            present.setdefault((role_of(pod, gang) or "", node), []).append(pod)
    planned = gang.pods_by_place()
    victims: list[Object] = []
    for place, there in sorted(present.items()):
        victims += there[planned.get(place, 0) :]
    return tuple(victims)


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
                has_room = (leaf for leaf, places in Counter(leaves).items() if places >= sizes[partition])
                leaf_of_partition[partition] = next(has_room, leaves[0])
            leaf = leaf_of_partition[partition]
            at = leaves.index(leaf) if leaf in leaves else 0
        node = free_nodes.pop(at)
        lifts.append(GateLift(pod, node, nodes.hostname_of[node]))
    return lifts


def _with_task_priorities(
    assigned: Sequence[GateLift], device_numbers: Mapping[str, Sequence[int]]
) -> Iterator[GateLift]:
    """Yield the lifts in an order that makes Volcano choose the planned cards, since it cannot be given them.

    Its plugin deviceshare gives each pod the first card with room, from the last one. If the pods of the last card are
    first, then those of the one before it, each finds room on its own card at the latest.
    """
    unused = {node: list(numbers) for node, numbers in device_numbers.items()}
    for lift in assigned:
        yield replace(lift, task_priority=unused[lift.node].pop(0)) if unused.get(lift.node) else lift


def _leaf_order_keys(gang: PlannedGang, nodes: NodeIndex) -> Mapping[str, LeafOrder]:
    """Leaves in the order in which the roles first use them, so that low ranks of different roles meet in one leaf."""
    order: dict[str, LeafOrder] = {}
    for at, counts in enumerate(gang.pods.values()):
        for node in counts:
            leaf = nodes.leaf_of_node(node)
            order.setdefault(leaf, (at, natural_sort_key(leaf)))
    return order
