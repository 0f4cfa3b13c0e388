"""Every code has a repository that breaks its rule and one that keeps it; each case states all that `check` says,
and where."""

from __future__ import annotations

import pytest

from compiler.checks.check import all_rules
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.cases import CASES, Case

IN_BYTES = {"GP104", "GP105", "GP106", "GP119", "GP120", "GP122", "GP126"}
"""Tested in tests/unit/compiler/syntax/test_bytes.py: a text file cannot show them."""
ELSEWHERE = {"GP128", "GP130", "GP133", "GP134", "GP139"}
"""Found among several clusters, in git objects, by kustomize and where our own code fails: tested where those are."""
OF_MANY = ("GP357", "GP435")
"""Of any kind that the shipped RBAC permissions do not cover, and any configuration without the plugin predicates,
whatever a case is about: stated in their own cases only."""


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.code} {'fail' if case.fails else 'pass'}: {case.title}"
)
def test_case(case: Case) -> None:
    diagnostics = read_specs(Repository(case.files)).diagnostics
    found = [d for d in diagnostics if d.code not in OF_MANY or case.code == d.code]
    said = [f"{d.position.file}:{d.position.line}:{d.position.column} {d.code} {d.message}. {d.help}" for d in found]
    columns = {(file, line, code): column for file, line, column, code in case.expected}
    exact = {
        (
            d.position.file,
            d.position.line,
            d.position.column if columns.get((d.position.file, d.position.line, d.code)) else None,
            d.code,
        )
        for d in found
    }
    assert exact == set(case.expected), "\n".join(said)
    if not case.fails:
        assert case.code not in {d.code for d in found}
    assert all(d.message and d.help for d in found), said


def test_every_code_is_tested_with_a_breach_and_its_mend() -> None:
    codes = {code for code in all_rules() if code < "GP5"} - IN_BYTES - ELSEWHERE
    assert {case.code for case in CASES if case.fails and case.expected} == codes
    assert {case.code for case in CASES if not case.fails} == codes


def test_failing_cases_report_their_own_code() -> None:
    for case in CASES:
        if case.fails and case.code not in ("GP118", "GP413"):
            assert case.code in {code for *_, code in case.expected}, case.title
