"""Whether a problem is well formed. The compiler checks what users write, with files and lines; this guards the
solver's API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, chain
from math import lcm
from operator import attrgetter, le
from typing import Any, NamedTuple

from solver.problem import (
    MAX_AMOUNT,
    DeviceSlot,
    DisruptionBudget,
    EvictionTerms,
    Gang,
    GangTimes,
    GroupQuota,
    HyperNode,
    InvalidProblemError,
    Node,
    Placement,
    PodRule,
    Policy,
    Problem,
    Queue,
    ReturningNode,
    Role,
    SeparationWish,
    SlotHold,
    SlotRequest,
    Subgroup,
    Topology,
    Vector,
)
from solver.validation.types import first_mismatch

MAX_PODS = 2**31 - 1
"""Most pods of a role, or of its running pods on a node: Kubernetes counts them in 32 bits."""

FieldPath = tuple[str | int, ...]


class _Rule(NamedTuple):
    """Valid contents of a field, or of each entry of a tuple: an integer from `least` to `most`; an index into `items`
    of the problem, or of the gang; a vector has an entry for each resource. Optional: or None."""

    least: int = 0
    most: int = MAX_AMOUNT
    items: str = ""
    is_vector: bool = False
    optional: bool = False


_NUMBER, _POSITIVE, _ANY = _Rule(), _Rule(1), _Rule(-MAX_AMOUNT)
_VECTOR, _LIMITS = _Rule(is_vector=True), _Rule(is_vector=True, optional=True)
_SECONDS = _Rule(optional=True)
_CAPACITY = {"node_class": _NUMBER, "capacity": _VECTOR, "free": _VECTOR, "slots": None}
_RULES: Mapping[type, Mapping[str, _Rule | None]] = {
    Problem: {
        **dict.fromkeys(("hypernodes", "nodes", "queues", "pod_rules", "gangs", "disruption_budgets", "policy")),
        "device_resources": _Rule(items="resources"),
    },
    HyperNode: {"tier": _POSITIVE, "parent": _Rule(items="hypernodes", optional=True)},
    Node: {
        "leaf": _Rule(items="hypernodes", optional=True),
        "maintenance_in": _SECONDS,
        "maintenance_windows": _NUMBER,
        **_CAPACITY,
        "returning": None,
        "node_group": _Rule(items="node_groups"),
        "kind": _NUMBER,
    },
    ReturningNode: _CAPACITY,
    DeviceSlot: {"slot_group": _Rule(items="slot_groups"), "capacity": _VECTOR, "free": _VECTOR},
    Queue: {
        "parent": _Rule(items="queues", optional=True),
        "weight": _POSITIVE,
        "priority": _ANY,
        **dict.fromkeys(("guarantee", "deserved", "capability"), _LIMITS),
        "used": _VECTOR,
        "dedicated_domains": _Rule(items="hypernodes"),
        "closed_node_groups": _Rule(items="node_groups"),
        "node_group_ranks": _NUMBER,
    },
    Policy: {"ancestor_reclaim_levels": _NUMBER},
    PodRule: {
        **dict.fromkeys(("selected_present", "owners_present"), _NUMBER),
        **dict.fromkeys(("max_skew", "min_domains"), _POSITIVE),
        "domains": _SECONDS,
        "tier": _Rule(1, optional=True),
        "quota": None,
    },
    GroupQuota: {
        "queue": _Rule(items="queues"),
        "node_group": _Rule(items="node_groups"),
        "resource": _Rule(items="resources"),
        "limit": _NUMBER,
    },
    Gang: {
        "queue": _Rule(items="queues"),
        **dict.fromkeys(("priority", "age"), _ANY),
        "minimum": _NUMBER,
        **dict.fromkeys(("roles", "topology", "subgroups", "running", "former", "slot_holds", "eviction", "times")),
        **dict.fromkeys(("topology_without_rules", "separation_wishes")),
    },
    EvictionTerms: {"loss": _NUMBER, "protected": None},
    GangTimes: dict.fromkeys(("duration", "ends_in"), _SECONDS),
    SeparationWish: {
        "tier": _POSITIVE,
        "gangs": _Rule(items="gangs"),
        "present": _Rule(items="hypernodes"),
        "weight": _NUMBER,
    },
    Role: {
        "replicas": _Rule(most=MAX_PODS),
        "minimum": _NUMBER,
        "request": _VECTOR,
        "slot_requests": None,
        "node_classes": _NUMBER,
        **dict.fromkeys(("owned_rules", "selecting_rules"), _Rule(items="pod_rules")),
    },
    SlotRequest: {"slot_group": _Rule(items="slot_groups"), "number": _POSITIVE, "share": _VECTOR},
    Subgroup: {"size": _POSITIVE, "minimum": _NUMBER, "roles": _Rule(items="roles"), "topology": None},
    Topology: {"tier": _POSITIVE},
    Placement: {"role": _Rule(items="roles"), "node": _Rule(items="nodes"), "pods": _Rule(1, MAX_PODS)},
    SlotHold: {"role": _Rule(items="roles"), "node": _Rule(items="nodes"), "slot": _NUMBER, "pods": _POSITIVE},
    DisruptionBudget: {"allowed": _NUMBER},
}
"""Class -> field -> its rule; None for a field of another of these classes, or a tuple of them."""


def validate(problem: Problem) -> None:
    """Raises InvalidProblemError, with the path of indices to the error, unless

    * everything is of the type that `solver.problem` declares, tuples and not lists;
    * every number is an integer within its range, every vector as long as `resources`, every index inside its tuple,
      every name unique among its kind (roles and subgroups: in their gang);
    * a hypernode's parent has a higher tier (so there is no loop), and queues have no loop;
    * slot groups and node groups are named once each, and a queue ranks all node groups or none;
    * a role has at most one request for each slot group, and it asks for something;
    * on each node and device slot free <= capacity;
    * each role's minimum <= replicas, a gang's minimum and each subgroup's parts within the replicas they cover;
    * a pod rule has one domain for each node and one count for each domain, no domain is without nodes, max_skew and
      min_domains are positive, a role's rules are ascending, one with own_gang_only concerns no other pods, only a
      separation has a tier, but no owners that are present, and a quota selects the roles of its queue that request its
      resource;
    * a disruption budget names roles of gangs; * the slots that running pods hold are sorted, of requests of their
    roles and no more than these ask for, and with the free amounts at most the
      slot;
    * no role has more than `MAX_PODS` replicas, and no sum of amounts is above `MAX_AMOUNT`.

    A problem without nodes, hypernodes, queues or gangs is well formed. A gang that cannot fit is well formed too: it
    waits.
    """
    if (mismatch := first_mismatch(problem)) is not None:
        raise InvalidProblemError(*mismatch)
    names = ("resources", "slot_groups", "node_groups", "nodes", "hypernodes", "queues", "gangs", "pod_rules")
    sizes = {name: len(getattr(problem, name)) for name in names}
    sizes["node_groups"] = max(1, sizes["node_groups"])
    for name in names[:3]:
        _check_unique((name,), getattr(problem, name))
    for name in names[3:7]:
        _check_unique((name,), [item.name for item in getattr(problem, name)], "name")
    if not _are_all_right([problem], sizes):
        _check_fields((), problem, sizes)
    for h, hypernode in enumerate(problem.hypernodes):
        if hypernode.parent is not None and (tier := problem.hypernodes[hypernode.parent].tier) <= hypernode.tier:
            fault = f"its tier {tier} is not above the child's {hypernode.tier}"
            raise InvalidProblemError(("hypernodes", h, "parent"), fault)
    _check_nodes(problem.nodes)
    _check_queues(problem)
    for rho, pod_rule in enumerate(problem.pod_rules):
        _check_pod_rule(rho, pod_rule, problem)
    for g, gang in enumerate(problem.gangs):
        _check_gang(("gangs", g), gang, problem)
    _check_slot_totals(problem)
    for b, budget in enumerate(problem.disruption_budgets):
        for k, (g, t) in enumerate(budget.roles):
            where = ("disruption_budgets", b, "roles", k)
            _check_value(where, g, _Rule(items="gangs"), sizes)
            _check_value(where, t, _Rule(items="roles"), {"roles": len(problem.gangs[g].roles)})
    _check_sums(problem)


def _require(holds: object, where: FieldPath, fault: str) -> None:
    if not holds:
        raise InvalidProblemError(where, fault)


def _check_unique(where: FieldPath, names: Sequence[str], *field: str) -> None:
    """field: of the items that has the name."""
    if len(set(names)) < len(names):
        i = next(i for i, name in enumerate(names) if name in names[:i])
        raise InvalidProblemError((*where, i, *field), f"{names[i]!r} is the name of {names.index(names[i])} already")


# ---- field by field


def _are_all_right(items: Sequence[Any], sizes: Mapping[str, int]) -> bool:
    """Return whether all numbers in items of one class obey their rules: a field of all of them at once, at any depth.
    sizes: of the tuples into which indices point."""
    for name, rule in _RULES[type(items[0])].items():
        column = list(map(attrgetter(name), items))
        if rule is not None:
            if not _are_right(column, rule, sizes):
                return False
            continue
        inside: dict[int, list[Any]] = {}  # by the number of the gang's roles
        for item, value in zip(items, column, strict=True):
            if value:
                roles = len(item.roles) if isinstance(item, Gang) else sizes.get("roles", 0)
                inside.setdefault(roles, []).extend(value if isinstance(value, tuple) else (value,))
        if not all(_are_all_right(each, {**sizes, "roles": roles}) for roles, each in inside.items()):
            return False
    return True


def _check_fields(where: FieldPath, found: Any, sizes: Mapping[str, int]) -> None:
    """All numbers in an item, or in a tuple of items, one by one."""
    if isinstance(found, tuple):
        for i, item in enumerate(found):
            _check_fields((*where, i), item, sizes)
        return
    inside = {**sizes, "roles": len(found.roles)} if isinstance(found, Gang) else sizes
    for name, rule in _RULES[type(found)].items():
        if rule is not None:
            _check_value((*where, name), getattr(found, name), rule, sizes)
        elif getattr(found, name):
            _check_fields((*where, name), getattr(found, name), inside)


def _are_right(values: list[Any], rule: _Rule, sizes: Mapping[str, int]) -> bool:
    """Return whether all values of a field obey the rule; `_check_value` finds the error."""
    values = [value for value in values if value is not None] if rule.optional else values
    while values and isinstance(values[0], tuple | frozenset):
        if not set(map(type, values)) <= {tuple, frozenset}:
            return False
        values = list({id(value): value for value in values}.values())
        if rule.is_vector and set(map(len, values)) != {sizes["resources"]}:
            return False
        values = list(chain.from_iterable(values))
        values = [value for value in values if value is not None] if rule.optional else values
    most = sizes[rule.items] - 1 if rule.items else rule.most
    return not values or (set(map(type, values)) == {int} and rule.least <= min(values) and max(values) <= most)


def _check_value(where: FieldPath, value: Any, rule: _Rule, sizes: Mapping[str, int]) -> None:
    if value is None and rule.optional:
        return
    if isinstance(value, tuple | frozenset):
        width = sizes["resources"] if rule.is_vector else len(value)
        _require(len(value) == width, where, f"has {len(value)} entries for {width} resources")
        for i, each in enumerate(value if isinstance(value, tuple) else sorted(value, key=repr)):
            _check_value((*where, i), each, rule, sizes)
        return
    # a bool or a float, NaN included, compares like an integer but is invalid
    _require(type(value) is int, where, f"{value!r} is not an integer")
    if rule.items:
        _require(0 <= value < sizes[rule.items], where, f"there is no {value} among {sizes[rule.items]}")
    _require(rule.least <= value <= rule.most, where, f"{value} is outside {rule.least} to {rule.most}")


# ---- how fields go together: all numbers are in their ranges


def _check_nodes(nodes: Sequence[Node]) -> None:
    checked: set[tuple[int, int]] = set()  # tuples that thousands of a pool's nodes share
    for n, node in enumerate(nodes):
        where, amounts = ("nodes", n), (id(node.free), id(node.capacity))
        if node.slots or amounts not in checked:
            _check_free(where, node)
            checked.add(amounts)
        if node.returning is not None:
            _check_free((*where, "returning"), node.returning)
            alike = [slot.slot_group for slot in node.returning.slots] == [slot.slot_group for slot in node.slots]
            _require(alike, (*where, "returning", "slots"), "are not the node's own")


def _check_free(where: FieldPath, holder: Node | ReturningNode | DeviceSlot) -> None:
    if not all(map(le, holder.free, holder.capacity)):
        r = next(r for r, free in enumerate(holder.free) if free > holder.capacity[r])
        fault = f"{holder.free[r]} are free of a capacity of {holder.capacity[r]}"
        raise InvalidProblemError((*where, "free", r), fault)
    for c, slot in enumerate(() if isinstance(holder, DeviceSlot) else holder.slots):
        _check_free((*where, "slots", c), slot)


def _check_queues(problem: Problem) -> None:
    for q, queue in enumerate(problem.queues):
        for step, (_, weight) in enumerate(queue.hierarchy):
            _check_value(("queues", q, "hierarchy", step), weight, _POSITIVE, {})
        ranks, groups = len(queue.node_group_ranks), len(problem.node_groups)
        fault = f"has {ranks} entries for {groups} node groups"
        _require(ranks in (0, groups), ("queues", q, "node_group_ranks"), fault)
        above, steps = queue.parent, 0
        while above is not None and steps < len(problem.queues):
            above, steps = problem.queues[above].parent, steps + 1
        _require(above is None, ("queues", q, "parent"), "the way up never ends: the queues form a loop")


def _check_pod_rule(rho: int, rule: PodRule, problem: Problem) -> None:
    where, domains, nodes = ("pod_rules", rho), len(rule.selected_present), len(problem.nodes)
    _require(len(rule.domains) == nodes, (*where, "domains"), f"has {len(rule.domains)} entries for {nodes} nodes")
    _check_value((*where, "domains"), rule.domains, _Rule(items="domains", optional=True), {"domains": domains})
    if empty := set(range(domains)) - set(rule.domains):
        raise InvalidProblemError((*where, "selected_present", min(empty)), "no node is in this domain")
    fault = f"has {len(rule.owners_present)} entries for {domains} domains"
    _require(len(rule.owners_present) in (0, domains), (*where, "owners_present"), fault)
    is_separation = rule.rule_kind == "separation"
    _require(not (is_separation and rule.owners_present), (*where, "owners_present"), "a separation counts none")
    _require(is_separation or rule.tier is None, (*where, "tier"), "only a separation is by a tier")
    is_quota = rule.rule_kind == "quota"
    _require(is_quota == (rule.quota is not None), (*where, "quota"), "of the kind quota alone, which has one")
    if rule.quota is not None:
        _check_quota(rho, rule.quota, problem)
    if rule.own_gang_only:
        gangs = {g for g, gang in enumerate(problem.gangs) if any(_concerns(role, rho) for role in gang.roles)}
        alone = len(gangs) <= 1 and not any(rule.selected_present) and not any(rule.owners_present)
        _require(alone, (*where, "own_gang_only"), "is one gang's own, yet others are in it")


def _check_quota(rho: int, quota: GroupQuota, problem: Problem) -> None:
    for g, gang in enumerate(problem.gangs):
        for t, role in enumerate(gang.roles):
            here, counts = ("gangs", g, "roles", t), gang.queue == quota.queue and role.request[quota.resource] > 0
            _require(rho not in role.owned_rules, (*here, "owned_rules"), "nobody owns a quota")
            fault = f"quota {rho} counts what pods of its queue request, and no others"
            _require((rho in role.selecting_rules) == counts, (*here, "selecting_rules"), fault)


def _concerns(role: Role, rho: int) -> bool:
    return rho in role.owned_rules or rho in role.selecting_rules


def _check_gang(where: FieldPath, gang: Gang, problem: Problem) -> None:
    for name in ("roles", "subgroups"):
        if len(items := getattr(gang, name)) > 1:
            _check_unique((*where, name), [item.name for item in items], "name")
    for t, role in enumerate(gang.roles):
        _check_role((*where, "roles", t), role)
    may_end = gang.times.ends_in is None or gang.running
    _require(may_end, (*where, "times", "ends_in"), "nothing of the gang runs that could end")
    for w, wish in enumerate(gang.separation_wishes):
        here = (*where, "separation_wishes", w)
        _require(where[-1] not in wish.gangs, (*here, "gangs"), "a gang is never apart from itself")
        tiers = {problem.hypernodes[h].tier for h in wish.present}
        _require(tiers <= {wish.tier}, (*here, "present"), f"of tiers {sorted(tiers)} in a wish of tier {wish.tier}")
    enough = gang.minimum <= sum(role.replicas for role in gang.roles)
    _require(enough, (*where, "minimum"), f"{gang.minimum} is above the replicas of all roles")
    for k, subgroup in enumerate(gang.subgroups):
        _check_subgroup((*where, "subgroups", k), subgroup, gang)
    for position, (a, b, value) in enumerate(gang.role_affinities):
        here = (*where, "role_affinities", position)
        for t in (a, b):
            _check_value(here, t, _Rule(items="roles"), {"roles": len(gang.roles)})
        _require(value in (1, -1), here, f"{value} is neither 1 nor -1")
    if gang.slot_holds:
        _check_slot_holds((*where, "slot_holds"), gang, problem)
    present = {(p.role, p.node): p.pods for p in gang.running} if gang.eviction.protected else {}
    for k, p in enumerate(gang.eviction.protected):
        if not 1 <= p.pods <= present.get((p.role, p.node), 0):
            raise InvalidProblemError((*where, "eviction", "protected", k), "no such pods run")


def _check_role(where: FieldPath, role: Role) -> None:
    fault = f"{role.minimum} is above the {role.replicas} replicas"
    _require(role.minimum <= role.replicas, (*where, "minimum"), fault)
    groups = [request.slot_group for request in role.slot_requests]
    for k, request in enumerate(role.slot_requests):
        here = (*where, "slot_requests", k)
        _require(groups[k] not in groups[:k], (*here, "slot_group"), "there is a request of this group already")
        _require(any(request.share), (*here, "share"), "asks for nothing")
    for name, rules in (("owned_rules", role.owned_rules), ("selecting_rules", role.selecting_rules)):
        _require(not rules or list(rules) == sorted(set(rules)), (*where, name), "must be ascending, each rule once")


def _check_subgroup(where: FieldPath, subgroup: Subgroup, gang: Gang) -> None:
    roles = set(subgroup.roles)
    once = roles and len(roles) == len(subgroup.roles)
    _require(once, (*where, "roles"), "must name at least one role, and each once")
    replicas = sum(gang.roles[t].replicas for t in roles)
    fault = f"{subgroup.minimum} parts of {subgroup.size} pods are above the {replicas} replicas"
    _require(subgroup.minimum * subgroup.size <= replicas, (*where, "minimum"), fault)
    # Subgroups of the same roles nest: the pods are a multiple of every size, hence of their least common multiple.
    sizes = [other.size for other in gang.subgroups if set(other.roles) == roles]
    fault = f"no number of pods up to {replicas} is a multiple of the sizes {sizes}"
    _require(not subgroup.minimum or lcm(*sizes) <= replicas, (*where, "size"), fault)


def _check_slot_holds(where: FieldPath, gang: Gang, problem: Problem) -> None:
    pods, taken = Counter[tuple[int, int]](), Counter[tuple[int, int, int]]()
    for p in gang.running:
        pods[p.role, p.node] += p.pods
    last = (-1, -1, -1)
    for k, hold in enumerate(gang.slot_holds):
        here, spot, slots = (*where, k), (hold.role, hold.node), problem.nodes[hold.node].slots
        _require(hold.pods <= pods[spot], here, "no pod of the gang runs there, or not as many")
        _check_value((*here, "slot"), hold.slot, _Rule(items="slots"), {"slots": len(slots)})
        group = slots[hold.slot].slot_group
        numbers = {request.slot_group: request.number for request in gang.roles[hold.role].slot_requests}
        taken[(*spot, group)] += hold.pods
        within = taken[(*spot, group)] <= numbers.get(group, 0) * pods[spot]
        _require(within, here, "more than the pods there take of this group")
        _require((*spot, hold.slot) > last, where, "not sorted by (role, node, slot), or a slot named twice")
        last = (*spot, hold.slot)


def _check_slot_totals(problem: Problem) -> None:
    """Check that held shares of a slot and its free amounts are at most the slot."""
    held: dict[tuple[int, int], list[int]] = {}
    for g, gang in enumerate(problem.gangs):
        for k, hold in enumerate(gang.slot_holds):
            slot = problem.nodes[hold.node].slots[hold.slot]
            share = {s.slot_group: s.share for s in gang.roles[hold.role].slot_requests}[slot.slot_group]
            total = held.setdefault((hold.node, hold.slot), list(slot.free))
            total[:] = [have + hold.pods * amount for have, amount in zip(total, share, strict=True)]
            fault = f"more than slot {hold.slot} of node {hold.node} has"
            _require(all(map(le, total, slot.capacity)), ("gangs", g, "slot_holds", k), fault)


def _check_sums(problem: Problem) -> None:
    """Sums over the whole problem. Python's integers do not overflow, so they are computed first and checked after."""
    roles = [(g, t, role) for g, gang in enumerate(problem.gangs) for t, role in enumerate(gang.roles)]
    asked = []
    for g, t, role in roles:
        pods = max(role.replicas, sum([place.pods for place in problem.gangs[g].running if place.role == t]))
        asked.append(tuple([pods * x for x in role.request]))
    used = [tuple([u + (least or 0) for u, least in zip(q.used, q.guarantee, strict=True)]) for q in problem.queues]
    _check_sum([node.capacity for node in problem.nodes], lambda n, r: ("nodes", n, "capacity", r))
    _check_sum(used, lambda q, r: ("queues", q, "used", r))
    _check_sum(asked, lambda k, r: ("gangs", roles[k][0], "roles", roles[k][1], "request", r))


def _check_sum(vectors: Sequence[Vector], where: Callable[[int, int], FieldPath]) -> None:
    """Raises at the first part with which the sum of a resource is too large. No amount is negative."""
    for r, column in enumerate(zip(*vectors, strict=True)):
        if sum(column) > MAX_AMOUNT:
            for k, total in enumerate(accumulate(column)):
                _check_value(where(k, r), total, _NUMBER, {})
