"""Where devices are free once the plan is in force: a character for each supernode, and free devices per node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.explain.names import compact_names, count_text
from compiler.fields.amounts import unit_heading
from compiler.outcome import Outcome
from compiler.views.devices import scarce_resources
from compiler.views.style import Style, hanging_text
from solver.plan import Plan
from solver.problem import Problem

MAX_ROWS, MAX_PIECES = 12, 4
_SHADES, _PLAIN_SHADES = "·░▒▓█", ".:+#@"
"""From nothing free to all free."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """free: nodes by their free devices and their devices in all."""

    top: str
    free: Counter[tuple[int, int]]

    @property
    def share(self) -> float:
        return sum(free * n for (free, _), n in self.free.items()) / sum(
            whole * n for (_, whole), n in self.free.items()
        )


def heat_map(outcome: Outcome, style: Style) -> Iterator[str]:
    """A section for each kind of device that supernodes hold; nothing where there are none."""
    problem, plan = outcome.problem, outcome.plan
    if problem is None or plan is None or not problem.hypernodes:
        return
    capacities = {name: sum(node.capacity[r] for node in problem.nodes) for r, name in enumerate(problem.resources)}
    free = _free_amounts(problem, plan)
    for device in scarce_resources(capacities):
        r = problem.resources.index(device)
        leaves = _leaves(problem, [amounts[r] for amounts in free], r)
        if device != "cpu" and leaves:
            yield from _section(unit_heading(device, capacities), leaves, style)


def _free_amounts(problem: Problem, plan: Plan) -> list[list[int]]:
    """What each node has left of each resource."""
    free = [list(node.free) for node in problem.nodes]
    for decision in plan.decisions:
        roles = problem.gangs[decision.gang].roles
        for place in decision.placements:
            for r, amount in enumerate(roles[place.role].request):
                free[place.node][r] -= amount * place.pods
    return free


def _leaves(problem: Problem, free: Sequence[int], r: int) -> dict[int, _Leaf]:
    found: dict[int, Counter[tuple[int, int]]] = {}
    for node, left in zip(problem.nodes, free, strict=True):
        if node.leaf is not None and node.capacity[r] and node.returning is None:
            found.setdefault(node.leaf, Counter())[max(left, 0), node.capacity[r]] += 1
    return {leaf: _Leaf(_top_name(problem, leaf), nodes) for leaf, nodes in sorted(found.items())}


def _top_name(problem: Problem, hypernode: int) -> str:
    while (parent := problem.hypernodes[hypernode].parent) is not None:
        hypernode = parent
    return problem.hypernodes[hypernode].name


def _section(title: str, leaves: dict[int, _Leaf], style: Style) -> Iterator[str]:
    """A row for each top domain with a character for each of its supernodes; those that look alike share one."""
    shades = _SHADES if style.block_characters else _PLAIN_SHADES
    rows: dict[tuple[str, ...], list[str]] = {}
    for top in dict.fromkeys(leaf.top for leaf in leaves.values()):
        inside = [leaf for leaf in leaves.values() if leaf.top == top]
        free = sum((leaf.free for leaf in inside), Counter[tuple[int, int]]())
        cells = "".join(shades[0 if leaf.share == 0 else 1 + int(leaf.share * 3)] for leaf in inside)
        rows.setdefault((cells, _free_text(free)), []).append(top)
    key = f"({shades[0]} none to {shades[-1]} all)"
    yield f"{style.paint(f'Free {title} by supernode', 'head')} {key}"
    shown = list(rows.items())[:MAX_ROWS]
    names = [compact_names(tops, MAX_PIECES) for _, tops in shown]
    width = min(max(map(len, names)), style.width // 3)
    for name, ((cells, text), tops) in zip(names, shown, strict=True):
        room, each = max(20, style.width - width - 4), " each" if len(tops) > 1 else ""
        yield from hanging_text(f"  {name:<{width}}  ", f"{cells}  {text}{each}", room, " " * (width + 4))
    if len(rows) > MAX_ROWS:
        yield f"  and {count_text(len(rows) - MAX_ROWS, 'row')} more: gangplan report shows all"


def _free_text(free: Counter[tuple[int, int]]) -> str:
    """ "3 of 8 free on 12 nodes, 8 of 8 on 4 nodes"; what is full is left out."""
    parts = sorted(((left, whole, nodes) for (left, whole), nodes in free.items() if left), key=lambda part: -part[2])
    if not parts:
        return f"none free on {count_text(sum(free.values()), 'node')}"
    said = [f"{left} of {whole} on {count_text(nodes, 'node')}" for left, whole, nodes in parts[:MAX_PIECES]]
    rest = sum(nodes for *_, nodes in parts[MAX_PIECES:])
    said[0] = said[0].replace(" on ", " free on ", 1)
    return ", ".join(said) + (f", some on {rest} more" if rest else "")
