"""The plugin group-topology-affinity of Volcano 1.16: PodGroups that keep out of each other's domains.

Source: the plugin, its design and the tests of Volcano 1.16's branches, which could not be run here. A term is judged
where its own PodGroup is placed, and no more once that runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compiler.fields.label_selector import selector_matches
from compiler.kubernetes import NAMESPACE_NAME_LABEL
from compiler.specs.cluster_spec import ClusterSpec, PluginSpec, SchedulerSpec
from compiler.specs.gang_spec import GroupTerm
from compiler.syntax.documents import Document

SINCE = 16
PLUGIN = "group-topology-affinity"
NamespaceLabels = Mapping[str, Mapping[str, str]]
"""Namespace -> the labels that the repository gives it."""


def separates_groups(cluster: ClusterSpec, scheduler: SchedulerSpec | None) -> bool:
    """Return whether the scheduler keeps the required anti-affinity of PodGroups."""
    plugin = _plugin(cluster, scheduler)
    return plugin is not None and plugin.flags.get("enabledHyperNodeGradient", True)


def prefers_groups_apart(cluster: ClusterSpec, scheduler: SchedulerSpec | None) -> bool:
    """Return whether the scheduler scores domains by the preferred anti-affinity of PodGroups."""
    plugin = _plugin(cluster, scheduler)
    if plugin is None or not plugin.flags.get("enabledHyperNodeOrder", True):
        return False
    return str(plugin.arguments.get("weight", 1)) != "0"


def _plugin(cluster: ClusterSpec, scheduler: SchedulerSpec | None) -> PluginSpec | None:
    return None if scheduler is None or cluster.volcano.minor < SINCE else scheduler.plugin(PLUGIN)


def namespace_labels(documents: Iterable[Document]) -> NamespaceLabels:
    """Return the labels of the Namespaces among the documents."""
    found = {}
    for document in documents:
        if (document.kind, document.group) == ("Namespace", ""):
            labels = document.metadata.get("labels")
            found[document.name] = labels if isinstance(labels, Mapping) else {}
    return found


def term_selects(
    term: GroupTerm, own_namespace: str, namespace: str, labels: Mapping[str, str], known: NamespaceLabels
) -> bool:
    """Return whether a term of a PodGroup in its own namespace selects one with these labels in another, or the same,
    namespace."""
    if term.namespaces is None:
        is_inside = namespace == own_namespace
    else:
        is_inside = selector_matches(term.namespaces, {**known.get(namespace, {}), NAMESPACE_NAME_LABEL: namespace})
    return is_inside and selector_matches(term.selector, labels)
