"""One job explained: its decision, the facts, where it stands in its file, its queues with their numbers, and what
would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compiler.explain.names import compact_names
from compiler.fields.amounts import rounded_amount
from compiler.outcome import JobDecision, Outcome
from compiler.specs import TopologySpec
from compiler.views import data as views_data
from compiler.views.text import LIMIT_COLUMNS, PLAIN, PlanView, Style, amount_text, wrap_text


def explanation_text(outcome: Outcome, decision: JobDecision, style: Style = PLAIN) -> str:
    """One job: its decision, the facts, where it stands in its file, its queues with their numbers, and what would
    help."""
    return "\n".join(_explanation_lines(PlanView(outcome, style, show_all_sources=True), decision)) + "\n"


def _explanation_lines(view: PlanView, decision: JobDecision) -> Iterator[str]:
    document, style = decision.gang.document, view.style
    place = document.position("metadata", "name")
    does = {"start": "starts", "keep": "runs on", "wait": "waits", "evict": "is evicted", "done": "is finished"}[
        decision.action
    ]
    yield f"{style.paint(f'{document.kind} {decision.name}', 'head')} {style.paint(does, 'never' if decision.never else decision.action)}"
    yield f"  {place.file}:{place.line}"
    yield ""
    if decision.evicted_pods:
        yield f"  {view.eviction_text(decision)}"
        yield ""
    yield from view.reason_lines(decision, "  ")
    if decision.reasons:
        yield ""
    for role in decision.gang.roles:
        nodes = decision.pods.get(role.name, {})
        line = document.position(*role.path).line
        need = f"{role.minimum} to {role.replicas}" if role.minimum < role.replicas else str(role.replicas)
        yield f"  role {role.name} (line {line}): needs {need} {'pod' if need == '1' else 'pods'}{_requests_text(role.pod.requests)}"
        by_count: dict[int, list[str]] = {}
        for node, pods in nodes.items():
            by_count.setdefault(pods, []).append(node)
        for pods, held in sorted(by_count.items(), reverse=True):
            yield from wrap_text(
                f"{pods} on {'each of ' if len(held) > 1 else ''}{compact_names(held)}", "    ", style.width
            )
    topology = decision.gang.topology
    if topology:
        placed = f"; placed in {compact_names(decision.domains, 8)}" if decision.domains else ""
        yield f"  topology: {_topology_text(topology)}{placed}"
    for part in decision.gang.subgroups:
        size = f"{part.ready_pods} to {part.size}" if 0 < part.ready_pods < part.size else str(part.size)
        yield f"  groups of {size} pods of {', '.join(part.roles)}: {_topology_text(part.topology)}"
    yield f"  priority {decision.priority}"
    yield from _queue_lines(view, decision)


def _topology_text(topology: TopologySpec) -> str:
    limit = topology.highest_tier_name or topology.highest_tier
    return topology.mode if limit is None else f"{topology.mode}, up to tier {limit}"


def _requests_text(requests: Mapping[str, int]) -> str:
    said = [f"{rounded_amount(name, amount)} {name}" for name, amount in requests.items() if name != "pods" and amount]
    return f" of {', '.join(said)}" if said else " that ask for nothing"


def _queue_lines(view: PlanView, decision: JobDecision) -> Iterator[str]:
    """The job's queue and those above it."""
    by_name = views_data.queues_by_name(view.data)
    queue = by_name.get(decision.gang.queue)
    while queue is not None and queue["name"] != "root":
        asked = {name for role in decision.gang.roles for name in role.pod.requests if name != "pods"}
        said = []
        for name in queue["capability"] | queue["deserved"] | queue["guarantee"]:
            if name in asked:
                held = queue["allocated"].get(name, 0) + queue["admitted"].get(name, 0)
                limits = [
                    f"{word} {amount_text(name, queue[field][name])}"
                    for word, field in LIMIT_COLUMNS
                    if name in queue[field]
                ]
                said.append(f"{name} {amount_text(name, held)} held, {', '.join(limits)}")
        yield from wrap_text(
            "; ".join(said) or "no limits on what it asks for", f"  queue {queue['name']}: ", view.style.width
        )
        queue = by_name.get(queue["parent"])
