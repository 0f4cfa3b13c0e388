"""PodDisruptionBudgets as the problem has them.

They bind whether or not Volcano's plugin pdb is configured: what the plan evicts is evicted through the Eviction API,
which refuses beyond a budget, and refuses a pod that two budgets select.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from compiler.cluster_state.disruption_budgets import BudgetSelection
from solver.problem import DisruptionBudget


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
