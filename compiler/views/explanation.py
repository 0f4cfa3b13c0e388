"""One job explained: its decision, facts and repairs, roles and placement, and its queues with their amounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.decided import JobAction
from compiler.explain.catalogue import remedy
from compiler.fields.quantity import rounded_amount
from compiler.fields.texts import compact_names, count_text
from compiler.kubernetes import ROOT_QUEUE
from compiler.outcome import JobDecision, Outcome
from compiler.specs.gang_spec import GangSpec, RoleSpec, TopologySpec
from compiler.views.queue_tables import LIMIT_COLUMNS, amount_text
from compiler.views.style import PLAIN, Style, wrap_text
from compiler.views.text import PlanView

ACTION_WORDS: Mapping[JobAction, str] = {
    "start": "starts",
    "keep": "runs on",
    "wait": "waits",
    "evict": "is evicted",
    "done": "is finished",
    "empty": "has no pods",
}


def explanation_text(outcome: Outcome, decision: JobDecision, style: Style = PLAIN) -> str:
    """Ends in a newline."""
    return "\n".join(_explanation_lines(PlanView(outcome, style, show_all_sources=True), decision)) + "\n"


def _explanation_lines(view: PlanView, decision: JobDecision) -> Iterator[str]:
    document, style = decision.gang.document, view.style
    place = document.position("metadata", "name")
    said = "can never start as written" if decision.never else ACTION_WORDS[decision.action]
    action = style.paint(said, "never" if decision.never else decision.action)
    yield f"{style.paint(f'{document.kind} {decision.name}', 'head')} {action}"
    yield f"  {place.file}:{place.line}"
    yield ""
    if decision.evicted_pods:
        yield f"  {view.eviction_text(decision)}"
        yield ""
    yield from view.reason_lines(decision, "  ")
    if decision.reasons and not decision.repairs:
        advice = " ".join(dict.fromkeys(remedy(reason.code) for reason in decision.reasons))
        yield from wrap_text(advice, "  in general: ", style.width)
    if decision.reasons:
        yield ""
    least_pods = _least_pods(decision.gang)
    for role, least in zip(decision.gang.roles, least_pods, strict=True):
        yield from _role_lines(decision, role, least, style.width)
    if decision.gang.minimum > sum(least_pods):
        yield f"  needs at least {count_text(decision.gang.minimum, 'pod')} in all"
    topology = decision.gang.topology
    if topology:
        placed = f"; placed in {compact_names(decision.domains, 8)}" if decision.domains else ""
        yield f"  topology: {_topology_text(topology)}{placed}"
    for subgroup in decision.gang.subgroups:
        least, size = subgroup.ready_pods, subgroup.size
        pods = f"{least} to {count_text(size, 'pod')}" if 0 < least < size else count_text(size, "pod")
        yield f"  groups of {pods} of {', '.join(subgroup.roles)}: {_topology_text(subgroup.topology)}"
    yield f"  priority {decision.priority}"
    yield from _queue_lines(view, decision)


def _least_pods(gang: GangSpec) -> list[int]:
    """Return the fewest pods of each role with which the gang starts: the role's minimum, or what the others leave of
    the gang's."""
    pods = sum(role.replicas for role in gang.roles)
    return [max(role.minimum, gang.minimum - (pods - role.replicas)) for role in gang.roles]


def _role_lines(decision: JobDecision, role: RoleSpec, least: int, width: int) -> Iterator[str]:
    """Yield a role's needs, and the nodes of its pods by their number."""
    line = decision.gang.document.position(*role.path).line
    most = count_text(role.replicas, "pod")
    pods = most if least >= role.replicas else f"{least} to {most}" if least else f"up to {most}"
    yield f"  role {role.name} (line {line}): needs {pods}{_requests_text(role.pod.requests, role.replicas)}"
    if role.live is not None:
        written = ", ".join(_requests_texts(role.live.template)) or "nothing"
        yield from wrap_text(f"as the pods ask in the cluster; the template asks for {written}", "    ", width)
    nodes_by_count: dict[int, list[str]] = {}
    for node, count in decision.pods.get(role.name, {}).items():
        nodes_by_count.setdefault(count, []).append(node)
    for count, nodes in sorted(nodes_by_count.items(), reverse=True):
        each = "each of " if len(nodes) > 1 else ""
        yield from wrap_text(f"{count} on {each}{compact_names(nodes)}", "    ", width)


def _topology_text(topology: TopologySpec) -> str:
    limit = topology.highest_tier_name or topology.highest_tier
    return topology.mode if limit is None else f"{topology.mode}, up to tier {limit}"


def _requests_text(requests: Mapping[str, int], pods: int) -> str:
    """Return the requests of each of so many pods."""
    if texts := _requests_texts(requests):
        return f" of {', '.join(texts)}"
    return " that asks for nothing" if pods == 1 else " that ask for nothing"


def _requests_texts(requests: Mapping[str, int]) -> list[str]:
    """Return all but the number of pods."""
    asked = ((name, amount) for name, amount in requests.items() if name != "pods")
    return [f"{rounded_amount(name, amount)} {name}" for name, amount in asked if amount]


def _queue_lines(view: PlanView, decision: JobDecision) -> Iterator[str]:
    """Yield the job's queue and its ancestors, with the resources that the job names."""
    by_name = {queue["name"]: queue for queue in view.data["queues"]}
    named = {name for role in decision.gang.roles for name in role.pod.requests} - {"pods"}
    queue = by_name.get(decision.gang.queue)
    while queue is not None and queue["name"] != ROOT_QUEUE:
        limited = queue["capability"] | queue["deserved"] | queue["guarantee"]
        texts = [_queue_text(queue, name) for name in limited if name in named]
        text = "; ".join(texts) or "no limits on what it asks for"
        yield from wrap_text(text, f"  queue {queue['name']}: ", view.style.width)
        queue = by_name.get(queue["parent"] or "")


def _queue_text(queue: Mapping[str, Any], resource: str) -> str:
    held = queue["allocated"].get(resource, 0) + queue["admitted"].get(resource, 0)
    limits = [
        f"{word} {amount_text(resource, queue[field][resource])}"
        for word, field in LIMIT_COLUMNS
        if resource in queue[field]
    ]
    return f"{resource} {amount_text(resource, held)} held, {', '.join(limits)}"
