"""Checks of the hypernode tree, of the topology that jobs request, and of the topology anti-affinity of PodGroups
(Volcano 1.16).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from compiler.checks.check import CheckInput, Finding, check, checks
from compiler.checks.jobs import POD_GROUP
from compiler.diagnostics.diagnostic import Severity, one_of, suggestion
from compiler.kubernetes import NAMESPACE_NAME_LABEL, labels_of
from compiler.specs.cluster_spec import SchedulerSpec
from compiler.specs.gang_spec import ANTI_AFFINITY_PATH, GangSpec, GroupTerm, SubgroupSpec, TopologySpec
from compiler.specs.node_spec import HyperNodeSpec
from compiler.syntax.documents import Document, FieldPath
from compiler.volcano.full_starts import has_lower_minima, starts_in_full, subgroup_starts_in_full
from compiler.volcano.group_affinity import PLUGIN, SINCE, NamespaceLabels, namespace_labels, term_selects

if TYPE_CHECKING:
    from compiler.kinds.pod_group import AntiAffinityTerm

MAX_NAMES_COMPARED = 5000


@checks(
    {
        **dict.fromkeys(("GP345", "GP346", "GP347", "GP348", "GP349", "GP350", "GP351"), "error"),
        **dict.fromkeys(("GP353", "GP396"), "warning"),
    }
)
def tree_problems(check_input: CheckInput) -> Iterator[Finding]:
    """Report the problems that were found as the hypernodes were put together."""
    hypernodes, nodes = check_input.specs.hypernodes, check_input.specs.nodes[:MAX_NAMES_COMPARED]
    taken = {name for hypernode in hypernodes for name in hypernode.nodes}
    known = {
        "GP349": [hypernode.name for hypernode in hypernodes],
        "GP353": [node.name for node in nodes if node.name not in taken],
    }
    failed = check_input.failed_names("HyperNode.topology.volcano.sh")
    for found in check_input.tree_problems:
        help = suggestion(found.name, known[found.code], found.help) if found.name else found.help
        if found.code != "GP349" or found.name not in failed:
            yield Finding(found.document, found.path, found.message, help, found.see, code=found.code)


@check("GP344", "minima without effect under a hard topology", "info")
def minima_under_hard_topology(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano's network-topology-aware places a job with a hard topology only in a hypernode with room for all its
    pods, also those above its minima. The same holds for a subgroup. So it starts with all its replicas or not at all;
    once some of it runs, its minima count again. Fix: lower the replicas, make the topology soft, or use partitions of
    fixed size."""
    for gang in check_input.jobs:
        yield from _elastic_subgroups(gang, check_input.specs.scheduler)
        if starts_in_full(gang, check_input.specs.scheduler) and has_lower_minima(gang):
            replicas = sum(role.replicas for role in gang.roles)
            message = (
                f"Volcano starts this job only where a domain has room for all {replicas} pods, not {gang.minimum}"
            )
            help = "lower the replicas, or make the topology soft"
            yield Finding(gang.document, gang.field_paths["topology"], message, help)


def _elastic_subgroups(gang: GangSpec, scheduler: SchedulerSpec | None) -> Iterator[Finding]:
    """Yield a finding for each policy's subgroup with the most pods above its ready pods."""
    largest: dict[FieldPath, SubgroupSpec] = {}
    for subgroup in gang.subgroups:
        if subgroup_starts_in_full(subgroup, scheduler) and 0 < subgroup.ready_pods < subgroup.size:
            largest[subgroup.path] = max(largest.get(subgroup.path, subgroup), subgroup, key=lambda each: each.size)
    for path, subgroup in largest.items():
        message = (
            f"Volcano starts subgroup {subgroup.name} only where a domain has room for all {subgroup.size} pods, "
            f"not {subgroup.ready_pods}"
        )
        yield Finding(gang.document, path, message, "make subGroupSize the number of its pods, or the topology soft")


def _topology_requests(check_input: CheckInput) -> Iterator[tuple[Document, FieldPath, TopologySpec]]:
    for gang in check_input.jobs:
        if gang.topology is not None:
            yield gang.document, gang.field_paths["topology"], gang.topology
        for part in {part.path: part for part in gang.subgroups}.values():  # one field may ask for many subgroups
            if "partitionPolicy" in part.path or "subGroupPolicy" in part.path:
                yield gang.document, (*part.path, "networkTopology"), part.topology


@check("GP333", "both tier fields")
def both_tier_fields(check_input: CheckInput) -> Iterator[Finding]:
    """networkTopology has highestTierAllowed or highestTierName, not both. Volcano's admission refuses the job. Fix:
    keep one."""
    for document, path, topology in (*_topology_requests(check_input), *_pod_group_topologies(check_input)):
        if topology.highest_tier is not None and topology.highest_tier_name:
            message = "highestTierAllowed and highestTierName are both given"
            yield Finding(document, (*path, "highestTierName"), message, "keep one")


def _pod_group_topologies(check_input: CheckInput) -> Iterator[tuple[Document, FieldPath, TopologySpec]]:
    """Yield the topologies of PodGroups, including those without pods, which are not gangs."""
    for document, group in check_input.documents_of(POD_GROUP):
        if group.spec.network_topology is not None:
            yield document, ("spec", "networkTopology"), group.spec.network_topology.to_spec()
        for number, policy in enumerate(group.spec.sub_group_policy or ()):
            if policy.network_topology is not None:
                path = ("spec", "subGroupPolicy", number, "networkTopology")
                yield document, path, policy.network_topology.to_spec()


@check("GP334", "unknown tier name", folds=True, on_partial=True)
def unknown_tier_names(check_input: CheckInput) -> Iterator[Finding]:
    """highestTierName is the tierName of some hypernode; Volcano enforces nothing for a name that it does not know.
    Fix: correct the name."""
    known = sorted({h.tier_name for h in check_input.specs.hypernodes if h.tier_name})
    for document, path, topology in _topology_requests(check_input):
        name = topology.highest_tier_name
        if name and name not in known:
            fallback = "no hypernode has a tierName: use highestTierAllowed"
            help = suggestion(name, known, f"the tier names are {', '.join(known)}" if known else fallback)
            yield Finding(document, (*path, "highestTierName"), f"no hypernode has tierName {name!r}", help)


@check("GP352", "one tier name at two tiers", "warning", on_partial=True)
def repeated_tier_names(check_input: CheckInput) -> Iterator[Finding]:
    """Volcano maps a tier name to one tier, and where hypernodes of several tiers have it, to one of them by chance: an
    error where a job names it in highestTierName. Source: HyperNodeTierNameMap of
    pkg/scheduler/api/hyper_node_info.go. Fix: give each tier a name of its own."""
    first: dict[str, HyperNodeSpec] = {}
    asked = {topology.highest_tier_name for _, _, topology in _topology_requests(check_input)}
    reported = set[tuple[str, int]]()
    for hypernode in check_input.specs.hypernodes:
        name = hypernode.tier_name
        if not name or (one := first.setdefault(name, hypernode)).tier == hypernode.tier:
            continue
        if (name, hypernode.tier) not in reported:
            reported.add((name, hypernode.tier))
            message = f"tier name {name!r} is at tiers {one.tier} and {hypernode.tier}: Volcano takes either"
            severity: Severity | None = "error" if name in asked else None
            see = (one.document, _TIER_NAME)
            help = "give each tier its own name"
            yield Finding(hypernode.document, _TIER_NAME, message, help, see, severity, is_rejecting=False)


_TIER_NAME = ("spec", "tierName")


@check("GP335", "topology job without the topology plugin", "warning", folds=True)
def missing_topology_plugin(check_input: CheckInput) -> Iterator[Finding]:
    """A job's networkTopology is enforced by the plugin network-topology-aware only; gangplan plans by it, but Volcano
    on its own would not keep to it; and neither can without HyperNodes. Fix: add the plugin to a tier of the scheduler
    configuration, and declare HyperNodes, or topology of a NodePool."""
    specs = check_input.specs
    scheduler = specs.scheduler
    has_none = specs.nodes and not specs.hypernodes and not check_input.failed_names("HyperNode.topology.volcano.sh")
    for gang in check_input.jobs if has_none else ():
        if gang.topology is not None and gang.topology.mode == "hard":
            message = "the repository has no HyperNode, so nothing keeps these pods close to each other"
            help = "declare HyperNodes, or topology of a NodePool"
            yield Finding(gang.document, gang.field_paths["topology"], message, help)
    if scheduler is None or scheduler.plugin("network-topology-aware") is not None:
        return
    for gang in check_input.jobs:
        if gang.topology is not None:
            message = "the scheduler configuration lacks the plugin network-topology-aware"
            yield Finding(
                gang.document,
                gang.field_paths["topology"],
                message,
                "add it to a tier",
                (scheduler.document, (*scheduler.base_path, "tiers")),
            )


@check("GP442", "topology anti-affinity of a PodGroup that cannot be read")
def bad_topology_affinity(check_input: CheckInput) -> Iterator[Finding]:
    """A term of spec.topologyAffinity.podGroupAntiAffinity names one of topologyTier and topologyTierName; a preferred
    one has a weight of 1 to 100, a required one has none. Source: the design and webhook of Volcano 1.16's branch. Fix:
    see the message."""
    for document, group in check_input.documents_of(POD_GROUP):
        for path, term, is_preferred in group.spec.anti_affinity.terms():
            for message, help in _term_flaws(term, is_preferred=is_preferred):
                yield Finding(document, path, message, help)


def _term_flaws(term: AntiAffinityTerm, *, is_preferred: bool) -> Iterator[tuple[str, str]]:
    """(message, help)"""
    if (term.topology_tier is None) == (term.topology_tier_name is None):
        help = "remove one of them" if term.topology_tier is not None else "add one of them"
        yield "a term names one of topologyTier and topologyTierName", help
    if is_preferred and term.weight is None:
        yield "a preferred term needs a weight", "add weight, 1 to 100"
    if not is_preferred and term.weight is not None:
        yield "a required term may have no weight", "remove weight, or make the term a preferred one"


@check("GP444", "topology anti-affinity of a PodGroup that does less than it says", "warning")
def weak_topology_affinity(check_input: CheckInput) -> Iterator[Finding]:
    """Terms of podGroupAntiAffinity are read by the plugin group-topology-affinity only, which no default has. A term
    is judged where its own PodGroup is placed: to keep the other one away later, that needs a term too. A tier that no
    hypernode has lets nothing start. Labels of namespaces are known from the repository's Namespaces only. Source: the
    design of Volcano 1.16's branch. Fix: see the message."""
    specs = check_input.specs
    if specs.cluster.volcano.minor < SINCE:
        return
    for document, group in check_input.documents_of(POD_GROUP):
        terms = list(group.spec.anti_affinity.terms())
        scheduler = specs.scheduler
        if terms and scheduler is not None and scheduler.plugin(PLUGIN) is None and not scheduler.is_partial:
            message = f"the scheduler configuration lacks the plugin {PLUGIN}, so that nothing reads the terms"
            yield Finding(document, ANTI_AFFINITY_PATH, message, "add the plugin")
        for path, term, is_preferred in terms:
            effect = "a preferred term does nothing" if is_preferred else "a required term lets nothing start"
            yield from _weak_terms(check_input, document, path, term, effect)
    yield from _one_sided_terms(check_input)


def _weak_terms(
    check_input: CheckInput, document: Document, path: FieldPath, term: AntiAffinityTerm, effect: str
) -> Iterator[Finding]:
    hypernodes = check_input.specs.hypernodes
    tiers = sorted({hypernode.tier for hypernode in hypernodes})
    names = sorted({hypernode.tier_name for hypernode in hypernodes if hypernode.tier_name})
    name, tier = term.topology_tier_name, term.topology_tier
    if hypernodes and name is not None and name not in names:
        message = f"no hypernode has tierName {name!r}: {effect}"
        yield Finding(document, (*path, "topologyTierName"), message, suggestion(name, names, "correct the name"))
    if hypernodes and tier is not None and tier not in (*tiers, tiers[-1] + 1):
        message = f"no hypernode has tier {tier}: {effect}"
        yield Finding(document, (*path, "topologyTier"), message, one_of(map(str, tiers)))
    rows = term.namespace_selector.expressions() if term.namespace_selector else ()
    known = namespace_labels(check_input.specs.documents) if rows else {}
    declared = {key for labels in known.values() for key in labels}
    for key in dict.fromkeys(row[0] for row in rows):
        if key not in (NAMESPACE_NAME_LABEL, *declared):
            message = f"no Namespace of the repository has the label {key}: the plan takes namespaces for having none"
            help = f"select by {NAMESPACE_NAME_LABEL}, or add the Namespaces"
            yield Finding(document, (*path, "namespaceSelector"), message, help)


class _Group(NamedTuple):
    document: Document
    namespace: str
    labels: Mapping[str, Any]
    terms: tuple[GroupTerm, ...]


def _one_sided_terms(check_input: CheckInput) -> Iterator[Finding]:
    """For each PodGroup the first other one that it keeps out of the domains of, and that does not do so in turn."""
    known = namespace_labels(check_input.specs.documents)
    written = [(gang.namespace, gang.pod_group) for gang in check_input.jobs if gang.pod_group is not None]
    groups = [
        _Group(of.document, namespace, labels_of({"metadata": of.document.metadata}), of.terms)
        for namespace, of in written
    ]
    for group in groups:
        for term in group.terms:
            other = next((each for each in groups if _is_one_sided(group, each, term, known)), None)
            if other is not None:
                message = f"{other.document.display_name} has no term against this one: it may start next to it later"
                yield Finding(group.document, term.path, message, "give it such a term too")
                break


def _is_one_sided(group: _Group, other: _Group, term: GroupTerm, known: NamespaceLabels) -> bool:
    if group is other or not term_selects(term, group.namespace, other.namespace, other.labels, known):
        return False
    return not any(term_selects(back, other.namespace, group.namespace, group.labels, known) for back in other.terms)
