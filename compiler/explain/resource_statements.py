"""Room on nodes: why there is none, and which other pods or nodes would change that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from compiler.checks.resource_names import near_resource
from compiler.cluster_state.cluster_state import STATE_SOURCE
from compiler.explain.edits import pod_count_edits, replica_edits, request_edits
from compiler.explain.provenance import Provenance, Source, cluster_objects, node_sources, source_at, source_if_written
from compiler.explain.statements import Change, Edits, Entry, Values, amount_to_type, clear_amounts
from compiler.fields.quantity import named_amount, rounded_amount, slot_request_text
from compiler.fields.texts import MAX_LISTED
from compiler.specs.eligibility import absences
from compiler.specs.pod_spec import PodSpec
from solver import facts, repairs


def _capacity(s: Provenance, j: int, role: int | None, resource: int | None) -> Iterator[Source]:
    yield from s.node_capacity(j, role, resource)
    yield from s.role_requests(j, role, resource)


def absence_values(s: Provenance, resource: str) -> dict[str, str]:
    """Return that no node has the resource, and the probable intention."""
    if not s.node_resources or resource in s.node_resources:
        return {}
    near = near_resource(resource, s.node_resources)
    return {"absent": resource} | ({"near": near} if near else {})


def lack_values(s: Provenance, pod: PodSpec, resource: str) -> dict[str, str]:
    """That no open node has the resource, and the nodes that have it."""
    return {"lacking": resource} | s.closed_nodes.owners(pod, resource)


def _oversized_values(s: Provenance, j: int, fact: facts.OversizedPod | facts.OversizedGang) -> Values:
    resource = s.problem.resources[fact.resource]
    limit = clear_amounts(resource, {"asked": fact.asked, "limit": fact.available})["limit"]
    values = {"limit": limit, **absence_values(s, resource)}
    if isinstance(fact, facts.OversizedPod) and not fact.available:
        values |= lack_values(s, s.origins.gangs[j].roles[fact.role].pod, resource)
    return values


def _piece_values(s: Provenance, j: int, fact: facts.Fragmentation) -> Values:
    """Return how much there is, how it lies on nodes, and what a pod asks for."""
    if fact.role is None or fact.scarce is None:
        return {}
    resource, texts = s.problem.resources[fact.scarce], []
    for amount, nodes in fact.pieces[:MAX_LISTED]:
        texts.append(f"{rounded_amount(resource, amount)} on {f'each of {nodes} nodes' if nodes > 1 else '1 node'}")
    rest = sum(nodes for _, nodes in fact.pieces[MAX_LISTED:])
    total = named_amount(resource, sum(amount * nodes for amount, nodes in fact.pieces))
    return {
        "resource": resource,
        "total": f"{total} {'even when empty' if fact.never else 'free'}",
        "pieces": ", ".join(texts) + (f" and less on {rest} more" if rest else ""),
        "each": rounded_amount(resource, s.problem.gangs[j].roles[fact.role].request[fact.scarce]),
    }


def _device_slots(s: Provenance, j: int, role: int, resource: int | None) -> Iterator[Source]:
    groups = {s.problem.slot_groups[p.slot_group] for p in s.problem.gangs[j].roles[role].slot_requests}
    for group in sorted(groups):
        path = ("spec", "numa") if group == "numa" else ("spec", "sharedDevices")
        yield from s.eligible_nodes(j, role, f"cells of {group}", path, ("metadata", "name"))
    # A share of one resource may be written as another, as memory by a percentage.
    yield from list(s.role_requests(j, role, resource)) or s.role_requests(j, role, None)


def _share_values(s: Provenance, j: int, fact: facts.SlotShortage) -> Values:
    request = s.problem.gangs[j].roles[fact.role].slot_requests[0]
    return {"share": slot_request_text(request, s.problem.resources)}


def _eligibility(s: Provenance, j: int, fact: facts.NoEligibleNode | facts.EligibleNodeShortage) -> Iterator[Source]:
    yield from s.role_selectors(j, fact.role)
    yield from s.eligible_nodes(j, fact.role, "", ("metadata", "name"), ("metadata", "name"))


def _eligibility_values(s: Provenance, j: int, fact: facts.NoEligibleNode | facts.EligibleNodeShortage) -> Values:
    """Labels and taints that close nodes to the role, where they are why."""
    values: dict[str, str] = {} if s.problem.nodes else {"nothing": "the cluster has no nodes"}
    if policy := s.origins.excluding_numa_policies.get((j, fact.role)):
        values["policy"] = policy
    found = s.closed_nodes.reasons(s.origins.gangs[j].roles[fact.role].pod)
    return {**values, **(found if isinstance(fact, facts.NoEligibleNode) != ("open" in found) else {})}


def _own_pods(s: Provenance, j: int, fact: facts.OwnRunningPods) -> Iterator[Source]:
    gang = s.problem.gangs[j]
    nodes = [s.problem.nodes[n].name for n in sorted({p.node for p in gang.running})]
    return cluster_objects(f"Pods of {gang.name} on", nodes)


def _away_nodes(s: Provenance, j: int, x: facts.AwayNodes | repairs.ReturnOfNodes) -> Iterator[Source]:
    """Yield nodes that are away by their documents, then those that only the cluster reports."""
    others = []
    for n in x.nodes:
        spec = s.origins.nodes[n]
        written = list(source_if_written(spec.document, "unschedulable", "spec", "unschedulable"))
        if written and spec.document.file != STATE_SOURCE:
            yield from written
        else:
            others.append(spec.name)
    yield from cluster_objects("Node", others)


def _away_values(s: Provenance, j: int, fact: facts.AwayNodes) -> Values:
    return {"absence": " or ".join(dict.fromkeys(word for n in fact.nodes for word in absences(s.origins.nodes[n])))}


REASONS: tuple[Entry[Any], ...] = (
    Entry(
        facts.ResourceShortage,
        "not enough of a resource is free",
        ("{available} free on the nodes open to it; the job asks for {asked:n}",),
        lambda s, j, x: _capacity(s, j, x.role, x.resource),
        never_texts=("the nodes open to it have {available} even when empty; the job asks for {asked:n}",),
        remedy="Wait for a job to end, ask for less, or add nodes.",
    ),
    Entry(
        facts.OversizedPod,
        "no node can hold one pod",
        (
            "no node open to it has room for one pod of role {role} now: a pod asks for {asked}, the roomiest "
            "node has {available:n}",
        ),
        lambda s, j, x: _capacity(s, j, x.role, x.resource),
        _oversized_values,
        of_document=True,
        never_texts=(
            "no node open to it is large enough for one pod of role {role}: a pod asks for {asked}, the largest "
            "node has {available:n}",
        ),
        special_texts=(
            "no node has {absent}, of which a pod of role {role} asks for {asked:n}; did you mean {near}?",
            "no node has {absent}, of which a pod of role {role} asks for {asked:n}",
            "no node open to role {role} has {lacking}, of which a pod asks for {asked:n}; {owners}",
        ),
        remedy="Ask for less, or for what nodes have, or add nodes of another kind.",
    ),
    Entry(
        facts.UnmatchedPod,
        "no node can hold one pod",
        ("no node open to it has room for one pod of role {role}",),
        lambda s, j, x: _capacity(s, j, x.role, None),
        never_texts=("no node open to it is large enough for one pod of role {role}",),
    ),
    Entry(
        facts.OversizedGang,
        "larger than the cluster",
        ("the job asks for {asked}; the whole cluster, empty, has {limit:n}",),
        lambda s, j, x: _capacity(s, j, None, x.resource),
        _oversized_values,
        of_document=True,
        special_texts=(
            "no node has {absent}, of which the job asks for {asked:n}; did you mean {near}?",
            "no node has {absent}, of which the job asks for {asked:n}",
        ),
        remedy="Ask for less, or add nodes.",
    ),
    Entry(
        facts.Fragmentation,
        "the free room is in pieces",
        (
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of "
            "{asked:pods} of role {role}",
            "enough is free on the nodes open to it, but in pieces: there is room for {available:n} of {asked:pods}",
        ),
        lambda s, j, x: _capacity(s, j, x.role, None),
        _piece_values,
        never_texts=(
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods} of "
            "role {role}",
            "the nodes open to it have enough in sum, but even empty they hold {available:n} of {asked:pods}",
        ),
        special_texts=(
            "{total}, {pieces}; a pod of role {role} asks for {each}, and there is room for {available:n} of "
            "{asked:pods}",
        ),
        remedy="Wait for whole nodes, make the pods smaller, or ask for fewer.",
    ),
    Entry(
        facts.SlotShortage,
        "no device or NUMA cell has room",
        (
            "a pod of role {role} asks for {asked} of one device or NUMA cell; the roomiest has {available:n} "
            "left, the largest has {limit:n} in all",
            "its nodes have room in sum, but their devices or NUMA cells for {available:n} of {asked:pods} of "
            "role {role}; each takes {share}",
        ),
        lambda s, j, x: _device_slots(s, j, x.role, x.resource),
        _share_values,
        never_texts=(
            "a pod of role {role} asks for {asked} of one device or NUMA cell; even empty, the largest has {limit:n}",
            "its nodes are large enough, but their devices or NUMA cells, even empty, hold {available:n} of "
            "{asked:pods} of role {role}; each takes {share}",
        ),
        remedy="Ask each pod for less of one device or NUMA cell, wait for one to be free, or use nodes that are "
        "divided otherwise.",
    ),
    Entry(
        facts.NoEligibleNode,
        "no node is open to a role",
        ("no node matches the node selector, affinity and tolerations of role {role}",),
        _eligibility,
        _eligibility_values,
        of_document=True,
        special_texts=(
            "{nothing}, so that none is open to role {role}",
            "no node that the selector, affinity and tolerations of role {role} match has its topologyPolicy "
            "{policy} and a static CPU manager",
            "{matched}; {tainted}, which role {role} does not tolerate",
            "no node has {unmatched}, as role {role} demands; {near}",
            "no node has {unmatched}, as role {role} demands",
            "no node has all that role {role} demands: {demanded}",
        ),
        remedy="Correct the selector, affinity or topologyPolicy, add the toleration, or label the nodes.",
    ),
    Entry(
        facts.EligibleNodeShortage,
        "too few nodes are open to a role",
        (
            "the nodes that match the node selector, affinity and tolerations of role {role} hold {available:n} "
            "of {asked:pods}, even empty",
        ),
        _eligibility,
        _eligibility_values,
        of_document=True,
        special_texts=(
            "the nodes with topologyPolicy {policy} and a static CPU manager that the selector, affinity and "
            "tolerations of role {role} match hold {available:n} of {asked:pods}, even empty",
            "the {open} that role {role} may use {hold} {available:n} of {asked:pods}, even empty; of those that match "
            "its selectors {tainted}, which it does not tolerate",
        ),
        remedy="Widen the selector or affinity, change the topologyPolicy, add the toleration, or ask for fewer pods.",
    ),
    Entry(
        facts.OwnRunningPods,
        "its own pods are in the way",
        (
            "{asked:pods} of it are missing and find no room next to its running pods; were those to stop, all of"
            " it would fit elsewhere",
        ),
        _own_pods,
        remedy="Let its running pods be deleted, so that it starts again, or wait for room next to them.",
    ),
    Entry(
        facts.AwayNodes,
        "nodes are away",
        ("there would be room with {nodes}, {absence} for now",),
        _away_nodes,
        _away_values,
        remedy="Bring the nodes back, or wait.",
    ),
)


def _pod_count(s: Provenance, j: int, repair: repairs.FewerPods) -> Iterator[Source]:
    spec = s.origins.gangs[j]
    role = None if repair.role is None else spec.roles[repair.role]
    if role is None or not role.path:
        yield s.gang_field(j, "minimum")
    else:
        yield source_at(spec.document, f"role {role.name}", *role.path)


def _pod_count_change(s: Provenance, j: int, repair: repairs.FewerPods, together: Sequence[repairs.Repair]) -> Change:
    """Return the edits, in the sentence those in addition to the count; and a role whose pods are fewer than its
    replicas already: its minimum."""
    spec, gang = s.origins.gangs[j], s.problem.gangs[j]
    sizes = {part.subgroup: part.amount for part in together if isinstance(part, repairs.SmallerSubgroups)}
    counts = pod_count_edits(spec, gang, repair, sizes)
    role = None if repair.role is None else gang.roles[repair.role]
    elastic = {} if role is None or role.minimum >= role.replicas else {"elastic": role.name}
    return Change({**Edits.of_fields(counts), **elastic}, replica_edits(spec, gang, repair, counts))


def _request_change(s: Provenance, j: int, x: repairs.SmallerPods, _: Any) -> Change:
    spec, resource = s.origins.gangs[j], s.problem.resources[x.resource]
    amount = amount_to_type(resource, x.amount)
    return Change({"amount": amount}, request_edits(spec, spec.roles[x.role], resource, x.current_amount, amount.text))


def _node_change(s: Provenance, j: int, x: repairs.MoreNodeClasses, _: Any) -> Change:
    spec = s.origins.gangs[j]
    role = spec.roles[x.role]
    is_one = len(role.pod_documents) < 2 and not role.selector_paths
    edits = s.closed_nodes.field_edits(role.pod, x.node, *spec.pod_spec_of(role)) if is_one else ()
    return Change(node_edit_values(s, role.pod, x.node), edits)


def node_edit_values(s: Provenance, pod: PodSpec, n: int) -> Values:
    """Return the edits by which the pod may use node n."""
    edits = s.closed_nodes.edits(pod, n)
    return {"edits": Edits(edits, " and ".join(edits))} if edits else {}


def _more_nodes(s: Provenance, j: int, repair: repairs.MoreNodes) -> Iterator[Source]:
    yield from node_sources([s.origins.nodes[repair.node]], "", ("metadata", "name"), ("metadata", "name"))
    yield from s.hypernode_source(repair.hypernode)


REPAIRS: tuple[Entry[Any], ...] = (
    Entry(
        repairs.FewerPods,
        "ask for fewer pods",
        ("{amount:pods} of role {role} instead of {now:n}", "{amount:pods} at least instead of {now:n}"),
        _pod_count,
        of_document=True,
        special_texts=(
            "at least {amount:pods} of role {elastic} instead of {now:n}: {edits}",
            "at least {amount:pods} of role {elastic} instead of {now:n}",
            "{amount:pods} of role {role} instead of {now:n}, with {edits}",
            "{amount:pods} at least instead of {now:n}: {edits}",
        ),
        change=_pod_count_change,
    ),
    Entry(
        repairs.SmallerPods,
        "make the pods smaller",
        ("{amount} for a pod of role {role} instead of {now:n}",),
        lambda s, j, x: s.role_requests(j, x.role, x.resource),
        change=_request_change,
    ),
    Entry(
        repairs.MoreNodeClasses,
        "let a role use other nodes",
        ("let role {role} use nodes like {nodes} as well",),
        lambda s, j, x: s.role_selectors(j, x.role),
        special_texts=("let role {role} use nodes like {nodes} as well: {edits}",),
        of_document=True,
        change=_node_change,
    ),
    Entry(
        repairs.Restart,
        "start again",
        ("delete its pods that run, so that it starts again where all of it fits",),
        command="kubectl -n {namespace} delete pods -l {pods}",
    ),
    Entry(repairs.EndOfPods, "wait for room", ("room to be freed by jobs that run",)),
    Entry(
        repairs.ReturnOfNodes,
        "bring nodes back",
        ("wait for {nodes} to be ready and open again",),
        _away_nodes,
        command="kubectl uncordon {cordoned}",
    ),
    Entry(
        repairs.MoreNodes,
        "add nodes",
        ("{amount:nodes} more like {nodes} under {hypernode}", "{amount:nodes} more like {nodes}"),
        _more_nodes,
    ),
)
