"""One git process: fixed configuration, an environment of its own, a process group and a time limit.

Everything that runs git runs it through this module, GitPython included (`reconciler.git.objects`). No shell, no hooks,
no prompts, no redirects, no replacement objects; neither the user's nor the system's configuration, and none of the
variables by which git could be steered (GIT_DIR in a hook, GIT_SSH, GIT_CONFIG_COUNT).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

GIT_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.symlinks=false",
    "transfer.fsckObjects=true",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.followRedirects=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
)
_PROXY_VARIABLES = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
_CREDENTIALS_PATTERN = re.compile(r"(?<=://)[^/@\s]+@")


class GitError(Exception):
    """Git did not do what was asked. The message holds no credentials."""


def redact(text: str) -> str:
    """`text` without the user and password of any address in it."""
    return _CREDENTIALS_PATTERN.sub("", text)


def local_environment() -> dict[str, str]:
    """The environment of a command that reads objects: no protocol may be spoken, so nothing is fetched lazily."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


def network_environment(protocols: str, auth: Path | None) -> dict[str, str]:
    """The environment of a command that speaks to a remote. auth: as in `reconciler.git.mirror.Mirror`."""
    environment = {**local_environment(), "GIT_ALLOW_PROTOCOL": protocols}
    environment |= {name: os.environ[name] for name in _PROXY_VARIABLES if name in os.environ}
    known_hosts, key = "/dev/null", ""
    if auth is not None:
        known_hosts = str(auth / "known_hosts")
        key = f" -o IdentitiesOnly=yes -i {auth / 'ssh-privatekey'}"
        environment["GIT_ASKPASS"] = str(Path(__file__).with_name("askpass.sh"))
        environment["GANGPLAN_GIT_AUTH"] = str(auth)
    environment["GIT_SSH_COMMAND"] = (
        f"ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile={known_hosts}{key}"
    )
    return environment


def git_command(*arguments: str) -> list[str]:
    """The argument list of git with the fixed configuration."""
    command = ["git"]
    for entry in GIT_CONFIG:
        command += ["-c", entry]
    return [*command, *arguments]


def start_git(
    directory: Path, command: Sequence[str], environment: Mapping[str, str], has_input: bool = False
) -> subprocess.Popen[bytes]:
    """Start `command` in a process group of its own. Raises OSError where there is no git."""
    return subprocess.Popen(
        list(command),
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End git and what it started (ssh, git-remote-https), which would else keep the pipes open."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def run_git(
    directory: Path, command: Sequence[str], environment: Mapping[str, str], timeout: float
) -> tuple[int, bytes, bytes]:
    """Exit code, output and errors of `command`. Raises GitError when it does not end within `timeout` seconds."""
    process = start_git(directory, command, environment)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.communicate()
        raise GitError(f"git {subcommand_of(command)} did not end within {timeout:g} s") from None
    return process.returncode, output, errors


def subcommand_of(command: Sequence[str]) -> str:
    """`fetch` of `git -c a=b fetch ...`."""
    at = 1
    while command[at] == "-c":
        at += 2
    return command[at]
