"""Names that follow from generateName and the text."""

from __future__ import annotations

from compiler.syntax.documents import Document
from compiler.syntax.parse import parse_file

JOB = """\
# why
apiVersion: batch/v1
kind: Job
metadata:
  generateName: "tune-"  # each version once
  labels: {a: b}
spec: {parallelism: 2}
"""


def parsed(text: str) -> Document:
    ((document, failed),) = parse_file("jobs/a.yaml", text.encode()).documents
    assert not failed
    return document


def test_a_name_is_the_beginning_and_five_letters_and_stands_where_generate_name_does() -> None:
    document = parsed(JOB)
    assert document.name == "tune-jdw27"
    assert document.has_generated_name
    assert "generateName" not in document.metadata
    assert (document.position("metadata", "name").line, document.display_name) == (5, "Job tune-jdw27")


def test_what_makes_another_run_makes_another_name_and_nothing_else_does() -> None:
    name = parsed(JOB).name
    same = (JOB.replace("a: b", "a: c"), JOB.replace("batch/v1", "batch/v2"), JOB.replace("# why\n", ""))
    assert {parsed(text).name for text in same} == {name}
    run = JOB.replace("  labels:", '  annotations: {gangplan.dev/run: "2"}\n  labels:')
    assert len({name, parsed(JOB.replace("parallelism: 2", "parallelism: 3")).name, parsed(run).name}) == 3


def test_a_long_beginning_is_cut_as_the_api_server_does() -> None:
    assert parsed(JOB.replace("tune-", "x" * 70)).name[:-5] == "x" * 58


def test_a_name_of_its_own_stays() -> None:
    document = parsed(JOB.replace("  labels:", "  name: mine\n  labels:"))
    assert (document.name, document.has_generated_name) == ("mine", False)
    assert parsed(JOB.replace("  labels:", "  name:\n  labels:")).name == "tune-jdw27"


def test_objects_of_a_list_that_share_their_metadata_have_names_of_their_own() -> None:
    items = "".join(
        f"- {{apiVersion: batch/v1, kind: Job, metadata: {meta}, spec: {{parallelism: {n}}}}}\n"
        for n, meta in ((1, "&m {generateName: t-}"), (2, "*m"))
    )
    found = parse_file("jobs/a.yaml", f"apiVersion: v1\nkind: List\nitems:\n{items}".encode()).documents
    assert len({document.name for document, _ in found}) == 2
