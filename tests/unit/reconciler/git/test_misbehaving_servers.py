"""A real https server of git that misbehaves: each fault is one message within its limit, the last head stays, and the
next good answer is taken."""

from __future__ import annotations

import itertools
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reconciler.git.mirror import BranchHead, GitPoller, Mirror
from reconciler.git.process import ERRORS_LIMIT, CommandFailed, run_git
from tests.builders.git_servers import PASSWORD, Answer, Certificates, Trick, http_backend, https_git_server
from tests.builders.git_source import Source

pytestmark = pytest.mark.skipif(not http_backend().exists(), reason="needs git-http-backend")
SHORT = 2.0
"""Seconds for a fetch that never ends."""


@dataclass
class Remote:
    """A server with a password, its repository, a clone of it, and what is done to the answers."""

    source: Source
    tricks: list[Trick]
    mirror: Mirror
    poller: GitPoller

    def poll(self) -> BranchHead:
        self.poller.poll_once()
        return self.poller.head


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, str, list[Trick]]]:
    folder = tmp_path_factory.mktemp("server")
    certificates = Certificates(folder / "certificates")
    certificates.make()
    secret = folder / "secret"
    secret.mkdir()
    (secret / "password").write_text(PASSWORD)
    shutil.copy(certificates.folder / "ca.crt", secret)
    tricks: list[Trick] = []
    with https_git_server(folder, certificates, "password", tricks) as address:
        yield folder, secret, address, tricks


@pytest.fixture
def remote(served: tuple[Path, Path, str, list[Trick]], tmp_path: Path) -> Iterator[Remote]:
    folder, secret, address, tricks = served
    source = Source(folder / tmp_path.name)
    source.git("config", "uploadpack.allowFilter", "true")
    source.commit(a="1\n")
    mirror = Mirror(f"{address}/{tmp_path.name}", "main", tmp_path / "mirror.git", secret, timeout=60)
    yield Remote(source, tricks, mirror, GitPoller(mirror, 1.0, lambda: None))
    tricks.clear()


def is_pack(answer: Answer) -> bool:
    return b"PACK" in answer.body


def endless(piece: bytes, pause: float = 0.0) -> Iterator[bytes]:
    for _ in itertools.count():
        time.sleep(pause)
        yield piece


def packet(text: bytes) -> bytes:
    return b"%04x" % (4 + len(text)) + text


def drip(answer: Answer) -> None:
    """A byte at a time, for ever."""
    answer.body, answer.end = answer.body[:20], endless(b"0", 0.1)


def chatter(answer: Answer) -> None:
    """The remote's progress has no end."""
    if is_pack(answer):
        head = answer.body[: answer.body.index(b"packfile\n") + 9]
        answer.body, answer.end = head, endless(packet(b"\x02" + b"nearly done\n" * 5000))


def name_branches_without_end(answer: Answer) -> None:
    if b"command=ls-refs" in answer.request:
        rows = (packet(b"%040x refs/heads/b%d\n" % (number + 1, number)) * 1000 for number in itertools.count())
        answer.body, answer.end = b"", rows


def truncate(answer: Answer) -> None:
    if is_pack(answer):
        answer.body = answer.body[: answer.body.index(b"PACK") + 40]


def corrupt(answer: Answer) -> None:
    if is_pack(answer):
        at = [*pack_bytes(answer.body)][40]
        answer.body = answer.body[:at] + bytes([answer.body[at] ^ 255]) + answer.body[at + 1 :]


def pack_bytes(body: bytes) -> Iterator[int]:
    """Where the bytes of the pack are. A slow server sends them in more packets, each with a length of its own."""
    at = body.index(b"packfile\n") + 9
    while length := int(body[at : at + 4], 16):
        if body[at + 4] == 1:
            yield from range(at + 5, at + length)
        at += length


def answer_so(**parts: Any) -> Trick:
    """Give these parts of each answer other values."""

    def trick(answer: Answer) -> None:
        for name, value in parts.items():
            setattr(answer, name, value)

    return trick


ELSEWHERE = {"Location": "https://elsewhere.example.com/team.git/info/refs"}


@pytest.mark.parametrize(
    ("trick", "words"),
    [
        (truncate, r"fetch failed .*(early EOF|hung up|disconnect)"),
        (corrupt, r"fetch failed .*(inflate|corrupt|pack|mismatch|SHA1)"),
        (answer_so(status=302, headers=ELSEWHERE), r"returned error: 302; redirects are not followed"),
        (
            answer_so(headers={"Content-Type": "text/html"}, body=b"<html>Log in</html>"),
            r"has no branch main, or there is no git server",
        ),
        (answer_so(body=b""), r"fetch failed .*hung up"),
        (answer_so(status=401, body=b""), r"Authentication failed .*; the server does not take"),
        (answer_so(status=404, body=b""), r"not found"),
        (answer_so(status=500, body=b""), r"returned error: 500"),
    ],
)
def test_a_wrong_answer_is_one_message_and_the_head_stays(trick: Trick, words: str, remote: Remote) -> None:
    before = remote.poll()
    assert before.problem == ""
    after = remote.source.commit(b="2\n")
    remote.tricks.append(trick)
    found = remote.poll()
    assert (found.commit, found.tree) == (before.commit, before.tree)
    assert re.search(words, found.problem, re.DOTALL), found.problem
    assert PASSWORD not in found.problem
    assert remote.poller.failures == 1
    remote.tricks.clear()
    found = remote.poll()
    assert (found.commit, found.problem) == (after, "")
    assert found.tree is not None
    assert found.tree.files.keys() == {"jobs/a.yaml", "jobs/b.yaml"}


@pytest.mark.parametrize("trick", [drip, chatter, name_branches_without_end])
def test_an_answer_without_end_is_cut_off(trick: Trick, remote: Remote) -> None:
    before = remote.poll().commit
    remote.source.commit(b="2\n")
    remote.tricks.append(trick)
    remote.mirror.timeout = SHORT
    found = remote.poll()
    assert (found.commit, found.problem) == (before, "git fetch did not end within 2 s")


def test_the_end_of_what_a_command_says_is_kept_and_no_more(tmp_path: Path) -> None:
    """A remote that talks without end filled the reconciler's memory."""
    script = tmp_path / "script"
    script.write_text(f"head -c {4 * ERRORS_LIMIT} /dev/zero >&2; echo fatal: the end >&2; echo out; exit 3")
    with pytest.raises(CommandFailed) as failure:
        run_git(tmp_path, ["sh", str(script)], {"PATH": "/usr/bin:/bin"}, 60)
    assert failure.value.status == 3
    assert failure.value.errors_text.endswith("fatal: the end")
    assert len(failure.value.errors_text) < ERRORS_LIMIT
