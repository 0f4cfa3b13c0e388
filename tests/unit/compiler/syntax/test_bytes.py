"""What a text fixture cannot show: bytes, sizes, links, permissions."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from compiler.reading import read_specs
from compiler.repository.tree import MAX_FILE_BYTES, Repository
from compiler.syntax.parse import parse_file

OBJECT = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def found(content: bytes, name: str = "jobs/a.yaml") -> list[tuple[str, int, int]]:
    return [(d.code, d.position.line, d.position.column) for d in parse_file(name, content).diagnostics]


def test_bytes_that_are_no_utf8_are_told_at_their_line_and_column() -> None:
    assert found(OBJECT + b"data: {a: caf\xe9}\n") == [("GP104", 4, 14)]
    assert found("data: {ä: ".encode() + b"\xff}") == [("GP104", 1, 11)]
    assert found(OBJECT.decode().encode("utf-16")) == [("GP104", 1, 1)]
    assert found(OBJECT + "data: {a: café}\n".encode()) == []


def test_a_byte_order_mark_is_read_over_and_told() -> None:
    parsed = parse_file("a.yaml", b"\xef\xbb\xbf" + OBJECT)
    assert [(d.code, d.severity) for d in parsed.diagnostics] == [("GP105", "info")]
    assert [document.name for document, _ in parsed.documents] == ["a"]
    assert found(OBJECT) == []


@pytest.mark.parametrize("size", [MAX_FILE_BYTES + 1, 5 << 20])
def test_a_large_file_is_refused_unread(size: int) -> None:
    assert found(OBJECT + b"# " + b"x" * (size - len(OBJECT) - 2)) == [("GP106", 1, 1)]


def test_a_file_of_the_largest_size_is_read() -> None:
    parsed = parse_file("a.yaml", OBJECT + b"# " + b"x" * (MAX_FILE_BYTES - len(OBJECT) - 2))
    assert [document.name for document, _ in parsed.documents] == ["a"]


def test_a_large_file_in_a_folder_is_not_even_loaded(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "big.yaml").write_bytes(b"x" * (5 << 20))
    tree = Repository.from_directory(tmp_path)
    assert len(tree.files["jobs/big.yaml"]) == MAX_FILE_BYTES + 1
    assert [d.code for d in read_specs(tree).diagnostics if d.position.file == "jobs/big.yaml"] == ["GP106"]


@pytest.mark.parametrize("size", [0, 10, 5 << 20])
def test_a_file_whose_size_is_told_wrongly_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.yaml").write_bytes(OBJECT)
    (tmp_path / "jobs" / "b.yaml").write_bytes(b"x" * (5 << 20))
    monkeypatch.setattr(os, "fstat", lambda descriptor: SimpleNamespace(st_size=size))
    files = Repository.from_directory(tmp_path).files
    assert files["jobs/a.yaml"] == OBJECT
    assert len(files["jobs/b.yaml"]) == MAX_FILE_BYTES + 1


def test_control_characters_are_told_with_their_place() -> None:
    assert found(b"a: b\nc: d\x07\n") == [("GP101", 2, 5)]
    assert found(b"a: \x00") == [("GP101", 1, 4)]


def test_links_are_never_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.yaml"
    secret.write_bytes(OBJECT)
    repo = tmp_path / "repo"
    (repo / "jobs").mkdir(parents=True)
    (repo / "jobs" / "leak.yaml").symlink_to(secret)
    (repo / "jobs" / "dangling.yml").symlink_to("/nowhere")
    (repo / "jobs" / "notes.txt").symlink_to(secret)
    (repo / "jobs" / "elsewhere").symlink_to(tmp_path)
    (repo / "cluster-specs").symlink_to(tmp_path)
    (repo / "jobs" / "plain.yaml").write_bytes(OBJECT)
    tree = Repository.from_directory(repo)
    assert list(tree.files) == ["jobs/plain.yaml"]
    assert [(d.code, d.position.file) for d in tree.problems] == [
        ("GP119", "cluster-specs"),
        ("GP119", "jobs/dangling.yml"),
        ("GP119", "jobs/elsewhere"),
        ("GP119", "jobs/leak.yaml"),
    ]


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    os.mkfifo(tmp_path / "jobs" / "pipe.yaml")  # opening it would wait for ever
    tree = Repository.from_directory(tmp_path)
    assert [(d.code, d.position.file) for d in tree.problems] == [("GP120", "jobs/pipe.yaml")]


def test_a_file_that_cannot_be_read_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.yaml").write_bytes(OBJECT)
    (tmp_path / "jobs" / "b.yaml").write_bytes(OBJECT)
    real = os.open

    def refusing(path: os.PathLike[str], *arguments: int) -> int:
        if str(path).endswith("a.yaml"):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments)

    monkeypatch.setattr(os, "open", refusing)  # the tests may run as root, whom no permission stops
    tree = Repository.from_directory(tmp_path)
    assert list(tree.files) == ["jobs/b.yaml"]
    assert [(d.code, d.position.file, d.message) for d in tree.problems] == [
        ("GP120", "jobs/a.yaml", "cannot be read: Permission denied")
    ]


def test_a_file_name_with_control_characters_is_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a\x1b[31m.yaml").write_bytes(OBJECT)
    (tmp_path / "jobs" / "b.yaml").write_bytes(OBJECT)
    tree = Repository.from_directory(tmp_path)
    assert list(tree.files) == ["jobs/b.yaml"]
    assert [(d.code, d.position.file) for d in tree.problems] == [("GP122", "jobs/a\\x1b[31m.yaml")]
    assert [d.code for d in read_specs(Repository({"jobs/a\n.yaml": OBJECT})).diagnostics] == ["GP355", "GP122"]


def test_a_folder_that_does_not_exist_is_an_empty_repository(tmp_path: Path) -> None:
    assert [d.code for d in read_specs(Repository.from_directory(tmp_path / "nowhere")).diagnostics] == ["GP124"]


def test_a_cluster_is_chosen_by_its_folder_or_its_name() -> None:
    cluster = b"apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: NAME}\nspec: {binding: static}\n"
    tree = Repository(
        {
            f"cluster-specs/{folder}/c.yaml": cluster.replace(b"NAME", name)
            for folder, name in (("east", b"alpha"), ("west", b"beta"))
        }
    )
    assert read_specs(tree, "east").cluster.name == "alpha"
    assert read_specs(tree, "beta").cluster.name == "beta"
    wrong = read_specs(tree, "bet")
    assert [(d.code, d.help) for d in wrong.diagnostics] == [("GP126", "did you mean 'beta'?")]
    assert wrong.documents == ()


def test_an_undeclared_cluster_has_the_name_of_its_folder() -> None:
    specs = read_specs(Repository({"cluster-specs/north/a.yaml": OBJECT}))
    assert (specs.cluster.name, specs.cluster.binding, specs.cluster.document.name) == ("north", "gated", "north")
    assert [document.kind for document in specs.documents] == ["ConfigMap"]
