"""`python -m tests.builders.ssh_server PORT HOST_KEY AUTHORIZED_KEYS UID`: an ssh server on loopback for git fetches.

It takes the keys of the file and no password, and runs git-upload-pack, as this user, and nothing else. Needs root.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from functools import partial
from subprocess import PIPE, Popen

import asyncssh


async def serve_fetch(uid: int, process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run what the client asks for, as `git fetch` asks: git-upload-pack with one path."""
    words = shlex.split(process.command or "")
    if len(words) != 2 or words[0] != "git-upload-pack":
        process.stderr.write(b"only fetches are served\n")
        process.exit(1)
        return
    command = Popen(words, stdin=PIPE, stdout=PIPE, stderr=PIPE, user=uid, group=uid, extra_groups=())
    await process.redirect(command.stdin, command.stdout, command.stderr)
    process.exit(await asyncio.to_thread(command.wait))


async def serve(port: int, host_key: str, authorized_keys: str, uid: int) -> None:
    server = await asyncssh.listen(
        "127.0.0.1",
        port,
        server_host_keys=[host_key],
        authorized_client_keys=authorized_keys,
        process_factory=partial(serve_fetch, uid),
        encoding=None,
    )
    print("Server listening", file=sys.stderr, flush=True)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
