"""Binding by required node affinity, for hand-over without the reconciler: each role's template names the planned
nodes.

A template speaks for all pods of its role, so it can say on which nodes, not how many on each, nor which subgroup
where. Where the planned counts do not follow from the nodes alone, a diagnostic says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.diagnostics import Diagnostic, declare_rule
from compiler.emit.templates import pod_templates
from compiler.kubernetes import HOSTNAME_LABEL
from compiler.outcome import JobDecision, Outcome
from compiler.specs import Specs, SubgroupSpec

INEXACT_COUNTS = declare_rule(
    "GP520",
    "info",
    "a template cannot say the planned counts",
    """With static binding a role's pod template names the planned nodes, but not how many pods go to each, or which;
    Volcano may spread them differently over the same nodes. Mend: use binding gated, or give the role pods that
    fill a node.""",
)


JOB_WITHHELD = declare_rule(
    "GP521",
    "info",
    "a waiting job is withheld",
    """Static binding has no gate that could hold a waiting job back: in the cluster it would take the room of those
    that are planned. So it is left out of the manifests until a plan starts it. Mend: nothing, or use binding
    gated.""",
)


def is_withheld(specs: Specs, decision: JobDecision) -> bool:
    """A job that must not exist in the cluster yet."""
    return (
        specs.cluster.binding == "static"
        and decision.action == "wait"
        and decision.gang.schedulable
        and not decision.pods
    )


def bind(data: dict[str, Any], decision: JobDecision, hostnames: dict[str, str]) -> None:
    """hostnames: node name -> value of its hostname label."""
    for role, template in pod_templates(data, decision.gang):
        nodes = decision.pods.get(role.name)
        if nodes:
            _require_nodes(template["spec"], sorted(hostnames.get(node, node) for node in nodes))


def _require_nodes(pod: dict[str, Any], hosts: list[str]) -> None:
    """Alternatives that the user wrote stay alternatives: each gets the nodes as one more condition."""
    expression = {"key": HOSTNAME_LABEL, "operator": "In", "values": hosts}
    affinity = (
        pod.setdefault("affinity", {})
        .setdefault("nodeAffinity", {})
        .setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    )
    terms = affinity.setdefault("nodeSelectorTerms", [])
    for term in terms:
        term.setdefault("matchExpressions", []).append(dict(expression))
    if not terms:
        terms.append({"matchExpressions": [expression]})


def binding_diagnostics(outcome: Outcome) -> Iterator[Diagnostic]:
    """What static binding cannot do for this plan; nothing for other bindings."""
    if outcome.specs.cluster.binding != "static":
        return
    for decided in outcome.decisions:
        if is_withheld(outcome.specs, decided):
            document = decided.gang.document
            yield JOB_WITHHELD.diagnostic(
                document.position("metadata", "name"),
                f"{decided.name} waits and is left out of the manifests",
                "apply it when a plan starts it, or use binding gated",
                object=document.display_name,
            )
    yield from _inexact_count_diagnostics(outcome)


def _inexact_count_diagnostics(outcome: Outcome) -> Iterator[Diagnostic]:
    """Roles whose pods Volcano could spread over the planned nodes in another way.

    The counts follow from the nodes when no planned node could take one pod more of the role, all others being where
    the plan has them, when the role shares none of its nodes with another role of the job, and when none of its groups
    that Volcano does not know of must stay inside one of several domains.
    """
    if outcome.problem is None or outcome.plan is None:
        return
    problem = outcome.problem
    room = [list(node.free) for node in problem.nodes]
    for decision in outcome.plan.decisions:
        for place in decision.placements:
            request = problem.gangs[decision.gang].roles[place.role].request
            room[place.node] = [
                free - amount * place.pods for free, amount in zip(room[place.node], request, strict=True)
            ]
    index = {node.name: n for n, node in enumerate(problem.nodes)}
    for decided in outcome.decisions:
        if decided.gang_index is None or decided.action not in ("start", "keep"):
            continue
        for role, spec in zip(problem.gangs[decided.gang_index].roles, decided.gang.roles, strict=True):
            nodes = decided.pods.get(role.name, {})
            others = {node for name, held in decided.pods.items() if name != role.name for node in held}
            apart = len(decided.domains) > 1 and any(
                _is_unknown_to_volcano(part, role.name) for part in decided.gang.subgroups
            )
            loose = any(
                all(free >= amount for free, amount in zip(room[index[node]], role.request, strict=True))
                for node in nodes
            )
            if len(nodes) > 1 and (loose or apart or others & nodes.keys()):
                yield INEXACT_COUNTS.diagnostic(
                    decided.gang.document.position(*spec.path),
                    f"role {role.name} is planned on {len(nodes)} nodes, and its template cannot say which of its pods, or how many, go to each",
                    "use binding gated to have exactly the planned counts",
                    object=decided.gang.document.display_name,
                )


def _is_unknown_to_volcano(subgroup: SubgroupSpec, role: str) -> bool:
    """A hard group that only gangplan knows of: Volcano keeps the partitions of its own Jobs together by itself."""
    return role in subgroup.roles and subgroup.topology.mode == "hard" and subgroup.path[-1:] != ("partitionPolicy",)
