"""The verifier's rule about the cells of nodes; it shares no code with `solver.semantics.device_slots` or the model.
The words of `solver.verify` hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from solver.plan import Decision, SlotUse
from solver.problem import SlotRequest
from solver.verify.ledger import CheckedPlan, Findings, PodCounts


def device_slots(x: CheckedPlan) -> Findings:
    """`Decision.cells` says from which cells the new pods take their portions, and shows that they fit:

    * each entry names a role with a portion of that cell's division and a node where it has new pods; entries are
    sorted by (role, node, cell)
      and merged;
    * N new pods of a role on a node with a portion of `number` cells: the entries for cells of that division come to
    number * N pods, none of
      them above N (so they can be dealt to the pods with all cells of a pod different);
    * per cell and resource, the shares taken come to at most what is free there and what is sure to come back
    (`given_back`).
    """
    for g, decision in sorted(x.decisions.items()):
        where = ("decisions", g, "slot_uses")
        keys = [(use.role, use.node, use.slot) for use in decision.slot_uses]
        if any(first >= second for first, second in pairwise(keys)):
            yield where, "not sorted by (role, node, cell), or an entry occurs twice"
        if any(_slot_request(x, g, use) is None for use in decision.slot_uses):
            yield where, "an entry without pods, or for a role, node or cell that takes or gives no portion"
            continue
        yield from _slot_count_findings(x, g, decision)
    yield from overcommitted_slots(x, {})


def overcommitted_slots(x: CheckedPlan, staying: Mapping[int, PodCounts]) -> Findings:
    """The cells that the plan takes more from than they have. staying: gang -> evicted pods that stay after all."""
    taken: Counter[tuple[int, int, int]] = Counter()
    for g, decision in sorted(x.decisions.items()):
        for use in decision.slot_uses:
            portion = _slot_request(x, g, use)
            for r, share in enumerate(portion.share if portion else ()):
                taken[use.node, use.slot, r] += share * use.pods
    back = released_slot_amounts(x, staying)
    for (node, cell, r), amount in sorted(taken.items()):
        if amount > x.problem.nodes[node].slots[cell].free[r] + back[node, cell, r]:
            yield ("nodes", node, "slots", cell), f"gives {amount} {x.problem.resources[r]}, more than is free"


def released_slot_amounts(x: CheckedPlan, staying: Mapping[int, PodCounts]) -> Counter[tuple[int, int, int]]:
    """(node, cell, resource) -> what evicted pods are sure to give back. Of the pods of a role on a node that stay, as
    many as can be are taken for ones that hold the cell; what nobody is known to hold stays held."""
    back: Counter[tuple[int, int, int]] = Counter()
    for g, gang in enumerate(x.problem.gangs):
        for hold in gang.slot_holds if x.evicted_pods[g] else ():
            spot = hold.role, hold.node
            gone = x.evicted_pods[g].get(spot, 0) - staying.get(g, {}).get(spot, 0)
            others = x.running_pods[g][spot] - hold.pods
            division = x.problem.nodes[hold.node].slots[hold.slot].slot_group
            for portion in gang.roles[hold.role].slot_requests:
                for r, share in enumerate(portion.share if portion.slot_group == division else ()):
                    back[hold.node, hold.slot, r] += share * max(0, gone - others)
    return back


def _slot_request(x: CheckedPlan, g: int, use: SlotUse) -> SlotRequest | None:
    """What the pods of an entry take from the cell; None where the entry makes no sense."""
    if (
        use.pods < 1
        or (use.role, use.node) not in x.new_pods[g]
        or not 0 <= use.slot < len(x.problem.nodes[use.node].slots)
    ):
        return None
    division = x.problem.nodes[use.node].slots[use.slot].slot_group
    return next((p for p in x.problem.gangs[g].roles[use.role].slot_requests if p.slot_group == division), None)


def _slot_count_findings(x: CheckedPlan, g: int, decision: Decision) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for (role, node), pods in x.new_pods[g].items():
        for portion in x.problem.gangs[g].roles[role].slot_requests:
            uses = [
                use.pods
                for use in decision.slot_uses
                if (use.role, use.node) == (role, node)
                and x.problem.nodes[node].slots[use.slot].slot_group == portion.slot_group
            ]
            if sum(uses) != portion.number * pods or max(uses) > pods:
                yield (
                    ("decisions", g, "slot_uses"),
                    f"{pods} new pods of role {role} on node {node} do not each have {portion.number} cells",
                )
