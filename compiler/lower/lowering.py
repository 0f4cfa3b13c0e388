"""Lowering: specs and a cluster's state as one `solver.problem.Problem`, with the way back to each document.

PodDisruptionBudgets bind whether or not Volcano's plugin pdb is configured: what the plan evicts is evicted through the
Eviction API, which refuses beyond a budget, and refuses a pod that two budgets select.

Nodes of the problem have classes, capacities, and what other pods leave free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import sub

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.run_records import recorded_runs
from compiler.kubernetes import ALWAYS_COMPARED, DEFAULT_PODS_PER_NODE
from compiler.lower.device_slots import SlotHolder, is_outdated, node_slots, slot_holds
from compiler.lower.gangs import GangLowering, subgroup_demand, with_subgroup_rules
from compiler.lower.group_relations import with_group_rules, with_separation_wishes
from compiler.lower.inputs import (
    LoweringInputs,
    is_plannable,
    lowering_inputs,
    maintenance_in,
    maintenance_windows,
    upcoming_events,
)
from compiler.lower.origins import AnnouncedStarts, LeftOutGangs, Origins
from compiler.lower.pod_relations import LoweredRules, lower_pod_rules
from compiler.lower.queues import (
    lower_policy,
    lower_queues,
    with_dedicated_domains,
    with_group_limits,
    with_node_groups,
)
from compiler.lower.resources import device_resources, has_other_resources, resource_names, vector, vector_sum
from compiler.lower.slot_groups import SlotGroups, slot_groups_of
from compiler.lower.topology import leaf_by_node, lower_hypernodes
from compiler.run_kinds import runs_once
from compiler.specs.cluster_spec import Specs
from compiler.specs.eligibility import (
    NearKinds,
    NodeClasses,
    classify_nodes,
    excluding_numa_policies,
    is_away,
    node_kinds,
    returned_node,
)
from compiler.specs.gang_spec import GangSpec, JobKey
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import Amounts
from compiler.specs.queue_spec import QueueSpec
from compiler.volcano.eviction_votes import eviction_votes, votes_if_added
from solver.forecast import Correction, Outcome, PastRuns, RunHistory, promise_score
from solver.problem import MAX_AMOUNT, DisruptionBudget, EvictionVotes, Node, Problem, ReturningNode, Vector


def lower(
    specs: Specs,
    state: ClusterState | None = None,
    dates: Mapping[str, int] | None = None,
    resources: Iterable[str] = (),
) -> tuple[Problem, Origins]:
    """Return the problem and the origins of its indices. Deterministic; nodes times gangs is never walked pod by
    pod.

    dates: file -> seconds since the epoch at which the repository got it. resources: that count although nothing of the
    specs asks for them.
    """
    inputs = lowering_inputs(specs, state, dates or {})
    observed, gangs = inputs.observed, inputs.gangs
    slot_groups = slot_groups_of(observed.nodes, inputs.pods(), specs.scheduler)
    names = resource_names(gangs, specs.queues, observed.nodes, (*slot_groups.slot_resources, *resources))
    queues, queue_specs = lower_queues(specs, observed, names)
    classes = node_classes(inputs, slot_groups)
    nodes, holders = lower_nodes(inputs, classes, slot_groups, names)
    holds = slot_holds(holders, observed, specs.gangs, slot_groups, names)
    demands = {
        j: subgroup_demand(specs.gangs[j], observed.running_pods.get(j, {}), specs.scheduler)
        for j in inputs.gang_indices
    }
    rules = lower_pod_rules(gangs, observed.nodes, observed.foreign.pods, specs.scheduler)
    rules = with_subgroup_rules(rules, gangs, tuple(demands.values()), observed)
    rules = with_group_rules(rules, inputs)
    queue_index = {queue.name: q for q, queue in enumerate(queues)}
    near = NearKinds(observed.nodes, [(node.node_class, node.kind) for node in nodes])
    lowering = GangLowering(inputs, names, queue_index, classes, slot_groups, near)
    lowered = (lowering.lower_gang(j, demands[j], holds.get(j, ())) for j in inputs.gang_indices)
    preempt_votes, reclaim_votes = eviction_votes(specs.scheduler)
    preempt_if_added, reclaim_if_added = votes_if_added(specs.scheduler)
    is_off = {
        "preempt": preempt_votes is None and preempt_if_added is not None,
        "reclaim": reclaim_votes is None and reclaim_if_added is not None,
    }
    problem = Problem(
        resources=names,
        nodes=nodes,
        hypernodes=lower_hypernodes(observed.hypernodes),
        queues=queues,
        gangs=with_separation_wishes(rules.gangs_with_rules(lowered), inputs),
        policy=lower_policy(specs.scheduler, specs.cluster.order),
        preempt_enabled=preempt_votes is not None,
        reclaim_enabled=reclaim_votes is not None,
        preempt_votes=preempt_votes or preempt_if_added or EvictionVotes(),
        reclaim_votes=reclaim_votes or reclaim_if_added or EvictionVotes(),
        addable_evictions=tuple(action for action, off in is_off.items() if off),
        disruption_budgets=disruption_budgets(inputs),
        slot_groups=slot_groups.names,
        pod_rules=rules.pod_rules,
        device_resources=device_resources(names),
        has_other_resources=has_other_resources(observed.nodes, names),
    )
    problem, affinity_owners = with_node_groups(problem, queue_specs, observed.nodes, specs.scheduler)
    origins = replace(_origins(inputs, queue_specs, rules, slot_groups), affinity_owners=affinity_owners)
    problem, origins = with_group_limits(problem, origins, specs, observed)
    return with_dedicated_domains(problem, specs, observed.hypernodes), origins


def _origins(
    inputs: LoweringInputs, queue_specs: tuple[QueueSpec | None, ...], rules: LoweredRules, slot_groups: SlotGroups
) -> Origins:
    specs, observed = inputs.specs, inputs.observed
    unfinished = [gang for j, gang in enumerate(specs.gangs) if j not in observed.jobs.finished]
    held = {specs.gangs[j].key: reason for j, reason in observed.jobs.held.items()}
    unheld = [gang for gang in unfinished if gang.key not in held]
    slotted = enumerate(observed.nodes if slot_groups.names else ())
    outdated = (node.name for n, node in slotted if is_outdated(slot_groups, node, observed.pods_on(n)))
    return Origins(
        gangs=inputs.gangs,
        queues=queue_specs,
        nodes=observed.nodes,
        hypernodes=observed.hypernodes,
        left_out=LeftOutGangs(
            finished=tuple(gang for j, gang in enumerate(specs.gangs) if j in observed.jobs.finished),
            inactive=tuple(gang for gang in unfinished if _is_inactive(gang, held)),
            unbound=tuple(gang for gang in unheld if not gang.scheduling.is_bound),
            empty=tuple(_empty_gangs(unheld)),
            held_jobs=held,
        ),
        rules=rules.origins,
        now=observed.now,
        starts=AnnouncedStarts(
            reserved={specs.gangs[j].key: time for j, time in observed.jobs.reserved_starts.items()},
            promises={specs.gangs[j].key: promise for j, promise in observed.jobs.promises.items()},
            past_runs=past_runs(inputs),
        ),
        upcoming_events=upcoming_events(inputs.events, observed.now),
        unplanned_numa=slot_groups.unplanned_numa(inputs.gangs),
        excluding_numa_policies=(
            excluding_numa_policies(observed.nodes, inputs.gangs) if slot_groups.numa_aware else {}
        ),
        outdated_nodes=tuple(outdated),
        priority_classes={spec.name: spec.value for spec in specs.priority_classes},
        reserved_rooms=inputs.reserved_rooms,
        turns=inputs.turns,
        refused_queues=observed.refused_queues,
    )


def _is_inactive(gang: GangSpec, held: Collection[JobKey]) -> bool:
    return gang.key in held or (gang.scheduling.is_bound and not gang.scheduling.schedulable)


def _empty_gangs(gangs: Iterable[GangSpec]) -> Iterator[GangSpec]:
    for gang in gangs:
        if gang.scheduling.schedulable and not is_plannable(gang):
            yield gang


def disruption_budgets(inputs: LoweringInputs) -> tuple[DisruptionBudget, ...]:
    """Return the disruption budgets of the gangs in the problem. No pod of a role that several budgets select may be
    evicted."""
    index = {j: g for g, j in enumerate(inputs.gang_indices)}
    budgets = []
    for selection in inputs.observed.budget_selections:
        roles = tuple(sorted((index[j], t) for j, t in selection.selected_roles if j in index))
        if roles:
            name = f"{selection.namespace}/{selection.name}"
            budgets.append(DisruptionBudget(name, selection.allowed, roles))
    counts = Counter(role for budget in budgets for role in budget.roles)
    if twice := tuple(sorted(role for role, count in counts.items() if count > 1)):
        budgets.append(DisruptionBudget("several budgets at once", 0, twice))
    return tuple(budgets)


_MINUTE = 60


def past_runs(inputs: LoweringInputs) -> PastRuns | None:
    """None without a record. A job that left the repository counts for its namespace and for all."""
    recorded = recorded_runs(inputs.run_records)
    if not recorded:
        return None
    observed, gangs = inputs.observed, {gang.key: gang for gang in inputs.specs.gangs}
    history, correction = RunHistory(), Correction(_MINUTE)
    for key, run in recorded:
        of_job = (*_classes(gangs[key]),) if key in gangs else (("namespace", key[0]), "all")
        history.add(of_job, run.ended - run.started)
    outcomes = list[Outcome]()
    for _, run in sorted(recorded, key=lambda each: (each[1].started, each[0])):
        if (promise := run.promise) is not None:
            outcomes.append(promise.outcome(run.started, run.submitted))
            correction.add(max(0, promise.raw - promise.made), outcomes[-1].wait)
    ages = {}
    for g, j in enumerate(inputs.gang_indices):
        if (start := observed.started_at(j)) is not None and observed.now is not None:
            ages[g] = max(0, observed.now - start)
    classes = [(*_classes(gang),) if runs_once(gang.document.data) else () for gang in inputs.gangs]
    return PastRuns(history, correction, classes, ages, promise_score(outcomes))


def _classes(gang: GangSpec) -> Iterator[Hashable]:
    """Whom its run times are like: jobs of its namespace that declare the same or are as large, of its queue, all."""
    if gang.times.expected_duration is not None:
        yield "declared", gang.namespace, gang.times.expected_duration
    yield "namespace and size", gang.namespace, gang.devices
    yield "queue and size", gang.queue, gang.devices
    yield "namespace", gang.namespace
    yield "queue", gang.queue
    yield "all"


SlotHolders = Mapping[int, tuple[SlotHolder, ...]]
"""Node -> the pods that certainly hold certain of its slots."""


def node_classes(inputs: LoweringInputs, slot_groups: SlotGroups) -> NodeClasses:
    """Return the classes of the nodes as they are and, after them, of those that are away after their return."""
    nodes = inputs.observed.nodes
    returned = [returned_node(node) for node in nodes if is_away(node)]
    requirements = map(slot_groups.node_requirement, inputs.pods())
    return classify_nodes((*nodes, *returned), requirements, slot_groups.numa_aware)


def lower_nodes(
    inputs: LoweringInputs, classes: NodeClasses, slot_groups: SlotGroups, names: Sequence[str]
) -> tuple[tuple[Node, ...], SlotHolders]:
    """Capacity less what other pods hold; and the certain holders of device slots.

    A node may have less than our running pods hold. One that is not ready offers what they fill of what it has.
    """
    room = _NodeRoom(inputs, names)
    if slot_groups.names:
        return _lower_nodes(inputs, classes, slot_groups, room)
    observed = inputs.observed
    has_windows = any(spec.maintenance_windows for spec in observed.nodes)
    parts = (
        *(observed.nodes, observed.hypernodes, observed.foreign.amounts, observed.unready_nodes),
        *(observed.now if has_windows else None, room.held_by_gangs, tuple(names)),
        *(classes.class_by_node, classes.classes_by_requirement.keys()),
    )
    return inputs.session.last("lowered nodes", parts, lambda: _lower_nodes(inputs, classes, slot_groups, room))


def _lower_nodes(
    inputs: LoweringInputs, classes: NodeClasses, slot_groups: SlotGroups, room: _NodeRoom
) -> tuple[tuple[Node, ...], SlotHolders]:
    specs, leaf = inputs.observed.nodes, leaf_by_node(inputs.observed.hypernodes)
    returning = (spec.name for spec in specs if is_away(spec))
    class_when_back = dict(zip(returning, classes.class_by_node[len(specs) :], strict=True))
    kinds, names = node_kinds(specs, classes), room.names
    nodes: list[Node] = []
    holders: dict[int, tuple[SlotHolder, ...]] = {}
    for n, (spec, node_class) in enumerate(zip(specs, classes.class_by_node, strict=False)):
        capacity, free = room.capacity_and_free(n, spec)
        slots, holding = node_slots(slot_groups, spec, inputs.observed.pods_on(n), names)
        back = None
        if is_away(spec):
            back = ReturningNode(class_when_back[spec.name], capacity, free, slots)
        if spec.name in inputs.observed.unready_nodes:
            free = capacity = tuple(map(min, room.amounts_held(n), capacity))
            slots = tuple(replace(slot, free=(0,) * len(names)) for slot in slots)
        elif holding:
            holders[n] = holding
        windows = maintenance_windows(spec, inputs.observed.now)
        nodes.append(
            Node(
                spec.name,
                node_class,
                leaf.get(spec.name),
                capacity,
                free,
                slots,
                maintenance_in(windows),
                back,
                windows,
                kind=kinds[n],
            )
        )
    return tuple(nodes), holders


class _NodeRoom:
    """Capacities and free amounts; nodes with equal amounts, of which a pool has thousands, are computed once."""

    def __init__(self, inputs: LoweringInputs, names: Sequence[str]) -> None:
        self.names, self.foreign_amounts = names, inputs.observed.foreign.amounts
        self._nothing = vector({}, names)
        # Sums over the cluster stay below it: what one node has beyond its part of that is more than any job asks for.
        self._most = MAX_AMOUNT // max(1, len(inputs.observed.nodes))
        self.held_by_gangs = _gang_amounts_by_node(inputs, names)
        self._capacities: dict[tuple[tuple[str, int], ...], Vector] = {}
        self._known: dict[tuple[Vector, Vector, Vector], tuple[Vector, Vector]] = {}
        self._always_compared = [r for r, name in enumerate(names) if name in ALWAYS_COMPARED]
        self._pods = [r for r, name in enumerate(names) if name == "pods"]

    def amounts_held(self, n: int) -> Vector:
        """Return the amounts that the running pods of the problem's gangs hold there."""
        return self.held_by_gangs.get(n, self._nothing)

    def capacity_and_free(self, n: int, spec: NodeSpec) -> tuple[Vector, Vector]:
        """Return what the node has, as Volcano sums it for queues, and what other pods leave of it. Less than our
        running pods hold where a device was lost under them: what one of them returns pays for that first. Both are
        more than the node has where our pods request less than their roles, by whose sizes they count.

        Where all pods hold more CPU or memory than there is, Volcano binds no pod, also none that asks for neither
        (`Resource.LessEqual` of pkg/scheduler/api): no more pods fit than run.
        """
        capacity, held, foreign = self._capacity(spec.allocatable), self.amounts_held(n), self._nothing
        if n in self.foreign_amounts:
            foreign = vector(self.foreign_amounts[n], self.names)
        key = capacity, held, foreign
        if key not in self._known:
            left = tuple(map(sub, capacity, foreign))
            is_full = any(left[r] < held[r] for r in self._always_compared if capacity[r])
            cut = self._pods if is_full else ()
            free = tuple(max(0, min(left[r], held[r]) if r in cut else left[r]) for r in range(len(left)))
            self._known[key] = tuple(map(max, capacity, free)), free
        return self._known[key]

    def _capacity(self, allocatable: Amounts) -> Vector:
        key = tuple(allocatable.items())
        if key not in self._capacities:
            amounts = vector({"pods": DEFAULT_PODS_PER_NODE, **allocatable}, self.names)
            self._capacities[key] = tuple(min(max(0, amount), self._most) for amount in amounts)
        return self._capacities[key]


def _gang_amounts_by_node(inputs: LoweringInputs, names: Sequence[str]) -> dict[int, Vector]:
    """Node -> what the running pods of the problem's gangs hold there."""
    held: dict[int, Vector] = {}
    products: dict[tuple[Vector, int], Vector] = {}
    nothing = vector({}, names)
    for gang, j in zip(inputs.gangs, inputs.gang_indices, strict=True):
        running = inputs.observed.running_pods.get(j)
        if running is None:
            continue
        requests = [vector(role.pod.requests, names) for role in gang.roles]
        for (t, n), pods in running.items():
            key = requests[t], pods
            if key not in products:
                products[key] = vector_sum(nothing, *key)
            held[n] = vector_sum(held[n], products[key], 1) if n in held else products[key]
    return held
