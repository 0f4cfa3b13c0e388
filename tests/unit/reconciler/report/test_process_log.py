"""Whatever a process says is a JSON line on standard error, however it is said and however the process ends."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.report.process_log import JsonFormatter
from reconciler.report.stray_lines import LINE_LIMIT, copy_lines

ROOT = Path(__file__).resolve().parents[4]
SETUP = """
import ctypes, logging, os, signal, subprocess, sys, threading, time, warnings
from reconciler.report.process_log import JsonFormatter, log_as_json
log_as_json(JsonFormatter(lambda: {"revision": "c0ffee"}))
"""
SPEAKERS = {
    "a log line": ("logging.getLogger('x').info('said', extra={'object': 'Queue team'})", "info", "said"),
    "a warning": ("warnings.warn('careful')", "warning", "<string>:2: UserWarning: careful"),
    "print": ("print('said')", "warning", "said"),
    "standard output": (r"os.write(1, b'said\n')", "warning", "said"),
    "standard error": (r"os.write(2, b'said\n')", "warning", "said"),
    "without an end of line": ("os.write(2, b'said')", "warning", "said"),
    "no text": (r"os.write(2, b'\xffsaid\x00\n')", "warning", "\ufffdsaid\0"),
    "a C library": ("ctypes.CDLL(None).puts(b'said')", "warning", "said"),
    "a child": ("subprocess.run('echo said', shell=True)", "warning", "said"),
    "a child's errors": ("subprocess.run('echo said >&2', shell=True)", "warning", "said"),
    "a fork": (r"os.fork() or (os.write(2, b'said\n'), os._exit(0)); os.wait()", "warning", "said"),
    "a child that stays": (
        "child = subprocess.Popen('echo said; read end', shell=True, stdin=subprocess.PIPE); time.sleep(0.5)",
        "warning",
        "said",
    ),
    "a thread": (
        "thread = threading.Thread(target=lambda: 1 / 0, name='t'); thread.start(); thread.join()",
        "error",
        "the thread t ended by an unexpected error",
    ),
    "the last error": ("1 / 0", "critical", "the process ends by an unexpected error"),
    "a destructor": (
        "type('Thing', (), {'__del__': lambda self: 1 / 0, '__repr__': lambda self: 'it'})()",
        "warning",
        "an error was ignored in <function <lambda>",
    ),
    "a command's end": ("import click; click.ClickException('said').show()", "error", "said"),
    "before a kill": (r"os.write(2, b'said\n'); os.kill(os.getpid(), signal.SIGKILL)", "warning", "said"),
    "before an exit without clean-up": (r"os.write(2, b'said\n'); os._exit(1)", "warning", "said"),
    "an abort": (r"os.write(2, b'terminate called\n'); ctypes.CDLL(None).abort()", "warning", "terminate called"),
}


def lines_of(code: str, **environment: str) -> list[dict[str, Any]]:
    """What a process says that has logged as JSON since its beginning. Every line is an object with what each has."""
    done = subprocess.run(
        [sys.executable, "-c", SETUP.strip().replace("\n", "; ") + "\n" + code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "", "logs are on standard error"
    lines: list[dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    return lines


def test_a_line_has_what_was_logged_with_it_and_the_revision_in_force() -> None:
    record = logging.makeLogRecord({"msg": "change", "levelname": "INFO", "object": "Queue team"})
    for fields, added in (({"revision": ""}, {}), ({"revision": "c0ffee"}, {"revision": "c0ffee"})):
        line = json.loads(JsonFormatter(lambda fields=fields: fields).format(record))  # type: ignore[misc]
        del line["time"]
        assert line == {"level": "info", "message": "change", "object": "Queue team", **added}


@pytest.mark.parametrize("speaker", SPEAKERS)
def test_whoever_speaks_is_a_json_line(speaker: str) -> None:
    code, level, message = SPEAKERS[speaker]
    (line,) = lines_of(code)
    assert line["level"] == level
    assert line["message"].startswith(message)
    assert ("exception" in line) == ("1 / 0" in code)
    assert line.get("exception", "ZeroDivisionError: division by zero").endswith("ZeroDivisionError: division by zero")


def test_a_crash_says_where() -> None:
    """The reader is a process of its own: a thread would end with the crash, its text unread."""
    lines = lines_of("os.kill(os.getpid(), signal.SIGSEGV)", PYTHONFAULTHANDLER="1")
    assert lines[0]["message"] == "Fatal Python error: Segmentation fault"


def test_a_library_that_fills_the_pipe_and_keeps_the_lock_of_python_does_not_hang() -> None:
    """`ctypes.PyDLL` calls with the lock held."""
    lines = lines_of(r"ctypes.PyDLL(None).write(2, b'x' * 99 + b'\n' + b'y' * 500_000, 500_100)")
    assert lines[0]["message"] == "x" * 99
    assert "".join(line["message"] for line in lines[1:]) == "y" * 500_000


def test_long_log_lines_are_whole_beside_strays() -> None:
    lines = lines_of(
        """
child = subprocess.Popen("i=0; while [ $i -lt 2000 ]; do echo stray; i=$((i+1)); done", shell=True)
for _ in range(100):
    logging.getLogger("x").info("z" * 100_000)
child.wait()
"""
    )
    assert [line["message"] for line in lines].count("z" * 100_000) == 100
    assert [line["message"] for line in lines].count("stray") == 2000
    assert len(lines) == 2100


def test_sigterm_leaves_the_reader_until_the_last_line() -> None:
    """Where all of a group are told to end."""
    code = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("the end")))
time.sleep(0.5)
children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
for pid in (*map(int, children), os.getpid()):
    os.kill(pid, signal.SIGTERM)
time.sleep(60)
"""
    (line,) = lines_of(code)
    assert line["message"] == "the end"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_obstacle(closed: str, tmp_path: Path) -> None:
    code = SETUP + "print('said')\nlogging.getLogger('x').info('said')\nopen(sys.argv[1], 'w').write('done')"
    (tmp_path / "code.py").write_text(code)
    script = f'exec "$1" "$2" "$3" {closed}'
    command = ["sh", "-c", script, "sh", sys.executable, str(tmp_path / "code.py"), str(tmp_path / "end")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, (tmp_path / "end").read_text()) == (0, "done")
    assert [json.loads(line)["message"] for line in done.stderr.splitlines()] in ([], ["said"], ["said", "said"])


def copied(*pieces: bytes) -> list[str]:
    """The messages of what is written to the reader's pipe."""
    source, sink = os.pipe()
    target, lock = os.memfd_create("target"), os.memfd_create("lock")
    for piece in pieces:
        os.write(sink, piece)
    os.close(sink)
    copy_lines(source, target, lock)
    text = os.pread(target, 1 << 20, 0)
    for number in (source, target, lock):
        os.close(number)
    return [json.loads(line)["message"] for line in text.splitlines()]


def test_lines_are_cut_at_their_ends_and_at_a_limit() -> None:
    assert copied(b"one\ntw", b"o\r\n\n  \nthree") == ["one", "two", "three"]
    assert copied(b"x" * (LINE_LIMIT + 1)) == ["x" * LINE_LIMIT, "x"]
    assert copied(b"x" * LINE_LIMIT + b"\ny") == ["x" * LINE_LIMIT, "y"]
    assert copied() == []


def test_what_cannot_be_written_is_read_all_the_same() -> None:
    source, sink = os.pipe()
    os.write(sink, b"lost\n" * 100)
    os.close(sink)
    with Path("/dev/full").open("wb") as full:
        lock = os.memfd_create("lock")
        copy_lines(source, full.fileno(), lock)
    assert os.read(source, 1) == b""
    os.close(source)
    os.close(lock)
