"""What a plan does not answer for, although it may name nodes: said beside it."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Diagnostic, rule
from compiler.lower.origins import Origins

UNPLANNED = rule(
    "GP522",
    "warning",
    "NUMA cells that are not planned",
    """A pod whose topologyPolicy is restricted is planned where one empty NUMA cell is enough for it, or where it takes whole cells (8 GPUs of cells
    of 4); of anything else the kubelet decides by what is free in which cell, and may refuse the pod on the node that the plan names. Where some
    nodes let it be planned and others do not, it is planned on those of the first kind only, all of them divided alike. Mend: let each pod ask for
    what one cell holds or for whole cells, use another topologyPolicy, or say with a node selector which nodes it may use.""",
)


def findings(origins: Origins) -> Iterator[Diagnostic]:
    for (j, t), cells in sorted(origins.unplanned.items()):
        gang = origins.gangs[j]
        role = gang.roles[t]
        document, path = (role.pods[0], ("spec",)) if role.pods else (gang.document, role.path)
        nodes = f"{len(cells.unplanned)} {'node' if len(cells.unplanned) == 1 else 'nodes'} like {cells.unplanned[0]}"
        if cells.way is None:
            said = f"role {role.name} asks for parts of several NUMA cells on {nodes}; its cells are not planned there, and the kubelet may refuse it"
        else:
            said = f"role {role.name} is not planned on {nodes}, divided into other NUMA cells than the nodes that it is planned on"
        help = "ask for what one cell holds or for whole cells, or choose nodes that are divided alike"
        yield UNPLANNED.at(document.at(*path), said, help, object=gang.document.label)
