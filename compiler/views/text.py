"""The plan for people: what starts where, what is kept, what waits and why, how the queues share, and how well all of it is proved."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.amounts import quantity
from compiler.explain import Reason
from compiler.outcome import Decided, Outcome
from compiler.specs import TopologySpec
from compiler.views import data as views_data
from compiler.views.names import compact

BAR = 24
WIDEST_ROLES = 28
_STUCK = "\N{NO-BREAK SPACE}"
"""Stands for a blank at which a line must not be broken."""
COLOURS: Mapping[str, str] = {"start": "32", "keep": "36", "wait": "33", "never": "31", "done": "2", "head": "1", "dim": "2"}


@dataclass(frozen=True, slots=True)
class Style:
    """width in columns; colour: ANSI escapes; blocks: the terminal can show block characters."""

    width: int = 100
    colour: bool = False
    blocks: bool = True

    def paint(self, text: str, role: str) -> str:
        return f"\033[{COLOURS[role]}m{text}\033[0m" if self.colour and text else text


def plan(outcome: Outcome, style: Style = Style(), *, timings: bool = False) -> str:
    """The whole plan; ends in a newline."""
    if not outcome.ok:
        return f"No plan for cluster {outcome.specs.cluster.name}: see the diagnostics.\n"
    view = _View(outcome, style)
    sections = [view.header(), *view.jobs(), view.queues(), view.totals(), view.verdicts(timings), view.summary()]
    return "\n\n".join("\n".join(section) for section in map(list, sections) if section) + "\n"


class _View:
    def __init__(self, outcome: Outcome, style: Style) -> None:
        if outcome.problem is None or outcome.origins is None:
            raise ValueError("only an outcome with a plan can be shown")
        self.outcome, self.style = outcome, style
        self.problem, self.origins = outcome.problem, outcome.origins
        self.data = views_data.plan(outcome)

    # ---- header

    def header(self) -> Iterator[str]:
        parts = [_count(len(self.problem.nodes), "node")]
        parts += [f"{quantity(name, int(self.data['totals'][name]['capacity']))} {name}" for name in self.devices]
        tiers: dict[int, list[str]] = {}
        for hypernode, spec in zip(self.problem.hypernodes, self.origins.hypernodes, strict=True):
            tiers.setdefault(hypernode.tier, []).append(spec.tier_name or "hypernode")
        for tier, names in sorted(tiers.items()):
            noun = names[0] if len(set(names)) == 1 else "hypernode"
            parts.append(f"{len(names)} {noun} (tier {tier})")
        yield f"{self.style.paint('Cluster ' + self.outcome.specs.cluster.name, 'head')}: {', '.join(parts)}"

    @cached_property
    def devices(self) -> list[str]:
        """The scarce resources, the most of them first: devices, or cpu where there are none."""
        totals = self.data["totals"]
        devices = [name for name in totals if "/" in name and not name.startswith("hugepages") and totals[name]["capacity"]]
        return sorted(devices, key=lambda name: -totals[name]["capacity"]) or [name for name in totals if name == "cpu"]

    # ---- jobs

    def jobs(self) -> Iterator[list[str]]:
        by_action: dict[str, list[Decided]] = {}
        for decided in self.outcome.decisions:
            by_action.setdefault(decided.action, []).append(decided)
        for action, title in (("start", "Starts"), ("keep", "Runs on")):
            if chosen := by_action.get(action):
                yield list(self.placed(title, action, chosen))
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
            if self.problem.hypernodes:
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
        ordered = sorted(enumerate(self.problem.nodes), key=lambda item: (item[1].leaf is None, item[1].leaf or 0, item[0]))
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

    def say(self, reason: Reason, role: str, indent: str, lead: str = "") -> Iterator[str]:
        code = self.style.paint(reason.code, role)
        first, *rest = textwrap.wrap(lead + reason.message, self.style.width - len(indent) - 7, break_on_hyphens=False)
        yield f"{indent}{code}  {first}"
        yield from (f"{indent}       {line}" for line in rest)

    # ---- queues and totals

    def queues(self) -> Iterator[str]:
        """One bar for each device that the queue holds or has a limit on."""
        shown = list(self.tree())
        if not self.devices or not shown:
            return
        legend = f" ({'▏' if self.style.blocks else '|'} what it deserves)" if any(queue["deserved"] for _, queue in shown) else ""
        yield f"{self.style.paint('Queues', 'head')}{legend}"
        width = max(len("  " * depth + queue["name"]) for depth, queue in shown)
        for depth, queue in shown:
            name = "  " * depth + queue["name"]
            for device in self.devices:
                if device == self.devices[0] or _concerns(queue, device):
                    yield f"  {name:<{width}}  {self.share(queue, device)}"
                    name = ""

    def share(self, queue: Mapping[str, Any], device: str) -> str:
        held = _held(queue, device)
        most, fair = queue["capability"].get(device), queue["deserved"].get(device)
        said = [f"{_amount(device, held)} of {_amount(device, most)}" if most is not None else _amount(device, held)]
        said[0] += f" {_short(device) if len(self.devices) == 1 else device}"
        if fair is not None:
            said.append(f"deserves {_amount(device, fair)}")
        if (kept := queue["guarantee"].get(device)) is not None:
            said.append(f"guaranteed {_amount(device, kept)}")
        return f"{self.bar(held, most if most is not None else self.data['totals'][device]['capacity'], fair)}  {', '.join(said)}"

    def tree(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Queues below the root that were declared or are used, each after its parent."""
        children: dict[str | None, list[Mapping[str, Any]]] = {}
        for queue in self.data["queues"]:
            children.setdefault(queue["parent"], []).append(queue)
        implied = {queue["name"] for queue, spec in zip(self.data["queues"], self.origins.queues, strict=True) if spec is None}

        def below(parent: str, depth: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
            for queue in children.get(parent, ()):
                if queue["name"] not in implied or any(queue["allocated"].values()) or any(queue["admitted"].values()):
                    yield depth, queue
                yield from below(queue["name"], depth + 1)

        return below("root", 0)

    def bar(self, held: float, most: float, fair: float | None) -> str:
        """Filled up to what is held, on a scale that ends at `most`; a mark where the deserved share ends."""
        full, empty, mark = ("█", "░", "▏") if self.style.blocks else ("#", ".", "|")
        filled = min(BAR, round(BAR * held / most)) if most else 0
        if held > 0:
            filled = max(1, filled)
        cells = [full] * filled + [empty] * (BAR - filled)
        if fair is not None and most and fair < most:
            cells.insert(min(BAR, round(BAR * fair / most)), mark)
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
        if grow := sum(decided.action == "keep" and decided.total > decided.running for decided in self.outcome.decisions):
            said[1] += f" ({grow} to grow)"
        if never:
            said[-1] += f" ({never} can never start as written)"
        yield f"{self.style.paint('Plan', 'head')}: {', '.join(said)}." if self.outcome.decisions else "Plan: there are no jobs."


def explanation(outcome: Outcome, decided: Decided, style: Style = Style()) -> str:
    """One job: its decision, the facts, where it stands in its file, its queues with their numbers, and what would help."""
    return "\n".join(_explained(_View(outcome, style), decided)) + "\n"


def _explained(view: _View, decided: Decided) -> Iterator[str]:
    document, style = decided.gang.document, view.style
    place = document.at("metadata", "name")
    does = {"start": "starts", "keep": "runs on", "wait": "waits", "done": "is finished"}[decided.action]
    yield f"{style.paint(f'{document.kind} {decided.name}', 'head')} {style.paint(does, 'never' if decided.never else decided.action)}"
    yield f"  {place.file}:{place.line}"
    yield ""
    yield from view.reasons(decided, "  ")
    if decided.reasons:
        yield ""
    for role in decided.gang.roles:
        nodes = decided.pods.get(role.name, {})
        line = document.at(*role.path).line
        need = f"{role.minimum} to {role.replicas}" if role.minimum < role.replicas else str(role.replicas)
        yield f"  role {role.name} (line {line}): needs {need} {'pod' if need == '1' else 'pods'}{_per_pod(role.pod.requests)}"
        by_count: dict[int, list[str]] = {}
        for node, pods in nodes.items():
            by_count.setdefault(pods, []).append(node)
        for pods, held in sorted(by_count.items(), reverse=True):
            yield from _wrapped(f"{pods} on {'each of ' if len(held) > 1 else ''}{compact(held)}", "    ", style.width)
    topology = decided.gang.topology
    if topology:
        placed = f"; placed in {compact(decided.domains, 8)}" if decided.domains else ""
        yield f"  topology: {_tier(topology)}{placed}"
    for part in decided.gang.subgroups:
        yield f"  groups of {part.size} pods of {', '.join(part.roles)}: {_tier(part.topology)}"
    yield f"  priority {decided.priority}"
    yield from _path(view, decided)


def _tier(topology: TopologySpec) -> str:
    limit = topology.highest_tier_name or topology.highest_tier
    return topology.mode if limit is None else f"{topology.mode}, up to tier {limit}"


def _per_pod(requests: Mapping[str, int]) -> str:
    said = [f"{quantity(name, amount)} {name}" for name, amount in requests.items() if name != "pods" and amount]
    return f" of {', '.join(said)}" if said else " that ask for nothing"


def _path(view: _View, decided: Decided) -> Iterator[str]:
    """The job's queue and those above it."""
    by_name = views_data.named(view.data)
    queue = by_name.get(decided.gang.queue)
    while queue is not None and queue["name"] != "root":
        asked = {name for role in decided.gang.roles for name in role.pod.requests if name != "pods"}
        said = []
        for name in queue["capability"] | queue["deserved"] | queue["guarantee"]:
            if name in asked:
                held = queue["allocated"].get(name, 0) + queue["admitted"].get(name, 0)
                limits = [f"{word} {_amount(name, queue[field][name])}" for word, field in _LIMITS if name in queue[field]]
                said.append(f"{name} {_amount(name, held)} held, {', '.join(limits)}")
        yield from _wrapped("; ".join(said) or "no limits on what it asks for", f"  queue {queue['name']}: ", view.style.width)
        queue = by_name.get(queue["parent"])


_LIMITS = (("guaranteed", "guarantee"), ("deserves", "deserved"), ("at most", "capability"))


def _held(queue: Mapping[str, Any], device: str) -> float:
    return float(queue["allocated"].get(device, 0) + queue["admitted"].get(device, 0))


def _concerns(queue: Mapping[str, Any], device: str) -> bool:
    return _held(queue, device) > 0 or any(device in queue[field] for _, field in _LIMITS)


def _short(device: str) -> str:
    return "GPU" if device.endswith("/gpu") else device


def _amount(name: str, value: float) -> str:
    return quantity(name, round(value * 1000) if name == "cpu" else int(value))


def _wrapped(text: str, lead: str, width: int) -> Iterable[str]:
    return textwrap.wrap(text, width, initial_indent=lead, subsequent_indent=" " * min(len(lead), 8), break_on_hyphens=False)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
