"""Documents: text, lines, marks, prefixes."""

from __future__ import annotations

from compiler.diagnostics.diagnostic import Diagnostic
from compiler.syntax.parse import parse_file
from compiler.syntax.yaml_reader import YamlReader
from tests.builders.beside import beside

TWO = beside(__file__)["two"]


def test_the_text_of_a_document_is_the_file_s_bytes_between_the_markers() -> None:
    first, second = (document for document, _ in parse_file("jobs/a.yaml", TWO.encode()).documents)
    lines = TWO.splitlines(keepends=True)
    assert (first.line, first.text) == (1, "".join(lines[:9]))
    assert (second.line, second.text) == (11, "".join(lines[10:14]))
    assert first.data["data"]["script"] == "one\n ---\ntwo\n"


def test_positions_count_from_one_in_the_file_not_in_the_document() -> None:
    _, (second, _) = parse_file("jobs/a.yaml", TWO.encode()).documents
    at = second.position("metadata", "name")
    assert (at.file, at.line, at.column) == ("jobs/a.yaml", 14, 3)
    missing = second.position("metadata", "labels", "app")
    assert (missing.line, missing.column) == (13, 1)


def test_a_text_inside_another_is_read_to_64_levels_at_its_own_place() -> None:
    found = list[Diagnostic]()
    inner = YamlReader("f.yaml", 7, "a:\n  - '<<': x\n", found, 3)
    assert list(inner.load_data()) == [{"a": [{"<<": "x"}]}]
    assert inner.positions == {(): (7, 3), ("a",): (7, 3), ("a", 0): (8, 7), ("a", 0, "<<"): (8, 7)}
    assert len(list(YamlReader("f.yaml", 1, "[" * 64 + "]" * 64, found).load_data())) == 1
    assert not found
    assert list(YamlReader("f.yaml", 1, "[" * 65 + "]" * 65, found).load_data()) == []
    assert [each.code for each in found] == ["GP107"]


def test_windows_line_ends() -> None:
    parsed = parse_file("a.yaml", TWO.replace("\n", "\r\n").encode())
    assert parsed.diagnostics == []
    assert [(document.name, document.line) for document, _ in parsed.documents] == [("a", 1), ("b", 11)]


def test_content_on_the_marker_s_own_line() -> None:
    ((document, _),) = parse_file("a.yaml", b"--- {apiVersion: v1, kind: A, metadata: {name: x}}\n").documents
    assert (document.line, document.position("kind").column) == (1, 22)


def test_items_of_a_list_share_its_text_and_keep_their_own_places() -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n"
        "  metadata: {name: x}\n- apiVersion: v1\n  kind: B\n  metadata: {name: y}\n"
    )
    documents = [document for document, _ in parse_file("a.yaml", text.encode()).documents]
    assert [(d.kind, d.item_path, d.line, d.text == text) for d in documents] == [
        ("A", ("items", 0), 1, True),
        ("B", ("items", 1), 1, True),
    ]
    assert [(d.position("kind").line, d.position("kind").column) for d in documents] == [(5, 3), (8, 3)]


def test_json_is_yaml_even_when_tabs_indent_it() -> None:
    parsed = parse_file(
        "a.json",
        b'{\n\t"apiVersion": "v1",\n\t"kind": "A",\n\t"metadata": {"name": "x", "labels": {"a": "\\/\\u00e9"}}\n}\n',
    )
    assert parsed.diagnostics == []
    assert parsed.documents[0][0].data["metadata"]["labels"] == {"a": "/é"}


def test_aliases_are_copies_and_merge_keys_yield_to_what_is_written() -> None:
    text = (
        "apiVersion: v1\nkind: A\nmetadata: {name: x}\na: &a {p: 1, q: {r: 2}}\n"
        "b: *a\nc: {<<: *a, p: 3}\nd: {<<: [{p: 4}, *a]}\n"
    )
    ((document, failed),) = parse_file("a.yaml", text.encode()).documents
    data = document.data
    assert not failed
    assert data["b"] == {"p": 1, "q": {"r": 2}}
    assert data["b"]["q"] is not data["a"]["q"]
    assert data["c"] == {"p": 3, "q": {"r": 2}}
    assert data["d"] == {"p": 4, "q": {"r": 2}}
    assert document.position("c", "q").line == 4


def test_scalars_as_yaml_1_2_and_kubernetes_agree() -> None:
    head = "apiVersion: v1\nkind: A\nmetadata: {name: x}\n"
    text = head + "v: [1, -2, 0x1F, 1.5, 1e3, true, False, null, ~, text, 12:30, 1_000, '5', .5, 0.0, nullable, +1]\n"
    ((document, _),) = parse_file("a.yaml", text.encode()).documents
    wanted = [1, -2, 31, 1.5, 1000.0, True, False, None, None, "text", "12:30", 1000, "5", 0.5, 0.0, "nullable", 1]
    assert document.data["v"] == wanted
    assert list(map(type, document.data["v"])) == list(map(type, wanted))


def test_colons_inside_words_are_text_in_braces_too() -> None:
    ((document, _),) = parse_file(
        "a.yaml", b"apiVersion: v1\nkind: A\nmetadata: {name: x}\nv: {image: example.org/train:1.0, at: [12:30]}\n"
    ).documents
    assert document.data["v"] == {"image": "example.org/train:1.0", "at": ["12:30"]}


def test_a_thousand_merges_of_one_mapping_stay_linear() -> None:
    text = "apiVersion: v1\nkind: A\nmetadata: {name: x}\nbase: &b {p: 1}\nall:\n" + "".join(
        f"- {{<<: *b, q: {n}}}\n" for n in range(1000)
    )
    ((document, failed),) = parse_file("a.yaml", text.encode()).documents
    assert not failed
    assert document.data["all"][999] == {"q": 999, "p": 1}
