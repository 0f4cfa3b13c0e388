"""The cache of parsed files: the same words with and without it, and no harm from a bad pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cli import parse_cache
from compiler.cli.check import repository_diagnostics
from compiler.cli.parse_cache import ParseCache
from compiler.repository import Repository
from compiler.syntax.parse import Adopt, ParsedFile, parse_file

FILES = {
    "cluster-specs/c/pool.yaml": b"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {name: p}\n"
    b"spec: {count: 1, capacity: {cpu: 8}}\n",
    "jobs/a.yaml": b"a: 1\na: 2\n",
    "jobs/b.yaml": b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n---\n[\n",
}


@pytest.fixture
def parsed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every file that is really parsed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("GANGPLAN_NO_CACHE", raising=False)
    found: list[str] = []

    def counted(file: str, content: bytes, adopt: Adopt) -> ParsedFile:
        found.append(file)
        return parse_file(file, content, adopt)

    monkeypatch.setattr(parse_cache, "parse_file", counted)
    return found


def test_only_what_changed_is_parsed_again_and_the_words_stay_the_same(parsed_files: list[str]) -> None:
    plain = repository_diagnostics(Repository(FILES), None)
    root = Path("/repository")
    assert repository_diagnostics(Repository(FILES), None, root) == plain
    assert sorted(parsed_files) == sorted(FILES)
    parsed_files.clear()
    assert repository_diagnostics(Repository(FILES), None, root) == plain
    assert parsed_files == []
    changed = {**FILES, "jobs/a.yaml": b"a: 1\n"}
    assert repository_diagnostics(Repository(changed), None, root) == repository_diagnostics(Repository(changed), None)
    assert parsed_files == ["jobs/a.yaml"]


def test_a_broken_pack_and_one_of_other_code_are_not_read(parsed_files: list[str]) -> None:
    root = Path("/repository")
    repository_diagnostics(Repository(FILES), None, root)
    cache = ParseCache(root)
    assert cache.known.keys()
    content = cache.path.read_bytes()
    for broken in (b"", content[:40], content[:-1] + b"x", b"\0" * 200):
        cache.path.write_bytes(broken)
        assert ParseCache(root).known == {}
    cache.path.write_bytes(content)
    cache.code = b"other"
    assert cache._load() == {}


def test_a_variable_switches_it_off(parsed_files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GANGPLAN_NO_CACHE", "1")
    repository_diagnostics(Repository(FILES), None, Path("/repository"))
    assert not list(tmp_path.rglob("*.pack"))
