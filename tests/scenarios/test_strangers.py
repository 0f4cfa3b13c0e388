"""Cases from public bug reports and new users: each folder of tests/fixtures/strangers is one, with its outcome."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from compiler.cluster_state.cluster_state import load_state
from compiler.diagnostics.diagnostic import Diagnostic
from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.views.selection import left_out

CASES = Path(__file__).parents[1] / "fixtures" / "strangers"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expected.yaml"))
OF_KINDS = "GP357"
"""Reported for any kind that the shipped RBAC permissions do not cover, whatever a case is about."""
_FINDING = re.compile(r"(\S+?):(\d+)(?::(\d+))? (error|warning|info) (GP\d+)(?:: (.+))?")
_DECISION = re.compile(r"(\w+)((?: G[WR]\d+)*)(?: (\d+)(?: on (?:(\d+) nodes?|(.+)))?)?")


@cache
def expected(case: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((CASES / case / "expected.yaml").read_text())
    return found


def repository(case: str) -> Repository:
    return Repository.from_directory(CASES / case)


@cache
def outcome(case: str) -> Outcome:
    state = CASES / case / "state.json"
    known = load_state(state.read_bytes()) if state.is_file() else None
    return compile_repository(repository(case), state=known)


def shown(found: Diagnostic) -> str:
    at = found.position
    return f"{at.file}:{at.line}:{at.column} {found.severity} {found.code}: {found.message}. {found.help}"


def is_as_expected(found: Diagnostic, wanted: str) -> bool:
    match = _FINDING.fullmatch(wanted)
    assert match, f"not FILE:LINE SEVERITY CODE: {wanted}"
    file, line, column, severity, code, text = match.groups()
    at = found.position
    return (
        (at.file, at.line, found.severity, found.code) == (file, int(line), severity, code)
        and (column is None or at.column == int(column))
        and (text or "").lower() in f"{found.message}. {found.help}".lower()
    )


def with_edits(case: str) -> Repository:
    """The repository with the edits of `fixed`."""
    files = dict(repository(case).files)
    for edit in expected(case)["fixed"]:
        file, _, change = edit.partition(": ")
        old, _, new = change.partition(" -> ")
        assert old.encode() in files[file], edit
        files[file] = files[file].replace(old.encode(), new.encode())
    return Repository(files)


@pytest.mark.parametrize("case", NAMES)
def test_check_reports_what_is_wrong_and_nothing_else(case: str) -> None:
    found = [each for each in read_specs(repository(case)).diagnostics if each.code != OF_KINDS]
    missing = list(expected(case)["check"])
    for each in list(found):
        if match := next((wanted for wanted in missing if is_as_expected(each, wanted)), None):
            found.remove(each)
            missing.remove(match)
    assert (missing, list(map(shown, found))) == ([], [])  # what was not reported, and what should not be


@pytest.mark.parametrize("case", [name for name in NAMES if "fixed" in expected(name)])
def test_the_fix_leaves_no_error(case: str) -> None:
    found = [each for each in read_specs(with_edits(case)).diagnostics if each.severity == "error"]
    assert not found, "\n".join(map(shown, found))


@pytest.mark.parametrize("case", [name for name in NAMES if "plan" in expected(name)])
def test_plan_decides_as_the_cluster_does(case: str) -> None:
    wanted, decided = expected(case)["plan"], {found.name: found for found in outcome(case).decisions}
    assert set(decided) == set(wanted)
    for name, line in wanted.items():
        agrees(decided[name], str(line))


def agrees(decided: JobDecision, line: str) -> None:
    decision, _, text = line.partition("; ")
    match = _DECISION.fullmatch(decision)
    assert match, f"not DECISION [CODE ...] [PODS on NODES]: {decision}"
    action, codes, pods, node_count, node_names = match.groups()
    said = [f"{each.code} {each.message}" for each in (*decided.reasons, *decided.repairs)]
    assert ("never" if decided.never else decided.action) == action, said
    assert set(codes.split()) <= {each.code for each in (*decided.reasons, *decided.repairs)}, said
    nodes = {node for by_node in decided.pods.values() for node in by_node}
    assert pods is None or decided.pod_count == int(pods)
    assert node_count is None or len(nodes) == int(node_count), nodes
    assert node_names is None or nodes <= set(node_names.split()), nodes
    assert any(text in each for each in said) or not text, said


@pytest.mark.parametrize("case", [name for name in NAMES if "left out" in expected(name)])
def test_jobs_with_errors_are_named(case: str) -> None:
    documents = [job.document for job in left_out(outcome(case)) if job.document is not None]
    assert [f"{found.namespace or 'default'}/{found.name}" for found in documents] == expected(case)["left out"]
