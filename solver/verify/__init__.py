"""The independent check of a plan against its problem. It shares no code with the model, so a mistake there cannot hide here.

What a valid plan is, rule by rule, stands in the docstrings of the functions in `RULES`; docs/model.md says the same as mathematics.
Three words are used throughout. *Running* pods are the ones of `Gang.running`. *New* pods are the placed ones beyond them, counted per
(role, node). A gang *grows* when it gets at least one new pod. What runs may already break a rule (the topology changed, a limit was
lowered): that is no fault of the plan, and every rule says what new pods may still do then.

The problem is taken as valid; `solver.validate` sees to that.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from solver.verify import cells as cell_rules
from solver.verify import quotas
from solver.plan import Batch, Decision, Fact, Objective, Plan
from solver.problem import Gang, Placement, Problem, Topology, Vector
from solver.verify_relations import RELATION_RULES
from solver.verify_time import TIME_RULES
from solver.verify_values import VALUE_RULES
from solver.verify_victims import VICTIM_RULES

Where = tuple[str | int, ...]
Counts = Mapping[tuple[int, int], int]
"""Pods by (role, node)."""

SHARE_TOLERANCE = 1e-9
PROVEN_GAP = 1e-6
VERDICTS = ("proven", "within gap", "limit reached")
"""From best to worst."""


@dataclass(frozen=True, slots=True)
class Violation:
    """`rule` is the name of a function in `RULES`; `where` the path of indices into the plan (or, for a node or queue, the problem)."""

    rule: str
    where: Where
    message: str


def verify(problem: Problem, plan: Plan) -> list[Violation]:
    """Every rule that the plan breaks, in the order of `RULES` and of the indices; empty for a valid plan."""
    ledger = Ledger(problem, plan)
    return [Violation(rule.__name__, where, message) for rule in RULES for where, message in rule(ledger)]


def needs(problem: Problem, holdings: Sequence[Vector]) -> list[Vector]:
    """What has to be kept for each queue, its descendants included, when queue q itself (without descendants) holds `holdings[q]`.

        need(q) = max(guarantee(q), holding(q) + sum of need(c) over the children c of q)        per resource

    An unused part of a guarantee counts as taken, and a child's guarantee counts inside its parent's. A guarantee not given is 0.
    """
    need = [list(held) for held in holdings]
    for q in reversed(_top_down([queue.parent for queue in problem.queues])):
        queue = problem.queues[q]
        need[q] = [max(guarantee or 0, amount) for guarantee, amount in zip(queue.guarantee, need[q], strict=True)]
        if queue.parent is not None:
            _add(need[queue.parent], need[q])
    return [tuple(amounts) for amounts in need]


def _top_down(parents: Sequence[int | None]) -> list[int]:
    """The indices, each after its parent."""
    children = defaultdict(list)
    for child, parent in enumerate(parents):
        children[parent].append(child)
    order = list(children[None])
    for index in order:
        order += children[index]
    return order


def _add(total: list[int], vector: Iterable[int], times: int = 1) -> None:
    for r, amount in enumerate(vector):
        total[r] += amount * times


def _counts(placements: Iterable[Placement]) -> Counts:
    counts: Counter[tuple[int, int]] = Counter()
    for place in placements:
        counts[place.role, place.node] += place.pods
    return counts


class Ledger:
    """Problem and plan side by side, with the sums that several rules need. Placements that point nowhere are left to rule `decisions`."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self.decisions: dict[int, Decision] = {}
        for decision in plan.decisions:
            if 0 <= decision.gang < len(problem.gangs):
                self.decisions.setdefault(decision.gang, decision)
        self.running = [_counts(gang.running) for gang in problem.gangs]
        self.gone = [self._gone(g) for g in range(len(problem.gangs))]
        self.stays: list[Counts] = [
            {key: left for key, pods in running.items() if (left := pods - gone.get(key, 0)) > 0}
            for running, gone in zip(self.running, self.gone, strict=True)
        ]
        self.placed = [self._placed(g) for g in range(len(problem.gangs))]
        self.new: list[Counts] = [
            {key: pods - running.get(key, 0) for key, pods in sorted(placed.items()) if pods > running.get(key, 0)}
            for placed, running in zip(self.placed, self.running, strict=True)
        ]
        self.highest_tier = max((hypernode.tier for hypernode in problem.hypernodes), default=0)
        self._domains: dict[tuple[int | None, int], int | None] = {}
        self._choices: dict[int | None, list[list[int]]] = {}

    def _placed(self, gang: int) -> Counts:
        if gang not in self.decisions:
            return self.running[gang]
        return _counts(place for place in self.decisions[gang].placements if self.points_somewhere(gang, place))

    def _gone(self, gang: int) -> Counts:
        """Running pods that the plan evicts; what never ran is left to rule `evictions`."""
        if gang not in self.decisions:
            return {}
        evicted = _counts(place for place in self.decisions[gang].evicted if self.points_somewhere(gang, place))
        return {key: min(pods, self.running[gang][key]) for key, pods in sorted(evicted.items()) if key in self.running[gang]}

    def points_somewhere(self, gang: int, place: Placement) -> bool:
        return 0 <= place.role < len(self.problem.gangs[gang].roles) and 0 <= place.node < len(self.problem.nodes) and place.pods > 0

    def admitted(self) -> Iterator[tuple[int, Gang, Decision]]:
        """The gangs that start or are kept."""
        for g, decision in sorted(self.decisions.items()):
            if decision.action in ("start", "keep"):
                yield g, self.problem.gangs[g], decision

    def per_role(self, gang: int, counts: Counts) -> list[int]:
        pods = [0] * len(self.problem.gangs[gang].roles)
        for (role, _), amount in counts.items():
            pods[role] += amount
        return pods

    def meets_minima(self, gang: int, counts: Counts) -> bool:
        """Whether the pods reach the minimum of the gang, of each role and, as a total, of each subgroup."""
        spec, pods = self.problem.gangs[gang], self.per_role(gang, counts)
        return (
            sum(pods) >= spec.minimum
            and all(amount >= role.minimum for amount, role in zip(pods, spec.roles, strict=True))
            and all(sum(pods[t] for t in part.roles) >= part.minimum * part.size for part in spec.subgroups)
        )

    def binds(self, topology: Topology | None) -> bool:
        """Whether the topology restricts anything: it is hard, and not wider than the widest hypernode."""
        return topology is not None and topology.mode == "hard" and topology.tier <= self.highest_tier

    def domain(self, node: int, tier: int) -> int | None:
        """The maximal domain of a node: the highest hypernode above it that is reached from its leaf through tiers <= `tier` only."""
        leaf = self.problem.nodes[node].leaf
        if (leaf, tier) not in self._domains:
            found, above = None, leaf
            while above is not None and self.problem.hypernodes[above].tier <= tier:
                found, above = above, self.problem.hypernodes[above].parent
            self._domains[leaf, tier] = found
        return self._domains[leaf, tier]

    def choices(self, topology: Topology | None) -> list[list[int]]:
        """The sets of nodes of which a gang with this topology needs one."""
        tier = topology.tier if topology is not None and self.binds(topology) else None
        if tier not in self._choices:
            inside = defaultdict(list)
            for n in range(len(self.problem.nodes)):
                inside[self.domain(n, tier) if tier is not None else 0].append(n)
            self._choices[tier] = [nodes for domain, nodes in inside.items() if domain is not None]
        return self._choices[tier]

    def demand(self, counts: Sequence[Counts]) -> list[Vector]:
        """What these pods request in each queue, descendants not included."""
        total = [[0] * len(self.problem.resources) for _ in self.problem.queues]
        for gang, pods in zip(self.problem.gangs, counts, strict=True):
            for (role, _), amount in pods.items():
                _add(total[gang.queue], gang.roles[role].request, amount)
        return [tuple(amounts) for amounts in total]

    def with_descendants(self, own: Sequence[Vector]) -> list[Vector]:
        total = [list(vector) for vector in own]
        for q in reversed(_top_down([queue.parent for queue in self.problem.queues])):
            parent = self.problem.queues[q].parent
            if parent is not None:
                _add(total[parent], total[q])
        return [tuple(amounts) for amounts in total]

    def needs(self, own: Sequence[Vector]) -> list[Vector]:
        return needs(self.problem, own)

    @cached_property
    def totals(self) -> Vector:
        """The capacity of all nodes."""
        return tuple(sum(node.capacity[r] for node in self.problem.nodes) for r in range(len(self.problem.resources)))

    @cached_property
    def own_before(self) -> list[Vector]:
        """What each queue itself holds before the plan: `used` and its gangs' running pods."""
        running = self.demand(self.running)
        return [_plus(queue.used, held) for queue, held in zip(self.problem.queues, running, strict=True)]

    @cached_property
    def own_new(self) -> list[Vector]:
        return self.demand(self.new)

    @cached_property
    def own_gone(self) -> list[Vector]:
        return self.demand(self.gone)

    @cached_property
    def before(self) -> list[Vector]:
        return self.with_descendants(self.own_before)

    @cached_property
    def added(self) -> list[Vector]:
        return self.with_descendants(self.own_new)

    @cached_property
    def lost(self) -> list[Vector]:
        """What evicted pods give back, in each queue with its descendants."""
        return self.with_descendants(self.own_gone)


def _plus(left: Vector, right: Vector, times: int = 1) -> Vector:
    return tuple(a + b * times for a, b in zip(left, right, strict=True))


Findings = Iterator[tuple[Where, str]]


def decisions(x: Ledger) -> Findings:
    """One decision for each gang, in order; placements point at roles and nodes that exist, hold at least one pod, are sorted by
    (role, node) and merged (a pair occurs once)."""
    order = [decision.gang for decision in x.plan.decisions]
    if order != list(range(len(x.problem.gangs))):
        yield ("decisions",), f"there must be one decision for each of the {len(x.problem.gangs)} gangs, in order"
    for i, decision in enumerate(x.plan.decisions):
        if decision.action not in ("start", "keep", "wait", "evict"):
            yield ("decisions", i, "action"), f"{decision.action!r} is none of start, keep, wait, evict"
        if not 0 <= decision.gang < len(x.problem.gangs):
            continue
        for k, place in enumerate(decision.placements):
            if not x.points_somewhere(decision.gang, place):
                yield ("decisions", i, "placements", k), f"no such role or node, or no pods: {place}"
        keys = [(place.role, place.node) for place in decision.placements]
        if any(first >= second for first, second in pairwise(keys)):
            yield ("decisions", i, "placements"), "not sorted by (role, node), or a pair occurs twice"


def actions(x: Ledger) -> Findings:
    """keep exactly when the running pods alone meet the minima of the gang, its roles and (as totals) its subgroups, unless the gang is
    evicted; a waiting gang has no new pods; an admitted one meets all these minima."""
    for g, decision in sorted(x.decisions.items()):
        if decision.action == "evict":
            continue
        kept = x.meets_minima(g, x.running[g])
        if kept != (decision.action == "keep"):
            yield ("decisions", g, "action"), f"is {decision.action}, but its running pods {'' if kept else 'do not '}meet its minima"
        if decision.action == "wait" and x.new[g]:
            yield ("decisions", g, "placements"), "waits, yet gets new pods"
        if decision.action != "wait" and not x.meets_minima(g, x.placed[g]):
            yield ("decisions", g, "placements"), "is admitted below a minimum of the gang, a role or a subgroup"


def running_stay(x: Ledger) -> Findings:
    """Running pods never move: on each node each role has at least as many pods as run there and are not evicted."""
    for g in sorted(x.decisions):
        for (role, node), pods in sorted(x.stays[g].items()):
            if x.placed[g].get((role, node), 0) < pods:
                yield ("decisions", g, "placements"), f"{pods} running pods of role {role} on node {node} do not all stay"


def replicas(x: Ledger) -> Findings:
    """No role gets pods beyond its replicas; one that already runs more of them gets none."""
    for g, gang, _ in x.admitted():
        run, placed = x.per_role(g, x.running[g]), x.per_role(g, x.placed[g])
        for t, role in enumerate(gang.roles):
            if placed[t] > max(role.replicas, run[t]):
                yield ("decisions", g, "placements"), f"role {t} has {placed[t]} pods, more than its {role.replicas} replicas"


def domains(x: Ledger) -> Findings:
    """`domains` are the leaves of the placed nodes: sorted, each once; nodes outside the topology add nothing."""
    for g, decision in sorted(x.decisions.items()):
        leaves = {x.problem.nodes[node].leaf for _, node in x.placed[g]} - {None}
        if list(decision.domains) != sorted(leaf for leaf in leaves if leaf is not None):
            yield ("decisions", g, "domains"), "are not the leaves of the placed nodes in order"


def eligibility(x: Ledger) -> Findings:
    """A new pod's node is of a kind that its role may use."""
    for g, new in enumerate(x.new):
        for role, node in new:
            if x.problem.nodes[node].kind not in x.problem.gangs[g].roles[role].kinds:
                yield ("decisions", g, "placements"), f"role {role} may not use node {node}: its kind is {x.problem.nodes[node].kind}"


def capacity(x: Ledger) -> Findings:
    """On each node, per resource: running - evicted + new <= free. Where the running pods alone exceed it: no new pod that asks for the
    resource."""
    use: dict[int, tuple[list[int], list[int]]] = {}
    for which, counts in enumerate((x.stays, x.new)):
        for gang, pods in zip(x.problem.gangs, counts, strict=True):
            for (role, node), amount in pods.items():
                if node not in use:
                    use[node] = ([0] * len(x.problem.resources), [0] * len(x.problem.resources))
                _add(use[node][which], gang.roles[role].request, amount)
    for n, (run, new) in sorted(use.items()):
        for r, free in enumerate(x.problem.nodes[n].free):
            if new[r] and run[r] + new[r] > free:
                yield ("nodes", n, "free", r), f"{free} {x.problem.resources[r]} for {run[r]} running and {new[r]} new"


def topology(x: Ledger) -> Findings:
    """Hard, of tier d: all pods of a gang that grows, running ones included, share one maximal domain of tier <= d.

    A node without such a domain cannot be used. Nothing is asked when d is above every hypernode's tier.
    """
    for g, gang, _ in x.admitted():
        if gang.topology is None or not x.binds(gang.topology) or not x.new[g]:
            continue
        used = {x.domain(node, gang.topology.tier) for _, node in x.placed[g]}
        if len(used) != 1 or None in used:
            yield ("decisions", g, "placements"), f"not inside one domain of tier {gang.topology.tier} or lower"


def subgroups(x: Ledger) -> Findings:
    """Of a gang that grows, each subgroup has whole parts only: its pods are a multiple of its size, and with a hard topology of tier d
    they are so inside each maximal domain of tier <= d, with none outside such domains."""
    for g, gang, _ in x.admitted():
        if not x.new[g]:
            continue
        for k, part in enumerate(gang.subgroups):
            pods: Counter[int | None] = Counter()
            for (role, node), amount in x.placed[g].items():
                if role in part.roles:
                    pods[x.domain(node, part.topology.tier) if x.binds(part.topology) else 0] += amount
            if pods[None] or any(amount % part.size for amount in pods.values()):
                yield ("decisions", g, "placements"), f"subgroup {k} has a part that is not whole inside its domain"


def capability(x: Ledger) -> Findings:
    """For each queue with its descendants, per resource: used + running - evicted + new <= capability. Above it already: no new pod that
    asks."""
    for q, queue in enumerate(x.problem.queues):
        for r, limit in enumerate(queue.capability):
            held = x.before[q][r] - x.lost[q][r]
            if limit is not None and x.added[q][r] and held + x.added[q][r] > limit:
                yield ("queues", q, "capability", r), f"{limit} {x.problem.resources[r]} for {held} held and {x.added[q][r]} new"


def closed(x: Ledger) -> Findings:
    """No new pod in a queue that is closed or below a closed one; with capacity's hierarchy in none that has children."""
    refused = verify_queues.takes_nothing(x.problem)
    for g, gang in enumerate(x.problem.gangs):
        if gang.queue in refused and x.new[g]:
            yield ("decisions", g, "placements"), f"gets new pods in queue {gang.queue}, which takes none"


def real_capability(x: Ledger) -> Findings:
    """With capacity or proportion: as `capability`, of what the guarantees of others leave of it."""
    for q, r, limit, tree in verify_queues.real_capability(x.problem):
        before, added = (x.before[q][r], x.added[q][r]) if tree else (x.own_before[q][r], x.own_new[q][r])
        before -= x.lost[q][r] if tree else x.own_gone[q][r]
        if added and before + added > limit:
            yield ("queues", q, "guarantee", r), f"others' guarantees leave {limit} {x.problem.resources[r]} for {before} held and {added} new"


def proportion(x: Ledger) -> Findings:
    """With proportion: used + running + new of the queue itself <= its share by weight, per resource, where that is less than the whole cluster.
    Above it already: no new pod that asks."""
    for q, share in sorted(verify_queues.proportional(x.problem).items()):
        for name, most in share.items():
            r = x.problem.resources.index(name)
            held, new = x.own_before[q][r] - x.own_gone[q][r], x.own_new[q][r]
            if most < x.totals[r] and new and held + new > most + verify_queues.RESOLUTION:
                yield ("queues", q, "deserved", r), f"{most:f} {name} deserved for {held} held and {new} new"


def guarantees(x: Ledger) -> Findings:
    """What is guaranteed and not used stays free for its queue. With `needs` before the plan and after it, for each resource of which
    some queue is guaranteed more than 0:

        sum of need(q) over the root queues   <=  sum of free over the nodes + sum of used over the queues
        need(q)                               <=  capability(q)                                               for each queue

    Where the need before the plan is above the limit already, it must not grow: new pods only where a guarantee covers them.
    """
    before = needs(x.problem, x.own_before)
    stays = [_plus(held, gone, -1) for held, gone in zip(x.own_before, x.own_gone, strict=True)]
    after = needs(x.problem, [_plus(held, new) for held, new in zip(stays, x.own_new, strict=True)])
    roots = [q for q, queue in enumerate(x.problem.queues) if queue.parent is None]
    for r, name in enumerate(x.problem.resources):
        if not any(queue.guarantee[r] for queue in x.problem.queues):
            continue  # a node that holds more than is free is rule `capacity`'s matter, not a guarantee's
        total = sum(node.free[r] for node in x.problem.nodes) + sum(queue.used[r] for queue in x.problem.queues)
        need = sum(after[q][r] for q in roots)
        if need > max(total, sum(before[q][r] for q in roots)):
            yield ("resources", r), f"{need} {name} held or guaranteed, more than the cluster's {total}"
        for q, queue in enumerate(x.problem.queues):
            limit = queue.capability[r]
            if limit is not None and after[q][r] > max(limit, before[q][r]):
                yield ("queues", q, "guarantee", r), f"{after[q][r]} {name} held or guaranteed inside a capability of {limit}"


def queue_use(x: Ledger) -> Findings:
    """`Plan.queues`: one for each queue in order; allocated = used + running, admitted = new - evicted, both with descendants;
    share = max over resources of (allocated + admitted) / (capacity of all nodes) / weight."""
    if [use.queue for use in x.plan.queues] != list(range(len(x.problem.queues))):
        yield ("queues",), f"there must be one entry for each of the {len(x.problem.queues)} queues, in order"
        return
    for q, use in enumerate(x.plan.queues):
        if use.allocated != x.before[q]:
            yield ("queues", q, "allocated"), f"is {use.allocated}, but {x.before[q]} were held before the plan"
        more = _plus(x.added[q], x.lost[q], -1)
        if use.admitted != more:
            yield ("queues", q, "admitted"), f"is {use.admitted}, but the plan adds {more}"
        held = _plus(x.before[q], more)
        share = max((amount / total for amount, total in zip(held, x.totals, strict=True) if total), default=0.0) / x.problem.queues[q].weight
        if not abs(use.share - share) <= SHARE_TOLERANCE:
            yield ("queues", q, "share"), f"is {use.share!r} instead of {share!r}"


def batches(x: Ledger) -> Findings:
    """Each gang that starts or waits belongs to exactly one batch, one that is kept or evicted to at most one. A batch's verdict is its
    worst objective's."""
    times = Counter(g for batch in x.plan.batches for g in batch.gangs)
    for g in sorted(set(times) | set(x.decisions)):
        if not 0 <= g < len(x.problem.gangs):
            yield ("batches",), f"gang {g} does not exist"
        elif times[g] > 1 or (not times[g] and g in x.decisions and x.decisions[g].action not in ("keep", "evict")):
            yield ("batches",), f"gang {g} is decided {times[g]} times"
    for b, batch in enumerate(x.plan.batches):
        yield from _verdicts(b, batch)


def _verdicts(b: int, batch: Batch) -> Findings:
    for o, objective in enumerate(batch.objectives):
        if fault := _objective(objective):
            yield ("batches", b, "objectives", o), fault
    if batch.verdict not in VERDICTS:
        yield ("batches", b, "verdict"), f"{batch.verdict!r} is none of {', '.join(VERDICTS)}"
    elif batch.objectives and all(objective.verdict in VERDICTS for objective in batch.objectives):
        worst = max((objective.verdict for objective in batch.objectives), key=VERDICTS.index)
        if batch.verdict != worst:
            yield ("batches", b, "verdict"), f"is {batch.verdict!r}, but an objective's is {worst!r}"


def _objective(objective: Objective) -> str:
    """gap = |bound - value| / max(1, |value|); proven only when it is at most `PROVEN_GAP`. Empty when all is well."""
    if objective.verdict not in VERDICTS:
        return f"{objective.verdict!r} is none of {', '.join(VERDICTS)}"
    if not math.isfinite(objective.value):
        return f"value {objective.value} is no number"
    gap = abs(objective.bound - objective.value) / max(1.0, abs(objective.value))
    if gap != objective.gap and not abs(gap - objective.gap) <= SHARE_TOLERANCE * max(1.0, gap):
        return f"gap is {objective.gap!r} instead of {gap!r}"
    if objective.verdict == "proven" and not gap <= PROVEN_GAP:
        return f"a gap of {gap!r} is not proven"
    return ""


def reasons(x: Ledger) -> Findings:
    """A waiting gang has at least one fact, any other neither facts nor repairs; what they point at exists; no gang that fits the empty
    cluster in a way that is easily seen is said to fit never."""
    for g, decision in sorted(x.decisions.items()):
        if decision.action == "wait" and not decision.facts:
            yield ("decisions", g, "facts"), "waits without a reason"
        if decision.action != "wait" and (decision.facts or decision.repairs):
            yield ("decisions", g, "facts"), "is admitted, yet has reasons to wait or repairs"
        for f, fact in enumerate(decision.facts):
            if not _points_somewhere(x.problem, g, fact):
                yield ("decisions", g, "facts", f), "points at a role, subgroup, queue, resource, hypernode, node or gang that does not exist"
        for p, repair in enumerate(decision.repairs):
            if not (_within(repair.queue, x.problem.queues) and _within(repair.resource, x.problem.resources)):
                yield ("decisions", g, "repairs", p), "points at a queue or resource that does not exist"
        never = [f for f, fact in enumerate(decision.facts) if fact.never]
        if never and _fits_empty_cluster(x, g):
            yield ("decisions", g, "facts", never[0]), "says never, but the gang fits the empty cluster"


def _within(index: int | None, items: Sequence[object]) -> bool:
    return index is None or 0 <= index < len(items)


def _points_somewhere(problem: Problem, gang: int, fact: Fact) -> bool:
    return (
        _within(fact.role, problem.gangs[gang].roles)
        and _within(fact.queue, problem.queues)
        and _within(fact.resource, problem.resources)
        and _within(fact.hypernode, problem.hypernodes)
        and _within(fact.relation, problem.relations)
        and all(_within(other, problem.gangs) for other in fact.gangs)
        and all(_within(other, problem.queues) for other in fact.queues)
        and all(_within(other, problem.nodes) for other in fact.nodes)
        and _within(fact.subgroup, problem.gangs[gang].subgroups)
    )


def _fits_empty_cluster(x: Ledger, g: int) -> bool:
    """A sufficient test only: the minima fit inside one domain with no node shared by two roles, within all queues' limits.

    False for gangs whose minima are not simply the roles' (subgroups, or a minimum above the roles' sum), for those in relations and for pods
    with portions of cells.
    """
    gang = x.problem.gangs[g]
    if any(role.bears or role.matches or role.portions for role in gang.roles):
        return False
    if gang.subgroups or gang.minimum > sum(role.minimum for role in gang.roles):
        return False
    demand = [0] * len(x.problem.resources)
    for role in gang.roles:
        _add(demand, role.request, role.minimum)
    return _within_limits(x, gang.queue, tuple(demand)) and any(_fits_nodes(x, gang, nodes) for nodes in x.choices(gang.topology))


def _fits_nodes(x: Ledger, gang: Gang, nodes: Iterable[int]) -> bool:
    left = iter(nodes)
    for role in gang.roles:
        missing = role.minimum
        while missing > 0:
            n = next(left, None)
            if n is None:
                return False
            node = x.problem.nodes[n]
            if node.kind in role.kinds:
                missing -= min((have // ask for have, ask in zip(node.capacity, role.request, strict=True) if ask), default=missing)
    return True


def _within_limits(x: Ledger, queue: int, demand: Vector) -> bool:
    """Whether `demand` in one queue keeps every capability and guarantee when no queue holds anything else."""
    problem, nothing = x.problem, (0,) * len(demand)
    before = needs(problem, [nothing] * len(problem.queues))
    after = needs(problem, [demand if q == queue else nothing for q in range(len(problem.queues))])
    roots = [q for q, spec in enumerate(problem.queues) if spec.parent is None]
    for r in range(len(demand)):
        if sum(after[q][r] for q in roots) > max(x.totals[r], sum(before[q][r] for q in roots)):
            return False
        limits = [(spec.capability[r], before[q][r], after[q][r]) for q, spec in enumerate(problem.queues)]
        if any(limit is not None and need > max(limit, idle) for limit, idle, need in limits):
            return False
    path, above = [], x.problem.queues[queue].parent
    while above is not None:
        path.append(above)
        above = problem.queues[above].parent
    if any(q == queue or (tree and q in path) for q, r, most, tree in verify_queues.real_capability(problem) if demand[r] > most):
        return False
    limits_of = [problem.queues[q].capability for q in (queue, *path)]
    return all(limit is None or amount <= limit for limits in limits_of for limit, amount in zip(limits, demand, strict=True))


RULES = (
    decisions,
    actions,
    running_stay,
    replicas,
    domains,
    eligibility,
    capacity,
    topology,
    subgroups,
    capability,
    closed,
    real_capability,
    proportion,
    guarantees,
    queue_use,
    batches,
    reasons,
    verify_cells.cells,
    *VICTIM_RULES,
    *RELATION_RULES,
    *TIME_RULES,
    *VALUE_RULES,
)
