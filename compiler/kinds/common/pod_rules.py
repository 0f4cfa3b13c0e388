"""What a pod requires of other pods: pod affinity and anti-affinity, and topology spread that forbids, as
`compiler.specs.PodRule`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from compiler.diagnostics import Diagnostic, rule
from compiler.fields.label_selector import LabelSelector
from compiler.fields.models import Int, Open
from compiler.specs import PodRule, PodTerm
from compiler.syntax.documents import Document, Path

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OF_EACH_POD = """
    volcano.sh/task-index volcano.sh/partition-id training.kubeflow.org/replica-index batch.kubernetes.io/job-completion-index
    batch.kubernetes.io/controller-uid controller-uid apps.kubernetes.io/pod-index statefulset.kubernetes.io/pod-name
"""
OF_EACH_POD = frozenset(_OF_EACH_POD.split())
"""Labels that controllers give each pod its own value of, or a value that only the cluster knows."""

NOT_PLANNED = rule(
    "GP219",
    "warning",
    "rule between pods that is not planned",
    """Required affinity between pods, and topology spread that forbids, are planned, with two exceptions: a namespaceSelector with conditions
    (the labels of namespaces are in no repository), and a selector on a label that differs from pod to pod of one role (its index, its uid). Such
    a rule is Volcano's alone to enforce: a planned node may turn out forbidden, and the pod then waits until it is planned again. Mend: name the
    namespaces; select by labels that all pods of a role share.""",
)

Label = Annotated[str, Field(min_length=1)]
Count = Annotated[Int, Field(ge=1, le=2**31 - 1)]


class AffinityTerm(Open):
    topology_key: Label
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None

    @property
    def planned(self) -> bool:
        return self.namespace_selector is None or not self.namespace_selector.rows()

    def term(self) -> PodTerm:
        """An empty namespaceSelector means every namespace; none at all, and no names, the pod's own."""
        return PodTerm(
            selector=None if self.label_selector is None else self.label_selector.rows(),
            namespaces=None if self.namespace_selector is not None else tuple(sorted(self.namespaces or ())),
            match_keys=tuple(self.match_label_keys or ()),
            mismatch_keys=tuple(self.mismatch_label_keys or ()),
        )


class PodAffinity(Open):
    required: list[AffinityTerm] | None = Field(None, alias=REQUIRED)


class SpreadConstraint(Open):
    max_skew: Count
    topology_key: Label
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    min_domains: Count | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None


def rules(
    affinity: PodAffinity | None, anti: PodAffinity | None, spread: list[SpreadConstraint] | None
) -> tuple[PodRule, ...]:
    """Those that bind and are planned. All terms of an affinity ask for the same pods: those that match every one of
    them (Kubernetes' InterPodAffinity)."""
    wanted = (affinity.required if affinity else None) or ()
    together = tuple(term.term() for term in wanted)
    found = [
        PodRule("together", term.topology_key, together) for term in wanted if all(each.planned for each in wanted)
    ]
    found += [
        PodRule("apart", term.topology_key, (term.term(),))
        for term in (anti.required if anti else None) or ()
        if term.planned
    ]
    for row in spread or ():
        if row.when_unsatisfiable == "DoNotSchedule":
            selector = None if row.label_selector is None else row.label_selector.rows()
            term = PodTerm(selector, (), tuple(row.match_label_keys or ()))
            found.append(
                PodRule(
                    "even",
                    row.topology_key,
                    (term,),
                    skew=row.max_skew,
                    least_domains=row.min_domains or 1,
                    minds_affinity=row.node_affinity_policy != "Ignore",
                    minds_taints=row.node_taints_policy == "Honor",
                )
            )
    return tuple(found)


def review(document: Document, spec: dict[str, Any], path: Path) -> Iterator[Diagnostic]:
    """GP219 for each rule of a pod spec that is not planned, or not as it stands."""
    affinity = spec.get("affinity")
    for key in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(key) if isinstance(affinity, dict) else None
        terms = part.get(REQUIRED) if isinstance(part, dict) else None
        for index, term in enumerate(terms if isinstance(terms, list) else ()):
            if isinstance(term, dict):
                yield from _term(document, term, (*path, "affinity", key, REQUIRED, index))
    spread = spec.get("topologySpreadConstraints")
    for index, row in enumerate(spread if isinstance(spread, list) else ()):
        if isinstance(row, dict) and row.get("whenUnsatisfiable") != "ScheduleAnyway":
            yield from _term(document, row, (*path, "topologySpreadConstraints", index))


def _term(document: Document, term: dict[str, Any], path: Path) -> Iterator[Diagnostic]:
    namespaces = term.get("namespaceSelector")
    if isinstance(namespaces, dict) and any(namespaces.values()):
        message = "the plan does not know the labels of namespaces: this rule is not planned"
        yield NOT_PLANNED.at(
            document.at(*path, "namespaceSelector"),
            message,
            "name the namespaces, or write {} for all",
            object=document.label,
        )
    for place, key in _keys(term):
        if key in OF_EACH_POD:
            message = f"the pods of a role differ in {key}: the plan takes them for having none"
            yield NOT_PLANNED.at(
                document.at(*path, *place),
                message,
                "select by labels that all pods of a role share",
                object=document.label,
            )


def _keys(term: dict[str, Any]) -> Iterator[tuple[Path, str]]:
    """Every label that a term names, and where."""
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
