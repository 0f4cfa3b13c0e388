"""Commits are taken by whose key they are signed, where the operator says so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reconciler.git.mirror import Mirror, Untrusted
from reconciler.git.process import GitError
from tests.builders.git_source import Source


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    folder.mkdir()
    return folder


@pytest.fixture
def mirror(source: Source, keys: Path, tmp_path: Path) -> Mirror:
    return Mirror(str(source.folder), "main", tmp_path / "mirror.git", trusted_keys=keys)


def sign_with_ssh(source: Source, key: Path) -> str:
    """Make a key, and sign what is committed from now on with it; its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    for name, value in (("gpg.format", "ssh"), ("user.signingKey", str(key)), ("commit.gpgSign", "true")):
        source.git("config", name, value)
    return key.with_suffix(".pub").read_text()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_commit_signed_with_a_trusted_ssh_key_is_taken_and_no_other(
    source: Source, keys: Path, mirror: Mirror, tmp_path: Path
) -> None:
    public = sign_with_ssh(source, tmp_path / "key")
    (keys / "allowed_signers").write_text(f"tester@example.com {public}")
    good = source.commit(a="1\n")
    assert mirror.fetch() == good
    sign_with_ssh(source, tmp_path / "strange")
    strange = source.commit(a="2\n")
    for _ in range(2):
        with pytest.raises(Untrusted, match=f"commit {strange} has no signature by a trusted key"):
            mirror.fetch()
    source.git("config", "commit.gpgSign", "false")
    source.commit(a="3\n")
    with pytest.raises(Untrusted):
        mirror.fetch()
    assert set(mirror.read_tree(good).files) == {"jobs/a.yaml"}, "the last good commit stays"


@pytest.mark.skipif(shutil.which("gpg") is None, reason="needs gpg")
def test_a_commit_signed_with_a_trusted_openpgp_key_is_taken_and_no_other(
    source: Source, keys: Path, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
        assert mirror.fetch() == commit
        source.git("config", "user.signingKey", "strange@example.com")
        source.commit(a="2\n")
        with pytest.raises(Untrusted):
            mirror.fetch()
    finally:
        subprocess.run(["gpgconf", "--kill", "all"], check=False, env={**os.environ, "GNUPGHOME": str(home)})


@pytest.mark.skipif(shutil.which("gpg") is None, reason="needs gpg")
def test_keys_that_cannot_be_read_are_said(source: Source, keys: Path, mirror: Mirror) -> None:
    source.commit(a="1\n")
    (keys / "broken.asc").write_text("no key")
    with pytest.raises(GitError, match="cannot be read"):
        mirror.fetch()
