"""What a plan does not answer for, although it may name nodes: said beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from compiler.diagnostics import Diagnostic, declare_rule
from compiler.lower.origins import Origins
from solver.plan import Plan
from solver.problem import Problem
from solver.semantics.eviction_rights import may_preempt, may_reclaim

UNPLANNED_NUMA = declare_rule(
    "GP522",
    "warning",
    "NUMA cells that are not planned",
    """A pod whose topologyPolicy is restricted is planned where one empty NUMA cell is enough for it, or where it takes whole cells (8 GPUs of cells
    of 4); of anything else the kubelet decides by what is free in which cell, and may refuse the pod on the node that the plan names. Where some
    nodes let it be planned and others do not, it is planned on those of the first kind only, all of them divided alike. Mend: let each pod ask for
    what one cell holds or for whole cells, use another topologyPolicy, or say with a node selector which nodes it may use.""",
)
UNNAMED_DEVICES = declare_rule(
    "GP523",
    "info",
    "devices that nobody names",
    """A job waits for a part of a device or of a NUMA cell, and jobs that it may have evicted hold some. But nobody says which: no annotation names
    the device (Volcano's `volcano.sh/vgpu-ids-new` does for virtual GPUs), several cells are possible, or a Numatopology is older than the pods. A
    plan stops nobody on a guess, so they count as staying. Mend: none in most cases, the job starts when one of them ends; whole devices, and nodes
    with one device, need no names.""",
)


def unnamed_device_diagnostics(problem: Problem, origins: Origins, plan: Plan) -> Iterator[Diagnostic]:
    """Whoever waits for cells that pods hold which it may have evicted, were it known which they hold."""
    for decision in plan.decisions:
        if decision.action != "wait" or all(fact.code != "GW118" or fact.never for fact in decision.facts):
            continue
        j = decision.gang
        wanted = {
            portion.slot_group: role.node_classes for role in problem.gangs[j].roles for portion in role.slot_requests
        }
        allowed = (v for v in range(len(problem.gangs)) if may_preempt(problem, j, v) or may_reclaim(problem, j, v))
        found = [spot for v in allowed for spot in _unlocated_holders(problem, v, wanted)]
        if found:
            v, n, division = found[0]
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            said = f"nobody says which cells of {problem.slot_groups[division]} the pods of {problem.gangs[v].name} on {problem.nodes[n].name} hold{more}"
            document = origins.gangs[j].document
            yield UNNAMED_DEVICES.diagnostic(
                document.position(),
                f"{said}; nobody is evicted on a guess",
                "wait until one of them ends",
                object=document.display_name,
            )


def _unlocated_holders(
    problem: Problem, v: int, wanted: Mapping[int, frozenset[int]]
) -> Iterator[tuple[int, int, int]]:
    """(v, node, division) where pods of gang v hold cells of which it is not known which, on nodes that are wanted of
    the division."""
    gang = problem.gangs[v]
    known: Counter[tuple[int, int, int]] = Counter()
    for hold in gang.slot_holds:
        known[hold.role, hold.node, problem.nodes[hold.node].slots[hold.slot].slot_group] += hold.pods
    for p in gang.running:
        for portion in gang.roles[p.role].slot_requests:
            d = portion.slot_group
            if (
                problem.nodes[p.node].node_class in wanted.get(d, ())
                and known[p.role, p.node, d] < portion.number * p.pods
            ):
                yield v, p.node, d


def unplanned_numa_diagnostics(origins: Origins) -> Iterator[Diagnostic]:
    for (j, t), cells in sorted(origins.unplanned_numa.items()):
        gang = origins.gangs[j]
        role = gang.roles[t]
        document, path = (role.pod_documents[0], ("spec",)) if role.pod_documents else (gang.document, role.path)
        nodes = f"{len(cells.unplanned_nodes)} {'node' if len(cells.unplanned_nodes) == 1 else 'nodes'} like {cells.unplanned_nodes[0]}"
        if cells.request is None:
            said = f"role {role.name} asks for parts of several NUMA cells on {nodes}; its cells are not planned there, and the kubelet may refuse it"
        else:
            said = f"role {role.name} is not planned on {nodes}, divided into other NUMA cells than the nodes that it is planned on"
        help = "ask for what one cell holds or for whole cells, or choose nodes that are divided alike"
        yield UNPLANNED_NUMA.diagnostic(document.position(*path), said, help, object=gang.document.display_name)
