"""A mounted Secret opens real servers, and nothing of it is an argument of a process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.git.access import hint, network_environment
from reconciler.git.mirror import Mirror
from reconciler.git.process import GitError
from tests.builders.git_servers import (
    PASSWORD,
    TOKEN,
    UID,
    Certificates,
    http_backend,
    https_git_server,
    make_key,
    ssh_git_server,
)
from tests.builders.git_source import Source
from tests.builders.mounts import CAN_MOUNT

ROOT = Path(__file__).resolve().parents[4]
CAN_SERVE_HTTPS = http_backend().exists()


needs_ssh = pytest.mark.skipif(
    not CAN_MOUNT or shutil.which("ssh") is None, reason="needs ssh, root and mount namespaces"
)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("tls") / "certificates")
    made.make()
    return made


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "secret"
    folder.mkdir()
    return folder


@pytest.mark.skipif(not CAN_SERVE_HTTPS, reason="needs git-http-backend")
@pytest.mark.parametrize(
    ("ask", "files"),
    [
        ("password", {"username": "robot", "password": PASSWORD + "\n"}),
        ("password", {"password": PASSWORD}),
        ("bearer", {"bearerToken": TOKEN + "\n"}),
        ("certificate", {"tls.crt": "", "tls.key": ""}),
    ],
)
def test_https_with_each_kind_of_secret(
    ask: str, files: dict[str, str], certificates: Certificates, secret: Path, tmp_path: Path
) -> None:
    source = Source(tmp_path / "served" / "team.git")
    source.git("config", "uploadpack.allowFilter", "true")
    commit = source.commit(a="1\n")
    with https_git_server(tmp_path / "served", certificates, ask) as address:
        mirror = Mirror(f"{address}/team.git", "main", tmp_path / "mirror.git", secret, timeout=60)
        with pytest.raises(GitError, match="certificate"):
            mirror.fetch()
        shutil.copy(certificates.folder / "ca.crt", secret)
        with pytest.raises(GitError, match=r"git fetch failed"):
            mirror.fetch()
        for name, text in files.items():
            (secret / name).write_text(text or (certificates.folder / name).read_text())
        assert mirror.fetch() == commit
        assert mirror.read_tree(commit).files == {"jobs/a.yaml": b"1\n"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that any user may read, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="gangplan-ssh-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


ROOT_LINE = "root:x:0:0::/root:/bin/sh\n"
FETCH_AS_USER = """
import os, sys
from pathlib import Path
from reconciler.git.mirror import Mirror
from reconciler.git.process import GitError
address, folder, secret = sys.argv[1:]
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
try:
    print(Mirror(address, "main", Path(folder), Path(secret), timeout=60).fetch())
except GitError as error:
    print(error)
"""


def fetch_as_image_user(address: str, folder: Path, secret: Path, passwd: str) -> str:
    """What a fetch as the user of the image comes to where /etc/passwd holds `passwd`."""
    (folder / "passwd").write_text(passwd)
    (folder / "data").mkdir(exist_ok=True)
    os.chown(folder / "data", UID, UID)
    script = f'mount --bind {folder}/passwd /etc/passwd && exec "$@"'
    program = (sys.executable, "-c", FETCH_AS_USER.format(uid=UID), address, folder / "data" / "mirror.git", secret)
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *map(str, program)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def passwd_line_of_image() -> str:
    lines = (ROOT / "deploy/Dockerfile").read_text().splitlines()
    (line,) = [line for line in lines if "/etc/passwd" in line]
    return line.partition("'")[2].partition("'")[0] + "\n"


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@needs_ssh
def test_ssh_wants_the_user_that_the_image_has(open_folder: Path, free_port: int) -> None:
    """Nothing listens on the port, so the second fails later than the first."""
    secret = open_folder / "secret"
    secret.mkdir()
    address = f"ssh://git@127.0.0.1:{free_port}/repo"
    message = fetch_as_image_user(address, open_folder, secret, ROOT_LINE)
    assert "No user exists for uid 65532" in message
    assert "/etc/passwd" in message.partition(";")[2], "the hint says what to do"
    assert "refused" in fetch_as_image_user(address, open_folder, secret, ROOT_LINE + passwd_line_of_image())


@needs_ssh
def test_ssh_with_a_key_and_known_hosts_as_the_user_of_the_image(open_folder: Path, free_port: int) -> None:
    source = Source(open_folder / "team.git")
    commit = source.commit(a="1\n")
    subprocess.run(["chown", "-R", f"{UID}:{UID}", source.folder], check=True)
    with ssh_git_server(open_folder, free_port) as server:
        address = f"ssh://git@127.0.0.1:{server.port}{source.folder}"

        def fetch() -> str:
            return fetch_as_image_user(address, open_folder, server.secret, ROOT_LINE + passwd_line_of_image())

        assert fetch() == commit
        (server.secret / "ssh-privatekey").rename(server.secret / "identity")
        assert fetch() == commit

        known_hosts = server.secret / "known_hosts"
        known = known_hosts.read_text()
        changed = f"[127.0.0.1]:{server.port} {make_key(open_folder / 'another-host')}"
        for text in ("", changed):
            known_hosts.write_text(text)
            assert "known_hosts of the Secret" in fetch()
        known_hosts.write_text(known)

        (server.secret / "identity").unlink()
        make_key(server.secret / "identity")
        os.chown(server.secret / "identity", UID, UID)
        assert "the server takes no key of the Secret" in fetch()


def test_no_secret_is_in_the_command_of_ssh_and_without_one_no_host_is_known_and_nothing_is_asked(secret: Path) -> None:
    (secret / "ssh-privatekey").write_text("the key")
    command = network_environment("ssh", secret)["GIT_SSH_COMMAND"]
    assert "the key" not in command
    assert f"-i {secret}/ssh-privatekey" in command
    assert "StrictHostKeyChecking=yes" in command
    environment = network_environment("https:ssh", None)
    assert "UserKnownHostsFile=/dev/null" in environment["GIT_SSH_COMMAND"]
    assert "GIT_ASKPASS" not in environment
    assert hint("fatal: something new") == ""


def test_a_token_that_cannot_be_read_is_an_error_of_git(secret: Path) -> None:
    (secret / "bearerToken").write_bytes(b"\xff")
    with pytest.raises(GitError, match="bearerToken cannot be read"):
        network_environment("https", secret)
