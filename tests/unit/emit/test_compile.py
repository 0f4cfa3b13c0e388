"""Nothing comes out of a plan that the verifier objects to."""

from __future__ import annotations

import pytest

import compiler.compile
from compiler.compile import compile_repository
from compiler.tree import Tree
from solver.problem import InvalidProblemError, Problem
from solver.verify import Violation
from tests.unit.emit.test_manifests import CLUSTER, JOB, POOL

FILES = {
    "cluster-specs/t/all.yaml": "---\n".join((CLUSTER.replace("BINDING", "gated"), POOL)).encode(),
    "jobs/a.yaml": JOB.replace("NAME", "a").encode(),
}


def test_a_refused_plan_is_a_finding_at_the_job_and_emits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler.compile, "verify", lambda problem, plan: [Violation("gang", ("decisions", 0), "half of it is placed")])
    outcome = compile_repository(Tree(FILES))
    (finding,) = [d for d in outcome.diagnostics if d.severity == "error"]
    assert (finding.code, finding.position.file, finding.message) == ("GP502", "jobs/a.yaml", "gang: half of it is placed")
    assert (outcome.ok, outcome.manifests(), outcome.decisions, outcome.exit_code()) == (False, (), (), 1)


def test_a_problem_that_contradicts_itself_is_a_finding_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(problem: Problem, options: object) -> None:
        raise InvalidProblemError(("gangs", 0, "roles", 0, "request"), "too odd")

    monkeypatch.setattr(compiler.compile, "solve", refuse)
    outcome = compile_repository(Tree(FILES))
    (finding,) = [d for d in outcome.diagnostics if d.severity == "error"]
    assert (finding.code, finding.position.file, finding.position.line) == ("GP501", "jobs/a.yaml", 6)
    assert not outcome.ok


def test_an_empty_repository_and_an_unknown_cluster_have_no_plan() -> None:
    assert [d.code for d in compile_repository(Tree({})).diagnostics] == ["GP124"]
    assert [d.code for d in compile_repository(Tree(FILES), "other").diagnostics] == ["GP126"]
    assert not compile_repository(Tree({})).ok


def test_the_same_inputs_have_the_same_digest() -> None:
    assert compile_repository(Tree(FILES)).digest == compile_repository(Tree(dict(reversed(FILES.items())))).digest
