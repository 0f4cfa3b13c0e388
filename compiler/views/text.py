"""The plan as text: jobs that start, run, are evicted or wait and why (many in short, by reason), jobs that errors keep
out of the plan, the shares of queues, and the proof.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from compiler.decided import HELD_SENTENCE
from compiler.diagnostics.render.words import printable
from compiler.explain.provenance import MAX_SOURCES, Source
from compiler.explain.statements import CodedMessage
from compiler.fields.quantity import rounded_amount
from compiler.fields.texts import compact_names, count_text
from compiler.fields.times import rfc3339, rounded_duration_text
from compiler.outcome import JobDecision, Outcome
from compiler.views import data as views_data
from compiler.views import selection
from compiler.views.heat_map import heat_map, scarce_resources
from compiler.views.queue_tables import QueueTables, amount_text, totals
from compiler.views.selection import MAX_DETAILED, LeftOut, Selection, left_out, named_jobs, waits_by_reason
from compiler.views.start_windows import window_entry, window_sentence
from compiler.views.style import PLAIN, Style, hanging_text, wrap_text

MAX_GROUPS, MAX_QUEUES, MAX_BATCHES = 8, 4, 2
"""Rows of a kind, beyond which the rest is counted, so that a plan of thousands of jobs fits two screens."""
MAX_ROLES_WIDTH = 28
NO_BREAK = "\N{NO-BREAK SPACE}"
"""Represents a blank at which a line must not be broken."""


def plan_text(
    outcome: Outcome, style: Style = PLAIN, *, timings: bool = False, selection: Selection = selection.ALL
) -> str:
    """Return the plan, of its jobs those selected; ends in a newline."""
    if not outcome.ok:
        name = outcome.specs.cluster.name
        return f"No plan{f' for cluster {name}' if name else ''}: see the diagnostics.\n"
    view = PlanView(outcome, style, selection=selection)
    jobs = [*view.jobs(), left_out_rows(style, outcome, selection)]
    room = heat_map(outcome, style)
    sections = [view.header(), *jobs, room, view.queues(), view.totals(), view.verdicts(timings), view.summary()]
    return "\n\n".join("\n".join(section) for section in map(list, sections) if section) + "\n"


class PlanView:
    """Makes the sections of the text. show_all_sources: all sources of reasons and repairs, each on its own line.
    selection: the jobs that are shown."""

    def __init__(
        self, outcome: Outcome, style: Style, show_all_sources: bool = False, selection: Selection = selection.ALL
    ) -> None:
        if outcome.problem is None or outcome.origins is None:
            raise ValueError("only an outcome with a plan can be shown")
        self.outcome, self.style, self.show_all_sources = outcome, style, show_all_sources
        self.selection = selection
        self.problem, self.origins = outcome.problem, outcome.origins
        self.data = views_data.plan_document(outcome)

    # ---- header

    def header(self) -> Iterator[str]:
        parts = [count_text(len(self.problem.nodes), "node")]
        parts += [f"{amount_text(name, self.data['totals'][name]['capacity'])} {name}" for name in self.devices]
        tiers: dict[int, list[str]] = {}
        for hypernode, spec in zip(self.problem.hypernodes, self.origins.hypernodes, strict=True):
            tiers.setdefault(hypernode.tier, []).append(spec.tier_name or "hypernode")
        for tier, names in sorted(tiers.items()):
            noun = names[0] if len(set(names)) == 1 else "hypernode"
            parts.append(f"{len(names)} {noun} (tier {tier})")
        title = f"Cluster {self.outcome.specs.cluster.name}"
        # Each part stays on one line: textwrap does not break at no-break spaces.
        whole = f"{title}: {', '.join(part.replace(' ', NO_BREAK) for part in parts)}"
        first, *rest = (
            line.replace(NO_BREAK, " ")
            for line in textwrap.wrap(whole, self.style.width, subsequent_indent="  ", break_on_hyphens=False)
        )
        yield first.replace(title, self.style.paint(title, "head"), 1)
        yield from rest

    @cached_property
    def devices(self) -> list[str]:
        """Return the scarce resources, largest total first, cards before parts of them: devices, or cpu if there are
        none."""
        return scarce_resources({name: amounts["capacity"] for name, amounts in self.data["totals"].items()})

    # ---- jobs

    def jobs(self) -> Iterator[list[str]]:
        by_action: dict[str, list[JobDecision]] = {}
        selected = [decided for decided in self.outcome.decisions if self.selection.includes(decided)]
        for decided in selected:
            by_action.setdefault(decided.action, []).append(decided)
        for action, title in (("start", "Starts"), ("keep", "Runs on")):
            if chosen := by_action.get(action):
                rows = list(self.placed_jobs(title, action, chosen))
                yield rows[:1] if self.selection.is_summary else rows
        if victims := [decided for decided in selected if decided.evicted_pods]:
            rows = list(self.evicted_jobs(victims))
            yield rows[:1] if self.selection.is_summary else rows
        waiting = by_action.get("wait", [])
        if waiting and self.selection.is_summary:
            yield list(waits_table(self.style, waiting))
        elif waiting and self.selection.is_grouped(waiting):
            yield list(grouped_waits(self.style, waiting))
        elif waiting:
            yield list(self.waiting_jobs(sorted(waiting, key=lambda decided: (decided.never, -decided.priority))))
        for action, title in (("done", "Finished"), ("empty", "Without pods")):
            if chosen := by_action.get(action):
                names = "" if self.selection.is_summary else f" ({named_jobs(chosen)})"
                yield list(wrap_text(f"{title}: {count_text(len(chosen), 'job')}{names}", "", self.style.width))

    def placed_jobs(self, title: str, action: str, chosen: Sequence[JobDecision]) -> Iterator[str]:
        """Yield the jobs, grouped by the top domains that hold them."""
        pods = sum(decided.pod_count for decided in chosen)
        yield f"{self.style.paint(title, 'head')}: {count_text(len(chosen), 'job')}, {count_text(pods, 'pod')}"
        groups: dict[tuple[int, ...], list[JobDecision]] = {}
        for decided in sorted(chosen, key=self.placement_order):
            groups.setdefault(self.top_domains(decided), []).append(decided)
        if self.selection.is_brief(chosen):
            yield from self.jobs_by_domain(groups, action)
            return
        rows = {
            d.key: (d.name, self.pods_text(d), self.scarce_amount(d, d.pods), self.location_text(d)) for d in chosen
        }
        widths = [max(len(row[c]) for row in rows.values()) for c in range(3)]
        for tops, inside in groups.items():
            if self.problem.hypernodes and tops:
                yield f"  {self.style.paint(self.domain_title(tops), 'dim')}"
            for decided in inside:
                yield from self.job_row(rows[decided.key], widths, action)

    def jobs_by_domain(self, groups: Mapping[tuple[int, ...], Sequence[JobDecision]], action: str) -> Iterator[str]:
        """Yield a line for each top domain, or two where that is narrow: how many jobs, and of which queues as far as
        these fit."""
        largest = sorted(groups.items(), key=lambda group: -len(group[1]))
        for tops, inside in largest[:MAX_GROUPS]:
            queues = Counter(decided.gang.queue or "no queue" for decided in inside).most_common()
            where = f"{self.domain_title(tops)}: " if self.problem.hypernodes and tops else ""
            begin, texts = f"{where}{count_text(len(inside), 'job')}: ", list[str]()
            for shown in range(min(MAX_QUEUES, len(queues)), 0, -1):
                shown_text = ", ".join(f"{queue} {count}" for queue, count in queues[:shown])
                more = count_text(rest := len(queues) - shown, "queue")
                texts.append(f"{begin}{shown_text}{f' and {more} more' if rest else ''}")
            text = next((text for text in texts if len(text) <= self.style.width - 4), texts[-1])
            head = f"  {self.style.paint({'start': '+', 'keep': '='}[action], action)} "
            yield from hanging_text(head, text, self.style.width - 4, "    ")
        if len(largest) > MAX_GROUPS:
            rest = sum(len(inside) for _, inside in largest[MAX_GROUPS:])
            yield f"    and {count_text(rest, 'job')} elsewhere"
        yield f"  one by one: gangplan plan --decision {action}"

    def job_row(self, row: tuple[str, str, str, str], widths: Sequence[int], action: str) -> Iterator[str]:
        """One line, its last column continued below itself."""
        mark = {"start": "+", "keep": "="}[action]
        name, pods, asks, where = row
        left = f"{name:<{widths[0]}}  {pods:<{widths[1]}}  {asks:>{widths[2]}}  "
        if len(left) > self.style.width - 24:  # no room for the last column
            text = "  ".join(part for part in (pods, asks, where) if part)
            yield f"  {self.style.paint(mark, action)} {name}"
            yield from (line.replace(NO_BREAK, " ") for line in wrap_text(text, " " * 6, self.style.width))
            return
        head, room = f"  {self.style.paint(mark, action)} {left}", max(20, self.style.width - 4 - len(left))
        lines = hanging_text(head, where, room, " " * (4 + len(left)))
        yield from (line.rstrip().replace(NO_BREAK, " ") for line in lines)

    def top_domains(self, decision: JobDecision) -> tuple[int, ...]:
        """Return the topmost domains that hold the job's nodes; -1 represents nodes outside the topology."""
        leaves = {self.leaf_by_node[node] for nodes in decision.pods.values() for node in nodes}
        return tuple(sorted({-1 if top is None else top for top in map(self.top_hypernode, leaves)}))

    def domain_title(self, domains: tuple[int, ...]) -> str:
        """Return the domains' names; of a single one also how full it will be."""
        names = compact_names([self.problem.hypernodes[top].name for top in domains if top >= 0], 4)
        if len(domains) == 1 and domains[0] in self.top_domain_usage:
            device, held, capacity = self.top_domain_usage[domains[0]]
            names += (
                f": {rounded_amount(device, held)} of {rounded_amount(device, capacity)} {_short_device_name(device)}"
            )
        return f"{names} and outside the topology" if -1 in domains and names else names or "outside the topology"

    @cached_property
    def top_domain_usage(self) -> Mapping[int, tuple[str, int, int]]:
        """Top domain -> its scarcest resource, how much of it will be held, and its capacity."""
        room: dict[int, list[list[int]]] = {}
        for node in self.problem.nodes:
            if (top := self.top_hypernode(node.leaf)) is not None:
                held = [capacity - free for capacity, free in zip(node.capacity, node.free, strict=True)]
                room.setdefault(top, []).append([*held, *node.capacity])
        sums = {top: [sum(column) for column in zip(*rows, strict=True)] for top, rows in room.items()}
        for decision in self.outcome.plan.decisions if self.outcome.plan else ():
            for place in decision.placements:
                top = self.top_hypernode(self.problem.nodes[place.node].leaf)
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

    def top_hypernode(self, hypernode: int | None) -> int | None:
        while hypernode is not None and (parent := self.problem.hypernodes[hypernode].parent) is not None:
            hypernode = parent
        return hypernode

    def placement_order(self, decision: JobDecision) -> tuple[tuple[int, ...], int, int]:
        """By domain in the cluster's order, outside the topology last; then by first node, then larger jobs first."""
        tops = self.top_domains(decision)
        first = min((self.node_positions[node] for nodes in decision.pods.values() for node in nodes), default=0)
        return tuple(len(self.problem.hypernodes) if top < 0 else top for top in tops), first, -decision.pod_count

    @cached_property
    def leaf_by_node(self) -> Mapping[str, int | None]:
        return {node.name: node.leaf for node in self.problem.nodes}

    @cached_property
    def node_positions(self) -> Mapping[str, int]:
        """Node -> its position: by leaf in order, nodes outside the topology last."""
        ordered = sorted(
            enumerate(self.problem.nodes), key=lambda item: (item[1].leaf is None, item[1].leaf or 0, item[0])
        )
        return {node.name: place for place, (_, node) in enumerate(ordered)}

    def pods_text(self, decision: JobDecision) -> str:
        counts = [(sum(nodes.values()), role) for role, nodes in decision.pods.items()]
        text = " + ".join(f"{count} {role}" for count, role in counts if count)
        if len(text) > MAX_ROLES_WIDTH:
            text = f"{decision.pod_count} pods in {len(counts)} roles"
        grown = decision.pod_count - decision.running_count
        return f"{text} ({grown} new)" if decision.running_count and grown else text

    def scarce_amount(self, decision: JobDecision, pods: Mapping[str, Mapping[str, int]] | None) -> str:
        """Return the usage of `pods` of the scarcest resource that the job requests; of all replicas if None."""
        total: Counter[str] = Counter()
        for role in decision.gang.roles:
            count = role.replicas if pods is None else sum(pods.get(role.name, {}).values())
            for name, amount in role.pod.requests.items():
                total[name] += amount * count
        for name in (*self.devices, "cpu", "memory"):
            if total[name]:
                return f"{rounded_amount(name, total[name])} {_short_device_name(name)}"
        return ""

    def location_text(self, decision: JobDecision) -> str:
        nodes = sorted({node for held in decision.pods.values() for node in held}, key=self.node_positions.__getitem__)
        if not decision.domains:
            return compact_names(nodes, 6) + (f" ({len(nodes)}{NO_BREAK}nodes)" if len(nodes) > 2 else "")
        if len(nodes) == 1:
            return f"{decision.domains[0]}: {nodes[0]}"
        return f"{compact_names(decision.domains, 8)} ({len(nodes)}{NO_BREAK}nodes)"

    def evicted_jobs(self, victims: Sequence[JobDecision]) -> Iterator[str]:
        pods = sum(decided.evicted_count for decided in victims)
        yield f"{self.style.paint('Evicts', 'head')}: {count_text(pods, 'pod')} of {count_text(len(victims), 'job')}"
        shown = victims[:MAX_DETAILED] if self.selection.is_brief(victims) else victims
        for decided in sorted(shown, key=lambda decided: (decided.evicted_for, decided.name)):
            head, width = f"  {self.style.paint('x', 'evict')} ", self.style.width - 4
            yield from hanging_text(head, self.eviction_text(decided), width, " " * 6)
        if len(shown) < len(victims):
            yield f"    and {len(victims) - len(shown)} more: gangplan plan --decision evict"

    @staticmethod
    def eviction_text(decision: JobDecision) -> str:
        """ "evicts vision/nas-trial-1 (3 pods, 12 min) for ...": what the job loses, and for which jobs."""
        lost = (
            f"{count_text(decision.evicted_count, 'pod')} of {decision.evicted_count + decision.running_count}"
            if decision.action == "keep"
            else count_text(decision.evicted_count, "pod")
        )
        time = f", {rounded_duration_text(decision.seconds_run)}" if decision.seconds_run else ""
        return f"evicts {decision.name} ({lost}{time}) for {compact_names(list(decision.evicted_for), 4)}"

    def waiting_jobs(self, waiting: Sequence[JobDecision]) -> Iterator[str]:
        yield f"{self.style.paint('Waits', 'head')}: {count_text(len(waiting), 'job')}"
        for decided in waiting:
            role = "never" if decided.never else "wait"
            what = " + ".join(f"{spec.replicas} {spec.name}" for spec in decided.gang.roles if spec.replicas)
            queue = f"queue {decided.gang.queue}" if decided.gang.queue else ""
            shown_text = ", ".join(part for part in (what, self.scarce_amount(decided, None), queue) if part)
            head = f"  {self.style.paint('!' if decided.never else '-', role)} "
            yield from hanging_text(head, f"{decided.name}  {shown_text}", self.style.width - 4, "    ")
            yield from self.reason_lines(decided)

    def reason_lines(self, decision: JobDecision, indent: str = "      ") -> Iterator[str]:
        for reason in decision.reasons:
            yield from self.message_lines(reason, "never" if reason.never else "wait", indent)
        for repair in decision.repairs:
            yield from self.message_lines(repair, "start", indent, "would help: ")
        if decision.held:
            yield from wrap_text(HELD_SENTENCE, indent, self.style.width)
        if decision.start.awaited_jobs:
            yield from wrap_text(self.reservation_text(decision), indent, self.style.width)
        if (window := window_entry(decision.start)) is not None:
            yield from wrap_text(window_sentence(window), indent, self.style.width)

    @staticmethod
    def reservation_text(decision: JobDecision) -> str:
        """When the job with the reservation starts, and after which jobs."""
        if decision.start.starts_at is not None:
            when = f"expected to start about {rfc3339(decision.start.starts_at)}"
        elif decision.start.starts_in is not None:
            when = f"expected to start in about {rounded_duration_text(decision.start.starts_in)}"
        else:
            when = "starts, when is not known,"
        return f"room is reserved for it: {when} after {compact_names(list(decision.start.awaited_jobs), 4)}"

    def message_lines(self, message: CodedMessage, colour_key: str, indent: str, prefix: str = "") -> Iterator[str]:
        head, below = f"{indent}{self.style.code(message.code, colour_key)}  ", f"{indent}       "
        yield from hanging_text(head, prefix + message.message, self.style.width - len(below), below)
        every = (message, *message.also)
        sources = [*dict.fromkeys(source for each in every for source in each.sources)]
        if not prefix or self.show_all_sources:  # the short form shows only obstacles
            yield from (
                f"{below}{self.style.paint(line, 'dim')}"
                for line in self.source_lines(sources, self.style.width - len(below))
            )

    def source_lines(self, sources: Sequence[Source], width: int) -> Iterator[str]:
        """Yield the sources of a fact: the first ones on one line, or each on its own (`show_all_sources`)."""
        if self.show_all_sources:
            yield from (_full_source(source) for source in sources)
        elif sources:
            rest = len(sources) - MAX_SOURCES
            shown_text = ", ".join(source.short_text for source in sources[:MAX_SOURCES]) + (
                f" and {rest} more" if rest > 0 else ""
            )
            yield from textwrap.wrap(f"see {shown_text}", width, break_on_hyphens=False, break_long_words=False)

    # ---- queues and totals

    def queues(self) -> Iterator[str]:
        implied = (queue.name for queue, spec in zip(self.problem.queues, self.origins.queues, strict=True) if not spec)
        return QueueTables(self.style, self.data, self.devices, frozenset(implied)).tables()

    def totals(self) -> Iterator[str]:
        return totals(self.style, self.data["totals"], self.devices)

    # ---- proof

    def verdicts(self, timings: bool) -> Iterator[str]:
        batches = self.data["batches"]
        if not batches:
            return
        yield self.style.paint("Proof", "head")
        open_ones = [at for at, batch in enumerate(batches) if not _is_proven(batch)]
        shown = range(len(batches)) if len(batches) <= MAX_BATCHES else open_ones[:MAX_BATCHES]
        if len(shown) < len(batches):
            proven = len(batches) - len(open_ones)
            yield f"  {len(batches)} batches, {proven} of them proven optimal"
        for at, batch in ((at + 1, batches[at]) for at in shown):
            took = ""
            if timings and self.outcome.plan is not None:
                took = f", {self.outcome.plan.batches[at - 1].seconds:.2f} s"
            proven = sum(objective["verdict"] == "proven" for objective in batch["objectives"])
            of = f"{proven} of {count_text(len(batch['objectives']), 'objective')} proven optimal"
            yield f"  batch {at}, {count_text(len(batch['gangs']), 'job')}: {of}{took}"
            for objective in batch["objectives"]:
                if objective["verdict"] != "proven":
                    numbers = f"{objective['value']:g}, bound {objective['bound']:g}, gap {objective['gap']:.2%}"
                    text = f"{objective['name']}: {numbers}: {objective['verdict']}"
                    yield from wrap_text(text, "    ", self.style.width)

    def summary(self) -> Iterator[str]:
        counts = Counter(decided.action for decided in self.outcome.decisions)
        never = sum(decided.never for decided in self.outcome.decisions)
        parts = [f"{counts['start']} to start", f"{counts['keep']} to keep", f"{counts['wait']} to wait"]
        if counts["evict"]:
            parts.insert(2, f"{counts['evict']} to evict")
        grow = sum(decided.action == "keep" and decided.grows for decided in self.outcome.decisions)
        if grow:
            parts[1] += f" ({grow} to grow)"
        if never:
            parts[-1] += f" ({never} can never start as written)"
        if broken := len(left_out(self.outcome)):
            parts.append(f"{broken} left out for errors")
        if self.outcome.decisions or broken:
            yield from hanging_text(
                f"{self.style.paint('Plan', 'head')}: ", f"{', '.join(parts)}.", self.style.width - 6, "  "
            )
        else:
            yield "Plan: there are no jobs."
        if self.outcome.specs.is_partial:
            yield "Parts of the cluster are not planned for the errors in cluster-specs."


def _is_proven(batch: Mapping[str, Any]) -> bool:
    return all(objective["verdict"] == "proven" for objective in batch["objectives"])


def _full_source(source: Source) -> str:
    what = f"{source.object}, {source.field}" if source.field else source.object
    place = source.position
    return f"in the cluster: {what}" if place is None else f"{place.file}:{place.line}:{place.column}: {what}"


def _short_device_name(device: str) -> str:
    return "GPU" if device.endswith("/gpu") else device


def grouped_waits(style: Style, waiting: Sequence[JobDecision]) -> Iterator[str]:
    """Yield a line or two for each reason and queue, in place of several for each job; of many of them the table."""
    groups = list(waits_by_reason(waiting))
    if len(groups) > MAX_DETAILED:
        yield from waits_table(style, waiting)
        yield from wrap_text(_HINT, "  ", style.width)
        return
    yield f"{style.paint('Waits', 'head')}: {count_text(len(waiting), 'job')}, by their first reason"
    for code, meaning, jobs in groups:
        role = "never" if jobs[0].never else "wait"
        mark = style.paint("!" if jobs[0].never else "-", role)
        where = f"queue {jobs[0].gang.queue}" if jobs[0].gang.queue else "no queue"
        text = f"{count_text(len(jobs), 'job')}: {meaning} ({where}): {named_jobs(jobs)}"
        yield from hanging_text(f"  {mark} {style.code(code, role)}  ", text, style.width - 11, " " * 11)
    yield from wrap_text(_HINT, "  ", style.width)


_HINT = "one by one: gangplan plan --decision wait; all of one: gangplan explain JOB"


def waits_table(style: Style, waiting: Sequence[JobDecision]) -> Iterator[str]:
    """Yield waiting jobs by their first reason and queue: reasons down, those that can never start last; queues across,
    the rest of them in one column beyond the width."""
    counts, queues = dict[str, Counter[str]](), Counter[str]()
    for code, meaning, jobs in waits_by_reason(waiting):
        row, queue = f"{'!' if jobs[0].never else '-'} {code}  {meaning}", jobs[0].gang.queue or "(none)"
        counts.setdefault(row, Counter())[queue] += len(jobs)
        queues[queue] += len(jobs)
    yield f"{style.paint('Waits', 'head')}: {count_text(len(waiting), 'job')}, by their first reason and queue"
    first = min(max(map(len, counts)), max(24, style.width - 48))
    names, room = list[str](), style.width - first - 2 - 8 - 8
    for name, _ in queues.most_common():
        if (room := room - max(len(_short(name)) + 2, 8)) < 0:
            break
        names.append(name)
    others = [name for name in queues if name not in names]
    heads = [*map(_short, names), *([f"{len(others)} more"] if others and names else []), "all"]
    widths = [max(len(head) + 2, 8) for head in heads]
    yield f"  {'':<{first}}" + "".join(f"{head:>{width}}" for head, width in zip(heads, widths, strict=True))
    for row, found in counts.items():
        numbers = [
            *(found[name] for name in names),
            *([sum(found[name] for name in others)] if others and names else []),
        ]
        cells = [str(number or "") for number in (*numbers, found.total())]
        *above, last = textwrap.wrap(row, first, subsequent_indent=" " * 9, break_on_hyphens=False)
        yield from (f"  {line}" for line in above)
        yield f"  {last:<{first}}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _short(name: str) -> str:
    """Return a long name without its beginning."""
    return name if len(name) <= _MAX_HEAD else f"..{name[2 - _MAX_HEAD :]}"


_MAX_HEAD = 14


def left_out_rows(style: Style, outcome: Outcome, selection: Selection) -> Iterator[str]:
    """Yield the jobs that errors keep out of the plan; nothing if there are none."""
    jobs = left_out(outcome)
    if not jobs:
        return
    yield f"{style.paint('Left out', 'head')}: {count_text(len(jobs), 'job')} with errors"
    if selection.is_summary:
        return
    for job in jobs[:MAX_DETAILED]:
        yield f"  {style.paint('!', 'never')} {_left_out_text(job)}"
    if len(jobs) > MAX_DETAILED:
        yield f"    and {len(jobs) - MAX_DETAILED} more"


def _left_out_text(job: LeftOut) -> str:
    first = job.errors[0]
    name = "" if job.document is None else f"{job.document.namespace or 'default'}/{job.document.name}  "
    more = f" and {len(job.errors) - 1} more" if len(job.errors) > 1 else ""
    return f"{printable(name)}{printable(first.position.file)}:{first.position.line} {first.code}{more}"
