"""PodDisruptionBudgets of a cluster, and the running roles that each selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from compiler.cluster_state.state import StateError
from compiler.fields.label_selector import LabelExpression, LabelSelector, selector_matches
from compiler.kubernetes import Object, labels_of, name_of, namespace_of, status_of

GangRole = tuple[int, int]
"""(gang, role)"""


@dataclass(slots=True)
class BudgetSelection:
    """One PodDisruptionBudget. selector: None selects nothing, () every pod of the namespace (policy/v1).

    selected_roles: the roles of which it selects some running pod; the other pods of such a role count as well.
    """

    name: str
    namespace: str
    selector: tuple[LabelExpression, ...] | None
    disruptions_allowed: int
    selected_roles: set[GangRole] = field(default_factory=set)

    def note_running_pod(self, pod: Object, gang_role: GangRole) -> None:
        """Note the role of a running pod if the budget selects it."""
        labels = {str(key): str(value) for key, value in labels_of(pod).items()}
        if gang_role not in self.selected_roles and self.selects(namespace_of(pod), labels):
            self.selected_roles.add(gang_role)

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and namespace == self.namespace and selector_matches(self.selector, labels)


def read_budgets(objects: Iterable[Object]) -> list[BudgetSelection]:
    """Raises StateError for a selector that cannot be read."""
    return [_read_budget(item) for item in objects]


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
