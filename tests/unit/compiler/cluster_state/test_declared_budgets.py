"""PodDisruptionBudgets of the repository that the cluster does not have yet: what they allow follows from the pods."""

from __future__ import annotations

from typing import Any

import pytest

from compiler.cluster_state.disruption_budgets import read_budgets
from compiler.syntax.documents import Document

RULES: dict[str, tuple[dict[str, Any], int]] = {
    "at least 3": ({"minAvailable": 3}, 2),
    "at least as many as there are": ({"minAvailable": 9}, 0),
    "at least half": ({"minAvailable": "50%"}, 2),
    "one may go": ({"maxUnavailable": 1}, 1),
    "a third may go": ({"maxUnavailable": "34%"}, 2),
    "none may go": ({"maxUnavailable": 0}, 0),
    "at least one where nothing is said": ({}, 4),
}
"""Rule -> spec and what it allows of 5 running pods."""


def document(spec: dict[str, Any], name: str = "keep") -> Document:
    selector = {"selector": {"matchLabels": {"app": "a"}}}
    metadata = {"name": name, "namespace": "team"}
    data = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec | selector}
    return Document("jobs/a.yaml", 1, "", data, {})


def pod(app: str) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "team", "labels": {"app": app}}}


@pytest.mark.parametrize("rule", RULES)
def test_it_allows_what_its_spec_says_of_the_running_pods(rule: str) -> None:
    spec, allowed = RULES[rule]
    (budget,) = read_budgets((), [document(spec)])
    for app in "aaaaab":
        budget.note_running_pod(pod(app), (0, 0))
    assert (budget.selected_roles, budget.allowed) == ({(0, 0)}, allowed)


def test_the_cluster_knows_better_what_one_that_it_has_allows() -> None:
    live = {**document({"maxUnavailable": 5}).data, "status": {"disruptionsAllowed": 1}}
    found = read_budgets([live], [document({"maxUnavailable": 5}), document({"maxUnavailable": 2}, "other")])
    assert [(budget.name, budget.allowed) for budget in found] == [("keep", 1), ("other", 2)]
