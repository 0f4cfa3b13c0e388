"""Where devices are free once the plan is in force: a character for each supernode, and free devices per node. One plan
for a terminal, and two for a comment on a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler.fields.quantity import is_device, unit_heading
from compiler.fields.texts import compact_names, count_text
from compiler.outcome import Outcome
from compiler.views.style import Style, hanging_text
from solver.plan import Plan
from solver.problem import Problem

MAX_ROWS, MAX_PIECES = 12, 4
MAX_CELLS = 64
"""Supernodes in a row of two plans; a top domain with more has several rows."""
_SHADES, _PLAIN_SHADES = "·░▒▓█", ".:+#@"
"""From nothing free to all free."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """free: nodes by their free devices and their devices in all."""

    name: str
    top: str
    free: Counter[tuple[int, int]]

    def cell(self, shades: str) -> str:
        share = sum(free * n for (free, _), n in self.free.items()) / sum(
            whole * n for (_, whole), n in self.free.items()
        )
        return shades[0 if share == 0 else 1 + int(share * 3)]


@dataclass(frozen=True, slots=True)
class _Map:
    title: str
    leaves: Sequence[_Leaf]


def heat_map(outcome: Outcome, style: Style) -> Iterator[str]:
    """Yield a section for each kind of device in supernodes; nothing if there are none."""
    for found in _maps(outcome).values():
        yield from _section(found, style)


def changed_heat_map(before: Outcome, after: Outcome) -> Iterator[str]:
    """Yield a section for each kind of device, with two lines for each row of supernodes where the plans leave other
    devices free; nothing where no row differs."""
    former = _maps(before)
    for device, found in _maps(after).items():
        yield from _changes(found, former[device].leaves if device in former else ())


def _maps(outcome: Outcome) -> dict[str, _Map]:
    """Device -> its supernodes, as far as these hold any."""
    problem, plan = outcome.problem, outcome.plan
    if problem is None or plan is None or not problem.hypernodes:
        return {}
    capacities = {name: sum(node.capacity[r] for node in problem.nodes) for r, name in enumerate(problem.resources)}
    free = _free_amounts(problem, plan)
    maps = dict[str, _Map]()
    for device in scarce_resources(capacities):
        r = problem.resources.index(device)
        leaves = _leaves(problem, [amounts[r] for amounts in free], r)
        if device != "cpu" and leaves:
            maps[device] = _Map(f"Free {unit_heading(device, capacities)} by supernode", leaves)
    return maps


def _free_amounts(problem: Problem, plan: Plan) -> list[list[int]]:
    """Return the free amount of each resource on each node."""
    free = [list(node.free) for node in problem.nodes]
    for decision in plan.decisions:
        roles = problem.gangs[decision.gang].roles
        for place in decision.placements:
            for r, amount in enumerate(roles[place.role].request):
                free[place.node][r] -= amount * place.pods
    return free


def _leaves(problem: Problem, free: Sequence[int], r: int) -> Sequence[_Leaf]:
    found: dict[int, Counter[tuple[int, int]]] = {}
    for node, left in zip(problem.nodes, free, strict=True):
        if node.leaf is not None and node.capacity[r] and node.returning is None:
            found.setdefault(node.leaf, Counter())[max(left, 0), node.capacity[r]] += 1
    names = problem.hypernodes
    return [_Leaf(names[leaf].name, _top_name(problem, leaf), nodes) for leaf, nodes in sorted(found.items())]


def _top_name(problem: Problem, hypernode: int) -> str:
    while (parent := problem.hypernodes[hypernode].parent) is not None:
        hypernode = parent
    return problem.hypernodes[hypernode].name


def _section(found: _Map, style: Style) -> Iterator[str]:
    """Yield a row for each top domain with a character for each of its supernodes; those that look alike share one."""
    shades = _SHADES if style.block_characters else _PLAIN_SHADES
    rows: dict[tuple[str, ...], list[str]] = {}
    for top, inside in _by_top(found.leaves).items():
        cells = "".join(leaf.cell(shades) for leaf in inside.values())
        rows.setdefault((cells, _free_text(inside.values())), []).append(top)
    yield f"{style.paint(found.title, 'head')} {_key(shades)}"
    shown = list(rows.items())[:MAX_ROWS]
    names = [compact_names(tops, MAX_PIECES) for _, tops in shown]
    width = min(max(map(len, names)), style.width // 3)
    for name, ((cells, text), tops) in zip(names, shown, strict=True):
        room, each = max(20, style.width - width - 4), " each" if len(tops) > 1 else ""
        yield from hanging_text(f"  {name:<{width}}  ", f"{cells}  {text}{each}", room, " " * (width + 4))
    if len(rows) > MAX_ROWS:
        yield f"  and {count_text(len(rows) - MAX_ROWS, 'row')} more: gangplan report shows all"


def _changes(found: _Map, former: Sequence[_Leaf]) -> Iterator[str]:
    """Rows of a top domain's supernodes, `former` above now, so that each stays in its column."""
    before, after = _by_top(former), _by_top(found.leaves)
    rows: dict[tuple[str, ...], list[str]] = {}
    same = 0
    for top in {**after, **before}:
        old, new = before.get(top, {}), after.get(top, {})
        names = list({**old, **new})
        for start in range(0, len(names), MAX_CELLS):
            part = names[start : start + MAX_CELLS]
            pair = [_row({name: leaves[name] for name in part if name in leaves}, part) for leaves in (old, new)]
            if pair[0] == pair[1]:
                same += 1
            else:
                rows.setdefault((*pair[0], *pair[1]), []).append(top)
    if not rows:
        return
    yield f"{found.title} {_key(_SHADES)}"
    shown = list(rows.items())[:MAX_ROWS]
    heads = [compact_names(list(dict.fromkeys(tops)), MAX_PIECES) for _, tops in shown]
    width = max(map(len, heads))
    for head, ((was, was_free, now, now_free), _) in zip(heads, shown, strict=True):
        yield f"{head:<{width}}  before  {was}  {was_free}"
        yield f"{'':<{width}}  after   {now}  {now_free}"
    more = [(len(rows) - MAX_ROWS, "changed and not shown"), (same, "as before")]
    yield from (f"{count_text(number, 'row')} {what}" for number, what in more if number > 0)


def _row(leaves: Mapping[str, _Leaf], names: Sequence[str]) -> tuple[str, str]:
    """Return the cells, a blank for a supernode that is not there, and the free devices."""
    cells = "".join(leaves[name].cell(_SHADES) if name in leaves else " " for name in names)
    return cells, _free_text(leaves.values()) if leaves else "not there"


def _by_top(leaves: Iterable[_Leaf]) -> dict[str, dict[str, _Leaf]]:
    found: dict[str, dict[str, _Leaf]] = {}
    for leaf in leaves:
        found.setdefault(leaf.top, {})[leaf.name] = leaf
    return found


def _key(shades: str) -> str:
    return f"({shades[0]} none to {shades[-1]} all)"


def _free_text(leaves: Iterable[_Leaf]) -> str:
    """Return "3 of 8 free on 12 nodes, 8 of 8 on 4 nodes", without full nodes."""
    free = sum((leaf.free for leaf in leaves), Counter[tuple[int, int]]())
    parts = sorted(((left, whole, nodes) for (left, whole), nodes in free.items() if left), key=lambda part: -part[2])
    if not parts:
        return f"none free on {count_text(sum(free.values()), 'node')}"
    texts = [f"{left} of {whole} on {count_text(nodes, 'node')}" for left, whole, nodes in parts[:MAX_PIECES]]
    rest = sum(nodes for *_, nodes in parts[MAX_PIECES:])
    texts[0] = texts[0].replace(" on ", " free on ", 1)
    return ", ".join(texts) + (f", some on {rest} more" if rest else "")


_PARTS_OF_CARDS = ("memory", "memory-percentage", "cores", "milli")


def scarce_resources(capacities: Mapping[str, float]) -> list[str]:
    """Return the scarce resources, largest total first, cards before parts of them: devices, or cpu if there are
    none."""
    devices = [name for name in filter(is_device, capacities) if capacities[name]]
    found = sorted(devices, key=lambda name: (name.endswith(_PARTS_OF_CARDS), -capacities[name]))
    return found or [name for name in capacities if name == "cpu"]
