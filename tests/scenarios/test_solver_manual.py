"""The examples in docs/develop/solver.md do what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from solver import Plan

MANUAL = Path(__file__).parents[2] / "docs" / "develop" / "solver.md"


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)


def printed_by(code: str, names: dict[str, object]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(MANUAL), "exec"), names)  # noqa: S102 - our own page
    return printed.getvalue()


def test_the_examples_of_the_manual_print_what_the_manual_shows() -> None:
    (first, parallel), (shown,) = examples("python"), examples("text")
    names: dict[str, object] = {"__name__": "__main__"}
    assert printed_by(first, names) == shown
    plan = names["plan"]
    assert printed_by(parallel, names) == "\n"
    assert isinstance(plan, Plan)
    assert isinstance(names["plan"], Plan)
    assert names["plan"].decisions == plan.decisions
