"""Output of native libraries and child processes that is not in the log's format, as JSON.

The file is run by its path, as a process of its own that reads a pipe: a thread could not forward the output of a
process that crashes, and a library that fills the pipe while it holds Python's lock would wait for that thread for
ever. So it imports nothing beyond the standard library.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from datetime import UTC, datetime

LINE_LIMIT = 8 << 10  # bytes of a line; longer ones are split
IDLE = 1.0  # seconds after which a line without an end counts as one
CLICK_ERROR = "Error: "  # click's prefix of the line on why a command exits


def line_head(created: float, level: str) -> dict[str, object]:
    time_text = datetime.fromtimestamp(created, UTC).isoformat(timespec="milliseconds")
    return {"time": time_text, "level": level}


def write_line(target: int, lock: int, line: bytes) -> None:
    """Write the line as a whole, though another process writes to the same pipe. lock: a file of both."""
    fcntl.lockf(lock, fcntl.LOCK_EX)
    try:
        while line:
            line = line[os.write(target, line) :]
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN)


def wrapped(line: bytes) -> bytes:
    """Return the line as JSON; nothing for a blank line."""
    text = line.decode("utf-8", "replace").rstrip()
    if not text:
        return b""
    message = text.removeprefix(CLICK_ERROR)
    level = "warning" if message == text else "error"
    return json.dumps({**line_head(time.time(), level), "message": message}).encode() + b"\n"


def copy_lines(source: int, target: int, lock: int) -> None:
    """Copy lines as JSON until nobody can write to `source`. It is read on where nothing can be written: writers
    wait."""

    def say(line: bytes) -> None:
        if said := wrapped(line):
            with contextlib.suppress(OSError):
                write_line(target, lock, said)

    rest = b""
    while True:
        if rest and not select.select([source], [], [], IDLE)[0]:
            say(rest)
            rest = b""
        piece = os.read(source, 1 << 16)
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            while line:
                say(line[:LINE_LIMIT])
                line = line[LINE_LIMIT:]
        while len(rest) > LINE_LIMIT:
            say(rest[:LINE_LIMIT])
            rest = rest[LINE_LIMIT:]
        if not piece:
            say(rest)
            return


def main() -> None:
    """It ends with the last process that can write to its pipe, not by what ends those."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    copy_lines(sys.stdin.fileno(), sys.stdout.fileno(), int(sys.argv[1]))


if __name__ == "__main__":
    main()
