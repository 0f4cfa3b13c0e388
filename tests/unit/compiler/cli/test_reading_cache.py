"""The cache of parsed files: the same words with and without it, and no harm from a bad pack."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from bench.worlds import generate_repository
from compiler.cli import check, entries, forks
from compiler.cli.check import repository_diagnostics
from compiler.cli.reading_cache import ReadingCache
from compiler.cli.root import cli
from compiler.diagnostics.diagnostic import RULES
from compiler.kinds.kind import Kind
from compiler.reading import one_document, read_specs, shape
from compiler.repository.tree import Repository
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


def test_no_check_asks_for_the_text_of_a_job_that_did_not_change(parsed_files: list[str]) -> None:
    files, root = dict(generate_repository(nodes=8, gangs=4, load=0.5).files), Path("/repository")
    repository_diagnostics(Repository(files), None, root)
    parsed_files.clear()
    (changed, *others) = sorted(file for file in files if file.startswith("jobs/"))
    files[changed] += b"# changed\n"
    repository_diagnostics(Repository(files), None, root)
    assert changed in parsed_files
    assert not {*others} & {*parsed_files}


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
    cache = ReadingCache(root)
    assert cache.known.keys()
    assert cache.path is not None
    content = cache.path.read_bytes()
    for broken in (b"", content[:40], content[:-1] + bytes([content[-1] ^ 1]), b"\0" * 200):
        cache.path.write_bytes(broken)
        assert ReadingCache(root).known == {}
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


def test_what_was_read_is_not_judged_again_and_is_told_again(
    parsed_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def counted(document: Document, kind: Kind | None) -> shape.Flaws:
        judged.append(document.name)
        return shape.document_flaws(document, kind)

    monkeypatch.setattr(one_document, "document_flaws", counted)
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
        assert told == (["p", "b0", "refused", "sound"] if run == 0 else [f"b{run}"])


QUEUE = b"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: q}\nspec: {weight: 1}\n"
RAY = b"apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: r, annotations: {gangplan.dev/cluster: d}}\nspec: {}\n"
WIDE = (
    b"apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: c}\n"
    b"spec: {jobKinds: [{kind: X, apiVersion: x.io/v1, templates: [{path: spec.template}]}]}\n"
)
SERVICE = b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: s}\n"
SERVICE += b"spec: {template: {spec: {containers: [{name: m, image: i}]}}}\n"
STRANGER = b"apiVersion: x.io/v1\nkind: X\nmetadata: {name: x}\nspec: {template: {spec: {containers: [{name: m}]}}}\n"
VERSIONS: dict[str, list[bytes | None]] = {
    "cluster-specs/c/q.yaml": [QUEUE, None, QUEUE.replace(b"1}", b"-1}")],
    "cluster-specs/c/c.yaml": [None, WIDE],
    "cluster-specs/d/c.yaml": [None, WIDE.replace(b"{name: c}", b"{name: d}").replace(b"jobKinds", b"jobs: [], x")],
    "jobs/v.yaml": [JOB.replace(b"spec: {", b"spec: {queue: q, "), JOB.replace(b"tasks", b"minAvailable: 3, tasks")],
    "jobs/x.yaml": [STRANGER, STRANGER + b"---\n" + RAY],
    "jobs/s.yaml": [SERVICE, None, SERVICE + b"---\n" + JOB],
    "jobs/g.yaml": [JOB.replace(b"{name: NAME}", b"{generateName: g-}")],
}
"""File -> what it may hold, so that findings of one hang on what others hold."""


def test_every_change_of_one_file_is_told_as_without_a_cache(parsed_files: list[str]) -> None:
    rng, root, files = Random(1), Path("/repository"), dict(FILES)  # noqa: S311  # the same draws each time
    for _ in range(40):
        file = rng.choice(sorted(VERSIONS))
        if (content := rng.choice(VERSIONS[file])) is None:
            files.pop(file, None)
        else:
            files[file] = content
        cached, plain = (repository_diagnostics(Repository(dict(files)), None, each) for each in (root, None))
        assert cached == plain


def test_files_read_by_several_processes_are_told_as_by_one(
    parsed_files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"jobs/{n}.yaml": JOB.replace(b"NAME", b"%d" % n).replace(b"IMAGE", b"i" * (n % 3)) for n in range(120)}
    plain = repository_diagnostics(Repository(files), None)
    assert len(files) >= forks.LEAST_ITEMS
    assert repository_diagnostics(Repository(files), None) == plain
    whole = {**files, **FILES}
    specs = repr(read_specs(Repository(whole)))
    cache = ReadingCache(None)
    assert repr(read_specs(Repository(whole), None, cache.parse, cache.read_ahead)) == specs
    monkeypatch.setattr(entries, "file_entry", None)  # every child fails
    assert repository_diagnostics(Repository(files), None) == plain
    cache = ReadingCache(None)
    assert repr(read_specs(Repository(whole), None, cache.parse, cache.read_ahead)) == specs


def test_nothing_is_read_where_nothing_changed(parsed_files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path("/repository")
    found = repository_diagnostics(Repository(FILES), None, root)
    monkeypatch.setattr(check, "_read_diagnostics", None)
    assert repository_diagnostics(Repository(FILES), None, root) == found
    with pytest.raises(TypeError):
        repository_diagnostics(Repository(FILES), "c", root)
    with pytest.raises(TypeError):
        repository_diagnostics(Repository({**FILES, "jobs/a.yaml": b"a: 1\n"}), None, root)


def plan(root: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `gangplan plan`."""
    done = CliRunner().invoke(cli, ["plan", "-o", "json", "--executor", "local", "--repo", str(root)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository with a waiting job and a finding."""
    root = tmp_path / "repository"
    files = {**generate_repository(nodes=2, gangs=3, load=3.0).files, "jobs/x.yaml": JOB.replace(b"NAME", b"x")}
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def test_a_plan_reads_only_what_changed_and_says_the_same(
    parsed_files: list[str], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = plan(repository)
    assert "jobs/job-0000.yaml" in parsed_files
    assert plan(repository) == plain
    parsed_files.clear()
    assert plan(repository) == plain
    assert parsed_files == []  # nor those of which it was seen to want the text
    (repository / "jobs/x.yaml").write_bytes(JOB.replace(b"NAME", b"y"))
    changed = plan(repository)
    assert set(parsed_files) == {"jobs/x.yaml"}
    monkeypatch.setenv("GANGPLAN_NO_CACHE", "1")
    assert plan(repository) == changed != plain


def test_a_plan_and_a_check_leave_each_other_what_they_know(parsed_files: list[str], repository: Path) -> None:
    tree = Repository.from_directory(repository)
    found = repository_diagnostics(tree, None, repository)
    parsed_files.clear()
    plan(repository)
    asked_for = set(parsed_files)
    assert asked_for < set(tree.files)
    parsed_files.clear()
    plan(repository)
    assert repository_diagnostics(tree, None, repository) == found
    assert parsed_files == []


def test_a_bad_pack_changes_no_plan(parsed_files: list[str], repository: Path) -> None:
    plain = plan(repository)
    path = ReadingCache(repository).path
    assert path is not None
    content = path.read_bytes()
    for broken in (b"", content[:40], content[:-1] + b"x", b"\0" * 200):
        path.write_bytes(broken)
        assert plan(repository) == plain
    path.unlink()
    path.mkdir()
    assert plan(repository) == plain
    assert [*path.parent.iterdir()] == [path]


def test_a_pack_that_a_full_disk_cuts_off_leaves_nothing(
    parsed_files: list[str], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = plan(repository)
    path, opened = ReadingCache(repository).path, tempfile.NamedTemporaryFile
    assert path is not None
    path.unlink()

    def full(_: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def on_full_disk(**options: Any) -> Any:
        file: Any = opened(**options)
        file.write = full
        return file

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", on_full_disk)
    assert plan(repository) == plain
    assert [*path.parent.iterdir()] == []


def test_a_user_without_a_home_or_with_one_that_cannot_be_written_has_no_pack(
    parsed_files: list[str], repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = plan(repository)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert plan(repository) == plain
    assert repository_diagnostics(Repository(FILES), None, repository)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert plan(repository) == plain


def test_what_was_read_for_one_cluster_stays_when_another_is_read(parsed_files: list[str]) -> None:
    root = Path("/repository")
    files = {**FILES, "cluster-specs/d/pool.yaml": FILES["cluster-specs/c/pool.yaml"]}
    repository_diagnostics(Repository(files), "c", root)
    repository_diagnostics(Repository(files), "d", root)
    assert "cluster-specs/d/pool.yaml" in parsed_files
    parsed_files.clear()
    files["jobs/a.yaml"] = b"a: 1\n"
    repository_diagnostics(Repository(files), "c", root)
    assert parsed_files == ["jobs/a.yaml"]
