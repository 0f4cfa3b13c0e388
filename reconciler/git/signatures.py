"""Who signed a commit: ssh and OpenPGP signatures, against keys that the operator trusts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from reconciler.git.process import GitError, git_command, local_environment, redact, run_git

ALLOWED_SIGNERS = "allowed_signers"
"""The file of ssh keys, as ssh-keygen(1) has it; OpenPGP keys are in files beside it that end in .asc or .gpg."""
_KEY_SUFFIXES = (".asc", ".gpg")


class Untrusted(GitError):
    """A commit without a signature by a trusted key."""


def check_signature(clone: Path, commit: str, trusted_keys: Path, timeout: float) -> None:
    """Raise Untrusted unless `commit` is signed by a key of the folder `trusted_keys`."""
    with tempfile.TemporaryDirectory(prefix="gangplan-keys-") as home:
        environment = {**local_environment(), "GIT_DIR": ".", "GNUPGHOME": home}
        keys = sorted(path for path in trusted_keys.iterdir() if path.suffix in _KEY_SUFFIXES)
        if keys:
            command = ("gpg", "--batch", "--quiet", "--no-autostart", "--import", *map(str, keys))
            code, _, errors = run_git(clone, command, environment, timeout)
            if code != 0:
                raise GitError(f"the keys in {trusted_keys} cannot be read: {_last_line(errors)}")
        signers = f"gpg.ssh.allowedSignersFile={trusted_keys / ALLOWED_SIGNERS}"
        command_line = git_command("-c", signers, "verify-commit", "--end-of-options", commit)
        code, _, errors = run_git(clone, command_line, environment, timeout)
    if code != 0:
        raise Untrusted(f"commit {commit} has no signature by a trusted key: {_last_line(errors) or 'none at all'}")


def _last_line(errors: bytes) -> str:
    return redact(errors.decode("utf-8", "replace")).strip().rpartition("\n")[2][:300]
