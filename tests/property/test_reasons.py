"""Facts against brute force: with all of them out of the way a gang starts, with one of them left it does not; and
repairs do what they say.

What "out of the way" means is written here once more, from the words of docs/reference/reasons.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from hypothesis import event, given
from hypothesis import strategies as st

from solver import solve
from solver.facts import (
    AwayNodes,
    Borrowing,
    CapabilityLimit,
    ClosedQueue,
    DomainShortage,
    EligibleNodeShortage,
    Fact,
    Fragmentation,
    GuaranteeReserve,
    NoEligibleNode,
    OversizedGang,
    OversizedPod,
    PrecedingGangs,
    ResourceShortage,
    ShareLimit,
    SlotShortage,
    SubgroupShortage,
    UnmatchedPod,
)
from solver.plan import Decision, Plan
from solver.problem import Gang, Node, PodRule, Problem, ReturningNode, Subgroup, Topology
from solver.repairs import (
    EndOfGangs,
    EndOfPods,
    FewerPods,
    HigherGroupLimit,
    HigherPriority,
    HigherTier,
    MoreCapability,
    MoreDeserved,
    MoreNodeClasses,
    MoreNodes,
    MoreWeight,
    OpenQueue,
    Repair,
    SmallerGuarantee,
    SmallerPods,
    SmallerSubgroups,
    SoftSeparation,
    SoftTopology,
)
from solver.verify import verify
from tests.builders.depth import settings
from tests.builders.plans import solve_without_repairs
from tests.builders.strategies import contended_problems, problems, problems_under_policies, problems_with_slots
from tests.property.brute import FreeCapacity, alone_on_empty_cluster, minimal_sets, new_pod_sets
from tests.property.brute_queues import QueueCeilings, accepts_gangs
from tests.property.plan_events import rare_events
from tests.property.test_queues_first import odd_worlds, quota_worlds

ANYWHERE = Topology("soft", 1)
BUSY = {"GW102", "GW119"}
"""Facts of what runs, where they do not say never."""


def alone(world: Problem, plan: Plan, g: int, beside: bool) -> Problem:
    """Gang g by itself on what is left next to all that runs or (beside) that the plan places; what the others hold of
    their queues is `used`."""
    nodes, queues = [list(node.free) for node in world.nodes], [list(queue.used) for queue in world.queues]
    for decision in plan.decisions:
        other = world.gangs[decision.gang]
        for place in () if decision.gang == g else decision.placements if beside else other.running:
            for r, amount in enumerate(other.roles[place.role].request):
                nodes[place.node][r] -= amount * place.pods
                queues[other.queue][r] += amount * place.pods
    return replace(
        world,
        nodes=tuple(
            replace(node, free=tuple(max(0, x) for x in free)) for node, free in zip(world.nodes, nodes, strict=True)
        ),
        queues=tuple(replace(queue, used=tuple(used)) for queue, used in zip(world.queues, queues, strict=True)),
        gangs=(world.gangs[g],),
    )


def starts(nodes: Problem, queues: Problem, ceilings: QueueCeilings, cluster: str = "held") -> bool:
    """Whether the one gang finds a place on the nodes of one world that the queues of the other allow, and the ceilings
    of its policy.

    cluster: what holds it where guarantees are kept in all of it: "held" as said, "idle" nothing, "none": that is not
    asked.
    """
    if not accepts_gangs(queues, queues.gangs[0].queue):
        return False
    (gang,), here, there = queues.gangs, FreeCapacity(nodes), FreeCapacity(queues)
    if cluster != "held":
        there.total = [10**9] * len(there.total)
    idle = FreeCapacity(
        replace(
            queues,
            nodes=tuple(replace(node, free=node.capacity) for node in queues.nodes),
            queues=tuple(replace(queue, used=(0, 0), capability=(None, None)) for queue in queues.queues),
            gangs=(replace(gang, running=()),),
        )
    )
    for option in minimal_sets(new_pod_sets(nodes, 0)):
        pods = there.use_of(0, option)
        demand = tuple(sum(column) for column in zip(*pods, strict=True))
        added = [demand if q == gang.queue else (0, 0) for q in range(len(queues.queues))]
        allowed = (
            there.fits_queues(added)
            and ceilings.allow_amounts(there.held, added)
            and (cluster != "idle" or idle.fits_queues(added))
        )
        if allowed and here.fits_nodes(here.use_of(0, option)):
            return True
    return False


def limits(world: Problem, there: Problem, g: int, unshared: Collection[tuple[int, int]] = ()) -> QueueCeilings:
    """What the policy makes of the queues, nodes and gang as they are `there`, where gang g is alone: shares by weight
    depend on what all ask for."""
    queues = tuple(replace(queue, used=was.used) for queue, was in zip(there.queues, world.queues, strict=True))
    gangs = tuple(there.gangs[0] if j == g else gang for j, gang in enumerate(world.gangs))
    return QueueCeilings.of(replace(world, nodes=there.nodes, queues=queues, gangs=gangs), unshared)


def up(world: Problem, queue: int) -> set[int]:
    """The queue and those above it."""
    path = {queue}
    while (above := world.queues[queue].parent) is not None:
        path.add(queue := above)
    return path


def without(limits: Sequence[int | None], r: int) -> tuple[int | None, ...]:
    return tuple(None if i == r else limit for i, limit in enumerate(limits))


def more(limits: Sequence[int | None], r: int, amount: int) -> tuple[int | None, ...]:
    return tuple((limit or 0) + amount if i == r else limit for i, limit in enumerate(limits))


def with_gang(world: Problem, **changes: object) -> Problem:
    (gang,) = world.gangs
    return replace(world, gangs=(replace(gang, **changes),))  # type: ignore[arg-type]


def with_role(world: Problem, t: int | None, **changes: object) -> Problem:
    """Role t, or every one where it is None, changed."""
    (gang,) = world.gangs
    roles = tuple(replace(role, **changes) if t in (None, k) else role for k, role in enumerate(gang.roles))  # type: ignore[arg-type]
    return with_gang(world, roles=roles)


def with_part(world: Problem, i: int | None, **changes: object) -> Problem:
    (gang,) = world.gangs
    parts = tuple(replace(part, **changes) if k == i else part for k, part in enumerate(gang.subgroups))  # type: ignore[arg-type]
    return with_gang(world, subgroups=parts)


def queues_without(world: Problem, fact: Fact) -> Problem:
    """The limits of queues without what a fact says of them; for shares by weight see `limits`."""
    path, queues = up(world, world.gangs[0].queue), list(world.queues)
    match fact:
        case CapabilityLimit(queue=q, resource=r):
            queues[q] = replace(queues[q], capability=without(queues[q].capability, r))
        case GuaranteeReserve(resource=r):
            kept = path - set(fact.queues)
            queues = [x if q in kept else replace(x, guarantee=without(x.guarantee, r)) for q, x in enumerate(queues)]
        case ClosedQueue():
            queues = [replace(x, open=True) if q in path else x for q, x in enumerate(queues)]
    return replace(world, queues=tuple(queues))


def nodes_without(world: Problem, fact: Fact) -> Problem:
    """The gang and the nodes without what a fact says of them."""
    match fact:
        case AwayNodes():
            return returned(world, fact.nodes)
        case DomainShortage():
            return with_gang(world, topology=ANYWHERE)
        case SubgroupShortage():
            return with_part(world, fact.subgroup, topology=ANYWHERE)
        case NoEligibleNode() | EligibleNodeShortage():
            return with_role(world, fact.role, node_classes=frozenset({0, 1}))
        case SlotShortage():
            return with_role(world, fact.role, slot_requests=())
        case OversizedPod() | UnmatchedPod():
            return with_role(world, fact.role, request=(0, 0), slot_requests=())
        case OversizedGang() | ResourceShortage(never=True) | Fragmentation(never=True):
            return with_role(world, None, request=(0, 0), slot_requests=())
        case ResourceShortage() | Fragmentation():
            return replace(world, nodes=tuple(cleared(node) for node in world.nodes))
    return world


def cleared(node: Node) -> Node:
    return replace(node, free=node.capacity, slots=tuple(replace(cell, free=cell.capacity) for cell in node.slots))


def starts_without(world: Problem, plan: Plan, g: int, facts: Sequence[Fact], every: Sequence[Fact]) -> bool:
    """Whether gang g starts with some of its facts out of the way. every: all of them, which say next to whom it is
    asked."""
    beside_what_runs = alone(world, plan, g, False)
    late = not any(fact.code in NODES or fact.never for fact in every) and starts(
        beside_what_runs, beside_what_runs, limits(world, replace(world, gangs=(world.gangs[g],)), g)
    )
    gone = {j for fact in facts if isinstance(fact, PrecedingGangs | Borrowing) for j in fact.gangs}
    if any(isinstance(fact, PrecedingGangs) for fact in facts):  # gangs of lower priority only fill in behind them
        priority = world.gangs[g].priority
        gone |= {d.gang for d in plan.decisions if d.action == "start" and world.gangs[d.gang].priority < priority}
    # Who runs grows only into what is left over, so that is in nobody's way.
    left = [
        () if d.gang in gone else world.gangs[d.gang].running if d.action == "keep" else d.placements
        for d in plan.decisions
    ]
    kept = replace(
        plan, decisions=tuple(replace(d, placements=places) for d, places in zip(plan.decisions, left, strict=True))
    )
    nodes, queues = alone(world, kept, g, late), alone(world, plan, g, late)
    for fact in facts:
        nodes, queues = nodes_without(nodes, fact), queues_without(queues, fact)
    queues = returned(queues, {n for fact in every if isinstance(fact, AwayNodes) for n in fact.nodes})
    sized = any(
        any(a != b for a, b in zip(x.request, y.request, strict=True))
        for x, y in zip(nodes.gangs[0].roles, world.gangs[g].roles, strict=True)
    )
    idle = any(fact.code in BUSY and not fact.never for fact in facts)
    crowded = any(fact.code in ("GW105", "GW124") for fact in every)
    unshared = {(fact.queue, fact.resource) for fact in facts if isinstance(fact, ShareLimit)}
    return starts(
        nodes, queues, limits(world, queues, g, unshared), "none" if sized or crowded else "idle" if idle else "held"
    )


NODES = {"GW102", "GW103", "GW104", "GW107", "GW108", "GW109", "GW118", "GW119", "GW120", "GW122"}


def waiting(
    world: Problem, solver: Callable[[Problem], Plan] = solve_without_repairs
) -> Iterator[tuple[Plan, Decision]]:
    plan = solver(world)
    assert verify(world, plan) == []
    for decision in plan.decisions:
        if decision.action == "wait" and not world.gangs[decision.gang].running:
            event(" ".join(sorted({fact.code for fact in decision.facts})))
            yield plan, decision


def worlds() -> st.SearchStrategy[Problem]:
    """Odd in every way, or contended."""
    return st.one_of(
        problems_under_policies(problems(running="whole gangs")), problems_under_policies(contended_problems())
    )


@st.composite
def absent(draw: st.DrawFn) -> Problem:
    """The same, some nodes on which nothing runs away for now: they have nothing, or are only cordoned, and are of a
    kind that is open to nobody."""
    world = draw(worlds())
    busy = {place.node for gang in world.gangs for place in gang.running}
    nothing = (0,) * len(world.resources)
    is_cordoned = draw(st.booleans())
    nodes = [
        replace(
            node,
            node_class=9,
            capacity=node.capacity if is_cordoned else nothing,
            free=node.free if is_cordoned else nothing,
            returning=ReturningNode(node.node_class, node.capacity, node.free),
        )
        if n not in busy and draw(st.booleans())
        else node
        for n, node in enumerate(world.nodes)
    ]
    return replace(world, nodes=tuple(nodes))


def returned(world: Problem, nodes: Collection[int]) -> Problem:
    """With these nodes back."""
    there = list(world.nodes)
    for n in nodes:
        if (then := there[n].returning) is not None:
            there[n] = replace(
                there[n], node_class=then.node_class, capacity=then.capacity, free=then.free, returning=None
            )
    return replace(world, nodes=tuple(there))


def subject(fact: Fact) -> tuple[object, ...]:
    """What a fact is about. What guarantees keep is one reason wherever it is measured."""
    about = ("queue", "resource", "role", "subgroup")
    return fact.code, *(getattr(fact, name, None) for name in about if (fact.code, name) != ("GW106", "queue"))


def test_without_its_facts_a_gang_starts_and_with_one_of_them_it_does_not() -> None:
    seen = Counter[str]()

    @settings(max_examples=260)
    @given(st.one_of(worlds(), absent(), problems_with_slots()))
    def minimal(world: Problem) -> None:
        for plan, decision in waiting(world):
            seen.update({fact.code for fact in decision.facts})
            assert "GW110" not in {fact.code for fact in decision.facts}
            assert len({subject(fact) for fact in decision.facts}) == len(decision.facts)
            assert all(fact.queues for fact in decision.facts if isinstance(fact, GuaranteeReserve))
            if world.slot_groups and {"GW105", "GW124"} & {fact.code for fact in decision.facts}:
                continue  # which cells the plan leaves is not known here
            assert starts_without(world, plan, decision.gang, decision.facts, decision.facts)
            for fact in decision.facts:
                rest = [other for other in decision.facts if other is not fact]
                assert not starts_without(world, plan, decision.gang, rest, decision.facts), fact

    minimal()
    assert rare_events(seen, GW101=38, GW106=16, GW112=32, GW113=16) == {}  # of queues
    assert (
        rare_events(
            seen, GW102=32, GW103=16, GW104=5, GW105=5, GW107=12, GW108=32, GW109=3, GW118=9, GW119=16, GW122=19
        )
        == {}
    )


@settings(max_examples=80)
@given(worlds())
def test_a_gang_that_never_fits_has_a_permanent_fact(world: Problem) -> None:
    for _, decision in waiting(world):
        empty = alone_on_empty_cluster(world, decision.gang)
        unshared = set(product(range(len(world.queues)), range(len(world.resources))))
        fits = starts(empty, empty, QueueCeilings.of(replace(empty, policy=world.policy), unshared))
        assert any(fact.never for fact in decision.facts) != fits


def requeued(world: Problem, repair: Repair) -> Problem:
    """The same with one change of a queue made."""
    queues = list(world.queues)
    match repair:
        case MoreCapability(queue=q, resource=r, amount=amount):
            queues[q] = replace(queues[q], capability=more(queues[q].capability, r, amount))
        case SmallerGuarantee(queue=q, resource=r, amount=amount):
            queues[q] = replace(queues[q], guarantee=more(queues[q].guarantee, r, -amount))
        case MoreWeight(queue=q, amount=amount):
            queues[q] = replace(queues[q], weight=amount)
        case MoreDeserved(queue=q, resource=r, amount=amount):
            deserved = (amount if i == r else x for i, x in enumerate(queues[q].deserved))
            queues[q] = replace(queues[q], deserved=tuple(deserved))
        case OpenQueue(queue=q):
            queues[q] = replace(queues[q], open=True)
    return replace(world, queues=tuple(queues))


def changed(world: Problem, repair: Repair) -> Problem:
    """The one gang's world with one change made."""
    (gang,) = world.gangs
    match repair:
        case MoreCapability() | SmallerGuarantee() | MoreWeight() | OpenQueue():
            return requeued(world, repair)
        case HigherTier() | SoftTopology():
            topology = Topology("hard", repair.tier) if isinstance(repair, HigherTier) else ANYWHERE
            if repair.subgroup is None:
                return with_gang(world, topology=topology)
            return with_part(world, repair.subgroup, topology=topology)
        case SoftSeparation() | HigherGroupLimit():
            return with_other_rules(world, gang, repair)
        case EndOfPods():
            return replace(world, nodes=tuple(replace(node, free=node.capacity) for node in world.nodes))
        case MoreNodes(node=n, amount=amount):
            like = world.nodes[n]
            new = (Node(f"new{n}", like.node_class, like.leaf, like.capacity, like.capacity) for n in range(amount))
            return replace(world, nodes=(*world.nodes, *new))
        case FewerPods(role=int(t)):
            return fewer(world, gang, t, repair.amount)
        case SmallerSubgroups(subgroup=k, amount=amount):
            part = gang.subgroups[k]
            return with_part(world, k, size=amount, minimum=part.minimum * part.size // amount)
        case MoreNodeClasses(role=t, node=n):
            return with_role(world, t, node_classes=gang.roles[t].node_classes | {world.nodes[n].node_class})
        case SmallerPods():
            return smaller(world, gang, repair)
        case EndOfGangs() | HigherPriority():
            return world
    raise AssertionError(repair)


def with_other_rules(world: Problem, gang: Gang, repair: SoftSeparation | HigherGroupLimit) -> Problem:
    if isinstance(repair, SoftSeparation):
        separations = {rho for rho, rule in enumerate(world.pod_rules) if rule.rule_kind == "separation"}
        roles = (
            replace(r, owned_rules=tuple(rho for rho in r.owned_rules if rho not in separations)) for r in gang.roles
        )
        return with_gang(world, roles=tuple(roles), topology=gang.topology_without_rules)

    def raised(rule: PodRule) -> PodRule:
        if rule.quota is None or (rule.quota.queue, rule.quota.resource) != (repair.queue, repair.resource):
            return rule
        is_meant = repair.node_groups == (rule.quota.node_group,) and rule.quota.limit == repair.current_amount
        return replace(rule, quota=replace(rule.quota, limit=repair.amount)) if is_meant else rule

    return replace(world, pod_rules=tuple(map(raised, world.pod_rules)))


def smaller(world: Problem, gang: Gang, repair: SmallerPods) -> Problem:
    was, r, amount = gang.roles[repair.role], repair.resource, repair.amount

    def less(vector: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(amount if i == r and x == was.request[r] else x for i, x in enumerate(vector))

    portions = tuple(replace(p, share=less(p.share)) for p in was.slot_requests)
    return with_role(world, repair.role, request=less(was.request), slot_requests=portions)


def fewer(world: Problem, gang: Gang, t: int, pods: int) -> Problem:
    role = gang.roles[t]
    rigid = role.minimum == role.replicas
    roles = tuple(
        replace(x, minimum=pods, replicas=pods if rigid else x.replicas) if k == t else x
        for k, x in enumerate(gang.roles)
    )
    parts = tuple(_less(part, pods) if t in part.roles else part for part in gang.subgroups)
    return with_gang(world, roles=roles, subgroups=parts, minimum=sum(x.minimum for x in roles))


def _less(part: Subgroup, pods: int) -> Subgroup:
    return replace(part, minimum=min(part.minimum, pods // part.size))


def beside(world: Problem, plan: Plan, g: int, repairs: Iterable[Repair]) -> Problem:
    """Gang g next to the plan with all these changes made."""
    made = list(repairs)
    gone = {j for repair in made if isinstance(repair, EndOfGangs) for j in repair.gangs}
    first = any(isinstance(repair, HigherPriority) for repair in made)
    left = [replace(d, placements=()) if d.gang in gone else d for d in plan.decisions]
    gangs = tuple(replace(gang, running=()) if j in gone else gang for j, gang in enumerate(world.gangs))
    there = alone(replace(world, gangs=gangs), replace(plan, decisions=tuple(left)), g, not first)
    for repair in made:
        there = changed(there, repair)
    return there


def lesser(repair: Repair) -> Iterator[Repair]:
    """The repair with one step less of a change."""
    match repair:
        case MoreCapability() | MoreNodes() | SmallerGuarantee() | MoreWeight() if repair.amount > 1:
            yield replace(repair, amount=repair.amount - 1)
        case FewerPods() if repair.amount:
            yield replace(repair, amount=repair.amount + 1)


def is_of_order(decision: Decision, repair: Repair) -> bool:
    """Whether it brings the gang before others, which then go elsewhere or wait."""
    borrows = any(isinstance(fact, Borrowing) for fact in decision.facts)
    return isinstance(repair, HigherPriority | MoreDeserved) or (borrows and isinstance(repair, MoreWeight))


def with_order(world: Problem, g: int, repair: Repair) -> Problem:
    """The whole world with a change of the order made."""
    if isinstance(repair, HigherPriority):
        gangs = (replace(x, priority=repair.amount) if j == g else x for j, x in enumerate(world.gangs))
        return replace(world, gangs=tuple(gangs))
    return requeued(world, repair)


def equal_gangs(world: Problem, plan: Plan, g: int) -> list[int]:
    """The waiting gangs of which only names and ages tell gang g."""

    def anonymous(j: int) -> Gang:
        return replace(world.gangs[j], name="", age=0)

    return [d.gang for d in plan.decisions if d.action == "wait" and anonymous(d.gang) == anonymous(g)]


@settings(max_examples=50)
@given(st.one_of(worlds(), odd_worlds(), quota_worlds()))
def test_with_a_repair_the_gang_starts_beside_the_plan_and_with_a_little_less_it_does_not(world: Problem) -> None:
    for plan, decision in waiting(world, solve):
        g = decision.gang
        for repair in decision.repairs:
            event(f"{repair.code} and {len(repair.also)}")
            if is_of_order(decision, repair) and not repair.also:
                then = solve(with_order(world, g, repair)).decisions
                meant = [g] if isinstance(repair, HigherPriority) else equal_gangs(world, plan, g)
                assert any(then[j].action == "start" for j in meant), repair
                continue
            there = beside(world, plan, g, (repair, *repair.also))
            assert starts(there, there, limits(world, there, g)), repair
            for smaller_repair in lesser(repair) if not repair.also and not world.gangs[g].subgroups else ():
                less = beside(world, plan, g, (smaller_repair,))
                assert not starts(less, less, limits(world, less, g)), repair
