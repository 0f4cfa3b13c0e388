"""Whether a problem is well formed. The compiler checks what users write, with files and lines; this guards the
solver's API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from math import lcm
from typing import Protocol

from solver.problem import (
    MAX_AMOUNT,
    DeviceSlot,
    Gang,
    HyperNode,
    InvalidProblemError,
    Limits,
    Node,
    PodRule,
    Problem,
    Queue,
    ReturningNode,
    Role,
    Subgroup,
    Vector,
)
from solver.validation.types import first_mismatch

MAX_PODS = 2**31 - 1
"""Of a role, or of its running pods on a node: Kubernetes counts them in 32 bits."""

FieldPath = tuple[str | int, ...]


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


def validate(problem: Problem) -> None:
    """Raises InvalidProblemError, with the path of indices to the error, unless

    * everything is of the type that `solver.problem` declares, tuples and not lists;
    * every number is an integer within its range, every vector as long as `resources`, every index inside its tuple,
      every name unique among its kind (roles and subgroups: in their gang);
    * a hypernode's parent has a higher tier (so there is no loop), and queues have no loop;
    * slot groups are named once each; a role has at most one request for each, and it asks for something;
    * on each node and device slot free <= capacity;
    * each role's minimum <= replicas, a gang's minimum and each subgroup's parts within the replicas they cover;
    * a pod rule has one domain for each node and one count for each domain, no domain is without nodes, max_skew and
      min_domains are positive, a role's rules are ascending, and one with own_gang_only concerns no other pods;
    * a disruption budget names roles of gangs;
    * the slots that running pods hold are sorted, of requests of their roles and no more than these ask for, and with
      what is free at most the slot;
    * no role has more than `MAX_PODS` replicas, and no sum of amounts is above `MAX_AMOUNT`.

    A problem without nodes, hypernodes, queues or gangs is well formed. A gang that cannot fit is well formed too: it
    waits.
    """
    if (fault := first_mismatch(problem)) is not None:
        raise InvalidProblemError(*fault)
    _check_no_duplicates(("resources",), problem.resources)
    _check_no_duplicates(("slot_groups",), problem.slot_groups)
    for collection in ("nodes", "hypernodes", "queues", "gangs"):
        _check_unique_names((collection,), getattr(problem, collection))
    for h, hypernode in enumerate(problem.hypernodes):
        _check_hypernode(("hypernodes", h), hypernode, problem)
    _check_nodes(problem)
    for q, queue in enumerate(problem.queues):
        _check_queue(("queues", q), queue, problem)
    _check_no_queue_loop(problem.queues)
    for rho, pod_rule in enumerate(problem.pod_rules):
        _check_pod_rule(("pod_rules", rho), pod_rule, problem)
    for g, gang in enumerate(problem.gangs):
        _check_gang(("gangs", g), gang, problem)
    _check_slot_totals(problem)
    for number, r in enumerate(problem.device_resources):
        _check_index(("device_resources", number), r, problem.resources)
    for b, budget in enumerate(problem.disruption_budgets):
        _check_integer(("disruption_budgets", b, "allowed"), budget.allowed)
        for k, (g, t) in enumerate(budget.roles):
            _check_index(("disruption_budgets", b, "roles", k), g, problem.gangs)
            _check_index(("disruption_budgets", b, "roles", k), t, problem.gangs[g].roles)
    _check_integer(("policy", "ancestor_reclaim_levels"), problem.policy.ancestor_reclaim_levels)
    _check_sums(problem)


def _check_no_duplicates(where: FieldPath, names: tuple[str, ...]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InvalidProblemError((*where, i), f"{name!r} occurs twice")


def _check_nodes(problem: Problem) -> None:
    plain = _are_nodes_plain(problem)
    for n, node in enumerate(problem.nodes):
        more = node.slots or node.maintenance_windows or node.returning or node.maintenance_in is not None
        if not plain or more:
            _check_node(("nodes", n), node, problem)


def _are_nodes_plain(problem: Problem) -> bool:
    """Whether leaf, class, capacity and free of every node are right, checked all at once; `_check_node` finds the
    error."""
    nodes = problem.nodes
    leaves, classes = [node.leaf for node in nodes if node.leaf is not None], [node.node_class for node in nodes]
    pairs = [(node.free, node.capacity) for node in nodes]
    vectors = list(chain.from_iterable(pairs))
    types = {*map(type, leaves), *map(type, classes), *map(type, chain.from_iterable(vectors))}
    if types - {int} or {*map(len, vectors)} - {len(problem.resources)}:
        return False
    hypernodes, amounts = range(len(problem.hypernodes)), range(MAX_AMOUNT + 1)
    return (
        all(leaf in hypernodes for leaf in set(leaves))
        and all(node_class in amounts for node_class in set(classes))
        and all(amount in amounts for vector in set(vectors) for amount in vector)
        and all(free <= most for pair in set(pairs) for free, most in zip(*pair, strict=True))
    )


def _check_unique_names(where: FieldPath, items: Sequence[_HasName]) -> None:
    first: dict[str, int] = {}
    if len({item.name for item in items}) == len(items):
        return
    for i, item in enumerate(items):
        if first.setdefault(item.name, i) != i:
            raise InvalidProblemError((*where, i, "name"), f"{item.name!r} is the name of {first[item.name]} already")


def _check_integer(where: FieldPath, value: object, least: int | None = 0) -> None:
    if type(value) is not int:  # a bool or a float, NaN included, compares like a number but is none of ours
        raise InvalidProblemError(where, f"{value!r} is not an integer")
    low = -MAX_AMOUNT if least is None else least
    if not low <= value <= MAX_AMOUNT:
        raise InvalidProblemError(where, f"{value} is outside {low} to {MAX_AMOUNT}")


def _check_pod_count(where: FieldPath, number: object, least: int) -> None:
    _check_integer(where, number, least)
    if isinstance(number, int) and number > MAX_PODS:
        raise InvalidProblemError(where, f"{number} pods are more than the {MAX_PODS} that can be counted")


def _check_index(where: FieldPath, value: object, items: Sequence[object]) -> None:
    _check_integer(where, value, None)
    if value not in range(len(items)):
        raise InvalidProblemError(where, f"there is no {value} among {len(items)}")


def _check_vector(where: FieldPath, vector: Vector | Limits, problem: Problem, *, optional: bool = False) -> None:
    if len(vector) != len(problem.resources):
        raise InvalidProblemError(where, f"has {len(vector)} entries for {len(problem.resources)} resources")
    if all(type(amount) is int and 0 <= amount <= MAX_AMOUNT for amount in vector):
        return
    for r, amount in enumerate(vector):
        if not (optional and amount is None):
            _check_integer((*where, r), amount)


def _check_hypernode(where: FieldPath, hypernode: HyperNode, problem: Problem) -> None:
    _check_integer((*where, "tier"), hypernode.tier, 1)
    if hypernode.parent is not None:
        _check_index((*where, "parent"), hypernode.parent, problem.hypernodes)
        parent = problem.hypernodes[hypernode.parent]
        _check_integer(("hypernodes", hypernode.parent, "tier"), parent.tier, 1)
        if parent.tier <= hypernode.tier:
            fault = f"its tier {parent.tier} is not above the child's {hypernode.tier}"
            raise InvalidProblemError((*where, "parent"), fault)


def _check_node(where: FieldPath, node: Node, problem: Problem) -> None:
    if node.leaf is not None:
        _check_index((*where, "leaf"), node.leaf, problem.hypernodes)
    if node.maintenance_in is not None:
        _check_integer((*where, "maintenance_in"), node.maintenance_in)
    for w, window in enumerate(node.maintenance_windows):
        for end, seconds in enumerate(window):
            _check_integer((*where, "maintenance_windows", w, end), seconds)
    _check_capacity(where, node, problem)
    if node.returning is not None:
        _check_capacity((*where, "returning"), node.returning, problem)
        if [slot.slot_group for slot in node.returning.slots] != [slot.slot_group for slot in node.slots]:
            raise InvalidProblemError((*where, "returning", "slots"), "are not the node's own")


def _check_capacity(where: FieldPath, node: Node | ReturningNode, problem: Problem) -> None:
    _check_integer((*where, "node_class"), node.node_class)
    _check_free(where, node, problem)
    for c, slot in enumerate(node.slots):
        here = (*where, "slots", c)
        _check_index((*here, "slot_group"), slot.slot_group, problem.slot_groups)
        _check_free(here, slot, problem)


def _check_free(where: FieldPath, holder: Node | ReturningNode | DeviceSlot, problem: Problem) -> None:
    _check_vector((*where, "capacity"), holder.capacity, problem)
    _check_vector((*where, "free"), holder.free, problem)
    for r, (free, capacity) in enumerate(zip(holder.free, holder.capacity, strict=True)):
        if free > capacity:
            raise InvalidProblemError((*where, "free", r), f"{free} are free of a capacity of {capacity}")


def _check_slot_requests(where: FieldPath, role: Role, problem: Problem) -> None:
    for k, request in enumerate(role.slot_requests):
        here = (*where, "slot_requests", k)
        _check_index((*here, "slot_group"), request.slot_group, problem.slot_groups)
        if request.slot_group in [other.slot_group for other in role.slot_requests[:k]]:
            raise InvalidProblemError((*here, "slot_group"), "there is a request of this group already")
        _check_integer((*here, "number"), request.number, 1)
        _check_vector((*here, "share"), request.share, problem)
        if not any(request.share):
            raise InvalidProblemError((*here, "share"), "asks for nothing")


def _check_queue(where: FieldPath, queue: Queue, problem: Problem) -> None:
    if queue.parent is not None:
        _check_index((*where, "parent"), queue.parent, problem.queues)
    _check_integer((*where, "weight"), queue.weight, 1)
    _check_integer((*where, "priority"), queue.priority, None)
    for name in ("guarantee", "deserved", "capability"):
        _check_vector((*where, name), getattr(queue, name), problem, optional=True)
    _check_vector((*where, "used"), queue.used, problem)
    for k, hypernode in enumerate(queue.dedicated_domains):
        _check_index((*where, "dedicated_domains", k), hypernode, problem.hypernodes)
    for step, (_, weight) in enumerate(queue.hierarchy):
        _check_integer((*where, "hierarchy", step), weight, 1)


def _check_no_queue_loop(queues: Sequence[Queue]) -> None:
    for q, queue in enumerate(queues):
        above = queue.parent
        for _ in queues:
            if above is None:
                break
            above = queues[above].parent
        else:
            raise InvalidProblemError(("queues", q, "parent"), "the way up never ends: the queues form a loop")


def _check_pod_rule(where: FieldPath, rule: PodRule, problem: Problem) -> None:
    domains, nodes = len(rule.selected_present), len(problem.nodes)
    if len(rule.domains) != nodes:
        raise InvalidProblemError((*where, "domains"), f"has {len(rule.domains)} entries for {nodes} nodes")
    for n, d in enumerate(rule.domains):
        if d is not None:
            _check_index((*where, "domains", n), d, rule.selected_present)
    if empty := set(range(domains)) - set(rule.domains):
        raise InvalidProblemError((*where, "selected_present", min(empty)), "no node is in this domain")
    for name in ("selected_present", "owners_present"):
        for d, pods in enumerate(getattr(rule, name)):
            _check_integer((*where, name, d), pods)
    if rule.owners_present and len(rule.owners_present) != domains:
        fault = f"has {len(rule.owners_present)} entries for {domains} domains"
        raise InvalidProblemError((*where, "owners_present"), fault)
    if rule.own_gang_only:
        gangs = {g for g, gang in enumerate(problem.gangs) for role in gang.roles if _concerns(role, int(where[-1]))}
        if len(gangs) > 1 or any(rule.selected_present) or any(rule.owners_present):
            raise InvalidProblemError((*where, "own_gang_only"), "is one gang's own, yet others are in it")
    _check_integer((*where, "max_skew"), rule.max_skew, 1)
    _check_integer((*where, "min_domains"), rule.min_domains, 1)


def _concerns(role: Role, rho: int) -> bool:
    return rho in role.owned_rules or rho in role.selecting_rules


def _check_rule_indices(where: FieldPath, rule_indices: tuple[int, ...], problem: Problem) -> None:
    for position, rho in enumerate(rule_indices):
        _check_index((*where, position), rho, problem.pod_rules)
    if list(rule_indices) != sorted(set(rule_indices)):
        raise InvalidProblemError(where, "must be ascending, each rule once")


def _check_gang(where: FieldPath, gang: Gang, problem: Problem) -> None:
    _check_index((*where, "queue"), gang.queue, problem.queues)
    for name in ("priority", "age"):
        _check_integer((*where, name), getattr(gang, name), None)
    _check_unique_names((*where, "roles"), gang.roles)
    _check_unique_names((*where, "subgroups"), gang.subgroups)
    for t, role in enumerate(gang.roles):
        here = (*where, "roles", t)
        _check_pod_count((*here, "replicas"), role.replicas, 0)
        _check_integer((*here, "minimum"), role.minimum)
        if role.minimum > role.replicas:
            raise InvalidProblemError((*here, "minimum"), f"{role.minimum} is above the {role.replicas} replicas")
        _check_vector((*here, "request"), role.request, problem)
        _check_slot_requests(here, role, problem)
        for node_class in sorted(role.node_classes, key=repr):
            _check_integer((*here, "node_classes"), node_class)
        _check_rule_indices((*here, "owned_rules"), role.owned_rules, problem)
        _check_rule_indices((*here, "selecting_rules"), role.selecting_rules, problem)
    _check_integer((*where, "minimum"), gang.minimum)
    _check_integer((*where, "loss"), gang.loss)
    for name in ("duration", "ends_in"):
        if getattr(gang, name) is not None:
            _check_integer((*where, name), getattr(gang, name))
    if gang.ends_in is not None and not gang.running:
        raise InvalidProblemError((*where, "ends_in"), "nothing of the gang runs that could end")
    if gang.minimum > sum(role.replicas for role in gang.roles):
        raise InvalidProblemError((*where, "minimum"), f"{gang.minimum} is above the replicas of all roles")
    if gang.topology is not None:
        _check_integer((*where, "topology", "tier"), gang.topology.tier, 1)
    _check_subgroups((*where, "subgroups"), gang)
    _check_role_affinities((*where, "role_affinities"), gang)
    _check_running(where, gang, problem)
    _check_slot_holds((*where, "slot_holds"), gang, problem)


def _check_running(where: FieldPath, gang: Gang, problem: Problem) -> None:
    roles, nodes, amounts = range(len(gang.roles)), range(len(problem.nodes)), range(1, MAX_PODS + 1)
    for p, placement in enumerate(gang.running):
        role, node, pods = placement.role, placement.node, placement.pods
        if type(role) is type(node) is type(pods) is int and role in roles and node in nodes and pods in amounts:
            continue
        here = (*where, "running", p)
        _check_index((*here, "role"), role, gang.roles)
        _check_index((*here, "node"), node, problem.nodes)
        _check_pod_count((*here, "pods"), pods, 1)


def _check_slot_holds(where: FieldPath, gang: Gang, problem: Problem) -> None:
    pods: Counter[tuple[int, int]] = Counter()
    for p in gang.running:
        pods[p.role, p.node] += p.pods
    taken: Counter[tuple[int, int, int]] = Counter()
    last = (-1, -1, -1)
    for k, hold in enumerate(gang.slot_holds):
        here, spot = (*where, k), (hold.role, hold.node)
        for name in ("role", "node", "slot"):
            _check_integer((*here, name), getattr(hold, name))
        _check_integer((*here, "pods"), hold.pods, 1)
        if hold.pods > pods[spot]:
            raise InvalidProblemError(here, "no pod of the gang runs there, or not as many")
        _check_index((*here, "slot"), hold.slot, problem.nodes[hold.node].slots)
        group = problem.nodes[hold.node].slots[hold.slot].slot_group
        numbers = {request.slot_group: request.number for request in gang.roles[hold.role].slot_requests}
        taken[(*spot, group)] += hold.pods
        if taken[(*spot, group)] > numbers.get(group, 0) * pods[spot]:
            raise InvalidProblemError(here, "more than the pods there take of this group")
        if (hold.role, hold.node, hold.slot) <= last:
            raise InvalidProblemError(where, "not sorted by (role, node, slot), or a slot named twice")
        last = hold.role, hold.node, hold.slot


def _check_slot_totals(problem: Problem) -> None:
    """What pods hold of a slot and what is free there are at most the slot."""
    held: dict[tuple[int, int], list[int]] = {}
    for g, gang in enumerate(problem.gangs):
        for k, hold in enumerate(gang.slot_holds):
            slot = problem.nodes[hold.node].slots[hold.slot]
            share = {s.slot_group: s.share for s in gang.roles[hold.role].slot_requests}[slot.slot_group]
            total = held.setdefault((hold.node, hold.slot), list(slot.free))
            total[:] = [have + hold.pods * amount for have, amount in zip(total, share, strict=True)]
            if any(have > most for have, most in zip(total, slot.capacity, strict=True)):
                fault = f"more than slot {hold.slot} of node {hold.node} has"
                raise InvalidProblemError(("gangs", g, "slot_holds", k), fault)


def _check_role_affinities(where: FieldPath, gang: Gang) -> None:
    for position, (a, b, value) in enumerate(gang.role_affinities):
        for role in (a, b):
            _check_index((*where, position), role, gang.roles)
        if value not in (1, -1):
            raise InvalidProblemError((*where, position), f"{value} is neither 1 nor -1")


def _check_subgroups(where: FieldPath, gang: Gang) -> None:
    """All sizes first, since each is compared with the others."""
    for k, subgroup in enumerate(gang.subgroups):
        _check_integer((*where, k, "size"), subgroup.size, 1)
    for k, subgroup in enumerate(gang.subgroups):
        _check_subgroup((*where, k), subgroup, gang)


def _check_subgroup(where: FieldPath, subgroup: Subgroup, gang: Gang) -> None:
    _check_integer((*where, "minimum"), subgroup.minimum)
    _check_integer((*where, "topology", "tier"), subgroup.topology.tier, 1)
    for role in subgroup.roles:
        _check_index((*where, "roles"), role, gang.roles)
    if len(set(subgroup.roles)) != len(subgroup.roles) or not subgroup.roles:
        raise InvalidProblemError((*where, "roles"), "must name at least one role, and each once")
    replicas = sum(gang.roles[t].replicas for t in subgroup.roles)
    if subgroup.minimum * subgroup.size > replicas:
        fault = f"{subgroup.minimum} parts of {subgroup.size} pods are above the {replicas} replicas"
        raise InvalidProblemError((*where, "minimum"), fault)
    # Subgroups of the same roles nest: the pods are a multiple of every size, hence of their least common multiple.
    sizes = [other.size for other in gang.subgroups if set(other.roles) == set(subgroup.roles)]
    if subgroup.minimum and lcm(*sizes) > replicas:
        fault = f"no number of pods up to {replicas} is a multiple of the sizes {sizes}"
        raise InvalidProblemError((*where, "size"), fault)


def _check_sums(problem: Problem) -> None:
    """Sums over the whole problem. Python's integers do not overflow, so they are computed first and checked after."""
    roles = [(g, t, role, gang) for g, gang in enumerate(problem.gangs) for t, role in enumerate(gang.roles)]
    pods = [
        max(role.replicas, sum([place.pods for place in gang.running if place.role == t])) for _, t, role, gang in roles
    ]
    asked = [tuple([number * x for x in role.request]) for number, (_, _, role, _) in zip(pods, roles, strict=True)]
    used = [
        tuple([have + (least or 0) for have, least in zip(q.used, q.guarantee, strict=True)]) for q in problem.queues
    ]
    _check_sum([node.capacity for node in problem.nodes], lambda n, r: ("nodes", n, "capacity", r))
    _check_sum(used, lambda q, r: ("queues", q, "used", r))
    _check_sum(asked, lambda k, r: ("gangs", roles[k][0], "roles", roles[k][1], "request", r))


def _check_sum(vectors: Sequence[Vector], where: Callable[[int, int], FieldPath]) -> None:
    """Raises at the first part with which the sum of a resource is too large. No amount is negative."""
    for r, column in enumerate(zip(*vectors, strict=True)):
        if sum(column) > MAX_AMOUNT:
            for k, total in enumerate(accumulate(column)):
                _check_integer(where(k, r), total)
