"""The log of a process as JSON: its own output, and that of its libraries and children, as JSON lines."""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from reconciler.report import stray_lines

log = logging.getLogger(__name__)

LAST_LINES_SECONDS = 2.0  # for the last lines: the exit of a container's first process kills all


class JsonFormatter(logging.Formatter):
    """One JSON object a line: the record, its extra fields, and those that `fields` returns for every line."""

    _STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

    def __init__(self, fields: Callable[[], Mapping[str, object]] = dict) -> None:
        super().__init__()
        self.fields = fields

    def add_fields(self, fields: Callable[[], Mapping[str, object]]) -> None:
        self.fields = fields

    def format(self, record: logging.LogRecord) -> str:
        line = stray_lines.line_head(record.created, record.levelname.lower())
        line |= {name: str(value) for name, value in self.fields().items() if value}
        line |= {
            "message": record.getMessage().rstrip(),
            **{k: v for k, v in vars(record).items() if k not in self._STANDARD_FIELDS},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class LineHandler(logging.Handler):
    """Writes each line as a whole to a file descriptor to which another process writes too."""

    def __init__(self, target: int, lock: int) -> None:
        super().__init__()
        self.target, self.file_lock = target, lock

    def emit(self, record: logging.LogRecord) -> None:
        try:
            stray_lines.write_line(self.target, self.file_lock, self.format(record).encode() + b"\n")
        except Exception:  # as the handlers of the standard library do
            self.handleError(record)


def log_as_json(formatter: JsonFormatter) -> None:
    """Log to standard error. If that is the process's own, also warnings, uncaught errors, and lines printed to
    standard output and error."""
    is_own = sys.stderr is not None and sys.stderr is sys.__stderr__
    handler = _handler_of_process() if is_own else logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    if is_own:
        logging.captureWarnings(True)
        last = "the process ends by an unexpected error"
        sys.excepthook = lambda kind, error, trace: log.critical(last, exc_info=(kind, error, trace))
        threading.excepthook = _log_error_of_thread
        sys.unraisablehook = _log_ignored_error


def _handler_of_process() -> logging.Handler:
    """Return a handler that writes to standard error itself; all other output goes through a pipe. Terminals stay: a
    person is there, whom a credential plugin may ask something."""
    opened = [stream for stream in (sys.__stdout__, sys.__stderr__) if stream is not None]
    taken = [stream.fileno() for stream in opened if not stream.isatty()]
    if not taken:
        return logging.StreamHandler(sys.stderr)
    if sys.__stdout__ is not None:
        taken.append(1)  # that of native libraries and child processes: see `reconciler.cli.keep_stdout_for_python`
    target, lock = os.dup(2), os.memfd_create("gangplan-log")
    source, sink = os.pipe()
    reader = subprocess.Popen(
        [sys.executable, "-I", "-S", stray_lines.__file__, str(lock)],
        stdin=source,
        stdout=target,
        stderr=subprocess.DEVNULL,
        pass_fds=(lock,),
        start_new_session=True,
    )
    os.close(source)
    for number in taken:
        os.dup2(sink, number)
    os.close(sink)
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        sys.stdout.reconfigure(line_buffering=True)
    atexit.register(_end_reader, reader, taken)
    return LineHandler(target, lock)


def _end_reader(reader: subprocess.Popen[bytes], taken: Sequence[int]) -> None:
    """Wait until the last lines are written; a remaining child may continue to write some."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in taken:
        os.dup2(nowhere, number)
    os.close(nowhere)
    with contextlib.suppress(subprocess.TimeoutExpired):
        reader.wait(LAST_LINES_SECONDS)


def _log_error_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is None or issubclass(args.exc_type, SystemExit):
        return
    name = args.thread.name if args.thread is not None else "that is not known"
    details = (args.exc_type, args.exc_value, args.exc_traceback)
    log.error("the thread %s ended by an unexpected error", name, exc_info=details)


def _log_ignored_error(args: sys.UnraisableHookArgs) -> None:
    """Log an error that Python cannot raise: one in `__del__`, for example."""
    error = args.exc_value or args.exc_type()
    details = (args.exc_type, error, args.exc_traceback)
    log.warning("%s %r", args.err_msg or "an error was ignored in", args.object, exc_info=details)
