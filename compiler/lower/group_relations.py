"""Anti-affinity of PodGroups by topology: required terms as the problem's pod rules, preferred ones as wishes, one for
each gang and term.

Its owner is left out of what a rule selects, so that no two gangs share one. Source: as of
`compiler.volcano.group_affinity`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from compiler.cluster_state.observed import ObservedState
from compiler.cluster_state.pods import ForeignPod
from compiler.kubernetes import labels_of
from compiler.lower.inputs import LoweringInputs
from compiler.lower.pod_relations import LoweredRules, expression_text
from compiler.lower.topology import TierNames, leaf_by_node, lower_hypernodes
from compiler.specs.gang_spec import GangSpec, GroupTerm
from compiler.volcano.group_affinity import namespace_labels, prefers_groups_apart, separates_groups, term_selects
from solver.problem import Gang, PodRule, SeparationWish


def with_group_rules(rules: LoweredRules, inputs: LoweringInputs) -> LoweredRules:
    """Return the rules, and after them one for each required term of a gang that may get pods."""
    specs = inputs.specs
    owners = [i for i, spec in enumerate(inputs.gangs) if _terms(spec)]
    if not owners or not separates_groups(specs.cluster, specs.scheduler):
        return rules
    lowering = _GroupRules(inputs)
    pod_rules, texts = list(rules.pod_rules), list[str]()
    owned: dict[tuple[int, int], list[int]] = {role: [*own] for role, (own, _) in rules.rules_of_role.items()}
    selecting: dict[tuple[int, int], list[int]] = {role: [*by] for role, (_, by) in rules.rules_of_role.items()}
    term_of_rule: dict[int, tuple[int, GroupTerm]] = {}
    for i in owners:
        for term in lowering.terms_of(i):
            rho = len(pod_rules)
            tier = lowering.tier_of(term)
            pod_rules.append(lowering.rule(i, term, tier))
            texts.append(term_text(term, tier))
            term_of_rule[rho] = i, term
            for role in lowering.roles_of(i):
                owned.setdefault(role, []).append(rho)
            for k in lowering.selected_gangs(i, term):
                for role in lowering.roles_of(k):
                    selecting.setdefault(role, []).append(rho)
    return replace(
        rules,
        pod_rules=tuple(pod_rules),
        rules_of_role={
            role: (tuple(owned.get(role, ())), tuple(selecting.get(role, ())))
            for role in dict.fromkeys([*owned, *selecting])
        },
        origins=rules.origins.followed_by(texts, terms=term_of_rule),
    )


def with_separation_wishes(gangs: Iterable[Gang], inputs: LoweringInputs) -> tuple[Gang, ...]:
    """Return the gangs, with the preferred terms of those that may get pods. A tier without hypernodes, and that of the
    root, make no difference between nodes."""
    specs, lowered = inputs.specs, tuple(gangs)
    groups = {i: spec.pod_group for i, spec in enumerate(inputs.gangs) if spec.pod_group}
    wishing = [i for i, group in groups.items() if group.wishes]
    if not wishing or not prefers_groups_apart(specs.cluster, specs.scheduler):
        return lowered
    lowering = _GroupRules(inputs)
    wishes = {i: tuple(lowering.wishes(i)) for i in wishing}
    return tuple(replace(gang, separation_wishes=wishes.get(i, ())) for i, gang in enumerate(lowered))


def term_text(term: GroupTerm, tier: int | None) -> str:
    """Return the term in a user's words."""
    whom = ", ".join(map(expression_text, term.selector)) or "any labels"
    name = term.tier_name or f"tier {term.tier}"
    return f"required anti-affinity by {name} to PodGroups with {whom}" + (
        "" if tier is not None else ", and no hypernode has that tier"
    )


class _GroupRules:
    """The gangs of the problem as PodGroups that terms select."""

    def __init__(self, inputs: LoweringInputs) -> None:
        self.inputs, self.observed = inputs, inputs.observed
        self._tiers = TierNames(inputs.observed.hypernodes)
        self._namespaces = namespace_labels(inputs.specs.documents)
        self._labels = [self._labels_of(i) for i in range(len(inputs.gangs))]
        self._domains: dict[int | None, tuple[int | None, ...]] = {}
        self._selected: dict[object, list[int]] = {}

    def _labels_of(self, i: int) -> Mapping[str, str]:
        """Return the labels of the written PodGroup; else of the cluster's; else of the job, whose PodGroup gets them.
        PodGroups of other controllers have none known to a repository."""
        spec = self.inputs.gangs[i]
        if spec.pod_group is not None:
            return _texts(spec.pod_group.document.metadata)
        for _, _, record in self.observed.running_records.get(self.inputs.gang_indices[i], ()):
            if record.group is not None:
                return _texts(record.group["metadata"])
        is_volcano_job = (spec.document.kind, spec.document.group) == ("Job", "batch.volcano.sh")
        return _texts(spec.document.metadata) if is_volcano_job else {}

    def terms_of(self, i: int) -> tuple[GroupTerm, ...]:
        """Return the required terms that are judged: none where all its pods run."""
        return () if self._is_whole(i) else _terms(self.inputs.gangs[i])

    def _is_whole(self, i: int) -> bool:
        spec, j = self.inputs.gangs[i], self.inputs.gang_indices[i]
        return self.observed.running_pod_count(j) == sum(role.replicas for role in spec.roles)

    def wishes(self, i: int) -> Iterator[SeparationWish]:
        """Yield the preferred terms of gang i that are judged."""
        group = self.inputs.gangs[i].pod_group
        for term in () if group is None or self._is_whole(i) else group.wishes:
            tier = self.tier_of(term)
            if tier is not None and tier != self._tiers.root_tier:
                around = hypernodes_at(self.observed, tier)
                found = (around[pod.node] for pod in self.observed.foreign.pods if self._selects_pod(i, term, pod))
                present = frozenset(h for h in found if h is not None)
                yield SeparationWish(tier, frozenset(self.selected_gangs(i, term)), present, term.weight)

    def roles_of(self, i: int) -> Iterator[tuple[int, int]]:
        return ((i, t) for t in range(len(self.inputs.gangs[i].roles)))

    def tier_of(self, term: GroupTerm) -> int | None:
        """None where no hypernode has it; the virtual root has one above the highest."""
        tier = term.tier if term.tier is not None else self._tiers.tier_by_name.get(term.tier_name or "")
        known = {spec.tier for spec in self.observed.hypernodes}
        return tier if tier in known or (known and tier == self._tiers.root_tier) else None

    def rule(self, i: int, term: GroupTerm, tier: int | None) -> PodRule:
        domains = self._domains_at(tier)
        present = [0] * len({d for d in domains if d is not None})
        for pod in self.observed.foreign.pods:
            d = domains[pod.node]
            if d is not None and self._selects_pod(i, term, pod):
                present[d] += 1
        return PodRule("separation", domains, tuple(present), tier=tier)

    def selected_gangs(self, i: int, term: GroupTerm) -> list[int]:
        """Return the other gangs that the term of gang i selects."""
        own = self.inputs.gangs[i].namespace
        key = term.selector, term.namespaces, own
        if key not in self._selected:
            gangs = enumerate(zip(self.inputs.gangs, self._labels, strict=True))
            selects = partial(term_selects, term, own)
            found = [k for k, (spec, labels) in gangs if selects(spec.namespace, labels, self._namespaces)]
            self._selected[key] = found
        return [k for k in self._selected[key] if k != i]

    def _selects_pod(self, i: int, term: GroupTerm, pod: ForeignPod) -> bool:
        """Return whether the pod is of another PodGroup that the term selects. One that is being deleted holds no
        domain."""
        spec = self.inputs.gangs[i]
        if not pod.group or pod.is_terminating or _group_name(spec) == (pod.namespace, pod.group):
            return False
        return term_selects(term, spec.namespace, pod.namespace, pod.group_labels, self._namespaces)

    def _domains_at(self, tier: int | None) -> tuple[int | None, ...]:
        if tier not in self._domains:
            self._domains[tier] = domains_at(self.observed, tier, self._tiers.root_tier)
        return self._domains[tier]


def domains_at(observed: ObservedState, tier: int | None, root_tier: int) -> tuple[int | None, ...]:
    """Node -> the hypernode of exactly this tier that holds it, numbered by their first nodes; None without one. At the
    root's tier all nodes are in one."""
    if tier == root_tier:
        return (0,) * len(observed.nodes)
    found = hypernodes_at(observed, tier)
    number = {h: d for d, h in enumerate(dict.fromkeys(h for h in found if h is not None))}
    return tuple(None if h is None else number[h] for h in found)


def hypernodes_at(observed: ObservedState, tier: int | None) -> list[int | None]:
    """Node -> the problem's hypernode of exactly this tier that holds it."""
    hypernodes, leaf = lower_hypernodes(observed.hypernodes), leaf_by_node(observed.hypernodes)

    def domain(h: int | None) -> int | None:
        while h is not None and hypernodes[h].tier != tier:
            h = hypernodes[h].parent
        return h

    return [domain(leaf.get(node.name)) for node in observed.nodes]


def _terms(spec: GangSpec) -> tuple[GroupTerm, ...]:
    return spec.pod_group.terms if spec.pod_group else ()


def _group_name(spec: GangSpec) -> tuple[str, str]:
    """(namespace, name) of the PodGroup that is written for the gang."""
    return spec.namespace, spec.pod_group.document.name if spec.pod_group else ""


def _texts(metadata: Mapping[str, object]) -> Mapping[str, str]:
    return {str(key): str(value) for key, value in labels_of({"metadata": metadata}).items()}
