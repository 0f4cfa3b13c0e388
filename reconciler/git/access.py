"""Access of git to remotes: its credentials and whom it trusts, from a mounted Secret, read again for each command.

The files may be those of Kubernetes' own types of Secret, or those of Flux, together in one folder:

    username, password       https; `password` alone is a token
    bearerToken              https; sent as `Authorization: Bearer`
    ca.crt                   https; the authority that signed the server's certificate
    tls.crt, tls.key         https; a client certificate
    ssh-privatekey, identity ssh; the key, under either name
    known_hosts              ssh; the server's keys

No secret is ever an argument of a process.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from reconciler.git.process import GitError, local_environment

_PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
_SSH_OPTIONS = (
    *("-F", "none"),
    *("-o", "BatchMode=yes"),
    *("-o", "StrictHostKeyChecking=yes"),
    *("-o", "UpdateHostKeys=no"),
    *("-o", "ConnectTimeout=20"),
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ServerAliveCountMax=3"),
)
_FAULT_PATTERN = re.compile(r"error: object [0-9a-f]{40}: ([A-Za-z]+): ")

_REDIRECTION = "redirects are not followed: give the repository's present address"

HINTS = (
    (
        "No user exists for uid",
        "ssh wants an entry for this user in /etc/passwd, as the image of deploy/Dockerfile has",
    ),
    ("Host key verification failed", "the server's key must be in known_hosts of the Secret given by --git-auth"),
    ("update url base from redirection", _REDIRECTION),
    *((f"returned error: {status}", _REDIRECTION) for status in (301, 302, 303, 307, 308)),
    ("Authentication failed", "the server does not take what the Secret given by --git-auth holds"),
    ("could not read Username", "a private repository needs --git-auth"),
    ("Permission denied (publickey", "the server takes no key of the Secret given by --git-auth"),
)
"""Pattern in git's message -> what to do."""


def network_environment(protocols: str, auth: Path | None) -> dict[str, str]:
    """Return the environment of a command that speaks to a remote. auth: the folder of the Secret. Raises GitError."""
    environment = {**local_environment(), "GIT_ALLOW_PROTOCOL": protocols}
    environment |= {name: os.environ[name] for name in _PROXY_VARIABLES if name in os.environ}
    known_hosts, identity = Path("/dev/null"), None
    if auth is not None:
        environment |= _https_environment(auth)
        known_hosts = auth / "known_hosts"
        identity = _first_file(auth, "ssh-privatekey", "identity")
    command = ["ssh", *_SSH_OPTIONS, "-o", f"UserKnownHostsFile={known_hosts}"]
    if identity is not None:
        command += ["-o", "IdentitiesOnly=yes", "-i", str(identity)]
    environment["GIT_SSH_COMMAND"] = shlex.join(command)
    return environment


def _https_environment(auth: Path) -> dict[str, str]:
    environment = {"GIT_ASKPASS": str(Path(__file__).with_name("askpass.sh")), "GANGPLAN_GIT_AUTH": str(auth)}
    files = {"GIT_SSL_CAINFO": "ca.crt", "GIT_SSL_CERT": "tls.crt", "GIT_SSL_KEY": "tls.key"}
    environment |= {name: str(auth / file) for name, file in files.items() if (auth / file).exists()}
    if (token := _first_file(auth, "bearerToken")) is not None:
        try:
            header = f"Authorization: Bearer {token.read_text().strip()}"
        except (OSError, ValueError) as error:
            raise GitError(f"{token} cannot be read: {type(error).__name__}") from error
        environment |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "http.extraHeader", "GIT_CONFIG_VALUE_0": header}
    return environment


def _first_file(folder: Path, *names: str) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)


def hint(message: str) -> str:
    """Return the advice for an error of git, with a separator before it; empty where nothing is known."""
    if fault := _FAULT_PATTERN.search(message):
        return f"; an old history with this fault is taken with --git-ignore-fault {fault[1]}"
    return next((f"; {advice}" for sign, advice in HINTS if sign in message), "")
