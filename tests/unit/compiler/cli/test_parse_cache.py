"""The cache of parsed files: the same words with and without it, and no harm from a bad pack."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.cli import check
from compiler.cli.check import repository_diagnostics
from compiler.cli.parse_cache import ParseCache
from compiler.diagnostics import RULES
from compiler.reading import documents, shape
from compiler.repository import Repository
from compiler.syntax import parse
from compiler.syntax.documents import Document
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

    monkeypatch.setattr(parse, "parse_file", counted)
    return found


def test_only_what_changed_is_parsed_again_and_the_words_stay_the_same(parsed_files: list[str]) -> None:
    plain = repository_diagnostics(Repository(FILES), None)
    root = Path("/repository")
    parsed_files.clear()
    assert repository_diagnostics(Repository(FILES), None, root) == plain
    assert sorted(parsed_files) == sorted(FILES)
    parsed_files.clear()
    assert repository_diagnostics(Repository(FILES), None, root) == plain
    changed = {**FILES, "jobs/a.yaml": b"a: 1\n"}
    found = repository_diagnostics(Repository(changed), None, root)
    assert parsed_files == ["jobs/a.yaml"]
    assert found == repository_diagnostics(Repository(changed), None)


def test_a_run_that_tells_again_knows_the_rules_of_what_it_tells(
    parsed_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path("/repository")
    found = repository_diagnostics(Repository(FILES), None, root)
    rules = {one.code: RULES[one.code] for one in found}
    for code in rules:  # as in a process that has imported no check
        monkeypatch.delitem(RULES, code)
    assert repository_diagnostics(Repository(FILES), None, root) == found
    assert {code: RULES[code] for code in rules} == rules


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
    assert cache._load()[0] == {}


def test_a_variable_switches_it_off(parsed_files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GANGPLAN_NO_CACHE", "1")
    repository_diagnostics(Repository(FILES), None, Path("/repository"))
    assert not list(tmp_path.rglob("*.pack"))


JOB = b"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME}
spec: {tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: main, image: IMAGE}]}}}]}
"""


def test_what_the_api_server_takes_is_not_judged_again_and_what_it_refuses_is_told_again(
    parsed_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def counted(document: Document) -> shape.Flaws:
        judged.append(document.name)
        return shape.document_flaws(document)

    monkeypatch.setattr(documents, "document_flaws", counted)
    root = Path("/repository")
    sound, refused = JOB.replace(b"NAME", b"sound"), JOB.replace(b"NAME", b"refused").replace(b"IMAGE", b"")
    files = {**FILES, "jobs/s.yaml": sound, "jobs/r.yaml": refused}
    for run in range(3):
        files["jobs/b.yaml"] = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b%d}\n" % run
        judged.clear()
        with_cache = repository_diagnostics(Repository(files), None, root)
        told = list(judged)
        assert with_cache == repository_diagnostics(Repository(files), None)
        assert any(each.code == "GP203" and each.object == "Job refused" for each in with_cache)
        assert told == (["p", "b0", "refused", "sound"] if run == 0 else [f"b{run}", "refused"])


def test_nothing_is_read_where_nothing_changed(parsed_files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path("/repository")
    found = repository_diagnostics(Repository(FILES), None, root)
    monkeypatch.setattr(check, "_read_diagnostics", None)
    assert repository_diagnostics(Repository(FILES), None, root) == found
    with pytest.raises(TypeError):
        repository_diagnostics(Repository(FILES), "c", root)
    with pytest.raises(TypeError):
        repository_diagnostics(Repository({**FILES, "jobs/a.yaml": b"a: 1\n"}), None, root)
