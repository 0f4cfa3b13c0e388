"""One job explained: its decision, the facts, where it stands in its file, its queues with their numbers, and what
would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compiler.fields.amounts import quantity
from compiler.outcome import Decided, Outcome
from compiler.specs import TopologySpec
from compiler.views import data as views_data
from compiler.views.names import compact
from compiler.views.text import LIMITS, PLAIN, PlanView, Style, amount, wrapped


def explanation(outcome: Outcome, decided: Decided, style: Style = PLAIN) -> str:
    """One job: its decision, the facts, where it stands in its file, its queues with their numbers, and what would
    help."""
    return "\n".join(_explained(PlanView(outcome, style, in_full=True), decided)) + "\n"


def _explained(view: PlanView, decided: Decided) -> Iterator[str]:
    document, style = decided.gang.document, view.style
    place = document.at("metadata", "name")
    does = {"start": "starts", "keep": "runs on", "wait": "waits", "evict": "is evicted", "done": "is finished"}[
        decided.action
    ]
    yield f"{style.paint(f'{document.kind} {decided.name}', 'head')} {style.paint(does, 'never' if decided.never else decided.action)}"
    yield f"  {place.file}:{place.line}"
    yield ""
    if decided.evicted:
        yield f"  {view.eviction(decided)}"
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
            yield from wrapped(f"{pods} on {'each of ' if len(held) > 1 else ''}{compact(held)}", "    ", style.width)
    topology = decided.gang.topology
    if topology:
        placed = f"; placed in {compact(decided.domains, 8)}" if decided.domains else ""
        yield f"  topology: {_tier(topology)}{placed}"
    for part in decided.gang.subgroups:
        size = f"{part.ready} to {part.size}" if 0 < part.ready < part.size else str(part.size)
        yield f"  groups of {size} pods of {', '.join(part.roles)}: {_tier(part.topology)}"
    yield f"  priority {decided.priority}"
    yield from _path(view, decided)


def _tier(topology: TopologySpec) -> str:
    limit = topology.highest_tier_name or topology.highest_tier
    return topology.mode if limit is None else f"{topology.mode}, up to tier {limit}"


def _per_pod(requests: Mapping[str, int]) -> str:
    said = [f"{quantity(name, amount)} {name}" for name, amount in requests.items() if name != "pods" and amount]
    return f" of {', '.join(said)}" if said else " that ask for nothing"


def _path(view: PlanView, decided: Decided) -> Iterator[str]:
    """The job's queue and those above it."""
    by_name = views_data.named(view.data)
    queue = by_name.get(decided.gang.queue)
    while queue is not None and queue["name"] != "root":
        asked = {name for role in decided.gang.roles for name in role.pod.requests if name != "pods"}
        said = []
        for name in queue["capability"] | queue["deserved"] | queue["guarantee"]:
            if name in asked:
                held = queue["allocated"].get(name, 0) + queue["admitted"].get(name, 0)
                limits = [
                    f"{word} {amount(name, queue[field][name])}" for word, field in LIMITS if name in queue[field]
                ]
                said.append(f"{name} {amount(name, held)} held, {', '.join(limits)}")
        yield from wrapped(
            "; ".join(said) or "no limits on what it asks for", f"  queue {queue['name']}: ", view.style.width
        )
        queue = by_name.get(queue["parent"])
