"""The page: markup, style, script and data in one HTML file that loads nothing.

Its data are the document of `plan -o json`, and data for pictures only (docs/reference/report.md). A reason and a
repair keep only the printed parts, so that the names of a thousand rivals do not fill it. Columns of nodes are
run-length encoded: pairs of a value and the number of consecutive nodes with it.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from compiler.diagnostics.render.words import printable
from compiler.explain.catalogue import REASONS, entries_by_code
from compiler.fields.quantity import is_device, json_amount
from compiler.lower.origins import Origins
from compiler.outcome import JobDecision, Outcome, PodsByNode
from compiler.specs.node_spec import NodeSpec
from compiler.views.data import gang_entry, plan_document
from compiler.views.heat_map import scarce_resources
from solver.problem import Node, Placement, Problem

MAX_SOURCES = 4
"""Objects that a reason names; the page counts the rest."""
_MESSAGE_FIELDS = ("code", "message", "never", "at", "seconds")
Runs = list[list[Any]]
"""A column, run-length encoded."""


@dataclass(frozen=True, slots=True)
class Base:
    """The base of the page's comparison: its name, its outcome once it is in force, and the changes of jobs as entries
    of `gangplan diff -o json`, each with its verb for one job and for several."""

    name: str
    outcome: Outcome
    changes: Sequence[Mapping[str, Any]]


def report_document(outcome: Outcome, base: Base | None = None) -> dict[str, Any]:
    """Return the document of an outcome with a plan."""
    problem, plan, origins = outcome.problem, outcome.plan, outcome.origins
    if problem is None or plan is None or origins is None:
        raise ValueError("only an outcome with a plan can be shown")
    document = plan_document(outcome)
    jobs = [
        {
            **_shortened(entry),
            **_size_fields(decided),
            **_time_fields(decided, problem),
            **_pod_fields(decided, problem, base),
        }
        for entry, decided in zip(document["gangs"], outcome.decisions, strict=True)
    ]
    if plan.reservation is not None:
        at = next(at for at, decided in enumerate(outcome.decisions) if decided.gang_index == plan.reservation.gang)
        jobs[at]["reserved"] = _pods_by_node(problem, plan.reservation.gang, plan.reservation.placements)
    titles = entries_by_code(REASONS)
    codes = {reason["code"] for job in jobs for reason in job["reasons"]}
    resources = _shown_resources(problem, origins)
    return {
        **document,
        "gangs": jobs,
        "devices": scarce_resources(_capacities(origins, resources)),
        "domains": _domain_columns(problem, origins),
        "nodes": _node_columns(problem, origins, resources),
        "maintenance": _maintenance(problem),
        "reasonTitles": {code: titles[code].title for code in sorted(codes) if code in titles},
        **({} if base is None else {"base": _base_entry(base, outcome)}),
    }


def _base_entry(base: Base, outcome: Outcome) -> dict[str, Any]:
    """Return the changes, and the jobs that had pods and are not in the plan any more."""
    absent = (decided for decided in base.outcome.decisions if decided.key not in outcome.by_key)
    shown = ("change", "verb", "verbs", "kind", "name", "queue", "why")
    return {
        "name": base.name,
        "changes": [{field: change[field] for field in shown} for change in base.changes],
        "gone": [_gone_entry(decided) for decided in absent if decided.pods],
    }


def _gone_entry(decided: JobDecision) -> dict[str, Any]:
    empty = {"decision": "gone", "pods": {}, "domains": [], "reasons": [], "repairs": []}
    return {**gang_entry(decided), **empty, **_size_fields(decided), "before": _plain(decided.pods)}


def _shortened(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a job, its reasons and repairs with what the page prints of them."""
    return {
        **entry,
        "reasons": [_short_message(reason) for reason in entry["reasons"]],
        "repairs": [_short_message(repair) for repair in entry["repairs"]],
    }


def _short_message(message: Mapping[str, Any]) -> dict[str, Any]:
    sources = message.get("from", ())
    more = len(sources) - MAX_SOURCES
    return {
        **{name: message[name] for name in _MESSAGE_FIELDS if name in message},
        **({"from": list(sources[:MAX_SOURCES])} if sources else {}),
        **({"moreSources": more} if more > 0 else {}),
    }


def _size_fields(decided: JobDecision) -> dict[str, Any]:
    """Return the least pods with which the job starts, and each role's pods and what one of them requests."""
    roles = [role for role in decided.gang.roles if role.replicas]
    return {
        "minimum": decided.gang.minimum,
        "replicas": {role.name: role.replicas for role in roles},
        "requests": {role.name: _request(role.pod.requests) for role in roles},
    }


def _request(amounts: Mapping[str, int]) -> dict[str, int | float]:
    asked = {name: json_amount(name, amount) for name, amount in amounts.items() if amount}
    asked.pop("pods", None)
    return asked


def _time_fields(decided: JobDecision, problem: Problem) -> dict[str, Any]:
    """Seconds from now, where they are known."""
    if decided.gang_index is None:
        return {}
    gang = problem.gangs[decided.gang_index]
    known = {"startsIn": decided.start.starts_in, "endsIn": gang.times.ends_in, "duration": gang.times.duration}
    return {name: seconds for name, seconds in known.items() if seconds is not None}


def _pod_fields(decided: JobDecision, problem: Problem, base: Base | None) -> dict[str, Any]:
    """Return the fields of a job's pods. before: former pods of a job that keeps others. evicted: the pods that it
    loses."""
    found: dict[str, Any] = {}
    if base is not None:
        earlier = base.outcome.by_key.get(decided.key)
        before = {} if earlier is None else _plain(earlier.pods)
    elif decided.gang_index is not None:
        before = _pods_by_node(problem, decided.gang_index, problem.gangs[decided.gang_index].running)
    else:
        before = _plain(decided.pods)
    if before != _plain(decided.pods) and (before or decided.action != "start"):
        found["before"] = before
    if decided.evicted_pods:
        found["evicted"] = _plain(decided.evicted_pods)
    return found


def _plain(pods: PodsByNode) -> dict[str, dict[str, int]]:
    return {role: dict(nodes) for role, nodes in pods.items()}


def _pods_by_node(problem: Problem, j: int, places: Iterable[Placement]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for place in places:
        nodes = found.setdefault(problem.gangs[j].roles[place.role].name, {})
        name = problem.nodes[place.node].name
        nodes[name] = nodes.get(name, 0) + place.pods
    return found


def _shown_resources(problem: Problem, origins: Origins) -> list[str]:
    """Return the resources of nodes that the page shows: those that jobs request, and devices without requests."""
    offered = set[str]().union(*(node.allocatable for node in origins.nodes))
    shown = {*problem.resources, "cpu", *filter(is_device, offered)} - {"pods"}
    return sorted(offered & shown)


def _capacities(origins: Origins, resources: Sequence[str]) -> dict[str, int]:
    return {name: sum(node.allocatable.get(name, 0) for node in origins.nodes) for name in resources}


def _domain_columns(problem: Problem, origins: Origins) -> dict[str, list[Any]]:
    """Return the hypernodes: name, tier, the tier's name, the index of the parent, and for dedicated ones the index and
    the queue."""
    return {
        "name": [hypernode.name for hypernode in problem.hypernodes],
        "tier": [hypernode.tier for hypernode in problem.hypernodes],
        "tierName": [spec.tier_name for spec in origins.hypernodes],
        "parent": [hypernode.parent for hypernode in problem.hypernodes],
        "dedicated": [[at, queue.name] for queue in problem.queues for at in queue.dedicated_domains],
    }


def _node_columns(problem: Problem, origins: Origins, resources: Sequence[str]) -> dict[str, Any]:
    """domain: index of the hypernode. capacity: allocatable. others: held by pods of no job of the plan. closed: nodes
    that take no pods for now."""
    index = {name: r for r, name in enumerate(problem.resources)}

    def offered(name: str) -> Runs:
        return _runs(json_amount(name, spec.allocatable.get(name, 0)) for spec in origins.nodes)

    def foreign(name: str) -> Runs:
        r = index[name]
        return _runs(json_amount(name, node.capacity[r] - node.free[r]) for node in problem.nodes)

    others = {name: foreign(name) for name in resources if name in index}
    return {
        "name": [node.name for node in problem.nodes],
        "domain": _runs(node.leaf for node in problem.nodes),
        "capacity": {name: offered(name) for name in resources},
        "others": {name: runs for name, runs in others.items() if runs != [[0, len(problem.nodes)]]},
        "closed": [at for at, node in enumerate(problem.nodes) if _is_closed(node, origins.nodes[at], index)],
    }


def _is_closed(node: Node, spec: NodeSpec, index: Mapping[str, int]) -> bool:
    """Return whether a node takes no pods for now: it is cordoned, or not ready, and then counts with less than it
    has."""
    known = ((name, amount) for name, amount in spec.allocatable.items() if name in index)
    return node.returning is not None or any(node.capacity[index[name]] < amount for name, amount in known)


def _maintenance(problem: Problem) -> list[dict[str, Any]]:
    """Maintenance windows in seconds from now, each with its nodes, the next one first."""
    nodes: dict[tuple[int, int], list[int]] = {}
    for at, node in enumerate(problem.nodes):
        for window in node.maintenance_windows:
            nodes.setdefault(window, []).append(at)
    return [{"from": start, "to": end, "nodes": nodes[start, end]} for start, end in sorted(nodes)]


def _runs(column: Iterable[Any]) -> Runs:
    return [[value, len(list(same))] for value, same in groupby(column)]


_FOLDER = Path(__file__).parent
SCRIPTS = (
    "base",
    "model",
    "layout",
    "details",
    "picture",
    "search",
    "room",
    "queues",
    "waiting",
    "time",
    "proof",
    "main",
)
"""The script's files, in the order in which they are joined."""
LIVE = ("live",)
"""Behind them, where a reconciler serves the page."""
REPLAY = ("base", "curves", "replay")
"""Keys of the page of a replay (`gangplan simulate --page`)."""
_ESCAPED = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"}
"""In strings of JSON only: no `</script>` and no comment ends the data."""


def report_page(outcome: Outcome, base: Base | None = None) -> str:
    """Return the HTML of an outcome with a plan; the same bytes for the same plan."""
    return page_of(report_document(outcome, base))


def live_page(outcome: Outcome) -> str:
    """Return the page as a reconciler serves it: it asks for `report/status.json` next to it, and for the next plan."""
    return page_of(report_document(outcome), is_live=True)


def page_of(document: Mapping[str, Any], *, is_live: bool = False) -> str:
    """Return the page of a plan."""
    scripts = (*SCRIPTS, *(LIVE if is_live else ()))
    return _page(document, document["cluster"], "plan", scripts, "; connect-src 'self'" if is_live else "")


def replay_page(document: Mapping[str, Any]) -> str:
    """Return the page of a replay, of a document of `compiler/views/simulation.py`."""
    return _page(document, document["title"], "replay", REPLAY)


def _page(document: Mapping[str, Any], title: str, body: str, scripts: Sequence[str], policy: str = "") -> str:
    """body: name of the HTML file with the page's sections. policy: what else the page may do."""
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    parts = [(_FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in scripts]
    script = "\n".join(('"use strict";', "(() => {", *parts, "})();\n"))
    sources = f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; base-uri 'none'"
    filled = {
        "TITLE": html.escape(f"gangplan: {printable(title)}"),
        "POLICY": sources + policy,
        "STYLE": style,
        "BODY": (_FOLDER / f"{body}.html").read_text(encoding="utf-8"),
        "DATA": embedded_json(document),
        "SCRIPT": script,
    }
    pieces = (_FOLDER / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(filled[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def embedded_json(document: Mapping[str, Any]) -> str:
    """JSON for a script element. It is ASCII, so that no encoding and no line separator can spoil it."""
    return json.dumps(document, separators=(",", ":")).translate(_ESCAPED)


def _source(text: str) -> str:
    """Return the text as a source of a Content-Security-Policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
