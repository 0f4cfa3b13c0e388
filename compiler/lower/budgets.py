"""PodDisruptionBudgets of the state: how many of whose running pods may be evicted.

They bind whether or not Volcano's plugin pdb is configured: what the plan evicts is evicted through the Eviction API,
which refuses beyond a budget, and refuses a pod that two budgets select.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from compiler.cluster_state.state import Object, StateError
from compiler.fields.label_selector import LabelSelector, Row, matches
from solver.problem import Budget

Spot = tuple[int, int]
"""(gang, role)"""


@dataclass(slots=True)
class Disruptions:
    """One PodDisruptionBudget. rows: what its selector asks of labels; None selects nothing, () every pod of the
    namespace (policy/v1).

    roles: those of which some running pod was seen that it selects; the other pods of such a role count as well.
    """

    name: str
    namespace: str
    rows: tuple[Row, ...] | None
    allowed: int
    roles: set[Spot] = field(default_factory=set)

    def see(self, pod: Object, spot: Spot) -> None:
        """Note the role of a running pod if the budget selects it."""
        labels = {str(key): str(value) for key, value in (pod["metadata"].get("labels") or {}).items()}
        if spot not in self.roles and self.selects(pod["metadata"].get("namespace") or "default", labels):
            self.roles.add(spot)

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.rows is not None and namespace == self.namespace and matches(self.rows, labels)


def disruptions(found: Iterable[Object]) -> list[Disruptions]:
    """Raises StateError for a selector that cannot be read."""
    made = []
    for item in found:
        name, namespace = str(item["metadata"]["name"]), str(item["metadata"].get("namespace") or "default")
        selector = (item.get("spec") or {}).get("selector")
        try:
            rows = None if selector is None else LabelSelector.model_validate(selector).rows()
        except ValidationError as error:
            raise StateError(
                f"PodDisruptionBudget {namespace}/{name} of the state, spec.selector: {error.errors()[0]['msg']}"
            ) from error
        allowed = int((item.get("status") or {}).get("disruptionsAllowed") or 0)
        made.append(Disruptions(name, namespace, rows, max(0, allowed)))
    return made


def budgets(found: Sequence[Disruptions], index: Mapping[int, int]) -> tuple[Budget, ...]:
    """As the problem has them, of the gangs in it. index: gang of the specs -> gang of the problem. Of roles that
    several budgets select nobody may go."""
    made = []
    for one in found:
        roles = tuple(sorted((index[j], t) for j, t in one.roles if j in index))
        if roles:
            made.append(Budget(f"{one.namespace}/{one.name}", one.allowed, roles))
    times = Counter(spot for budget in made for spot in budget.roles)
    if twice := tuple(sorted(spot for spot, number in times.items() if number > 1)):
        made.append(Budget("several budgets at once", 0, twice))
    return tuple(made)
