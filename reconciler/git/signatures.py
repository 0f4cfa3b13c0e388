"""Who signed a commit: ssh and OpenPGP signatures, against keys that the operator trusts."""

from __future__ import annotations

import tempfile
from pathlib import Path

from reconciler.git.process import BARE, CommandFailed, GitError, local_environment, read_git, run_git

ALLOWED_SIGNERS = "allowed_signers"
"""The file of ssh keys, as ssh-keygen(1) has it; OpenPGP keys are in files beside it that end in .asc or .gpg."""


class Untrusted(GitError):
    """A commit without a signature by a trusted key."""


def check_signature(clone: Path, commit: str, trusted_keys: Path, timeout: float) -> None:
    """Raise Untrusted unless `commit` is signed by a key of the folder `trusted_keys`."""
    with tempfile.TemporaryDirectory(prefix="gangplan-keys-") as home:
        more = {**BARE, "GNUPGHOME": home}
        if keys := sorted(path for path in trusted_keys.iterdir() if path.suffix in (".asc", ".gpg")):
            command = ("gpg", "--batch", "--quiet", "--no-autostart", "--import", *map(str, keys))
            try:
                run_git(clone, command, {**local_environment(), **more}, timeout)
            except CommandFailed as error:
                raise GitError(f"the keys in {trusted_keys} cannot be read: {_last_line(error)}") from error
        signers = f"gpg.ssh.allowedSignersFile={trusted_keys / ALLOWED_SIGNERS}"
        try:
            read_git(clone, "-c", signers, "verify-commit", "--end-of-options", commit, timeout=timeout, more=more)
        except CommandFailed as error:
            reason = _last_line(error) or "none at all"
            raise Untrusted(f"commit {commit} has no signature by a trusted key: {reason}") from error


def _last_line(error: CommandFailed) -> str:
    return error.said.rpartition("; ")[2][:300]
