"""PodDisruptionBudgets as the problem has them.

They bind whether or not Volcano's plugin pdb is configured: what the plan evicts is evicted through the Eviction API,
which refuses beyond a budget, and refuses a pod that two budgets select.
"""

from __future__ import annotations

from collections import Counter

from compiler.lower.inputs import LoweringInputs
from solver.problem import DisruptionBudget


def disruption_budgets(inputs: LoweringInputs) -> tuple[DisruptionBudget, ...]:
    """Return the disruption budgets of the gangs in the problem. No pod of a role that several budgets select may be
    evicted."""
    index = {j: g for g, j in enumerate(inputs.gang_indices)}
    budgets = []
    for selection in inputs.observed.budget_selections:
        roles = tuple(sorted((index[j], t) for j, t in selection.selected_roles if j in index))
        if roles:
            name = f"{selection.namespace}/{selection.name}"
            budgets.append(DisruptionBudget(name, selection.allowed, roles))
    counts = Counter(role for budget in budgets for role in budget.roles)
    if twice := tuple(sorted(role for role, count in counts.items() if count > 1)):
        budgets.append(DisruptionBudget("several budgets at once", 0, twice))
    return tuple(budgets)
