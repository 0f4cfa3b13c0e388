"""The queues' usage of each device, as tables, and the totals of resources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.fields.quantity import rounded_amount
from compiler.fields.texts import count_text
from compiler.kubernetes import ROOT_QUEUE
from compiler.views.style import Style, hanging_text

BAR_WIDTH, MAX_ROWS = 24, 12
QueueRow = tuple[int, Mapping[str, Any]]
"""How deep a queue is below the root, and the queue."""
LIMIT_COLUMNS = (("guaranteed", "guarantee"), ("deserves", "deserved"), ("at most", "capability"))


@dataclass(frozen=True, slots=True)
class QueueTables:
    """data: the plan's document. implied: queues that no document declares."""

    style: Style
    data: Mapping[str, Any]
    devices: Sequence[str]
    implied: Collection[str]

    def tables(self) -> Iterator[str]:
        """Yield a table for each device: what each queue holds of it, its guarantee, deserved amount and capability."""
        tree = list(self.queue_tree())
        tables = [tree, *([row for row in tree if _has_device(row[1], device)] for device in self.devices[1:])]
        shown = [self.shown_queues(device, rows) for device, rows in zip(self.devices, tables, strict=False)]
        width = max((len("  " * depth + queue["name"]) for rows in shown for depth, queue in rows), default=0)
        for at, (device, rows) in enumerate(zip(self.devices, shown, strict=False)):
            if rows:
                yield from [""] if at else []
                yield from self.queue_table(device, rows, width)
                if (rest := len(tables[at]) - len(rows)) > 0:
                    yield f"  and {count_text(rest, 'queue')} more: see gangplan report"

    def shown_queues(self, device: str, rows: list[QueueRow]) -> list[QueueRow]:
        """Return the rows; of many the ones with the largest usage."""
        if len(rows) <= MAX_ROWS:
            return rows
        most = sorted(rows, key=lambda row: -_held_amount(row[1], device))[:MAX_ROWS]
        names = {queue["name"] for _, queue in most}
        return [row for row in rows if row[1]["name"] in names]

    def queue_table(self, device: str, rows: Sequence[QueueRow], width: int) -> Iterator[str]:
        """Yield a row for each queue; without bars where the columns leave no room, and a name that leaves none for
        these has a line of its own."""
        limits = [(word, field) for word, field in LIMIT_COLUMNS if any(device in queue[field] for _, queue in rows)]
        title, mark = f"Queues by {device}", _deserved_mark(self.style)
        heads = ["held", *(f"{mark}{word}" if field == "deserved" else word for word, field in limits)]
        held = [_held_amount(queue, device) for _, queue in rows]
        cells = [
            [amount_text(device, amount), *_limit_cells(device, queue, limits)]
            for amount, (_, queue) in zip(held, rows, strict=True)
        ]
        columns, bars = [12] * len(heads), min(BAR_WIDTH, self.style.width - width - 5 - 12 * len(heads))
        if bars <= 0:
            columns, bars = [max(map(len, column)) + 1 for column in zip(heads, *cells, strict=True)], -3
        width = min(width, self.style.width - bars - 5 - sum(columns))
        head = "".join(f"{name:>{column}}" for name, column in zip(heads, columns, strict=True))
        if len(title) < width + bars + 5:
            yield f"{self.style.paint(title, 'head')}{' ' * (width + bars + 5 - len(title))}{head}"
        else:
            yield self.style.paint(title, "head")
            yield f"{' ' * (width + bars + 5)}{head}"
        total = self.data["totals"][device]["capacity"]
        for (depth, queue), amount, numbers in zip(rows, held, cells, strict=True):
            name, limit = "  " * depth + queue["name"], queue["capability"].get(device, total)
            if len(name) > width:
                yield f"  {name}"
                name = ""
            filled = f"  {bar(self.style, amount, limit, queue['deserved'].get(device), bars)}" if bars > 0 else ""
            row = "".join(f"{cell:>{column}}" for cell, column in zip(numbers, columns, strict=True))
            yield f"  {name:<{width}}{filled}{row}".rstrip()

    def queue_tree(self) -> Iterator[QueueRow]:
        """(depth, queue) below the root, each after its parent; undeclared queues only if they are used."""
        children: dict[str | None, list[Mapping[str, Any]]] = {}
        for queue in self.data["queues"]:
            children.setdefault(queue["parent"], []).append(queue)

        def below(parent: str, depth: int) -> Iterator[QueueRow]:
            for queue in children.get(parent, ()):
                if (
                    queue["name"] not in self.implied
                    or any(queue["allocated"].values())
                    or any(queue["admitted"].values())
                ):
                    yield depth, queue
                yield from below(queue["name"], depth + 1)

        return below(ROOT_QUEUE, 0)


def _deserved_mark(style: Style) -> str:
    return "▏" if style.block_characters else "|"


def bar(style: Style, held: float, limit: float, deserved: float | None, width: int = BAR_WIDTH) -> str:
    """Return a bar, filled up to `held` on a scale that ends at `limit`, with a mark at the deserved amount."""
    full, empty = ("█", "░") if style.block_characters else ("#", ".")
    filled = min(width, round(width * held / limit)) if limit else 0
    if held > 0:
        filled = max(min(1, width), filled)
    cells = [full] * filled + [empty] * (width - filled)
    if deserved is not None and limit and deserved < limit:
        cells.insert(min(width, round(width * deserved / limit)), _deserved_mark(style) if width else " ")
    else:
        cells.append(" ")
    return "".join(cells)


def totals(style: Style, totals: Mapping[str, Any], devices: Sequence[str]) -> Iterator[str]:
    """Yield the plan's usage of each resource."""
    if not totals:
        return
    yield style.paint("Totals", "head")
    width = max((len(name) for name in totals if name != "pods"), default=0)
    leading = dict.fromkeys((*devices, "cpu", "memory", *totals))
    for name, amount in ((name, totals[name]) for name in leading if name in totals):
        if name == "pods":  # never scarce, and requested by no job
            continue
        values: Mapping[str, Any] = amount
        raw = {key: int(value * 1000) if name == "cpu" else int(value) for key, value in values.items()}
        planned, capacity = raw["planned"], raw["capacity"]
        share = planned / capacity if capacity else 0.0
        words = f"{rounded_amount(name, planned)} of {rounded_amount(name, capacity)} planned ({share:.0%})"
        words += f", {rounded_amount(name, raw['used'])} in use now" if raw["used"] else ""
        shown = f"{bar(style, planned, capacity, None)}  "
        if len(words) + len(shown) + width + 4 > style.width:
            shown = ""
        yield from hanging_text(f"  {name:<{width}}  {shown}", words, style.width - width - 4 - len(shown), "      ")


def _limit_cells(device: str, queue: Mapping[str, Any], limits: Sequence[tuple[str, str]]) -> list[str]:
    return [amount_text(device, queue[field][device]) if device in queue[field] else "" for _, field in limits]


def _held_amount(queue: Mapping[str, Any], device: str) -> float:
    return float(queue["allocated"].get(device, 0) + queue["admitted"].get(device, 0))


def _has_device(queue: Mapping[str, Any], device: str) -> bool:
    return _held_amount(queue, device) > 0 or any(device in queue[field] for _, field in LIMIT_COLUMNS)


def amount_text(name: str, value: float) -> str:
    return rounded_amount(name, round(value * 1000) if name == "cpu" else int(value))
