"""The repository's own cluster-specs/ and jobs/: what they show, and what README and concepts show of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compiler.outcome import Outcome
from compiler.pipeline import CommandLimit, compile_repository
from compiler.repository.tree import Repository
from compiler.views import text
from compiler.views.explanation import explanation_text
from tests.builders.plans import greedy_gangs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    without_clock = CommandLimit(seconds=3600.0)  # the plan is the same on a loaded machine
    return compile_repository(Repository.from_directory(ROOT), limit=without_clock)


def test_the_readme_shows_the_beginning_of_the_plan(outcome: Outcome) -> None:
    """The line "..." stands for lines left out."""
    shown = (ROOT / "README.md").read_text().split("begins like this:\n\n```text\n")[1].partition("```")[0]
    plan = text.plan_text(outcome)
    before, _, after = shown.partition("  ...\n")
    assert plan.startswith(before)
    assert after
    assert after in plan


def test_concepts_show_parts_of_explanations(outcome: Outcome) -> None:
    """Each `gangplan explain JOB` of a concept's page, with the text behind it."""
    pages = sorted((ROOT / "docs" / "concepts").glob("*.md"))
    example = re.compile(r"```sh\ngangplan explain (\S+)\n```\s*```text\n(.*?)```", re.DOTALL)
    shown = [found for page in pages for found in example.findall(page.read_text())]
    decisions = {decided.name: decided for decided in outcome.decisions}
    assert len(shown) >= 3
    for job, part in shown:
        assert part in explanation_text(outcome, decisions[job])


def test_the_model_starts_a_job_that_the_greedy_leaves_waiting(outcome: Outcome) -> None:
    """jobs/vision/imaging-metax.yaml says why."""
    assert outcome.problem is not None
    greedy = {outcome.problem.gangs[j].name for j in greedy_gangs(outcome.problem)}
    model = {decided.name for decided in outcome.decisions if decided.action == "start"}
    assert (greedy - model, model - greedy) == (set(), {"vision/mri-volumes"})
