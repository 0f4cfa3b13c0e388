"""The plan for people: what starts where, what is kept, what waits and why, how the queues share, and how well all of
it is proved."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.explain.provenance import Source
from compiler.explain.reasons import Reason
from compiler.fields.amounts import quantity, rfc3339
from compiler.outcome import Decided, Outcome
from compiler.views import data as views_data
from compiler.views.names import compact

BAR = 24
WIDEST_ROLES = 28
SOURCES = 2
"""How many lines of the repository are named for a reason before the rest is counted."""
_STUCK = "\N{NO-BREAK SPACE}"
"""Stands for a blank at which a line must not be broken."""
COLOURS: Mapping[str, str] = {
    "start": "32",
    "keep": "36",
    "wait": "33",
    "evict": "31",
    "never": "31",
    "done": "2",
    "head": "1",
    "dim": "2",
}


@dataclass(frozen=True, slots=True)
class Style:
    """width in columns; colour: ANSI escapes; blocks: the terminal can show block characters."""

    width: int = 100
    colour: bool = False
    blocks: bool = True

    def paint(self, text: str, role: str) -> str:
        return f"\033[{COLOURS[role]}m{text}\033[0m" if self.colour and text else text


PLAIN = Style()
"""For a file or a test: 100 columns, no colour."""


def plan(outcome: Outcome, style: Style = PLAIN, *, timings: bool = False) -> str:
    """The whole plan; ends in a newline."""
    if not outcome.ok:
        return f"No plan for cluster {outcome.specs.cluster.name}: see the diagnostics.\n"
    view = PlanView(outcome, style)
    sections = [view.header(), *view.jobs(), view.queues(), view.totals(), view.verdicts(timings), view.summary()]
    return "\n\n".join("\n".join(section) for section in map(list, sections) if section) + "\n"


NO_BREAK = "\N{NO-BREAK SPACE}"


class PlanView:
    """in_full: whether all is said of where reasons come from."""

    def __init__(self, outcome: Outcome, style: Style, in_full: bool = False) -> None:
        if outcome.problem is None or outcome.origins is None:
            raise ValueError("only an outcome with a plan can be shown")
        self.outcome, self.style, self.in_full = outcome, style, in_full
        self.problem, self.origins = outcome.problem, outcome.origins
        self.data = {**views_data.plan(outcome), "queues": views_data.as_shared(outcome)}

    # ---- header

    def header(self) -> Iterator[str]:
        parts = [_count(len(self.problem.nodes), "node")]
        parts += [f"{amount(name, self.data['totals'][name]['capacity'])} {name}" for name in self.devices]
        tiers: dict[int, list[str]] = {}
        for hypernode, spec in zip(self.problem.hypernodes, self.origins.hypernodes, strict=True):
            tiers.setdefault(hypernode.tier, []).append(spec.tier_name or "hypernode")
        for tier, names in sorted(tiers.items()):
            noun = names[0] if len(set(names)) == 1 else "hypernode"
            parts.append(f"{len(names)} {noun} (tier {tier})")
        title = f"Cluster {self.outcome.specs.cluster.name}"
        # A part of the list stays on one line: textwrap does not break at the spaces that it does not know.
        whole = f"{title}: {', '.join(part.replace(' ', NO_BREAK) for part in parts)}"
        first, *rest = (
            line.replace(NO_BREAK, " ")
            for line in textwrap.wrap(whole, self.style.width, subsequent_indent="  ", break_on_hyphens=False)
        )
        yield first.replace(title, self.style.paint(title, "head"), 1)
        yield from rest

    @cached_property
    def devices(self) -> list[str]:
        """The scarce resources, the most of them first: devices, or cpu where there are none."""
        totals = self.data["totals"]
        devices = [
            name for name in totals if "/" in name and not name.startswith("hugepages") and totals[name]["capacity"]
        ]
        return sorted(devices, key=lambda name: -totals[name]["capacity"]) or [name for name in totals if name == "cpu"]

    # ---- jobs

    def jobs(self) -> Iterator[list[str]]:
        by_action: dict[str, list[Decided]] = {}
        for decided in self.outcome.decisions:
            by_action.setdefault(decided.action, []).append(decided)
        for action, title in (("start", "Starts"), ("keep", "Runs on")):
            if chosen := by_action.get(action):
                yield list(self.placed(title, action, chosen))
        if victims := [decided for decided in self.outcome.decisions if decided.evicted]:
            yield list(self.victims(victims))
        if waiting := by_action.get("wait"):
            yield list(self.waiting(sorted(waiting, key=lambda decided: (decided.never, -decided.priority))))
        if done := by_action.get("done"):
            yield [f"{self.style.paint('Finished', 'head')}: {compact([decided.name for decided in done])}"]

    def placed(self, title: str, action: str, chosen: Sequence[Decided]) -> Iterator[str]:
        """Under each top domain, or set of top domains, the jobs inside it."""
        pods = sum(decided.total for decided in chosen)
        yield f"{self.style.paint(title, 'head')}: {_count(len(chosen), 'job')}, {_count(pods, 'pod')}"
        groups: dict[tuple[int, ...], list[Decided]] = {}
        for decided in sorted(chosen, key=self.by_place):
            groups.setdefault(self.tops(decided), []).append(decided)
        rows = {d.key: (d.name, self.pods_of(d), self.asks(d, d.pods), self.where(d)) for d in chosen}
        widths = [max(len(row[c]) for row in rows.values()) for c in range(3)]
        for tops, inside in groups.items():
            if self.problem.hypernodes and tops:
                yield f"  {self.style.paint(self.domain(tops), 'dim')}"
            for decided in inside:
                yield from self.row(rows[decided.key], widths, action)

    def row(self, row: tuple[str, str, str, str], widths: Sequence[int], action: str) -> Iterator[str]:
        """One line, its last column wrapped below itself."""
        mark = {"start": "+", "keep": "="}[action]
        name, pods, asks, where = row
        left = f"{name:<{widths[0]}}  {pods:<{widths[1]}}  {asks:>{widths[2]}}  "
        first, *rest = textwrap.wrap(where, max(20, self.style.width - 4 - len(left)), break_on_hyphens=False) or [""]
        yield f"  {self.style.paint(mark, action)} {left}{first}".rstrip().replace(_STUCK, " ")
        yield from (" " * (4 + len(left)) + line.replace(_STUCK, " ") for line in rest)

    def tops(self, decided: Decided) -> tuple[int, ...]:
        """The topmost domains that hold the job's nodes; none for nodes outside the topology."""
        leaves = {self.node_leaf[node] for nodes in decided.pods.values() for node in nodes}
        return tuple(sorted({-1 if top is None else top for top in map(self.top_of, leaves)}))

    def domain(self, tops: tuple[int, ...]) -> str:
        """By name, a single one with how full it will be."""
        names = compact([self.problem.hypernodes[top].name for top in tops if top >= 0], 4)
        if len(tops) == 1 and tops[0] in self.fill:
            device, held, capacity = self.fill[tops[0]]
            names += f": {quantity(device, held)} of {quantity(device, capacity)} {_short(device)}"
        return f"{names} and outside the topology" if -1 in tops and names else names or "outside the topology"

    @cached_property
    def fill(self) -> Mapping[int, tuple[str, int, int]]:
        """Top domain -> its scarce resource, how much of it will be held, and how much there is."""
        room: dict[int, list[list[int]]] = {}
        for node in self.problem.nodes:
            if (top := self.top_of(node.leaf)) is not None:
                held = [capacity - free for capacity, free in zip(node.capacity, node.free, strict=True)]
                room.setdefault(top, []).append([*held, *node.capacity])
        sums = {top: [sum(column) for column in zip(*rows, strict=True)] for top, rows in room.items()}
        for decision in self.outcome.plan.decisions if self.outcome.plan else ():
            for place in decision.placements:
                top = self.top_of(self.problem.nodes[place.node].leaf)
                for r, amount in enumerate(self.problem.gangs[decision.gang].roles[place.role].request):
                    if top is not None:
                        sums[top][r] += amount * place.pods
        width = len(self.problem.resources)
        found = {}
        for top, numbers in sums.items():
            for device in self.devices:
                r = self.problem.resources.index(device)
                if numbers[width + r]:
                    found[top] = device, numbers[r], numbers[width + r]
                    break
        return found

    def top_of(self, hypernode: int | None) -> int | None:
        while hypernode is not None and (parent := self.problem.hypernodes[hypernode].parent) is not None:
            hypernode = parent
        return hypernode

    def by_place(self, decided: Decided) -> tuple[tuple[int, ...], int, int]:
        """By domain in the order of the cluster; what lies outside the topology comes last."""
        tops = self.tops(decided)
        first = min((self.node_order[node] for nodes in decided.pods.values() for node in nodes), default=0)
        return tuple(len(self.problem.hypernodes) if top < 0 else top for top in tops), first, -decided.total

    @cached_property
    def node_leaf(self) -> Mapping[str, int | None]:
        return {node.name: node.leaf for node in self.problem.nodes}

    @cached_property
    def node_order(self) -> Mapping[str, int]:
        """Nodes of one leaf stand together, leaves in their order, nodes outside the topology last."""
        ordered = sorted(
            enumerate(self.problem.nodes), key=lambda item: (item[1].leaf is None, item[1].leaf or 0, item[0])
        )
        return {node.name: place for place, (_, node) in enumerate(ordered)}

    def pods_of(self, decided: Decided) -> str:
        counts = [(sum(nodes.values()), role) for role, nodes in decided.pods.items()]
        text = " + ".join(f"{count} {role}" for count, role in counts if count)
        if len(text) > WIDEST_ROLES:
            text = f"{decided.total} pods in {len(counts)} roles"
        grown = decided.total - decided.running
        return f"{text} ({grown} new)" if decided.running and grown else text

    def asks(self, decided: Decided, pods: Mapping[str, Mapping[str, int]] | None) -> str:
        """What the job holds of the scarcest resource it asks for; of all its replicas when `pods` is None."""
        total: Counter[str] = Counter()
        for role in decided.gang.roles:
            count = role.replicas if pods is None else sum(pods.get(role.name, {}).values())
            for name, amount in role.pod.requests.items():
                total[name] += amount * count
        for name in (*self.devices, "cpu", "memory"):
            if total[name]:
                return f"{quantity(name, total[name])} {_short(name)}"
        return ""

    def where(self, decided: Decided) -> str:
        nodes = sorted({node for held in decided.pods.values() for node in held}, key=self.node_order.__getitem__)
        if not decided.domains:
            return compact(nodes, 6) + (f" ({len(nodes)}{_STUCK}nodes)" if len(nodes) > 2 else "")
        if len(nodes) == 1:
            return f"{decided.domains[0]}: {nodes[0]}"
        return f"{compact(decided.domains, 8)} ({len(nodes)}{_STUCK}nodes)"

    def victims(self, victims: Sequence[Decided]) -> Iterator[str]:
        pods = sum(decided.lost for decided in victims)
        yield f"{self.style.paint('Evicts', 'head')}: {_count(pods, 'pod')} of {_count(len(victims), 'job')}"
        for decided in sorted(victims, key=lambda decided: (decided.evicted_for, decided.name)):
            first, *rest = textwrap.wrap(self.eviction(decided), self.style.width - 4, break_on_hyphens=False)
            yield f"  {self.style.paint('x', 'evict')} {first}"
            yield from (f"      {line}" for line in rest)

    @staticmethod
    def eviction(decided: Decided) -> str:
        """What a job loses, and for whom: "evicts vision/nas-trial-1 (3 pods, 12 min) for ..."."""
        lost = (
            f"{_count(decided.lost, 'pod')} of {decided.lost + decided.running}"
            if decided.action == "keep"
            else _count(decided.lost, "pod")
        )
        time = f", {_duration(decided.ran)}" if decided.ran else ""
        return f"evicts {decided.name} ({lost}{time}) for {compact(list(decided.evicted_for), 4)}"

    def waiting(self, waiting: Sequence[Decided]) -> Iterator[str]:
        yield f"{self.style.paint('Waits', 'head')}: {_count(len(waiting), 'job')}"
        for decided in waiting:
            role = "never" if decided.never else "wait"
            what = " + ".join(f"{spec.replicas} {spec.name}" for spec in decided.gang.roles)
            said = ", ".join(part for part in (what, self.asks(decided, None), f"queue {decided.gang.queue}") if part)
            yield f"  {self.style.paint('!' if decided.never else '-', role)} {decided.name}  {said}"
            yield from self.reasons(decided)

    def reasons(self, decided: Decided, indent: str = "      ") -> Iterator[str]:
        for reason in decided.reasons:
            yield from self.say(reason, "never" if reason.never else "wait", indent)
        for repair in decided.repairs:
            yield from self.say(repair, "start", indent, "would help: ")
        if decided.awaits:
            yield from wrapped(self.start(decided), indent, self.style.width)

    @staticmethod
    def start(decided: Decided) -> str:
        """When the job with the reservation starts, and after whom: "room is reserved: starts about 14:20, after
        ads/ranker"."""
        if decided.starts_at is not None:
            when = f"expected to start about {rfc3339(decided.starts_at)}"
        elif decided.starts_in is not None:
            when = f"expected to start in about {_duration(decided.starts_in)}"
        else:
            when = "starts, nobody knows when,"
        return f"room is reserved for it: {when} after {compact(list(decided.awaits), 4)}"

    def say(self, reason: Reason, role: str, indent: str, lead: str = "") -> Iterator[str]:
        code = self.style.paint(reason.code, role)
        below = f"{indent}       "
        first, *rest = textwrap.wrap(lead + reason.message, self.style.width - len(below), break_on_hyphens=False)
        yield f"{indent}{code}  {first}"
        yield from (f"{below}{line}" for line in rest)
        sources = [*reason.sources, *(source for other in reason.also for source in other.sources)]
        if not lead or self.in_full:  # in short only what is in the way
            yield from (
                f"{below}{self.style.paint(line, 'dim')}"
                for line in self.sources(sources, self.style.width - len(below))
            )

    def sources(self, sources: Sequence[Source], width: int) -> Iterator[str]:
        """Where a fact comes from, in short; with `in_full` each of them on a line of its own."""
        if self.in_full:
            yield from (_in_full(source) for source in sources)
        elif sources:
            rest = len(sources) - SOURCES
            said = ", ".join(map(_in_short, sources[:SOURCES])) + (f" and {rest} more" if rest > 0 else "")
            yield from textwrap.wrap(f"see {said}", width, break_on_hyphens=False, break_long_words=False)

    # ---- queues and totals

    def queues(self) -> Iterator[str]:
        """A table for each device: who holds how much of it, against guarantee, deserved share and ceiling."""
        tree = list(self.tree())
        width = max((len("  " * depth + queue["name"]) for depth, queue in tree), default=0)
        for at, device in enumerate(self.devices):
            rows = [(depth, queue) for depth, queue in tree if at == 0 or _concerns(queue, device)]
            if rows:
                yield from [""] if at else []
                yield from self.table(device, rows, width)

    def table(self, device: str, rows: Sequence[tuple[int, Mapping[str, Any]]], width: int) -> Iterator[str]:
        limits = [(word, field) for word, field in LIMITS if any(device in queue[field] for _, queue in rows)]
        title, mark = f"Queues by {device}", self.mark
        heads = ["held", *(f"{mark}{word}" if field == "deserved" else word for word, field in limits)]
        gap = " " * (width + BAR + 5 - len(title))
        yield f"{self.style.paint(title, 'head')}{gap}{''.join(f'{head:>12}' for head in heads)}"
        total = self.data["totals"][device]["capacity"]
        for depth, queue in rows:
            held = _held(queue, device)
            bar = self.bar(held, queue["capability"].get(device, total), queue["deserved"].get(device))
            cells = [
                amount(device, held),
                *(amount(device, queue[field][device]) if device in queue[field] else "" for _, field in limits),
            ]
            yield f"  {'  ' * depth + queue['name']:<{width}}  {bar}{''.join(f'{cell:>12}' for cell in cells)}".rstrip()

    def tree(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Queues below the root that were declared or are used, each after its parent."""
        children: dict[str | None, list[Mapping[str, Any]]] = {}
        for queue in self.data["queues"]:
            children.setdefault(queue["parent"], []).append(queue)
        implied = {
            queue["name"] for queue, spec in zip(self.data["queues"], self.origins.queues, strict=True) if spec is None
        }

        def below(parent: str, depth: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
            for queue in children.get(parent, ()):
                if queue["name"] not in implied or any(queue["allocated"].values()) or any(queue["admitted"].values()):
                    yield depth, queue
                yield from below(queue["name"], depth + 1)

        return below("root", 0)

    @property
    def mark(self) -> str:
        return "▏" if self.style.blocks else "|"

    def bar(self, held: float, most: float, fair: float | None) -> str:
        """Filled up to what is held, on a scale that ends at `most`; a mark where the deserved share ends."""
        full, empty = ("█", "░") if self.style.blocks else ("#", ".")
        filled = min(BAR, round(BAR * held / most)) if most else 0
        if held > 0:
            filled = max(1, filled)
        cells = [full] * filled + [empty] * (BAR - filled)
        if fair is not None and most and fair < most:
            cells.insert(min(BAR, round(BAR * fair / most)), self.mark)
        else:
            cells.append(" ")
        return "".join(cells)

    def totals(self) -> Iterator[str]:
        totals = self.data["totals"]
        if not totals:
            return
        yield self.style.paint("Totals", "head")
        width = max((len(name) for name in totals if name != "pods"), default=0)
        for name, amount in totals.items():
            if name == "pods":  # never what is scarce, and not what anybody asked for
                continue
            raw = {key: int(value * 1000) if name == "cpu" else int(value) for key, value in amount.items()}
            share = raw["planned"] / raw["capacity"] if raw["capacity"] else 0.0
            words = f"{quantity(name, raw['planned'])} of {quantity(name, raw['capacity'])} planned ({share:.0%})"
            now = f", {quantity(name, raw['used'])} in use now" if raw["used"] else ""
            yield f"  {name:<{width}}  {self.bar(raw['planned'], raw['capacity'], None)}  {words}{now}"

    # ---- proof

    def verdicts(self, timings: bool) -> Iterator[str]:
        batches = self.data["batches"]
        if not batches:
            return
        yield self.style.paint("Proof", "head")
        for at, batch in enumerate(batches, start=1):
            took = ""
            if timings and self.outcome.plan is not None:
                took = f", {self.outcome.plan.batches[at - 1].seconds:.2f} s"
            proven = sum(objective["verdict"] == "proven" for objective in batch["objectives"])
            of = f"{proven} of {_count(len(batch['objectives']), 'objective')} proven optimal"
            yield f"  batch {at}, {_count(len(batch['gangs']), 'job')}: {of}{took}"
            for objective in batch["objectives"]:
                if objective["verdict"] != "proven":
                    numbers = f"{objective['value']:g}, bound {objective['bound']:g}, gap {objective['gap']:.2%}"
                    yield f"    {objective['name']}: {numbers}: {objective['verdict']}"

    def summary(self) -> Iterator[str]:
        counts = Counter(decided.action for decided in self.outcome.decisions)
        never = sum(decided.never for decided in self.outcome.decisions)
        said = [f"{counts['start']} to start", f"{counts['keep']} to keep", f"{counts['wait']} to wait"]
        if counts["evict"]:
            said.insert(2, f"{counts['evict']} to evict")
        if grow := sum(
            decided.action == "keep" and decided.total > decided.running for decided in self.outcome.decisions
        ):
            said[1] += f" ({grow} to grow)"
        if never:
            said[-1] += f" ({never} can never start as written)"
        yield (
            f"{self.style.paint('Plan', 'head')}: {', '.join(said)}."
            if self.outcome.decisions
            else "Plan: there are no jobs."
        )


LIMITS = (("guaranteed", "guarantee"), ("deserves", "deserved"), ("at most", "capability"))


def _in_short(source: Source) -> str:
    if source.position is None:
        return f"{source.object} in the cluster"
    return f"{source.position.file}:{source.position.line} {source.field}".rstrip()


def _in_full(source: Source) -> str:
    what = f"{source.object}, {source.field}" if source.field else source.object
    place = source.position
    return f"in the cluster: {what}" if place is None else f"{place.file}:{place.line}:{place.column}: {what}"


def _held(queue: Mapping[str, Any], device: str) -> float:
    return float(queue["allocated"].get(device, 0) + queue["admitted"].get(device, 0))


def _concerns(queue: Mapping[str, Any], device: str) -> bool:
    return _held(queue, device) > 0 or any(device in queue[field] for _, field in LIMITS)


def _short(device: str) -> str:
    return "GPU" if device.endswith("/gpu") else device


def amount(name: str, value: float) -> str:
    return quantity(name, round(value * 1000) if name == "cpu" else int(value))


def wrapped(text: str, lead: str, width: int) -> Iterable[str]:
    return textwrap.wrap(
        text, width, initial_indent=lead, subsequent_indent=" " * min(len(lead), 8), break_on_hyphens=False
    )


def _duration(seconds: int) -> str:
    """In the largest unit that is there at least once: 45 s, 12 min, 3 h, 2 d."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
