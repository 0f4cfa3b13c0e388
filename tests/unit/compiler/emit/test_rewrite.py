"""A document comes out as it went in, plus what was added."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from compiler.emit.rewrite import rewrite
from compiler.syntax.documents import Document
from compiler.syntax.parse import parse_file
from tests.builders.beside import beside

CASES = beside(__file__)
JOB = CASES["job"]


SHARED = CASES["shared"]


def only(text: str, at: int = 0) -> Document:
    found, problems = (
        [document for document, _ in parse_file("a.yaml", text.encode()).documents],
        parse_file("a.yaml", text.encode()).diagnostics,
    )
    assert not [d for d in problems if d.severity == "error"]
    return found[at]


def loaded(text: str) -> Any:
    return only(text).data


def gated(data: dict[str, Any]) -> dict[str, Any]:
    wanted = deepcopy(data)
    wanted["metadata"]["annotations"] = {"gangplan.dev/placement": '{"worker":{"n1":2}}'}
    wanted["spec"]["queue"] = "default"
    for task in wanted["spec"]["tasks"]:
        task["maxRetry"] = 3
        task["template"]["spec"]["schedulingGates"] = [{"name": "gangplan.dev/placement"}]
    return wanted


def test_every_line_of_the_user_stays_and_only_new_lines_are_added() -> None:
    document = only(JOB)
    wanted = gated(document.data)
    text = rewrite(document, wanted)
    assert loaded(text) == wanted
    rest = iter(text.splitlines())
    assert all(line in rest for line in JOB.splitlines())
    assert [line for line in text.splitlines() if line not in JOB.splitlines()] == [
        "  annotations:",
        '    gangplan.dev/placement: \'{"worker":{"n1":2}}\'',
        "  queue: default",
        "      maxRetry: 3",
        "          schedulingGates:",
        "          - name: gangplan.dev/placement",
    ]


def test_a_document_that_needs_nothing_is_returned_byte_for_byte() -> None:
    assert rewrite(only(JOB), only(JOB).data) == JOB


@pytest.mark.parametrize("style", CASES["styles"])
def test_whatever_the_style_the_result_says_what_is_wanted(style: str) -> None:
    written = CASES["styles"][style]
    document = only(written if isinstance(written, str) else CASES[written[0]].replace(*written[1:]))
    wanted = deepcopy(document.data)
    annotations = wanted["metadata"].get("annotations") or {}
    wanted["metadata"]["annotations"] = {**annotations, "gangplan.dev/placement": "{}"}
    wanted["spec"]["queue"] = "default"
    for task in wanted["spec"]["tasks"]:
        task["template"]["spec"].setdefault("schedulingGates", []).append({"name": "gangplan.dev/placement"})
    made = rewrite(document, wanted)
    assert loaded(made) == wanted
    assert made.endswith("\n")


def test_what_an_alias_shares_is_parted_when_the_roles_differ() -> None:
    document = only(SHARED)
    wanted = deepcopy(document.data)
    wanted["spec"]["tasks"][0]["template"] = {"spec": {"a": 1, "host": "n1"}}
    wanted["spec"]["tasks"][1]["template"] = {"spec": {"a": 1, "host": "n2"}}
    assert loaded(rewrite(document, wanted)) == wanted


def test_an_item_of_a_list_becomes_a_document_of_its_own_with_its_comments() -> None:
    item = "- apiVersion: v1\n  kind: {0}\n  metadata:\n    name: {1} # why {1}\n"
    text = "apiVersion: v1\nkind: List\nitems:\n" + item.format("A", "a") + item.format("B", "b")
    document = only(text, at=1)
    made = rewrite(document, {**document.data, "spec": {"x": "no"}})
    assert loaded(made) == {"apiVersion": "v1", "kind": "B", "metadata": {"name": "b"}, "spec": {"x": "no"}}
    assert "# why b" in made
    assert "# why a" not in made


def test_flow_style_that_some_parsers_refuse_is_kept_as_written() -> None:
    document = only(SHARED.replace("a: 1", "containers: [{name: c, image: registry/name:1.0}] # why"))
    wanted = deepcopy(document.data)
    wanted["spec"]["queue"] = "q"
    assert "containers: [{name: c, image: registry/name:1.0}] # why\n" in rewrite(document, wanted)


def with_annotations(document: Document, **added: str) -> dict[str, Any]:
    metadata = document.data["metadata"]
    return {**document.data, "metadata": {**metadata, "annotations": {**metadata["annotations"], **added}}}


def test_scalars_are_added_to_a_flow_mapping_and_not_a_byte_of_the_rest_changes() -> None:
    document = only(JOB.replace("  labels:", "  annotations: {mine: kept}   # why\n  labels:"))
    made = rewrite(document, with_annotations(document, placement='{"worker":{"n1":2}}'))
    assert made == document.text.replace("{mine", '{placement: \'{"worker":{"n1":2}}\', mine')


def test_a_scalar_that_means_something_else_in_a_flow_mapping_is_added_in_another_way() -> None:
    document = only(JOB.replace("  labels:", "  annotations: {mine: kept}\n  labels:"))
    wanted = with_annotations(document, why="a, b")
    assert loaded(rewrite(document, wanted)) == wanted


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("  name: nightly   # keep", "  generateName: nightly-   # keep"),
        ("  name: nightly   # keep", "  'generateName' : \"nightly-\"   # keep"),
        ("metadata:\n  name: nightly   # keep this name\n", "metadata:\n  generateName:\n    nightly-\n"),
    ],
)
def test_a_name_that_follows_from_the_text_is_written_where_generate_name_stood(written: str, expected: str) -> None:
    ((document, _),) = parse_file("jobs/a.yaml", JOB.replace(written, expected).encode()).documents
    target = deepcopy(document.data)
    target["metadata"]["namespace"] = "ml"
    text = rewrite(document, target)
    ((again, _),) = parse_file("jobs/a.yaml", text.encode()).documents
    assert again.data == target
    if "#" in expected:
        assert f"  name: {document.name}   # keep this name\n" in text
        assert [line for line in JOB.splitlines() if "name: nightly" not in line] == [
            line for line in text.splitlines() if document.name not in line and "namespace" not in line
        ]
