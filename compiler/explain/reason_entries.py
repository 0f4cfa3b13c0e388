"""The reasons of the catalogue: for each type of fact its title, its texts and the sources that it points to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compiler.explain import statement_sources as sources
from compiler.explain.entries import Entry, entries_by_type
from solver import facts


@dataclass(frozen=True, slots=True)
class Suspension(facts.Fact, code="GW111"):
    """The job's owner suspended it; it is in no problem."""


@dataclass(frozen=True, slots=True)
class LostStart(facts.Fact, code="GW125"):
    """An earlier plan told the gang a start, and this one does not keep it. gangs: all that are named. Of these, ends:
    those whose end is awaited; late: others that run longer than they said; first: the one that the plan reserves room
    for; without these, those that took the room. queue: whose share became too small for it."""

    gangs: tuple[int, ...]
    ends: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    queue: int | None = None


@dataclass(frozen=True, slots=True)
class NoRoomKept(facts.Fact, code="GW126"):
    """The pods of a job or service that the plan binds to no node find no node with room; it is in no problem."""


REASONS: Mapping[type[facts.Fact], Entry[Any]] = entries_by_type(
    Entry(
        facts.CapabilityLimit,
        "queue capability reached",
        ("queue {queue} may hold {limit} and has {available:n} left; the job asks for {asked:n}",),
        sources.capability_limit,
        never_texts=("queue {queue} may never hold more than {limit}; the job asks for {asked:n}",),
        special_texts=(
            "of the {limit} that queue {queue} may hold, never more than {available:n} are left beyond what other "
            "queues are guaranteed ({queues}); the job asks for {asked:n}",
        ),
        remedy="Raise the queue's capability, ask for less, or use another queue.",
    ),
    Entry(
        facts.ResourceShortage,
        "not enough of a resource is free",
        ("{available} free on the nodes open to it; the job asks for {asked:n}",),
        lambda s, j, x: sources.capacity(s, j, x.role, x.resource),
        never_texts=("the nodes open to it have {available} even when empty; the job asks for {asked:n}",),
        remedy="Wait for a job to end, ask for less, or add nodes.",
    ),
    Entry(
        facts.OversizedPod,
        "no node can hold one pod",
        (
            "no node open to it has room for one pod of role {role} now: a pod asks for {asked}, the roomiest "
            "node has {available:n}",
        ),
        lambda s, j, x: sources.capacity(s, j, x.role, x.resource),
        never_texts=(
            "no node open to it is large enough for one pod of role {role}: a pod asks for {asked}, the largest "
            "node has {available:n}",
        ),
        special_texts=(
            "no node has {absent}, of which a pod of role {role} asks for {asked:n}; did you mean {near}?",
            "no node has {absent}, of which a pod of role {role} asks for {asked:n}",
            "no node open to role {role} has {lacking}, of which a pod asks for {asked:n}; {owners}",
        ),
        remedy="Make the pod smaller, or add a larger kind of node.",
    ),
    Entry(
        facts.UnmatchedPod,
        "no node can hold one pod",
        ("no node open to it has room for one pod of role {role}",),
        lambda s, j, x: sources.capacity(s, j, x.role, None),
        never_texts=("no node open to it is large enough for one pod of role {role}",),
    ),
    Entry(
        facts.DomainShortage,
        "no domain of the allowed tier has room",
        (
            "it must sit inside one tier-{tier} domain; the best, {hypernode}, has room for {available:n} of "
            "{asked:pods}",
            "it must sit inside one tier-{tier} domain, and none has room for {asked:pods}",
        ),
        sources.domain,
        never_texts=(
            "it must sit inside one tier-{tier} domain; even empty, the best, {hypernode}, holds {available:n} of"
            " {asked:pods}",
            "it must sit inside one tier-{tier} domain, and even empty none holds {asked:pods}",
        ),
        remedy="Allow a higher tier, or wait for a whole domain.",
    ),
    Entry(
        facts.PrecedingGangs,
        "others are served first",
        (
            "there is room for it alone, but jobs before it in order take that room: {gangs}",
            "there is room for it alone, but jobs before it in order take that room",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
        remedy="Wait, or raise the job's priority or its queue's share.",
    ),
    Entry(
        facts.Borrowing,
        "it would borrow, and others go first",
        (
            "it would borrow: queue {queue} is entitled to {limit} and holds {held:n}; the job asks for {asked:n}, "
            "and what is free goes first to what queues are entitled to, then to those with lower shares: {gangs}",
        ),
        sources.borrowing,
        special_texts=(
            "it would borrow: queue {queue} is entitled to {limit} and holds {held:n}; the job asks for {asked:n}, "
            "and what is free goes first to what queues are entitled to, then to jobs that were told a start ({told}), "
            "then to those with lower shares: {gangs}",
        ),
        remedy=(
            "Wait, ask for less, or raise what the queue deserves, or its weight. A priority decides inside the queue "
            "only."
        ),
    ),
    Entry(
        facts.GuaranteeReserve,
        "the room is kept for guarantees",
        (
            "{available} free beyond what other queues are guaranteed ({queues}); the job asks for {asked:n}",
            "{available} free beyond what other queues are guaranteed; the job asks for {asked:n}",
        ),
        sources.guarantee_reserve,
        never_texts=(
            "beyond what other queues are guaranteed ({queues}) there is never more than {available}; the job "
            "asks for {asked:n}",
            "beyond what other queues are guaranteed there is never more than {available}; the job asks for {asked:n}",
        ),
        remedy=(
            "Lower the other queues' guarantees, or give this queue one. Without a hierarchy of queues the "
            "plugins capacity and proportion keep what is guaranteed to a queue from those below it too."
        ),
    ),
    Entry(
        facts.DedicatedDomains,
        "the room is kept for guarantees",
        ("what it would fit into is kept for queue {queue}, which is guaranteed whole domains of tier {tier}",),
        sources.dedicated_domains,
    ),
    Entry(
        facts.NoEligibleNode,
        "no node is open to a role",
        ("no node matches the node selector, affinity and tolerations of role {role}",),
        sources.eligibility,
        special_texts=(
            "{nothing}, so that none is open to role {role}",
            "no node that the selector, affinity and tolerations of role {role} match has its topologyPolicy "
            "{policy} and a static CPU manager",
            "{matched}; {tainted}, which role {role} does not tolerate",
            "no node has {unmatched}, as role {role} demands; {near}",
            "no node has {unmatched}, as role {role} demands",
            "no node has all that role {role} demands: {demanded}",
        ),
        remedy="Correct the selector, affinity or topologyPolicy, add the toleration, or label the nodes.",
    ),
    Entry(
        facts.ClosedNodeGroups,
        "the room is in node groups closed to its queue",
        ("queue {queue} may not use {named_groups}, and has too little room without, even empty",),
        sources.node_groups,
        remedy=(
            "Add the group to requiredDuringSchedulingIgnoredDuringExecution of the queue's nodeGroupAffinity (it "
            "inherits no group then) and take it out of its nodeGroupAntiAffinity, give nodes without a group (none) "
            "the label volcano.sh/nodegroup-name, or use another queue."
        ),
    ),
    Entry(
        facts.OversizedGang,
        "larger than the cluster",
        ("the job asks for {asked}; the whole cluster, empty, has {limit:n}",),
        lambda s, j, x: sources.capacity(s, j, None, x.resource),
        special_texts=(
            "no node has {absent}, of which the job asks for {asked:n}; did you mean {near}?",
            "no node has {absent}, of which the job asks for {asked:n}",
        ),
        remedy="Ask for less, or add nodes.",
    ),
    Entry(
        facts.SubgroupShortage,
        "subgroups cannot be formed whole",
        (
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; the domains have "
            "room for {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and the domains have not "
            "enough room",
        ),
        lambda s, j, x: (s.subgroup_source(j, x.subgroup),),
        never_texts=(
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; even empty, the "
            "domains hold {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and even empty the "
            "domains do not hold enough of them",
        ),
        remedy="Make the groups smaller, or allow a higher tier.",
    ),
    Entry(
        facts.Undecided,
        "no decision was proved in time",
        ("the solver reached its limit before it could prove whether the job fits",),
        sources.time_limit,
        remedy="Raise the cluster's time limit, or plan again.",
    ),
    Entry(
        Suspension,
        "suspended",
        ("its owner suspended it",),
        sources.no_sources,
        special_texts=("it is for the scheduler {scheduler}",),
        remedy="Resume the job, or name Volcano as its scheduler.",
    ),
    Entry(
        NoRoomKept,
        "no room for pods that go where their scheduler puts them",
        ("no node that its pods match has room for one of them now",),
        sources.no_sources,
        remedy="See their requests, selectors and tolerations, and what else takes the room.",
    ),
    Entry(
        LostStart,
        "a promised start is lost",
        (
            "it was told a start at {told}; lost to {gangs}",
            "it was told a start at {told}, for which there is no room any more",
            "an earlier plan told it a start that this one does not keep",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
        special_texts=(
            "it was told a start at {told}; {late} did not end when expected; now it is expected to start at {at}, "
            "after {ends}",
            "it was told a start at {told}; now it is expected to start at {at}, after {ends}",
            "it was told a start at {told}; lost to {gangs}, so that it is expected to start at {at}",
            "it was told a start at {told}; now it waits for {ends}, of which no end is known",
            "it was told a start at {told}; now the plan reserves room for {first}, which comes first",
            "it was told a start at {told}; now the share of queue {queue} is too small for it",
        ),
        remedy=(
            "A start that was told is kept against jobs that would go later in its queue, and against borrowers of "
            "other queues. It moves where a job runs longer than was said, where nodes are lost, and for jobs that go "
            "first whenever they come: of a higher priority, or where the job would borrow and they are within what "
            "their queue is entitled to. A plan reserves room for one job only: while one that comes first has the "
            "reservation, no start is told to the others. Where shares follow what queues ask for (proportion, drf), a "
            "newcomer also makes them smaller."
        ),
    ),
    Entry(
        facts.ShareLimit,
        "the queue's proportional share is used up",
        ("queue {queue} deserves {limit} by its weight and has {available:n} of it left; the job asks for {asked:n}",),
        sources.share_limit,
        remedy=(
            "Raise the queue's weight, ask for less, or wait until other queues ask for less: the plugin "
            "proportion lets no queue exceed its share."
        ),
    ),
    Entry(
        facts.ClosedQueue,
        "the queue takes no jobs",
        ("queue {queue} is closed, or has children that take the jobs",),
        sources.closed_queue,
        special_texts=("queue {closed} is closed", "queue {parent} has children, which take the jobs"),
        remedy="Open the queue, or name another one.",
    ),
    Entry(
        facts.ReservedNodes,
        "room is reserved",
        ("there is room for it, but it would still be there when {gangs} needs what is reserved for it",),
        sources.reserved_nodes,
        remedy="Wait, or say with gangplan.dev/expected-duration that it ends before the reserved job starts.",
    ),
    Entry(
        facts.NobodyEvicted,
        "nobody is evicted for it",
        ("nobody is evicted for it",),
        sources.eviction_obstacle,
        special_texts=(
            "nobody is evicted for it, though {gangs} could be: no action of the scheduler {action}",
            "nobody is evicted for it, though {gangs} could be: {nonreclaimable} is not reclaimable",
            "nobody is evicted for it, though {gangs} could be: {protection}",
            "nobody is evicted for it, though {gangs} could be: {rule}",
            "nobody is evicted for it: no job of its queue that runs has a lower priority",
        ),
        remedy="The repairs name the edit that lets pods go, where there is one. Nothing is evicted for what a queue "
        "borrows. Asked for the waiting jobs of the highest priorities.",
    ),
    Entry(
        facts.StrictOrder,
        "an earlier job of its queue waits",
        ("{gangs} comes before it in queue {queue}, which starts its jobs in strict order",),
        sources.strict_order,
        special_texts=(
            "{stuck}, which can never start as written, comes before it in queue {queue}, which starts its jobs in "
            "strict order",
        ),
        remedy="Wait, raise the job's priority, or see what the earlier job waits for.",
    ),
    Entry(
        facts.Maintenance,
        "maintenance comes first",
        ("the nodes that have room for it close for maintenance before it would end",),
        sources.maintenance,
        remedy="Wait until it is over, or say with gangplan.dev/expected-duration that the job ends before.",
    ),
    Entry(
        facts.PodRuleConflict,
        "no room beside other pods, or apart from them",
        (
            "there is room for it, but not under what role {role} says of other pods: {rule}",
            "there is room for it, but not under what its pods say of other pods",
        ),
        sources.pod_rule,
        never_texts=("even empty, the cluster has no room under what role {role} says of other pods: {rule}",),
        special_texts=(
            "subgroup {subgroup} must sit {rule}, and none has room for enough of its pods beside the rest of the job",
        ),
        remedy=(
            "Soften the rule (preferred, ScheduleAnyway, a larger maxSkew), wait for the other pods to come or to"
            " go, or add nodes."
        ),
    ),
    Entry(
        facts.OversizedSlotRequest,
        "no device or NUMA cell has room",
        (
            "a pod of role {role} asks for {asked} of one device or NUMA cell; the roomiest has {available:n} "
            "left, the largest has {limit:n} in all",
        ),
        lambda s, j, x: sources.device_slots(s, j, x.role, x.resource),
        never_texts=(
            "a pod of role {role} asks for {asked} of one device or NUMA cell; even empty, the largest has {limit:n}",
        ),
        remedy=(
            "Ask each pod for less of one device or NUMA cell, wait for one to be free, or use nodes that are "
            "divided otherwise."
        ),
    ),
    Entry(
        facts.SlotShortage,
        "no device or NUMA cell has room",
        (
            "its nodes have room in sum, but their devices or NUMA cells for {available:n} of {asked:pods} of "
            "role {role}; each takes {share}",
        ),
        lambda s, j, x: sources.device_slots(s, j, x.role, None),
        never_texts=(
            "its nodes are large enough, but their devices or NUMA cells, even empty, hold {available:n} of "
            "{asked:pods} of role {role}; each takes {share}",
        ),
    ),
    Entry(
        facts.Fragmentation,
        "the free room is in pieces",
        (
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of "
            "{asked:pods} of role {role}",
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of {asked:pods}",
        ),
        lambda s, j, x: sources.capacity(s, j, x.role, None),
        never_texts=(
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods} of "
            "role {role}",
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods}",
        ),
        special_texts=(
            "{total}, {pieces}; a pod of role {role} asks for {each}, and there is room for {available:n} of "
            "{asked:pods}",
        ),
        remedy="Wait for whole nodes, make the pods smaller, or ask for fewer.",
    ),
    Entry(
        facts.EligibleNodeShortage,
        "too few nodes are open to a role",
        (
            "the nodes that match the node selector, affinity and tolerations of role {role} hold {available:n} "
            "of {asked:pods}, even empty",
        ),
        sources.eligibility,
        special_texts=(
            "the nodes with topologyPolicy {policy} and a static CPU manager that the selector, affinity and "
            "tolerations of role {role} match hold {available:n} of {asked:pods}, even empty",
            "the {open} that role {role} may use {hold} {available:n} of {asked:pods}, even empty; of those that match "
            "its selectors {tainted}, which it does not tolerate",
        ),
        remedy=(
            "Widen the selector or affinity, change the topologyPolicy, add the toleration, or ask for fewer pods."
        ),
    ),
    Entry(
        facts.AwayNodes,
        "nodes are away",
        ("there would be room with {nodes}, not ready or cordoned for now",),
        sources.away_nodes,
        remedy="Bring the nodes back, or wait.",
    ),
    Entry(
        facts.OwnRunningPods,
        "its own pods stand in the way",
        (
            "{asked:pods} of it are missing and find no room beside its pods that run; were those to stop, all of"
            " it would fit elsewhere",
        ),
        sources.own_pods,
        remedy="Let its running pods be deleted, so that it starts anew, or wait for room beside them.",
    ),
)
