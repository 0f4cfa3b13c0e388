"""PodDisruptionBudgets of a cluster, and the running roles that each selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from compiler.cluster_state.cluster_state import StateError
from compiler.fields.label_selector import LabelExpression, LabelSelector, selector_matches
from compiler.fields.texts import whole_number
from compiler.kubernetes import Object, labels_of, name_of, namespace_of, status_of
from compiler.syntax.documents import Document

GangRole = tuple[int, int]
"""(gang, role)"""


@dataclass(slots=True)
class BudgetSelection:
    """One PodDisruptionBudget. selector: None selects nothing, () every pod of the namespace (policy/v1).

    disruptions_allowed: from the cluster; if the budget does not exist yet, from `declared`, its spec, and the running
    pods that it selects. selected_roles: the roles of which it selects some running pod; the other pods of such a role
    count as well.
    """

    name: str
    namespace: str
    selector: tuple[LabelExpression, ...] | None
    disruptions_allowed: int
    selected_roles: set[GangRole] = field(default_factory=set)
    declared: Mapping[str, Any] | None = None
    selected_pods: int = 0

    def note_running_pod(self, pod: Object, gang_role: GangRole) -> None:
        """Note the role of a running pod if the budget selects it."""
        if gang_role in self.selected_roles and self.declared is None:
            return
        labels = {str(key): str(value) for key, value in labels_of(pod).items()}
        if self.selects(namespace_of(pod), labels):
            self.selected_roles.add(gang_role)
            self.selected_pods += 1

    @property
    def allowed(self) -> int:
        """Return how many of the selected pods may be evicted."""
        if self.declared is None:
            return self.disruptions_allowed
        if (most := self.declared.get("maxUnavailable")) is not None:
            return _share(most, self.selected_pods)
        return max(0, self.selected_pods - _share(self.declared.get("minAvailable", 1), self.selected_pods))

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and namespace == self.namespace and selector_matches(self.selector, labels)


def _share(value: object, pods: int) -> int:
    """Return a number of pods, or a percentage of them, rounded up."""
    number = whole_number(str(value).removesuffix("%")) or 0
    return number if isinstance(value, int) else -(-pods * number // 100)


def read_budgets(objects: Iterable[Object], documents: Iterable[Document] = ()) -> list[BudgetSelection]:
    """Return the budgets of the cluster, and those of the documents that it does not have yet. Raises StateError for a
    selector that cannot be read."""
    found = [_read_budget(item) for item in objects]
    known = {(budget.namespace, budget.name) for budget in found}
    for document in documents:
        place = document.namespace or "default", document.name
        if (document.kind, document.group) == ("PodDisruptionBudget", "policy") and place not in known:
            spec = document.data.get("spec") or {}
            metadata = {"name": document.name, "namespace": place[0]}
            found.append(replace(_read_budget({"metadata": metadata, "spec": spec}), declared=spec))
    return found


def _read_budget(item: Object) -> BudgetSelection:
    name, namespace = name_of(item), namespace_of(item)
    selector = (item.get("spec") or {}).get("selector")
    try:
        expressions = None if selector is None else LabelSelector.model_validate(selector).expressions()
    except ValidationError as error:
        message = error.errors()[0]["msg"]
        raise StateError(f"PodDisruptionBudget {namespace}/{name} of the state, spec.selector: {message}") from error
    allowed = int(status_of(item).get("disruptionsAllowed") or 0)
    return BudgetSelection(name, namespace, expressions, max(0, allowed))
