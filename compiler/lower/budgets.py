"""PodDisruptionBudgets of the state: how many of whose running pods may be evicted.

They bind whether or not Volcano's plugin pdb is configured: what the plan evicts is evicted through the Eviction API,
which refuses beyond a budget, and refuses a pod that two budgets select.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from compiler.cluster_state.state import StateError
from compiler.fields.label_selector import LabelExpression, LabelSelector, selector_matches
from compiler.kubernetes import Object, labels_of, name_of, namespace_of, status_of
from solver.problem import DisruptionBudget

GangRole = tuple[int, int]
"""(gang, role)"""


@dataclass(slots=True)
class BudgetSelection:
    """One PodDisruptionBudget. rows: what its selector asks of labels; None selects nothing, () every pod of the
    namespace (policy/v1).

    roles: those of which some running pod was seen that it selects; the other pods of such a role count as well.
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
    made = []
    for item in objects:
        name, namespace = name_of(item), namespace_of(item)
        selector = (item.get("spec") or {}).get("selector")
        try:
            rows = None if selector is None else LabelSelector.model_validate(selector).expressions()
        except ValidationError as error:
            raise StateError(
                f"PodDisruptionBudget {namespace}/{name} of the state, spec.selector: {error.errors()[0]['msg']}"
            ) from error
        allowed = int(status_of(item).get("disruptionsAllowed") or 0)
        made.append(BudgetSelection(name, namespace, rows, max(0, allowed)))
    return made


def disruption_budgets(
    selections: Sequence[BudgetSelection], gang_index: Mapping[int, int]
) -> tuple[DisruptionBudget, ...]:
    """As the problem has them, of the gangs in it. index: gang of the specs -> gang of the problem. Of roles that
    several budgets select nobody may go."""
    made = []
    for one in selections:
        roles = tuple(sorted((gang_index[j], t) for j, t in one.selected_roles if j in gang_index))
        if roles:
            made.append(DisruptionBudget(f"{one.namespace}/{one.name}", one.disruptions_allowed, roles))
    times = Counter(spot for budget in made for spot in budget.roles)
    if twice := tuple(sorted(spot for spot, number in times.items() if number > 1)):
        made.append(DisruptionBudget("several budgets at once", 0, twice))
    return tuple(made)
