"""Which findings a change brings, changes and fixes."""

from __future__ import annotations

from dataclasses import replace

from compiler.comparison.compare import Revision, compare, finding_changes
from compiler.diagnostics.diagnostic import Diagnostic, Position
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.repositories import FILES, JOB

TAINT = Diagnostic(
    "GP394",
    "warning",
    Position("jobs/a.yaml", 3, 1),
    "a taint that they do not tolerate: old",
    "tolerate old",
    "Job a",
    path=("spec",),
)


def test_a_finding_that_another_of_its_kind_replaces_is_changed() -> None:
    other = replace(TAINT, message="a taint that they do not tolerate: new", position=Position("jobs/a.yaml", 9, 1))
    found = finding_changes([TAINT], [other])
    assert (found.new, found.changed, found.mended) == ((), ((TAINT, other),), ())


def test_a_finding_of_an_object_in_another_file_is_the_same() -> None:
    assert not finding_changes([TAINT], [replace(TAINT, position=Position("jobs/b.yaml", 1, 1))])


def test_a_finding_on_a_file_that_moved_is_the_same() -> None:
    empty = replace(TAINT, object="", path=())
    assert not finding_changes([empty], [replace(empty, position=Position("jobs/team/a.yaml", 3, 1))])
    assert finding_changes([empty], [replace(empty, position=Position("jobs/team/b.yaml", 3, 1))]).new


def test_a_finding_of_the_yaml_text_is_of_its_object() -> None:
    text = JOB.replace("NAME", "a").replace("cpu: 4", "cpu: 4, x: yes").encode()
    found = _revision({**FILES, "jobs/a.yaml": text}).specs.diagnostics
    assert [each.object for each in found if each.code == "GP115"] == ["NodePool n", "Job a"]


def test_a_finding_at_another_field_or_object_is_new() -> None:
    for other in (replace(TAINT, path=("metadata",), message="x"), replace(TAINT, object="Job b", message="x")):
        found = finding_changes([TAINT], [other])
        assert (found.new, found.changed, found.mended) == ((other,), (), (TAINT,))


def _revision(files: dict[str, bytes]) -> Revision:
    specs = read_specs(Repository(files))
    return Revision(specs, lambda state: (_ for _ in ()).throw(AssertionError("a rejected revision has no plan")))


def test_behind_a_new_error_no_finding_counts_as_fixed() -> None:
    """No check asks what fits into a pool that cannot be read."""
    base = {**FILES, "jobs/big.yaml": JOB.replace("NAME", "big").replace("cpu: 4", "cpu: 99").encode()}
    broken = {name: text.replace(b"capacity:", b"capacty:") for name, text in base.items()}
    assert broken != base
    kept = {each.code for each in _revision(broken).specs.diagnostics}
    assert {each.code for each in _revision(base).specs.diagnostics} - kept
    found = compare(_revision(base), _revision(broken), None)
    assert found.errors
    assert found.findings.mended == ()
