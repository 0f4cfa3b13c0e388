"""Git is read as what it is: input from strangers; commits are taken by whose key they are signed, where told so."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from git import Repo

from compiler.repository.tree import MAX_FILE_BYTES
from reconciler.git.git_objects import COMMIT_LIMIT, TREE_LIMIT, files_below
from reconciler.git.history import work_tree_dates
from reconciler.git.mirror import HEAD_REF, INCOMING_REF, Mirror, Unfinished, UnsafeError, Untrusted
from reconciler.git.process import GitError, TooLarge, TooSlow, redact
from reconciler.timings import GitTimings
from tests.builders.git_source import Source
from tests.builders.processes import ends


@pytest.fixture
def mirror(source: Source, tmp_path: Path) -> Mirror:
    return Mirror(str(source.folder), "main", tmp_path / "mirror.git")


ADDRESS = "https://example.com/repo"
UNSAFE_ADDRESSES = (
    *("ext::sh -c id", "file:///etc", "git://example.com/x", "--upload-pack=id", "http://example.com/x"),
    *("https://example.com/a b", "nowhere", "ssh://"),
)


@pytest.mark.parametrize(
    ("address", "branch", "faults"),
    [
        *((address, "main", ()) for address in UNSAFE_ADDRESSES),
        *((ADDRESS, branch, ()) for branch in ("-u", "a..b", "a b", "x.lock", "a@{1}", "", "a:b", "end/")),
        (ADDRESS, "main", ("x=y",)),
    ],
)
def test_what_could_do_more_than_fetch_is_never_given_to_git(
    address: str, branch: str, faults: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(UnsafeError):
        Mirror(address, branch, tmp_path, ignored_faults=faults)


def test_a_folder_that_was_there_once_is_a_failed_fetch_and_no_wrong_address(source: Source, tmp_path: Path) -> None:
    """A mount that comes late kept the process from starting, and drift from being put back."""
    clone, away = tmp_path / "mirror.git", tmp_path / "away"
    source.folder.rename(away)
    with pytest.raises(UnsafeError):
        Mirror(str(source.folder), "main", clone)
    away.rename(source.folder)
    source.commit(a="kind: Queue\n")
    Mirror(str(source.folder), "main", clone).fetch()
    source.folder.rename(away)
    mirror = Mirror(str(source.folder), "main", clone)
    with pytest.raises(GitError):
        mirror.fetch()
    away.rename(source.folder)
    assert mirror.fetch()


def test_https_and_ssh_are_spoken(tmp_path: Path) -> None:
    for address in (ADDRESS, "ssh://git@example.com/repo", "git@example.com:team/repo.git"):
        assert not Mirror(address, "release/1.2", tmp_path).is_local


@pytest.mark.parametrize("password", ["secret", "p@ss", "p/w", "p@s/s:@x"])
def test_credentials_never_reach_a_message(password: str) -> None:
    text = f"cannot reach 'https://user:{password}@example.com/repo': no route"
    assert redact(text) == "cannot reach 'https://example.com/repo': no route"


@pytest.mark.parametrize(
    "address",
    [
        "https://user:secret@example.com/repo",
        "https://secret@example.com/repo",
        "https://user:se/cr@et@example.com/repo",
        "ssh://git:secret@example.com/repo",
    ],
)
def test_an_address_with_credentials_is_refused_and_not_repeated(address: str, tmp_path: Path) -> None:
    """Seen once: a token in the address was in every argument list."""
    with pytest.raises(UnsafeError, match="--git-auth") as refusal:
        Mirror(address, "main", tmp_path)
    assert "secret" not in str(refusal.value)
    assert "se/cr" not in str(refusal.value)


def test_files_come_from_the_object_database_with_the_date_that_brought_them(source: Source, mirror: Mirror) -> None:
    source.commit(1_700_000_100, a="first\n")
    commit = source.commit(1_700_000_200, a="second\n", b="new\n")
    assert mirror.fetch() == commit
    tree = mirror.read_tree(commit)
    assert tree.files == {"jobs/a.yaml": b"second\n", "jobs/b.yaml": b"new\n"}
    assert tree.commit_dates == {"jobs/a.yaml": 1_700_000_100, "jobs/b.yaml": 1_700_000_200}
    assert not (mirror.directory / "jobs").exists(), "nothing is checked out"
    assert work_tree_dates(source.folder) == tree.commit_dates


def test_symbolic_links_and_submodules_are_refused_by_name(source: Source, mirror: Mirror) -> None:
    source.commit(a="fine\n")
    (source.folder / "jobs" / "leak.yaml").symlink_to("/etc/passwd")
    other = source.commit()
    source.git("update-index", "--add", "--cacheinfo", f"160000,{other},jobs/module")
    source.git("commit", "--quiet", "-m", "submodule")
    mirror.fetch()
    tree = mirror.read_tree(source.git("rev-parse", "HEAD"))
    assert set(tree.files) == {"jobs/a.yaml"}
    problems = [(problem.code, problem.position.file) for problem in tree.problems]
    assert problems == [("GP119", "jobs/leak.yaml"), ("GP130", "jobs/module")]


@pytest.mark.parametrize("name", ["two\nlines", "no utf-8 \udcff"])
def test_a_name_that_is_no_plain_text_is_refused_and_shown_escaped(name: str, source: Source, mirror: Mirror) -> None:
    odd: Any = {name: "x\n"}
    source.commit(**odd)
    tree = mirror.read_tree(mirror.fetch())
    assert tree.files == {}
    (problem,) = tree.problems
    assert problem.code == "GP122"
    assert problem.position.file.isprintable()


def test_what_is_empty_is_no_error(source: Source, mirror: Mirror, tmp_path: Path) -> None:
    assert work_tree_dates(tmp_path) == {}, "it has no history"
    assert mirror.read_tree(source.commit() and mirror.fetch()).files == {}
    source.commit(a="", b="")
    assert mirror.read_tree(mirror.fetch()).files == {"jobs/a.yaml": b"", "jobs/b.yaml": b""}


def test_hooks_and_configuration_of_the_repository_do_nothing(source: Source, mirror: Mirror, tmp_path: Path) -> None:
    source.commit(a="x\n")
    mirror.fetch()
    trap = tmp_path / "trap"
    hook = mirror.directory / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
    hook.chmod(0o755)
    source.commit(a="y\n")
    mirror.fetch()
    assert not trap.exists()


def test_ancestry_tells_a_rewritten_history(source: Source, mirror: Mirror) -> None:
    """Seen once: a commit in the inventory that somebody wrote into by hand paused everything without a way out."""
    first = source.commit(a="1\n")
    second = source.commit(a="2\n")
    mirror.fetch()
    assert mirror.is_ancestor(first, second)
    assert mirror.is_ancestor(second, second)
    assert not mirror.is_ancestor(second, first)
    source.git("reset", "--quiet", "--hard", first)
    third = source.commit(a="3\n")
    assert mirror.fetch() == third
    assert not mirror.is_ancestor(second, third)
    assert not mirror.is_ancestor("0" * 40, third), "what is not known here is no ancestor"
    assert not mirror.is_ancestor("by hand", third), "an annotation may allow what follows it"


def test_locks_that_a_killed_git_left_are_no_obstacle(source: Source, mirror: Mirror) -> None:
    source.commit(a="1\n")
    mirror.fetch()
    for lock in ("shallow.lock", "packed-refs.lock", "refs/gangplan/head.lock"):
        (mirror.directory / lock).write_text("")
    commit = source.commit(a="2\n")
    assert mirror.fetch() == commit


def test_no_process_outlives_a_read(source: Source, mirror: Mirror) -> None:
    commit = source.commit(a="1\n")
    mirror.fetch()
    mirror.read_tree(commit)
    assert mirror.is_ancestor(commit, source.commit(a="2\n")) is False, "the clone does not know the new commit yet"
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    names = [Path(f"/proc/{child}/comm").read_text().strip() for child in children]
    assert "git" not in names


def test_variables_that_steer_git_are_not_passed_on(
    source: Source, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook, where git sets GIT_DIR."""
    commit = source.commit(a="1\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "broken")
    assert mirror.fetch() == commit
    assert mirror.read_tree(commit).files == {"jobs/a.yaml": b"1\n"}
    assert set(work_tree_dates(source.folder)) == {"jobs/a.yaml"}


@pytest.mark.parametrize("command", ["fetch", "cat-file", "log"])
def test_a_git_that_hangs_is_killed_with_its_children(
    command: str, source: Source, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The children hold git's pipes open, and a time limit that kills git alone would wait for them."""
    commit = source.commit(a="1\n")
    if command != "fetch":
        mirror.fetch()
    marker = tmp_path / "pid"
    script = f'case " $* " in *" {command} "*) sleep 120 & echo $! >{marker}; wait ;; esac'
    fake_git(tmp_path, script, monkeypatch)
    mirror.timeout = 2.0
    began_at = time.monotonic()
    with pytest.raises(GitError, match="did not end within 2 s"):
        mirror.read_tree(mirror.fetch() if command == "fetch" else commit)
    assert time.monotonic() - began_at < 60
    assert ends(int(marker.read_text()))


def test_folders_that_share_their_contents_cannot_name_more_files_than_the_limit(source: Source) -> None:
    """Forty folders in one another, each holding the next twice, name 2^40 files."""
    blob = source.git("hash-object", "-w", "--stdin")
    tree = source.make_tree(f"100644 blob {blob}\ta.yaml")
    for _ in range(40):
        tree = source.make_tree(f"040000 tree {tree}\tx", f"040000 tree {tree}\ty")
    root = source.make_tree(f"040000 tree {tree}\tjobs")
    bomb = source.git("commit-tree", "-m", "bomb", root)
    with pytest.raises(GitError, match="more than 1000 files"):
        list(files_below(Repo(source.folder).commit(bomb).tree, ["jobs"], limit=1000))


def test_whatever_the_parser_makes_of_an_object_is_an_error_of_git(
    source: Source, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other exception would end the thread that fetches."""

    def stumble(*_: object) -> None:
        raise RecursionError("too deep")

    commit = source.commit(a="1\n")
    mirror.fetch()
    monkeypatch.setattr("git.objects.tree.tree_entries_from_data", stumble)
    with pytest.raises(GitError, match="too deep"):
        mirror.read_tree(commit)


@pytest.mark.parametrize(
    ("files", "message", "error"),
    [(1, "x" * COMMIT_LIMIT, "commit .* has"), (TREE_LIMIT // 4000, "change", "folder / has")],
    ids=["commit", "folder"],
)
def test_an_object_above_its_limit_is_never_loaded(
    files: int, message: str, error: str, source: Source, mirror: Mirror
) -> None:
    blob = source.git("hash-object", "-w", "--stdin")
    root = source.make_tree(*(f"100644 blob {blob}\t{number:04000}" for number in range(files)))
    (source.folder / "message").write_text(message)
    source.git("update-ref", "refs/heads/main", source.git("commit-tree", "-F", "message", root))
    with pytest.raises(GitError, match=error):
        mirror.read_tree(mirror.fetch())


@pytest.mark.parametrize("decoy", ["heads/a/refs/heads/main", "heads/refs/heads/main", "heads/0/main", "tags/main"])
def test_a_branch_whose_name_ends_like_ours_is_not_ours(decoy: str, source: Source, mirror: Mirror) -> None:
    """Seen once: a branch whose name ends like ours froze it."""
    old = source.commit(a="1\n")
    mirror.fetch()
    source.git("update-ref", f"refs/{decoy}", old)
    new = source.commit(a="2\n")
    assert mirror.fetch() == new


@pytest.mark.parametrize("can_filter", ["true", "false"])
def test_a_large_file_is_never_loaded_and_not_even_fetched_where_the_server_can_filter(
    can_filter: str, source: Source, mirror: Mirror
) -> None:
    source.git("config", "uploadpack.allowFilter", can_filter)
    source.commit(big="x" * (MAX_FILE_BYTES + 100), small="y\n")
    large = source.git("rev-parse", "HEAD:jobs/big.yaml")
    for _ in range(2):
        commit = mirror.fetch()
        files = mirror.read_tree(commit).files
        assert files["jobs/big.yaml"] == b" " * (MAX_FILE_BYTES + 1), "one byte above the limit, and none of its own"
        assert files["jobs/small.yaml"] == b"y\n"
        objects = mirror._local_git().cat_file("--batch-all-objects", "--batch-check=%(objectname)")
        assert (large in objects) == (can_filter == "false")
        assert mirror.is_ancestor(commit, commit)
        source.commit(other="z\n")


def test_a_fetch_that_brings_too_much_is_stopped(source: Source, mirror: Mirror) -> None:
    """Also in steps; and the commit in force stays, with nothing left behind on disk."""
    commit = source.commit(a="1\n")
    mirror.size_limit = 1 << 20
    assert mirror.fetch() == commit
    noise: Any = {f"noise{i}": os.urandom(300_000).hex() for i in range(8)}
    source.commit(**noise)
    for _ in range(2):
        with pytest.raises(TooLarge, match="more than 1 MiB"):
            mirror.fetch()
    assert mirror._local_git().for_each_ref("--format=%(objectname)", HEAD_REF) == commit
    mirror._prepare_clone()
    left = [path for path in mirror.directory.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) < 1 << 20


def fake_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a git before the real one that runs `script` first."""
    real, fake = shutil.which("git"), folder / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")


def test_a_first_clone_that_does_not_come_whole_comes_in_steps_that_are_kept(
    source: Source, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole takes too long, and the step of the first try that would bring the rest of the history as well."""
    first = source.commit(1_700_000_100, a="0\n")
    for number in range(5):
        last = source.commit(1_700_000_200 + number, **{f"b{number}": "1\n"})
    log, hang = tmp_path / "log", tmp_path / "hang"
    hang.write_text("")
    script = (
        f'case " $* " in *" fetch "*) echo "$*" >>{log};; esac\n'
        'case " $* " in *" --depth="*) ;; *" --deepen=2 "*) ;;\n'
        f'*" fetch "*) if [ -e {hang} ]; then exec sleep 60; fi;; esac'
    )
    fake_git(tmp_path, script, monkeypatch)
    mirror.timeout, mirror._deepening = 4.0, 2
    with pytest.raises((TooSlow, Unfinished)):
        mirror.fetch()
    assert int(mirror._local_git().rev_list("--count", INCOMING_REF)) > 1, "what came is kept"
    mirror.timeout = 30.0
    hang.unlink()
    later = Mirror(mirror.url, "main", mirror.directory, timeout=30.0)
    assert later.fetch() == last
    assert not (mirror.directory / "shallow").exists()
    assert later.is_ancestor(first, last)
    assert later.read_tree(last).commit_dates["jobs/a.yaml"] == 1_700_000_100
    fetches = log.read_text().splitlines()
    assert sum("--depth=1" in line for line in fetches) == 1, "the second process goes on where the first ended"


def test_a_damaged_clone_is_made_anew(source: Source, mirror: Mirror) -> None:
    source.commit(a="1\n")
    mirror.fetch()
    commit = source.commit(a="2\n")
    for pack in mirror.directory.glob("objects/pack/*.pack"):
        pack.chmod(0o644)
        pack.write_bytes(b"PACK" + pack.read_bytes()[4:12] + b"broken")
    for _ in range(3):
        with contextlib.suppress(GitError):
            mirror.fetch()
    assert mirror.read_tree(commit).files == {"jobs/a.yaml": b"2\n"}


@pytest.mark.parametrize("parts", ["HEAD", "refs/gangplan/head", "refs/gangplan/incoming", "objects/pack/*", "*"])
@pytest.mark.parametrize("is_new_process", [True, False])
def test_a_clone_that_a_crash_emptied_is_recreated(
    source: Source, mirror: Mirror, parts: str, is_new_process: bool
) -> None:
    """Seen once: "fatal: not a git repository" for ever, after the power failed. Only deleting the folder helped."""
    source.commit(a="1\n")
    mirror.read_tree(mirror.fetch())
    for path in [path for path in mirror.directory.glob(f"**/{parts}") if path.is_file()]:
        path.chmod(0o644)
        path.write_bytes(b"")
    later = Mirror(mirror.url, "main", mirror.directory) if is_new_process else mirror
    commit = source.git("rev-parse", "main") if is_new_process else source.commit(a="2\n")
    for _ in range(2):
        with contextlib.suppress(GitError):
            later.read_tree(later.fetch())
    assert later.fetch() == commit
    assert later.read_tree(commit).files == {"jobs/a.yaml": b"1\n" if is_new_process else b"2\n"}
    assert (later.directory / "refs/gangplan/head").read_text().strip() == commit


def test_a_clone_that_is_whole_outlives_a_remote_that_fails(source: Source, mirror: Mirror) -> None:
    source.commit(a="1\n")
    mirror.fetch()
    source.git("branch", "--move", "main", "other")
    with pytest.raises(GitError, match="has no branch main"):
        mirror.fetch()
    assert (mirror.directory / "refs/gangplan/head").is_file()


def test_packs_are_joined_when_there_are_many(source: Source, tmp_path: Path) -> None:
    mirror = Mirror(str(source.folder), "main", tmp_path / "mirror.git", timings=GitTimings(packs=2))
    for number in range(4):
        commit = source.commit(a=f"{number}\n")
        mirror.fetch()
    assert len(list(mirror.directory.glob("objects/pack/*.pack"))) <= 2
    assert mirror.read_tree(commit).files == {"jobs/a.yaml": b"3\n"}


def test_a_fault_of_an_old_history_is_refused_with_the_way_out(source: Source, mirror: Mirror) -> None:
    """A time zone that no clock has, as some converters of the past wrote it."""
    source.commit(a="1\n")
    tree = source.git("rev-parse", "HEAD^{tree}")
    text = f"tree {tree}\nauthor A <a@b.c> 1700000000 +051800\ncommitter A <a@b.c> 1700000000 +051800\n\nold\n"
    (source.folder / "old").write_text(text)
    commit = source.git("hash-object", "--literally", "-t", "commit", "-w", "old")
    source.git("update-ref", "refs/heads/main", commit)
    with pytest.raises(GitError, match="--git-ignore-fault badTimezone"):
        mirror.fetch()
    mirror.ignored_faults = ("badTimezone",)
    assert mirror.fetch() == commit


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    return folder


@pytest.fixture
def signed(source: Source, keys: Path, tmp_path: Path) -> Mirror:
    return Mirror(str(source.folder), "main", tmp_path / "mirror.git", trusted_keys=keys)


def sign_with_ssh(source: Source, key: Path) -> str:
    """Make a key, and sign what is committed from now on with it; its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(key)), ("commit.gpgSign", "true")):
        source.git("config", name, value)
    return key.with_suffix(".pub").read_text()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_commit_signed_with_a_trusted_ssh_key_is_taken_and_no_other(
    source: Source, keys: Path, signed: Mirror, tmp_path: Path
) -> None:
    public = sign_with_ssh(source, tmp_path / "key")
    (keys / "allowed_signers").write_text(f"tester@example.com {public}")
    good = source.commit(a="1\n")
    assert signed.fetch() == good
    sign_with_ssh(source, tmp_path / "strange")
    strange = source.commit(a="2\n")
    for _ in range(2):
        with pytest.raises(Untrusted, match=f"commit {strange} has no signature by a trusted key"):
            signed.fetch()
    source.git("config", "commit.gpgSign", "false")
    source.commit(a="3\n")
    with pytest.raises(Untrusted):
        signed.fetch()
    assert set(signed.read_tree(good).files) == {"jobs/a.yaml"}, "the last good commit stays"


@pytest.mark.skipif(shutil.which("gpg") is None, reason="needs gpg")
def test_a_commit_signed_with_a_trusted_openpgp_key_is_taken_and_no_other(
    source: Source, keys: Path, signed: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    source.git("config", "commit.gpgSign", "true")
    for name in ("good", "strange"):
        recipe = ("--batch", "--quiet", "--passphrase", "", "--quick-gen-key", f"{name}@example.com", "ed25519", "sign")
        subprocess.run(["gpg", *recipe], check=True, capture_output=True)
    try:
        source.git("config", "user.signingKey", "good@example.com")
        exported = subprocess.run(["gpg", "--export", "--armor", "good@example.com"], check=True, capture_output=True)
        (keys / "good.asc").write_bytes(exported.stdout)
        commit = source.commit(a="1\n")
        assert signed.fetch() == commit
        source.git("config", "user.signingKey", "strange@example.com")
        source.commit(a="2\n")
        with pytest.raises(Untrusted):
            signed.fetch()
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], check=False, env={**os.environ, "GNUPGHOME": str(home)})


@pytest.mark.skipif(shutil.which("gpg") is None, reason="needs gpg")
def test_keys_that_cannot_be_read_are_said(source: Source, keys: Path, signed: Mirror) -> None:
    source.commit(a="1\n")
    (keys / "broken.asc").write_text("no key")
    with pytest.raises(GitError, match="cannot be read"):
        signed.fetch()
