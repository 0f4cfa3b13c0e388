"""Checks of the topology anti-affinity of PodGroups (Volcano 1.16)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from compiler.checks.check import CheckInput, Finding, check
from compiler.checks.jobs import POD_GROUP
from compiler.diagnostics.diagnostic import one_of, suggestion
from compiler.kubernetes import NAMESPACE_NAME_LABEL, labels_of
from compiler.specs.parts import ANTI_AFFINITY_PATH, GroupTerm
from compiler.syntax.documents import Document, FieldPath
from compiler.volcano.group_affinity import PLUGIN, SINCE, NamespaceLabels, namespace_labels, term_selects

if TYPE_CHECKING:
    from compiler.kinds.pod_group import AntiAffinityTerm


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
