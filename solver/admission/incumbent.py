"""The values of the admission model's variables for gangs that are known to fit: its incumbent."""

from __future__ import annotations

from solver.mip.rows import value_of
from solver.models import constraints, pod_rule_rows
from solver.models.device_slots import slot_values
from solver.models.sets import Sets
from solver.models.variables import Variables
from solver.problem import Placement, SlotRequest
from solver.semantics.device_slots import PodsPerSlot
from solver.semantics.gang_classes import GangClass
from solver.semantics.placements import Placements, add_vectors
from solver.semantics.topology import ROOT


def incumbent_values(s: Sets, x: Variables, placements: Placements) -> dict[str, float]:
    """Return the values of all variables for these placements, of gangs of the batch."""
    values = {v.name: 0.0 for v in x.model.variables()}
    for key, gangs in s.waiting_gangs.items():
        values[x.y[key].name] = float(sum(1 for j in gangs if j in placements))
        k, gang_class = key[2], s.gang_classes[key[2]]
        for j in gangs:
            if j in placements:
                _add_gang_values(s, x, values, k, gang_class, _new_pods(placements[j], gang_class))
    for (k, index, h), u in x.u.items():
        values[u.name] = float(_subgroup_count(s, x, values, k, index, h))
    pod_rule_rows.set_rule_values(s, x, values)
    _set_need_values(s, x, values)
    if x.m:
        values |= slot_values(s, x, _slot_layout_of(s, placements))
    return values | {o.name: float(j in placements) for j, o in x.o.items()}


def _slot_layout_of(s: Sets, placements: Placements) -> dict[int, dict[SlotRequest, PodsPerSlot]]:
    """Return node -> slot request -> device slot -> pods of these placements that use it."""
    taken: dict[int, dict[SlotRequest, PodsPerSlot]] = {}
    for node, laid in s.state_after(placements).free_nodes.slot_layout.items():
        for requests, (_, counts) in laid.items():
            for request, of in zip(requests, counts, strict=True):
                taken.setdefault(node, {})[request] = add_vectors(taken.get(node, {}).get(request, (0,) * len(of)), of)
    return taken


def _new_pods(placements: tuple[Placement, ...], gang_class: GangClass) -> dict[tuple[int, int], int]:
    """(role, node) -> pods that do not run yet."""
    fresh: dict[tuple[int, int], int] = {}
    for p in placements:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) + p.pods
    for p in gang_class.running_pods:
        fresh[p.role, p.node] = fresh.get((p.role, p.node), 0) - p.pods
    return {key: pods for key, pods in fresh.items() if pods}


def _add_gang_values(
    s: Sets, x: Variables, values: dict[str, float], k: int, gang_class: GangClass, new_pods: dict[tuple[int, int], int]
) -> None:
    home = None
    for (t, node), pods in new_pods.items():
        i = int(s.bucket_of[node])
        home = s.domains_by_tier[gang_class.hard_tier][i] if gang_class.hard_tier is not None else ROOT
        terms = x.n[k, t].get(i, [])
        if terms and (
            home is None or terms[0][0] is not x.g.get((k, home))
        ):  # a domain of one place counts gangs, below
            values[terms[0][0].name] += pods
    if home is None and gang_class.running_pods and gang_class.hard_tier is not None:
        home = s.domains[k][0] if s.domains[k] else None
    if home is not None and (k, home) in x.g:
        values[x.g[k, home].name] += 1


def _subgroup_count(s: Sets, x: Variables, values: dict[str, float], k: int, index: int, h: int) -> int:
    subgroup, gang_class = s.gang_classes[k].subgroups[index], s.gang_classes[k]
    hard = s.tree.confines(subgroup.topology)

    def at(i: int) -> int:
        found = s.domains_by_tier[subgroup.topology.tier][i] if hard else ROOT
        return ROOT if found is None else found

    counts = (pair for t in subgroup.roles for pair in x.n[k, t].items())
    pods = sum(value_of(terms, values) for i, terms in counts if at(i) == h)
    if any(values[y.name] for (_, _, of), y in x.y.items() if of == k):
        running = (p for p in gang_class.running_pods if p.role in subgroup.roles)
        pods += sum(p.pods for p in running if at(int(s.bucket_of[p.node])) == h)
    return round(pods) // subgroup.size


def _set_need_values(s: Sets, x: Variables, values: dict[str, float]) -> None:
    """w = max(guarantee, direct + batch + children's w), children first."""
    for r in sorted({r for _, r in x.w}):
        unit = s.guarantee_unit(r)
        for q in s.queue_books.bottom_up:
            own = value_of(constraints.usage_terms(s, x, r, {q}), values)
            below = sum(values[x.w[c, r].name] for c in s.queue_books.children[q])
            values[x.w[q, r].name] = max(
                (s.problem.queues[q].guarantee[r] or 0) / unit, (s.queue_books.direct[q][r] + own) / unit + below
            )
