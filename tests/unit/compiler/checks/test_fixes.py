"""A fix that names an edit works: applied as it is written, it ends its finding and brings no new error.

The findings are those of all failing cases of tests/fixtures/diagnostics.
"""

from __future__ import annotations

import pytest

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.emit.edited_files import Fixes
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.cases import FIXTURES, load_cases


def key(found: Diagnostic) -> tuple[str, str, int]:
    return found.code, found.position.file, found.position.line


def shown(found: Diagnostic) -> str:
    at = found.position
    return f"{at.file}:{at.line}:{at.column} {found.code} {found.message}. {found.help}"


def errors(files: dict[str, bytes]) -> set[tuple[str, str, int]]:
    return {key(each) for each in read_specs(Repository(files)).diagnostics if each.severity == "error"}


WITHOUT_EDITS = {"base.txt", "cells.txt", "security.txt"}
"""Files of cases whose fixes are choices, and name no edit."""
FILES = sorted(path.name for path in FIXTURES.glob("*.txt") if path.name not in WITHOUT_EDITS)


OF_WHOLE_OBJECTS = {"GP212", "GP216"}
"""Of an object of an unknown kind or version nothing else is known before."""


@pytest.mark.parametrize("file", FILES)
def test_an_edit_ends_its_finding_and_brings_no_error(file: str) -> None:
    applied, wrong = 0, []
    for case in load_cases(FIXTURES / file):
        fixes, before = Fixes(case.files), errors(case.files) if case.fails else set()
        for found in read_specs(Repository(case.files)).diagnostics if case.fails else ():
            changed, fixed = fixes.applied([found])
            if fixed:
                applied += 1
                after = read_specs(Repository({**case.files, **changed})).diagnostics
                left = [each for each in after if shown(each) == shown(found)]
                new = [each for each in after if each.severity == "error" and key(each) not in before]
                new = [] if found.code in OF_WHOLE_OBJECTS else new
                if left or new:
                    wrong.append((case.title, shown(found), *map(shown, left + new)))
    assert applied
    assert wrong == []


def test_a_place_is_named_only_where_it_takes_such_a_value() -> None:
    """`image` of a volume is no text, and a step of a JobFlow takes no pod spec by `spec`."""
    flow = b"{apiVersion: flow.volcano.sh/v1alpha1, kind: JobFlow, metadata: {name: f}, spec: {flows: [FLOW]}}"
    workflow = (
        b"{apiVersion: argoproj.io/v1alpha1, kind: WorkflowTemplate, metadata: {name: w}, spec: {templates: [T]}}"
    )
    texts = (
        flow.replace(b"FLOW", b"{name: a, patch: {spec: {tasks: []}}}"),
        workflow.replace(b"T]", b"{name: m, image: busybox, container: {image: a}}]"),
    )
    for text in texts:
        found = [each for each in read_specs(Repository({"jobs/a.yaml": text})).diagnostics if each.code == "GP202"]
        assert found
        assert not any(each.help.startswith("move it to") for each in found)
