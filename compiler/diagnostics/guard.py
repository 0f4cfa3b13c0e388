"""The guard around code that works on one document: an exception there becomes an error of that document.

Every place that reads, checks, lowers, explains or emits a document runs inside `guarded`. The document is then left
out, and all others are processed. An exception anywhere else exits the command with one line (`compiler.cli`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

from compiler.diagnostics.diagnostic import Diagnostic, Position, declare_rule

log = logging.getLogger(__name__)

INTERNAL_ERROR = declare_rule("GP139", "error")
REPORT = "report this bug with the document; take the document out meanwhile"
_SOURCES = Path(__file__).parents[2]
_PACKAGES = ("compiler", "reconciler", "solver")

TakeError = Callable[[Diagnostic], None]
"""Takes the error of a document."""


class Subject(Protocol):
    """A document, or a part of a file that may become one."""

    @property
    def display_name(self) -> str: ...

    def position(self, *path: str | int) -> Position: ...


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a file that begins at `at`."""

    at: Position
    display_name: str = ""

    def position(self, *path: str | int) -> Position:
        return self.at


@contextmanager
def guarded(subject: Subject, report: TakeError) -> Iterator[None]:
    """Run the block; an exception in it becomes an error of `subject`."""
    try:
        yield
    except MemoryError:  # of the process, not of the document
        raise
    except Exception as error:
        report(internal_error(subject, error))


def internal_error(subject: Subject, error: Exception, task: str = "") -> Diagnostic:
    """Return the error of a document for an exception. task: the failed task, in addition to the place."""
    log.debug("internal error on %s", subject.display_name, exc_info=error)
    message = f"{task or 'gangplan'} failed on {subject.display_name or 'this document'}: {exception_text(error)}"
    return INTERNAL_ERROR.diagnostic(subject.position(), message, REPORT, object=subject.display_name)


def exception_text(error: BaseException) -> str:
    """Return type and innermost place in our code, without the exception's own text: that may differ from run to run,
    or quote a secret."""
    return f"{type(error).__name__} in {_innermost_place(error.__traceback__)}"


def _innermost_place(traceback: TracebackType | None) -> str:
    place = "unknown code"
    while traceback is not None:
        code = traceback.tb_frame.f_code
        path = Path(code.co_filename)
        if path.is_relative_to(_SOURCES):
            file = path.relative_to(_SOURCES)
            if file.parts[0] in _PACKAGES and path != Path(__file__):
                place = f"{file.as_posix()}:{traceback.tb_lineno} ({code.co_name})"
        traceback = traceback.tb_next
    return place


def raise_again(diagnostic: Diagnostic) -> None:
    """A `TakeError` with which the exception passes the guard."""
    raise  # guarded calls it while it handles the exception


def has_internal_error(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(diagnostic.code == INTERNAL_ERROR.code for diagnostic in diagnostics)
