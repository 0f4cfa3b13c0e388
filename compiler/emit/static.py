"""Static binding, for use without the reconciler: required node affinity in each role's template names its nodes.

A template holds for all pods of its role, so it can name the nodes, but neither the number of pods on each nor the
nodes of a subgroup. Where the planned counts do not follow from the nodes alone, a diagnostic reports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.emit.templates import pod_templates
from compiler.kubernetes import HOSTNAME_LABEL
from compiler.outcome import JobDecision, Outcome
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import SubgroupSpec
from solver.plan import Plan
from solver.problem import Problem, Vector

INEXACT_COUNTS = declare_rule("GP520", "info")


JOB_WITHHELD = declare_rule("GP521", "info")


def is_withheld(specs: Specs, decision: JobDecision) -> bool:
    """Return whether the job must not exist in the cluster yet."""
    return (
        specs.cluster.binding == "static"
        and decision.action == "wait"
        and decision.gang.scheduling.schedulable
        and not decision.pods
    )


def bind(data: dict[str, Any], decision: JobDecision, hostnames: dict[str, str]) -> None:
    """Bind the job to its planned nodes. hostnames: node name -> value of its hostname label."""
    for role, template in pod_templates(data, decision.gang):
        nodes = decision.pods.get(role.name)
        if nodes:
            _require_nodes(template["spec"], sorted(hostnames.get(node, node) for node in nodes))


def _require_nodes(pod: dict[str, Any], hosts: list[str]) -> None:
    """Add the nodes as one more condition to each alternative that the user wrote."""
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
    """Yield the limits of static binding for this plan; none for other bindings."""
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
    free = _free_after(outcome.problem, outcome.plan)
    for decision in outcome.decisions:
        if decision.gang_index is None or decision.action not in ("start", "keep"):
            continue
        roles = outcome.problem.gangs[decision.gang_index].roles
        for role, spec in zip(roles, decision.gang.roles, strict=True):
            nodes = decision.pods.get(role.name, {}).keys()
            fits_more = any(_fits(role.request, free[node]) for node in nodes)
            if len(nodes) > 1 and (fits_more or _shares_domains_or_nodes(decision, role.name)):
                yield INEXACT_COUNTS.diagnostic(
                    decision.gang.document.position(*spec.path),
                    f"role {role.name} is planned on {len(nodes)} nodes, "
                    "and its template cannot say which of its pods, or how many, go to each",
                    "use binding gated to have exactly the planned counts",
                    object=decision.gang.document.display_name,
                )


def _free_after(problem: Problem, plan: Plan) -> dict[str, Vector]:
    """Return node name -> free amounts once the plan is carried out."""
    free = [node.free for node in problem.nodes]
    for decision in plan.decisions:
        for place in decision.placements:
            request = problem.gangs[decision.gang].roles[place.role].request
            free[place.node] = tuple(
                left - amount * place.pods for left, amount in zip(free[place.node], request, strict=True)
            )
    return {node.name: amounts for node, amounts in zip(problem.nodes, free, strict=True)}


def _fits(request: Vector, free: Vector) -> bool:
    return all(left >= amount for left, amount in zip(free, request, strict=True))


def _shares_domains_or_nodes(decision: JobDecision, role: str) -> bool:
    """Return whether a group of the role that Volcano does not know of may lie in several domains, or another role uses
    one of its nodes."""
    unknown = any(_is_unknown_to_volcano(subgroup, role) for subgroup in decision.gang.subgroups)
    if unknown and len(decision.domains) > 1:
        return True
    nodes = decision.pods.get(role, {}).keys()
    return any(not nodes.isdisjoint(held) for name, held in decision.pods.items() if name != role)


def _is_unknown_to_volcano(subgroup: SubgroupSpec, role: str) -> bool:
    """Return whether the role is in a hard subgroup that only gangplan knows: Volcano handles partitions of its own
    Jobs."""
    return role in subgroup.roles and subgroup.topology.mode == "hard" and subgroup.path[-1:] != ("partitionPolicy",)
