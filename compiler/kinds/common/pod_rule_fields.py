"""Pod rules of a pod template: affinity and anti-affinity between pods, and topology spread that forbids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from compiler.diagnostics.diagnostic import Diagnostic, declare_rule
from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import Int, LenientModel
from compiler.kubernetes import PER_POD_LABELS, REQUIRED
from compiler.specs.pod_spec import PodRuleSpec, PodSelector
from compiler.syntax.documents import Document, FieldPath

POD_RULE_NOT_PLANNED = declare_rule("GP219", "warning")

LabelKey = Annotated[str, Field(min_length=1)]
Count = Annotated[Int, Field(ge=1, le=2**31 - 1)]


class AffinityTerm(LenientModel):
    topology_key: LabelKey
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None

    @property
    def is_planned(self) -> bool:
        return self.namespace_selector is None or not self.namespace_selector.expressions()

    def to_selector(self) -> PodSelector:
        """Return an empty namespaceSelector selects every namespace; without one and without names, it is the pod's
        own."""
        return PodSelector(
            label_expressions=None if self.label_selector is None else self.label_selector.expressions(),
            namespaces=None if self.namespace_selector is not None else tuple(sorted(self.namespaces or ())),
            match_label_keys=tuple(self.match_label_keys or ()),
            mismatch_label_keys=tuple(self.mismatch_label_keys or ()),
        )


class SpreadConstraint(LenientModel):
    max_skew: Count
    topology_key: LabelKey
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    min_domains: Count | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


def pod_rule_specs(
    terms: Sequence[AffinityTerm], anti_terms: Sequence[AffinityTerm], spread: list[SpreadConstraint] | None
) -> tuple[PodRuleSpec, ...]:
    """Return the required rules that are planned. All terms of an affinity concern the same pods: those that match
    every term (Kubernetes' InterPodAffinity)."""
    selectors = tuple(term.to_selector() for term in terms)
    found = [
        PodRuleSpec("affinity", term.topology_key, selectors)
        for term in terms
        if all(each.is_planned for each in terms)
    ]
    found += [
        PodRuleSpec("anti-affinity", term.topology_key, (term.to_selector(),)) for term in anti_terms if term.is_planned
    ]
    for row in spread or ():
        if row.when_unsatisfiable == "DoNotSchedule":
            selector = None if row.label_selector is None else row.label_selector.expressions()
            term = PodSelector(selector, (), tuple(row.match_label_keys or ()))
            found.append(
                PodRuleSpec(
                    "spread",
                    row.topology_key,
                    (term,),
                    max_skew=row.max_skew,
                    min_domains=row.min_domains or 1,
                    honors_affinity=row.node_affinity_policy != "Ignore",
                    honors_taints=row.node_taints_policy == "Honor",
                )
            )
    return tuple(found)


def pod_rule_diagnostics(document: Document, spec: dict[str, Any], path: FieldPath) -> Iterator[Diagnostic]:
    """GP219 for each rule of a pod spec that is not planned as written."""
    affinity = spec.get("affinity")
    for key in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(key) if isinstance(affinity, dict) else None
        terms = part.get(REQUIRED) if isinstance(part, dict) else None
        for index, term in enumerate(terms if isinstance(terms, list) else ()):
            if isinstance(term, dict):
                yield from _term_diagnostics(document, term, (*path, "affinity", key, REQUIRED, index))
    spread = spec.get("topologySpreadConstraints")
    for index, row in enumerate(spread if isinstance(spread, list) else ()):
        if isinstance(row, dict) and row.get("whenUnsatisfiable") != "ScheduleAnyway":
            yield from _term_diagnostics(document, row, (*path, "topologySpreadConstraints", index))


def _term_diagnostics(document: Document, term: dict[str, Any], path: FieldPath) -> Iterator[Diagnostic]:
    namespaces = term.get("namespaceSelector")
    if isinstance(namespaces, dict) and any(namespaces.values()):
        message = "the plan does not know the labels of namespaces: this rule is not planned"
        help = "name the namespaces, or write {} for all"
        yield document.diagnostic(POD_RULE_NOT_PLANNED, (*path, "namespaceSelector"), message, help)
    for key_path, key in _label_keys(term):
        if key in PER_POD_LABELS:
            message = f"the pods of a role differ in {key}: the plan takes them for having none"
            help = "select by labels that all pods of a role share"
            yield document.diagnostic(POD_RULE_NOT_PLANNED, (*path, *key_path), message, help)


def _label_keys(term: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """Yield each label that a term names, with its path in the term."""
    selector = term.get("labelSelector")
    if isinstance(selector, dict):
        labels, rows = selector.get("matchLabels"), selector.get("matchExpressions")
        for key in labels if isinstance(labels, dict) else ():
            yield ("labelSelector", "matchLabels", key), str(key)
        for index, row in enumerate(rows if isinstance(rows, list) else ()):
            if isinstance(row, dict):
                yield ("labelSelector", "matchExpressions", index), str(row.get("key"))
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(name)
        for index, key in enumerate(keys if isinstance(keys, list) else ()):
            yield (name, index), str(key)
