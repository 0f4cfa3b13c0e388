"""Caveats: parts of a plan that Kubernetes may not honour, and evictions that a plan does not dare."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.cluster_state.cluster_state import ClusterState
from compiler.diagnostics.diagnostic import Diagnostic, Position, Severity, declare_rule
from compiler.fields.quantity import named_amount, rounded_amount
from compiler.fields.texts import count_text, short_list
from compiler.kubernetes import SCHEDULER_NAMESPACE
from compiler.lower.origins import Origins
from compiler.lower.reserved_room import unfit_pods
from compiler.specs.cluster_spec import Specs
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.volcano.releases import as_declared
from solver.plan import Plan
from solver.problem import Problem

UNPLANNED_NUMA = declare_rule("GP522", "warning")
UNNAMED_DEVICES = declare_rule("GP523", "info")
ROOM_KEPT = declare_rule("GP524", "info")
NO_ROOM_KEPT = declare_rule("GP525", "warning")
UNFIT_RUN = declare_rule("GP526", "warning")

_WHY_UNFIT = ("GP392", "GP393", "GP394", "GP395")
JOB_INSIDE = ("spec", "jobTemplate")
"""Where a CronJob holds the job of which checks judge."""

LIVE_REQUESTS = declare_rule("GP528", "info")

TURNS = declare_rule("GP529", "info")
_MOST_TURNS = 5

REFUSED_QUEUE = declare_rule("GP530", "error")


def refused_queue_diagnostics(origins: Origins) -> Iterator[Diagnostic]:
    for spec in origins.queues:
        if spec is None or spec.name not in origins.refused_queues:
            continue
        why, document = origins.refused_queues[spec.name], spec.document
        help = "name a parent that is empty or has queues below it, or wait until its jobs have ended"
        if "allowedNamespaces" in why:
            help = f"add Queue {spec.parent} with spec.allowedNamespaces: [{spec.namespace}] to the repository"
        at = document.position("spec", "parent")
        yield REFUSED_QUEUE.diagnostic(at, f"{spec.name}: {why}", help, object=document.display_name)


OTHER_RELEASE = declare_rule("GP531", "warning")


def other_release_diagnostics(specs: Specs, state: ClusterState | None) -> Iterator[Diagnostic]:
    cluster = specs.cluster
    namespace = specs.scheduler.namespace if specs.scheduler else SCHEDULER_NAMESPACE
    for release in state.releases_in(namespace) if state else ():
        is_followed = cluster.volcano in (release, release._replace(patch=None))
        if is_followed and cluster.names_volcano:
            continue
        at = cluster.document.position("spec", "volcano")
        message = f"Volcano {release} runs, and the plan follows the rules of {cluster.volcano}"
        if is_followed:
            message = f"the plan follows the rules of Volcano {release}, which the cluster runs"
        severity: Severity = "info" if is_followed else "warning"
        name = cluster.document.display_name
        yield OTHER_RELEASE.diagnostic(at, message, as_declared(release), object=name, severity=severity)


def turn_diagnostics(problem: Problem, origins: Origins, plan: Plan) -> Iterator[Diagnostic]:
    """One for each queue with jobs that wait, where its namespaces have different turns."""
    waiting = [decision.gang for decision in plan.decisions if decision.action == "wait"]
    for q in sorted({problem.gangs[j].queue for j in waiting}):
        name, spec = problem.queues[q].name, origins.queues[q]
        turns = sorted((turn, namespace) for (queue, namespace), turn in origins.turns.items() if queue == name)
        if len({turn.place for turn, _ in turns}) < 2:
            continue
        shown = ", ".join(f"{namespace} ({turn.used / 3_600_000:.1f})" for turn, namespace in turns[:_MOST_TURNS])
        more = f" and {len(turns) - _MOST_TURNS} more" if len(turns) > _MOST_TURNS else ""
        message = f"namespaces of queue {name} go in turn, by hours of use: {shown}{more}"
        first = next(j for j in waiting if problem.gangs[j].queue == q)
        document = spec.document if spec is not None else origins.gangs[first].document
        yield TURNS.diagnostic(document.position(), message, "nothing to do", object=document.display_name)


def _position(gang: GangSpec, role: RoleSpec) -> Position:
    """Return the position of a role, or of the first of its bare pods."""
    document, path = (role.pod_documents[0], ("spec",)) if role.pod_documents else (gang.document, role.path)
    return document.position(*path)


def live_request_diagnostics(origins: Origins) -> Iterator[Diagnostic]:
    """Yield one diagnostic for each role that is planned with its pods' requests and not with its template's."""
    for gang in origins.gangs:
        for role in gang.roles:
            if role.live is None:
                continue
            asks, template = role.pod.requests, role.live.template
            changes = [
                f"{named_amount(name, asks.get(name, 0))} instead of {rounded_amount(name, template.get(name, 0))}"
                for name in {**template, **asks}
                if asks.get(name, 0) != template.get(name, 0)
            ]
            verb = "pod asks" if role.live.pods == 1 else "pods ask"
            message = f"{role.live.pods} {verb} for other than the template of role {role.name}"
            message += f": the plan counts {', '.join(changes)} for each" if changes else ""
            help = "nothing, if a webhook or a LimitRange is to add to them"
            yield LIVE_REQUESTS.diagnostic(_position(gang, role), message, help, object=gang.document.display_name)


def unfit_run_diagnostics(specs: Specs, origins: Origins) -> Iterator[Diagnostic]:
    """One for each template of a recurring run that no node takes, unless a check found why."""
    found = [(each.object, each.path) for each in specs.diagnostics if each.code in _WHY_UNFIT]
    for pods in unfit_pods(specs, origins.nodes):
        document = pods.document
        inside = pods.path, pods.path[len(JOB_INSIDE) :]
        if any(name == document.display_name and path[: len(at)] == at for name, path in found for at in inside):
            continue
        message = f"no node takes the pods of {document.display_name}, not even an empty one"
        help = "see its requests, node selector, affinity and tolerations"
        yield UNFIT_RUN.diagnostic(document.position(*pods.path), message, help, object=document.display_name)


def reserved_room_diagnostics(origins: Origins) -> Iterator[Diagnostic]:
    """One for each kind of pods that is not planned and takes room in the plan."""
    for room in origins.reserved_rooms:
        document, pods = room.pods.document, room.pods
        kept, at = sum(room.by_node.values()), document.position(*pods.path)
        named = document.display_name
        if pods.role:
            continue  # reported by the plan's decision on the job
        if room.homeless:
            message = f"{named} is not planned, and {room.homeless} of its {pods.count} pods find no node with room"
            help = "room is kept for the others; see their requests, selectors and tolerations"
            yield NO_ROOM_KEPT.diagnostic(at, message, help, object=named)
        elif kept:
            nodes = short_list([origins.nodes[n].name for n in sorted(room.by_node)])
            running = f", {room.running} run already" if room.running else ""
            message = f"{named} is not planned; room is kept for {kept} of its pods on {nodes}{running}"
            yield ROOM_KEPT.diagnostic(at, message, "nothing", object=named)


def unnamed_device_diagnostics(problem: Problem, origins: Origins, plan: Plan) -> Iterator[Diagnostic]:
    """One for each gang that waits for device slots and could evict their holders if it were known which slots those
    hold."""
    for decision in plan.decisions:
        if not decision.unlocated_holders:
            continue
        first, *others = decision.unlocated_holders
        more = f" and {len(others)} more" if others else ""
        holder = f"{problem.gangs[first.gang].name} on {problem.nodes[first.node].name}"
        document = origins.gangs[decision.gang].document
        yield UNNAMED_DEVICES.diagnostic(
            document.position(),
            f"it is not known which cells of {problem.slot_groups[first.slot_group]} the pods of {holder} hold{more}; "
            "no pod is evicted on a guess",
            "wait until one of them ends",
            object=document.display_name,
        )


def unplanned_numa_diagnostics(origins: Origins) -> Iterator[Diagnostic]:
    """One for each role whose NUMA cells are not planned on some nodes."""
    for (j, t), plan in sorted(origins.unplanned_numa.items()):
        gang = origins.gangs[j]
        role = gang.roles[t]
        nodes = f"{count_text(len(plan.unplanned_nodes), 'node')} like {plan.unplanned_nodes[0]}"
        if plan.request is None:
            message = (
                f"role {role.name} asks for parts of several NUMA cells on {nodes}; "
                "its cells are not planned there, and the kubelet may refuse it"
            )
        else:
            message = (
                f"role {role.name} is not planned on {nodes}, "
                "divided into other NUMA cells than the nodes that it is planned on"
            )
        help = "ask for what one cell holds or for whole cells, or choose nodes that are divided alike"
        yield UNPLANNED_NUMA.diagnostic(_position(gang, role), message, help, object=gang.document.display_name)
