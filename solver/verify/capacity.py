"""The verifier's rules about what nodes and their device slots hold. The words of `solver.verify` hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from solver.plan import Decision, SlotUse
from solver.problem import SlotRequest
from solver.verify.checked_plan import CheckedPlan, Findings, PodCounts, add_vector, at


def capacity(x: CheckedPlan) -> Findings:
    """On each node, per resource: running - evicted + new <= free. Where the running pods alone exceed it: no new pod
    that asks for the resource."""
    width = len(x.problem.resources)
    use: dict[int, tuple[list[int], list[int]]] = {
        node: ([0] * width, [0] * width) for new in x.new_pods for _, node in new
    }
    for which, counts in enumerate((x.remaining_pods, x.new_pods)):
        for gang, pods in zip(x.problem.gangs, counts, strict=True):
            for (role, node), amount in pods.items():
                if node in use:
                    add_vector(use[node][which], gang.roles[role].request, amount)
    for n, (run, new) in sorted(use.items()):
        for r, free in enumerate(x.problem.nodes[n].free):
            if new[r] and run[r] + new[r] > free:
                yield ("nodes", n, "free", r), f"{free} {x.problem.resources[r]} for {run[r]} running and {new[r]} new"


def device_slots(x: CheckedPlan) -> Findings:
    """`Decision.slot_uses` assigns device slots to the new pods, and shows that they fit.

    * Each entry names a role with a request for that slot's group, and a node where it has new pods; entries are sorted
    by (role, node, slot) and merged.

    * For N new pods of a role on a node with a request for `number` slots: the entries for slots of that group come to
    number * N pods, none of them above N (so the slots of each pod can all differ).

    * Per slot and resource, the shares taken are at most the free ones and those that evicted pods certainly return
    (`released_slot_amounts`).
    """
    for g, decision in sorted(x.decisions.items()):
        where = at(g, "slot_uses")
        keys = [(use.role, use.node, use.slot) for use in decision.slot_uses]
        if keys != sorted(set(keys)):
            yield where, "not sorted by (role, node, slot), or an entry occurs twice"
        if any(_slot_request(x, g, use) is None for use in decision.slot_uses):
            yield where, "an entry without pods, or for a role, node or slot that takes or gives no request"
            continue
        yield from _slot_count_findings(x, g, decision)
    yield from overcommitted_slots(x, {})


def overcommitted_slots(x: CheckedPlan, staying: Mapping[int, PodCounts]) -> Findings:
    """The slots from which the plan takes more than they have. staying: gang -> evicted pods that stay after all."""
    taken: Counter[tuple[int, int, int]] = Counter()
    for g, decision in sorted(x.decisions.items()):
        for use in decision.slot_uses:
            request = _slot_request(x, g, use)
            for r, share in enumerate(request.share if request else ()):
                taken[use.node, use.slot, r] += share * use.pods
    back = released_slot_amounts(x, staying)
    for (node, slot, r), amount in sorted(taken.items()):
        if amount > x.problem.nodes[node].slots[slot].free[r] + back[node, slot, r]:
            yield ("nodes", node, "slots", slot), f"gives {amount} {x.problem.resources[r]}, more than is free"


def released_slot_amounts(x: CheckedPlan, staying: Mapping[int, PodCounts]) -> Counter[tuple[int, int, int]]:
    """Return (node, slot, resource) -> the amounts that evicted pods certainly return. Of the pods of a role on a node
    that stay, as many as possible are assumed to hold the slot; slots without a known holder stay held."""
    back: Counter[tuple[int, int, int]] = Counter()
    for g, gang in enumerate(x.problem.gangs):
        for hold in gang.slot_holds if x.evicted_pods[g] else ():
            spot = hold.role, hold.node
            gone = x.evicted_pods[g].get(spot, 0) - staying.get(g, {}).get(spot, 0)
            others = x.running_pods[g][spot] - hold.pods
            group = x.problem.nodes[hold.node].slots[hold.slot].slot_group
            for request in gang.roles[hold.role].slot_requests:
                for r, share in enumerate(request.share if request.slot_group == group else ()):
                    back[hold.node, hold.slot, r] += share * max(0, gone - others)
    return back


def _slot_request(x: CheckedPlan, g: int, use: SlotUse) -> SlotRequest | None:
    """Return the request of an entry's pods to the slot; None for an invalid entry."""
    slots = x.problem.nodes[use.node].slots if (use.role, use.node) in x.new_pods[g] else ()
    if use.pods < 1 or not 0 <= use.slot < len(slots):
        return None
    requests = x.problem.gangs[g].roles[use.role].slot_requests
    return next((request for request in requests if request.slot_group == slots[use.slot].slot_group), None)


def _slot_count_findings(x: CheckedPlan, g: int, decision: Decision) -> Findings:
    taken = defaultdict(list)
    for use in decision.slot_uses:
        taken[use.role, use.node, x.problem.nodes[use.node].slots[use.slot].slot_group].append(use.pods)
    for (role, node), pods in x.new_pods[g].items():
        for request in x.problem.gangs[g].roles[role].slot_requests:
            uses = taken[role, node, request.slot_group]
            if sum(uses) != request.number * pods or max(uses) > pods:
                fault = f"{pods} new pods of role {role} on node {node} do not each have {request.number} slots"
                yield at(g, "slot_uses"), fault
